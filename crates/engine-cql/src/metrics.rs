//! What the engine counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A reading of the counters, all since the engine was connected but for the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CqlMetrics {
    /// Transactions that were asked for.
    pub transactions: u64,
    /// Conditional batches that were committed; transactions per commit tell how well writers were combined.
    pub commits: u64,
    /// Rounds that were decided again because another server wrote to the partition first.
    pub conflicts: u64,
    /// Statements that were sent again after a failure.
    pub retries: u64,
    /// Transactions that ended with an unknown outcome.
    pub unknown_outcomes: u64,
    /// Partitions that were listed in a directory.
    pub partitions_listed: u64,
    /// Entries that were removed from a directory.
    pub partitions_unlisted: u64,
    /// Spaces whose rows were removed behind their drop.
    pub spaces_reclaimed: u64,
    /// Partitions in all directories, about, as the cluster last estimated; `None` before it was first asked.
    pub directory_entries: Option<u64>,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct ClusterCounters {
    pub transactions: Counter,
    pub commits: Counter,
    pub conflicts: Counter,
    pub retries: Counter,
    pub unknown_outcomes: Counter,
    pub partitions_listed: Counter,
    pub partitions_unlisted: Counter,
    pub spaces_reclaimed: Counter,
    pub directory_entries: Estimate,
}

/// A number that is known about, once it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Estimate(Mutex<Option<u64>>);

impl Estimate {
    pub fn set(&self, number: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(number);
    }

    fn read(&self) -> Option<u64> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that only goes up.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl ClusterCounters {
    pub fn read(&self) -> CqlMetrics {
        CqlMetrics {
            transactions: self.transactions.read(),
            commits: self.commits.read(),
            conflicts: self.conflicts.read(),
            retries: self.retries.read(),
            unknown_outcomes: self.unknown_outcomes.read(),
            partitions_listed: self.partitions_listed.read(),
            partitions_unlisted: self.partitions_unlisted.read(),
            spaces_reclaimed: self.spaces_reclaimed.read(),
            directory_entries: self.directory_entries.read(),
        }
    }
}
