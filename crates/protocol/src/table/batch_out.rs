//! The answer to a batch: one multipart body, header for header in the order of the recordings.

use tavola_model::{DateTime, ErrorCode, Guid, ServiceError, TableName, WriteOutcome};

use super::form::{PartForm, Style};
use super::format::{Format, Preference};
use super::select::Select;
use super::{atom_out, error_body, json_out, link};
use crate::answer::full_message;
use crate::reply::Reply;
use crate::response::Response;
use crate::status::status;

/// A multipart body and the content type that names its boundary.
pub struct Multipart {
    /// `multipart/mixed; boundary=…`.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// The results of all writes of a change set.
pub fn written(
    reply: &Reply,
    parts: &[PartForm],
    table: &TableName,
    outcomes: &[WriteOutcome],
    now: DateTime,
    ids: [Guid; 2],
) -> Multipart {
    change_set(ids, |out, boundary| {
        for (part, outcome) in parts.iter().zip(outcomes) {
            start_part(boundary, out);
            write_outcome(part, &part.reply(reply), table, outcome, now, out);
        }
    })
}

/// A change set without operations.
pub fn nothing_written(ids: [Guid; 2]) -> Multipart {
    change_set(ids, |_, _| {})
}

/// The one failure that undid a change set.
pub fn failed(
    parts: &[PartForm],
    reply: &Reply,
    error: &ServiceError,
    now: DateTime,
    ids: [Guid; 2],
) -> Multipart {
    change_set(ids, |out, boundary| {
        start_part(boundary, out);
        write_error(parts, reply, error, now, out);
    })
}

/// The answer to a single query: the response it would have had alone, without the headers of the outside.
pub fn queried(response: &Response, style: Style, ids: [Guid; 2]) -> Multipart {
    let boundary = format!("batchresponse_{}", ids[0]);
    let mut out = Vec::with_capacity(response.body.len() + 512);
    start_part(&boundary, &mut out);
    status_line(response.status, &mut out);
    line(&mut out, "DataServiceVersion", &format!("{};", style.data_service_version));
    for name in [
        "Content-Type",
        "X-Content-Type-Options",
        "Cache-Control",
        "ETag",
        "x-ms-continuation-NextPartitionKey",
        "x-ms-continuation-NextRowKey",
    ] {
        if let Some(value) = response.header(name) {
            line(&mut out, name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&response.body);
    out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    Multipart { content_type: format!("multipart/mixed; boundary={boundary}"), body: out }
}

/// A batch in which nothing was found.
pub fn empty(ids: [Guid; 2]) -> Multipart {
    let boundary = format!("batchresponse_{}", ids[0]);
    Multipart {
        content_type: format!("multipart/mixed; boundary={boundary}"),
        body: format!("--{boundary}--\r\n").into_bytes(),
    }
}

fn change_set(ids: [Guid; 2], write_parts: impl FnOnce(&mut Vec<u8>, &str)) -> Multipart {
    let outer = format!("batchresponse_{}", ids[0]);
    let inner = format!("changesetresponse_{}", ids[1]);
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(
        format!("--{outer}\r\nContent-Type: multipart/mixed; boundary={inner}\r\n\r\n").as_bytes(),
    );
    write_parts(&mut out, &inner);
    out.extend_from_slice(format!("--{inner}--\r\n--{outer}--\r\n").as_bytes());
    Multipart { content_type: format!("multipart/mixed; boundary={outer}"), body: out }
}

fn start_part(boundary: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(
        format!(
            "--{boundary}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
        )
        .as_bytes(),
    );
}

fn status_line(status: http::StatusCode, out: &mut Vec<u8>) {
    let reason = status.canonical_reason().unwrap_or_default();
    out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
}

fn line(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_outcome(
    part: &PartForm,
    reply: &Reply,
    table: &TableName,
    outcome: &WriteOutcome,
    now: DateTime,
    out: &mut Vec<u8>,
) {
    match outcome {
        WriteOutcome::Inserted(entity) if part.style.prefer == Some(Preference::ReturnNoContent) => {
            status_line(http::StatusCode::NO_CONTENT, out);
            content_id(part, out);
            guards(out);
            line(out, "Preference-Applied", Preference::ReturnNoContent.as_str());
            line(out, "DataServiceVersion", &format!("{};", part.style.data_service_version));
            let url = link::entity_url(&reply.base, table, &entity.key);
            line(out, "Location", &url);
            line(out, "DataServiceId", &url);
            line(out, "ETag", &entity.etag().to_string());
            out.extend_from_slice(b"\r\n\r\n");
        }
        WriteOutcome::Inserted(entity) => {
            status_line(http::StatusCode::CREATED, out);
            line(out, "DataServiceVersion", &format!("{};", part.style.data_service_version));
            let (content_type, body) = match part.style.format {
                Format::Json(level) => {
                    let mut body = Vec::new();
                    json_out::entity(reply, level, table, entity, &Select::default(), &mut body);
                    (format!("application/json;odata={};streaming=true;charset=utf-8", level.as_str()), body)
                }
                Format::Atom => {
                    let body = atom_out::entity(reply, part.style, table, entity, &Select::default(), now);
                    ("application/atom+xml;type=entry;charset=utf-8".to_owned(), body.into_bytes())
                }
            };
            line(out, "Content-Type", &content_type);
            content_id(part, out);
            guards(out);
            if let Some(preference) = part.style.prefer {
                line(out, "Preference-Applied", preference.as_str());
            }
            line(out, "Location", &link::entity_url(&reply.base, table, &entity.key));
            line(out, "ETag", &entity.etag().to_string());
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(&body);
            out.extend_from_slice(b"\r\n");
        }
        WriteOutcome::Updated { etag, .. } => {
            status_line(http::StatusCode::NO_CONTENT, out);
            content_id(part, out);
            guards(out);
            line(out, "DataServiceVersion", "1.0;");
            line(out, "ETag", &etag.to_string());
            out.extend_from_slice(b"\r\n\r\n");
        }
        WriteOutcome::Deleted => {
            status_line(http::StatusCode::NO_CONTENT, out);
            content_id(part, out);
            guards(out);
            line(out, "DataServiceVersion", "1.0;");
            out.extend_from_slice(b"\r\n\r\n");
        }
    }
}

fn write_error(parts: &[PartForm], reply: &Reply, error: &ServiceError, now: DateTime, out: &mut Vec<u8>) {
    let index = error.index.unwrap_or(0);
    // The store is asked once all operations are read, so its errors are written in the form of the last one.
    let last = parts.len() - 1;
    let part = &parts[if is_storage_level(error.code) { last } else { index.min(last) }];
    let text = if parts.len() > 1 || !is_storage_level(error.code) {
        format!("{index}:{}", error.message)
    } else {
        error.message.to_string()
    };
    let message = full_message(&text, reply, now);
    let (body, content_type) = error_body::odata(error, &message, part.style.format);
    let version = if part.style.format == Format::Atom { "1.0" } else { part.style.data_service_version };
    status_line(status(error.code), out);
    content_id(part, out);
    line(out, "X-Content-Type-Options", "nosniff");
    if part.resolved && error.code != ErrorCode::TableNotFound {
        line(out, "Cache-Control", "no-cache");
        if let Some(preference) = part.style.prefer.filter(|_| part.creates) {
            line(out, "Preference-Applied", preference.as_str());
        }
    }
    line(out, "DataServiceVersion", &format!("{version};"));
    line(out, "Content-Type", &content_type);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
    out.extend_from_slice(b"\r\n");
}

/// Errors of the store carry no index when the change set had a single operation.
fn is_storage_level(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::EntityAlreadyExists | ErrorCode::ResourceNotFound | ErrorCode::UpdateConditionNotSatisfied
    )
}

fn guards(out: &mut Vec<u8>) {
    line(out, "X-Content-Type-Options", "nosniff");
    line(out, "Cache-Control", "no-cache");
}

fn content_id(part: &PartForm, out: &mut Vec<u8>) {
    if let Some(id) = &part.content_id {
        line(out, "Content-ID", id);
    }
}
