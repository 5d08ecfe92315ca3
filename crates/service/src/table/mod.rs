//! The Table service: tables, their entities, and queries over them.

mod cells;
mod entities;
mod execute;
mod key_set;
mod matches;
mod plan;
mod query;
mod tables;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use tavola_engine::Engine;
use tavola_model::Clock;

pub use plan::{Plan, plan};

use crate::catalog::Catalog;
use crate::long_reads::LongReads;

/// The tables of all accounts.
pub(crate) struct Tables {
    pub engine: Arc<dyn Engine>,
    pub clock: Arc<dyn Clock>,
    pub catalog: Arc<Catalog>,
    pub long_reads: LongReads,
    /// For how long after its deletion the name of a table is held back.
    pub delete_delay: Duration,
    /// A page ends where a partition does.
    pub pages_end_with_partitions: bool,
}
