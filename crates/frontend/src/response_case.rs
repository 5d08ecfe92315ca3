//! Header names in the case in which the real service writes them.
//!
//! HTTP says that case means nothing, but people compare dumps. hyper writes names in lower case unless a
//! response carries the map with which hyper itself remembers the case of a message it has read. That map
//! cannot be built from outside, so one is learned at start: a request with our names goes through hyper over a
//! pipe in memory, and its extensions, which hold the map, are kept and cloned into every response.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Extensions;
use http::header::{self, HeaderName};
use http_body_util::Empty;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

/// Names of nearly every answer, apart so that most responses clone a small map.
const COMMON: &[&str] =
    &["Cache-Control", "Content-Length", "Content-Type", "Date", "ETag", "Server", "X-Content-Type-Options"];

/// The other names that are not all lower case.
const RARE: &[&str] = &[
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Headers",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
    "DataServiceId",
    "Location",
    "Preference-Applied",
    "Vary",
    "WWW-Authenticate",
    "x-ms-continuation-NextPartitionKey",
    "x-ms-continuation-NextRowKey",
    "x-ms-continuation-NextTableName",
];

/// The case maps for responses.
pub struct HeaderCase {
    common: Extensions,
    all: Extensions,
}

impl HeaderCase {
    /// Learns the maps; empty extensions (and so lower case) if hyper should ever stop keeping one.
    pub async fn learn() -> Self {
        let all = [COMMON, RARE].concat();
        Self { common: learn(COMMON).await, all: learn(&all).await }
    }

    /// What a response carries so that its names keep their case, where all of them are common or not.
    pub fn of(&self, all_common: bool) -> Extensions {
        if all_common { self.common.clone() } else { self.all.clone() }
    }
}

/// A header name of nearly every answer, which is not parsed again; `None` for any other.
pub fn common_name(name: &str) -> Option<HeaderName> {
    static REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
    static CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
    static VERSION: HeaderName = HeaderName::from_static("x-ms-version");
    Some(match name {
        "Cache-Control" => header::CACHE_CONTROL,
        "Content-Type" => header::CONTENT_TYPE,
        "Date" => header::DATE,
        "ETag" => header::ETAG,
        "Server" => header::SERVER,
        "X-Content-Type-Options" => header::X_CONTENT_TYPE_OPTIONS,
        "x-ms-request-id" => REQUEST_ID.clone(),
        "x-ms-client-request-id" => CLIENT_REQUEST_ID.clone(),
        "x-ms-version" => VERSION.clone(),
        _ => return None,
    })
}

/// Any other header name of ours.
pub fn other_name(name: &str) -> HeaderName {
    HeaderName::from_bytes(name.as_bytes()).expect("our header names are valid")
}

async fn learn(names: &[&str]) -> Extensions {
    let (mut client, server) = tokio::io::duplex(4096);
    let learned = Arc::new(Mutex::new(Extensions::new()));
    let keep = learned.clone();
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        if let Ok(mut learned) = keep.lock() {
            *learned = request.extensions().clone();
        }
        async { Ok::<_, Infallible>(http::Response::new(Empty::<Bytes>::new())) }
    });
    let mut head = String::from("GET / HTTP/1.1\r\nConnection: close\r\n");
    for name in names.iter().filter(|name| **name != "Content-Length") {
        head.push_str(&format!("{name}: x\r\n"));
    }
    head.push_str("Content-Length: 0\r\n\r\n");
    let connection = hyper::server::conn::http1::Builder::new()
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(server), service);
    let (_, _) = tokio::join!(client.write_all(head.as_bytes()), connection);
    learned.lock().map(|learned| learned.clone()).unwrap_or_default()
}
