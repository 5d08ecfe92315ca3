//! Scans: partitions in the order of the directory, rows in the order of the cluster.
//!
//! What a scan gives of one partition is one snapshot: a page is read as of one moment and tells the tick of the
//! partition, and pages with the same tick are of the same moment. If a partition changes between two pages it is read
//! again, the second time in one page. That holds for the first [`SNAPSHOT_ROWS_MAX`] rows or [`SNAPSHOT_BYTES_MAX`]
//! bytes that are asked for; of a longer range, each further stretch is a snapshot of its own.

use bytes::Bytes;
use futures_util::future::try_join_all;
use tavola_engine::{EngineError, ScanRange, ScannedRow, StoredRow, Visit};

use crate::commit::Patience;
use crate::directory::{Walk, right_after};
use crate::engine::{Core, read_failed};
use crate::settings::{
    PAGE_BYTES_AIM, PAGE_ROWS_MAX, PAGE_ROWS_MIN, PARTITIONS_AHEAD, SNAPSHOT_BYTES_MAX, SNAPSHOT_ROWS_MAX,
};
use crate::spaces::Lease;
use crate::store::{Partition, ROW_PREFIX, Trouble, stored_key};

/// Rows of one partition between two stored keys.
struct Stretch {
    partition: Partition,
    from: Bytes,
    before: Bytes,
}

/// The rows of a stretch as of one moment, and where to go on.
struct Snapshot {
    rows: Vec<(Bytes, StoredRow)>,
    rest: Option<Bytes>,
}

impl Core {
    /// Visits the rows of a range in order.
    pub async fn scan(
        &self,
        lease: &mut Lease,
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
        let mut ahead = 1;
        loop {
            let mut stretches = Vec::with_capacity(ahead);
            while stretches.len() < ahead {
                let next = walk.next(&mut Patience::new()).await.map_err(read_failed)?;
                let Some(stretch) = next.and_then(|partition| stretch_of(lease, range, partition)) else {
                    break;
                };
                stretches.push(stretch);
            }
            let is_last = stretches.len() < ahead;
            if self.visit_stretches(lease, stretches, visit).await?.is_break() || is_last {
                return Ok(());
            }
            ahead = (ahead * 2).min(PARTITIONS_AHEAD);
        }
    }

    /// Reads some stretches at once and visits them in order.
    async fn visit_stretches(
        &self,
        lease: &mut Lease,
        stretches: Vec<Stretch>,
        visit: &mut Visit<'_>,
    ) -> Result<std::ops::ControlFlow<()>, EngineError> {
        let snapshots = try_join_all(stretches.iter().map(|stretch| self.snapshot(stretch)));
        for (stretch, snapshot) in stretches.iter().zip(snapshots.await.map_err(read_failed)?) {
            self.spaces.confirm(self, lease).await?;
            if visit_rows(&stretch.partition, &snapshot.rows, visit).is_break() {
                return Ok(std::ops::ControlFlow::Break(()));
            }
            if let Some(from) = snapshot.rest {
                let rest =
                    Stretch { partition: stretch.partition.clone(), from, before: stretch.before.clone() };
                if self.visit_stretch(lease, rest, visit).await?.is_break() {
                    return Ok(std::ops::ControlFlow::Break(()));
                }
            }
        }
        Ok(std::ops::ControlFlow::Continue(()))
    }

    /// Visits one stretch to its end.
    async fn visit_stretch(
        &self,
        lease: &mut Lease,
        mut stretch: Stretch,
        visit: &mut Visit<'_>,
    ) -> Result<std::ops::ControlFlow<()>, EngineError> {
        loop {
            let snapshot = self.snapshot(&stretch).await.map_err(read_failed)?;
            self.spaces.confirm(self, lease).await?;
            if visit_rows(&stretch.partition, &snapshot.rows, visit).is_break() {
                return Ok(std::ops::ControlFlow::Break(()));
            }
            match snapshot.rest {
                Some(from) => stretch.from = from,
                None => return Ok(std::ops::ControlFlow::Continue(())),
            }
        }
    }

    /// Reads a stretch, or as much of it as is held back at once.
    async fn snapshot(&self, stretch: &Stretch) -> Result<Snapshot, Trouble> {
        let mut page_max = PAGE_ROWS_MIN;
        let mut patience = Patience::new();
        loop {
            match self.try_snapshot(stretch, page_max, &mut patience).await? {
                Tried::Done(snapshot) => return Ok(snapshot),
                // One page is one moment, so the next try cannot be disturbed unless it is cut by its size.
                Tried::Changed(rows_max) => page_max = rows_max.max(page_max),
            }
        }
    }

    async fn try_snapshot(
        &self,
        stretch: &Stretch,
        mut page_max: i32,
        patience: &mut Patience,
    ) -> Result<Tried, Trouble> {
        let Stretch { partition, from, before } = stretch;
        let (mut rows, mut bytes, mut from) = (Vec::new(), 0, from.clone());
        let mut tick = None;
        let is_again = page_max > PAGE_ROWS_MIN;
        loop {
            let read = || self.store.read_page(partition, &from, before, page_max);
            let page = self.patiently(patience, read).await?;
            let is_last = i32::try_from(page.rows.len()).is_ok_and(|len| len < page_max);
            // An empty page does not tell the tick.
            let page_tick = match page.tick {
                None if !rows.is_empty() => self.read_rows(partition, &[], patience).await?.0.tick,
                tick => tick,
            };
            if !rows.is_empty() && page_tick != tick {
                return Ok(Tried::Changed(rows_for(SNAPSHOT_BYTES_MAX, bytes, rows.len(), SNAPSHOT_ROWS)));
            }
            tick = page_tick;
            bytes += page.rows.iter().map(|(key, row)| key.len() + row.body.len()).sum::<usize>();
            rows.extend(page.rows);
            let rest = rows.last().filter(|_| !is_last).map(|(key, _)| right_after(key));
            let is_full = rows.len() >= SNAPSHOT_ROWS_MAX || bytes >= SNAPSHOT_BYTES_MAX || is_again;
            match rest {
                Some(next) if !is_full => from = next,
                rest => return Ok(Tried::Done(Snapshot { rows, rest })),
            }
            page_max = rows_for(PAGE_BYTES_AIM, bytes, rows.len(), PAGE_ROWS_MAX).min(page_max * 4);
        }
    }
}

const SNAPSHOT_ROWS: i32 = 4096;

enum Tried {
    Done(Snapshot),
    /// The partition has changed; so many rows in one page would have been enough.
    Changed(i32),
}

/// Rows that make up about `bytes_aim`, judged by those that were read.
fn rows_for(bytes_aim: usize, bytes: usize, rows: usize, max: i32) -> i32 {
    let row_bytes = bytes.checked_div(rows).unwrap_or(0).max(1);
    i32::try_from(bytes_aim / row_bytes).unwrap_or(max).clamp(8, max)
}

fn visit_rows(
    partition: &Partition,
    rows: &[(Bytes, StoredRow)],
    visit: &mut Visit<'_>,
) -> std::ops::ControlFlow<()> {
    for (key, StoredRow { version, body }) in rows {
        let row = key.strip_prefix(&[ROW_PREFIX]).unwrap_or_default();
        let scanned = ScannedRow { partition: &partition.bytes, row, version: *version, body: body.clone() };
        visit(scanned)?;
    }
    std::ops::ControlFlow::Continue(())
}

/// The stretch of a range that lies in one partition.
fn only_stretch(lease: &Lease, range: &ScanRange) -> Option<Stretch> {
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
fn stretch_of(lease: &Lease, range: &ScanRange, bytes: Bytes) -> Option<Stretch> {
    let from = if range.from.partition == bytes { stored_key(&range.from.row) } else { stored_key(&[]) };
    let all = Bytes::from_static(&[ROW_PREFIX + 1]);
    let before = match &range.before {
        Some(before) if before.partition[..] < bytes[..] => return None,
        Some(before) if before.partition == bytes => stored_key(&before.row),
        Some(_) | None => all,
    };
    Some(Stretch { partition: Partition { space: lease.stored, bytes }, from, before })
}
