//! What every answer needs of its request: read from the head before anything else, because an error must be
//! answered even when nothing else could be read. What tables negotiate beyond it is in `table/form.rs`.

use http::header::{self, AsHeaderName, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use tavola_model::{Address, AddressStyle, CLIENT_REQUEST_ID_BYTES_MAX, ServiceError, Text};

use crate::version::ApiVersion;

// Names that every request is asked for, made once.
static VERSION: HeaderName = HeaderName::from_static("x-ms-version");
static CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");

/// What the encoder needs to know of the request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Our id of the request.
    pub request_id: String,
    /// The client's id of the request, echoed.
    pub client_request_id: Option<HeaderValue>,
    /// The version asked for, echoed.
    pub version: ApiVersion,
    /// `scheme://host/` or `scheme://host/account/`.
    pub base: String,
    /// The account, for `odata.type`.
    pub account: Text,
    /// A HEAD request: headers only.
    pub head_only: bool,
    /// Whether queries are answered with how they ran (`x-tavola-plan`).
    pub show_plan: bool,
    pub(crate) version_refusal: Option<ServiceError>,
}

impl Reply {
    /// Reads what it can; what is unacceptable is refused later, by `check_version`.
    pub fn of(
        method: &Method,
        headers: &HeaderMap,
        address: Option<&Address<'_>>,
        request_id: String,
        secure: bool,
    ) -> Self {
        let (version, version_refusal) = match asked_version(headers).map(ApiVersion::of_header) {
            None => (ApiVersion::default(), None),
            Some(Ok(version)) => (version, None),
            Some(Err(error)) => {
                let given = text(headers, &VERSION).unwrap_or_default();
                let error = error.with_detail("HeaderName", "x-ms-version").with_detail("HeaderValue", given);
                (ApiVersion::default(), Some(error))
            }
        };
        Self {
            request_id,
            client_request_id: headers
                .get(&CLIENT_REQUEST_ID)
                .filter(|id| id.len() <= CLIENT_REQUEST_ID_BYTES_MAX && id.to_str().is_ok())
                .cloned(),
            version,
            base: base_url(headers, address, secure),
            account: address.map(|address| address.account.as_str().into()).unwrap_or_default(),
            head_only: method == Method::HEAD,
            show_plan: false,
            version_refusal,
        }
    }

    /// Whether a request names the version it asks for.
    pub fn names_version(headers: &HeaderMap) -> bool {
        asked_version(headers).is_some()
    }

    /// Takes the request for one of this version, which its account has set for requests that name none. Text that is no
    /// version changes nothing.
    pub fn take_default_version(&mut self, text: &str) {
        if let Ok(version) = ApiVersion::parse(text) {
            self.version = version;
        }
    }

    /// Refuses a version that is none.
    pub fn check_version(&self) -> Result<(), ServiceError> {
        self.version_refusal.clone().map_or(Ok(()), Err)
    }
}

/// The version asked for; an empty header asks for none.
fn asked_version(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(&VERSION).filter(|version| version.to_str().is_ok_and(|text| !text.is_empty()))
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
