//! The committer: one thread that makes everything that waits durable with one sync, and then answers.
//!
//! There is no timer: while one sync runs, the writes for the next gather. A commit that fails poisons the engine
//! until it is opened again, because after a failed sync nobody can know what the disk holds.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fjall::PersistMode;
use lsm_tree::AbstractTree;
use tavola_engine::EngineError;
use tavola_model::DateTime;

use crate::disk::DiskGuard;
use crate::merge::MergeList;
use crate::overlay::Overlay;
use crate::queue::{Answer, Queue, SpacesSnapshot, Task, Write};
use crate::settings::{ROOM_CHECK_US, SEALED_MEMTABLES_MAX, UNMERGED_RUNS_MAX};
use crate::store::{Space, Store};

const POISONED: &str = "an earlier write to the disk failed";

/// The state of the committer's thread.
pub(crate) struct Committer {
    store: Arc<Store>,
    queue: Arc<Queue>,
    overlay: Arc<Overlay>,
    disk: Arc<DiskGuard>,
    last_tick: DateTime,
    merges: Arc<MergeList>,
    reclaim: mpsc::Sender<Arc<Space>>,
}

impl Committer {
    pub(crate) fn new(
        store: Arc<Store>,
        queue: Arc<Queue>,
        overlay: Arc<Overlay>,
        disk: Arc<DiskGuard>,
        last_tick: DateTime,
        merges: Arc<MergeList>,
        reclaim: mpsc::Sender<Arc<Space>>,
    ) -> Self {
        Self { store, queue, overlay, disk, last_tick, merges, reclaim }
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        while let Some(tasks) = self.queue.take() {
            let mut group = Group::default();
            for task in tasks {
                match task {
                    Task::Write(write) => group.writes.push(write),
                    Task::Barrier(answer) => group.barriers.push(answer),
                    Task::CreateSpace(space, answer) => {
                        self.commit(std::mem::take(&mut group));
                        drop(answer.send(self.store.create_space(space)));
                    }
                    Task::DropSpace(space, answer) => {
                        self.commit(std::mem::take(&mut group));
                        let dropped = self.store.drop_space(space).map(|remains| self.give_back(remains));
                        drop(answer.send(dropped));
                    }
                    Task::Snapshot(answer) => {
                        self.commit(std::mem::take(&mut group));
                        drop(answer.send(Ok(self.snapshot())));
                    }
                }
            }
            self.commit(group);
        }
    }

    /// Makes a group durable and answers everyone in it.
    fn commit(&mut self, mut group: Group) {
        group.refuse_dropped_spaces(&self.overlay);
        if let Err(error) = self.write(&group.writes) {
            self.poison(group, error);
            return;
        }
        for write in group.writes {
            let keys = write.changes.iter().map(|change| &change.pending_key);
            self.overlay.forget(write.stripe, write.tick, keys);
            drop(write.answer.send(Ok(())));
        }
        for answer in group.barriers {
            drop(answer.send(Ok(())));
        }
    }

    fn write(&mut self, writes: &[Write]) -> Result<(), fjall::Error> {
        let Some(highest_tick) = writes.iter().map(|write| write.tick).max() else { return Ok(()) };
        self.disk.note_written(writes.iter().map(|write| write.bytes() as u64).sum());
        // Ticks are given before writes are queued, so a later commit may hold a lower one.
        self.last_tick = self.last_tick.max(highest_tick);
        let items = writes.iter().map(|write| write.changes.len()).sum::<usize>() + 1;
        let mut batch = fjall::OwnedWriteBatch::with_capacity(self.store.database.clone(), items)
            .durability(Some(PersistMode::SyncData));
        for write in writes {
            for change in &write.changes {
                match &change.value {
                    Some(value) => {
                        batch.insert(&write.space.keyspace, change.stored_key(), value.clone());
                    }
                    None => batch.remove(&write.space.keyspace, change.stored_key()),
                }
            }
        }
        self.store.put_last_tick(&mut batch, self.last_tick);
        for (place, write) in writes.iter().enumerate() {
            let is_seen = place > 0 && Arc::ptr_eq(&write.space, &writes[place - 1].space);
            if !is_seen {
                self.wait_for_room(&write.space)?;
            }
        }
        batch.commit()
    }

    /// Waits while a space has as many full memtables or unmerged files as it may. Fails if the store has failed,
    /// because then nobody writes them out or merges them any more.
    fn wait_for_room(&self, space: &Arc<Space>) -> Result<(), fjall::Error> {
        loop {
            // At each look: whoever merged it last may have found nothing to do, and it is waited for now.
            self.merges.add(space);
            if self.store.merge_failed.load(Ordering::Acquire) {
                return Err(fjall::Error::Poisoned);
            }
            let has_room = space.keyspace.sealed_memtable_count() < SEALED_MEMTABLES_MAX
                && space.keyspace.tree.l0_run_count() < UNMERGED_RUNS_MAX;
            if has_room {
                return Ok(());
            }
            self.store.database.persist(PersistMode::Buffer)?;
            std::thread::sleep(Duration::from_micros(ROOM_CHECK_US));
        }
    }

    fn poison(&self, group: Group, error: fjall::Error) {
        tracing::error!(error = &error as &dyn std::error::Error, "commit failed; no more writes are taken");
        // fjall refuses a commit before it writes anything if it has failed before.
        let nothing_was_written = matches!(error, fjall::Error::Poisoned);
        let cause = CommitFailed(Arc::new(error));
        for write in group.writes {
            let error = if nothing_was_written {
                EngineError::Unavailable { reason: POISONED }
            } else {
                EngineError::OutcomeUnknown { cause: Box::new(cause.clone()) }
            };
            drop(write.answer.send(Err(error)));
        }
        group.barriers.into_iter().map(Task::Barrier).for_each(|task| task.refuse(POISONED));
        self.queue.abandon(POISONED).into_iter().for_each(|task| task.refuse(POISONED));
    }

    fn snapshot(&self) -> SpacesSnapshot {
        SpacesSnapshot {
            snapshot: self.store.snapshot(),
            spaces: self.store.spaces(),
            last_tick: self.last_tick,
        }
    }

    /// Has the files of a dropped space removed by another thread.
    fn give_back(&self, remains: Option<Arc<Space>>) {
        if let Some(space) = remains {
            // If that thread is gone, the files are removed right here.
            drop(self.reclaim.send(space));
        }
    }
}

/// Also when the thread panics, nobody is left waiting for it: the answers that were not given are dropped. Merging
/// goes on until here, because a last commit may wait for it.
impl Drop for Committer {
    fn drop(&mut self) {
        drop(self.queue.abandon("the committer has stopped"));
        self.merges.close();
    }
}

/// What one sync makes durable.
#[derive(Default)]
struct Group {
    writes: Vec<Write>,
    barriers: Vec<Answer<()>>,
}

impl Group {
    /// A write that was decided before its space was dropped, but came after the drop, is not kept.
    fn refuse_dropped_spaces(&mut self, overlay: &Overlay) {
        let is_dropped = |write: &mut Write| write.space.is_dropped.load(Ordering::Acquire);
        for write in self.writes.extract_if(.., is_dropped) {
            let keys = write.changes.iter().map(|change| &change.pending_key);
            overlay.forget(write.stripe, write.tick, keys);
            drop(write.answer.send(Err(EngineError::SpaceMissing { space: write.space.id })));
        }
    }
}

/// One failure, told to many.
#[derive(Clone, Debug)]
struct CommitFailed(Arc<fjall::Error>);

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
    use tavola_engine::SpaceId;
    use tokio::sync::oneshot;

    use super::*;
    use crate::LocalSettings;
    use crate::folder::DataFolder;

    /// A committer whose thread does not run.
    fn idle_committer(folder: &std::path::Path) -> Committer {
        let store = Store::open(DataFolder::open(folder).unwrap(), &LocalSettings::new(folder)).unwrap();
        let disk = Arc::new(DiskGuard::new(folder.to_owned(), 0));
        let (queue, overlay) = (Arc::default(), Arc::new(Overlay::new()));
        let merges = Arc::default();
        Committer::new(Arc::new(store), queue, overlay, disk, DateTime::MIN, merges, mpsc::channel().0)
    }

    fn write(committer: &Committer) -> (Write, oneshot::Receiver<Result<(), EngineError>>) {
        let (answer, answered) = oneshot::channel();
        let space = committer.store.space(SpaceId::CATALOG).unwrap();
        let stripe = committer.overlay.stripe_of(&space, b"p");
        (Write { space, stripe, tick: DateTime::MIN, changes: vec![], answer }, answered)
    }

    fn check(error: fjall::Error, in_batch: fn(&EngineError) -> bool) {
        let folder = tempfile::tempdir().unwrap();
        let committer = idle_committer(folder.path());
        let (in_group, mut group_answer) = write(&committer);
        let (barrier, mut barrier_answer) = oneshot::channel();
        let (waiting, mut waiting_answer) = write(&committer);
        committer.queue.push(Task::Write(waiting)).unwrap();
        committer.poison(Group { writes: vec![in_group], barriers: vec![barrier] }, error);

        let is_unavailable = |error: &EngineError| matches!(error, EngineError::Unavailable { .. });
        assert!(in_batch(&group_answer.try_recv().unwrap().unwrap_err()));
        assert!(is_unavailable(&barrier_answer.try_recv().unwrap().unwrap_err()));
        assert!(is_unavailable(&waiting_answer.try_recv().unwrap().unwrap_err()));
        assert!(is_unavailable(&committer.queue.admit().unwrap_err()));
        assert!(is_unavailable(&committer.queue.push(Task::Write(write(&committer).0)).unwrap_err()));
    }

    #[test]
    fn after_a_failed_sync_the_batch_is_unknown_and_no_write_is_taken() {
        let failed_sync = fjall::Error::Io(std::io::Error::other("sync failed"));
        check(failed_sync, |error| matches!(error, EngineError::OutcomeUnknown { .. }));
    }

    #[test]
    fn a_store_that_had_failed_before_keeps_nothing_of_the_batch() {
        check(fjall::Error::Poisoned, |error| matches!(error, EngineError::Unavailable { .. }));
    }

    #[test]
    fn a_space_that_is_waited_for_is_to_be_merged() {
        let folder = tempfile::tempdir().unwrap();
        let committer = idle_committer(folder.path());
        let space = committer.store.space(SpaceId::CATALOG).unwrap();
        committer.wait_for_room(&space).unwrap();
        assert!(space.is_to_merge.load(Ordering::Acquire));
    }

    #[test]
    fn once_merging_has_failed_no_write_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let mut committer = idle_committer(folder.path());
        committer.store.merge_failed.store(true, Ordering::Release);
        let (refused, mut answer) = write(&committer);
        committer.commit(Group { writes: vec![refused], barriers: vec![] });
        let error = answer.try_recv().unwrap().unwrap_err();
        assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
        assert!(committer.queue.admit().is_err());
    }
}
