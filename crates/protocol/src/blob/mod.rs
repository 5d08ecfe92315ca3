//! The wire format of the blob service: content as it is, everything else in headers and XML.
//!
//! The steps have the names they have for tables and queues: `route`, `decode` and `encode` of a server. Content does not
//! come through here: a command says how long it is, and an answer how long it will be.

mod batch;
mod decode;
mod decode_blob;
mod decode_upload;
mod documents;
mod encode;
mod encode_blob;
mod headers;
mod marker;
mod route;
mod source;
mod tag_filter;
mod write;
mod write_list;

pub use batch::{BatchPart, batch_parts};
pub use decode::{BlobRequest, decode};
pub(crate) use encode::{SERVER, encode_error, encode_outcome, sender_of};
pub use route::{BlobRoute, BodyKind, route};
