//! The wire format of the table service: OData in JSON at three metadata levels and in Atom, multipart batches.
//!
//! The three steps are `route`, `decode` and `encode`; the `Form` carries what the answer needs beside the outcome.

mod atom_in;
mod atom_out;
mod batch_in;
mod batch_out;
mod body;
mod change_set;
mod decode;
mod edm_text;
mod encode;
mod error_body;
mod form;
mod format;
mod json_in;
mod json_out;
mod link;
mod query_in;
mod route;
mod select;
mod token;
mod write_in;

#[cfg(test)]
mod round_trip;

pub use decode::{TableRequest, decode};
pub(crate) use encode::{SERVER, encode_error, encode_outcome, sender_of};
pub use form::{BatchForm, Form, Layer, PartForm, Style};
pub use format::{Format, MetadataLevel, Preference};
pub use route::{TableRoute, Unroutable, route};
pub use select::Select;
