//! The options of a query, in the request alone or in a batch: filter, projection, page size, continuation.

use std::collections::HashSet;

use tavola_model::{
    Comparison, EdmValue, EntityKey, EntityToken, ErrorCode, Filter, FilterBuilder, FilterNode, GetEntity,
    Key, Operator, PAGE_ITEMS_MAX, PropertyRef, Query, QueryEntities, QueryTables, SELECT_BYTES_MAX,
    SELECT_NAMES_MAX, ServiceError, TableCommand, TableName, TableToken,
};
use tavola_odata::{parse_filter, parse_select};

use super::form::Form;
use super::select::Select;
use super::token;

/// Refuses what OData has and tables have not, so that no client takes unsorted entities for sorted ones
/// (<https://learn.microsoft.com/rest/api/storageservices/query-operators-supported-for-the-table-service>).
pub fn check_options(query: &Query<'_>) -> Result<(), ServiceError> {
    const UNSUPPORTED: [&str; 4] = ["$expand", "$inlinecount", "$orderby", "$skip"];
    if UNSUPPORTED.iter().any(|name| query.get(name).is_some()) {
        return Err(ErrorCode::NotImplemented.into());
    }
    Ok(())
}

/// Reads Query Tables.
pub fn query_tables(query: &Query<'_>) -> Result<QueryTables, ServiceError> {
    let from = match query.get("NextTableName") {
        None => None,
        Some(text) => {
            let value = token::parse(text).ok_or(ErrorCode::InvalidInput)?;
            let name = value.split('\u{1}').next().unwrap_or_default();
            Some(TableToken { folded_name: name.into() })
        }
    };
    Ok(QueryTables { filter: filter(query)?, top: top(query)?, from })
}

/// Reads Get Entity.
pub fn get_entity(
    table: TableName,
    key: EntityKey,
    query: &Query<'_>,
    form: &mut Form,
) -> Result<TableCommand, ServiceError> {
    form.table = Some(table.clone());
    form.select = select(query)?;
    Ok(TableCommand::GetEntity(GetEntity { table, key }))
}

/// Reads Query Entities; `partition` is one that the path names.
pub fn query_entities(
    table: TableName,
    partition: Option<Key>,
    query: &Query<'_>,
    form: &mut Form,
) -> Result<TableCommand, ServiceError> {
    form.table = Some(table.clone());
    form.select = select(query)?;
    let filter = filter(query)?;
    let filter = match partition {
        Some(partition) => Some(within_partition(filter, &partition)),
        None => filter,
    };
    let from = match (query.get("NextPartitionKey"), query.get("NextRowKey")) {
        (None, None) => None,
        (None, Some(_)) => return Err(ErrorCode::InvalidInput.into()),
        (Some(partition), row) => {
            let part =
                |text: &str| token::parse(text).map(String::into_boxed_str).ok_or(ErrorCode::InvalidInput);
            Some(EntityToken {
                partition: part(partition)?,
                row: row.map(part).transpose()?.unwrap_or_default(),
            })
        }
    };
    Ok(TableCommand::QueryEntities(QueryEntities { table, filter, top: top(query)?, from }))
}

/// `Table(PartitionKey='p')?$filter=…` is the filter and that partition.
fn within_partition(filter: Option<Filter>, partition: &Key) -> Filter {
    let mut builder = FilterBuilder::new();
    let nodes = filter.iter().flat_map(|filter| filter.nodes().iter().cloned());
    let root = nodes.map(|node| builder.add(node)).last();
    let literal = EdmValue::String(partition.as_str());
    let here =
        builder.add(FilterNode::Compare(Comparison::new(PropertyRef::PartitionKey, Operator::Eq, literal)));
    if let Some(root) = root {
        builder.add(FilterNode::And(root, here));
    }
    builder.finish()
}

fn filter(query: &Query<'_>) -> Result<Option<Filter>, ServiceError> {
    query.get("$filter").map_or(Ok(None), parse_filter)
}

/// Reads `$select`.
pub fn select(query: &Query<'_>) -> Result<Select, ServiceError> {
    let Some(text) = query.get("$select") else { return Ok(Select::default()) };
    if text.len() > SELECT_BYTES_MAX {
        return Err(ErrorCode::InvalidInput.into());
    }
    let mut names = parse_select(text)?;
    if let Some(names) = &mut names {
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        if names.len() > SELECT_NAMES_MAX {
            return Err(ErrorCode::InvalidInput.into());
        }
    }
    Ok(Select { names, text: Some(text.to_owned()) })
}

fn top(query: &Query<'_>) -> Result<Option<usize>, ServiceError> {
    let Some(text) = query.get("$top") else { return Ok(None) };
    match text.parse::<usize>() {
        Ok(top) if top <= PAGE_ITEMS_MAX => Ok(Some(top)),
        _ => Err(ErrorCode::InvalidInput.into()),
    }
}
