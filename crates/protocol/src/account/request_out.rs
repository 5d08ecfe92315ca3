//! Requests about a service as a whole, the same for every service.

use http::Method;
use tavola_model::ServicePropertiesPatch;

use crate::request::Request;
use crate::xml;

/// Get Service Properties.
pub fn get_service_properties() -> Request {
    service(Method::GET, "properties")
}

/// Set Service Properties: what the patch leaves out stays as it is.
pub fn set_service_properties(patch: &ServicePropertiesPatch) -> Request {
    service(Method::PUT, "properties")
        .with_body("application/xml", xml::write_service_properties_patch(patch))
}

/// Get Service Stats, which only the secondary endpoint answers.
pub fn get_service_stats() -> Request {
    service(Method::GET, "stats")
}

fn service(method: Method, comp: &str) -> Request {
    Request::new(method, "/")
        .with_parameter("restype", "service")
        .with_parameter("comp", comp)
        .with_static("accept", "application/xml")
}
