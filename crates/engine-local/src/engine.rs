//! The engine: the contract, on the store.

use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use fjall::Readable;
use tavola_engine::{
    Change, Decide, Decision, Engine, EngineError, LoadedRow, Position, ScanRange, ScannedRow, SpaceId,
    StoredRow, TickClock, Transacted, Visit,
};
use tavola_model::{Clock, DateTime};
use tokio::sync::oneshot;

use crate::commit::Committer;
use crate::disk::DiskGuard;
use crate::folder::{DataFolder, OpenError};
use crate::merge::{self, MergeList};
use crate::overlay::{Overlay, PENDING_PREFIX_LEN, PendingRow, Stripe, pending_key};
use crate::queue::{Answer, Queue, RowChange, SpacesSnapshot, Task, Write};
use crate::row::{self, decode_key, encode_key};
use crate::settings::{KEY_BYTES_MAX, LocalSettings, ROWS_READ_INLINE, SCAN_ROWS_AT_ONCE};
use crate::store::{Space, Store};

const CLOSED: &str = "the engine is closed";

/// The embedded engine. Dropping it makes what is waiting durable, stops its threads and frees the data folder.
pub struct LocalEngine {
    store: Arc<Store>,
    queue: Arc<Queue>,
    overlay: Arc<Overlay>,
    disk: Arc<DiskGuard>,
    merges: Arc<MergeList>,
    ticks: TickClock,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl LocalEngine {
    /// Opens a data folder, or makes it.
    pub fn open(settings: LocalSettings, clock: Arc<dyn Clock>) -> Result<Arc<Self>, OpenError> {
        let folder = DataFolder::open(&settings.data_dir)?;
        let store = Arc::new(Store::open(folder, &settings)?);
        let last_tick = store.last_tick().map_err(|cause| store.folder.failed(cause))?;
        let engine = Self {
            queue: Arc::new(Queue::default()),
            overlay: Arc::new(Overlay::new()),
            disk: Arc::new(DiskGuard::new(store.folder.path().to_owned(), settings.disk_reserve_bytes)),
            merges: Arc::default(),
            ticks: TickClock::starting_above(last_tick, clock),
            threads: Mutex::default(),
            store,
        };
        engine
            .start(last_tick, settings.merge_threads.max(1))
            .map_err(|cause| engine.store.folder.failed(cause))?;
        Ok(Arc::new(engine))
    }

    /// Takes no more writes and returns when those that wait are durable. Reads go on.
    pub async fn close(&self) {
        let (answer, answered) = oneshot::channel();
        self.queue.close(CLOSED, Some(Task::Barrier(answer)));
        // No answer means that it was closed before, or that the last commit failed and has told its writers.
        drop(answered.await);
    }

    /// All spaces as of one moment between two commits.
    pub(crate) async fn spaces_snapshot(&self) -> Result<SpacesSnapshot, EngineError> {
        self.ask(Task::Snapshot).await
    }

    fn start(&self, last_tick: DateTime, merge_threads: usize) -> std::io::Result<()> {
        let (reclaim, dropped_spaces) = mpsc::channel::<Arc<Space>>();
        let committer = Committer::new(
            self.store.clone(),
            self.queue.clone(),
            self.overlay.clone(),
            self.disk.clone(),
            last_tick,
            self.merges.clone(),
            reclaim,
        );
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(work)
        };
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(spawn("tavola-commit", Box::new(move || committer.run()))?);
        // Dropping the last reference to a dropped space removes its files.
        threads.push(spawn("tavola-reclaim", Box::new(move || dropped_spaces.into_iter().for_each(drop)))?);
        self.store.spaces().iter().for_each(|space| self.merges.add(space));
        for _ in 0..merge_threads {
            let (store, merges) = (self.store.clone(), self.merges.clone());
            threads.push(spawn("tavola-merge", Box::new(move || merge::run(&store, &merges)))?);
        }
        Ok(())
    }

    async fn ask<T>(&self, task: impl FnOnce(Answer<T>) -> Task) -> Result<T, EngineError> {
        let (answer, answered) = oneshot::channel();
        self.queue.push(task(answer))?;
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
        let keys = rows.iter().map(|row| pending_row_key(space, partition, row));
        let keys = keys.collect::<Result<Vec<Bytes>, EngineError>>()?;
        let stripe = self.overlay.stripe_of(space, partition);
        let mut pending = self.overlay.lock(stripe);
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
            self.queue.push(Task::Barrier(answer))?;
            return Ok(Decided { transacted, answered: Some(answered) });
        }
        let (row_changes, pending_rows) = apply(space, &keys, tick, changes);
        self.queue.push(Task::Write(Write {
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
            let pending_key = pending_row_key(space, partition, row)?;
            let value = row::encode_value(space.id, &pending_key[PENDING_PREFIX_LEN..], *version, body);
            loaded_rows
                .push((pending_key.clone(), StoredRow { version: *version, body: row::body_of(&value) }));
            row_changes.push(RowChange { pending_key, value: Some(value) });
        }
        let keys: Vec<Bytes> = loaded_rows.iter().map(|(key, _)| key.clone()).collect();
        let stripe = self.overlay.stripe_of(space, partition);
        let mut pending = self.overlay.lock(stripe);
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
        self.queue.push(Task::Write(write))?;
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
        let snapshot = self.store.snapshot();
        let mut saw_pending = false;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push(match pending.get(key) {
                Some(row) => {
                    saw_pending = true;
                    row.row.clone()
                }
                None => space.read(&snapshot, &key[PENDING_PREFIX_LEN..])?,
            });
        }
        Ok((found, saw_pending))
    }
}

#[async_trait]
impl Engine for LocalEngine {
    async fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.disk.admit()?;
        self.ask(|answer| Task::CreateSpace(space, answer)).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.ask(|answer| Task::DropSpace(space, answer)).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        Ok(self.store.spaces().iter().map(|space| space.id).collect())
    }

    async fn transact(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError> {
        self.queue.admit()?;
        // The catalog is written also when the disk is nearly full: dropping a table is how room is made.
        if space != SpaceId::CATALOG {
            self.disk.admit()?;
        }
        let space = self.store.space(space)?;
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
        self.queue.admit()?;
        self.disk.admit()?;
        let space = self.store.space(space)?;
        let answered = may_block(|| self.load_in_turn(&space, partition, tick, rows))?;
        answered.await.unwrap_or_else(|cause| Err(EngineError::OutcomeUnknown { cause: cause.into() }))
    }

    async fn get(
        &self,
        space: SpaceId,
        partition: &[u8],
        row: &[u8],
    ) -> Result<Option<StoredRow>, EngineError> {
        let space = self.store.space(space)?;
        let mut key = Vec::new();
        encode_key(partition, row, &mut key);
        if key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        space.read(&self.store.snapshot(), &key)
    }

    async fn scan(
        &self,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        let space = self.store.space(space)?;
        if range.is_empty() {
            return Ok(());
        }
        let mut rows = Scan::new(&self.store, space, range);
        while rows.visit(SCAN_ROWS_AT_ONCE, visit)? == ScanState::More {
            // Whoever asked chooses when and on which thread the scan goes on.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        self.queue.close(CLOSED, None);
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A thread that panicked has said so itself.
            drop(thread.join());
        }
    }
}

/// The outcome of a `decide`, and what must be durable before it may be told.
struct Decided {
    transacted: Transacted,
    answered: Option<oneshot::Receiver<Result<(), EngineError>>>,
}

fn pending_row_key(space: &Space, partition: &[u8], row: &[u8]) -> Result<Bytes, EngineError> {
    let mut key = pending_key(space);
    encode_key(partition, row, &mut key);
    if key.len() - PENDING_PREFIX_LEN > KEY_BYTES_MAX {
        return Err(EngineError::Failed { cause: "key is too long to store".into() });
    }
    Ok(key.into())
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
        let (place, value) = match change {
            Change::Put { place, body } => {
                let stored_key = &keys[place][PENDING_PREFIX_LEN..];
                (place, Some(row::encode_value(space.id, stored_key, tick, &body)))
            }
            Change::Delete { place } => (place, None),
        };
        let row = value.as_ref().map(|value| StoredRow { version: tick, body: row::body_of(value) });
        pending_rows.push((keys[place].clone(), PendingRow { tick, row }));
        row_changes.push(RowChange { pending_key: keys[place].clone(), value });
    }
    (row_changes, pending_rows)
}

/// A scan under way, on one snapshot.
struct Scan {
    space: Arc<Space>,
    rows: fjall::Iter,
    scratch: Vec<u8>,
}

/// The end of a range as a stored key. A longer key than any stored one is cut: then no stored key lies between the
/// two, and a stored key equal to the cut one lies before the end.
struct StoredBound {
    key: Vec<u8>,
    is_cut: bool,
}

impl StoredBound {
    fn of(position: &Position) -> Self {
        let mut key = Vec::new();
        encode_key(&position.partition, &position.row, &mut key);
        let is_cut = key.len() > KEY_BYTES_MAX;
        key.truncate(KEY_BYTES_MAX);
        Self { key, is_cut }
    }
}

#[derive(PartialEq, Eq)]
enum ScanState {
    More,
    Finished,
}

impl Scan {
    fn new(store: &Store, space: Arc<Space>, range: &ScanRange) -> Self {
        let from = StoredBound::of(&range.from);
        let from = if from.is_cut { Bound::Excluded(from.key) } else { Bound::Included(from.key) };
        let before = match &range.before {
            Some(before) => {
                let before = StoredBound::of(before);
                if before.is_cut { Bound::Included(before.key) } else { Bound::Excluded(before.key) }
            }
            None => Bound::Unbounded,
        };
        let rows = store.snapshot().range(&space.keyspace, (from, before));
        Self { space, rows, scratch: Vec::new() }
    }

    /// Visits at most so many rows.
    fn visit(&mut self, rows_max: usize, visit: &mut Visit<'_>) -> Result<ScanState, EngineError> {
        for _ in 0..rows_max {
            let Some(next) = self.rows.next() else { return Ok(ScanState::Finished) };
            let (key, value) = next.into_inner().map_err(|error| self.space.read_failed(error))?;
            let StoredRow { version, body } = self.space.decode(&key, value.into())?;
            let (partition, row) =
                decode_key(&key, &mut self.scratch).ok_or(self.space.damaged("key is malformed"))?;
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
