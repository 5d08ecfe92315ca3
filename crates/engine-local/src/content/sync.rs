//! Syncing extents: one sync for all who wait on an extent.
//!
//! There is a thread for each kind, so small puts do not wait for the syncs of large ones. A large put asks for a sync
//! behind every write and does not wait for it, so that its last one is short. It waits where too many bytes of large puts
//! are not synced yet: a commit of rows waits for whatever the disk was given before it. A sync that fails stops all
//! writes, of contents and of rows, until restart: after it nobody can know what the disk holds, and a later sync that
//! succeeds proves nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::extent::Extent;
use super::store::SyncExtent;
use crate::commit::{POISONED, Shared};
use crate::settings::UNSYNCED_BYTES_MAX;

/// What waits for one of the two threads.
pub(crate) struct SyncQueue {
    state: Mutex<State>,
    arrived: Condvar,
    has_failed: AtomicBool,
    /// Bytes that may be written without being synced.
    unsynced: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    wanted: BTreeMap<u64, Wanted>,
    is_closed: bool,
}

struct Wanted {
    extent: Arc<Extent>,
    waiting: Vec<oneshot::Sender<()>>,
    /// Come back when the bytes are synced.
    permits: Vec<UnsyncedPermit>,
}

/// A permit for bytes that are written and not synced yet.
pub(crate) struct UnsyncedPermit(
    #[expect(dead_code, reason = "it is there to be dropped")] OwnedSemaphorePermit,
);

/// No sync, and none will follow: writes are stopped.
#[derive(Debug)]
pub(crate) struct NotSynced;

impl Default for SyncQueue {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            arrived: Condvar::new(),
            has_failed: AtomicBool::new(false),
            unsynced: Arc::new(Semaphore::new(UNSYNCED_BYTES_MAX as usize)),
        }
    }
}

impl SyncQueue {
    /// Waits until so many bytes more may be written without being synced. The caller gives the permit to
    /// [`ask`](Self::ask) or drops it.
    pub(crate) async fn permit(&self, bytes: usize) -> UnsyncedPermit {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(UNSYNCED_BYTES_MAX);
        let permit = self.unsynced.clone().acquire_many_owned(bytes).await;
        UnsyncedPermit(permit.expect("it is never closed"))
    }

    /// Whether something may be written without waiting.
    #[cfg(test)]
    pub(crate) fn has_permits(&self) -> bool {
        self.unsynced.available_permits() > 0
    }

    /// Asks for a sync and does not wait.
    pub(crate) fn ask(&self, extent: &Arc<Extent>, permit: UnsyncedPermit) {
        self.want(extent, |wanted| wanted.permits.push(permit));
    }

    /// Waits for a sync that begins after this call. It is never begun once one has failed.
    pub(crate) async fn sync(&self, extent: &Arc<Extent>) -> Result<(), NotSynced> {
        let (answer, answered) = oneshot::channel();
        self.want(extent, |wanted| wanted.waiting.push(answer));
        answered.await.map_err(|_| NotSynced)
    }

    /// Waits for a sync, on a thread of its own.
    pub(crate) fn sync_blocking(&self, extent: &Arc<Extent>) -> Result<(), NotSynced> {
        let (answer, answered) = oneshot::channel();
        self.want(extent, |wanted| wanted.waiting.push(answer));
        answered.blocking_recv().map_err(|_| NotSynced)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Lets the thread end. Those who wait are told that there was no sync.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.wanted.clear();
        self.arrived.notify_one();
    }

    fn want(&self, extent: &Arc<Extent>, add: impl FnOnce(&mut Wanted)) {
        let mut state = self.lock();
        if state.is_closed || self.has_failed() {
            return;
        }
        let new = || Wanted { extent: extent.clone(), waiting: Vec::new(), permits: Vec::new() };
        add(state.wanted.entry(extent.number).or_insert_with(new));
        self.arrived.notify_one();
    }

    fn take(&self) -> Option<BTreeMap<u64, Wanted>> {
        let state = self.lock();
        let is_idle = |state: &mut State| state.wanted.is_empty() && !state.is_closed;
        let mut state = self.arrived.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner);
        (!state.is_closed).then(|| std::mem::take(&mut state.wanted))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The work of a thread, until its queue is closed.
pub(crate) fn run(queue: &SyncQueue, shared: &Shared, sync: &SyncExtent) {
    while let Some(wanted) = queue.take() {
        for (number, wanted) in wanted {
            match sync(&wanted.extent) {
                // Whoever asked may have gone.
                Ok(()) => wanted.waiting.into_iter().for_each(|answer| answer.send(()).unwrap_or(())),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(
                        extent = number,
                        error,
                        "sync of contents failed; no more writes are taken"
                    );
                    poison(queue, shared);
                    return;
                }
            }
        }
    }
}

fn poison(queue: &SyncQueue, shared: &Shared) {
    queue.has_failed.store(true, Ordering::Release);
    queue.close();
    shared.store.set_failed();
    shared.queue.abandon(POISONED).into_iter().for_each(|task| task.refuse(POISONED));
}
