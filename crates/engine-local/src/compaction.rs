//! Compaction of table files, on threads that give way to those that answer requests.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::settings::COMPACTION_NICENESS;
use crate::store::{PanicWatch, Store};

/// The trees that may have files to compact.
#[derive(Default)]
pub(crate) struct CompactionList {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    trees: BTreeSet<usize>,
    is_closed: bool,
}

impl CompactionList {
    /// Notes that a tree has new files.
    pub(crate) fn add(&self, tree: usize) {
        let mut state = self.lock();
        if !state.is_closed && state.trees.insert(tree) {
            self.changed.notify_one();
        }
    }

    /// Lets the threads end when they have done what they are at.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.trees.clear();
        self.changed.notify_all();
    }

    /// Takes a tree off the list, as soon as there is one; `None` when it is closed.
    fn take(&self) -> Option<usize> {
        let is_idle = |state: &mut State| state.trees.is_empty() && !state.is_closed;
        let waited = self.changed.wait_while(self.lock(), is_idle);
        waited.unwrap_or_else(PoisonError::into_inner).trees.pop_first()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compacts what is on the list until it is closed. Several threads may do so: a file is in one compaction at a time.
pub(crate) fn run(store: &Store, list: &CompactionList) {
    give_way();
    let _watch = PanicWatch(store);
    while let Some(tree) = list.take() {
        match store.trees[tree].compact(&store.snapshots) {
            // There may be more to do, at the next level.
            Ok(true) => list.add(tree),
            Ok(false) => {}
            Err(error) => {
                // The files stay as they were. Writes are refused from now on: they would only add to the files.
                tracing::error!(error = &error as &dyn std::error::Error, "compaction of table files failed");
                store.set_failed();
                return;
            }
        }
    }
}

/// Lowers the priority of this thread, where a thread can have its own.
pub(crate) fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, COMPACTION_NICENESS) {
        tracing::warn!(%error, "compaction keeps the priority of requests");
    }
}
