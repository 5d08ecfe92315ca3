//! The flush thread: writes sealed memtables to table files, keeps the next journal ready and removes old ones.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::compaction::CompactionList;
use crate::store::{LocalStore, PanicWatch};

/// Wakes the flush thread.
#[derive(Default)]
pub(crate) struct FlushSignal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_wanted: bool,
    is_closed: bool,
}

impl FlushSignal {
    /// Notes that something was sealed or a journal was begun.
    pub(crate) fn wake(&self) {
        self.lock().is_wanted = true;
        self.changed.notify_one();
    }

    /// Lets the thread end when it has done what it is at.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits until there is work; `false` when it is closed.
    fn wait(&self) -> bool {
        let is_idle = |state: &mut State| !state.is_wanted && !state.is_closed;
        let mut state = self.changed.wait_while(self.lock(), is_idle).unwrap_or_else(PoisonError::into_inner);
        state.is_wanted = false;
        !state.is_closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Flushes until the signal is closed. What is not flushed then is in journals.
pub(crate) fn run(store: &LocalStore, signal: &FlushSignal, compactions: &CompactionList) {
    let _watch = PanicWatch(store);
    while signal.wait() {
        if let Err(error) = flush_all(store, compactions) {
            // The rows stay in memory and in journals. Writes are refused from now on: they would only add to them.
            tracing::error!(error = &error as &dyn std::error::Error, "flushing rows to table files failed");
            store.set_failed();
            return;
        }
    }
}

fn flush_all(store: &LocalStore, compactions: &CompactionList) -> lsm_tree::Result<()> {
    store.journals.make_spare(store.last_tick().ticks())?;
    for tree in store.flush()? {
        compactions.add(tree);
    }
    Ok(())
}
