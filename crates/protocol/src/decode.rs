//! A routed request with its headers and body to the command it asks for.
//!
//! What the answer will need beside the outcome (the table's spelling, `$select`, the parts of a batch) goes
//! into the `Form`, step by step, so that an error at any step is written in the right form.

use http::{HeaderMap, header};
use tavola_model::{
    Address, BODY_BYTES_MAX, Command, Comparison, EdmValue, EntityChange, EntityGroupTransaction,
    EntityToken, EntityWrite, ErrorCode, EtagCondition, Filter, FilterBuilder, FilterNode, GetEntity, Key,
    Operator, PAGE_ITEMS_MAX, Preflight, PropertyRef, QueryEntities, QueryTables, SELECT_NAMES_MAX,
    ServiceError, TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX, TableName, TableToken,
};
use tavola_odata::{parse_filter, parse_select};

use crate::query::Query;
use crate::reply::{Preference, Reply, data_service_version, negotiate, text};
use crate::route::{Route, Unroutable, route as find_route};
use crate::table::batch_in::{self, Batch, InnerRequest};
use crate::table::body::{EntityBody, KeysIn};
use crate::table::select::Select;
use crate::table::{atom_in, json_in};
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
            let name = create_table_name(request)?;
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
    let names = parse_select(text)?;
    if names.as_ref().is_some_and(|names| names.len() > SELECT_NAMES_MAX) {
        return Err(ErrorCode::InvalidInput.into());
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

/// The media type of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyFormat {
    Json,
    Atom,
}

fn body_format(headers: &HeaderMap, body: &[u8]) -> Result<BodyFormat, ServiceError> {
    let media = text(headers, header::CONTENT_TYPE.as_str())
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    match media.trim().to_ascii_lowercase().as_str() {
        "application/json" => Ok(BodyFormat::Json),
        "application/atom+xml" | "application/xml" | "text/xml" => Ok(BodyFormat::Atom),
        "" if body.trim_ascii_start().starts_with(b"{") => Ok(BodyFormat::Json),
        "" => Ok(BodyFormat::Atom),
        _ => Err(ErrorCode::MediaTypeNotSupported.into()),
    }
}

fn create_table_name(request: &Request<'_>) -> Result<String, ServiceError> {
    match body_format(request.headers, request.body)? {
        BodyFormat::Json => json_in::table_name(request.body),
        BodyFormat::Atom => atom_in::table_name(request.body),
    }
}

fn entity_body(headers: &HeaderMap, body: &[u8], keys: KeysIn) -> Result<EntityBody, ServiceError> {
    match body_format(headers, body)? {
        BodyFormat::Json => json_in::entity(body, keys),
        BodyFormat::Atom => atom_in::entity(body, keys),
    }
}

/// Access policies are XML: a client that would take anything is refused, as recorded, and one that names
/// nothing is not. What the request says of its own body does not matter.
fn check_acl_accept(headers: &HeaderMap) -> Result<(), ServiceError> {
    let Some(accept) = text(headers, header::ACCEPT.as_str()) else { return Ok(()) };
    let takes_xml = |range: &str| range.split(';').next().unwrap_or_default().trim() == "application/xml";
    if accept.trim().is_empty() || accept.split(',').any(takes_xml) {
        return Ok(());
    }
    Err(ErrorCode::MediaTypeNotSupported.into())
}

/// An entity write, read.
enum Decoded {
    /// As asked.
    Write(TableName, EntityWrite),
    /// It breaks a rule of the data model, which matters only where the table exists.
    Refused(TableName, ServiceError),
}

fn decode_write(route: Route, headers: &HeaderMap, body: &[u8]) -> Result<Decoded, ServiceError> {
    let (table, key, change) = match route {
        Route::InsertEntity(table) => {
            return Ok(match entity_body(headers, body, KeysIn::Body)?.into_entity() {
                Ok((key, properties)) => {
                    Decoded::Write(table, EntityWrite { key, change: EntityChange::Insert(properties) })
                }
                Err(error) => Decoded::Refused(table, error),
            });
        }
        Route::PutEntity(table, key) | Route::MergeEntity(table, key) if body.is_empty() => {
            drop((table, key));
            return Err(ServiceError::unreadable_body());
        }
        Route::PutEntity(table, key) => {
            let condition = condition(headers, "PUT")?;
            match (entity_body(headers, body, KeysIn::Address)?.into_properties(), condition) {
                (Ok(properties), None) => (table, key, EntityChange::InsertOrReplace(properties)),
                (Ok(properties), Some(condition)) => {
                    (table, key, EntityChange::Update(properties, condition))
                }
                (Err(error), _) => return Ok(Decoded::Refused(table, error)),
            }
        }
        Route::MergeEntity(table, key) => {
            let condition = condition(headers, "MERGE")?;
            match (entity_body(headers, body, KeysIn::Address)?.into_properties(), condition) {
                (Ok(properties), None) => (table, key, EntityChange::InsertOrMerge(properties)),
                (Ok(properties), Some(condition)) => (table, key, EntityChange::Merge(properties, condition)),
                (Err(error), _) => return Ok(Decoded::Refused(table, error)),
            }
        }
        Route::DeleteEntity(table, key) => {
            let condition = condition(headers, "DELETE")?.ok_or(ErrorCode::MissingRequiredHeader)?;
            (table, key, EntityChange::Delete(condition))
        }
        _ => return Err(ErrorCode::MethodNotAllowed.into()),
    };
    Ok(Decoded::Write(table, EntityWrite { key, change }))
}

fn condition(headers: &HeaderMap, verb: &str) -> Result<Option<EtagCondition>, ServiceError> {
    let if_match = headers.get(header::IF_MATCH);
    if headers.contains_key(header::IF_NONE_MATCH) {
        let message = match if_match {
            Some(_) => {
                "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please \
                        specify either one of the headers or none of them."
                    .to_owned()
            }
            None => format!("If-None-Match HTTP header cannot be specified for {verb} operations."),
        };
        return Err(ServiceError::with_message(ErrorCode::InvalidInput, message));
    }
    match if_match {
        None => Ok(None),
        Some(value) => EtagCondition::parse(value.to_str().map_err(|_| ErrorCode::InvalidInput)?).map(Some),
    }
}

fn decode_batch(request: &Request<'_>, reply: &Reply, form: &mut Form) -> Result<Command, ServiceError> {
    if request.body.len() > TRANSACTION_BYTES_MAX {
        return Err(ErrorCode::RequestBodyTooLarge.into());
    }
    let batch = batch_in::parse(text(request.headers, header::CONTENT_TYPE.as_str()), request.body)?;
    let (query, requests) = match batch {
        Batch::Empty => (false, None),
        Batch::Query(inner) => (true, Some(vec![inner])),
        Batch::ChangeSet(requests) => (false, Some(requests)),
    };
    let Some(requests) = requests else {
        form.batch = Some(BatchForm { query: true, parts: Vec::new() });
        return Err(ServiceError::unreadable_body());
    };
    let parts = requests.iter().map(|inner| part_form(inner, request, reply)).collect();
    form.batch = Some(BatchForm { query, parts });
    form.layer = Layer::OData;
    match requests.as_slice() {
        [inner] if query => decode_batch_query(inner, request, reply, form),
        [] => Err(ServiceError::unreadable_body()),
        requests => decode_change_set(requests, request, form),
    }
}

/// The single query of a batch, decoded as if it had come alone.
fn decode_batch_query(
    inner: &InnerRequest<'_>,
    outer: &Request<'_>,
    reply: &Reply,
    form: &mut Form,
) -> Result<Command, ServiceError> {
    let target = Target::parse(inner.uri, outer)?;
    let route =
        find_route(&inner.method, &target.address, target.query, &inner.headers).map_err(|e| e.error)?;
    if !matches!(route, Route::GetEntity(..) | Route::QueryEntities(..)) {
        return Err(ErrorCode::InvalidInput.into());
    }
    let request =
        Request { address: &target.address, query: target.query, headers: &inner.headers, body: &[] };
    decode(route, &request, reply, form)
}

fn decode_change_set(
    requests: &[InnerRequest<'_>],
    outer: &Request<'_>,
    form: &mut Form,
) -> Result<Command, ServiceError> {
    let mut writes = Vec::with_capacity(requests.len());
    let mut table: Option<TableName> = None;
    let mut refusal = None;
    for (index, inner) in requests.iter().enumerate() {
        if index == TRANSACTION_OPERATIONS_MAX {
            let message = "The batch request operation exceeds the maximum 100 changes per change set.";
            return Err(ServiceError::with_message(ErrorCode::InvalidInput, message).at_operation(index - 1));
        }
        let decoded = decode_operation(inner, outer).map_err(|error| {
            if let Some(batch) = &mut form.batch {
                batch.parts[index].resolved = !error.unresolved;
            }
            error.error.at_operation(index)
        })?;
        let (this_table, write) = match decoded {
            Decoded::Write(this_table, write) => (this_table, Some(write)),
            Decoded::Refused(this_table, error) => {
                refusal.get_or_insert(error.at_operation(index));
                (this_table, None)
            }
        };
        if table.get_or_insert_with(|| this_table.clone()) != &this_table {
            let error = ServiceError::new(ErrorCode::CommandsInBatchActOnDifferentPartitions);
            refusal.get_or_insert(error.at_operation(index));
        }
        writes.extend(write);
    }
    let table = table.ok_or_else(ServiceError::unreadable_body)?;
    form.table = Some(table.clone());
    Ok(match refusal {
        Some(error) => Command::ProbeTable(table, error),
        None => Command::TransactEntities(EntityGroupTransaction { table, writes }),
    })
}

/// Why an operation of a change set was refused.
struct Refused {
    error: ServiceError,
    unresolved: bool,
}

fn decode_operation(inner: &InnerRequest<'_>, outer: &Request<'_>) -> Result<Decoded, Refused> {
    let unresolved = |error: ServiceError| Refused { error, unresolved: true };
    let target = Target::parse(inner.uri, outer).map_err(unresolved)?;
    let route = find_route(&inner.method, &target.address, target.query, &inner.headers)
        .map_err(|Unroutable { error, .. }| unresolved(error))?;
    decode_write(route, &inner.headers, inner.body)
        .map_err(|error| Refused { unresolved: error.code == ErrorCode::InvalidInput, error })
}

/// Where an inner request goes.
struct Target<'a> {
    address: Address<'a>,
    query: &'a str,
    base: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn parse(uri: &'a str, outer: &Request<'_>) -> Result<Self, ServiceError> {
        let (target, query) = uri.split_once('?').unwrap_or((uri, ""));
        let absolute = ["http://", "https://"]
            .iter()
            .find_map(|scheme| Some((scheme.len(), target.strip_prefix(scheme)?)));
        let address = match absolute {
            Some((_, rest)) => {
                let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                Address::parse(host, path).ok_or(ErrorCode::InvalidInput)?
            }
            None => {
                // Rooted paths may name the account again; relative ones start at the service.
                let outer_address = outer.address;
                let inside = target.strip_prefix('/').unwrap_or(target);
                let rest =
                    inside.strip_prefix(outer_address.account.as_str()).filter(|rest| rest.starts_with('/'));
                outer_address.clone_with_path(rest.unwrap_or(target))
            }
        };
        if address.account != outer.address.account {
            return Err(ErrorCode::InvalidInput.into());
        }
        let base = absolute
            .map(|_| &uri[..target.len() - address.path.len() + usize::from(address.path.starts_with('/'))]);
        Ok(Self { address, query, base: base.filter(|base| base.ends_with('/')) })
    }
}

fn part_form(inner: &InnerRequest<'_>, outer: &Request<'_>, reply: &Reply) -> PartForm {
    let target = Target::parse(inner.uri, outer).ok();
    let query = target.as_ref().and_then(|target| Query::parse(target.query)).unwrap_or_default();
    let accept = text(&inner.headers, header::ACCEPT.as_str());
    let mut part = reply.clone();
    if accept.is_some() || query.get("$format").is_some() {
        part.format = negotiate(query.get("$format"), accept).unwrap_or(reply.format);
    }
    part.prefer = Preference::of(&inner.headers);
    if inner.headers.contains_key("dataserviceversion") || inner.headers.contains_key("maxdataserviceversion")
    {
        part.data_service_version = data_service_version(&inner.headers);
    }
    if let Some(base) = target.as_ref().and_then(|target| target.base) {
        part.base = base.to_owned();
    }
    PartForm {
        reply: part,
        content_id: text(&inner.headers, "content-id").map(str::to_owned),
        creates: inner.method == http::Method::POST && !inner.headers.contains_key("x-http-method"),
        resolved: true,
    }
}
