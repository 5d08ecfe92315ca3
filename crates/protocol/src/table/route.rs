//! Method, path and query to the resource and operation they name. Bodies are not looked at here.
//!
//! Names and keys are checked here, once; what a `TableRoute` holds is valid.

use http::{HeaderMap, HeaderName, Method};
use percent_encoding::percent_decode_str;
use tavola_model::{Address, BODY_BYTES_MAX, EntityKey, ErrorCode, Key, Query, ServiceError, TableName};
use tavola_odata::{KeyPredicate, parse_key_predicate};

use crate::account::AccountRoute;
use crate::body_kind::BodyKind;

static METHOD_OVERRIDE: HeaderName = HeaderName::from_static("x-http-method");

/// What a request addresses.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum TableRoute {
    /// An operation on the service as a whole.
    Account(AccountRoute),
    QueryTables,
    CreateTable,
    GetTable(TableName),
    DeleteTable(TableName),
    GetTableAcl(TableName),
    SetTableAcl(TableName),
    Batch,
    QueryEntities(TableName, Option<Key>),
    InsertEntity(TableName),
    GetEntity(TableName, EntityKey),
    PutEntity(TableName, EntityKey),
    MergeEntity(TableName, EntityKey),
    DeleteEntity(TableName, EntityKey),
    /// A path that goes on behind a table: refused, but only once the table is known to exist.
    BeyondTable(TableName, ServiceError),
}

impl TableRoute {
    /// Whether errors come in the form of the front end (plain XML or JSON with `x-ms-error-code`) and not in
    /// that of the OData layer.
    pub fn is_front_end(&self) -> bool {
        matches!(self, TableRoute::Account(_) | TableRoute::GetTableAcl(_) | TableRoute::SetTableAcl(_))
    }

    /// How the body is taken.
    pub fn body_kind(&self) -> BodyKind {
        match self {
            Self::Account(AccountRoute::SetServiceProperties)
            | Self::CreateTable
            | Self::SetTableAcl(_)
            | Self::Batch
            | Self::InsertEntity(_)
            | Self::PutEntity(..)
            | Self::MergeEntity(..) => BodyKind::Whole { bytes_max: BODY_BYTES_MAX },
            Self::Account(
                AccountRoute::Preflight | AccountRoute::GetServiceProperties | AccountRoute::GetServiceStats,
            )
            | Self::QueryTables
            | Self::GetTable(_)
            | Self::DeleteTable(_)
            | Self::GetTableAcl(_)
            | Self::QueryEntities(..)
            | Self::GetEntity(..)
            | Self::DeleteEntity(..)
            | Self::BeyondTable(..) => BodyKind::None,
        }
    }
}

/// Where a request was going when it could not be routed; decides the form of the error.
#[derive(Debug)]
pub struct Unroutable {
    /// What to answer.
    pub error: ServiceError,
    /// The front end refused it.
    pub front_end: bool,
    /// Refused before it was known which service it is for: the answer has no version.
    pub before_service: bool,
}

impl From<ServiceError> for Unroutable {
    fn from(error: ServiceError) -> Self {
        Self { error, front_end: false, before_service: false }
    }
}

impl From<ErrorCode> for Unroutable {
    fn from(code: ErrorCode) -> Self {
        ServiceError::new(code).into()
    }
}

/// Finds the route of a request.
pub fn route(
    method: &Method,
    address: &Address<'_>,
    query: &Query<'_>,
    headers: &HeaderMap,
) -> Result<TableRoute, Unroutable> {
    if method == Method::OPTIONS {
        return Ok(TableRoute::Account(AccountRoute::Preflight));
    }
    let verb = Verb::of(method, headers)?;
    let path = if address.path.contains('%') {
        percent_decode_str(address.path).decode_utf8().map_err(|_| {
            ServiceError::with_message(ErrorCode::InvalidInput, "Bad Request - Error in query syntax.")
        })?
    } else {
        address.path.into()
    };
    let mut segments = segments(&path);
    let (first, beyond) = (segments.next().unwrap_or_default(), segments.next());

    if let Some(route) = service_route(verb, first, query, address)? {
        return Ok(route);
    }
    if first == "$batch" && beyond.is_none() {
        return if verb == Verb::Post {
            Ok(TableRoute::Batch)
        } else {
            Err(ErrorCode::MethodNotAllowed.into())
        };
    }
    if let Some(route) = metrics_route(verb, first, query, address)? {
        return Ok(route);
    }
    match query.get("comp") {
        None => {}
        Some("acl") => return acl_route(verb, first),
        // Without this a request for a part that tables do not have would be answered with the table.
        Some(_) => {
            let error = ErrorCode::InvalidQueryParameterValue.into();
            return Err(Unroutable { error, front_end: true, before_service: false });
        }
    }
    let (name, predicate) = split_predicate(first)?;
    if name == "Tables" && beyond.is_none() {
        return tables_route(verb, predicate);
    }
    let table = TableName::parse(name)?;
    if let Some(beyond) = beyond {
        return beyond_table(verb, table, address.account.as_str(), beyond);
    }
    entity_route(verb, table, address, predicate)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Get,
    Post,
    Put,
    Merge,
    Delete,
}

impl Verb {
    /// The verb a request means, which `X-HTTP-Method` may say in place of POST
    /// (<https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes>).
    fn of(method: &Method, headers: &HeaderMap) -> Result<Self, ServiceError> {
        let mut tunnelled = headers.get_all(&METHOD_OVERRIDE).iter();
        let Some(value) = tunnelled.next() else { return Self::named(method.as_str()) };
        if tunnelled.next().is_some() {
            return Err(ErrorCode::XMethodIncorrectCount.into());
        }
        if method != Method::POST {
            return Err(ErrorCode::XMethodNotUsingPost.into());
        }
        match value.to_str().unwrap_or_default() {
            "PUT" => Ok(Self::Put),
            "MERGE" | "PATCH" => Ok(Self::Merge),
            "DELETE" => Ok(Self::Delete),
            _ => Err(ErrorCode::XMethodIncorrectValue.into()),
        }
    }

    fn named(name: &str) -> Result<Self, ServiceError> {
        match name {
            "GET" | "HEAD" => Ok(Self::Get),
            "POST" => Ok(Self::Post),
            "PUT" => Ok(Self::Put),
            "MERGE" | "PATCH" => Ok(Self::Merge),
            "DELETE" => Ok(Self::Delete),
            _ => Err(ErrorCode::InvalidHttpVerb.into()),
        }
    }
}

/// Splits a decoded path at slashes, but not inside quotes: a key predicate may hold anything.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let segments = path.split(move |character| {
        quoted ^= character == '\'';
        character == '/' && !quoted
    });
    segments.filter(|segment| !segment.is_empty())
}

/// The two keys in the form nearly every client writes them, without a quote inside; anything else is for the parser.
fn plain_keys(inner: &str) -> Option<(&str, &str)> {
    let (partition, rest) = inner.strip_prefix("PartitionKey='")?.split_once('\'')?;
    let row = rest.strip_prefix(",RowKey='")?.strip_suffix('\'')?;
    (!row.contains('\'')).then_some((partition, row))
}

/// `name(predicate)` in two; an unclosed parenthesis is a syntax error.
fn split_predicate(segment: &str) -> Result<(&str, KeyPredicate<'_>), ServiceError> {
    let Some((name, rest)) = segment.split_once('(') else { return Ok((segment, KeyPredicate::None)) };
    let bad_syntax =
        || ServiceError::with_message(ErrorCode::InvalidInput, "Bad Request - Error in query syntax.");
    let inner = rest.strip_suffix(')').ok_or_else(bad_syntax)?;
    if let Some((partition, row)) = plain_keys(inner) {
        return Ok((name, KeyPredicate::Entity { partition: partition.into(), row: row.into() }));
    }
    // The key of a table is one plain string, so there the service gives no position.
    let predicate =
        parse_key_predicate(inner).map_err(|error| if name == "Tables" { bad_syntax() } else { error })?;
    Ok((name, predicate))
}

fn service_route(
    verb: Verb,
    first: &str,
    query: &Query<'_>,
    address: &Address<'_>,
) -> Result<Option<TableRoute>, Unroutable> {
    let invalid = |before_service| Unroutable {
        error: ErrorCode::InvalidQueryParameterValue.into(),
        front_end: true,
        before_service,
    };
    let comp = query.get("comp");
    if query.get("restype") == Some("service") && !first.is_empty() {
        return Err(invalid(true));
    }
    if !first.is_empty() {
        return Ok(None);
    }
    match (query.get("restype"), comp, verb) {
        (Some("service"), Some("properties"), Verb::Get) => {
            Ok(Some(TableRoute::Account(AccountRoute::GetServiceProperties)))
        }
        (Some("service"), Some("properties"), Verb::Put) => {
            Ok(Some(TableRoute::Account(AccountRoute::SetServiceProperties)))
        }
        (Some("service"), Some("stats"), Verb::Get) if address.secondary => {
            Ok(Some(TableRoute::Account(AccountRoute::GetServiceStats)))
        }
        (Some("service"), Some("stats"), Verb::Get) => Err(invalid(false)),
        (Some("service"), Some("properties" | "stats"), _) => Err(Unroutable {
            error: ErrorCode::MethodNotAllowed.into(),
            front_end: true,
            before_service: false,
        }),
        // Signatures of a user need a directory of users, which we are not.
        (Some("service"), Some("userdelegationkey"), Verb::Post) => Err(Unroutable {
            error: ErrorCode::NotImplemented.into(),
            front_end: true,
            before_service: false,
        }),
        (Some(_), _, _) | (None, Some(_), _) => Err(invalid(false)),
        (None, None, Verb::Get) => Err(ErrorCode::NotImplemented.into()),
        (None, None, _) => Err(ErrorCode::MethodNotAllowed.into()),
    }
}

/// The tables of Storage Analytics, which can be read like others
/// (<https://learn.microsoft.com/azure/storage/common/storage-analytics-metrics#metrics-tables>). What the real service
/// has beside, we do not: the model of the data, and changes of those tables.
fn metrics_route(
    verb: Verb,
    first: &str,
    query: &Query<'_>,
    address: &Address<'_>,
) -> Result<Option<TableRoute>, Unroutable> {
    if !first.starts_with("$Metrics") {
        return if first == "$metadata" { Err(ErrorCode::NotImplemented.into()) } else { Ok(None) };
    }
    let (name, predicate) = split_predicate(first)?;
    match TableName::parse_metrics(name) {
        Some(table) if verb == Verb::Get && query.get("comp").is_none() => {
            entity_route(verb, table, address, predicate).map(Some)
        }
        _ => Err(ErrorCode::NotImplemented.into()),
    }
}

fn acl_route(verb: Verb, name: &str) -> Result<TableRoute, Unroutable> {
    let front_end = |error| Unroutable { error, front_end: true, before_service: false };
    let table = TableName::parse(name).map_err(front_end)?;
    match verb {
        Verb::Get => Ok(TableRoute::GetTableAcl(table)),
        Verb::Put => Ok(TableRoute::SetTableAcl(table)),
        Verb::Post | Verb::Merge | Verb::Delete => Err(front_end(ErrorCode::MethodNotAllowed.into())),
    }
}

fn tables_route(verb: Verb, predicate: KeyPredicate<'_>) -> Result<TableRoute, Unroutable> {
    match (verb, predicate) {
        (Verb::Get, KeyPredicate::None) => Ok(TableRoute::QueryTables),
        (Verb::Post, KeyPredicate::None) => Ok(TableRoute::CreateTable),
        (Verb::Get, KeyPredicate::Single(name)) => Ok(TableRoute::GetTable(existing_table(&name)?)),
        (Verb::Delete, KeyPredicate::Single(name)) => Ok(TableRoute::DeleteTable(existing_table(&name)?)),
        (_, KeyPredicate::Partition(_) | KeyPredicate::Entity { .. } | KeyPredicate::Other(_)) => {
            Err(ErrorCode::InvalidInput.into())
        }
        (Verb::Post | Verb::Put | Verb::Merge | Verb::Delete, _) => Err(ErrorCode::MethodNotAllowed.into()),
    }
}

/// A name that no table can have names no table: 404, not a lesson about names.
fn existing_table(name: &str) -> Result<TableName, ServiceError> {
    TableName::parse(name).map_err(|_| ErrorCode::ResourceNotFound.into())
}

fn entity_route(
    verb: Verb,
    table: TableName,
    address: &Address<'_>,
    predicate: KeyPredicate<'_>,
) -> Result<TableRoute, Unroutable> {
    match (verb, predicate) {
        (Verb::Get, KeyPredicate::None) => Ok(TableRoute::QueryEntities(table, None)),
        (Verb::Get, KeyPredicate::Partition(partition)) => {
            Ok(TableRoute::QueryEntities(table, Some(Key::parse(&partition)?)))
        }
        (Verb::Post, KeyPredicate::None) => Ok(TableRoute::InsertEntity(table)),
        (verb, KeyPredicate::Entity { partition, row }) => {
            let key = EntityKey { partition: Key::parse(&partition)?, row: Key::parse(&row)? };
            match verb {
                Verb::Get => Ok(TableRoute::GetEntity(table, key)),
                Verb::Put => Ok(TableRoute::PutEntity(table, key)),
                Verb::Merge => Ok(TableRoute::MergeEntity(table, key)),
                Verb::Delete => Ok(TableRoute::DeleteEntity(table, key)),
                Verb::Post => Err(ErrorCode::MethodNotAllowed.into()),
            }
        }
        (_, KeyPredicate::Single(_) | KeyPredicate::Partition(_) | KeyPredicate::Other(_)) => {
            Err(wrong_key_count(address.account.as_str(), &table).into())
        }
        (Verb::Put | Verb::Merge | Verb::Delete, KeyPredicate::None) => {
            Err(ErrorCode::MethodNotAllowed.into())
        }
    }
}

fn wrong_key_count(account: &str, table: &TableName) -> ServiceError {
    ServiceError::with_message(
        ErrorCode::InvalidInput,
        format!(
            "The number of keys specified in the URI does not match number of key properties for the resource \
             '{account}.{table}'."
        ),
    )
}

/// What clients get whose base URL names a table by mistake. All of it is recorded.
fn beyond_table(verb: Verb, table: TableName, account: &str, beyond: &str) -> Result<TableRoute, Unroutable> {
    match verb {
        Verb::Post if beyond == "$batch" => Err(ErrorCode::MediaTypeNotSupported.into()),
        Verb::Post => Ok(TableRoute::InsertEntity(table)),
        Verb::Get => Ok(TableRoute::BeyondTable(table, ErrorCode::NotImplemented.into())),
        Verb::Delete | Verb::Put | Verb::Merge => {
            let error = wrong_key_count(account, &table);
            Ok(TableRoute::BeyondTable(table, error))
        }
    }
}
