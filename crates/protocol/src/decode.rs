//! A routed request with its headers and body to the command it asks for.
//!
//! What the answer will need beside the outcome (the table's spelling, `$select`, the parts of a batch) goes
//! into the `Form`, step by step, so that an error at any step is written in the right form.

use std::collections::HashSet;

use http::{HeaderMap, header};
use tavola_model::{
    Address, BODY_BYTES_MAX, Command, Comparison, EdmValue, EntityToken, ErrorCode, Filter, FilterBuilder,
    FilterNode, GetEntity, Key, Operator, PAGE_ITEMS_MAX, Preflight, PropertyRef, QueryEntities, QueryTables,
    SELECT_BYTES_MAX, SELECT_NAMES_MAX, ServiceError, TableName, TableToken,
};
use tavola_odata::{parse_filter, parse_select};

use crate::query::Query;
use crate::reply::{Reply, text};
use crate::route::{Route, Unroutable};
use crate::table::change_set::decode_batch;
use crate::table::select::Select;
use crate::table::write_in::{Decoded, create_table_name, decode_write};
use crate::{token, xml};

/// The form of the answer, as far as the request has been read.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// Which layer of the service answers.
    pub layer: Layer,
    /// The table as the request spells it.
    pub table: Option<TableName>,
    /// Which properties are wanted.
    pub select: Select,
    /// A create or an insert, to which `Prefer` applies.
    pub creates: bool,
    /// The request is a batch.
    pub batch: Option<BatchForm>,
}

impl Form {
    /// Notes who refuses a request that has no route, and gives the error.
    pub fn refuse(&mut self, unroutable: Unroutable) -> ServiceError {
        self.layer = match (unroutable.before_service, unroutable.front_end) {
            (true, _) => Layer::Gateway,
            (false, true) => Layer::FrontEnd,
            (false, false) => Layer::Unresolved,
        };
        unroutable.error
    }
}

/// Which layer of the service writes an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// Not routed yet: the gateway, or the authentication in front of the service.
    #[default]
    Gateway,
    /// The front end of the service: settings and access policies.
    FrontEnd,
    /// The OData layer, before the resource was resolved.
    Unresolved,
    /// The OData layer.
    OData,
}

/// The parts of a batch, for the answer.
#[derive(Clone, Debug)]
pub struct BatchForm {
    /// The batch holds one query and no change set.
    pub query: bool,
    /// One form a part, in order.
    pub parts: Vec<PartForm>,
}

/// How one part of a batch is answered.
#[derive(Clone, Debug)]
pub struct PartForm {
    /// Format, base and preference of this part.
    pub reply: Reply,
    /// `Content-ID` to echo.
    pub content_id: Option<String>,
    /// An insert, to which `Prefer` applies.
    pub creates: bool,
    /// Its URI named a table and an entity.
    pub resolved: bool,
}

/// A request whose head has been read.
pub struct Request<'a> {
    /// Account and path.
    pub address: &'a Address<'a>,
    /// Raw query.
    pub query: &'a str,
    /// Headers.
    pub headers: &'a HeaderMap,
    /// The whole body.
    pub body: &'a [u8],
}

/// Decodes a request into a command.
pub fn decode(
    route: Route,
    request: &Request<'_>,
    reply: &Reply,
    form: &mut Form,
) -> Result<Command, ServiceError> {
    form.layer = if route.is_front_end() { Layer::FrontEnd } else { Layer::Unresolved };
    if form.layer == Layer::Unresolved {
        reply.check_format()?;
    }
    let query = Query::parse(request.query).ok_or(ErrorCode::InvalidInput)?;
    if form.layer == Layer::Unresolved {
        check_options(&query)?;
    }
    if request.body.len() > BODY_BYTES_MAX {
        return Err(ErrorCode::RequestBodyTooLarge.into());
    }
    let command = match route {
        Route::Preflight => preflight(request.headers)?,
        Route::GetServiceProperties => Command::GetServiceProperties,
        Route::SetServiceProperties => {
            Command::SetServiceProperties(Box::new(xml::parse_service_properties(request.body)?))
        }
        Route::GetServiceStats => Command::GetServiceStats,
        Route::QueryTables => {
            form.select = select(&query)?;
            query_tables(&query)?
        }
        Route::CreateTable => {
            form.creates = true;
            let name = create_table_name(request.headers, request.body)?;
            form.layer = Layer::OData;
            Command::CreateTable(TableName::parse(&name)?)
        }
        Route::GetTable(table) => Command::GetTable(table),
        Route::DeleteTable(table) => Command::DeleteTable(table),
        Route::GetTableAcl(table) => {
            check_acl_accept(request.headers)?;
            Command::GetTableAcl(table)
        }
        Route::SetTableAcl(table) => {
            check_acl_accept(request.headers)?;
            Command::SetTableAcl(table, xml::parse_acl(request.body, "raud")?)
        }
        Route::Batch => decode_batch(request, reply, form)?,
        Route::QueryEntities(table, partition) => {
            form.table = Some(table.clone());
            form.select = select(&query)?;
            Command::QueryEntities(query_entities(table, partition, &query)?)
        }
        Route::GetEntity(table, key) => {
            form.table = Some(table.clone());
            form.select = select(&query)?;
            Command::GetEntity(GetEntity { table, key })
        }
        write @ (Route::InsertEntity(_)
        | Route::PutEntity(..)
        | Route::MergeEntity(..)
        | Route::DeleteEntity(..)) => {
            form.creates = matches!(write, Route::InsertEntity(_));
            match decode_write(write, request.headers, request.body)? {
                Decoded::Write(table, write) => {
                    form.table = Some(table.clone());
                    Command::WriteEntity(table, write)
                }
                Decoded::Refused(table, error) => Command::ProbeTable(table, error),
            }
        }
        Route::BeyondTable(table, error) => Command::ProbeTable(table, error),
    };
    if form.layer == Layer::Unresolved {
        form.layer = Layer::OData;
    }
    Ok(command)
}

/// Refuses what OData has and tables have not, lest a client take unsorted entities for sorted ones
/// (<https://learn.microsoft.com/rest/api/storageservices/query-operators-supported-for-the-table-service>).
fn check_options(query: &Query<'_>) -> Result<(), ServiceError> {
    const UNSUPPORTED: [&str; 4] = ["$expand", "$inlinecount", "$orderby", "$skip"];
    if UNSUPPORTED.iter().any(|name| query.get(name).is_some()) {
        return Err(ErrorCode::NotImplemented.into());
    }
    Ok(())
}

pub(crate) fn preflight(headers: &HeaderMap) -> Result<Command, ServiceError> {
    let origin = text(headers, "origin").ok_or(ErrorCode::MissingRequiredHeader)?;
    let method = text(headers, "access-control-request-method").ok_or(ErrorCode::MissingRequiredHeader)?;
    let wanted = text(headers, "access-control-request-headers").unwrap_or_default();
    Ok(Command::PreflightRequest(Preflight {
        origin: origin.to_owned(),
        method: method.to_owned(),
        headers: wanted
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    }))
}

fn query_tables(query: &Query<'_>) -> Result<Command, ServiceError> {
    let from = match query.get("NextTableName") {
        None => None,
        Some(text) => {
            let value = token::parse(text).ok_or(ErrorCode::InvalidInput)?;
            let name = value.split('\u{1}').next().unwrap_or_default();
            Some(TableToken { folded_name: name.into() })
        }
    };
    Ok(Command::QueryTables(QueryTables { filter: filter(query)?, top: top(query)?, from }))
}

fn query_entities(
    table: TableName,
    partition: Option<Key>,
    query: &Query<'_>,
) -> Result<QueryEntities, ServiceError> {
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
    Ok(QueryEntities { table, filter, top: top(query)?, from })
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

fn select(query: &Query<'_>) -> Result<Select, ServiceError> {
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

/// Access policies are XML: a client that would take anything is refused, as recorded, and one that names
/// nothing is not. What the request says of its own body does not matter.
fn check_acl_accept(headers: &HeaderMap) -> Result<(), ServiceError> {
    let Some(accept) = text(headers, header::ACCEPT) else { return Ok(()) };
    let takes_xml = |range: &str| range.split(';').next().unwrap_or_default().trim() == "application/xml";
    if accept.trim().is_empty() || accept.split(',').any(takes_xml) {
        return Ok(());
    }
    Err(ErrorCode::MediaTypeNotSupported.into())
}
