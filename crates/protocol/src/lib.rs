//! HTTP messages to commands and outcomes to HTTP messages.
//!
//! The only crate that knows the wire formats: addresses and query options, JSON at three metadata levels,
//! Atom, the XML of service settings, multipart batches, headers and their case.

mod decode;
mod edm_text;
mod encode;
mod error_body;
mod query;
pub mod queue;
mod reply;
mod response;
mod route;
mod status;
mod table;
mod token;
mod version;
mod xml;

pub use decode::{Form, Layer, Request, decode};
pub use encode::{CorsHeaders, encode};
pub use reply::{Format, Metadata, Preference, Reply};
pub use response::Response;
pub use route::{Route, Unroutable, route};
pub use status::status;
pub use version::ApiVersion;
