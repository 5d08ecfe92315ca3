//! Answers of the table service, as the client reads them.

use proptest::prelude::*;
use tavola_model::{
    Command, EdmValue, EntityPage, EntityToken, ErrorCode, Etag, Outcome, PlanKind, PlanReport, ServiceError,
    StorageService, StoredEntity, TableCommand, TableName, TableOutcome, TablePage, TableToken, WriteOutcome,
};
use tavola_protocol::table::{
    self, ChangeRequest, EntitiesQuery, EntityRequest, FetchedEntity, Format, IfMatch, MetadataLevel,
    TablesQuery,
};
use tavola_protocol::{AnswerCode, status};

use crate::generate::{any_entity, any_identifiers, any_table, any_time, same};
use crate::wire::{Asked, BASE, IDS, REQUEST_ID, ask};

fn any_format() -> impl Strategy<Value = Format> {
    prop::sample::select(vec![
        Format::Json(MetadataLevel::Minimal),
        Format::Json(MetadataLevel::Full),
        Format::Atom,
    ])
}

fn check(fetched: &FetchedEntity<'_>, entity: &StoredEntity) {
    assert_eq!(fetched.etag.as_deref(), Some(entity.etag().to_string().as_str()));
    let stored = fetched.to_stored().unwrap();
    assert_eq!((&stored.key, stored.timestamp), (&entity.key, entity.timestamp));
    assert!(same(&stored.properties, &entity.properties), "{fetched:?}");
}

fn plan() -> PlanReport {
    PlanReport { kind: PlanKind::TableScan, ranges: 1, scanned: 1, returned: 1 }
}

fn get(table: &TableName, entity: &StoredEntity, select: &[&str]) -> Asked {
    ask(StorageService::Table, &table::get_entity(table, &entity.key, select))
}

proptest! {
    #[test]
    fn an_inserted_entity_can_be_sent_back(table in any_table(), entity in any_entity()) {
        let write = EntityRequest { key: &entity.key, change: ChangeRequest::Insert(&[]) };
        let mut request = table::write_entity(&table, &write).unwrap();
        request.headers.remove("prefer");
        let outcome = TableOutcome::EntityWritten(WriteOutcome::Inserted(entity.clone()));
        let received = ask(StorageService::Table, &request).answer(Ok(Outcome::Table(outcome)));
        check(&table::entity_inserted(&received.read()).unwrap(), &entity);
    }

    #[test]
    fn an_entity_is_read_as_it_is_stored(table in any_table(), entity in any_entity(), format in any_format()) {
        let mut asked = get(&table, &entity, &[]);
        asked.form.style.format = format;
        let received = asked.answer(Ok(Outcome::Table(TableOutcome::EntityFetched(entity.clone()))));
        check(&table::entity_fetched(&received.read()).unwrap(), &entity);
    }

    #[test]
    fn a_page_is_read_as_it_is_stored_and_its_continuation_leads_on(
        table in any_table(),
        entities in prop::collection::vec(any_entity(), 0..5),
        next in prop::option::of(("[ -~\u{e9}]{1,10}", "[ -~]{0,10}")),
        format in any_format(),
    ) {
        let ask_for = |query: &EntitiesQuery<'_>| ask(StorageService::Table, &table::query_entities(&table, query));
        let mut asked = ask_for(&EntitiesQuery::default());
        asked.form.style.format = format;
        let next = next.map(|(partition, row)| EntityToken { partition: partition.into(), row: row.into() });
        let page = EntityPage { entities: entities.clone(), next: next.clone(), plan: plan() };
        let received = asked.answer(Ok(Outcome::Table(TableOutcome::EntitiesQueried(page))));
        let read = received.read();
        let page = table::entities_queried(&read).unwrap();
        prop_assert_eq!(page.entities.len(), entities.len());
        page.entities.iter().zip(&entities).for_each(|(fetched, entity)| check(fetched, entity));
        let on = ask_for(&EntitiesQuery { from: page.next.as_ref(), ..EntitiesQuery::default() });
        let Ok(Command::Table(TableCommand::QueryEntities(query))) = on.command else { panic!("no query") };
        prop_assert_eq!(query.from, next);
    }

    #[test]
    fn a_projection_has_what_was_asked_for(table in any_table(), entity in any_entity()) {
        let name = entity.properties.iter().next().map(|property| property.name.to_owned());
        let select: Vec<&str> = name.iter().map(String::as_str).chain(["Missing"]).collect();
        let received = get(&table, &entity, &select)
            .answer(Ok(Outcome::Table(TableOutcome::EntityFetched(entity.clone()))));
        let read = received.read();
        let fetched = table::entity_fetched(&read).unwrap();
        let names: Vec<&str> = fetched.properties.iter().map(|property| property.name.as_ref()).collect();
        prop_assert_eq!(names, name.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert!(fetched.key().is_none() && fetched.timestamp.is_none() && fetched.get("Missing").is_none());
    }

    #[test]
    fn tables_and_policies_are_read_as_they_are_kept(
        tables in prop::collection::vec(any_table(), 1..5),
        next in prop::option::of("[a-z0-9]{3,20}"),
        identifiers in any_identifiers("raud"),
        format in any_format(),
    ) {
        let first = &tables[0];
        let with_format = |request| {
            let mut asked = ask(StorageService::Table, &request);
            asked.form.style.format = format;
            asked
        };
        let query = |query: &TablesQuery<'_>| with_format(table::query_tables(query));
        let next = next.map(|name| TableToken { folded_name: name.into() });
        let page = TablePage { tables: tables.clone(), next: next.clone() };
        let received = query(&TablesQuery::default()).answer(Ok(Outcome::Table(TableOutcome::TablesQueried(page))));
        let page = table::tables_queried(&received.read()).unwrap();
        let names: Vec<&str> = tables.iter().map(TableName::as_str).collect();
        prop_assert_eq!(&page.names, &names);
        let on = query(&TablesQuery { from: page.next.as_ref(), ..TablesQuery::default() });
        let Ok(Command::Table(TableCommand::QueryTables(read))) = on.command else { panic!("no query") };
        prop_assert_eq!(read.from, next);

        let fetched = with_format(table::get_table(first))
            .answer(Ok(Outcome::Table(TableOutcome::TableFetched(first.clone()))));
        prop_assert_eq!(table::table_fetched(&fetched.read()).unwrap(), first.as_str());
        let created = ask(StorageService::Table, &table::create_table(first))
            .answer(Ok(Outcome::Table(TableOutcome::TableCreated(first.clone()))));
        table::table_created(&created.read()).unwrap();
        let deleted = ask(StorageService::Table, &table::delete_table(first))
            .answer(Ok(Outcome::Table(TableOutcome::TableDeleted)));
        table::table_done(&deleted.read()).unwrap();
        let acl = ask(StorageService::Table, &table::get_table_acl(first))
            .answer(Ok(Outcome::Table(TableOutcome::TableAclFetched(identifiers.clone()))));
        prop_assert_eq!(table::table_acl_fetched(&acl.read()).unwrap(), identifiers);
        let set = ask(StorageService::Table, &table::set_table_acl(first, &[]))
            .answer(Ok(Outcome::Table(TableOutcome::TableAclSet)));
        table::table_done(&set.read()).unwrap();
    }

    #[test]
    fn writes_give_the_new_version(table in any_table(), entity in any_entity(), time in any_time()) {
        let key = &entity.key;
        let ask_for = |change| {
            ask(StorageService::Table, &table::write_entity(&table, &EntityRequest { key, change }).unwrap())
        };
        let written = |asked: &Asked, outcome| {
            let received = asked.answer(Ok(Outcome::Table(TableOutcome::EntityWritten(outcome))));
            table::entity_written(&received.read()).unwrap()
        };
        let inserted = written(&ask_for(ChangeRequest::Insert(&[])), WriteOutcome::Inserted(entity.clone()));
        prop_assert_eq!(inserted.timestamp(), Some(entity.timestamp));
        let updated = WriteOutcome::Updated { key: key.clone(), etag: Etag(time) };
        let updated = written(&ask_for(ChangeRequest::Merge(&[], IfMatch::Any)), updated);
        prop_assert_eq!(updated.timestamp(), Some(time));
        let deleted = written(&ask_for(ChangeRequest::Delete(IfMatch::Any)), WriteOutcome::Deleted);
        prop_assert_eq!(deleted.etag, None);
    }

    #[test]
    fn a_transaction_gives_every_version_or_the_place_of_its_failure(
        table in any_table(),
        entity in any_entity(),
        times in prop::collection::vec(any_time(), 1..10),
        failing in any::<prop::sample::Index>(),
        code in prop::sample::select(ErrorCode::ALL.to_vec()),
    ) {
        let keys: Vec<_> = (0..times.len()).map(|row| {
            let row = tavola_model::Key::parse(&row.to_string()).unwrap();
            tavola_model::EntityKey { partition: entity.key.partition.clone(), row }
        }).collect();
        let value = [("a", EdmValue::Int32(1))];
        let writes: Vec<EntityRequest<'_>> = keys.iter()
            .map(|key| EntityRequest { key, change: ChangeRequest::InsertOrReplace(&value) }).collect();
        let asked = ask(StorageService::Table, &table::transact_entities(&table, &writes, BASE, IDS).unwrap());
        let outcomes = keys.iter().zip(&times)
            .map(|(key, time)| WriteOutcome::Updated { key: key.clone(), etag: Etag(*time) }).collect();
        let received = asked.answer(Ok(Outcome::Table(TableOutcome::EntitiesTransacted(outcomes))));
        let written = table::entities_transacted(&received.read(), writes.len()).unwrap();
        let read: Vec<_> = written.iter().map(|written| written.timestamp().unwrap()).collect();
        prop_assert_eq!(read, times);
        // One write too few or too many is no answer to this transaction.
        prop_assert!(table::entities_transacted(&received.read(), writes.len() + 1).is_err());

        let index = failing.index(writes.len());
        let received = asked.answer(Err(ServiceError::new(code).at_operation(index)));
        let error = table::entities_transacted(&received.read(), writes.len()).unwrap_err();
        prop_assert!(error.is(code), "{}", error);
        let refusal = error.refusal().unwrap();
        let is_whole = received.status != http::StatusCode::ACCEPTED;
        prop_assert_eq!(refusal.index, (!is_whole).then_some(index));
        prop_assert_eq!(refusal.status, status(code));
        prop_assert_eq!(refusal.message.as_str(), code.message());
        prop_assert_eq!(refusal.request_id.as_deref(), Some(REQUEST_ID));
    }
}

#[test]
fn every_code_is_read_from_every_form_of_an_error() {
    let table = TableName::parse("people").unwrap();
    let json = table::delete_table(&table);
    let mut atom = json.clone();
    atom.headers.remove("accept");
    let front_end = table::get_table_acl(&table);
    for request in [json, atom, front_end] {
        let asked = ask(StorageService::Table, &request);
        for code in ErrorCode::ALL {
            let received = asked.answer(Err(ServiceError::new(*code)));
            let error = table::table_done(&received.read()).unwrap_err();
            let refusal = error.refusal().unwrap();
            assert_eq!(refusal.code, Some(AnswerCode::Known(*code)));
            assert_eq!((refusal.status, refusal.message.as_str()), (status(*code), code.message()));
            assert_eq!(refusal.request_id.as_deref(), Some(REQUEST_ID));
        }
    }
}
