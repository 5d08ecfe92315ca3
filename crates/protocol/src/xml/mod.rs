//! The XML of the front end: access policies, service settings, statistics. Every answer we write starts with a byte
//! order mark, as recorded; what we read may or may not. What clients send is parsed strictly (`parse_`), what
//! services answer leniently (`read_`).

mod acl;
mod blob_properties;
mod document;
mod service_properties;
mod write;

pub use acl::{parse_acl, read_acl, write_acl};
pub use document::{
    Element, escape, escape_attribute, invalid, is_forbidden, parse, parse_long, read_answer,
    resolve_reference,
};
pub use service_properties::{
    parse_service_properties, read_service_properties, write_service_properties,
    write_service_properties_patch, write_service_stats,
};
pub use write::{push, push_end, push_markup, push_start, write_error};

/// What every document starts with.
pub(crate) const PROLOGUE: &str = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>";
