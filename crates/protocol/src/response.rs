//! An answer as the frontend sends it: header names in the case of the real service.

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;

/// A complete response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status line.
    pub status: StatusCode,
    /// Headers in the order and case in which they are written.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// Further headers, whose names clients have chosen: metadata.
    pub metadata: Vec<(String, String)>,
    /// The whole body.
    pub body: Bytes,
}

impl Response {
    /// Without a body.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: Vec::with_capacity(10), metadata: Vec::new(), body: Bytes::new() }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_ref())
    }
}
