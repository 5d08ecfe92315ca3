//! Merging table files, on threads of our own that give way to those that answer requests.
//!
//! fjall would merge on its own threads. But as long as the others merge, its first one takes the next merge from
//! the queue and puts it back, without end: a core spent on nothing. So fjall is told to leave merging alone
//! (`store.rs`) and has one thread, which only writes memtables out.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fjall::compaction::Leveled;
use lsm_tree::AbstractTree;

use crate::settings::{MERGE_CHECK_MS, MERGE_NICENESS, MERGED_RUNS, TABLE_BYTES};
use crate::store::{Space, Store};

/// The spaces that may have files to merge.
#[derive(Default)]
pub(crate) struct MergeList {
    state: Mutex<ListState>,
    changed: Condvar,
}

#[derive(Default)]
struct ListState {
    spaces: Vec<Arc<Space>>,
    is_closed: bool,
}

impl MergeList {
    /// Notes that a space was written to.
    pub(crate) fn add(&self, space: &Arc<Space>) {
        if space.is_to_merge.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.state();
        if !state.is_closed {
            state.spaces.push(space.clone());
            self.changed.notify_one();
        }
    }

    /// Lets the threads end when they have done what they are at.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.spaces.clear();
        self.changed.notify_all();
    }

    /// Takes all spaces off the list, as soon as there is one; `None` when it is closed.
    fn take(&self) -> Option<Vec<Arc<Space>>> {
        let is_idle = |state: &mut ListState| state.spaces.is_empty() && !state.is_closed;
        let waited = self.changed.wait_while(self.state(), is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return None;
        }
        let spaces = std::mem::take(&mut state.spaces);
        for space in &spaces {
            space.is_to_merge.store(false, Ordering::Release);
        }
        Some(spaces)
    }

    /// Waits a little, or until the list is closed.
    fn pause(&self) {
        let period = Duration::from_millis(MERGE_CHECK_MS);
        let paused = self.changed.wait_timeout_while(self.state(), period, |state| !state.is_closed);
        drop(paused);
    }

    fn state(&self) -> MutexGuard<'_, ListState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Merges what is on the list until it is closed. Several threads may do so: a file is in one merge at a time.
pub(crate) fn run(store: &Store, list: &MergeList) {
    give_way();
    let _watch = PanicWatch(store);
    while let Some(spaces) = list.take() {
        for space in spaces {
            if let Err(error) = merge(store, list, &space) {
                // The files stay as they were. Writes are refused from now on: they would only add to the files.
                tracing::error!(error = &error as &dyn std::error::Error, "merging table files failed");
                store.merge_failed.store(true, Ordering::Release);
                return;
            }
            let is_dropped = space.is_dropped.load(Ordering::Acquire);
            if !is_dropped && space.keyspace.sealed_memtable_count() > 0 {
                list.add(&space);
            }
        }
        list.pause();
    }
}

/// Notes a panic as a failure: commits would else wait for merges that nobody does.
struct PanicWatch<'a>(&'a Store);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.merge_failed.store(true, Ordering::Release);
        }
    }
}

/// Merges files of a space until its levels have the sizes they should have.
fn merge(store: &Store, list: &MergeList, space: &Space) -> Result<(), lsm_tree::Error> {
    let tree = &space.keyspace.tree;
    while !space.is_dropped.load(Ordering::Acquire) && !list.state().is_closed {
        let before = tree.current_version().id();
        let oldest_read = store.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
        tree.compact(Arc::new(strategy()), oldest_read)?;
        if tree.current_version().id() == before {
            break;
        }
    }
    Ok(())
}

/// How files are merged.
fn strategy() -> Leveled {
    Leveled::default().with_table_target_size(TABLE_BYTES).with_l0_threshold(MERGED_RUNS)
}

/// How fjall is told to merge: not before there are more files than the committer lets there be.
pub(crate) fn strategy_of_the_store() -> Leveled {
    strategy().with_l0_threshold(u8::MAX)
}

/// Lowers the priority of this thread, where a thread can have its own.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, MERGE_NICENESS) {
        tracing::warn!(%error, "merging keeps the priority of requests");
    }
}

#[cfg(test)]
mod tests {
    use tavola_engine::SpaceId;

    use super::*;
    use crate::folder::DataFolder;
    use crate::settings::{LocalSettings, MERGED_RUNS};

    /// fjall moves the first file to the last level, where nothing is in its way.
    const FILES: u8 = MERGED_RUNS + 1;

    /// A store with files of the same rows in one space, and nobody who merges them.
    fn store_with_files(folder: &std::path::Path) -> (Store, Arc<Space>) {
        let store = Store::open(DataFolder::open(folder).unwrap(), &LocalSettings::new(folder)).unwrap();
        let space = store.space(SpaceId::CATALOG).unwrap();
        for file in 0..FILES {
            for row in 0..10u8 {
                space.keyspace.insert([row], [file]).unwrap();
            }
            space.keyspace.rotate_memtable_and_wait().unwrap();
        }
        (store, space)
    }

    #[test]
    fn fjall_merges_nothing_by_itself_and_we_merge_all_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (store, space) = store_with_files(folder.path());
        assert!(space.keyspace.tree.l0_run_count() >= usize::from(MERGED_RUNS));
        merge(&store, &MergeList::default(), &space).unwrap();
        assert_eq!(space.keyspace.tree.l0_run_count(), 0);
        assert_eq!(space.keyspace.get([3]).unwrap().as_deref(), Some(&[FILES - 1][..]));
    }

    #[test]
    fn a_listed_space_is_merged_by_a_thread_that_ends_with_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let (store, space) = store_with_files(folder.path());
        let list = MergeList::default();
        list.add(&space);
        list.add(&space);
        assert_eq!(list.state().spaces.len(), 1);
        std::thread::scope(|scope| {
            scope.spawn(|| run(&store, &list));
            for _ in 0..10_000 {
                if space.keyspace.tree.l0_run_count() == 0 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            list.close();
        });
        assert_eq!(space.keyspace.tree.l0_run_count(), 0);
        list.add(&space);
        assert!(list.state().spaces.is_empty(), "a closed list keeps no space alive");
    }
}
