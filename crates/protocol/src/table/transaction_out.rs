//! An entity group transaction as a client sends it: one change set, in the form of the official clients.

use http::header::{self, HeaderValue};
use http::{HeaderName, Method};
use tavola_model::{
    ErrorCode, Guid, ServiceError, TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX, TableName,
};

use super::entity_out::{body_bytes, push_entity_body};
use super::format::Preference;
use super::request_out::{ACCEPT, ChangeRequest, EntityRequest, JSON, push_write_target};
use crate::request::Request;

/// Bytes of an operation before its body, about.
const HEAD_BYTES: usize = 512;

/// Entity Group Transaction. `base` is the URL of the service with the account where the path names it, and ends with
/// a slash; `ids` are fresh random guids for the boundaries. Refuses what the service would refuse: more than 100
/// writes or 4 MiB, none, several partitions, an entity twice.
pub fn transact_entities(
    table: &TableName,
    writes: &[EntityRequest<'_>],
    base: &str,
    ids: [Guid; 2],
) -> Result<Request, ServiceError> {
    check(writes)?;
    let (batch, change_set) = (format!("batch_{}", ids[0]), format!("changeset_{}", ids[1]));
    let bytes = |write: &EntityRequest<'_>| {
        HEAD_BYTES + write.change.values().map_or(0, |values| body_bytes(write.key, values))
    };
    let mut body = Vec::with_capacity(writes.iter().map(bytes).sum());
    let mut url = String::new();
    push(&mut body, &["--", &batch, "\r\nContent-Type: multipart/mixed; boundary=", &change_set, "\r\n\r\n"]);
    for (index, write) in writes.iter().enumerate() {
        let error_here = |error: ServiceError| error.at_operation(index);
        push(
            &mut body,
            &[
                "--",
                &change_set,
                "\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
            ],
        );
        url.clear();
        url.push_str(base);
        push_write_target(table, write, &mut url);
        push_write(write, &url, &mut body).map_err(error_here)?;
    }
    push(&mut body, &["--", &change_set, "--\r\n\r\n--", &batch, "--\r\n"]);
    if body.len() > TRANSACTION_BYTES_MAX {
        return Err(ErrorCode::RequestBodyTooLarge.into());
    }
    let content_type = HeaderValue::try_from(format!("multipart/mixed; boundary={batch}"));
    let content_type = content_type.map_err(|_| ErrorCode::InvalidInput)?;
    let mut request = Request::new(Method::POST, "/$batch")
        .with_header(header::ACCEPT, HeaderValue::from_static(ACCEPT))
        .with_header(HeaderName::from_static("dataserviceversion"), HeaderValue::from_static("3.0"))
        .with_header(header::CONTENT_TYPE, content_type);
    request.body = body.into();
    Ok(request)
}

fn check(writes: &[EntityRequest<'_>]) -> Result<(), ServiceError> {
    let Some(first) = writes.first() else { return Err(ServiceError::unreadable_body()) };
    if writes.len() > TRANSACTION_OPERATIONS_MAX {
        return Err(ServiceError::new(ErrorCode::InvalidInput).at_operation(TRANSACTION_OPERATIONS_MAX - 1));
    }
    let mut rows = std::collections::HashSet::with_capacity(writes.len());
    for (index, write) in writes.iter().enumerate() {
        let refusal = if write.key.partition != first.key.partition {
            ErrorCode::CommandsInBatchActOnDifferentPartitions
        } else if !rows.insert(write.key.row.as_str()) {
            ErrorCode::InvalidDuplicateRow
        } else {
            continue;
        };
        return Err(ServiceError::new(refusal).at_operation(index));
    }
    Ok(())
}

fn push_write(write: &EntityRequest<'_>, url: &str, out: &mut Vec<u8>) -> Result<(), ServiceError> {
    let method = write.change.method();
    push(
        out,
        &[method.as_str(), " ", url, " HTTP/1.1\r\nAccept: ", ACCEPT, "\r\nDataServiceVersion: 3.0\r\n"],
    );
    if let Some(condition) = write.change.if_match() {
        out.extend_from_slice(b"If-Match: ");
        out.extend_from_slice(condition.to_header()?.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if let ChangeRequest::Insert(_) = write.change {
        push(out, &["Prefer: ", Preference::ReturnNoContent.as_str(), "\r\n"]);
    }
    match write.change.values() {
        Some(values) => {
            push(out, &["Content-Type: ", JSON, "\r\n\r\n"]);
            push_entity_body(write.key, values, out)?;
            out.extend_from_slice(b"\r\n");
        }
        None => out.extend_from_slice(b"\r\n\r\n"),
    }
    Ok(())
}

fn push(out: &mut Vec<u8>, pieces: &[&str]) {
    pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
}
