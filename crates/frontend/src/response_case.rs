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

/// Names of nearly every answer of tables, apart so that most responses clone a small map.
const COMMON: &[&str] =
    &["Cache-Control", "Content-Length", "Content-Type", "Date", "ETag", "Server", "X-Content-Type-Options"];

/// The same of blobs.
const COMMON_OF_BLOBS: &[&str] = &[
    "Accept-Ranges",
    "Content-Length",
    "Content-MD5",
    "Content-Type",
    "Date",
    "ETag",
    "Last-Modified",
    "Server",
];

/// All names that are not all lower case, but for those of nearly every answer of tables.
const RARE: &[&str] = &[
    "Accept-Ranges",
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Headers",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Content-MD5",
    "Content-Range",
    "DataServiceId",
    "Last-Modified",
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
    common_of_blobs: Extensions,
    all: Extensions,
}

impl HeaderCase {
    /// Learns the maps; empty extensions (and so lower case) if hyper should ever stop keeping one.
    pub async fn learn() -> Self {
        let all = [COMMON, RARE].concat();
        Self {
            common: learn(COMMON).await,
            common_of_blobs: learn(COMMON_OF_BLOBS).await,
            all: learn(&all).await,
        }
    }

    /// What a response carries so that its names keep their case.
    pub fn of(&self, used: UsedNames) -> Extensions {
        match used {
            UsedNames { beyond_common: false, .. } => self.common.clone(),
            UsedNames { beyond_common_of_blobs: false, .. } => self.common_of_blobs.clone(),
            _ => self.all.clone(),
        }
    }

    /// The same for a response with names of metadata, which are whatever clients have written.
    pub async fn with_metadata(&self, metadata: &[(String, String)]) -> Extensions {
        let written: Vec<&str> = metadata.iter().map(|(name, _)| name.as_str()).collect();
        if written.iter().all(|name| name.bytes().all(|byte| !byte.is_ascii_uppercase())) {
            return self.all.clone();
        }
        learn(&[COMMON, RARE, &written].concat()).await
    }
}

/// Which names with upper case an answer has.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsedNames {
    beyond_common: bool,
    beyond_common_of_blobs: bool,
}

impl UsedNames {
    /// In both maps of common names, or in none because it is in lower case.
    const NEEDS_NONE: Self = Self { beyond_common: false, beyond_common_of_blobs: false };
    const OF_TABLES: Self = Self { beyond_common: false, beyond_common_of_blobs: true };
    const OF_BLOBS: Self = Self { beyond_common: true, beyond_common_of_blobs: false };

    /// A name as a header, noted.
    pub fn note(&mut self, name: &'static str) -> HeaderName {
        let (header, used) = frequent_name(name).unwrap_or_else(|| (other_name(name), Self::of(name)));
        self.beyond_common |= used.beyond_common;
        self.beyond_common_of_blobs |= used.beyond_common_of_blobs;
        header
    }

    fn of(name: &str) -> Self {
        if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Self::NEEDS_NONE;
        }
        Self {
            beyond_common: !COMMON.contains(&name),
            beyond_common_of_blobs: !COMMON_OF_BLOBS.contains(&name),
        }
    }
}

/// A header name of many answers, which is neither parsed nor looked up again; `None` for any other.
fn frequent_name(name: &str) -> Option<(HeaderName, UsedNames)> {
    static BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");
    static CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
    static CONTENT_CRC64: HeaderName = HeaderName::from_static("x-ms-content-crc64");
    static CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
    static CREATION_TIME: HeaderName = HeaderName::from_static("x-ms-creation-time");
    static LEASE_STATE: HeaderName = HeaderName::from_static("x-ms-lease-state");
    static LEASE_STATUS: HeaderName = HeaderName::from_static("x-ms-lease-status");
    static REQUEST_ENCRYPTED: HeaderName = HeaderName::from_static("x-ms-request-server-encrypted");
    static REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
    static SERVER_ENCRYPTED: HeaderName = HeaderName::from_static("x-ms-server-encrypted");
    static VERSION: HeaderName = HeaderName::from_static("x-ms-version");
    let used = match name {
        "Accept-Ranges" | "Content-MD5" | "Last-Modified" => UsedNames::OF_BLOBS,
        "Cache-Control" | "X-Content-Type-Options" => UsedNames::OF_TABLES,
        _ => UsedNames::NEEDS_NONE,
    };
    let header = match name {
        "Accept-Ranges" => header::ACCEPT_RANGES,
        "Cache-Control" => header::CACHE_CONTROL,
        "Content-MD5" => CONTENT_MD5.clone(),
        "Content-Type" => header::CONTENT_TYPE,
        "Date" => header::DATE,
        "ETag" => header::ETAG,
        "Last-Modified" => header::LAST_MODIFIED,
        "Server" => header::SERVER,
        "X-Content-Type-Options" => header::X_CONTENT_TYPE_OPTIONS,
        "x-ms-blob-type" => BLOB_TYPE.clone(),
        "x-ms-client-request-id" => CLIENT_REQUEST_ID.clone(),
        "x-ms-content-crc64" => CONTENT_CRC64.clone(),
        "x-ms-creation-time" => CREATION_TIME.clone(),
        "x-ms-lease-state" => LEASE_STATE.clone(),
        "x-ms-lease-status" => LEASE_STATUS.clone(),
        "x-ms-request-id" => REQUEST_ID.clone(),
        "x-ms-request-server-encrypted" => REQUEST_ENCRYPTED.clone(),
        "x-ms-server-encrypted" => SERVER_ENCRYPTED.clone(),
        "x-ms-version" => VERSION.clone(),
        _ => return None,
    };
    Some((header, used))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What hyper writes for a response with this header and these extensions.
    async fn written(name: &str, extensions: Extensions) -> String {
        use tokio::io::AsyncReadExt;
        let (mut client, server) = tokio::io::duplex(4096);
        let name = other_name(name);
        let service = service_fn(move |_| {
            let mut response = http::Response::new(Empty::<Bytes>::new());
            response.headers_mut().insert(name.clone(), header::HeaderValue::from_static("v"));
            *response.extensions_mut() = extensions.clone();
            async { Ok::<_, Infallible>(response) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .preserve_header_case(true)
            .serve_connection(TokioIo::new(server), service);
        client.write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").await.unwrap();
        connection.await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn every_name_is_written_in_its_case_whatever_comes_with_it() {
        let case = HeaderCase::learn().await;
        let names = [COMMON, COMMON_OF_BLOBS, RARE, &["x-ms-version", "x-ms-other"]].concat();
        for (first, second) in names.iter().zip(names.iter().cycle().skip(5)) {
            let mut used = UsedNames::default();
            for name in [*first, *second] {
                assert!(used.note(name).as_str().eq_ignore_ascii_case(name), "{name}");
            }
            for name in [first, second].into_iter().filter(|name| **name != "Content-Length") {
                let answer = written(name, case.of(used)).await;
                assert!(answer.contains(&format!("\r\n{name}: ")), "{name}: {answer}");
            }
        }
    }

    #[tokio::test]
    async fn names_of_metadata_are_written_as_clients_wrote_them() {
        let case = HeaderCase::learn().await;
        for name in ["x-ms-meta-One", "x-ms-meta-two", "x-ms-meta-THREE"] {
            let metadata = [(name.to_owned(), "v".to_owned())];
            let answer = written(name, case.with_metadata(&metadata).await).await;
            assert!(answer.contains(&format!("\r\n{name}: v\r\n")), "{answer}");
        }
        let metadata = [("x-ms-meta-One".to_owned(), "v".to_owned())];
        let answer = written("Last-Modified", case.with_metadata(&metadata).await).await;
        assert!(answer.contains("\r\nLast-Modified: v\r\n"), "{answer}");
    }
}
