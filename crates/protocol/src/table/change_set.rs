//! A batch to the command it asks for: a change set to one transaction, or the single query it holds.

use http::{HeaderMap, header};
use tavola_model::{
    Address, EntityGroupTransaction, ErrorCode, Query, ServiceError, TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX, TableCommand, TableName,
};

use super::batch_in::{self, Batch};
use super::form::{BatchForm, Form, Layer, PartForm, Style};
use super::format::{Preference, data_service_version, negotiate};
use super::query_in::{check_options, get_entity, query_entities};
use super::route::{TableRoute, Unroutable, route as find_route};
use super::write_in::{Decoded, decode_write};
use crate::multipart::InnerRequest;
use crate::reply::text;

/// Decodes a batch that was sent to an address, and notes the form of its parts.
pub fn decode_batch(
    address: &Address<'_>,
    headers: &HeaderMap,
    body: &[u8],
    form: &mut Form,
) -> Result<TableCommand, ServiceError> {
    if body.len() > TRANSACTION_BYTES_MAX {
        return Err(ErrorCode::RequestBodyTooLarge.into());
    }
    let batch = batch_in::parse(text(headers, header::CONTENT_TYPE), body)?;
    let (query, requests) = match batch {
        Batch::Empty => (false, None),
        Batch::Query(inner) => (true, Some(vec![inner])),
        Batch::ChangeSet(requests) => (false, Some(requests)),
    };
    let Some(requests) = requests else {
        form.batch = Some(BatchForm { query: true, parts: Vec::new() });
        return Err(ServiceError::unreadable_body());
    };
    let parts: Vec<Part<'_>> = requests
        .into_iter()
        .map(|inner| Part { target: Target::parse(inner.uri, address), request: inner })
        .collect();
    let forms = parts.iter().map(|part| part_form(part, form.style)).collect();
    form.batch = Some(BatchForm { query, parts: forms });
    form.layer = Layer::OData;
    if !query {
        return decode_change_set(parts, form);
    }
    match parts.into_iter().next() {
        Some(part) => decode_batch_query(part, form),
        None => Err(ServiceError::unreadable_body()),
    }
}

/// A request of a batch, and where it goes.
struct Part<'a> {
    request: InnerRequest<'a>,
    target: Result<Target<'a>, ServiceError>,
}

/// The single query of a batch, decoded as if it had come alone.
fn decode_batch_query(part: Part<'_>, form: &mut Form) -> Result<TableCommand, ServiceError> {
    let (inner, target) = (part.request, part.target?);
    let route =
        find_route(&inner.method, &target.address, &target.query, &inner.headers).map_err(|e| e.error)?;
    form.layer = Layer::Unresolved;
    form.check_format()?;
    check_options(&target.query)?;
    let command = match route {
        TableRoute::GetEntity(table, key) => get_entity(table, key, &target.query, form)?,
        TableRoute::QueryEntities(table, partition) => query_entities(table, partition, &target.query, form)?,
        _ => {
            form.layer = Layer::OData;
            return Err(ErrorCode::InvalidInput.into());
        }
    };
    form.layer = Layer::OData;
    Ok(command)
}

fn decode_change_set(parts: Vec<Part<'_>>, form: &mut Form) -> Result<TableCommand, ServiceError> {
    let mut writes = Vec::with_capacity(parts.len());
    let mut table: Option<TableName> = None;
    let mut refusal = None;
    for (index, part) in parts.into_iter().enumerate() {
        if index == TRANSACTION_OPERATIONS_MAX {
            let message = "The batch request operation exceeds the maximum 100 changes per change set.";
            return Err(ServiceError::with_message(ErrorCode::InvalidInput, message).at_operation(index - 1));
        }
        let decoded = decode_operation(part).map_err(|error| {
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
        Some(error) => TableCommand::ProbeTable(table, error),
        None => TableCommand::TransactEntities(EntityGroupTransaction { table, writes }),
    })
}

/// Why an operation of a change set was refused.
struct Refused {
    error: ServiceError,
    unresolved: bool,
}

fn decode_operation(part: Part<'_>) -> Result<Decoded, Refused> {
    let unresolved = |error: ServiceError| Refused { error, unresolved: true };
    let (inner, target) = (part.request, part.target.map_err(unresolved)?);
    let route = find_route(&inner.method, &target.address, &target.query, &inner.headers)
        .map_err(|Unroutable { error, .. }| unresolved(error))?;
    decode_write(route, &inner.headers, inner.body)
        .map_err(|error| Refused { unresolved: error.code == ErrorCode::InvalidInput, error })
}

/// Where an inner request goes.
struct Target<'a> {
    address: Address<'a>,
    query: Query<'a>,
    base: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn parse(uri: &'a str, outer: &Address<'_>) -> Result<Self, ServiceError> {
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
                let inside = target.strip_prefix('/').unwrap_or(target);
                let rest = inside.strip_prefix(outer.account.as_str()).filter(|rest| rest.starts_with('/'));
                outer.clone_with_path(rest.unwrap_or(target))
            }
        };
        if address.account != outer.account {
            return Err(ErrorCode::InvalidInput.into());
        }
        let base = absolute
            .map(|_| &uri[..target.len() - address.path.len() + usize::from(address.path.starts_with('/'))]);
        let query = Query::parse(query).ok_or(ErrorCode::InvalidInput)?;
        Ok(Self { address, query, base: base.filter(|base| base.ends_with('/')) })
    }
}

fn part_form(part: &Part<'_>, whole: Style) -> PartForm {
    let (inner, target) = (&part.request, part.target.as_ref().ok());
    let format = target.and_then(|target| target.query.get("$format"));
    let accept = text(&inner.headers, header::ACCEPT);
    let mut style = Style { prefer: Preference::of(&inner.headers), ..whole };
    if accept.is_some() || format.is_some() {
        style.format = negotiate(format, accept).unwrap_or(whole.format);
    }
    if inner.headers.contains_key("dataserviceversion") || inner.headers.contains_key("maxdataserviceversion")
    {
        style.data_service_version = data_service_version(&inner.headers);
    }
    PartForm {
        style,
        base: target.and_then(|target| target.base).map(str::to_owned),
        content_id: text(&inner.headers, "content-id").map(str::to_owned),
        creates: inner.method == http::Method::POST && !inner.headers.contains_key("x-http-method"),
        resolved: true,
    }
}
