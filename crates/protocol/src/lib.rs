//! HTTP messages to commands and outcomes to HTTP messages.
//!
//! The only crate that knows the wire formats: addresses and query options, JSON at three metadata levels,
//! Atom, the XML of service settings, multipart batches, headers and their case.

mod response;
mod status;
mod version;
mod query;
mod reply;
mod route;
mod decode;
mod encode;
mod error_body;
mod edm_text;
mod token;
mod xml;
mod table;

pub use decode::{Form, decode};
pub use encode::{CorsHeaders, encode};
pub use reply::{Format, Metadata, Preference, Reply};
pub use response::Response;
pub use route::{Route, route};
pub use status::status;
pub use version::ApiVersion;
