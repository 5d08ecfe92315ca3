//! Making a store: the empty one of a new data folder, and the full one of a backup.
//!
//! Rows go straight to table files, without a journal: until the store gets its name, nobody is told of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::{SequenceNumberCounter, Slice};
use tavola_engine::SpaceId;
use tavola_model::DateTime;

use crate::catalog::{ExtentChange, META_TREE, SpaceCatalog, change_extent, make_space};
use crate::folder::{create_folder, sync_folder};
use crate::inspect::tree_name;
use crate::journal::JournalFile;
use crate::manifest::Manifest;
use crate::recover::open_trees;
use crate::settings::{DATA_TREES, JOURNAL_BYTES, LocalSettings};
use crate::snapshot::Snapshots;
use crate::tree::StoreTree;

/// The slot of the services' own catalog in a new store.
pub(crate) const FIRST_SLOT: u64 = 1;
const FIRST_SEQUENCE: u64 = 1;
const FIRST_JOURNAL: u64 = 1;

/// A store that is being made.
pub(crate) struct NewStore {
    path: PathBuf,
    trees: Vec<StoreTree>,
    catalog: Arc<SpaceCatalog>,
    snapshots: Arc<Snapshots>,
    memtable_bytes: u64,
}

impl NewStore {
    /// Begins a store in an empty folder.
    pub(crate) fn begin(path: &Path) -> lsm_tree::Result<Self> {
        for tree in 0..=DATA_TREES {
            create_folder(&path.join(tree_name(tree)))?;
            create_folder(&path.join(tree_name(tree)).join("tables"))?;
        }
        let counter = SequenceNumberCounter::new(FIRST_SEQUENCE);
        let settings = LocalSettings::new(path);
        let catalog = Arc::new(SpaceCatalog::new());
        let trees = open_trees(path, &catalog, &counter, &settings)?;
        let snapshots = Snapshots::new(counter);
        Ok(Self {
            path: path.to_owned(),
            trees,
            catalog,
            snapshots,
            memtable_bytes: settings.flushed_bytes(),
        })
    }

    /// Adds a space. The last one added has the highest slot.
    pub(crate) fn add_space(&self, id: SpaceId, slot: u64) -> lsm_tree::Result<()> {
        for change in make_space(id, slot).1 {
            if let Some(value) = change.value {
                self.put(META_TREE, change.key, value)?;
            }
        }
        Ok(())
    }

    /// Adds an extent, whose file is there.
    pub(crate) fn add_extent(&self, extent: u64, size: u64) -> lsm_tree::Result<()> {
        let change = change_extent(ExtentChange::Made { extent, size });
        match change.value {
            Some(value) => self.put(META_TREE, change.key, value),
            None => Ok(()),
        }
    }

    /// Adds a row.
    pub(crate) fn put(&self, tree: usize, key: Slice, value: Slice) -> lsm_tree::Result<()> {
        let put = |sequence| self.trees[tree].putter().put(key, Some(value), sequence, FIRST_JOURNAL);
        self.snapshots.apply(put);
        if self.trees[tree].active_bytes() >= self.memtable_bytes {
            self.flush(&self.trees[tree])?;
        }
        Ok(())
    }

    /// Writes everything, so that the store can be given its name. `tick` is at least every version in it.
    pub(crate) fn finish(self, tick: DateTime) -> lsm_tree::Result<()> {
        self.trees.iter().try_for_each(|tree| self.flush(tree))?;
        JournalFile::create(&self.path, FIRST_JOURNAL, JOURNAL_BYTES)?;
        sync_folder(&self.path)?;
        let manifest = Manifest {
            data_trees: DATA_TREES as u64,
            first_journal: FIRST_JOURNAL,
            last_journal: FIRST_JOURNAL,
            first_sequence: FIRST_SEQUENCE,
            tick: tick.ticks(),
        };
        Ok(manifest.write(&self.path)?)
    }

    fn flush(&self, tree: &StoreTree) -> lsm_tree::Result<()> {
        tree.seal();
        while tree.flush(&self.catalog, &self.snapshots)? {}
        Ok(())
    }
}
