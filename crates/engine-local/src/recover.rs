//! Opening a store: inspect everything, clean up, replay the journals.
//!
//! The journals are replayed in order, from the oldest that is kept, whatever part of them is in table files already.
//! That gives the same rows: the last write of each row that a journal has is replayed last.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use lsm_tree::{AbstractTree, Cache, DescriptorTable, SequenceNumberCounter, Slice};
use tavola_engine::SpaceId;
use tavola_model::DateTime;

use crate::catalog::{META_TREE, SpaceCatalog, slot_of};
use crate::create::{FIRST_SLOT, NewStore};
use crate::folder::{DataFolder, Holding, OpenError};
use crate::inspect::{Inspected, tree_name};
use crate::journal::{Examined, JournalFile, JournalWriter, Journals, changes};
use crate::metrics::Counters;
use crate::settings::{DATA_TREES, LocalSettings, OPEN_FILES_MAX};
use crate::snapshot::Snapshots;
use crate::store::LocalStore;
use crate::tree::{StoreTree, TreeFiles, TreeKind};

/// Sequence numbers begin above zero, which is the age of a tree as it is opened.
const FIRST_SEQUENCE: u64 = 1;
/// Files that the rest of the process needs open: one in so many is ours.
const OPEN_FILES_SHARE: u64 = 4;
const OPEN_FILES_MIN: u64 = 16;

impl LocalStore {
    /// Opens the store in a folder, or makes it. Gives the journal to go on with.
    pub(crate) fn open(
        folder: DataFolder,
        settings: &LocalSettings,
    ) -> Result<(Self, JournalWriter), OpenError> {
        if folder.is_without_store()? {
            folder.make_store(|path| {
                let made = NewStore::begin(path).and_then(|store| {
                    store.add_space(SpaceId::CATALOG, FIRST_SLOT)?;
                    store.finish(DateTime::MIN)
                });
                made.map(|()| ((), Holding::Rows)).map_err(|error| folder.failed(error))
            })?;
        }
        let path = folder.store_path();
        let inspected = Inspected::read(&path).map_err(|trouble| trouble.of(&folder))?;
        inspected.remove_leftovers(&path).map_err(|cause| folder.failed(cause))?;
        let Inspected { manifest, journals, catalog, tick, .. } = inspected;
        let catalog = Arc::new(catalog);
        let failed = |error: lsm_tree::Error| folder.failed(error);
        let counter = SequenceNumberCounter::new(FIRST_SEQUENCE);
        let trees = open_trees(&path, &catalog, &counter, settings).map_err(failed)?;
        let persisted = trees.iter().filter_map(|tree| tree.tree.get_highest_persisted_seqno()).max();
        counter.set(persisted.map_or(FIRST_SEQUENCE, |highest| highest + 1));
        let snapshots = Snapshots::new(counter);
        let replay = Replay { trees: &trees, catalog: &catalog, snapshots: &snapshots };
        replay.run(&journals, settings.flushed_bytes()).map_err(failed)?;
        let begun = begun_journals(&journals, manifest.first_sequence);
        let (current, spares) = journals[begun.len() - 1..].split_first().expect("there is a journal");
        let open =
            |journal: &Examined| JournalFile::open(&path, journal).map_err(|cause| folder.failed(cause));
        let spares = spares.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let writer =
            JournalWriter::resume(open(current)?, current, tick).map_err(|cause| folder.failed(cause))?;
        let store = Self {
            trees,
            catalog,
            journals: Journals::new(&path, manifest, begun, spares),
            snapshots,
            last_tick: AtomicU64::new(tick),
            has_failed: AtomicBool::new(false),
            counters: Counters::default(),
            memtable_bytes: settings.flushed_bytes(),
            unflushed_bytes_max: settings.unflushed_bytes_max(),
            folder,
        };
        Ok((store, writer))
    }
}

/// Opens all trees of a store, or makes them.
pub(crate) fn open_trees(
    store: &Path,
    catalog: &Arc<SpaceCatalog>,
    counter: &SequenceNumberCounter,
    settings: &LocalSettings,
) -> lsm_tree::Result<Vec<StoreTree>> {
    let shared = TreeFiles {
        cache: Arc::new(Cache::with_capacity_bytes(settings.cache_bytes())),
        open_files: Arc::new(DescriptorTable::new(open_files_max())),
        counter: counter.clone(),
        catalog: catalog.clone(),
    };
    let kind = |tree| if tree == META_TREE { TreeKind::Meta } else { TreeKind::Rows };
    (0..=DATA_TREES).map(|tree| StoreTree::open(&store.join(tree_name(tree)), kind(tree), &shared)).collect()
}

/// How many table files may be open at once.
fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let share = limit.map_or(OPEN_FILES_MAX, |limit| limit / OPEN_FILES_SHARE);
    usize::try_from(share.clamp(OPEN_FILES_MIN, OPEN_FILES_MAX)).expect("a small number")
}

/// The journals up to the one that is written to, each with the number of its first record.
fn begun_journals(journals: &[Examined], first_sequence: u64) -> Vec<(u64, u64)> {
    let current = journals.iter().rposition(|journal| journal.records > 0).unwrap_or(0);
    let begun = journals[..=current].iter();
    begun
        .map(|journal| (journal.id, journal.next_sequence - journal.records))
        .inspect(|(_, first)| {
            assert!(*first >= first_sequence, "records are numbered from the manifest's number on");
        })
        .collect()
}

struct Replay<'a> {
    trees: &'a [StoreTree],
    catalog: &'a SpaceCatalog,
    snapshots: &'a Snapshots,
}

impl Replay<'_> {
    /// Puts the rows of all journals into memtables again, and flushes those that get full.
    fn run(&self, journals: &[Examined], memtable_bytes: u64) -> lsm_tree::Result<()> {
        let live = self.catalog.live_slots();
        for journal in journals {
            journal.visit(|payload| {
                self.snapshots.apply(|sequence| {
                    for change in changes(payload).flatten() {
                        // Nobody can see rows of a dropped space; whoever removed them would have to do it again.
                        let is_dead = change.tree != META_TREE
                            && slot_of(change.key).is_some_and(|slot| live.is_dead(slot));
                        if !is_dead {
                            let (key, value) = (Slice::from(change.key), change.value.map(Slice::from));
                            self.trees[change.tree].putter().put(key, value, sequence, journal.id);
                        }
                    }
                });
                self.flush_full(memtable_bytes)
            })?;
        }
        Ok(())
    }

    fn flush_full(&self, memtable_bytes: u64) -> lsm_tree::Result<()> {
        for tree in self.trees {
            if tree.active_bytes() >= memtable_bytes {
                tree.seal();
                while tree.flush(self.catalog, self.snapshots)? {}
            }
        }
        Ok(())
    }
}
