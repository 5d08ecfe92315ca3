//! Recorded exchanges with the real service, as the tests that repeat them read them.
//!
//! A body that a recorder rewrote counts as none, so what is compared is what was on the wire.

#![allow(dead_code, reason = "each test reads a part of an exchange")]

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use tavola_model::{AccountName, Address, AddressStyle};

/// One recorded request and its answer.
pub struct Exchange {
    /// The session and the request, for messages.
    pub name: String,
    pub method: Method,
    /// Path and query as they were sent.
    pub path: String,
    pub query: String,
    /// Request headers; some recorders keep none.
    pub request_headers: HeaderMap,
    pub request_body: Option<String>,
    pub secondary: bool,
    pub status: u16,
    /// Response headers with the case that the recorder gave them.
    pub headers: Vec<(String, String)>,
    /// The body as it was on the wire; `None` where the recorder rewrote it or there was none.
    pub body: Option<String>,
    /// There was no body.
    pub empty: bool,
}

/// The exchanges of a file of recordings; `None`, with a word about it, where they are absent. With `TAVOLA_REQUIRE_ALL`
/// they must be there.
pub fn read(file: &str) -> Option<Vec<Exchange>> {
    let path = format!("{}/../../../shared/corpus/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let Ok(text) = std::fs::read_to_string(&path) else {
        let is_required = std::env::var_os("TAVOLA_REQUIRE_ALL").is_some();
        assert!(!is_required, "the recordings are not at {path}");
        println!("NOT COMPARED: the recordings are not at {path}");
        return None;
    };
    let sessions = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let exchanges = sessions.flat_map(|session| {
        let name = session["name"].as_str().unwrap().to_owned();
        let exchanges = session["exchanges"].as_array().unwrap().clone();
        exchanges.into_iter().filter_map(move |exchange| Exchange::parse(&name, &exchange))
    });
    Some(exchanges.collect())
}

impl Exchange {
    /// `None` for a request that was aborted or whose method the recorder spoiled.
    fn parse(session: &str, exchange: &Value) -> Option<Self> {
        let (request, response) = (&exchange["request"], &exchange["response"]);
        let target = request["path"].as_str()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let method = request["method"].as_str()?;
        let raw = |message: &Value| {
            let is_raw = message.get("body_form").is_none_or(Value::is_null);
            message["body"].as_str().filter(|_| is_raw).map(str::to_owned)
        };
        let mut request_headers = HeaderMap::new();
        for (name, value) in pairs(&request["headers"]) {
            request_headers
                .append(HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(&value).ok()?);
        }
        Some(Self {
            name: format!("{session}: {method} {target}"),
            method: Method::from_bytes(method.as_bytes()).ok()?,
            path: path.to_owned(),
            query: query.to_owned(),
            request_headers,
            request_body: raw(request),
            secondary: exchange["secondary"] == true,
            status: u16::try_from(response["status"].as_u64()?).ok().filter(|status| *status > 0)?,
            headers: pairs(&response["headers"]),
            body: raw(response).filter(|body| !body.is_empty()),
            empty: response["body"].as_str().is_none_or(str::is_empty),
        })
    }

    /// A response header, by any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Where the request went, if this is the account.
    pub fn address_of(&self, account: &str) -> Address<'_> {
        Address {
            account: AccountName::parse(account).unwrap(),
            style: AddressStyle::Host,
            secondary: self.secondary,
            path: &self.path,
        }
    }
}

/// Names and values; a header that came more than once is joined by some recorders and listed by others.
fn pairs(headers: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        value => value.as_str().unwrap_or_default().to_owned(),
    };
    headers
        .as_object()
        .map(|map| map.iter().map(|(name, value)| (name.clone(), text(value))).collect())
        .unwrap_or_default()
}
