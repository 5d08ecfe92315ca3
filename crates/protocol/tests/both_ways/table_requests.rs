//! Requests to the table service, as the server reads them.

use proptest::prelude::*;
use tavola_model::{
    Command, Comparison, DateTime, EdmValue, EntityChange, EntityKey, EntityWrite, ErrorCode, Etag,
    EtagCondition, Filter, FilterBuilder, FilterNode, Key, Operator, PropertyRef, StorageService,
    TableCommand, TableName,
};
use tavola_protocol::Request;
use tavola_protocol::table::{self, ChangeRequest, EntitiesQuery, EntityRequest, IfMatch, TablesQuery};

use crate::generate::{
    Owned, any_identifiers, any_key, any_table, any_time, any_value, any_values, packed, same,
};
use crate::wire::{BASE, IDS, ask};

fn read(request: &Request) -> TableCommand {
    match ask(StorageService::Table, request).command.unwrap() {
        Command::Table(command) => command,
        other => panic!("{other:?}"),
    }
}

/// A change as a test describes it.
#[derive(Clone, Debug)]
struct Change {
    key: EntityKey,
    kind: usize,
    values: Vec<(String, Owned)>,
    etag: Option<DateTime>,
}

fn any_change() -> impl Strategy<Value = Change> {
    (any_key(), 0..6usize, any_values(), prop::option::of(any_time()))
        .prop_map(|(key, kind, values, etag)| Change { key, kind, values, etag })
}

impl Change {
    /// Gives the change as a client writes it.
    fn with_request<T>(&self, give: impl FnOnce(&EntityRequest<'_>) -> T) -> T {
        let values: Vec<(&str, EdmValue<'_>)> =
            self.values.iter().map(|(name, value)| (name.as_str(), value.as_edm())).collect();
        let etag = self.etag.map(|time| Etag(time).to_string());
        let condition = etag.as_deref().map_or(IfMatch::Any, IfMatch::Etag);
        let change = match self.kind {
            0 => ChangeRequest::Insert(&values),
            1 => ChangeRequest::InsertOrReplace(&values),
            2 => ChangeRequest::InsertOrMerge(&values),
            3 => ChangeRequest::Update(&values, condition),
            4 => ChangeRequest::Merge(&values, condition),
            _ => ChangeRequest::Delete(condition),
        };
        give(&EntityRequest { key: &self.key, change })
    }

    fn check(&self, write: &EntityWrite) {
        let condition = self.etag.map_or(EtagCondition::Any, |time| EtagCondition::Is(Etag(time)));
        assert_eq!(write.key, self.key);
        let properties = match (self.kind, &write.change) {
            (0, EntityChange::Insert(properties))
            | (1, EntityChange::InsertOrReplace(properties))
            | (2, EntityChange::InsertOrMerge(properties)) => properties,
            (3, EntityChange::Update(properties, read)) | (4, EntityChange::Merge(properties, read)) => {
                assert_eq!(*read, condition);
                properties
            }
            (5, EntityChange::Delete(read)) => return assert_eq!(*read, condition),
            (kind, change) => panic!("{kind} {change:?}"),
        };
        assert!(same(properties, &packed(&self.values)), "{:?}", self.values);
    }
}

/// Comparisons joined by `and` and `or`, some of them denied.
fn any_filter() -> impl Strategy<Value = Filter> {
    let property = prop::sample::select(vec!["PartitionKey", "RowKey", "Timestamp", "Age", "eq_1"]);
    let operators = vec![Operator::Eq, Operator::Ne, Operator::Gt, Operator::Ge, Operator::Lt, Operator::Le];
    let is_literal = |value: &Owned| !matches!(value, Owned::Double(number) if !number.is_finite());
    let value = any_value().prop_filter("a literal", is_literal);
    let step = (property, prop::sample::select(operators), value, 0..4u8);
    prop::collection::vec(step, 1..6).prop_map(|steps| {
        let mut builder = FilterBuilder::new();
        let mut root = None;
        for (property, operator, value, join) in steps {
            let comparison = Comparison::new(PropertyRef::from_name(property), operator, value.as_edm());
            let mut node = builder.add(FilterNode::Compare(comparison));
            if join >= 2 {
                node = builder.add(FilterNode::Not(node));
            }
            root = Some(match root {
                None => node,
                Some(before) if join % 2 == 0 => builder.add(FilterNode::And(before, node)),
                Some(before) => builder.add(FilterNode::Or(before, node)),
            });
        }
        builder.finish()
    })
}

proptest! {
    #[test]
    fn a_write_is_read_as_it_was_meant(table in any_table(), change in any_change()) {
        let request = change.with_request(|write| table::write_entity(&table, write)).unwrap();
        let TableCommand::WriteEntity(read_table, write) = read(&request) else { panic!("no write") };
        prop_assert_eq!(read_table, table);
        change.check(&write);
    }

    #[test]
    fn a_transaction_is_read_as_it_was_meant(
        table in any_table(),
        partition in "[a-z' \u{e9}]{0,8}",
        changes in prop::collection::vec(any_change(), 1..12),
    ) {
        let row = |index: usize| Key::parse(&format!("{index}'")).unwrap();
        let partition = Key::parse(&partition).unwrap();
        let changes: Vec<Change> = changes.into_iter().enumerate().map(|(index, change)| {
            Change { key: EntityKey { partition: partition.clone(), row: row(index) }, ..change }
        }).collect();
        let request = transaction(&table, &changes).unwrap();
        let TableCommand::TransactEntities(read) = read(&request) else { panic!("no transaction") };
        prop_assert_eq!(read.table, table);
        prop_assert_eq!(read.writes.len(), changes.len());
        changes.iter().zip(&read.writes).for_each(|(change, write)| change.check(write));
    }

    #[test]
    fn a_query_is_read_as_it_was_meant(
        table in any_table(),
        filter in prop::option::of(any_filter()),
        top in prop::option::of(1..=1000u32),
        select in prop::collection::btree_set("[A-Za-z_][A-Za-z0-9_]{0,8}", 0..4),
    ) {
        let text = filter.as_ref().map(table::filter_text);
        let select: Vec<&str> = select.iter().map(String::as_str).collect();
        let query = EntitiesQuery { filter: text.as_deref(), select: &select, top, from: None };
        let asked = ask(StorageService::Table, &table::query_entities(&table, &query));
        let Ok(Command::Table(TableCommand::QueryEntities(read))) = asked.command else { panic!("no query") };
        prop_assert_eq!(read.table, table);
        prop_assert_eq!(read.filter, filter);
        prop_assert_eq!(read.top, top.map(|top| top as usize));
        let names = asked.form.select.names.unwrap_or_default();
        prop_assert_eq!(names, select);
    }

    #[test]
    fn an_entity_is_asked_for_by_its_keys(table in any_table(), key in any_key()) {
        let TableCommand::GetEntity(get) = read(&table::get_entity(&table, &key, &["a", "b"])) else { panic!("no get") };
        prop_assert_eq!((get.table, get.key), (table, key));
    }

    #[test]
    fn tables_and_their_policies_are_asked_for_by_name(
        table in any_table(),
        identifiers in any_identifiers("raud"),
        top in prop::option::of(1..=1000u32),
    ) {
        let name = |command: TableCommand| command.table().cloned();
        for request in [table::get_table(&table), table::delete_table(&table), table::create_table(&table),
            table::get_table_acl(&table)] {
            prop_assert_eq!(name(read(&request)), Some(table.clone()));
        }
        prop_assert!(matches!(read(&table::get_table(&table)), TableCommand::GetTable(_)));
        prop_assert!(matches!(read(&table::delete_table(&table)), TableCommand::DeleteTable(_)));
        prop_assert!(matches!(read(&table::create_table(&table)), TableCommand::CreateTable(_)));
        prop_assert!(matches!(read(&table::get_table_acl(&table)), TableCommand::GetTableAcl(_)));
        let TableCommand::SetTableAcl(of, set) = read(&table::set_table_acl(&table, &identifiers)) else { panic!("no set") };
        prop_assert_eq!((of, set), (table, identifiers));
        let TableCommand::QueryTables(query) = read(&table::query_tables(&TablesQuery { top, ..TablesQuery::default() }))
            else { panic!("no query") };
        prop_assert_eq!(query.top, top.map(|top| top as usize));
    }
}

fn transaction(table: &TableName, changes: &[Change]) -> Result<Request, tavola_model::ServiceError> {
    // Each request borrows from its change; the innermost call has all of them.
    fn collect<'a>(
        table: &TableName,
        rest: &[Change],
        writes: &mut Vec<EntityRequest<'a>>,
    ) -> Result<Request, tavola_model::ServiceError> {
        let Some((first, rest)) = rest.split_first() else {
            return table::transact_entities(table, writes, BASE, IDS);
        };
        first.with_request(|write| {
            let mut longer: Vec<EntityRequest<'_>> = writes.clone();
            longer.push(*write);
            collect(table, rest, &mut longer)
        })
    }
    collect(table, changes, &mut Vec::new())
}

#[test]
fn what_the_service_would_refuse_is_not_sent() {
    let table = TableName::parse("people").unwrap();
    let change = |partition: &str, row: usize| Change {
        key: EntityKey {
            partition: Key::parse(partition).unwrap(),
            row: Key::parse(&row.to_string()).unwrap(),
        },
        kind: 0,
        values: Vec::new(),
        etag: None,
    };
    let check = |changes: &[Change], expected: Option<(ErrorCode, Option<usize>)>| {
        let refused = transaction(&table, changes).err().map(|error| (error.code, error.index));
        assert_eq!(refused, expected);
    };
    let hundred: Vec<Change> = (0..100).map(|row| change("p", row)).collect();
    let more: Vec<Change> = (0..101).map(|row| change("p", row)).collect();
    check(&hundred, None);
    check(&more, Some((ErrorCode::InvalidInput, Some(99))));
    check(&[], Some((ErrorCode::InvalidInput, None)));
    check(
        &[change("p", 1), change("q", 2)],
        Some((ErrorCode::CommandsInBatchActOnDifferentPartitions, Some(1))),
    );
    check(&[change("p", 1), change("p", 1)], Some((ErrorCode::InvalidDuplicateRow, Some(1))));
    let large = ("a".to_owned(), Owned::Binary(vec![0; 64 * 1024]));
    let large = |row| Change { values: vec![large.clone()], ..change("p", row) };
    check(&(0..60).map(large).collect::<Vec<_>>(), Some((ErrorCode::RequestBodyTooLarge, None)));
    let key = &change("p", 1).key;
    for etag in ["", " ", "a\nb"] {
        let write = EntityRequest { key, change: ChangeRequest::Delete(IfMatch::Etag(etag)) };
        assert_eq!(table::write_entity(&table, &write).unwrap_err().code, ErrorCode::InvalidInput);
    }
}
