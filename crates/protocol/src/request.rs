//! A request as a client sends it, but for what only the sender knows: the endpoint, the date and the signature.
//!
//! Writing is strict: every path and query is percent-encoded here, once, and nothing is sent that the service is
//! not known to accept.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tavola_model::{ErrorCode, Metadata, ServiceError};

use crate::version::ApiVersion;

/// What stays as it is in a path or a query: the unreserved characters of RFC 3986.
pub(crate) const UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

static VERSION: HeaderName = HeaderName::from_static("x-ms-version");

/// A request to one service. To send it, a client puts the path of the account before `path`, adds what it signs
/// with, and `x-ms-date`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The verb.
    pub method: Method,
    /// The path from the root of the service on, percent-encoded; it begins with a slash.
    pub path: String,
    /// The query, percent-encoded, without its question mark; empty for none.
    pub query: String,
    /// Headers, `x-ms-version` among them.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Request {
    /// Without query and body. `path` is percent-encoded already.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(&VERSION, HeaderValue::from_static(ApiVersion::CLIENT));
        Self { method, path: path.into(), query: String::new(), headers, body: Bytes::new() }
    }

    /// The request target behind the path of an account: empty where the host names the account, else
    /// `/account`.
    pub fn target(&self, account_path: &str) -> String {
        let mark = if self.query.is_empty() { "" } else { "?" };
        [account_path, &self.path, mark, &self.query].concat()
    }

    /// Adds a parameter. `name` is one of ours and needs no encoding.
    pub(crate) fn with_parameter(mut self, name: &str, value: &str) -> Self {
        if !self.query.is_empty() {
            self.query.push('&');
        }
        self.query.push_str(name);
        self.query.push('=');
        self.query.extend(utf8_percent_encode(value, UNRESERVED));
        self
    }

    /// Adds a parameter if it is given.
    pub(crate) fn with_optional(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with_parameter(name, value),
            None => self,
        }
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(crate) fn with_static(self, name: &'static str, value: &'static str) -> Self {
        self.with_header(HeaderName::from_static(name), HeaderValue::from_static(value))
    }

    /// Adds metadata. Names are sent in lower case, as all header names.
    pub(crate) fn with_metadata(mut self, metadata: &Metadata) -> Result<Self, ServiceError> {
        for (name, value) in metadata.iter() {
            let name = HeaderName::try_from(format!("x-ms-meta-{}", name.to_ascii_lowercase()));
            let value = HeaderValue::from_str(value).map_err(|_| ErrorCode::InvalidMetadata)?;
            self.headers.insert(name.map_err(|_| ErrorCode::InvalidMetadata)?, value);
        }
        Ok(self)
    }

    /// Adds a header with a text that may not fit into one.
    pub(crate) fn with_text(self, name: &'static str, text: &str) -> Result<Self, ServiceError> {
        let value = HeaderValue::from_str(text).map_err(|_| ErrorCode::InvalidHeaderValue)?;
        Ok(self.with_header(HeaderName::from_static(name), value))
    }

    /// The same if it is given.
    pub(crate) fn with_optional_text(
        self,
        name: &'static str,
        text: Option<impl AsRef<str>>,
    ) -> Result<Self, ServiceError> {
        match text {
            Some(text) => self.with_text(name, text.as_ref()),
            None => Ok(self),
        }
    }

    pub(crate) fn with_body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.with_header(header::CONTENT_TYPE, HeaderValue::from_static(content_type))
    }
}

/// Appends text as one segment of a path.
pub(crate) fn push_encoded(text: &str, out: &mut String) {
    out.extend(utf8_percent_encode(text, UNRESERVED));
}
