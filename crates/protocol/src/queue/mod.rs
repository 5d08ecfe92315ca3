//! The wire format of the queue service: XML bodies with a byte order mark, errors with their details.
//!
//! The three steps have the names they have for tables: `route`, `decode`, `encode`.

mod decode;
mod encode;
mod options;
mod route;
mod write;

pub use decode::{QueueRequest, decode};
pub(crate) use encode::{SERVER, encode_error, encode_outcome, sender_of};
pub use route::{QueueRoute, route};
