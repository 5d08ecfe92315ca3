//! The committer: one thread that makes everything that waits durable with one sync, and then answers.
//!
//! There is no timer: while one sync runs, the writes for the next gather. A commit that fails poisons the engine
//! until it is opened again, because after a failed sync nobody can know what the disk holds.

use std::fmt;
use std::io;
use std::ops::RangeFull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::AbstractTree;
use tavola_engine::{EngineError, SpaceId};
use tavola_model::DateTime;

use crate::catalog::{self, ExtentChange, Space};
use crate::commit_queue::{CommitQueue, SpacesSnapshot, Task, TaskReply, TreeRows, Write};
use crate::compaction::CompactionList;
use crate::disk::DiskGuard;
use crate::flush::FlushSignal;
use crate::journal::JournalWriter;
use crate::overlay::Overlay;
use crate::reclaim::ReclaimSignal;
use crate::settings::STALL_CHECK_US;
use crate::store::{CommitBatch, LocalStore};

pub(crate) const POISONED: &str = "an earlier write to the disk failed";
/// A wait for flushes or compaction that is worth a line in the log.
const STALL_TOLD: Duration = Duration::from_secs(1);

/// What the engine's threads share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) store: Arc<LocalStore>,
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) overlay: Arc<Overlay>,
    pub(crate) disk: Arc<DiskGuard>,
    pub(crate) flushes: Arc<FlushSignal>,
    pub(crate) compactions: Arc<CompactionList>,
    pub(crate) reclaims: Arc<ReclaimSignal>,
}

/// The state of the committer's thread.
pub(crate) struct Committer {
    shared: Shared,
    journal: JournalWriter,
    last_tick: DateTime,
    batch: CommitBatch,
}

impl Committer {
    pub(crate) fn new(shared: Shared, journal: JournalWriter) -> Self {
        let last_tick = shared.store.last_tick();
        Self { shared, journal, last_tick, batch: CommitBatch::new() }
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        while let Some(tasks) = self.shared.queue.take() {
            let mut group = Group::default();
            for task in tasks {
                match task {
                    Task::Write(write) => group.add_write(write, &self.shared.overlay),
                    Task::Barrier(answer) => group.answers.push(answer),
                    Task::CreateSpace(space, answer) => group.create_space(space, answer, &self.shared.store),
                    Task::DropSpace(space, answer) => group.drop_space(space, answer, &self.shared.store),
                    Task::ForgetDropped(slots, answer) => {
                        group.forgotten.extend(slots);
                        group.answers.push(answer);
                    }
                    Task::ChangeExtent(change, answer) => {
                        group.extents.push(change);
                        group.answers.push(answer);
                    }
                    Task::Snapshot(answer) => {
                        self.commit(std::mem::take(&mut group));
                        drop(answer.send(Ok(self.snapshot())));
                    }
                    Task::Seal(tree, answer) => {
                        self.commit(std::mem::take(&mut group));
                        self.shared.store.trees[tree].seal();
                        self.shared.flushes.wake();
                        drop(answer.send(Ok(())));
                    }
                }
            }
            self.commit(group);
        }
        // Nothing is lost without it, but a damaged last record could then not be told from a torn one.
        drop(self.journal.finish(self.last_tick.ticks()));
    }

    /// Makes a group durable, shows it to readers and answers everyone in it.
    fn commit(&mut self, group: Group) {
        if !group.is_empty() {
            let written = self.write(&group);
            self.batch.clear();
            if let Err(error) = written {
                self.poison(group, error);
                return;
            }
        }
        let has_dropped = group.spaces.iter().any(|change| matches!(change, SpaceChange::Dropped(_)));
        for write in group.writes {
            let keys = write.changes.iter().map(|change| &change.key);
            self.shared.overlay.forget(write.stripe, write.tick, keys);
            drop(write.answer.send(Ok(())));
        }
        for answer in group.answers {
            drop(answer.send(Ok(())));
        }
        if has_dropped {
            self.shared.reclaims.wake();
        }
    }

    fn write(&mut self, group: &Group) -> Result<(), CommitError> {
        self.shared.disk.note_written(group.writes.iter().map(|write| write.bytes() as u64).sum());
        // Ticks are given before writes are queued, so a later commit may hold a lower one.
        let highest_tick = group.writes.iter().map(|write| write.tick).max();
        self.last_tick = self.last_tick.max(highest_tick.unwrap_or(DateTime::MIN));
        group.fill(&mut self.batch);
        self.wait_out_stall()?;
        let started = Instant::now();
        self.append().map_err(CommitError::Unknown)?;
        let store = &self.shared.store;
        store.counters.note_commit(group.writes.len(), started.elapsed());
        store.apply(&mut self.batch, self.journal.id());
        for change in &group.spaces {
            match change {
                SpaceChange::Made(space) => store.catalog.insert(space.clone()),
                SpaceChange::Dropped(space) => store.catalog.remove(space),
            }
        }
        for slot in &group.forgotten {
            store.catalog.forget_dropped(*slot);
        }
        for change in &group.extents {
            store.catalog.apply_extent(*change);
        }
        Ok(())
    }

    /// Writes the batch to the journal and syncs it.
    fn append(&mut self) -> io::Result<()> {
        let tick = self.last_tick.ticks();
        let store = &self.shared.store;
        let record_len = self.batch.payload.record_len();
        if !self.journal.fits(record_len) {
            self.journal.finish(tick)?;
            let sequence = self.journal.next_sequence();
            let next = store.journals.begin_next(sequence, record_len, tick)?;
            self.journal = JournalWriter::start(next, sequence);
            self.shared.flushes.wake();
        }
        self.journal.append(&mut self.batch.payload, tick)?;
        store.last_tick.store(tick, Ordering::Release);
        // Before anybody is told: what was acknowledged and cannot be read later is damage, never a torn write.
        self.journal.mark(tick)
    }

    /// Waits while too much is unflushed or uncompacted. Fails if the store has failed, because then nobody flushes or
    /// compacts any more.
    fn wait_out_stall(&self) -> Result<(), CommitError> {
        let store = &self.shared.store;
        let started = Instant::now();
        let (mut has_waited, mut has_told) = (false, false);
        loop {
            if store.has_failed() {
                return Err(CommitError::NothingWritten);
            }
            if store.seal_full() {
                self.shared.flushes.wake();
            }
            let Some(stall) = store.stall() else {
                if has_waited {
                    store.counters.note_stall(started.elapsed());
                }
                return Ok(());
            };
            has_waited = true;
            if !has_told && started.elapsed() >= STALL_TOLD {
                has_told = true;
                tracing::warn!(reason = ?stall, "commits wait for flushes or compaction");
            }
            // At each look: whoever compacted last may have found nothing to do, and it is waited for now.
            self.shared.flushes.wake();
            (0..store.trees.len()).for_each(|tree| self.shared.compactions.add(tree));
            std::thread::sleep(Duration::from_micros(STALL_CHECK_US));
        }
    }

    fn poison(&self, group: Group, error: CommitError) {
        tracing::error!(%error, "commit failed; no more writes are taken");
        let error = Arc::new(error);
        let refusal = || match *error {
            CommitError::NothingWritten => EngineError::Unavailable { reason: POISONED },
            CommitError::Unknown(_) => {
                EngineError::OutcomeUnknown { cause: Box::new(CommitFailed(error.clone())) }
            }
        };
        for write in group.writes {
            drop(write.answer.send(Err(refusal())));
        }
        for answer in group.answers {
            drop(answer.send(Err(refusal())));
        }
        self.shared.queue.abandon(POISONED).into_iter().for_each(|task| task.refuse(POISONED));
    }

    fn snapshot(&self) -> SpacesSnapshot {
        let store = &self.shared.store;
        let snapshot = store.snapshot();
        let rows = store
            .trees
            .iter()
            .map(|tree| -> TreeRows { tree.tree.range::<&[u8], RangeFull>(.., snapshot.sequence(), None) });
        SpacesSnapshot {
            spaces: store.catalog.spaces(),
            rows: rows.collect(),
            last_tick: self.last_tick,
            extents: store.catalog.extents(),
            _snapshot: snapshot,
        }
    }
}

/// Also when the thread panics, nobody is left waiting for it: the answers that were not given are dropped. The other
/// threads go on until here, because a last commit may wait for them.
impl Drop for Committer {
    fn drop(&mut self) {
        drop(self.shared.queue.abandon("the committer has stopped"));
        self.shared.reclaims.close();
        self.shared.compactions.close();
        self.shared.flushes.close();
    }
}

/// What one sync makes durable.
#[derive(Default)]
struct Group {
    writes: Vec<Write>,
    /// Spaces that are made and dropped, in this order.
    spaces: Vec<SpaceChange>,
    /// Dropped spaces of which no row is left.
    forgotten: Vec<u64>,
    /// Extents that are made and removed, in this order.
    extents: Vec<ExtentChange>,
    /// Who else waits for this group.
    answers: Vec<TaskReply<()>>,
}

enum SpaceChange {
    Made(Arc<Space>),
    Dropped(Arc<Space>),
}

impl SpaceChange {
    fn space(&self) -> &Arc<Space> {
        match self {
            Self::Made(space) | Self::Dropped(space) => space,
        }
    }
}

impl Group {
    fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.spaces.is_empty()
            && self.forgotten.is_empty()
            && self.extents.is_empty()
    }

    /// A write that was decided before its space was dropped, but came after the drop, is not kept.
    fn add_write(&mut self, write: Write, overlay: &Overlay) {
        if write.space.refuses_writes() {
            let keys = write.changes.iter().map(|change| &change.key);
            overlay.forget(write.stripe, write.tick, keys);
            drop(write.answer.send(Err(EngineError::SpaceMissing { space: write.space.id })));
        } else {
            self.writes.push(write);
        }
    }

    fn create_space(&mut self, id: SpaceId, answer: TaskReply<()>, store: &LocalStore) {
        self.answers.push(answer);
        if self.current_space(id, store).is_none() {
            let made = self.spaces.iter().filter(|change| matches!(change, SpaceChange::Made(_))).count();
            let (space, _) = catalog::make_space(id, store.catalog.next_slot() + made as u64);
            self.spaces.push(SpaceChange::Made(space));
        }
    }

    fn drop_space(&mut self, id: SpaceId, answer: TaskReply<()>, store: &LocalStore) {
        self.answers.push(answer);
        if let Some(space) = self.current_space(id, store) {
            space.refuse_writes();
            self.spaces.push(SpaceChange::Dropped(space));
        }
    }

    /// The space of this id as it is after this group so far.
    fn current_space(&self, id: SpaceId, store: &LocalStore) -> Option<Arc<Space>> {
        match self.spaces.iter().rev().find(|change| change.space().id == id) {
            Some(SpaceChange::Made(space)) => Some(space.clone()),
            Some(SpaceChange::Dropped(_)) => None,
            None => store.catalog.space(id).ok(),
        }
    }

    /// Turns the group into changes of rows.
    fn fill(&self, batch: &mut CommitBatch) {
        for write in &self.writes {
            for change in &write.changes {
                let value = change.value.clone().map(Into::into);
                batch.push(write.space.tree, change.key.clone().into(), value);
            }
        }
        for change in &self.spaces {
            let rows = match change {
                SpaceChange::Made(space) => catalog::make_space(space.id, space.slot).1,
                SpaceChange::Dropped(space) => catalog::drop_space(space),
            };
            rows.into_iter().for_each(|row| batch.push_meta(row));
        }
        for slot in &self.forgotten {
            batch.push_meta(catalog::forget_dropped(*slot));
        }
        for change in &self.extents {
            batch.push_meta(catalog::change_extent(*change));
        }
    }
}

/// Why a group is not durable.
#[derive(Debug, thiserror::Error)]
enum CommitError {
    /// The store had failed before, and the journal was not touched.
    #[error("the store has failed before")]
    NothingWritten,
    /// The journal could not be written or synced.
    #[error("the journal cannot be written: {0}")]
    Unknown(io::Error),
}

/// One failure, told to many.
#[derive(Clone, Debug)]
struct CommitFailed(Arc<CommitError>);

impl fmt::Display for CommitFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("commit failed")
    }
}

impl std::error::Error for CommitFailed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::LocalSettings;
    use crate::folder::DataFolder;

    /// A committer whose thread does not run.
    fn idle_committer(folder: &std::path::Path) -> Committer {
        let (store, journal) =
            LocalStore::open(DataFolder::open(folder).unwrap(), &LocalSettings::new(folder)).unwrap();
        let shared = Shared {
            store: Arc::new(store),
            queue: Arc::default(),
            overlay: Arc::new(Overlay::new()),
            disk: Arc::new(DiskGuard::new(folder.to_owned(), 0)),
            flushes: Arc::default(),
            compactions: Arc::default(),
            reclaims: Arc::default(),
        };
        Committer::new(shared, journal)
    }

    fn write(committer: &Committer) -> (Write, oneshot::Receiver<Result<(), EngineError>>) {
        let (answer, answered) = oneshot::channel();
        let space = committer.shared.store.catalog.space(SpaceId::CATALOG).unwrap();
        let stripe = committer.shared.overlay.stripe_of(&space, b"p");
        (Write { space, stripe, tick: DateTime::MIN, changes: vec![], answer }, answered)
    }

    fn check(error: CommitError, in_batch: fn(&EngineError) -> bool) {
        let folder = tempfile::tempdir().unwrap();
        let committer = idle_committer(folder.path());
        let (in_group, mut group_answer) = write(&committer);
        let (barrier, mut barrier_answer) = oneshot::channel();
        let (waiting, mut waiting_answer) = write(&committer);
        committer.shared.queue.push(Task::Write(waiting)).unwrap();
        let group = Group { writes: vec![in_group], answers: vec![barrier], ..Group::default() };
        committer.poison(group, error);

        let is_unavailable = |error: &EngineError| matches!(error, EngineError::Unavailable { .. });
        assert!(in_batch(&group_answer.try_recv().unwrap().unwrap_err()));
        assert!(in_batch(&barrier_answer.try_recv().unwrap().unwrap_err()));
        assert!(is_unavailable(&waiting_answer.try_recv().unwrap().unwrap_err()));
        assert!(is_unavailable(&committer.shared.queue.admit().unwrap_err()));
        assert!(is_unavailable(&committer.shared.queue.push(Task::Write(write(&committer).0)).unwrap_err()));
    }

    #[test]
    fn after_a_failed_sync_the_batch_is_unknown_and_no_write_is_taken() {
        let failed_sync = CommitError::Unknown(io::Error::other("sync failed"));
        check(failed_sync, |error| matches!(error, EngineError::OutcomeUnknown { .. }));
    }

    #[test]
    fn a_store_that_had_failed_before_keeps_nothing_of_the_batch() {
        check(CommitError::NothingWritten, |error| matches!(error, EngineError::Unavailable { .. }));
    }

    #[test]
    fn once_flushing_or_compaction_has_failed_no_write_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let mut committer = idle_committer(folder.path());
        committer.shared.store.set_failed();
        let (refused, mut answer) = write(&committer);
        committer.commit(Group { writes: vec![refused], ..Group::default() });
        let error = answer.try_recv().unwrap().unwrap_err();
        assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
    }

    #[test]
    fn spaces_made_and_dropped_in_one_group_end_as_the_last_change_leaves_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut committer = idle_committer(folder.path());
        let store = committer.shared.store.clone();
        let [kept, gone, again] = [1, 2, 3].map(|number| SpaceId([number; 16]));
        let mut group = Group::default();
        let answer = || oneshot::channel().0;
        group.create_space(kept, answer(), &store);
        group.create_space(gone, answer(), &store);
        group.drop_space(gone, answer(), &store);
        group.create_space(again, answer(), &store);
        group.drop_space(again, answer(), &store);
        group.create_space(again, answer(), &store);
        group.create_space(again, answer(), &store);
        committer.commit(group);
        let slot = |space| store.catalog.space(space).map(|space| space.slot).ok();
        assert_eq!((slot(kept), slot(gone), slot(again)), (Some(2), None, Some(5)));
        drop((committer, store));
        let store =
            LocalStore::open(DataFolder::open(folder.path()).unwrap(), &LocalSettings::new(folder.path()));
        let catalog = store.unwrap().0.catalog;
        let slot = |space| catalog.space(space).map(|space| space.slot).ok();
        assert_eq!((slot(kept), slot(gone), slot(again)), (Some(2), None, Some(5)));
        assert_eq!(catalog.next_slot(), 6);
    }
}
