//! The form of an OData answer, negotiated from `$format`, `Accept`, `Prefer` and the data service versions.

use http::HeaderMap;
use http::header::HeaderName;
use tavola_model::{ErrorCode, ServiceError};

use crate::reply::text;

static PREFER: HeaderName = HeaderName::from_static("prefer");
static DATA_SERVICE_VERSION: HeaderName = HeaderName::from_static("dataserviceversion");
static MAX_DATA_SERVICE_VERSION: HeaderName = HeaderName::from_static("maxdataserviceversion");

/// The newest version of the protocol.
pub const DATA_SERVICE_VERSION_MAX: &str = "3.0";

/// The form of an OData body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON with some metadata.
    Json(MetadataLevel),
    /// Atom XML.
    Atom,
}

/// How much metadata JSON carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub enum MetadataLevel {
    None,
    Minimal,
    Full,
}

impl MetadataLevel {
    /// Its word in a content type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "nometadata",
            Self::Minimal => "minimalmetadata",
            Self::Full => "fullmetadata",
        }
    }
}

/// The `Prefer` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub enum Preference {
    ReturnContent,
    ReturnNoContent,
}

impl Preference {
    /// Reads a `Prefer` header; anything else is no preference.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        match headers.get(&PREFER)?.to_str().ok()?.trim() {
            "return-content" => Some(Self::ReturnContent),
            "return-no-content" => Some(Self::ReturnNoContent),
            _ => None,
        }
    }

    /// Its word in `Preference-Applied`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReturnContent => "return-content",
            Self::ReturnNoContent => "return-no-content",
        }
    }
}

/// The version that answers inside a batch name: what the client can read, at most 3.0.
pub fn data_service_version(headers: &HeaderMap) -> &'static str {
    let asked = text(headers, &MAX_DATA_SERVICE_VERSION).or_else(|| text(headers, &DATA_SERVICE_VERSION));
    match asked.and_then(|value| value.as_bytes().first()) {
        Some(b'1') => "1.0",
        Some(b'2') => "2.0",
        _ => DATA_SERVICE_VERSION_MAX,
    }
}

/// Chooses the form of the answer: `$format` before `Accept`; JSON if it is named, else Atom.
pub fn negotiate(format: Option<&str>, accept: Option<&str>) -> Result<Format, ServiceError> {
    if let Some(format) = format.filter(|format| !format.is_empty()) {
        return match format {
            "json" => Ok(Format::Json(MetadataLevel::Minimal)),
            "atom" => Ok(Format::Atom),
            media => media_range(media).ok_or_else(|| ErrorCode::MediaTypeNotSupported.into()),
        };
    }
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else { return Ok(Format::Atom) };
    let mut atom = false;
    for range in accept.split(',') {
        match media_range(range) {
            Some(Format::Json(level)) => return Ok(Format::Json(level)),
            Some(Format::Atom) => atom = true,
            None => {}
        }
    }
    if atom { Ok(Format::Atom) } else { Err(ErrorCode::MediaTypeNotSupported.into()) }
}

fn media_range(range: &str) -> Option<Format> {
    const ATOM: [&str; 5] = ["*/*", "application/*", "application/atom+xml", "application/xml", "text/xml"];
    // As nearly every client writes it.
    match range {
        "application/json" | "application/json;odata=minimalmetadata" => {
            return Some(Format::Json(MetadataLevel::Minimal));
        }
        "application/json;odata=nometadata" => return Some(Format::Json(MetadataLevel::None)),
        "application/json;odata=fullmetadata" => return Some(Format::Json(MetadataLevel::Full)),
        _ => {}
    }
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next()?;
    if media.eq_ignore_ascii_case("application/json") {
        let level = parts.find_map(|parameter| parameter.strip_prefix("odata="));
        return Some(Format::Json(match level {
            Some("nometadata") => MetadataLevel::None,
            Some("fullmetadata") => MetadataLevel::Full,
            _ => MetadataLevel::Minimal,
        }));
    }
    ATOM.iter().any(|known| media.eq_ignore_ascii_case(known)).then_some(Format::Atom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: Option<&str>, accept: Option<&str>, expected: Option<Format>) {
        assert_eq!(negotiate(format, accept).ok(), expected, "{format:?} {accept:?}");
    }

    #[test]
    fn json_is_chosen_where_it_is_named() {
        check(None, Some("application/json"), Some(Format::Json(MetadataLevel::Minimal)));
        check(None, Some("application/json; odata=nometadata"), Some(Format::Json(MetadataLevel::None)));
        check(
            None,
            Some("text/html, application/json;odata=fullmetadata"),
            Some(Format::Json(MetadataLevel::Full)),
        );
        check(Some("application/json;odata=fullmetadata"), None, Some(Format::Json(MetadataLevel::Full)));
        check(
            Some("application/json;odata=fullmetadata"),
            Some("*/*"),
            Some(Format::Json(MetadataLevel::Full)),
        );
    }

    #[test]
    fn atom_is_what_nothing_or_anything_gets() {
        for accept in [
            None,
            Some(""),
            Some("*/*"),
            Some("application/atom+xml"),
            Some("application/atom+xml,application/xml"),
        ] {
            check(None, accept, Some(Format::Atom));
        }
    }

    #[test]
    fn other_media_types_are_refused() {
        check(None, Some("text/html"), None);
        check(Some("text/csv"), Some("application/json"), None);
    }
}
