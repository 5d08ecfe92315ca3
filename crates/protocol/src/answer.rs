//! The headers that every answer has, whichever service gives it.

use http::HeaderValue;
use tavola_model::DateTime;

use crate::reply::Reply;
use crate::response::Response;

/// What a browser is told about an answer to a cross-origin request.
#[derive(Clone, Debug)]
pub struct CorsHeaders {
    /// `*` or the origin that asked.
    pub allow_origin: String,
    /// Header names that scripts may read; `*` stands for all that are present.
    pub expose_headers: Vec<String>,
}

/// What an anonymous client is told to bring. The tenant is the one that names no tenant.
pub(crate) const CHALLENGE: &str = "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize resource_id=https://storage.azure.com";

const GATEWAY_SERVER: &str = "Microsoft-HTTPAPI/2.0";

/// Who sends an answer: the gateway before a service and its version are known, or the service of this name.
#[derive(Clone, Copy)]
pub(crate) enum Sender {
    Gateway,
    Service(&'static HeaderValue),
}

/// Adds the headers that every answer has.
pub(crate) fn finish(
    response: &mut Response,
    reply: &Reply,
    sender: Sender,
    cors: Option<&CorsHeaders>,
    now: DateTime,
) {
    match sender {
        Sender::Gateway => response.add("Server", GATEWAY_SERVER),
        Sender::Service(server) => response.add("Server", server.clone()),
    }
    response.add("x-ms-request-id", reply.request_id.as_str());
    if let Some(id) = &reply.client_request_id {
        response.add("x-ms-client-request-id", id.as_str());
    }
    if let Sender::Service(_) = sender {
        response.add("x-ms-version", reply.version.as_str());
    }
    response.add("Date", now.to_rfc1123());
    if let Some(cors) = cors {
        let exposed = exposed_headers(&response.headers, cors);
        response.add("Access-Control-Allow-Origin", cors.allow_origin.as_str());
        if !exposed.is_empty() {
            response.add("Access-Control-Expose-Headers", exposed);
        }
        if cors.allow_origin != "*" {
            response.add("Vary", "Origin");
        }
    }
}

/// The names a script may read: those of the rule, with `*` spelled out.
fn exposed_headers(headers: &[(&'static str, HeaderValue)], cors: &CorsHeaders) -> String {
    if cors.expose_headers.iter().any(|name| name == "*") {
        let present: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        return format!("{},Content-Length,Transfer-Encoding", present.join(","));
    }
    cors.expose_headers.join(",")
}

/// Text, request id and time, as every message carries them.
pub(crate) fn full_message(message: &str, reply: &Reply, now: DateTime) -> String {
    format!("{message}\nRequestId:{}\nTime:{}", reply.request_id, now.to_text_7_digits())
}
