//! What the engine counts: commits and their syncs, waits of writers, flushes and compactions, and block reads.
//!
//! The threads that do the work add to it when a piece of work is done, so nothing here is on the path of a read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lsm_tree::AbstractTree;
use tavola_telemetry::{Histogram, HistogramReading};

use crate::commit::Shared;

/// Bounds of the buckets of [`LocalMetrics::commit_writes`].
pub const COMMIT_WRITES_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Bounds of the buckets of [`LocalMetrics::sync_ns`], in nanoseconds.
pub const SYNC_BOUNDS_NS: &[u64] = &[
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
];

/// A reading of the counters, all since the engine was opened, and of what goes up and down.
#[derive(Clone, Debug)]
pub struct LocalMetrics {
    /// Writes in each commit; their number is that of commits.
    pub commit_writes: HistogramReading,
    /// Nanoseconds that a commit took to be in the journal and synced.
    pub sync_ns: HistogramReading,
    /// Commits that waited for flushes or compaction.
    pub stalls: u64,
    /// Nanoseconds that they waited, those under way not included.
    pub stall_ns: u64,
    /// Times that rows were flushed to table files.
    pub flushes: u64,
    /// Nanoseconds that this took.
    pub flush_ns: u64,
    /// Compactions that changed table files.
    pub compactions: u64,
    /// Nanoseconds that they took.
    pub compaction_ns: u64,
    /// Blocks of table files that were found in memory.
    pub blocks_cached: u64,
    /// Blocks of table files that were read from the disk.
    pub blocks_read: u64,
    /// Bytes of rows that are in memory and in journals, but in no table file yet.
    pub unflushed_bytes: u64,
    /// Bytes of blocks that were read from the disk and are kept.
    pub cached_bytes: u64,
    /// Journals that are needed.
    pub journals: u64,
    /// Bytes that are free on the disk, if the file system tells.
    pub disk_free_bytes: Option<u64>,
    /// Free bytes below which writes are refused.
    pub disk_reserve_bytes: u64,
    /// No more writes are taken until a restart, because table files could not be written.
    pub has_failed: bool,
}

/// The counters.
#[derive(Debug)]
pub(crate) struct Counters {
    commit_writes: Histogram,
    sync_ns: Histogram,
    stalls: Work,
    flushes: Work,
    compactions: Work,
}

/// How often something was done, and how long it took.
#[derive(Debug, Default)]
struct Work {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl Work {
    fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.nanos.load(Ordering::Relaxed))
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            commit_writes: Histogram::new(COMMIT_WRITES_BOUNDS),
            sync_ns: Histogram::new(SYNC_BOUNDS_NS),
            stalls: Work::default(),
            flushes: Work::default(),
            compactions: Work::default(),
        }
    }
}

impl Counters {
    pub(crate) fn note_commit(&self, writes: usize, sync: Duration) {
        self.commit_writes.add(writes as u64);
        self.sync_ns.add(nanos(sync));
    }

    pub(crate) fn note_stall(&self, time: Duration) {
        self.stalls.add(time);
    }

    pub(crate) fn note_flush(&self, time: Duration) {
        self.flushes.add(time);
    }

    pub(crate) fn note_compaction(&self, time: Duration) {
        self.compactions.add(time);
    }
}

impl LocalMetrics {
    pub(crate) fn read(shared: &Shared) -> Self {
        let (store, counters) = (&shared.store, &shared.store.counters);
        let ((stalls, stall_ns), (flushes, flush_ns)) = (counters.stalls.read(), counters.flushes.read());
        let (compactions, compaction_ns) = counters.compactions.read();
        let blocks = |count: fn(&lsm_tree::Metrics) -> usize| -> u64 {
            store.trees.iter().map(|tree| count(tree.tree.metrics()) as u64).sum()
        };
        Self {
            commit_writes: counters.commit_writes.read(),
            sync_ns: counters.sync_ns.read(),
            stalls,
            stall_ns,
            flushes,
            flush_ns,
            compactions,
            compaction_ns,
            blocks_cached: blocks(lsm_tree::Metrics::block_load_cached_count),
            blocks_read: blocks(lsm_tree::Metrics::block_load_io_count),
            unflushed_bytes: store.unflushed_bytes(),
            cached_bytes: store.cached_bytes(),
            journals: store.journals.count_and_oldest().0 as u64,
            disk_free_bytes: shared.disk.free_bytes(),
            disk_reserve_bytes: shared.disk.reserve_bytes(),
            has_failed: store.has_failed(),
        }
    }
}

impl Default for LocalMetrics {
    /// A reading of an engine that has done nothing.
    fn default() -> Self {
        Self {
            commit_writes: Histogram::new(COMMIT_WRITES_BOUNDS).read(),
            sync_ns: Histogram::new(SYNC_BOUNDS_NS).read(),
            stalls: 0,
            stall_ns: 0,
            flushes: 0,
            flush_ns: 0,
            compactions: 0,
            compaction_ns: 0,
            blocks_cached: 0,
            blocks_read: 0,
            unflushed_bytes: 0,
            cached_bytes: 0,
            journals: 0,
            disk_free_bytes: Some(0),
            disk_reserve_bytes: 0,
            has_failed: false,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use tavola_engine::{Change, Decision, Engine as _, SpaceId};
    use tavola_system::SystemClock;

    use crate::{LocalEngine, LocalSettings};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn commits_are_counted_with_their_writes_and_syncs() {
        let folder = tempfile::tempdir().unwrap();
        let engine = LocalEngine::open(LocalSettings::new(folder.path()), Arc::new(SystemClock)).unwrap();
        let before = engine.metrics();
        engine.create_space(SpaceId([7; 16])).await.unwrap();
        let body = Bytes::from_static(b"content");
        for row in 0..5u8 {
            let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
            engine.transact(SpaceId([7; 16]), b"p", &[&[row]], &mut decide).await.unwrap();
        }
        let after = engine.metrics();
        assert_eq!(after.commit_writes.sum, before.commit_writes.sum + 5);
        assert_eq!(after.commit_writes.count(), after.sync_ns.count());
        assert!(after.journals >= 1 && after.unflushed_bytes > 0, "{after:?}");
        assert!(after.disk_free_bytes.is_some_and(|bytes| bytes > 0) && !after.has_failed);
    }
}
