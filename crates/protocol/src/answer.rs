//! The headers that every answer has, whichever service gives it.

use std::cell::RefCell;

use http::HeaderValue;
use tavola_model::DateTime;

use crate::reply::Reply;
use crate::response::Response;

/// What an answer tells browsers and caches, where the service has CORS rules.
#[derive(Clone, Debug)]
pub enum CorsHeaders {
    /// A rule matches the request.
    Allowed {
        /// `*` or the origin that asked.
        allow_origin: String,
        /// Header names that scripts may read; `*` stands for all that are present.
        expose_headers: Vec<String>,
    },
    /// No rule matches, or no origin asked, but another origin could get another answer: said on GET and HEAD only,
    /// as recorded.
    Varies,
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
        response.add("x-ms-client-request-id", id.clone());
    }
    if let Sender::Service(_) = sender {
        response.add("x-ms-version", reply.version.as_header().clone());
    }
    response.add("Date", date_header(now));
    match cors {
        None => {}
        Some(CorsHeaders::Varies) => response.add("Vary", "Origin"),
        Some(CorsHeaders::Allowed { allow_origin, expose_headers }) => {
            let exposed = exposed_headers(&response.headers, expose_headers);
            response.add("Access-Control-Allow-Origin", allow_origin.as_str());
            if !exposed.is_empty() {
                response.add("Access-Control-Expose-Headers", exposed);
            }
            if allow_origin != "*" {
                response.add("Vary", "Origin");
            }
        }
    }
}

/// The value of `Date`, which a thread makes once a second.
fn date_header(now: DateTime) -> HeaderValue {
    thread_local! {
        static LAST: RefCell<Option<(i64, HeaderValue)>> = const { RefCell::new(None) };
    }
    let second = now.unix_seconds();
    LAST.with_borrow_mut(|last| match last {
        Some((made_for, date)) if *made_for == second => date.clone(),
        _ => {
            let date = HeaderValue::try_from(now.to_rfc1123()).expect("a date is ASCII");
            last.insert((second, date)).1.clone()
        }
    })
}

/// The names a script may read: those of the rule, with `*` expanded.
fn exposed_headers(headers: &[(&'static str, HeaderValue)], expose: &[String]) -> String {
    if expose.iter().any(|name| name == "*") {
        let present: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        return format!("{},Content-Length,Transfer-Encoding", present.join(","));
    }
    expose.join(",")
}

/// Text, request id and time, as every message carries them.
pub(crate) fn full_message(message: &str, reply: &Reply, now: DateTime) -> String {
    format!("{message}\nRequestId:{}\nTime:{}", reply.request_id, now.to_text_7_digits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, Method, StatusCode};

    #[test]
    fn an_answer_varies_by_origin_unless_any_may_have_it() {
        let check = |cors: Option<CorsHeaders>, expected: &[(&str, &str)]| {
            let reply = Reply::of(&Method::GET, &HeaderMap::new(), None, "id".to_owned(), false);
            let mut response = Response::empty(StatusCode::OK);
            finish(&mut response, &reply, Sender::Gateway, cors.as_ref(), DateTime::MIN);
            let of_cors = |(name, value): &(&'static str, HeaderValue)| {
                let is_common = ["Server", "x-ms-request-id", "Date"].contains(name);
                (!is_common).then(|| (*name, value.to_str().unwrap().to_owned()))
            };
            let told: Vec<_> = response.headers.iter().filter_map(of_cors).collect();
            let told: Vec<_> = told.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(told, expected);
        };
        let allowed = |origin: &str| {
            Some(CorsHeaders::Allowed { allow_origin: origin.to_owned(), expose_headers: Vec::new() })
        };
        check(None, &[]);
        check(Some(CorsHeaders::Varies), &[("Vary", "Origin")]);
        check(allowed("*"), &[("Access-Control-Allow-Origin", "*")]);
        check(allowed("http://a"), &[("Access-Control-Allow-Origin", "http://a"), ("Vary", "Origin")]);
    }
}
