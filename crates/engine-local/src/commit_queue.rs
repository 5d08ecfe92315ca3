//! What waits for the committer: first come, first served, and bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tavola_engine::{EngineError, SpaceId};
use tavola_model::DateTime;
use tokio::sync::oneshot;

use crate::catalog::{ExtentChange, Space};
use crate::overlay::StripeIndex;
use crate::settings::{COMMIT_BYTES_MAX, COMMIT_WRITES_MAX, WAITING_BYTES_MAX, WAITING_WRITES_MAX};
use crate::snapshot::Snapshot;

/// Where the outcome of a task goes. Nobody may be listening any more.
pub(crate) type TaskReply<T> = oneshot::Sender<Result<T, EngineError>>;

/// Something for the committer to do.
pub(crate) enum Task {
    /// Make these changes durable.
    Write(Write),
    /// Answer when everything queued before is durable.
    Barrier(TaskReply<()>),
    /// Make a space.
    CreateSpace(SpaceId, TaskReply<()>),
    /// Drop a space.
    DropSpace(SpaceId, TaskReply<()>),
    /// Take a snapshot of all spaces.
    Snapshot(TaskReply<SpacesSnapshot>),
    /// Seal the active memtable of a tree.
    Seal(usize, TaskReply<()>),
    /// Forget dropped spaces of which no row is left.
    ForgetDropped(Vec<u64>, TaskReply<()>),
    /// Note that an extent was made, or is about to be removed.
    ChangeExtent(ExtentChange, TaskReply<()>),
}

/// The changes of one `transact`.
pub(crate) struct Write {
    pub(crate) space: Arc<Space>,
    pub(crate) stripe: StripeIndex,
    pub(crate) tick: DateTime,
    pub(crate) changes: Vec<RowChange>,
    pub(crate) answer: TaskReply<()>,
}

/// A row and its new stored value; no value deletes it.
pub(crate) struct RowChange {
    /// The slot of its space, then its stored key.
    pub(crate) key: Bytes,
    pub(crate) value: Option<Bytes>,
}

/// All spaces as of one moment.
pub(crate) struct SpacesSnapshot {
    pub(crate) spaces: Vec<Arc<Space>>,
    /// The rows of each tree. They hold on to their files, so a space that is dropped meanwhile is still whole.
    pub(crate) rows: Vec<TreeRows>,
    pub(crate) last_tick: DateTime,
    /// The extents that there are, and their sizes.
    pub(crate) extents: BTreeMap<u64, u64>,
    /// Keeps versions of rows that have been replaced since.
    pub(crate) _snapshot: Snapshot,
}

/// The rows of a tree, in order.
pub(crate) type TreeRows = Box<dyn DoubleEndedIterator<Item = lsm_tree::IterGuardImpl> + Send>;

/// The queue.
#[derive(Default)]
pub(crate) struct CommitQueue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    bytes: usize,
    /// Why no more tasks are taken.
    closed: Option<&'static str>,
}

impl CommitQueue {
    /// `Ok` if the disk has space for a write. Asked before a write is decided; what is decided is always taken.
    pub(crate) fn admit(&self) -> Result<(), EngineError> {
        let state = self.lock();
        if let Some(reason) = state.closed {
            return Err(EngineError::Unavailable { reason });
        }
        if state.tasks.len() >= WAITING_WRITES_MAX || state.bytes >= WAITING_BYTES_MAX {
            return Err(EngineError::Unavailable { reason: "too many writes are waiting" });
        }
        Ok(())
    }

    /// Adds a task.
    pub(crate) fn push(&self, task: Task) -> Result<(), EngineError> {
        let mut state = self.lock();
        if let Some(reason) = state.closed {
            return Err(EngineError::Unavailable { reason });
        }
        state.bytes += task.bytes();
        state.tasks.push_back(task);
        let was_empty = state.tasks.len() == 1;
        drop(state);
        if was_empty {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Waits for tasks and takes as many as fit one commit; `None` when the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Vec<Task>> {
        let mut state = self.lock();
        while state.tasks.is_empty() {
            if state.closed.is_some() {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut taken_bytes = 0;
        let mut count = 0;
        for task in state.tasks.iter().take(COMMIT_WRITES_MAX) {
            taken_bytes += task.bytes();
            if count > 0 && taken_bytes > COMMIT_BYTES_MAX {
                taken_bytes -= task.bytes();
                break;
            }
            count += 1;
        }
        state.bytes -= taken_bytes;
        Some(state.tasks.drain(..count).collect())
    }

    /// Takes no more tasks. Those that wait are still done, then `last` if the queue was open.
    pub(crate) fn close(&self, reason: &'static str, last: Option<Task>) {
        let mut state = self.lock();
        if state.closed.is_none() {
            state.closed = Some(reason);
            state.tasks.extend(last);
        }
        self.arrived.notify_one();
    }

    /// Takes no more tasks and gives back those that wait. The first reason stands.
    pub(crate) fn abandon(&self, reason: &'static str) -> Vec<Task> {
        let mut state = self.lock();
        state.closed.get_or_insert(reason);
        state.bytes = 0;
        self.arrived.notify_one();
        state.tasks.drain(..).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// Answers that nothing was done.
    pub(crate) fn refuse(self, reason: &'static str) {
        let error = EngineError::Unavailable { reason };
        // Whoever asked may have gone; then nobody needs the answer.
        match self {
            Task::Write(write) => drop(write.answer.send(Err(error))),
            Task::Barrier(answer)
            | Task::CreateSpace(_, answer)
            | Task::DropSpace(_, answer)
            | Task::Seal(_, answer)
            | Task::ForgetDropped(_, answer)
            | Task::ChangeExtent(_, answer) => drop(answer.send(Err(error))),
            Task::Snapshot(answer) => drop(answer.send(Err(error))),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Task::Write(write) => write.bytes(),
            Task::Barrier(_)
            | Task::CreateSpace(..)
            | Task::DropSpace(..)
            | Task::Snapshot(_)
            | Task::Seal(..)
            | Task::ForgetDropped(..)
            | Task::ChangeExtent(..) => 0,
        }
    }
}

impl Write {
    pub(crate) fn bytes(&self) -> usize {
        let bytes_of = |change: &RowChange| change.key.len() + change.value.as_ref().map_or(0, Bytes::len);
        self.changes.iter().map(bytes_of).sum()
    }
}
