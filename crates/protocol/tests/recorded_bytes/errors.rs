//! Errors of all layers.

use tavola_model::{DateTime, ErrorCode, Guid, ServiceError, StorageService};
use tavola_protocol::table::{self, TableRequest};
use tavola_protocol::{Form, Response};

use crate::atom::{between, unescape};
use crate::corpus::Exchange;

/// Encodes a recorded error; `None` for other answers.
pub fn encode(exchange: &Exchange) -> Option<Response> {
    let body = exchange.body.as_deref()?;
    if exchange.status < 400 || !is_whole(exchange) {
        return None;
    }
    let told = read(body)?;
    let mut reply = exchange.reply("", "");
    reply.request_id = told.request_id.clone();
    let form = form_of(exchange, told.error.code);
    Some(tavola_protocol::encode(
        StorageService::Table,
        &reply,
        &form,
        &Err(told.error),
        None,
        told.time,
        [Guid([0; 16]); 2],
    ))
}

/// Whether the recorder kept of the request what decides how far it came.
fn is_whole(exchange: &Exchange) -> bool {
    match exchange.method.as_str() {
        "GET" => true,
        "DELETE" => exchange.path.starts_with("/Tables") || exchange.request_headers.contains_key("if-match"),
        _ => exchange.request_body.is_some(),
    }
}

/// What an error body says.
pub struct Told {
    pub error: ServiceError,
    pub request_id: String,
    pub time: DateTime,
}

/// Reads an error body of any form.
pub fn read(body: &str) -> Option<Told> {
    let (code, text) = match serde_json::from_str::<serde_json::Value>(body) {
        Ok(json) => {
            let error = &json["odata.error"];
            (error["code"].as_str()?.to_owned(), error["message"]["value"].as_str()?.to_owned())
        }
        Err(_) => {
            (between(body, "code>", "<")?.to_owned(), unescape(between(body, "xml:lang=\"en-US\">", "</")?))
        }
    };
    let code = ErrorCode::ALL.iter().copied().find(|known| known.as_str() == code).unwrap();
    let (message, rest) = text.split_once("\nRequestId:")?;
    let (request_id, time) = rest.split_once("\nTime:")?;
    Some(Told {
        error: ServiceError::with_message(code, message.to_owned()),
        request_id: request_id.to_owned(),
        time: DateTime::parse(time)?,
    })
}

/// How far the request came, as the pipeline would have noted it.
fn form_of(exchange: &Exchange, code: ErrorCode) -> Form {
    let mut form = exchange.form();
    let before_routing = matches!(
        code,
        ErrorCode::AuthenticationFailed
            | ErrorCode::InvalidAuthenticationInfo
            | ErrorCode::InvalidHeaderValue
            | ErrorCode::InvalidUri
            | ErrorCode::NoAuthenticationInformation
    );
    // An anonymous batch is refused whole; what its parts lack is told in parts.
    if before_routing || exchange.path == "/$batch" {
        return form;
    }
    let address = exchange.address();
    match table::route(&exchange.method, &address, &exchange.query(), &exchange.request_headers) {
        Ok(route) => {
            let body = exchange.request_body.as_deref().unwrap_or_default().as_bytes();
            let headers = &exchange.request_headers;
            let request = TableRequest { address: &address, query: &exchange.query(), headers, body };
            let _ = table::decode(route, &request, &mut form);
        }
        Err(unroutable) => {
            form.refuse(unroutable);
        }
    }
    form
}
