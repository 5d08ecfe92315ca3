//! One of the store's trees: its memtables, its flushes, its settings.
//!
//! Rows are put only into the active memtable, and only by the committer, which also seals it. A sealed memtable is
//! flushed to a table file and then let go. Each memtable knows the oldest journal that has rows of it.
//!
//! Invariant: a row is in a journal that is kept, or in a table file that the tree names.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Leveled, Verdict, filter::Context};
use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, RestartIntervalPolicy,
};
use lsm_tree::merge::Merger;
use lsm_tree::{
    AbstractTree, AnyTree, Cache, DescriptorTable, InternalValue, Memtable, SeqNo, SequenceNumberCounter,
    Slice, Tree, UserKey, ValueType,
};

use crate::catalog::{LiveSlots, SpaceCatalog, slot_of};
use crate::settings::{BLOCK_BYTES, BLOCK_RESTART_ROWS, COMPACTED_RUNS, FLUSHED_TOGETHER_MAX, TABLE_BYTES};
use crate::snapshot::Snapshots;

/// What all trees of a store share.
pub(crate) struct TreeFiles {
    pub(crate) cache: Arc<Cache>,
    pub(crate) open_files: Arc<DescriptorTable>,
    pub(crate) counter: SequenceNumberCounter,
    pub(crate) catalog: Arc<SpaceCatalog>,
}

/// Whether a tree has rows of spaces, of which those of dropped ones are left out when files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeKind {
    Meta,
    Rows,
}

/// A tree.
pub(crate) struct StoreTree {
    pub(crate) tree: Tree,
    kind: TreeKind,
    unflushed: Mutex<Unflushed>,
    /// Runs in the first level, as of the last change of files: asking the tree would wait for a sync under way.
    runs: AtomicUsize,
}

/// Rows that are in journals only.
struct Unflushed {
    active: Arc<Memtable>,
    /// The oldest journal with a row of the active memtable.
    active_journal: Option<u64>,
    sealed: VecDeque<Sealed>,
}

struct Sealed {
    memtable: Arc<Memtable>,
    journal: u64,
}

/// Puts rows into the active memtable of a tree.
pub(crate) struct Putter<'a> {
    unflushed: MutexGuard<'a, Unflushed>,
}

impl StoreTree {
    /// Opens a tree, or makes it.
    pub(crate) fn open(path: &Path, kind: TreeKind, shared: &TreeFiles) -> lsm_tree::Result<Self> {
        // The second counter is the tree's own idea of what is visible, which knows nothing of commits under way.
        let config = lsm_tree::Config::new(path, shared.counter.clone(), SequenceNumberCounter::default())
            .use_cache(shared.cache.clone())
            .use_descriptor_table(Some(shared.open_files.clone()))
            .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
            .data_block_restart_interval_policy(RestartIntervalPolicy::all(BLOCK_RESTART_ROWS))
            .filter_policy(FilterPolicy::new([
                FilterPolicyEntry::Bloom(BloomConstructionPolicy::FalsePositiveRate(0.0001)),
                FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
            ]));
        let config = match kind {
            TreeKind::Meta => config,
            TreeKind::Rows => {
                let factory = DeadRows { catalog: shared.catalog.clone() };
                config.with_compaction_filter_factory(Some(Arc::new(factory)))
            }
        };
        let AnyTree::Standard(tree) = config.open()? else {
            unreachable!("values are not separated from keys");
        };
        let unflushed =
            Unflushed { active: tree.active_memtable(), active_journal: None, sealed: VecDeque::new() };
        let runs = AtomicUsize::new(tree.l0_run_count());
        Ok(Self { tree, kind, unflushed: Mutex::new(unflushed), runs })
    }

    /// Lets the committer put rows.
    pub(crate) fn putter(&self) -> Putter<'_> {
        Putter { unflushed: self.lock() }
    }

    /// Bytes of the active memtable.
    pub(crate) fn active_bytes(&self) -> u64 {
        self.lock().active.size()
    }

    /// Bytes of all rows that are in journals only.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        let unflushed = self.lock();
        unflushed.active.size() + unflushed.sealed.iter().map(|sealed| sealed.memtable.size()).sum::<u64>()
    }

    /// The oldest journal with a row that is in no table file.
    pub(crate) fn oldest_journal(&self) -> Option<u64> {
        let unflushed = self.lock();
        unflushed.sealed.front().map(|sealed| sealed.journal).or(unflushed.active_journal)
    }

    /// Whether the active memtable has a row of this journal or an older one.
    pub(crate) fn active_needs_journal(&self, journal: u64) -> bool {
        self.lock().active_journal.is_some_and(|oldest| oldest <= journal)
    }

    pub(crate) fn has_sealed(&self) -> bool {
        !self.lock().sealed.is_empty()
    }

    /// Runs of flushed files that no compaction has taken yet.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::Acquire)
    }

    /// Seals the active memtable, so that it can be flushed. Called by whoever puts rows.
    pub(crate) fn seal(&self) {
        let mut unflushed = self.lock();
        let Some(journal) = unflushed.active_journal.take() else { return };
        let Some(memtable) = self.tree.rotate_memtable() else { return };
        unflushed.sealed.push_back(Sealed { memtable, journal });
        unflushed.active = self.tree.active_memtable();
    }

    /// Flushes the oldest sealed memtables; `false` if there is none. One thread at a time does this.
    pub(crate) fn flush(&self, catalog: &SpaceCatalog, snapshots: &Snapshots) -> lsm_tree::Result<bool> {
        let memtables: Vec<Arc<Memtable>> = {
            let unflushed = self.lock();
            unflushed.sealed.iter().take(FLUSHED_TOGETHER_MAX).map(|sealed| sealed.memtable.clone()).collect()
        };
        if memtables.is_empty() {
            return Ok(false);
        }
        let _flushing = self.tree.get_flush_lock();
        let live = (self.kind == TreeKind::Rows).then(|| catalog.live_slots());
        let merged = Merger::new(memtables.iter().map(|memtable| memtable.iter().map(Ok)).collect());
        let rows = NewestRows::new(merged, snapshots.watermark(), live);
        let ids: Vec<_> = memtables.iter().map(|memtable| memtable.id()).collect();
        if let Some((tables, blob_files)) = self.tree.flush_to_tables(rows)? {
            self.tree.register_tables(&tables, blob_files.as_deref(), None, &ids, snapshots.watermark())?;
        }
        self.lock().sealed.drain(..memtables.len());
        self.files_changed(snapshots)?;
        Ok(true)
    }

    /// Compacts once, if there is something to compact.
    pub(crate) fn compact(&self, snapshots: &Snapshots) -> lsm_tree::Result<bool> {
        let strategy =
            Leveled::default().with_table_target_size(TABLE_BYTES).with_l0_threshold(COMPACTED_RUNS);
        let before = self.tree.current_version().id();
        self.tree.compact(Arc::new(strategy), snapshots.watermark())?;
        let has_changed = self.tree.current_version().id() != before;
        if has_changed {
            self.files_changed(snapshots)?;
        }
        Ok(has_changed)
    }

    /// Rewrites all table files, without the rows of dropped spaces.
    pub(crate) fn rewrite(&self, snapshots: &Snapshots) -> lsm_tree::Result<()> {
        self.tree.major_compact(TABLE_BYTES, snapshots.watermark())?;
        self.files_changed(snapshots)
    }

    /// Removes the table files that have rows of dead slots only. Says whether there were any.
    pub(crate) fn remove_dead_files(
        &self,
        live: &LiveSlots,
        snapshots: &Snapshots,
    ) -> lsm_tree::Result<bool> {
        let dead_range = |table: &lsm_tree::Table| -> Option<(u64, u64)> {
            let range = &table.metadata.key_range;
            let (first, end) = live.dead_range(slot_of(range.min())?)?;
            (slot_of(range.max())? < end).then_some((first, end))
        };
        let mut ranges: Vec<_> = self.tree.current_version().iter_tables().filter_map(dead_range).collect();
        ranges.sort_unstable();
        ranges.dedup();
        for (first, end) in &ranges {
            self.tree.drop_range(first.to_be_bytes()..end.to_be_bytes())?;
        }
        if !ranges.is_empty() {
            self.files_changed(snapshots)?;
        }
        Ok(!ranges.is_empty())
    }

    /// Bytes of all table files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.tree.disk_space()
    }

    /// Whether memtables have a row of a slot.
    pub(crate) fn has_unflushed(&self, slot: u64) -> bool {
        let unflushed = self.lock();
        let from = InternalValue::from_components(slot.to_be_bytes(), [], SeqNo::MAX, ValueType::Value).key;
        let mut memtables = unflushed.sealed.iter().map(|sealed| &sealed.memtable).chain([&unflushed.active]);
        memtables.any(|memtable| {
            let first = memtable.items.range(&from..).next();
            first.is_some_and(|entry| slot_of(&entry.key().user_key) == Some(slot))
        })
    }

    /// Bytes of rows that the tree still has of a slot; at most about `bytes_max`.
    pub(crate) fn slot_bytes(&self, slot: u64, bytes_max: u64) -> lsm_tree::Result<u64> {
        let mut bytes = 0;
        let range = slot.to_be_bytes()..(slot + 1).to_be_bytes();
        for entry in self.tree.range(range, SeqNo::MAX, None) {
            let (key, value) = lsm_tree::Guard::into_inner(entry)?;
            bytes += (key.len() + value.len()) as u64;
            if bytes >= bytes_max {
                break;
            }
        }
        Ok(bytes)
    }

    /// Lets new readers use the new files, and removes those that no reader needs.
    pub(crate) fn files_changed(&self, snapshots: &Snapshots) -> lsm_tree::Result<()> {
        self.runs.store(self.tree.l0_run_count(), Ordering::Release);
        snapshots.advance();
        self.remove_old_versions(snapshots)
    }

    /// Whether files are kept that new readers do not use.
    pub(crate) fn has_old_versions(&self) -> bool {
        self.tree.version_free_list_len() > 0
    }

    /// Removes files that no reader needs any more.
    pub(crate) fn remove_old_versions(&self, snapshots: &Snapshots) -> lsm_tree::Result<()> {
        let watermark = snapshots.watermark();
        self.tree.get_version_history_lock().maintenance(&self.tree.config.path, watermark)
    }

    fn lock(&self) -> MutexGuard<'_, Unflushed> {
        self.unflushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Putter<'_> {
    /// Puts a row that the journal of this number has; no value deletes it.
    pub(crate) fn put(&mut self, key: Slice, value: Option<Slice>, sequence: SeqNo, journal: u64) {
        self.unflushed.active_journal.get_or_insert(journal);
        let (value, value_type) = match value {
            Some(value) => (value, ValueType::Value),
            None => (Slice::from(&[][..]), ValueType::Tombstone),
        };
        self.unflushed.active.insert(InternalValue::from_components(key, value, sequence, value_type));
    }
}

/// Rows in the order of their keys, the newest of a key first, without those that no reader can see: older ones of the
/// same key, below the watermark, and rows of dead slots.
pub(crate) struct NewestRows<I> {
    rows: I,
    watermark: SeqNo,
    live: Option<LiveSlots>,
    last: Option<(UserKey, SeqNo)>,
}

impl<I: Iterator<Item = lsm_tree::Result<InternalValue>>> NewestRows<I> {
    pub(crate) fn new(rows: I, watermark: SeqNo, live: Option<LiveSlots>) -> Self {
        Self { rows, watermark, live, last: None }
    }
}

impl<I: Iterator<Item = lsm_tree::Result<InternalValue>>> Iterator for NewestRows<I> {
    type Item = lsm_tree::Result<InternalValue>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = match self.rows.next()? {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            let is_hidden = self
                .last
                .as_ref()
                .is_some_and(|(key, sequence)| *key == row.key.user_key && *sequence < self.watermark);
            let is_dead = self
                .live
                .as_ref()
                .is_some_and(|live| slot_of(&row.key.user_key).is_some_and(|slot| live.is_dead(slot)));
            if !is_hidden && !is_dead {
                self.last = Some((row.key.user_key.clone(), row.key.seqno));
                return Some(Ok(row));
            }
        }
    }
}

/// Leaves out the rows of dead slots when files are compacted.
struct DeadRows {
    catalog: Arc<SpaceCatalog>,
}

struct DeadRowsFilter {
    live: LiveSlots,
    /// The slot of the last row, and whether it is dead.
    last: Option<(u64, bool)>,
}

impl Factory for DeadRows {
    fn name(&self) -> &'static str {
        "rows of dropped spaces"
    }

    fn make_filter(&self, _context: &Context) -> Box<dyn CompactionFilter> {
        Box::new(DeadRowsFilter { live: self.catalog.live_slots(), last: None })
    }
}

impl CompactionFilter for DeadRowsFilter {
    /// A row of a dead slot needs no tombstone: an older one of the same key is as dead.
    fn filter_item(&mut self, item: ItemAccessor<'_>, _context: &Context) -> lsm_tree::Result<Verdict> {
        let Some(slot) = slot_of(item.key()) else { return Ok(Verdict::Keep) };
        let is_dead = match self.last {
            Some((last, is_dead)) if last == slot => is_dead,
            _ => self.live.is_dead(slot),
        };
        self.last = Some((slot, is_dead));
        Ok(if is_dead { Verdict::Destroy } else { Verdict::Keep })
    }
}
