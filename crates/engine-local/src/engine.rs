//! The engine: the contract, on the store.

use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use lsm_tree::{AbstractTree, Guard};
use tavola_engine::{
    Change, Decide, Decision, Engine, EngineError, LoadedRow, Position, ScanRange, ScannedRow, SpaceId,
    StoredRow, TickClock, Transacted, Visit,
};
use tavola_model::{Clock, DateTime};
use tokio::sync::oneshot;

use crate::catalog::{SLOT_LEN, Space};
use crate::commit::{Committer, Shared};
use crate::commit_queue::{RowChange, SpacesSnapshot, Task, TaskReply, TreeRows, Write};
use crate::content::{ContentDisk, INDEX_SPACE, LocalContents};
use crate::disk::DiskGuard;
use crate::folder::{DataFolder, OpenError};
use crate::journal::JournalWriter;
use crate::metrics::LocalMetrics;
use crate::overlay::{Overlay, PendingRow, Stripe};
use crate::row::{self, decode_key, encode_key};
use crate::settings::{
    KEY_BYTES_MAX, LocalSettings, ROWS_READ_INLINE, SCAN_ROWS_AT_ONCE, TRANSACTION_BYTES_MAX,
};
use crate::store::LocalStore;
use crate::{compaction, flush, reclaim};

const CLOSED: &str = "the engine is closed";

/// The embedded engine. Dropping it makes what is waiting durable, stops its threads and frees the data folder.
pub struct LocalEngine {
    shared: Shared,
    ticks: Arc<TickClock>,
    contents: Arc<LocalContents>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl LocalEngine {
    /// Opens a data folder, or makes it.
    pub fn open(settings: LocalSettings, clock: Arc<dyn Clock>) -> Result<Arc<Self>, OpenError> {
        Self::open_on(settings, clock, ContentDisk::default())
    }

    /// The same, with another way to sync extents and to make holes, for tests.
    pub(crate) fn open_on(
        settings: LocalSettings,
        clock: Arc<dyn Clock>,
        disk: ContentDisk,
    ) -> Result<Arc<Self>, OpenError> {
        let folder = DataFolder::open(&settings.data_dir)?;
        let (store, journal) = LocalStore::open(folder, &settings)?;
        let store = Arc::new(store);
        let shared = Shared {
            queue: Arc::default(),
            overlay: Arc::new(Overlay::new()),
            disk: Arc::new(DiskGuard::new(store.folder.path().to_owned(), settings.disk_reserve_bytes)),
            flushes: Arc::default(),
            compactions: Arc::default(),
            reclaims: Arc::default(),
            store,
        };
        let ticks = Arc::new(TickClock::starting_above(shared.store.last_tick(), clock.clone()));
        let contents = LocalContents::open(&shared, &ticks, clock, disk);
        let contents = contents.map_err(|cause| shared.store.folder.failed(cause))?;
        let engine = Self { shared, ticks, contents, threads: Mutex::default() };
        engine
            .start(journal, settings.compaction_threads.max(1))
            .map_err(|cause| engine.shared.store.folder.failed(cause))?;
        Ok(Arc::new(engine))
    }

    /// Takes no more writes and returns when those that wait are durable. Reads go on.
    pub async fn close(&self) {
        let (answer, answered) = oneshot::channel();
        self.contents.stop_removing();
        self.shared.queue.close(CLOSED, Some(Task::Barrier(answer)));
        // No answer means that it was closed before, or that the last commit failed and has told its writers.
        drop(answered.await);
    }

    /// The contents of blobs that are stored beside the rows.
    pub fn contents(&self) -> Arc<LocalContents> {
        self.contents.clone()
    }

    /// Bytes of rows that are in memory and in journals, but in no table file yet.
    pub fn unflushed_bytes(&self) -> u64 {
        self.shared.store.unflushed_bytes()
    }

    /// Bytes of rows in memory: those in no table file yet, and blocks read from disk. At most what the settings give, and
    /// one commit.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.store.unflushed_bytes() + self.shared.store.cached_bytes()
    }

    /// What was counted so far.
    pub fn metrics(&self) -> LocalMetrics {
        LocalMetrics::read(&self.shared)
    }

    /// All spaces as of one moment between two commits.
    pub(crate) async fn spaces_snapshot(&self) -> Result<SpacesSnapshot, EngineError> {
        self.ask(Task::Snapshot).await
    }

    fn start(&self, journal: JournalWriter, compaction_threads: usize) -> std::io::Result<()> {
        let spawn = |name: &str, work: Box<dyn FnOnce(Shared) + Send>| {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(shared))?;
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
            Ok::<(), std::io::Error>(())
        };
        // First the one that stops the others when it ends.
        spawn("tavola-commit", Box::new(move |shared| Committer::new(shared, journal).run()))?;
        spawn(
            "tavola-flush",
            Box::new(|shared| flush::run(&shared.store, &shared.flushes, &shared.compactions)),
        )?;
        for _ in 0..compaction_threads {
            spawn("tavola-compact", Box::new(|shared| compaction::run(&shared.store, &shared.compactions)))?;
        }
        spawn(
            "tavola-reclaim",
            Box::new(|shared| reclaim::run(&shared.store, &shared.queue, &shared.disk, &shared.reclaims)),
        )?;
        self.shared.flushes.wake();
        (0..self.shared.store.trees.len()).for_each(|tree| self.shared.compactions.add(tree));
        Ok(())
    }

    async fn ask<T>(&self, task: impl FnOnce(TaskReply<T>) -> Task) -> Result<T, EngineError> {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(task(answer))?;
        answered.await.unwrap_or_else(|cause| Err(EngineError::OutcomeUnknown { cause: cause.into() }))
    }

    /// Decides a write and queues it, all in the partition's turn. Gives what to wait for, if anything.
    fn decide_in_turn(
        &self,
        space: &Arc<Space>,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Decided, EngineError> {
        let keys = rows.iter().map(|row| row_key(space, partition, row));
        let keys = keys.collect::<Result<Vec<Bytes>, EngineError>>()?;
        let stripe = self.shared.overlay.stripe_of(space, partition);
        let mut pending = self.shared.overlay.lock(stripe);
        let (found, saw_pending) = self.read_in_turn(space, &pending, &keys)?;
        let tick = self.ticks.next();
        let (transacted, changes) = match decide(tick, &found) {
            Decision::Apply(changes) => (Transacted::Applied(tick), changes),
            Decision::Refuse => (Transacted::Refused, Vec::new()),
        };
        let (answer, answered) = oneshot::channel();
        if changes.is_empty() {
            if !saw_pending {
                return Ok(Decided { transacted, answered: None });
            }
            // The answer rests on rows that a power cut could still take back.
            self.shared.queue.push(Task::Barrier(answer))?;
            return Ok(Decided { transacted, answered: Some(answered) });
        }
        // The catalog is written also when the disk is nearly full: dropping a table frees space.
        if space.id != SpaceId::CATALOG {
            if shrinks(&found, &changes) {
                self.shared.disk.admit_delete()?;
            } else {
                self.shared.disk.admit()?;
            }
        }
        let (row_changes, pending_rows) = apply(space, &keys, tick, changes);
        check_size(&row_changes)?;
        self.shared.queue.push(Task::Write(Write {
            space: space.clone(),
            stripe,
            tick,
            changes: row_changes,
            answer,
        }))?;
        pending.extend(pending_rows);
        Ok(Decided { transacted, answered: Some(answered) })
    }

    /// Queues rows with the versions they have, in the partition's turn. Gives what to wait for.
    fn load_in_turn(
        &self,
        space: &Arc<Space>,
        partition: &[u8],
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<oneshot::Receiver<Result<(), EngineError>>, EngineError> {
        let mut row_changes = Vec::with_capacity(rows.len());
        let mut loaded_rows = Vec::with_capacity(rows.len());
        for LoadedRow { row, stored: StoredRow { version, body } } in rows {
            assert!(*version <= tick, "no row is newer than the store it comes from");
            let key = row_key(space, partition, row)?;
            let value = row::encode_value(space.id, &key[SLOT_LEN..], *version, body);
            loaded_rows.push((key.clone(), StoredRow { version: *version, body: row::body_of(&value) }));
            row_changes.push(RowChange { key, value: Some(value) });
        }
        check_size(&row_changes)?;
        let keys: Vec<Bytes> = loaded_rows.iter().map(|(key, _)| key.clone()).collect();
        let stripe = self.shared.overlay.stripe_of(space, partition);
        let mut pending = self.shared.overlay.lock(stripe);
        let (found, _) = self.read_in_turn(space, &pending, &keys)?;
        if found.iter().flatten().any(|row| row.version > tick) {
            return Err(EngineError::Failed {
                cause: "a row that would be replaced was written since".into(),
            });
        }
        // The write has a tick of its own, above those of its rows: it is what the commit keeps as the last one, and
        // what the pending rows are known by.
        self.ticks.raise(tick);
        let tick = self.ticks.next();
        let (answer, answered) = oneshot::channel();
        let write = Write { space: space.clone(), stripe, tick, changes: row_changes, answer };
        self.shared.queue.push(Task::Write(write))?;
        pending.extend(loaded_rows.into_iter().map(|(key, row)| (key, PendingRow { tick, row: Some(row) })));
        Ok(answered)
    }

    /// The rows as the last writer of the partition left them, and whether any of them is not durable yet.
    fn read_in_turn(
        &self,
        space: &Space,
        pending: &Stripe,
        keys: &[Bytes],
    ) -> Result<(Vec<Option<StoredRow>>, bool), EngineError> {
        let snapshot = self.shared.store.snapshot();
        let mut saw_pending = false;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push(match pending.get(key) {
                Some(row) => {
                    saw_pending = true;
                    row.row.clone()
                }
                None => self.shared.store.read(&snapshot, space, key)?,
            });
        }
        Ok((found, saw_pending))
    }
}

#[async_trait]
impl Engine for LocalEngine {
    async fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.shared.disk.admit()?;
        self.ask(|answer| Task::CreateSpace(space, answer)).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.ask(|answer| Task::DropSpace(space, answer)).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        let spaces = self.shared.store.catalog.spaces();
        Ok(spaces.iter().map(|space| space.id).filter(|space| *space != INDEX_SPACE).collect())
    }

    async fn transact(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError> {
        self.shared.queue.admit()?;
        let space = self.shared.store.catalog.space(space)?;
        let decided = if rows.len() > ROWS_READ_INLINE {
            may_block(|| self.decide_in_turn(&space, partition, rows, decide))?
        } else {
            self.decide_in_turn(&space, partition, rows, decide)?
        };
        let Some(answered) = decided.answered else { return Ok(decided.transacted) };
        match answered.await {
            Ok(answer) => answer.map(|()| decided.transacted),
            // The committer is gone without an answer: it panicked, and may have written before that.
            Err(cause) => Err(EngineError::OutcomeUnknown { cause: cause.into() }),
        }
    }

    async fn load(
        &self,
        space: SpaceId,
        partition: &[u8],
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<(), EngineError> {
        self.shared.queue.admit()?;
        self.shared.disk.admit()?;
        let space = self.shared.store.catalog.space(space)?;
        let answered = may_block(|| self.load_in_turn(&space, partition, tick, rows))?;
        answered.await.unwrap_or_else(|cause| Err(EngineError::OutcomeUnknown { cause: cause.into() }))
    }

    async fn get(
        &self,
        space: SpaceId,
        partition: &[u8],
        row: &[u8],
    ) -> Result<Option<StoredRow>, EngineError> {
        let space = self.shared.store.catalog.space(space)?;
        let mut key = space.slot.to_be_bytes().to_vec();
        encode_key(partition, row, &mut key);
        if key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        let found = self.shared.store.read(&self.shared.store.snapshot(), &space, &key)?;
        space.check_exists()?;
        Ok(found)
    }

    async fn scan(
        &self,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        let space = self.shared.store.catalog.space(space)?;
        if range.is_empty() {
            return Ok(());
        }
        let mut rows = Scan::new(&self.shared.store, space, range)?;
        while rows.visit(SCAN_ROWS_AT_ONCE, visit)? == ScanState::More {
            // Whoever asked chooses when and on which thread the scan goes on.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        self.contents.stop_removing();
        self.shared.queue.close(CLOSED, None);
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A thread that panicked has said so itself.
            drop(thread.join());
        }
        self.contents.close();
    }
}

/// The outcome of a `decide`, and what must be durable before it may be told.
struct Decided {
    transacted: Transacted,
    answered: Option<oneshot::Receiver<Result<(), EngineError>>>,
}

/// The key of a row in its tree: the slot of its space, then its stored key.
pub(crate) fn row_key(space: &Space, partition: &[u8], row: &[u8]) -> Result<Bytes, EngineError> {
    let mut key = space.slot.to_be_bytes().to_vec();
    encode_key(partition, row, &mut key);
    if key.len() > KEY_BYTES_MAX {
        return Err(EngineError::Failed { cause: "key is too long to store".into() });
    }
    Ok(key.into())
}

/// `Ok` if the changes are not more than the store keeps together.
fn check_size(changes: &[RowChange]) -> Result<(), EngineError> {
    let bytes_of = |change: &RowChange| change.key.len() + change.value.as_ref().map_or(0, Bytes::len);
    let bytes = changes.iter().map(bytes_of).sum();
    if bytes > TRANSACTION_BYTES_MAX {
        return Err(EngineError::TooLarge { bytes, bytes_max: TRANSACTION_BYTES_MAX });
    }
    Ok(())
}

/// Whether changes delete something and add no more than they delete.
fn shrinks(found: &[Option<StoredRow>], changes: &[Change]) -> bool {
    let len_of = |index: usize| found.get(index).and_then(Option::as_ref).map_or(0, |row| row.body.len());
    let (mut before, mut after, mut has_delete) = (0, 0, false);
    for change in changes {
        match change {
            Change::Put { index, body } => {
                before += len_of(*index);
                after += body.len();
            }
            Change::Delete { index } => {
                before += len_of(*index);
                has_delete = true;
            }
        }
    }
    has_delete && after <= before
}

/// The changes in stored form, for the store and for the next writer.
fn apply(
    space: &Space,
    keys: &[Bytes],
    tick: DateTime,
    changes: Vec<Change>,
) -> (Vec<RowChange>, Vec<(Bytes, PendingRow)>) {
    let mut row_changes = Vec::with_capacity(changes.len());
    let mut pending_rows = Vec::with_capacity(changes.len());
    for change in changes {
        let (index, value) = match change {
            Change::Put { index, body } => {
                let stored_key = &keys[index][SLOT_LEN..];
                (index, Some(row::encode_value(space.id, stored_key, tick, &body)))
            }
            Change::Delete { index } => (index, None),
        };
        let row = value.as_ref().map(|value| StoredRow { version: tick, body: row::body_of(value) });
        pending_rows.push((keys[index].clone(), PendingRow { tick, row }));
        row_changes.push(RowChange { key: keys[index].clone(), value });
    }
    (row_changes, pending_rows)
}

/// A scan under way, on one snapshot.
pub(crate) struct Scan {
    space: Arc<Space>,
    rows: TreeRows,
    scratch: Vec<u8>,
}

/// The end of a range as a stored key. A longer key than any stored one is cut: then no stored key lies between the
/// two, and a stored key equal to the cut one lies before the end.
struct StoredBound {
    key: Vec<u8>,
    is_cut: bool,
}

impl StoredBound {
    fn of(space: &Space, position: &Position) -> Self {
        let mut key = space.slot.to_be_bytes().to_vec();
        encode_key(&position.partition, &position.row, &mut key);
        let is_cut = key.len() > KEY_BYTES_MAX;
        key.truncate(KEY_BYTES_MAX);
        Self { key, is_cut }
    }
}

#[derive(PartialEq, Eq)]
pub(crate) enum ScanState {
    More,
    Finished,
}

impl Scan {
    pub(crate) fn new(store: &LocalStore, space: Arc<Space>, range: &ScanRange) -> Result<Self, EngineError> {
        let from = StoredBound::of(&space, &range.from);
        let from = if from.is_cut { Bound::Excluded(from.key) } else { Bound::Included(from.key) };
        let before = match &range.before {
            Some(before) => {
                let before = StoredBound::of(&space, before);
                if before.is_cut { Bound::Included(before.key) } else { Bound::Excluded(before.key) }
            }
            None => Bound::Excluded((space.slot + 1).to_be_bytes().to_vec()),
        };
        // The rows hold on to the files that they come from, so the snapshot is not needed beyond this.
        let rows = store.trees[space.tree].tree.range((from, before), store.snapshot().sequence(), None);
        space.check_exists()?;
        Ok(Self { space, rows, scratch: Vec::new() })
    }

    /// Visits at most so many rows.
    pub(crate) fn visit(&mut self, rows_max: usize, visit: &mut Visit<'_>) -> Result<ScanState, EngineError> {
        for _ in 0..rows_max {
            let Some(next) = self.rows.next() else { return Ok(ScanState::Finished) };
            let (key, value) = next.into_inner().map_err(|error| self.space.read_failed(error))?;
            let key = key.get(SLOT_LEN..).ok_or(self.space.damaged("key is malformed"))?;
            let StoredRow { version, body } = self.space.decode(key, value.into())?;
            let (partition, row) =
                decode_key(key, &mut self.scratch).ok_or(self.space.damaged("key is malformed"))?;
            if visit(ScannedRow { partition, row, version, body }).is_break() {
                return Ok(ScanState::Finished);
            }
        }
        Ok(ScanState::More)
    }
}

/// Runs work that may take long without keeping other tasks of the runtime from their thread.
fn may_block<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
