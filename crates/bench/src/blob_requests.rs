//! Requests to one container, ready to send.
//!
//! A shared access signature covers the whole account and neither path nor body, so one token serves any number of
//! new blobs, and signing stays out of the load. Reads are made beforehand and signed one by one with the account key, as
//! those of entities are that they are compared with.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tavola_auth::{Account, AccountSas, Scheme, SignedRequest, sign_account_sas, sign_request};
use tavola_model::{Clock, Query, StorageService};
use tavola_system::SystemClock;

use crate::AnyError;
use crate::endpoint::Endpoint;
use crate::load::Target;
use crate::work::Source;

const TOKEN_SECONDS: u64 = 24 * 60 * 60;
const VERSION: &str = "2021-12-02";
/// What makes a put a block blob.
pub const BLOCK_BLOB: &str = "x-ms-blob-type: BlockBlob\r\n";

/// A container of one contestant.
#[derive(Clone, Debug)]
pub struct Container {
    /// Where to send, and whose time to count.
    pub target: Target,
    pub endpoint: Endpoint,
    /// `/account/container`
    path: String,
    token: String,
}

impl Container {
    /// A container of this name at `target`; it has yet to be made.
    pub fn new(target: Target, name: &str) -> Result<Self, AnyError> {
        let sas = AccountSas {
            services: "b",
            resource_types: "sco",
            permissions: "rwdlac",
            expiry: SystemClock.now().plus_seconds(TOKEN_SECONDS),
            ..AccountSas::default()
        };
        let token = sign_account_sas(&Account::development(), &sas).map_err(|error| error.to_string())?;
        let endpoint = Endpoint::new(target.host.clone());
        let path = endpoint.path(&format!("/{name}"));
        Ok(Self { target, endpoint, path, token })
    }

    /// The request that makes it.
    pub fn creation(&self) -> Vec<u8> {
        self.head(&Method::PUT, "", "restype=container&", "", 0)
    }

    /// The head of a request below the container. `query` ends in `&` and `headers` in a line end if they are not
    /// empty; so many bytes of body follow.
    pub fn head(
        &self,
        method: &Method,
        below: &str,
        query: &str,
        headers: &str,
        body_bytes: usize,
    ) -> Vec<u8> {
        let Self { path, token, .. } = self;
        let length =
            if *method == Method::GET { String::new() } else { format!("Content-Length: {body_bytes}\r\n") };
        format!(
            "{method} {path}{below}?{query}{token} HTTP/1.1\r\nHost: {}\r\nx-ms-version: {VERSION}\r\n{headers}{length}\r\n",
            self.endpoint.host,
        )
        .into_bytes()
    }

    /// Puts of new blobs `n{number}`, numbered from `next` up to `end`, all with the same bytes.
    pub fn puts(&self, next: Arc<AtomicU64>, end: u64, body: &[u8]) -> Source {
        let headers = format!("{BLOCK_BLOB}Content-Type: application/octet-stream\r\n");
        let head = self.head(&Method::PUT, "/n\0", "", &headers, body.len());
        let cut = head.iter().position(|byte| *byte == 0).unwrap_or_default();
        let after = [&head[cut + 1..], body].concat();
        Source::Numbered { before: head[..cut].into(), after: after.into(), next, end }
    }

    /// Reads of the blobs that `puts` made with numbers below `end`.
    pub fn gets(&self, end: u64, count: u64) -> Result<Source, AnyError> {
        let mut random = fastrand::Rng::with_seed(end);
        let one = |_| {
            let number = random.u64(..end);
            self.signed_get(&format!("/n{number:012}"))
        };
        Ok(Source::Any(Arc::new((0..count.min(end)).map(one).collect::<Result<_, _>>()?)))
    }

    /// A read of a blob, signed with the account key.
    fn signed_get(&self, below: &str) -> Result<Vec<u8>, AnyError> {
        let date = SystemClock.now().to_rfc1123();
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-date", HeaderValue::from_str(&date)?);
        headers.insert("x-ms-version", HeaderValue::from_static(VERSION));
        let path = format!("{}{below}", self.path);
        let request =
            SignedRequest { method: &Method::GET, path: &path, query: &Query::default(), headers: &headers };
        let account = Account::development();
        let signature = sign_request(&account, StorageService::Blob, Scheme::SharedKey, &request)?;
        let host = &self.endpoint.host;
        Ok(format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nx-ms-version: {VERSION}\r\nx-ms-date: {date}\r\n\
             Authorization: {signature}\r\n\r\n"
        )
        .into_bytes())
    }

    /// The page of a listing behind a marker.
    pub fn page(&self, marker: &str, blobs_max: u64) -> Vec<u8> {
        let mut query = format!("restype=container&comp=list&maxresults={blobs_max}&");
        if !marker.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(query, "marker={}&", utf8_percent_encode(marker, NON_ALPHANUMERIC));
        }
        self.head(&Method::GET, "", &query, "", 0)
    }

    /// The head of the put of one block with its CRC-64.
    pub fn block(&self, blob: &str, number: u64, body: &[u8]) -> Vec<u8> {
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, body);
        let headers = format!("x-ms-content-crc64: {}\r\n", STANDARD.encode(crc.to_le_bytes()));
        let id = block_id(number);
        let query = format!("comp=block&blockid={}&", utf8_percent_encode(&id, NON_ALPHANUMERIC));
        self.head(&Method::PUT, &format!("/{blob}"), &query, &headers, body.len())
    }

    /// The request that makes a blob of its first blocks.
    pub fn block_list(&self, blob: &str, count: u64) -> Vec<u8> {
        let mut body = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>".to_owned();
        for number in 0..count {
            let _ = write!(body, "<Latest>{}</Latest>", block_id(number));
        }
        body.push_str("</BlockList>");
        let headers = "Content-Type: application/xml\r\n";
        let mut request =
            self.head(&Method::PUT, &format!("/{blob}"), "comp=blocklist&", headers, body.len());
        request.extend_from_slice(body.as_bytes());
        request
    }
}

fn block_id(number: u64) -> String {
    STANDARD.encode(format!("block{number:07}"))
}
