//! The recorded exchanges with the blob service, read once.

use std::sync::OnceLock;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use tavola_model::{AccountName, Address, AddressStyle, Command, Query, ServiceError};
use tavola_protocol::Reply;
use tavola_protocol::blob::{self, BlobRequest, BlobRoute};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpus/blobs.jsonl");

/// One recorded request and its answer.
pub struct Exchange {
    /// The session and the request, for messages.
    pub name: String,
    pub method: Method,
    pub path: String,
    pub query: String,
    pub request_headers: HeaderMap,
    pub request_body: Bytes,
    pub secondary: bool,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The body as it was on the wire; `None` where the recorder rewrote it or there was none.
    pub body: Option<String>,
}

/// Reads the recordings; none where they are absent, which is said. With `TAVOLA_REQUIRE_ALL` they must be there.
pub fn load() -> &'static [Exchange] {
    static EXCHANGES: OnceLock<Vec<Exchange>> = OnceLock::new();
    EXCHANGES.get_or_init(|| match std::fs::read_to_string(PATH) {
        Ok(text) => parse(&text),
        Err(_) => {
            let is_required = std::env::var_os("TAVOLA_REQUIRE_ALL").is_some();
            assert!(!is_required, "the recordings are not at {PATH}");
            println!("NOT COMPARED: the recordings are not at {PATH}");
            Vec::new()
        }
    })
}

fn parse(text: &str) -> Vec<Exchange> {
    let sessions = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    sessions
        .flat_map(|session| {
            let name = session["name"].as_str().unwrap().to_owned();
            let exchanges = session["exchanges"].as_array().unwrap().clone();
            exchanges.into_iter().filter_map(move |exchange| Exchange::parse(&name, &exchange))
        })
        .collect()
}

impl Exchange {
    /// `None` for a request that was aborted, or whose head or query the recorder did not keep.
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
        if query.contains('*') || !request_headers.contains_key("x-ms-version") {
            return None;
        }
        let request_body = Bytes::from(raw(request).unwrap_or_default());
        // Recorders leave the length out; clients do not.
        request_headers
            .entry(http::header::CONTENT_LENGTH)
            .or_insert_with(|| HeaderValue::from(request_body.len()));
        Some(Self {
            name: format!("{session}: {method} {target}"),
            method: Method::from_bytes(method.as_bytes()).ok()?,
            path: path.to_owned(),
            query: query.to_owned(),
            request_headers,
            request_body,
            secondary: exchange["secondary"] == true,
            status: u16::try_from(response["status"].as_u64()?).ok().filter(|status| *status > 0)?,
            headers: pairs(&response["headers"]),
            body: raw(response).filter(|body| !body.is_empty()),
        })
    }

    /// A response header, by any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// A request header.
    pub fn asked(&self, name: &str) -> Option<&str> {
        self.request_headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn address(&self) -> Address<'_> {
        Address {
            account: AccountName::parse("storagename").unwrap(),
            style: AddressStyle::Host,
            secondary: self.secondary,
            path: &self.path,
        }
    }

    pub fn route(&self) -> Result<BlobRoute, ServiceError> {
        let query = Query::parse(&self.query).unwrap();
        blob::route(&self.method, &self.address(), &query, &self.request_headers)
    }

    /// The command, as the server decodes it.
    pub fn decode(&self) -> Result<Command, ServiceError> {
        let (query, route) = (Query::parse(&self.query).unwrap(), self.route()?);
        let request = BlobRequest {
            version: &self.reply().version,
            query: &query,
            headers: &self.request_headers,
            metadata_names: &[],
            body: &self.request_body,
        };
        blob::decode(route, &request)
    }

    /// How the request is answered.
    pub fn reply(&self) -> Reply {
        let id = self.header("x-ms-request-id").unwrap_or_default().to_owned();
        let address = self.address();
        Reply::of(&self.method, &self.request_headers, Some(&address), id, true)
    }
}

fn pairs(headers: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    headers
        .as_object()
        .map(|map| map.iter().map(|(name, value)| (name.clone(), text(value))).collect())
        .unwrap_or_default()
}
