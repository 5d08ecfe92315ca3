//! Snapshots: which rows a reader sees, and which old ones compaction may remove.
//!
//! Every commit has a number, its sequence number, given while its rows are put into memtables; a reader sees the commits
//! below the number it begins with. That number only moves on when all rows of a commit are in place, so no reader sees
//! half of one. The trees take numbers from the same counter for every change of their files.
//!
//! Invariant: what a reader that has begun may need is not removed before its snapshot is dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_tree::{SeqNo, SequenceNumberCounter};

/// Knows the numbers that are visible and those that are looked at.
pub(crate) struct Snapshots {
    counter: SequenceNumberCounter,
    /// Held while the rows of a commit are put in place.
    applying: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    visible: SeqNo,
    /// How many look at which number, the oldest first.
    open: VecDeque<(SeqNo, usize)>,
}

/// A moment that a reader looks at.
pub(crate) struct Snapshot {
    sequence: SeqNo,
    snapshots: Arc<Snapshots>,
}

impl Snapshots {
    /// Gives numbers from `counter` on, which the trees share.
    pub(crate) fn new(counter: SequenceNumberCounter) -> Arc<Self> {
        let state = State { visible: counter.get(), open: VecDeque::new() };
        Arc::new(Self { counter, applying: Mutex::default(), state: Mutex::new(state) })
    }

    /// What is visible now.
    pub(crate) fn take(self: &Arc<Self>) -> Snapshot {
        let mut state = self.lock();
        let sequence = state.visible;
        match state.open.back_mut() {
            Some((newest, count)) if *newest == sequence => *count += 1,
            _ => state.open.push_back((sequence, 1)),
        }
        Snapshot { sequence, snapshots: self.clone() }
    }

    /// Puts the rows of a commit in place under one number, and then makes them visible.
    pub(crate) fn apply<T>(&self, put: impl FnOnce(SeqNo) -> T) -> T {
        let _applying = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = self.counter.next();
        let done = put(sequence);
        self.lock().visible = sequence + 1;
        done
    }

    /// Lets new readers see changes of files. They hold the same rows, so this is needed only to let go of the old files,
    /// and on a server that nobody writes to.
    pub(crate) fn advance(&self) {
        let _applying = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        state.visible = state.visible.max(self.counter.get());
    }

    /// Every reader, now and later, begins at this number or above.
    pub(crate) fn watermark(&self) -> SeqNo {
        let state = self.lock();
        state.open.front().map_or(state.visible, |(oldest, _)| *oldest)
    }

    fn release(&self, sequence: SeqNo) {
        let mut state = self.lock();
        if let Ok(index) = state.open.binary_search_by_key(&sequence, |(open, _)| *open) {
            state.open[index].1 -= 1;
        }
        while state.open.front().is_some_and(|(_, count)| *count == 0) {
            state.open.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot {
    /// The number below which commits are seen.
    pub(crate) fn sequence(&self) -> SeqNo {
        self.sequence
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.snapshots.release(self.sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_stays_at_the_oldest_open_snapshot() {
        let snapshots = Snapshots::new(SequenceNumberCounter::new(5));
        let (first, again) = (snapshots.take(), snapshots.take());
        assert_eq!((first.sequence(), snapshots.watermark()), (5, 5));
        assert_eq!(snapshots.apply(|sequence| sequence), 5);
        let second = snapshots.take();
        assert_eq!((second.sequence(), snapshots.watermark()), (6, 5));
        drop(first);
        assert_eq!(snapshots.watermark(), 5);
        drop(second);
        drop(again);
        assert_eq!(snapshots.watermark(), 6);
        assert!(snapshots.lock().open.is_empty());
    }

    #[test]
    fn a_change_of_files_is_visible_only_once_no_commit_is_half_in_place() {
        let counter = SequenceNumberCounter::new(1);
        let snapshots = Snapshots::new(counter.clone());
        snapshots.apply(|sequence| {
            // A flush takes a number and is visible to the tree, but not to readers.
            assert_eq!((sequence, counter.next()), (1, 2));
            assert_eq!(snapshots.take().sequence(), 1);
        });
        assert_eq!(snapshots.take().sequence(), 2);
        snapshots.advance();
        assert_eq!(snapshots.take().sequence(), 3);
    }
}
