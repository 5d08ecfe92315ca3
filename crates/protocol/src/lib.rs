//! HTTP messages to commands and outcomes to HTTP messages.
//!
//! The only crate that knows the wire formats: query options, JSON, Atom, XML, multipart batches, headers and their
//! case. What all services share is at the top; `table` and `queue` have the same steps (`route`, `decode`, `encode`)
//! and never import from each other.

pub mod account;
mod answer;
mod answer_in;
mod encode;
mod error_in;
pub mod queue;
mod reply;
mod request;
mod response;
mod status;
pub mod table;
mod version;
mod xml;

pub use account::AccountRoute;
pub use answer::CorsHeaders;
pub use answer_in::{Answer, AnswerCode, AnswerError, Refusal};
pub use encode::encode;
pub use reply::Reply;
pub use request::Request;
pub use response::Response;
pub use status::status;
pub use table::Form;
pub use version::ApiVersion;
