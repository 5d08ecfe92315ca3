//! The open store: a few shared trees, the journals in front of them, and the catalog of spaces.
//!
//! A commit is one record of the journal, synced; then its rows are put into memtables and become visible at once. The
//! trees flush memtables to table files (`flush.rs`), compact those (`compaction.rs`) and leave out the rows of dropped
//! spaces (`reclaim.rs`). `recover.rs` opens a store, `create.rs` makes one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use lsm_tree::{AbstractTree, Slice};
use tavola_engine::{EngineError, StoredRow};
use tavola_model::DateTime;

use crate::catalog::{META_TREE, MetaChange, SLOT_LEN, Space, SpaceCatalog};
use crate::folder::DataFolder;
use crate::journal::{ChangedRow, Journals, Payload};
use crate::metrics::Counters;
use crate::settings::{JOURNALS_KEPT, JOURNALS_MAX, UNCOMPACTED_RUNS_MAX};
use crate::snapshot::{Snapshot, Snapshots};
use crate::tree::{Putter, StoreTree};

/// The open store of one data folder.
pub(crate) struct LocalStore {
    /// The catalog's tree, then those of rows.
    pub(crate) trees: Vec<StoreTree>,
    pub(crate) catalog: Arc<SpaceCatalog>,
    pub(crate) journals: Journals,
    pub(crate) snapshots: Arc<Snapshots>,
    /// The highest tick that was ever committed.
    pub(crate) last_tick: AtomicU64,
    /// Set when table files could not be written; no more writes are taken then.
    pub(crate) has_failed: AtomicBool,
    pub(crate) counters: Counters,
    pub(crate) memtable_bytes: u64,
    pub(crate) unflushed_bytes_max: u64,
    /// Dropped last: the lock outlives every file of the store.
    pub(crate) folder: DataFolder,
}

/// The changes of one commit.
pub(crate) struct CommitBatch {
    pub(crate) payload: Payload,
    rows: Vec<BatchRow>,
}

struct BatchRow {
    tree: usize,
    key: Slice,
    value: Option<Slice>,
}

impl CommitBatch {
    pub(crate) fn new() -> Self {
        Self { payload: Payload::new(), rows: Vec::new() }
    }

    /// Adds a change; no value deletes the row.
    pub(crate) fn push(&mut self, tree: usize, key: Slice, value: Option<Slice>) {
        self.payload.push(ChangedRow { tree, key: &key, value: value.as_deref() });
        self.rows.push(BatchRow { tree, key, value });
    }

    /// Adds a change of the catalog.
    pub(crate) fn push_meta(&mut self, change: MetaChange) {
        self.push(META_TREE, change.key, change.value);
    }

    pub(crate) fn clear(&mut self) {
        self.payload.clear();
        self.rows.clear();
    }
}

/// Why commits wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// Too many rows are in memory only.
    Unflushed,
    /// Too many files wait for compaction.
    Uncompacted,
    /// Too many journals are kept.
    Journals,
}

impl LocalStore {
    /// What is durable now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshots.take()
    }

    /// A row as a snapshot has it. The key begins with the space's slot.
    pub(crate) fn read(
        &self,
        snapshot: &Snapshot,
        space: &Space,
        key: &[u8],
    ) -> Result<Option<StoredRow>, EngineError> {
        let found = self.trees[space.tree].tree.get(key, snapshot.sequence());
        match found.map_err(|error| space.read_failed(error))? {
            Some(value) => space.decode(&key[SLOT_LEN..], value.into()).map(Some),
            None => Ok(None),
        }
    }

    /// The highest tick that was ever committed.
    pub(crate) fn last_tick(&self) -> DateTime {
        DateTime::from_ticks(self.last_tick.load(Ordering::Acquire)).unwrap_or(DateTime::MAX)
    }

    /// Shows the rows of a batch that is in this journal, all at once.
    pub(crate) fn apply(&self, batch: &mut CommitBatch, journal: u64) {
        self.snapshots.apply(|sequence| {
            let mut putters: Vec<Option<Putter<'_>>> = self.trees.iter().map(|_| None).collect();
            for BatchRow { tree, key, value } in batch.rows.drain(..) {
                let putter = putters[tree].get_or_insert_with(|| self.trees[tree].putter());
                putter.put(key, value, sequence, journal);
            }
        });
    }

    /// Seals memtables that are full, or that keep an old journal. Says whether any was sealed. For the committer.
    pub(crate) fn seal_full(&self) -> bool {
        let (journals, oldest_journal) = self.journals.count_and_oldest();
        let keeps_journal =
            |tree: &StoreTree| journals > JOURNALS_KEPT && tree.active_needs_journal(oldest_journal);
        let mut has_sealed = false;
        for tree in &self.trees {
            if tree.active_bytes() >= self.memtable_bytes || keeps_journal(tree) {
                tree.seal();
                has_sealed = true;
            }
        }
        has_sealed
    }

    /// Bytes of rows that are in no table file yet.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        self.trees.iter().map(StoreTree::unflushed_bytes).sum()
    }

    /// Bytes of blocks that were read from disk and are kept.
    pub(crate) fn cached_bytes(&self) -> u64 {
        // All trees share one cache.
        self.trees[META_TREE].tree.config.cache.size()
    }

    /// Why commits have to wait, if they have to.
    pub(crate) fn stall(&self) -> Option<Stall> {
        if self.unflushed_bytes() >= self.unflushed_bytes_max {
            Some(Stall::Unflushed)
        } else if self.trees.iter().any(|tree| tree.runs() >= UNCOMPACTED_RUNS_MAX) {
            Some(Stall::Uncompacted)
        } else if self.journals.count_and_oldest().0 >= JOURNALS_MAX {
            Some(Stall::Journals)
        } else {
            None
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Takes no more writes: they could not be flushed.
    pub(crate) fn set_failed(&self) {
        self.has_failed.store(true, Ordering::Release);
    }

    /// Flushes what is sealed, and lets go of journals whose rows are all in table files. Gives the trees with new files.
    pub(crate) fn flush(&self) -> lsm_tree::Result<Vec<usize>> {
        let mut flushed = Vec::new();
        for (index, tree) in self.trees.iter().enumerate() {
            loop {
                let started = Instant::now();
                if !tree.flush(&self.catalog, &self.snapshots)? {
                    break;
                }
                self.counters.note_flush(started.elapsed());
                flushed.push(index);
                self.remove_flushed_journals()?;
            }
        }
        flushed.dedup();
        self.remove_flushed_journals()?;
        Ok(flushed)
    }

    fn remove_flushed_journals(&self) -> lsm_tree::Result<()> {
        // The current journal first: rows that are put while this looks at the trees are in that one or a later one.
        let current = self.journals.current_id();
        let needed = self.trees.iter().filter_map(StoreTree::oldest_journal).fold(current, u64::min);
        Ok(self.journals.remove_before(needed, self.last_tick.load(Ordering::Acquire))?)
    }
}

/// Notes a panic of a thread that the store cannot do without: commits would else wait for it for ever.
pub(crate) struct PanicWatch<'a>(pub(crate) &'a LocalStore);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set_failed();
        }
    }
}
