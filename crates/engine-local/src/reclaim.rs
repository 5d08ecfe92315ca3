//! Giving back the disk of dropped spaces.
//!
//! A drop is over when its commit is durable; nobody sees the rows from then on. They go in three ways. Files that have
//! only such rows are removed at once. Rows in files with others go when those files are compacted for another reason;
//! and if they are a large part of a tree, its files are rewritten. Rows in memory are left out when they are flushed.
//!
//! The thread works also while nobody writes: an idle server would else keep the disk of a dropped table.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::commit_queue::{CommitQueue, Task};
use crate::compaction::give_way;
use crate::disk::DiskGuard;
use crate::settings::{
    FLUSH_CHECK_MS, GARBAGE_ONE_IN, RECLAIM_CHECK_MS, RECLAIM_GATHER_MS, REWRITE_BYTES_MAX,
};
use crate::store::LocalStore;

/// Wakes the reclaim thread.
#[derive(Default)]
pub(crate) struct ReclaimSignal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_wanted: bool,
    is_closed: bool,
}

impl ReclaimSignal {
    /// Notes that a space was dropped.
    pub(crate) fn wake(&self) {
        self.lock().is_wanted = true;
        self.changed.notify_one();
    }

    /// Lets the thread end when it has done what it is at.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for a drop, or for the time to look at leftovers again; `None` when it is closed.
    fn wait(&self, has_leftovers: bool) -> Option<Pass> {
        let is_idle = |state: &mut State| !state.is_wanted && !state.is_closed;
        let state = self.lock();
        let mut state = if has_leftovers {
            let period = Duration::from_millis(RECLAIM_CHECK_MS);
            self.changed.wait_timeout_while(state, period, is_idle).unwrap_or_else(PoisonError::into_inner).0
        } else {
            self.changed.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner)
        };
        let was_wanted = std::mem::take(&mut state.is_wanted);
        let pass = if was_wanted { Pass::Reclaim } else { Pass::Recheck };
        (!state.is_closed).then_some(pass)
    }

    fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Lets more drops come; `false` when it is closed.
    fn gather(&self) -> bool {
        let period = Duration::from_millis(RECLAIM_GATHER_MS);
        let waited = self.changed.wait_timeout_while(self.lock(), period, |state| !state.is_closed);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Something was dropped.
    Reclaim,
    /// Compaction may have removed the last rows of something that was dropped before.
    Recheck,
}

/// Reclaims until the signal is closed.
pub(crate) fn run(store: &LocalStore, queue: &CommitQueue, disk: &DiskGuard, signal: &ReclaimSignal) {
    give_way();
    let reclaim = Reclaim { store, queue, disk, signal };
    let mut has_leftovers = !store.catalog.dropped().is_empty();
    if has_leftovers {
        signal.wake();
    }
    while let Some(pass) = signal.wait(has_leftovers)
        && signal.gather()
    {
        match reclaim.run(pass) {
            Ok(more) => has_leftovers = more,
            Err(error) => {
                // Dead rows stay where they are, which is no harm but to the disk. The next drop tries again.
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot reclaim the disk space of dropped tables, will retry at the next drop"
                );
                has_leftovers = false;
            }
        }
    }
}

struct Reclaim<'a> {
    store: &'a LocalStore,
    queue: &'a CommitQueue,
    disk: &'a DiskGuard,
    signal: &'a ReclaimSignal,
}

impl Reclaim<'_> {
    /// Does what can be done for all dropped spaces. Says whether something is left.
    fn run(&self, pass: Pass) -> lsm_tree::Result<bool> {
        let mut by_tree: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (slot, tree) in self.store.catalog.dropped() {
            by_tree.entry(tree).or_default().push(slot);
        }
        let mut has_leftovers = false;
        for (tree, slots) in by_tree {
            if pass == Pass::Reclaim {
                self.remove_rows(tree, &slots)?;
            }
            let tree = &self.store.trees[tree];
            let mut finished = Vec::new();
            for slot in slots {
                if tree.slot_bytes(slot, 1)? == 0 {
                    finished.push(slot);
                } else {
                    has_leftovers = true;
                }
            }
            if !finished.is_empty() {
                self.ask(|answer| Task::ForgetDropped(finished, answer));
            }
            tree.remove_old_versions(&self.store.snapshots)?;
        }
        Ok(has_leftovers)
    }

    fn remove_rows(&self, tree_index: usize, slots: &[u64]) -> lsm_tree::Result<()> {
        let tree = &self.store.trees[tree_index];
        tree.remove_dead_files(&self.store.catalog.live_slots(), &self.store.snapshots)?;
        if slots.iter().any(|slot| tree.has_unflushed(*slot)) {
            self.flush_memtable(tree_index);
        }
        let tree_bytes = tree.disk_bytes();
        if tree_bytes > REWRITE_BYTES_MAX {
            return Ok(());
        }
        let bytes_worth_it = tree_bytes / GARBAGE_ONE_IN + 1;
        let mut dead_bytes = 0;
        for slot in slots {
            dead_bytes += tree.slot_bytes(*slot, bytes_worth_it)?;
        }
        if dead_bytes >= bytes_worth_it && self.disk.has_space_for(tree_bytes) {
            tree.rewrite(&self.store.snapshots)?;
        }
        Ok(())
    }

    /// Flushes what is in memory of a tree, without the dead rows.
    fn flush_memtable(&self, tree: usize) {
        if self.ask(|answer| Task::Seal(tree, answer)) {
            while self.store.trees[tree].has_sealed() && !self.store.has_failed() && !self.signal.is_closed()
            {
                std::thread::sleep(Duration::from_millis(FLUSH_CHECK_MS));
            }
        }
    }

    /// Has the committer do something, and waits for it; `false` if it takes no more work.
    fn ask(
        &self,
        task: impl FnOnce(oneshot::Sender<Result<(), tavola_engine::EngineError>>) -> Task,
    ) -> bool {
        let (answer, answered) = oneshot::channel();
        self.queue.push(task(answer)).is_ok() && answered.blocking_recv().is_ok_and(|answer| answer.is_ok())
    }
}
