//! A batch to the command it asks for: a change set to one transaction, or the single query it holds.

use http::header;
use tavola_model::{
    Address, Command, EntityGroupTransaction, ErrorCode, ServiceError, TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX, TableName,
};

use crate::decode::{BatchForm, Form, Layer, PartForm, Request, decode};
use crate::query::Query;
use crate::reply::{Preference, Reply, data_service_version, negotiate, text};
use crate::route::{Route, Unroutable, route as find_route};
use crate::table::batch_in::{self, Batch, InnerRequest};
use crate::table::write_in::{Decoded, decode_write};

/// Decodes a batch and notes the form of its parts.
pub fn decode_batch(request: &Request<'_>, reply: &Reply, form: &mut Form) -> Result<Command, ServiceError> {
    if request.body.len() > TRANSACTION_BYTES_MAX {
        return Err(ErrorCode::RequestBodyTooLarge.into());
    }
    let batch = batch_in::parse(text(request.headers, header::CONTENT_TYPE), request.body)?;
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
    let accept = text(&inner.headers, header::ACCEPT);
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
