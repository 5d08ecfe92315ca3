//! Requests of a client to the table service.
//!
//! Bodies are JSON and answers are asked for with minimal metadata, which gives every type exactly. Entity tags are
//! text here: they are opaque to clients, whichever service gave them.

use http::header::{self, HeaderValue};
use http::{HeaderName, Method};
use tavola_model::{EdmValue, EntityKey, ErrorCode, Filter, ServiceError, SignedIdentifier, TableName};
use tavola_odata::write_filter;

use super::answer_in::{EntityContinuation, TableContinuation};
use super::entity_out::entity_body;
use super::format::Preference;
use super::json_out;
use crate::request::{Request, push_encoded};
use crate::xml;

/// Asks for the metadata that gives every type exactly.
pub(super) const ACCEPT: &str = "application/json;odata=minimalmetadata";
pub(super) const JSON: &str = "application/json";

/// What Query Tables is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct TablesQuery<'a> {
    /// Which tables, as a text of the query language.
    pub filter: Option<&'a str>,
    /// How many at most on this page, up to 1,000.
    pub top: Option<u32>,
    /// Where the page begins, as the page before said.
    pub from: Option<&'a TableContinuation>,
}

/// What Query Entities is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntitiesQuery<'a> {
    /// Which entities, as a text of the query language.
    pub filter: Option<&'a str>,
    /// Which properties; none for all.
    pub select: &'a [&'a str],
    /// How many at most on this page, up to 1,000.
    pub top: Option<u32>,
    /// Where the page begins, as the page before said.
    pub from: Option<&'a EntityContinuation>,
}

/// Names and values of properties, in the order in which they are sent.
pub type NamedValues<'a> = &'a [(&'a str, EdmValue<'a>)];

/// The change of one entity.
#[derive(Clone, Copy, Debug)]
pub struct EntityRequest<'a> {
    /// The entity.
    pub key: &'a EntityKey,
    /// The change.
    pub change: ChangeRequest<'a>,
}

/// What is to happen to an entity.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum ChangeRequest<'a> {
    Insert(NamedValues<'a>),
    InsertOrReplace(NamedValues<'a>),
    InsertOrMerge(NamedValues<'a>),
    Update(NamedValues<'a>, IfMatch<'a>),
    Merge(NamedValues<'a>, IfMatch<'a>),
    Delete(IfMatch<'a>),
}

/// On which version of the entity a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch<'a> {
    /// Whichever there is.
    Any,
    /// The one of this tag.
    Etag(&'a str),
}

/// The text of a filter, as queries send it.
pub fn filter_text(filter: &Filter) -> String {
    write_filter(filter)
}

/// Query Tables.
pub fn query_tables(query: &TablesQuery<'_>) -> Request {
    let top = query.top.map(|top| top.to_string());
    odata(Method::GET, "/Tables")
        .with_optional("$filter", query.filter)
        .with_optional("$top", top.as_deref())
        .with_optional("NextTableName", query.from.map(|from| from.next_table.as_str()))
}

/// Get one table.
pub fn get_table(table: &TableName) -> Request {
    odata(Method::GET, table_path(table))
}

/// Create Table; its name is not sent back.
pub fn create_table(table: &TableName) -> Request {
    let mut body = b"{\"TableName\":".to_vec();
    json_out::write_string(table.as_str(), &mut body);
    body.push(b'}');
    odata(Method::POST, "/Tables")
        .with_static("prefer", Preference::ReturnNoContent.as_str())
        .with_body(JSON, body)
}

/// Delete Table.
pub fn delete_table(table: &TableName) -> Request {
    odata(Method::DELETE, table_path(table))
}

/// Get Table ACL.
pub fn get_table_acl(table: &TableName) -> Request {
    acl(Method::GET, table)
}

/// Set Table ACL, which replaces all policies.
pub fn set_table_acl(table: &TableName, identifiers: &[SignedIdentifier]) -> Request {
    let body = xml::write_acl(identifiers).trim_start_matches('\u{FEFF}').to_owned();
    acl(Method::PUT, table).with_body("application/xml", body)
}

/// Get Entity; no names of properties for all.
pub fn get_entity(table: &TableName, key: &EntityKey, select: &[&str]) -> Request {
    let mut path = String::from("/");
    push_entity(table, key, &mut path);
    with_select(odata(Method::GET, path), select)
}

/// Query Entities.
pub fn query_entities(table: &TableName, query: &EntitiesQuery<'_>) -> Request {
    let top = query.top.map(|top| top.to_string());
    let request = odata(Method::GET, format!("/{table}()"))
        .with_optional("$filter", query.filter)
        .with_optional("$top", top.as_deref());
    with_select(request, query.select)
        .with_optional("NextPartitionKey", query.from.map(|from| from.next_partition.as_str()))
        .with_optional("NextRowKey", query.from.and_then(|from| from.next_row.as_deref()))
}

/// Insert, Update, Merge, Insert Or Replace, Insert Or Merge or Delete Entity. An inserted entity is not sent back.
/// Refuses what the service would refuse for its names, values or tag.
pub fn write_entity(table: &TableName, write: &EntityRequest<'_>) -> Result<Request, ServiceError> {
    let mut path = String::from("/");
    push_write_target(table, write, &mut path);
    let mut request = odata(write.change.method(), path);
    if let Some(condition) = write.change.if_match() {
        request = request.with_header(header::IF_MATCH, condition.to_header()?);
    }
    if let ChangeRequest::Insert(_) = write.change {
        request = request.with_static("prefer", Preference::ReturnNoContent.as_str());
    }
    Ok(match write.change.values() {
        Some(values) => request.with_body(JSON, entity_body(write.key, values)?),
        None => request,
    })
}

impl<'a> ChangeRequest<'a> {
    pub(super) fn method(&self) -> Method {
        match self {
            Self::Insert(_) => Method::POST,
            Self::InsertOrReplace(_) | Self::Update(..) => Method::PUT,
            Self::InsertOrMerge(_) | Self::Merge(..) => Method::PATCH,
            Self::Delete(_) => Method::DELETE,
        }
    }

    pub(super) fn values(&self) -> Option<NamedValues<'a>> {
        match *self {
            Self::Insert(values)
            | Self::InsertOrReplace(values)
            | Self::InsertOrMerge(values)
            | Self::Update(values, _)
            | Self::Merge(values, _) => Some(values),
            Self::Delete(_) => None,
        }
    }

    pub(super) fn if_match(&self) -> Option<IfMatch<'a>> {
        match *self {
            Self::Update(_, condition) | Self::Merge(_, condition) | Self::Delete(condition) => {
                Some(condition)
            }
            Self::Insert(_) | Self::InsertOrReplace(_) | Self::InsertOrMerge(_) => None,
        }
    }
}

impl IfMatch<'_> {
    /// The value of the header. An empty tag would mean no condition at all, so it is refused.
    pub(super) fn to_header(self) -> Result<HeaderValue, ServiceError> {
        match self {
            Self::Any => Ok(HeaderValue::from_static("*")),
            Self::Etag(etag) if etag.trim().is_empty() => Err(ErrorCode::InvalidInput.into()),
            Self::Etag(etag) => HeaderValue::from_str(etag).map_err(|_| ErrorCode::InvalidInput.into()),
        }
    }
}

/// The path of a write below the root of the service: an insert goes to the table, the others to the entity.
pub(super) fn push_write_target(table: &TableName, write: &EntityRequest<'_>, out: &mut String) {
    match write.change {
        ChangeRequest::Insert(_) => out.push_str(table.as_str()),
        _ => push_entity(table, write.key, out),
    }
}

/// `table(PartitionKey='p',RowKey='r')`, quotes in keys doubled and then encoded, as the official clients do.
fn push_entity(table: &TableName, key: &EntityKey, out: &mut String) {
    out.push_str(table.as_str());
    for (before, key) in [("(PartitionKey='", &key.partition), ("',RowKey='", &key.row)] {
        out.push_str(before);
        match key.as_str() {
            plain if !plain.contains('\'') => push_encoded(plain, out),
            quoted => push_encoded(&quoted.replace('\'', "''"), out),
        }
    }
    out.push_str("')");
}

fn table_path(table: &TableName) -> String {
    format!("/Tables('{table}')")
}

fn with_select(request: Request, select: &[&str]) -> Request {
    if select.is_empty() { request } else { request.with_parameter("$select", &select.join(",")) }
}

fn odata(method: Method, path: impl Into<String>) -> Request {
    Request::new(method, path)
        .with_header(header::ACCEPT, HeaderValue::from_static(ACCEPT))
        .with_header(HeaderName::from_static("dataserviceversion"), HeaderValue::from_static("3.0"))
}

fn acl(method: Method, table: &TableName) -> Request {
    Request::new(method, format!("/{table}"))
        .with_parameter("comp", "acl")
        .with_static("accept", "application/xml")
}
