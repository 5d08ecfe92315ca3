//! An answer as the frontend sends it: header names in the case of the real service.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

/// Headers for which memory is allocated at once: as many as a blob is read with.
const HEADERS_USUAL: usize = 14;

/// A complete response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status line.
    pub status: StatusCode,
    /// Headers in the order and case in which they are written.
    pub headers: Vec<(&'static str, HeaderValue)>,
    /// Further headers, whose names clients have chosen: metadata.
    pub metadata: Vec<(String, String)>,
    /// The whole body.
    pub body: Bytes,
    /// How many bytes come instead of the body, beside this; of an answer to HEAD, how many would.
    pub content_length: Option<u64>,
}

impl Response {
    /// Without a body.
    pub fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: Vec::with_capacity(HEADERS_USUAL),
            metadata: Vec::new(),
            body: Bytes::new(),
            content_length: None,
        }
    }

    /// An XML document.
    pub(crate) fn xml(body: String) -> Self {
        let response = Self::empty(StatusCode::OK).with("Content-Type", "application/xml");
        Self { body: body.into(), ..response }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl TryInto<HeaderValue>) -> Self {
        self.add(name, value);
        self
    }

    /// Adds a header. A value can only be unfit where it echoes a client's bytes; then it is left out.
    pub fn add(&mut self, name: &'static str, value: impl TryInto<HeaderValue>) {
        if let Ok(value) = value.try_into() {
            self.headers.push((name, value));
        }
    }

    /// Adds a header whose value is part of the program: it is not copied.
    pub(crate) fn add_static(&mut self, name: &'static str, value: &'static str) {
        self.headers.push((name, HeaderValue::from_static(value)));
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| value.to_str().ok())
    }
}
