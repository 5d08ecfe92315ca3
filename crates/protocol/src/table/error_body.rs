//! The three forms an error takes on the wire, by how far the request came.
//!
//! 1. The OData layer answers most errors: JSON or `<error>` as negotiated, no `x-ms-error-code`.
//! 2. The front end answers for authentication, access policies and service settings: plain JSON or
//!    `<m:error>`, with `x-ms-error-code`.
//! 3. A version header that is no version gets an indented document with a byte order mark.

use bytes::Bytes;
use tavola_model::{ErrorCode, ServiceError};

use super::format::Format;
use crate::xml::escape;

const NAMESPACE: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

/// The body of an OData error and its content type.
pub fn odata(error: &ServiceError, message: &str, format: Format) -> (Bytes, String) {
    match format {
        Format::Json(level) => {
            let content_type =
                format!("application/json;odata={};streaming=true;charset=utf-8", level.as_str());
            (json(error.code, message), content_type)
        }
        Format::Atom => {
            let mut out = format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?><error xmlns=\"{NAMESPACE}\"><code>{}</code><message xml:lang=\"en-US\">",
                error.code.as_str()
            );
            escape(message, &mut out);
            out.push_str("</message></error>");
            (out.into(), "application/xml;charset=utf-8".into())
        }
    }
}

/// The body of a front-end error and its content type.
pub fn front_end(error: &ServiceError, message: &str, format: Format, json_allowed: bool) -> (Bytes, String) {
    if matches!(format, Format::Json(_)) && json_allowed {
        return (json(error.code, message), "application/json".into());
    }
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error xmlns:m=\"{NAMESPACE}\"><m:code>{}</m:code><m:message xml:lang=\"en-US\">",
        error.code.as_str()
    );
    escape(message, &mut out);
    out.push_str("</m:message></m:error>");
    (out.into(), "application/xml".into())
}

/// The body that refuses a malformed version.
pub fn bad_version(message: &str) -> Bytes {
    let mut out = format!(
        "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<error xmlns=\"{NAMESPACE}\">\r\n  <code>{}</code>\r\n  <message xml:lang=\"en-US\">",
        ErrorCode::InvalidHeaderValue.as_str()
    );
    escape(message, &mut out);
    out.push_str("</message>\r\n</error>");
    out.into()
}

fn json(code: ErrorCode, message: &str) -> Bytes {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"odata.error\":{\"code\":\"");
    out.extend_from_slice(code.as_str().as_bytes());
    out.extend_from_slice(b"\",\"message\":{\"lang\":\"en-US\",\"value\":");
    super::json_out::write_string(message, &mut out);
    out.extend_from_slice(b"}}}");
    out.into()
}
