//! Compaction of table files, on threads that give way to those that answer requests.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::settings::{COMPACTION_NICENESS, OLD_FILES_CHECK_MS};
use crate::store::{LocalStore, PanicWatch};
use crate::tree::StoreTree;

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

    /// Takes a tree off the list, as soon as there is one, or until some time has passed.
    fn take(&self, patience: Option<Duration>) -> Taken {
        let is_idle = |state: &mut State| state.trees.is_empty() && !state.is_closed;
        let mut state = match patience {
            Some(patience) => {
                let waited = self.changed.wait_timeout_while(self.lock(), patience, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait_while(self.lock(), is_idle).unwrap_or_else(PoisonError::into_inner),
        };
        match state.trees.pop_first() {
            Some(tree) => Taken::Tree(tree),
            None if state.is_closed => Taken::Closed,
            None => Taken::Nothing,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was on the list.
enum Taken {
    Tree(usize),
    Nothing,
    Closed,
}

/// Compacts what is on the list until it is closed. Several threads may do so: a file is in one compaction at a time.
pub(crate) fn run(store: &LocalStore, list: &CompactionList) {
    give_way();
    let _watch = PanicWatch(store);
    loop {
        // Files that a reader needed when they were replaced are removed later, also while nobody writes.
        let has_old_files = store.trees.iter().any(StoreTree::has_old_versions);
        let patience = has_old_files.then_some(Duration::from_millis(OLD_FILES_CHECK_MS));
        let done = match list.take(patience) {
            Taken::Closed => return,
            Taken::Nothing => {
                store.trees.iter().try_for_each(|tree| tree.remove_old_versions(&store.snapshots))
            }
            // There may be more to do, at the next level.
            Taken::Tree(tree) => {
                let started = Instant::now();
                store.trees[tree].compact(&store.snapshots).map(|has_changed| {
                    if has_changed {
                        store.counters.note_compaction(started.elapsed());
                        list.add(tree);
                    }
                })
            }
        };
        if let Err(error) = done {
            // The files stay as they were. Writes are refused from now on: they would only add to the files.
            tracing::error!(error = &error as &dyn std::error::Error, "compaction of table files failed");
            store.set_failed();
            return;
        }
    }
}

/// Lowers the priority of this thread, where a thread can have its own.
pub(crate) fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, COMPACTION_NICENESS) {
        tracing::warn!(%error, threads = "compaction", "cannot lower the priority of background threads");
    }
}
