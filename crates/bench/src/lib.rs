//! Load and comparison: how fast the server is beside what bounds it and beside what it replaces.
//!
//! Absolute times on shared machines mean little, so contestants take turns in short rounds and what counts is
//! the ratio of one round to the next, with its spread. The load generator has its own cores where there are
//! two or more, and every contestant has the others, so each gets the same share in every round.
//!
//! Read in this order: `cores` and `process` start contestants; `endpoint`, `dataset` and `work` make requests;
//! `connection` and `load` send them; `compare` takes turns; `suite` lists what is compared with which target, and
//! `blobs` does so for the Blob service, whose large bodies `transfer` moves, and `client_lines` for the client
//! library.

mod cores;
mod process;

mod dataset;
mod endpoint;
mod work;

mod connection;
mod load;
mod walk;

mod azurite;
mod disk;
mod engine;
mod floor;
mod free_space;
mod tavola;

mod compare;
mod queue_lines;
mod report;
mod suite;
mod suite_lines;

mod blob_fill;
mod blob_limits;
mod blob_lines;
mod blob_listing;
mod blob_requests;
mod blob_small;
mod blobs;
mod nginx;
mod transfer;

mod client_calls;
mod client_lines;

mod growth;
mod heat_map;
mod instructions;
mod single;
mod telemetry_cost;

pub use blobs::blobs;
pub use client_lines::{ClientCallOptions, client, client_calls};
pub use floor::{FloorOptions, floor};
pub use free_space::free_space;
pub use growth::{GrowthOptions, growth};
pub use heat_map::heat_map;
pub use instructions::instructions;
pub use single::{SingleOptions, single};
pub use suite::{Extent, compare};
pub use telemetry_cost::telemetry_cost;

/// Whatever stopped a run; shown to a person.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;
