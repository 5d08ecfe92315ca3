//! Requests to one table endpoint, signed and ready to send.
//!
//! Shared Key Lite signs the date and the path, which is what the official clients use for tables. It covers
//! neither query nor body, so one signed head serves any number of inserts, and signing stays out of the load.

use http::{HeaderMap, HeaderValue, Method};
use tavola_auth::{Account, Scheme, SignedRequest, sign_request};
use tavola_model::{Clock, Query, StorageService};
use tavola_system::SystemClock;

use crate::AnyError;

/// What the official clients ask for.
const COMMON_HEADERS: &str = "x-ms-version: 2019-02-02\r\n\
    Accept: application/json;odata=minimalmetadata\r\n\
    DataServiceVersion: 3.0\r\n";

/// A table endpoint of the development account.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `127.0.0.1:10002`
    pub host: String,
    account: Account,
}

impl Endpoint {
    /// The endpoint at this address and port.
    pub fn new(host: impl Into<String>) -> Self {
        Self { host: host.into(), account: Account::development() }
    }

    /// The endpoint of `http://host:port/account`.
    pub fn parse(url: &str) -> Result<Self, AnyError> {
        let rest = url.strip_prefix("http://").ok_or("an endpoint starts with http://")?;
        Ok(Self::new(rest.split('/').next().unwrap_or_default()))
    }

    /// The path of something below the account.
    pub fn path(&self, target: &str) -> String {
        format!("/{}{target}", self.account.name())
    }

    /// The head of a request without its last empty line and without what tells of a body.
    pub fn head(&self, method: &Method, target: &str) -> Result<String, AnyError> {
        let date = SystemClock.now().to_rfc1123();
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-date", HeaderValue::from_str(&date)?);
        let target = self.path(target);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let query = Query::parse(query).expect("the bench writes UTF-8");
        let request = SignedRequest { method, path, query: &query, headers: &headers };
        let signature = sign_request(&self.account, StorageService::Table, Scheme::SharedKeyLite, &request)?;
        Ok(format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{COMMON_HEADERS}x-ms-date: {date}\r\n\
             Authorization: {signature}\r\n",
            self.host
        ))
    }

    /// A whole request without a body.
    pub fn request(&self, method: &Method, target: &str) -> Result<Vec<u8>, AnyError> {
        let mut request = self.head(method, target)?.into_bytes();
        if method == Method::DELETE {
            request.extend_from_slice(b"If-Match: *\r\n");
        }
        if method != Method::GET {
            request.extend_from_slice(b"Content-Length: 0\r\n");
        }
        request.extend_from_slice(b"\r\n");
        Ok(request)
    }

    /// A whole request with a JSON body.
    pub fn request_json(&self, method: &Method, target: &str, body: &[u8]) -> Result<Vec<u8>, AnyError> {
        let mut request = self.head(method, target)?.into_bytes();
        append_body(&mut request, JSON, body);
        Ok(request)
    }
}

/// The headers of a JSON body, except its length.
pub const JSON: &str = "Content-Type: application/json\r\nPrefer: return-no-content\r\n";

/// Ends a head with the headers of a body, and the body.
pub fn append_body(request: &mut Vec<u8>, body_headers: &str, body: &[u8]) {
    request.extend_from_slice(body_headers.as_bytes());
    request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
}
