//! What the blob service does, on the reference stores and on stores that fail.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod bounds;
mod contents;
mod copies;
mod copy_rules;
mod faults;
mod listing;
mod page_bounds;
mod pages;
mod races;
mod restored;
mod scrubber;
mod sources;
mod states;
mod troubled;
mod versions;
mod watched;
