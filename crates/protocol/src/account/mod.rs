//! What every service of an account answers alike: its properties, its statistics, a browser's preflight request.
//! Each service finds these routes among its own and hands them here. A client's half is in `request_out` and
//! `answer_in`; preflight requests are sent by browsers only.

mod answer_in;
mod request_out;

pub use answer_in::{
    GeoReplication, service_properties_fetched, service_properties_set, service_stats_fetched,
};
pub use request_out::{get_service_properties, get_service_stats, set_service_properties};

use http::{HeaderMap, StatusCode};
use tavola_model::{
    AccountCommand, AccountOutcome, ErrorCode, Preflight, PreflightAllowed, ServiceError,
    ServicePropertiesPatch, StorageService,
};

use crate::reply::text;
use crate::response::Response;
use crate::version::ApiVersion;
use crate::xml;

/// An operation on a service as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum AccountRoute {
    Preflight,
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
}

/// Decodes a request into a command.
pub(crate) fn decode(
    service: StorageService,
    route: AccountRoute,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<AccountCommand, ServiceError> {
    Ok(match route {
        AccountRoute::Preflight => AccountCommand::PreflightRequest(preflight(headers)?),
        AccountRoute::GetServiceProperties => AccountCommand::GetServiceProperties,
        AccountRoute::SetServiceProperties => {
            AccountCommand::SetServiceProperties(Box::new(set_properties(service, body)?))
        }
        AccountRoute::GetServiceStats => AccountCommand::GetServiceStats,
    })
}

/// What a client sets; what other services do not have is not kept, though clients send it along.
fn set_properties(service: StorageService, body: &[u8]) -> Result<ServicePropertiesPatch, ServiceError> {
    let patch = xml::parse_service_properties(body)?;
    Ok(match service {
        StorageService::Blob => patch,
        StorageService::Queue | StorageService::Table => ServicePropertiesPatch {
            default_service_version: None,
            delete_retention: None,
            static_website: None,
            ..patch
        },
    })
}

fn preflight(headers: &HeaderMap) -> Result<Preflight, ServiceError> {
    let origin = text(headers, "origin").ok_or(ErrorCode::MissingRequiredHeader)?;
    let method = text(headers, "access-control-request-method").ok_or(ErrorCode::MissingRequiredHeader)?;
    let wanted = text(headers, "access-control-request-headers").unwrap_or_default();
    Ok(Preflight {
        origin: origin.to_owned(),
        method: method.to_owned(),
        headers: wanted
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    })
}

/// Encodes what such a command gave.
pub(crate) fn encode(service: StorageService, version: &ApiVersion, outcome: &AccountOutcome) -> Response {
    match outcome {
        AccountOutcome::ServicePropertiesFetched(properties) => {
            let blob_version = (service == StorageService::Blob).then_some(version);
            fetched(service, xml::write_service_properties(properties, blob_version))
        }
        AccountOutcome::ServicePropertiesSet => Response::empty(StatusCode::ACCEPTED),
        AccountOutcome::ServiceStatsFetched(stats) => fetched(service, xml::write_service_stats(stats)),
        AccountOutcome::PreflightAllowed(allowed) => preflight_allowed(allowed),
    }
}

/// Only the queue service tells caches about its documents, as recorded.
fn fetched(service: StorageService, body: String) -> Response {
    match service {
        StorageService::Queue => Response::xml(body).with("Cache-Control", "no-cache"),
        StorageService::Table | StorageService::Blob => Response::xml(body),
    }
}

fn preflight_allowed(allowed: &PreflightAllowed) -> Response {
    let mut response = Response::empty(StatusCode::OK)
        .with("Access-Control-Allow-Origin", allowed.origin.clone())
        .with("Access-Control-Allow-Methods", allowed.method.clone());
    if !allowed.headers.is_empty() {
        response = response.with("Access-Control-Allow-Headers", allowed.headers.join(","));
    }
    response
        .with("Access-Control-Max-Age", allowed.max_age_seconds.to_string())
        .with("Access-Control-Allow-Credentials", "true")
}
