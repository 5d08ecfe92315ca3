//! Batch responses: the recorded request is decoded, the recorded parts say what became of it.

use tavola_model::{
    Command, DateTime, EntityChange, EntityWrite, Etag, Guid, Outcome, ServiceError, StorageService,
    StoredEntity, TableCommand, TableOutcome, WriteOutcome,
};
use tavola_protocol::Response;
use tavola_protocol::table::{self, TableRequest};

use crate::atom::between;
use crate::corpus::{ACCOUNT, Exchange};
use crate::errors;
use crate::json::etag_time;

/// Encodes a recorded batch response; `None` where the request was not recorded, or is no change set.
pub fn encode(exchange: &Exchange) -> Option<Response> {
    let body = exchange.body.as_deref()?;
    let request_body = exchange.request_body.as_deref().filter(|body| !body.is_empty())?;
    let label = between(request_body, " https://", ".")?;
    let (theirs, ours) = (format!("https://{label}."), format!("https://{ACCOUNT}."));
    let request_body = request_body.replace(&theirs, &ours);
    let outer = between(body, "batchresponse_", "\r\n")?;
    let inner = between(body, "changesetresponse_", "\r\n")?;
    let ids = [Guid::parse(outer)?, Guid::parse(inner)?];
    let address = exchange.address();
    let mut reply = exchange.reply("", "");
    let mut form = exchange.form();
    // Some recorders blank the boundary in the header; the body begins with it.
    let boundary = request_body.trim_start().lines().next()?.trim_start_matches("--");
    let mut headers = exchange.request_headers.clone();
    headers.insert("content-type", format!("multipart/mixed; boundary={boundary}").parse().ok()?);
    let headers = &headers;
    let request =
        TableRequest { address: &address, query: &exchange.query(), headers, body: request_body.as_bytes() };
    let route = table::route(&exchange.method, &address, &exchange.query(), headers).ok()?;
    let decoded = table::decode(route, &request, &mut form);
    let parts: Vec<&str> = body.split("\r\nHTTP/1.1 ").skip(1).collect();
    let failure = parts.first().filter(|part| part.as_bytes()[0] == b'4');
    let mut now = DateTime::MIN;
    let result = match (failure, decoded) {
        (Some(part), decoded) => {
            let told = failure_of(part)?;
            reply.request_id = told.request_id;
            now = told.time;
            // What the decoder refuses itself it must refuse with the recorded words.
            Err(decoded.err().unwrap_or(told.error))
        }
        (None, Ok(Command::Table(TableCommand::TransactEntities(transaction)))) => {
            let outcomes =
                transaction.writes.into_iter().zip(&parts).map(|(write, part)| outcome(write, part));
            Ok(Outcome::Table(TableOutcome::EntitiesTransacted(outcomes.collect::<Option<_>>()?)))
        }
        (None, Ok(_)) => return None,
        (None, Err(error)) => Err(error),
    };
    let mut response = tavola_protocol::encode(StorageService::Table, &reply, &form, &result, None, now, ids);
    let body = String::from_utf8(response.body.to_vec()).unwrap();
    response.body = body.replace(&ours, &theirs).into();
    Some(response)
}

fn outcome(write: EntityWrite, part: &str) -> Option<WriteOutcome> {
    let etag = between(part, "\r\nETag: ", "\r\n").and_then(etag_time);
    Some(match write.change {
        EntityChange::Insert(properties) => {
            WriteOutcome::Inserted(StoredEntity { key: write.key, timestamp: etag?, properties })
        }
        EntityChange::Delete(_) => WriteOutcome::Deleted,
        _ => WriteOutcome::Updated { key: write.key, etag: Etag(etag?) },
    })
}

/// The recorded failure, its index taken out of the text.
fn failure_of(part: &str) -> Option<errors::Told> {
    let (_, body) = part.split_once("\r\n\r\n")?;
    let mut told = errors::read(body.split("\r\n--").next()?)?;
    let indexed = told
        .error
        .message
        .split_once(':')
        .and_then(|(index, text)| Some((index.parse::<usize>().ok()?, text.to_owned())));
    if let Some((index, text)) = indexed {
        told.error = ServiceError::with_message(told.error.code, text).at_operation(index);
    }
    Some(told)
}
