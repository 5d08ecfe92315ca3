//! A partition as one round of its writers sees it: what was read, and what those before have changed.

use std::collections::BTreeMap;

use bytes::Bytes;
use tavola_engine::{Change, Decide, Decision, LoadedRow, StoredRow, Transacted};
use tavola_model::DateTime;

use crate::head::PartitionHead;
use crate::store::RowWrite;

/// Rows of a partition while a round decides.
#[derive(Default)]
pub(crate) struct View {
    /// The head as it was read.
    pub head: PartitionHead,
    rows: BTreeMap<Bytes, Slot>,
    /// The highest version given in this round or before it.
    last_tick: u64,
    /// Bytes that the round writes so far.
    pub bytes: usize,
    /// Bytes that one transaction may write.
    transaction_bytes_max: usize,
}

struct Slot {
    row: Option<StoredRow>,
    is_changed: bool,
}

/// What one transaction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneDecision {
    /// It has changed rows.
    Wrote(DateTime),
    /// It changes nothing, and its answer rests on changes that are not kept yet.
    ReadPending(Transacted),
    /// It changes nothing, and its answer rests on what was read.
    Read(Transacted),
    /// It would write more than the cluster takes.
    TooLarge(usize),
    /// It would replace a row that was written after what it brings.
    Outdated,
}

impl View {
    pub fn new(head: PartitionHead, found: Vec<(Bytes, StoredRow)>, transaction_bytes_max: usize) -> Self {
        let last_tick = head.tick.unwrap_or(0);
        let slot = |(key, row)| (key, Slot { row: Some(row), is_changed: false });
        Self { head, rows: found.into_iter().map(slot).collect(), last_tick, bytes: 0, transaction_bytes_max }
    }

    /// Lets one transaction choose and keeps its changes here. All in one go, so that a caller that goes away has
    /// either chosen or not.
    pub fn decide(&mut self, now: DateTime, keys: &[Bytes], decide: &mut Decide<'_>) -> LaneDecision {
        let tick = now.ticks().max(self.last_tick + 1);
        let version = DateTime::from_ticks(tick).expect("the clock is not at the end of year 9999");
        let slots = keys.iter().map(|key| self.rows.get(key));
        let found: Vec<Option<StoredRow>> = slots.clone().map(|slot| slot?.row.clone()).collect();
        let saw_changes = slots.flatten().any(|slot| slot.is_changed);
        let (transacted, changes) = match decide(version, &found) {
            Decision::Apply(changes) => (Transacted::Applied(version), changes),
            Decision::Refuse => (Transacted::Refused, Vec::new()),
        };
        if changes.is_empty() {
            let looked = if saw_changes { LaneDecision::ReadPending } else { LaneDecision::Read };
            return looked(transacted);
        }
        let bytes = changes.iter().map(|change| bytes_of(change, keys)).sum();
        if bytes > self.transaction_bytes_max {
            return LaneDecision::TooLarge(bytes);
        }
        for change in changes {
            let (index, row) = match change {
                Change::Put { index, body } => (index, Some(StoredRow { version, body })),
                Change::Delete { index } => (index, None),
            };
            self.rows.insert(keys[index].clone(), Slot { row, is_changed: true });
        }
        self.last_tick = tick;
        self.bytes += bytes;
        LaneDecision::Wrote(version)
    }

    /// Keeps rows with the versions they have, as far as they are not there as they are; all of them or none.
    pub fn load(&mut self, tick: DateTime, keys: &[Bytes], rows: &[LoadedRow]) -> LaneDecision {
        let bytes = keys.iter().zip(rows).map(|(key, row)| key.len() + row.stored.body.len()).sum();
        if bytes > self.transaction_bytes_max {
            return LaneDecision::TooLarge(bytes);
        }
        assert!(
            rows.iter().all(|LoadedRow { stored, .. }| stored.version <= tick),
            "no row is newer than the store it comes from"
        );
        // Once a load has raised the tick, only a write that came after it gives a version above. An import that was
        // left and goes on much later must not undo that write.
        let mut found = keys.iter().filter_map(|key| self.rows.get(key)?.row.as_ref());
        if found.any(|row| row.version > tick) {
            return LaneDecision::Outdated;
        }
        // A head below the tick would give versions that the other store has given, so it is raised in any case.
        let is_raised = self.last_tick < tick.ticks();
        let (mut saw_changes, mut has_changed) = (false, false);
        for (key, LoadedRow { stored, .. }) in keys.iter().zip(rows) {
            match self.rows.get(key) {
                Some(slot) if slot.row.as_ref() == Some(stored) && !is_raised => {
                    saw_changes |= slot.is_changed;
                }
                _ => {
                    self.rows.insert(key.clone(), Slot { row: Some(stored.clone()), is_changed: true });
                    has_changed = true;
                }
            }
        }
        if !has_changed {
            let looked = if saw_changes { LaneDecision::ReadPending } else { LaneDecision::Read };
            return looked(Transacted::Applied(tick));
        }
        self.last_tick = tick.ticks().max(self.last_tick + 1);
        self.bytes += bytes;
        LaneDecision::Wrote(tick)
    }

    /// Bytes of the largest row, as it was read or as it becomes.
    pub fn largest_row(&self) -> usize {
        let rows = self.rows.values().filter_map(|slot| slot.row.as_ref());
        rows.map(|row| row.body.len()).max().unwrap_or(0)
    }

    /// What the round changes, each row once, and the tick of its last transaction; `None` for nothing.
    pub fn changes(&self) -> Option<(u64, Vec<RowWrite<'_>>)> {
        let changed = self.rows.iter().filter(|(_, slot)| slot.is_changed);
        let changes: Vec<_> = changed.map(|(key, slot)| (key, slot.row.as_ref())).collect();
        (!changes.is_empty()).then_some((self.last_tick, changes))
    }
}

fn bytes_of(change: &Change, keys: &[Bytes]) -> usize {
    match change {
        Change::Put { index, body } => keys[*index].len() + body.len(),
        Change::Delete { index } => keys[*index].len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{Attempt, Listing};

    const TRANSACTION_BYTES_MAX: usize = 1000;

    fn at(ticks: u64) -> DateTime {
        DateTime::from_ticks(ticks).unwrap()
    }

    fn put(body: &'static str) -> impl FnMut(DateTime, &[Option<StoredRow>]) -> Decision + Send {
        move |_, _| Decision::Apply(vec![Change::Put { index: 0, body: Bytes::from(body) }])
    }

    fn view() -> View {
        let head = PartitionHead::default().after(Attempt { tick: 100, id: 1 }, Listing::Listed(100));
        let row = StoredRow { version: at(100), body: Bytes::from("old") };
        View::new(head, vec![(Bytes::from("a"), row)], TRANSACTION_BYTES_MAX)
    }

    #[test]
    fn each_transaction_sees_what_those_before_it_did_and_gets_a_later_version() {
        let (mut view, keys) = (view(), [Bytes::from("a")]);
        assert_eq!(view.decide(at(50), &keys, &mut put("one")), LaneDecision::Wrote(at(101)));
        let mut seen = None;
        let mut look = |_, found: &[Option<StoredRow>]| {
            seen = found[0].clone();
            Decision::Refuse
        };
        assert_eq!(view.decide(at(50), &keys, &mut look), LaneDecision::ReadPending(Transacted::Refused));
        assert_eq!(seen, Some(StoredRow { version: at(101), body: Bytes::from("one") }));
        assert_eq!(view.decide(at(200), &keys, &mut put("two")), LaneDecision::Wrote(at(200)));
        let (tick, changes) = view.changes().unwrap();
        assert_eq!((tick, changes.len()), (200, 1));
        assert_eq!(changes[0].1.unwrap().body, "two");
    }

    #[test]
    fn loaded_rows_keep_their_versions_and_raise_the_tick_once() {
        let (mut view, keys) = (view(), [Bytes::from("a"), Bytes::from("b")]);
        let loaded = |version| LoadedRow {
            row: Bytes::new(),
            stored: StoredRow { version: at(version), body: Bytes::from("loaded") },
        };
        let rows = [loaded(30), loaded(500)];
        assert_eq!(view.load(at(600), &keys, &rows), LaneDecision::Wrote(at(600)));
        let (tick, changes) = view.changes().unwrap();
        let versions: Vec<_> = changes.iter().map(|(_, row)| row.unwrap().version).collect();
        assert_eq!((tick, versions), (600, vec![at(30), at(500)]));
        let again = LaneDecision::ReadPending(Transacted::Applied(at(600)));
        assert_eq!(view.load(at(600), &keys, &rows), again);
        assert_eq!(view.decide(at(50), &keys, &mut put("later")), LaneDecision::Wrote(at(601)));
    }

    #[test]
    fn a_load_over_a_row_that_was_written_since_changes_nothing() {
        let (mut view, keys) = (view(), [Bytes::from("b"), Bytes::from("a")]);
        let stored = StoredRow { version: at(99), body: Bytes::from("loaded") };
        let rows = [(); 2].map(|()| LoadedRow { row: Bytes::new(), stored: stored.clone() });
        assert_eq!(view.load(at(99), &keys, &rows), LaneDecision::Outdated);
        assert!(view.changes().is_none());
        assert_eq!(view.load(at(100), &keys, &rows), LaneDecision::Wrote(at(100)));
    }

    #[test]
    fn a_load_that_cannot_be_changes_nothing() {
        let (mut view, keys) = (view(), [Bytes::from("b"), Bytes::from("c")]);
        let rows = [200, 700].map(|version| LoadedRow {
            row: Bytes::new(),
            stored: StoredRow { version: at(version), body: Bytes::from("loaded") },
        });
        let load = std::panic::AssertUnwindSafe(|| view.load(at(600), &keys, &rows));
        assert!(std::panic::catch_unwind(load).is_err());
        assert!(view.changes().is_none());
    }

    #[test]
    fn what_changes_nothing_leaves_nothing_to_commit() {
        let (mut view, keys) = (view(), [Bytes::from("a")]);
        let decided = view.decide(at(500), &keys, &mut |_, _| Decision::Apply(vec![]));
        assert_eq!(decided, LaneDecision::Read(Transacted::Applied(at(500))));
        assert!(view.changes().is_none());
    }

    #[test]
    fn a_transaction_that_is_too_large_changes_nothing() {
        let (mut view, keys) = (view(), [Bytes::from("a")]);
        let body = Bytes::from(vec![0; TRANSACTION_BYTES_MAX]);
        let mut large = |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
        assert_eq!(
            view.decide(at(500), &keys, &mut large),
            LaneDecision::TooLarge(TRANSACTION_BYTES_MAX + 1)
        );
        assert!(view.changes().is_none());
    }
}
