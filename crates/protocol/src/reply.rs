//! How a request wants to be answered: read from its head before anything else, because an error must be
//! written in the right form even when nothing else could be read.

use http::header::{self, AsHeaderName, HeaderName};
use http::{HeaderMap, Method};
use tavola_model::{Address, AddressStyle, CLIENT_REQUEST_ID_BYTES_MAX, ErrorCode, ServiceError};

use crate::query::Query;
use crate::version::ApiVersion;

// Names that every request is asked for, made once.
static VERSION: HeaderName = HeaderName::from_static("x-ms-version");
static CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
static PREFER: HeaderName = HeaderName::from_static("prefer");
static DATA_SERVICE_VERSION: HeaderName = HeaderName::from_static("dataserviceversion");
static MAX_DATA_SERVICE_VERSION: HeaderName = HeaderName::from_static("maxdataserviceversion");

/// What the encoder needs to know of the request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Our id of the request.
    pub request_id: String,
    /// The client's id of the request, echoed.
    pub client_request_id: Option<String>,
    /// The version asked for, echoed.
    pub version: ApiVersion,
    /// How entities, tables and OData errors are written.
    pub format: Format,
    /// `scheme://host/` or `scheme://host/account/`.
    pub base: String,
    /// The account, for `odata.type`.
    pub account: String,
    /// Whether a create or insert is answered with its content.
    pub prefer: Option<Preference>,
    /// `DataServiceVersion` of the request, down to its number: `3.0` or `2.0` or `1.0`.
    pub data_service_version: &'static str,
    /// A HEAD request: headers only.
    pub head_only: bool,
    /// Whether queries are answered with how they ran (`x-tavola-plan`).
    pub show_plan: bool,
    version_refusal: Option<ServiceError>,
    format_refusal: Option<ServiceError>,
}

/// The form of an OData body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON with some metadata.
    Json(Metadata),
    /// Atom XML.
    Atom,
}

/// How much metadata JSON carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub enum Metadata {
    None,
    Minimal,
    Full,
}

impl Metadata {
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

impl Reply {
    /// Reads what it can; what is unacceptable is refused later, by `check_version` and while decoding.
    pub fn of(
        method: &Method,
        headers: &HeaderMap,
        raw_query: &str,
        address: Option<&Address<'_>>,
        request_id: String,
        secure: bool,
    ) -> Self {
        let (version, version_refusal) = match asked_version(headers).map(ApiVersion::parse) {
            None => (ApiVersion::default(), None),
            Some(Ok(version)) => (version, None),
            Some(Err(error)) => {
                let given = asked_version(headers).unwrap_or_default();
                let error = error.with_detail("HeaderName", "x-ms-version").with_detail("HeaderValue", given);
                (ApiVersion::default(), Some(error))
            }
        };
        let query = Query::parse(raw_query).unwrap_or_default();
        let (format, format_refusal) = match negotiate(query.get("$format"), text(headers, header::ACCEPT)) {
            Ok(Format::Json(_)) if !version.is_at_least(ApiVersion::JSON) => {
                (Format::Atom, Some(ErrorCode::JsonFormatNotSupported.into()))
            }
            Ok(format) => (format, None),
            Err(error) => (Format::Atom, Some(error)),
        };
        Self {
            request_id,
            client_request_id: text(headers, &CLIENT_REQUEST_ID)
                .filter(|id| id.len() <= CLIENT_REQUEST_ID_BYTES_MAX)
                .map(str::to_owned),
            version,
            format,
            base: base_url(headers, address, secure),
            account: address.map(|address| address.account.as_str().to_owned()).unwrap_or_default(),
            prefer: Preference::of(headers),
            data_service_version: data_service_version(headers),
            head_only: method == Method::HEAD,
            show_plan: false,
            version_refusal,
            format_refusal,
        }
    }

    /// Refuses a version that is none.
    pub fn check_version(&self) -> Result<(), ServiceError> {
        self.version_refusal.clone().map_or(Ok(()), Err)
    }

    /// Refuses a form of answer that cannot be given; only the OData layer asks.
    pub(crate) fn check_format(&self) -> Result<(), ServiceError> {
        self.format_refusal.clone().map_or(Ok(()), Err)
    }

    /// Whether the client reads JSON errors from the front end.
    pub fn wants_json(&self) -> bool {
        matches!(self.format, Format::Json(_))
    }
}

/// The version asked for; an empty header asks for none.
fn asked_version(headers: &HeaderMap) -> Option<&str> {
    text(headers, &VERSION).filter(|version| !version.is_empty())
}

/// The version that answers inside a batch name: what the client can read, at most 3.0.
pub(crate) fn data_service_version(headers: &HeaderMap) -> &'static str {
    let asked = text(headers, &MAX_DATA_SERVICE_VERSION).or_else(|| text(headers, &DATA_SERVICE_VERSION));
    match asked.and_then(|value| value.as_bytes().first()) {
        Some(b'1') => "1.0",
        Some(b'2') => "2.0",
        _ => "3.0",
    }
}

/// Chooses the form of the answer: `$format` before `Accept`; JSON if it is named, else Atom.
pub(crate) fn negotiate(format: Option<&str>, accept: Option<&str>) -> Result<Format, ServiceError> {
    if let Some(format) = format.filter(|format| !format.is_empty()) {
        return match format {
            "json" => Ok(Format::Json(Metadata::Minimal)),
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
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next()?;
    if media.eq_ignore_ascii_case("application/json") {
        let level = parts.find_map(|parameter| parameter.strip_prefix("odata="));
        return Some(Format::Json(match level {
            Some("nometadata") => Metadata::None,
            Some("fullmetadata") => Metadata::Full,
            _ => Metadata::Minimal,
        }));
    }
    ATOM.iter().any(|known| media.eq_ignore_ascii_case(known)).then_some(Format::Atom)
}

fn base_url(headers: &HeaderMap, address: Option<&Address<'_>>, secure: bool) -> String {
    let scheme = if secure { "https://" } else { "http://" };
    let host = text(headers, header::HOST).unwrap_or("localhost");
    match address {
        // Links lead to the primary, where what they name can also be written.
        Some(address) if address.style == AddressStyle::Path => {
            [scheme, host, "/", address.account.as_str(), "/"].concat()
        }
        _ => [scheme, host, "/"].concat(),
    }
}

pub(crate) fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: Option<&str>, accept: Option<&str>, expected: Option<Format>) {
        assert_eq!(negotiate(format, accept).ok(), expected, "{format:?} {accept:?}");
    }

    #[test]
    fn json_is_chosen_where_it_is_named() {
        check(None, Some("application/json"), Some(Format::Json(Metadata::Minimal)));
        check(None, Some("application/json; odata=nometadata"), Some(Format::Json(Metadata::None)));
        check(
            None,
            Some("text/html, application/json;odata=fullmetadata"),
            Some(Format::Json(Metadata::Full)),
        );
        check(Some("application/json;odata=fullmetadata"), None, Some(Format::Json(Metadata::Full)));
        check(Some("application/json;odata=fullmetadata"), Some("*/*"), Some(Format::Json(Metadata::Full)));
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
