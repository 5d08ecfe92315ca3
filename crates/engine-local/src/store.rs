//! The store below: fjall, a log-structured tree, with one keyspace per space.
//!
//! fjall writes and syncs its journal before it shows a batch to readers (`WriteBatch::commit`), so whatever a
//! snapshot sees is durable. All reads go through a snapshot: a plain read of fjall could see half a batch.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use fjall::config::BlockSizePolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, Readable, Snapshot};
use lsm_tree::{AbstractTree, SequenceNumberCounter};
use tavola_engine::{EngineError, SpaceId, StoredRow};
use tavola_model::DateTime;

use crate::folder::{DataFolder, OpenError, sync_folder};
use crate::settings::{BLOCK_BYTES, JOURNAL_BYTES_MAX, LocalSettings};
use crate::{journal, merge, row};

const KEYSPACES: &str = "keyspaces";
const META: &str = "meta";
const LAST_TICK: &[u8] = b"last tick";
/// Stands for the meta keyspace in checksums; the services never choose it.
const META_SPACE: SpaceId = SpaceId([0xFF; 16]);

/// The open store of one data folder.
pub(crate) struct Store {
    spaces: RwLock<HashMap<SpaceId, Arc<Space>>>,
    instances: AtomicU64,
    memtable_bytes: u64,
    meta: Keyspace,
    pub(crate) database: Database,
    /// Set when files could not be merged; no more writes are taken then.
    pub(crate) merge_failed: AtomicBool,
    keyspaces_path: PathBuf,
    /// Dropped last: the lock outlives every file of the store.
    pub(crate) folder: DataFolder,
}

/// One space, from its making to its drop.
pub(crate) struct Space {
    pub(crate) id: SpaceId,
    /// Differs between a space and its successor of the same id.
    pub(crate) instance: u64,
    pub(crate) keyspace: Keyspace,
    /// Set by the committer when it drops the space; a write that comes later is refused.
    pub(crate) is_dropped: AtomicBool,
    /// Whether it is on the list of spaces that may have files to merge.
    pub(crate) is_to_merge: AtomicBool,
}

impl Store {
    /// Opens the store in a folder, or makes it.
    pub(crate) fn open(folder: DataFolder, settings: &LocalSettings) -> Result<Self, OpenError> {
        let path = folder.store_path();
        let mut sequence_min = 0;
        if path.exists() {
            journal::mend(&path)
                .map_err(|cause| folder.failed(cause))?
                .map_err(|what| folder.damaged(what))?;
            sequence_min = catalog_sequence_end(&path).map_err(|cause| folder.failed(cause))?;
        }
        let database = Database::builder(&path)
            .cache_size(settings.cache_bytes)
            .worker_threads(1)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .open()
            .map_err(|cause| folder.failed(cause))?;
        database.supervisor.seqno.fetch_max(sequence_min);
        let meta =
            database.keyspace(META, KeyspaceCreateOptions::default).map_err(|cause| folder.failed(cause))?;
        let store = Self {
            spaces: RwLock::default(),
            instances: AtomicU64::new(0),
            memtable_bytes: settings.memtable_bytes,
            meta,
            database,
            merge_failed: AtomicBool::new(false),
            keyspaces_path: path.join(KEYSPACES),
            folder,
        };
        store.sync_names().map_err(|cause| store.folder.failed(cause))?;
        for name in store.database.list_keyspace_names() {
            if let Some(space) = SpaceId::parse(&name) {
                store.open_space(space).map_err(|cause| store.folder.failed(cause))?;
            }
        }
        store.create_space(SpaceId::CATALOG).map_err(|cause| store.folder.failed(cause))?;
        Ok(store)
    }

    /// A space that exists.
    pub(crate) fn space(&self, space: SpaceId) -> Result<Arc<Space>, EngineError> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(&space).cloned().ok_or(EngineError::SpaceMissing { space })
    }

    /// All spaces, in the order of their ids.
    pub(crate) fn spaces(&self) -> Vec<Arc<Space>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = spaces.values().cloned().collect();
        all.sort_by_key(|space| space.id);
        all
    }

    /// Makes a space, durably, unless it exists.
    pub(crate) fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        if self.space(space).is_ok() {
            return Ok(());
        }
        self.open_space(space).map_err(|cause| EngineError::OutcomeUnknown { cause: cause.into() })?;
        // fjall syncs what is in the new keyspace's folder, but not the name of that folder. Without the name, a
        // power cut would lose the space and every acknowledged row in it.
        self.sync_names().map_err(|cause| EngineError::OutcomeUnknown { cause: cause.into() })
    }

    /// Drops a space, durably, if it exists. Gives its remains: when the last reference to them goes, its files
    /// are removed, which takes time.
    pub(crate) fn drop_space(&self, space: SpaceId) -> Result<Option<Arc<Space>>, EngineError> {
        let removed = self.spaces.write().unwrap_or_else(PoisonError::into_inner).remove(&space);
        let Some(removed) = removed else { return Ok(None) };
        removed.is_dropped.store(true, Ordering::Release);
        self.database
            .delete_keyspace(removed.keyspace.clone())
            .map_err(|cause| EngineError::OutcomeUnknown { cause: cause.into() })?;
        Ok(Some(removed))
    }

    /// What is durable now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    /// The highest tick that was ever committed.
    pub(crate) fn last_tick(&self) -> Result<DateTime, EngineError> {
        let value = self.snapshot().get(&self.meta, LAST_TICK).map_err(failed)?;
        let Some(value) = value else { return Ok(DateTime::MIN) };
        match row::decode_value(META_SPACE, LAST_TICK, value.into()) {
            Ok(stored) => Ok(stored.version),
            Err(what) => Err(EngineError::Damaged { space: META_SPACE, what }),
        }
    }

    /// Adds the last tick to a batch.
    pub(crate) fn put_last_tick(&self, batch: &mut fjall::OwnedWriteBatch, tick: DateTime) {
        batch.insert(&self.meta, LAST_TICK, row::encode_value(META_SPACE, LAST_TICK, tick, &[]));
    }

    /// Keeps the last tick, durably.
    pub(crate) fn set_last_tick(&self, tick: DateTime) -> Result<(), EngineError> {
        let mut batch = self.database.batch().durability(Some(fjall::PersistMode::SyncAll));
        self.put_last_tick(&mut batch, tick);
        batch.commit().map_err(failed)
    }

    /// Closes the store and gives its folder back, still locked.
    pub(crate) fn into_folder(self) -> DataFolder {
        self.folder
    }

    fn open_space(&self, id: SpaceId) -> Result<(), fjall::Error> {
        let memtable_bytes = self.memtable_bytes;
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(memtable_bytes)
                .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
                .compaction_strategy(Arc::new(merge::strategy_of_the_store()))
        };
        let keyspace = self.database.keyspace(&id.to_string(), options)?;
        let instance = self.instances.fetch_add(1, Ordering::Relaxed);
        let space = Space {
            id,
            instance,
            keyspace,
            is_dropped: AtomicBool::new(false),
            is_to_merge: AtomicBool::new(false),
        };
        self.spaces.write().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::new(space));
        Ok(())
    }

    fn sync_names(&self) -> std::io::Result<()> {
        sync_folder(&self.keyspaces_path)?;
        sync_folder(self.folder.path())
    }
}

impl Space {
    /// A row as the snapshot has it.
    pub(crate) fn read(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<StoredRow>, EngineError> {
        match snapshot.get(&self.keyspace, key).map_err(|error| self.read_failed(error))? {
            Some(value) => self.decode(key, value.into()).map(Some),
            None => Ok(None),
        }
    }

    /// The row in a stored value.
    pub(crate) fn decode(&self, key: &[u8], value: Bytes) -> Result<StoredRow, EngineError> {
        row::decode_value(self.id, key, value).map_err(|what| self.damaged(what))
    }

    /// Tells damage, which stays, from a failure that may pass.
    pub(crate) fn read_failed(&self, error: fjall::Error) -> EngineError {
        match error {
            fjall::Error::Storage(fjall::LsmError::Io(cause)) => EngineError::Failed { cause: cause.into() },
            fjall::Error::Storage(error) => {
                tracing::error!(space = %self.id, error = &error as &dyn std::error::Error, "store is damaged");
                self.damaged("a block of the store cannot be read")
            }
            error => failed(error),
        }
    }

    pub(crate) fn damaged(&self, what: &'static str) -> EngineError {
        EngineError::Damaged { space: self.id, what }
    }
}

/// The lowest sequence number above all in fjall's catalog of keyspaces.
///
/// fjall gives every write a number, also those to its catalog, but after a restart it goes on from the highest
/// number of a row. A keyspace made then may get the id of a dropped one, and numbers below those of its deletion:
/// it would be gone, with its rows, at the next restart. So the counter is raised above the catalog first.
fn catalog_sequence_end(store: &Path) -> Result<u64, lsm_tree::Error> {
    let (sequence, visible_sequence) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
    let catalog =
        lsm_tree::Config::new(store.join(KEYSPACES).join("0"), sequence, visible_sequence).open()?;
    Ok(catalog.get_highest_persisted_seqno().map_or(0, |highest| highest + 1))
}

/// A failure of the store.
pub(crate) fn failed(cause: fjall::Error) -> EngineError {
    EngineError::Failed { cause: cause.into() }
}
