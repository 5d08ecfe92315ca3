//! `x-ms-version`: the day whose behaviour a client asks for.
//!
//! Any day from 2009 into the future is accepted and echoed; only text that is not a day is refused.

use http::HeaderValue;
use tavola_model::{DateTime, ErrorCode, ServiceError};

/// A service version as the client named it, kept as the value of the header in which it is echoed. Versions compare by
/// day.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion(HeaderValue);

impl ApiVersion {
    /// First version with JSON bodies.
    pub const JSON: &'static str = "2013-08-15";
    /// First version with `odata.etag` in minimal metadata.
    pub const MINIMAL_ETAG: &'static str = "2015-04-05";
    /// First version with an `x-ms-error-code` header on the front end's answers (absent in recordings at
    /// 2014-02-14, present at 2019-02-02; the documentation of the header dates from this version).
    pub const ERROR_CODE_HEADER: &'static str = "2017-07-29";
    /// What our own requests ask for: the first version in which tables take bearer tokens.
    pub const CLIENT: &'static str = "2020-12-06";
    /// What a request without the header is taken for.
    pub const DEFAULT: &'static str = "2019-02-02";

    /// Accepts `yyyy-MM-dd` from 2009 on.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        let value = HeaderValue::from_str(text).map_err(|_| ErrorCode::InvalidHeaderValue)?;
        Self::of_header(&value)
    }

    /// Accepts the same as the value of a header.
    pub(crate) fn of_header(value: &HeaderValue) -> Result<Self, ServiceError> {
        let is_version = |text: &str| text.len() == 10 && text >= "2009" && DateTime::parse(text).is_some();
        if !value.to_str().is_ok_and(is_version) {
            return Err(ErrorCode::InvalidHeaderValue.into());
        }
        Ok(Self(value.clone()))
    }

    /// Whether this version is `other` or later.
    pub fn is_at_least(&self, other: &str) -> bool {
        self.0.as_bytes() >= other.as_bytes()
    }

    /// The day, as it was written.
    pub fn as_str(&self) -> &str {
        // It was read as text before it was taken.
        self.0.to_str().unwrap_or(Self::DEFAULT)
    }

    /// As it was asked for.
    pub fn as_header(&self) -> &HeaderValue {
        &self.0
    }
}

impl Default for ApiVersion {
    fn default() -> Self {
        Self(HeaderValue::from_static(Self::DEFAULT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_day_from_2009_on_is_accepted() {
        for text in ["2009-04-14", "2019-02-02", "2026-10-06", "2099-12-31"] {
            assert!(ApiVersion::parse(text).is_ok(), "{text}");
        }
        for text in ["", "12.0.0b1", "2008-12-31", "2019-13-01", "2019-2-2", "2019-02-02T00:00"] {
            assert!(ApiVersion::parse(text).is_err(), "{text}");
        }
    }
}
