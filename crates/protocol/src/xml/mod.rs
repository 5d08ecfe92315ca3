//! The XML of the front end: access policies, service settings, statistics. Every document we write starts
//! with a byte order mark, as recorded; what we read may or may not.

mod acl;
mod document;
mod service_properties;

pub use acl::{parse_acl, write_acl};
pub use document::{escape, escape_attribute, invalid, parse, resolve_reference};
pub use service_properties::{parse_service_properties, write_service_properties, write_service_stats};

/// What every document starts with.
pub(crate) const PROLOGUE: &str = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>";
