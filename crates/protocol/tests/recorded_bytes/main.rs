//! Encoded answers, byte for byte against what the real service sent.
//!
//! Each recorded body that is kept as it was on the wire is read into model values; what the request decides
//! (form, version, selection, the parts of a batch) comes from the recorded request, through our own decoder;
//! what the service decided (ids, times, links' host) comes from the recorded answer. Then the same outcome is
//! encoded and the whole body must be the same. Where the recorder kept the case of header names, these must be
//! the same too.
//!
//! Each test has a floor for how many bodies it compares, so that it cannot pass by comparing none.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compare;
mod corpus;
#[path = "../recorded/mod.rs"]
mod recorded;

mod atom;
mod batch;
mod errors;
mod json;
mod service_xml;

use compare::Tally;
use corpus::{Corpus, Exchange, load};

/// Compares every exchange that `encode` can repeat; `None` passes on one that is of another kind.
fn compare_all(
    kind: &'static str,
    floor: usize,
    encode: impl Fn(&Exchange) -> Option<tavola_protocol::Response>,
) {
    let Corpus::Here(exchanges) = load() else { return };
    let mut tally = Tally::new(kind, floor);
    for exchange in exchanges {
        if let Some(response) = encode(exchange) {
            tally.compare(exchange, &response);
        }
    }
    tally.finish();
}

#[test]
fn tables_and_entities_in_json_without_metadata_are_the_recorded_bytes() {
    compare_all("JSON without metadata", 14, |exchange| json::encode(exchange, "nometadata"));
}

#[test]
fn tables_and_entities_in_json_with_minimal_metadata_are_the_recorded_bytes() {
    compare_all("JSON with minimal metadata", 740, |exchange| json::encode(exchange, "minimalmetadata"));
}

#[test]
fn tables_and_entities_in_json_with_full_metadata_are_the_recorded_bytes() {
    compare_all("JSON with full metadata", 265, |exchange| json::encode(exchange, "fullmetadata"));
}

#[test]
fn answers_without_a_body_have_the_recorded_headers() {
    compare_all("answers without a body", 2000, json::encode_without_body);
}

#[test]
fn atom_entries_and_feeds_are_the_recorded_bytes() {
    compare_all("Atom", 300, atom::encode);
}

#[test]
fn errors_of_all_layers_are_the_recorded_bytes() {
    compare_all("errors", 245, errors::encode);
}

#[test]
fn policies_settings_and_statistics_are_the_recorded_bytes() {
    compare_all("service XML", 75, service_xml::encode);
}

#[test]
fn batch_responses_are_the_recorded_bytes() {
    compare_all("batches", 165, batch::encode);
}
