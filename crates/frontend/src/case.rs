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
use http_body_util::Empty;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

/// Every name that is not all lower case.
const NAMES: &[&str] = &[
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Headers",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
    "Cache-Control",
    "Content-Length",
    "Content-Type",
    "DataServiceId",
    "Date",
    "ETag",
    "Location",
    "Preference-Applied",
    "Server",
    "Vary",
    "WWW-Authenticate",
    "X-Content-Type-Options",
    "x-ms-continuation-NextPartitionKey",
    "x-ms-continuation-NextRowKey",
    "x-ms-continuation-NextTableName",
];

/// Learns the case map; empty extensions (and so lower case) if hyper should ever stop keeping one.
pub async fn learn() -> Extensions {
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
    for name in NAMES.iter().filter(|name| **name != "Content-Length") {
        head.push_str(&format!("{name}: x\r\n"));
    }
    head.push_str("Content-Length: 0\r\n\r\n");
    let connection = hyper::server::conn::http1::Builder::new()
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(server), service);
    let (_, _) = tokio::join!(client.write_all(head.as_bytes()), connection);
    learned.lock().map(|learned| learned.clone()).unwrap_or_default()
}
