//! The Blob service: containers and their blobs.
//!
//! A container is a row of the catalog and a space of its own; a blob is one partition of that space, so that every
//! change of a blob is one transaction. `rows.rs` says what is in a partition. The bytes of a blob are in its rows if
//! they are few, else in the store of contents (`pieces.rs`): they are written before the rows that name them, and
//! dropped when no row does.

mod append;
mod block_list;
mod blocks;
mod cell;
mod change;
mod clear;
mod conditions;
mod containers;
mod copy;
mod execute;
mod find;
mod fold;
mod get;
mod keep;
mod list;
mod named;
mod page_ranges;
mod pages;
mod pending;
mod piece_rows;
mod pieces;
mod prepare;
mod properties;
mod put;
mod range_source;
mod receive;
mod record;
mod reservation;
mod rows;
mod scrubber;
mod snapshot;
mod sums;
mod tidy;

use std::sync::Arc;
use std::time::Duration;

use tavola_engine::{ContentStore, Engine};
use tavola_model::{Clock, RandomSource};

use crate::catalog::Catalog;
use crate::properties::PropertiesStore;

pub use named::BlobContents;
pub(crate) use pending::{COPY_IDLE, RunningCopies};
pub use scrubber::{ScrubPace, ScrubReport};

/// The containers and blobs of all accounts.
pub(crate) struct Blobs {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) contents: Arc<dyn ContentStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn RandomSource>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) properties: Arc<PropertiesStore>,
    /// For how long after its deletion the name of a container is held back.
    pub(crate) delete_delay: Duration,
    /// For how long a deleted container can be restored; zero if it cannot.
    pub(crate) delete_retention: Duration,
    /// Keep a version of what a write replaces.
    pub(crate) versions: bool,
    /// Bytes that a copy makes within its request; what is larger is copied behind the answer.
    pub(crate) copy_bytes_max: u64,
    /// The copies that go on behind their answer.
    pub(crate) running_copies: pending::RunningCopies,
}
