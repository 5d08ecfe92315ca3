//! Scans: partitions in the order of the directory, rows in the order of the cluster.
//!
//! What a scan gives of one partition is one snapshot: a page is read as of one moment and tells the tick of the
//! partition, and pages with the same tick are of the same moment. If a partition changes between two pages it is read
//! again, with a first page that holds more than was read before, so that it is all in one page in the end. That holds
//! for the first [`SNAPSHOT_ROWS_MAX`] rows or [`SNAPSHOT_BYTES_MAX`] bytes that are asked for; of a longer range, each
//! further stretch is a snapshot of its own.
//!
//! The cluster cuts pages by rows only. How many make up a page is judged by the rows before; where that was wrong and
//! the cluster cannot bear the page, a smaller one is asked for.

use std::ops::ControlFlow;

use bytes::Bytes;
use futures_util::future::try_join_all;
use tavola_engine::{EngineError, ScanRange, ScannedRow, StoredRow, Visit};

use crate::commit::Patience;
use crate::directory::{Walk, right_after};
use crate::engine::{Core, read_failed};
use crate::settings::{
    AHEAD_BYTES_MAX, AHEAD_ROWS_MAX, PAGE_BYTES_AIM, PAGE_BYTES_MAX, PAGE_ROWS_FIRST, PAGE_ROWS_MAX,
    PAGE_STEP, SNAPSHOT_BYTES_MAX, SNAPSHOT_ROWS_MAX,
};
use crate::spaces::SpaceLease;
use crate::store::{Page, Partition, ROW_PREFIX, StatementError, stored_key};

/// Rows of one partition between two stored keys.
struct Stretch {
    partition: Partition,
    from: Bytes,
    before: Bytes,
}

/// The rows of a stretch as of one moment, and where to go on.
struct Snapshot {
    rows: Vec<(Bytes, StoredRow)>,
    bytes: usize,
    rest: Option<Bytes>,
}

impl Core {
    /// Visits the rows of a range in order.
    pub async fn scan(
        &self,
        lease: &mut SpaceLease,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        if let Some(stretch) = only_stretch(lease, range) {
            return self.visit_stretch(lease, stretch, visit).await.map(|_| ());
        }
        let mut walk = Walk::new(self, lease.stored, &range.from.partition);
        let mut ahead = Ahead { partitions: 1, rows_first: PAGE_ROWS_FIRST };
        let mut largest = Largest::default();
        loop {
            let mut stretches = Vec::with_capacity(ahead.partitions);
            while stretches.len() < ahead.partitions {
                let next = walk.next(&mut Patience::new()).await.map_err(read_failed)?;
                let Some(stretch) = next.and_then(|partition| stretch_of(lease, range, partition)) else {
                    break;
                };
                stretches.push(stretch);
            }
            let is_last = stretches.len() < ahead.partitions;
            let visited = self.visit_stretches(lease, stretches, ahead, &mut largest, visit).await?;
            if visited.is_break() || is_last {
                return Ok(());
            }
            ahead = ahead.next(largest);
        }
    }

    /// Reads some stretches at once, visits them in order, and notes how large they are.
    async fn visit_stretches(
        &self,
        lease: &mut SpaceLease,
        stretches: Vec<Stretch>,
        ahead: Ahead,
        largest: &mut Largest,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, EngineError> {
        largest.rows = 0;
        let snapshots = try_join_all(stretches.iter().map(|stretch| self.snapshot_ahead(stretch, ahead)));
        let snapshots = snapshots.await.map_err(read_failed)?;
        for (mut stretch, snapshot) in stretches.into_iter().zip(snapshots) {
            self.spaces.confirm(self, lease).await?;
            largest.add(snapshot.as_ref());
            let rest = match snapshot {
                Some(Snapshot { rows, rest, .. }) => {
                    if visit_rows(&stretch.partition, &rows, visit).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    rest
                }
                None => Some(stretch.from.clone()),
            };
            if let Some(from) = rest {
                stretch.from = from;
                if self.visit_stretch(lease, stretch, visit).await?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads a stretch before its turn. Where many are read at once only one that is as small as those before is:
    /// `None` if it is not, and it is read when its turn comes.
    async fn snapshot_ahead(
        &self,
        stretch: &Stretch,
        ahead: Ahead,
    ) -> Result<Option<Snapshot>, StatementError> {
        if ahead.rows_first >= PAGE_ROWS_FIRST {
            return self.snapshot(stretch).await.map(Some);
        }
        let mut page_max = ahead.rows_first;
        let Page { rows, .. } =
            self.read_page(stretch, &stretch.from, &mut page_max, &mut Patience::new()).await?;
        let is_last = i32::try_from(rows.len()).is_ok_and(|len| len < page_max);
        let bytes = rows.iter().map(|(key, row)| key.len() + row.body.len()).sum();
        Ok(is_last.then_some(Snapshot { rows, bytes, rest: None }))
    }

    /// Visits one stretch to its end.
    async fn visit_stretch(
        &self,
        lease: &mut SpaceLease,
        mut stretch: Stretch,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, EngineError> {
        loop {
            let snapshot = self.snapshot(&stretch).await.map_err(read_failed)?;
            self.spaces.confirm(self, lease).await?;
            if visit_rows(&stretch.partition, &snapshot.rows, visit).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            match snapshot.rest {
                Some(from) => stretch.from = from,
                None => return Ok(ControlFlow::Continue(())),
            }
        }
    }

    /// Reads a stretch, or as much of it as is held back at once.
    async fn snapshot(&self, stretch: &Stretch) -> Result<Snapshot, StatementError> {
        let mut page_max = PAGE_ROWS_FIRST;
        let mut patience = Patience::new();
        loop {
            match self.try_snapshot(stretch, page_max, &mut patience).await? {
                Tried::Done(snapshot) => return Ok(snapshot),
                Tried::Changed(seen) => page_max = seen.first_page_again(),
            }
        }
    }

    async fn try_snapshot(
        &self,
        stretch: &Stretch,
        mut page_max: i32,
        patience: &mut Patience,
    ) -> Result<Tried, StatementError> {
        let (mut rows, mut seen, mut from) = (Vec::new(), Seen::default(), stretch.from.clone());
        let mut tick = None;
        loop {
            let page = self.read_page(stretch, &from, &mut page_max, patience).await?;
            let is_last = i32::try_from(page.rows.len()).is_ok_and(|len| len < page_max);
            // An empty page does not tell the tick.
            let page_tick = match page.tick {
                None if !rows.is_empty() => self.read_rows(&stretch.partition, &[], patience).await?.0.tick,
                tick => tick,
            };
            if !rows.is_empty() && page_tick != tick {
                return Ok(Tried::Changed(seen));
            }
            tick = page_tick;
            page.rows.iter().for_each(|(key, row)| seen.add(key.len() + row.body.len()));
            rows.extend(page.rows);
            let rest = rows.last().filter(|_| !is_last).map(|(key, _)| right_after(key));
            match rest {
                Some(next) if !seen.is_full() => from = next,
                rest => return Ok(Tried::Done(Snapshot { rows, bytes: seen.bytes, rest })),
            }
            page_max = seen.next_page(page_max);
        }
    }

    /// A page, tried until patience ends. After a failure fewer rows are asked for: they may be what was too much.
    async fn read_page(
        &self,
        stretch: &Stretch,
        from: &[u8],
        page_max: &mut i32,
        patience: &mut Patience,
    ) -> Result<Page, StatementError> {
        loop {
            match self.store.read_page(&stretch.partition, from, &stretch.before, *page_max).await {
                Err(trouble @ (StatementError::NotDone(_) | StatementError::Unclear(_))) => {
                    self.counters.retries.add(1);
                    if !patience.wait().await {
                        return Err(trouble);
                    }
                    *page_max = page_after_failure(*page_max);
                }
                done => return done,
            }
        }
    }
}

enum Tried {
    Done(Snapshot),
    /// The partition has changed after these rows.
    Changed(Seen),
}

/// How many rows of a partition were read, and how large they are.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    rows: i32,
    bytes: usize,
    largest: usize,
}

impl Seen {
    fn add(&mut self, row_bytes: usize) {
        self.rows = self.rows.saturating_add(1);
        self.bytes += row_bytes;
        self.largest = row_bytes.max(self.largest);
    }

    /// Whether no more is held back at once.
    fn is_full(&self) -> bool {
        self.rows >= SNAPSHOT_ROWS_MAX || self.bytes >= SNAPSHOT_BYTES_MAX
    }

    /// Rows of the page after one of `page_max`.
    fn next_page(&self, page_max: i32) -> i32 {
        self.rows_for(PAGE_BYTES_AIM, PAGE_ROWS_MAX).min(page_max.saturating_mul(PAGE_STEP))
    }

    /// Rows of the first page when the same rows are read again because they have changed. More than were seen, so
    /// that it ends however often the partition is written to. What was seen is not too much, and as much again hardly.
    fn first_page_again(&self) -> i32 {
        let doubled = self.rows.saturating_mul(2).clamp(1, SNAPSHOT_ROWS_MAX);
        self.rows_for(SNAPSHOT_BYTES_MAX, SNAPSHOT_ROWS_MAX).max(doubled)
    }

    /// Rows that make up about `bytes_aim`, judged by those that were read, and that are not too much for a page even
    /// if all of them are as large as the largest.
    fn rows_for(&self, bytes_aim: usize, max: i32) -> i32 {
        let average = self.bytes.checked_div(usize::try_from(self.rows).unwrap_or(0)).unwrap_or(0).max(1);
        let wanted = i32::try_from(bytes_aim / average).unwrap_or(max).clamp(8, max);
        let bearable = i32::try_from(PAGE_BYTES_MAX / self.largest.max(1)).unwrap_or(max);
        wanted.min(bearable.max(1))
    }
}

/// Rows of the page that is asked for after one of `page_max` has failed. As few as if nothing was known at once, because
/// there is time for three tries only if each ends by its time-out.
fn page_after_failure(page_max: i32) -> i32 {
    (page_max / PAGE_STEP).clamp(1, PAGE_ROWS_FIRST)
}

/// How many partitions are read at once, and how many rows of each are asked for first.
///
/// Nothing is known of a row before it is read but that it has up to a mebibyte, so it is the rows asked for at once that
/// are bounded: many partitions where they turn out to have a row or two, few where they have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ahead {
    partitions: usize,
    rows_first: i32,
}

impl Ahead {
    /// What to read after these.
    fn next(self, largest: Largest) -> Self {
        let rows_first = (largest.rows + 1).clamp(2, PAGE_ROWS_FIRST);
        let by_rows = usize::try_from(AHEAD_ROWS_MAX / rows_first).unwrap_or(1);
        let by_bytes = AHEAD_BYTES_MAX / largest.bytes.max(1);
        Self { partitions: (self.partitions * 2).min(by_rows).min(by_bytes).max(1), rows_first }
    }
}

/// The largest of the partitions that were read.
#[derive(Clone, Copy, Debug, Default)]
struct Largest {
    /// Rows of those that were read together last.
    rows: i32,
    /// Bytes of all.
    bytes: usize,
}

impl Largest {
    fn add(&mut self, snapshot: Option<&Snapshot>) {
        let rows = snapshot.and_then(|snapshot| i32::try_from(snapshot.rows.len()).ok());
        self.rows = rows.unwrap_or(PAGE_ROWS_FIRST).max(self.rows);
        self.bytes = snapshot.map_or(0, |snapshot| snapshot.bytes).max(self.bytes);
    }
}

fn visit_rows(partition: &Partition, rows: &[(Bytes, StoredRow)], visit: &mut Visit<'_>) -> ControlFlow<()> {
    for (key, StoredRow { version, body }) in rows {
        let row = key.strip_prefix(&[ROW_PREFIX]).unwrap_or_default();
        let scanned = ScannedRow { partition: &partition.bytes, row, version: *version, body: body.clone() };
        visit(scanned)?;
    }
    ControlFlow::Continue(())
}

/// The stretch of a range that lies in one partition.
fn only_stretch(lease: &SpaceLease, range: &ScanRange) -> Option<Stretch> {
    let before = range.before.as_ref()?;
    let from = &range.from.partition;
    // The partition right behind one is the one with a zero byte more.
    let ends_with_it = before.row.is_empty() && before.partition.strip_suffix(&[0]) == Some(from);
    if before.partition != *from && !ends_with_it {
        return None;
    }
    stretch_of(lease, range, Bytes::copy_from_slice(from))
}

/// The rows of a partition that lie in a range; `None` if the partition lies behind it.
fn stretch_of(lease: &SpaceLease, range: &ScanRange, bytes: Bytes) -> Option<Stretch> {
    let from = if range.from.partition == bytes { stored_key(&range.from.row) } else { stored_key(&[]) };
    let all = Bytes::from_static(&[ROW_PREFIX + 1]);
    let before = match &range.before {
        Some(before) if before.partition[..] < bytes[..] => return None,
        Some(before) if before.partition == bytes => stored_key(&before.row),
        Some(_) | None => all,
    };
    Some(Stretch { partition: Partition { space: lease.stored, bytes }, from, before })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: usize = 1024 * 1024;

    fn seen(rows: &[(i32, usize)]) -> Seen {
        let mut seen = Seen::default();
        rows.iter().for_each(|(count, bytes)| (0..*count).for_each(|_| seen.add(*bytes)));
        seen
    }

    #[test]
    fn pages_grow_towards_their_aim_step_by_step() {
        assert_eq!(seen(&[(16, 100)]).next_page(16), 64);
        assert_eq!(seen(&[(336, 100)]).next_page(256), PAGE_ROWS_MAX);
        assert_eq!(seen(&[(80, 8 * 1024)]).next_page(64), 128);
    }

    #[test]
    fn no_page_is_too_large_even_if_all_rows_are_like_the_largest() {
        assert_eq!(seen(&[(1000, 10), (1, MEBIBYTE)]).next_page(1000), 16);
        assert_eq!(seen(&[(1, 5 * MEBIBYTE)]).next_page(16), 3);
        assert_eq!(seen(&[(1, 40 * MEBIBYTE)]).next_page(16), 1);
    }

    #[test]
    fn what_has_changed_is_read_again_in_ever_larger_pages_until_no_more_is_held_back() {
        for (row_bytes, large) in [(10, 10), (10, MEBIBYTE), (2048, 2048), (MEBIBYTE / 2, MEBIBYTE)] {
            let mut page_max = PAGE_ROWS_FIRST;
            for _ in 0..10 {
                let seen = seen(&[(1, large), (page_max - 1, row_bytes)]);
                if seen.is_full() {
                    break;
                }
                assert!(seen.first_page_again() > page_max, "{seen:?}");
                page_max = seen.first_page_again();
            }
            assert!(seen(&[(1, large), (page_max - 1, row_bytes)]).is_full(), "{row_bytes} {large}");
        }
    }

    #[test]
    fn a_failure_leads_to_a_small_page_at_once_and_to_single_rows_in_the_end() {
        assert_eq!(page_after_failure(PAGE_ROWS_MAX), PAGE_ROWS_FIRST);
        assert_eq!(page_after_failure(PAGE_ROWS_FIRST), 4);
        assert_eq!(page_after_failure(4), 1);
        assert_eq!(page_after_failure(1), 1);
    }

    fn ahead(partitions: usize, rows: i32, bytes: usize) -> (usize, i32) {
        let Ahead { partitions, rows_first } =
            Ahead { partitions, rows_first: PAGE_ROWS_FIRST }.next(Largest { rows, bytes });
        (partitions, rows_first)
    }

    #[test]
    fn many_partitions_are_read_ahead_where_they_have_a_row_or_two() {
        assert_eq!(ahead(1, 1, 100), (2, 2));
        assert_eq!(ahead(64, 1, 100), (64, 2));
        assert_eq!(ahead(64, 3, 100), (32, 4));
        assert_eq!(ahead(64, 15, 100), (8, PAGE_ROWS_FIRST));
        assert_eq!(ahead(64, 1000, 100), (8, PAGE_ROWS_FIRST));
    }

    #[test]
    fn fewer_partitions_are_read_ahead_where_they_are_large() {
        assert_eq!(ahead(8, 16, MEBIBYTE), (8, PAGE_ROWS_FIRST));
        assert_eq!(ahead(64, 1, MEBIBYTE), (16, 2));
        assert_eq!(ahead(8, 16, 8 * MEBIBYTE), (2, PAGE_ROWS_FIRST));
        assert_eq!(ahead(2, 16, 24 * MEBIBYTE), (1, PAGE_ROWS_FIRST));
    }
}
