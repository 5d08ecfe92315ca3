//! Freeing the disk space of contents, on a thread of its own.
//!
//! - A region that is given back becomes a hole in its file; a large one only after a moment in which it may be written to
//!   again. Where the file system makes no holes, it is counted, and an extent that is half dead is emptied by moving what
//!   lives in it.
//! - An extent that nobody writes to, and in which the index has no content, is removed: first from the catalog, durably,
//!   then its file.
//! - What a crash left in the extents of former runs, bytes without an index row, becomes holes when the extent has not been
//!   written to for a day.
//!
//! Nothing goes because it looks unused: an extent is removed, and bytes of a former run are, only after a look at every
//! row of the index that was durable when the extent could no longer be written to. Nothing at all goes while a backup
//! holds it (`SweepList::hold`). While a store closes, holes are still made, but no extent is removed: that takes a write
//! to the catalog. The next start looks at every extent again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tavola_engine::{ContentCursor, ContentId, EngineError, SpaceId};
use tokio::sync::oneshot;

use super::extent::{self, HEADER_BYTES, path_of};
use super::extents::{ALIGNMENT, Extents, blocks_of};
use super::free_list::FreeRegion;
use super::index::{Index, IndexRow, Region, names_of};
use super::put::{self, PutParts};
use super::store::ContentParts;
use crate::catalog::ExtentChange;
use crate::commit_queue::Task;
use crate::compaction::give_way;
use crate::engine::ScanState;
use crate::settings::{
    FREE_BYTES_MAX, FREE_REGION_BYTES_MIN, LEFTOVERS_AGE_MIN, LEFTOVERS_CHECK, LEFTOVERS_FIRST,
    SCAN_ROWS_AT_ONCE,
};

/// What there is to give back.
#[derive(Default)]
pub(crate) struct SweepList {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    regions: Vec<Region>,
    /// Extents that may be empty.
    extents: BTreeSet<u64>,
    /// Backups that want everything to stay.
    holds: usize,
    /// The store takes no more writes, so no extent can be removed.
    is_closing: bool,
    is_closed: bool,
}

/// Keeps the disk space of everything that is dropped meanwhile.
pub(crate) struct Hold(Arc<SweepList>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.lock().holds -= 1;
        self.0.changed.notify_one();
    }
}

enum Work {
    Sweep { regions: Vec<Region>, extents: BTreeSet<u64> },
    LookForLeftovers,
}

impl SweepList {
    /// Gives back regions that no index row names, durably.
    pub(crate) fn give_back(&self, regions: Vec<Region>) {
        if !regions.is_empty() {
            self.lock().regions.extend(regions);
            self.changed.notify_one();
        }
    }

    /// Asks to look whether an extent is empty.
    pub(crate) fn look_at(&self, extent: u64) {
        self.lock().extents.insert(extent);
        self.changed.notify_one();
    }

    /// Lets nothing go until the hold is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        self.lock().holds += 1;
        Hold(self.clone())
    }

    /// Removes no more extents. Called before the store refuses writes, so that no removal is refused unexpectedly.
    pub(crate) fn stop_removing(&self) {
        self.lock().is_closing = true;
    }

    /// Lets the thread end when it has given back what there is.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        (state.is_closing, state.is_closed) = (true, true);
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for something to do, at most until a time; for the next look at leftovers at most until its time.
    fn wait(&self, next_look: Instant, until: Option<Instant>) -> Option<Work> {
        let state = self.lock();
        // Nothing is looked for while a backup holds everything; when it ends, there is what waited meanwhile.
        let is_held = state.holds > 0;
        let is_idle = |state: &mut State| {
            let has_work = !state.regions.is_empty() || !state.extents.is_empty();
            !state.is_closed && (state.holds > 0 || (!has_work && !is_held))
        };
        let until = until.map_or(next_look, |until| until.min(next_look));
        let time = if is_held { LEFTOVERS_CHECK } else { until.saturating_duration_since(Instant::now()) };
        let waited = self.changed.wait_timeout_while(state, time, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let has_work = !state.regions.is_empty() || !state.extents.is_empty();
        if state.holds > 0 {
            return (!state.is_closed).then_some(Work::Sweep { regions: vec![], extents: BTreeSet::new() });
        }
        if !state.is_closing && next_look <= Instant::now() {
            return Some(Work::LookForLeftovers);
        }
        if has_work {
            let (regions, extents) = (std::mem::take(&mut state.regions), std::mem::take(&mut state.extents));
            return Some(Work::Sweep { regions, extents });
        }
        (!state.is_closed).then_some(Work::Sweep { regions: vec![], extents: BTreeSet::new() })
    }

    fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether files can have holes made into them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Punching {
    Works,
    Missing,
}

/// The state of the thread.
pub(crate) struct Sweeper {
    sweeps: Arc<SweepList>,
    extents: Arc<Extents>,
    index: Index,
    put: PutParts,
    punching: Punching,
    /// How long a region waits to be written to again.
    freed_after: Duration,
    /// Extents of former runs have numbers below this.
    first_of_run: u64,
    /// Bytes that were given back and are still there, where no holes can be made.
    dead: BTreeMap<u64, u64>,
}

impl Sweeper {
    pub(crate) fn new(parts: &ContentParts, punching: Punching, freed_after: Duration) -> Self {
        Self {
            sweeps: parts.sweeps.clone(),
            extents: parts.put.extents.clone(),
            index: parts.put.index.clone(),
            put: parts.put.clone(),
            punching,
            freed_after,
            first_of_run: parts.first_of_run,
            dead: BTreeMap::new(),
        }
    }

    /// Works until the list is closed.
    pub(crate) fn run(mut self) {
        give_way();
        if self.punching == Punching::Missing
            && let Err(error) = self.count_dead()
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "cannot compute the disk space of contents that were dropped before this start"
            );
        }
        let mut next_look = Instant::now() + LEFTOVERS_FIRST;
        while let Some(work) = self.sweeps.wait(next_look, self.next_expiry()) {
            let done = match work {
                Work::Sweep { regions, extents } => self.sweep(regions, extents),
                Work::LookForLeftovers => {
                    next_look = Instant::now() + LEFTOVERS_CHECK;
                    self.sweep_leftovers(LEFTOVERS_AGE_MIN)
                }
            };
            match done {
                Ok(()) => continue,
                // The store closed between the look and the removal. The next start looks again.
                Err(EngineError::Unavailable { .. }) if self.sweeps.is_closing() => continue,
                // Nothing is lost by it; it is tried again after a restart.
                Err(error) => tell_failed(&error),
            }
        }
        if let Err(error) = self.punch_all(self.extents.free.take_older(Duration::ZERO)) {
            tell_failed(&error);
        }
    }

    /// Counts what former runs could not give back: what an extent takes and no content has.
    fn count_dead(&mut self) -> Result<(), EngineError> {
        let extents = self.index.shared.store.catalog.extents();
        let former = extents.keys().filter(|extent| **extent < self.first_of_run);
        for extent in former {
            let taken = self.extents.file(*extent).and_then(|file| file.file.metadata());
            let taken = taken.map_err(|cause| EngineError::Failed { cause: cause.into() })?.blocks() * 512;
            self.dead.insert(*extent, taken.saturating_sub(HEADER_BYTES));
        }
        let mut dead = std::mem::take(&mut self.dead);
        self.visit_index(&mut |_, _, row| {
            for region in &row.regions {
                if let Some(dead) = dead.get_mut(&region.extent) {
                    *dead = dead.saturating_sub(blocks_of(region));
                }
            }
        })?;
        dead.retain(|_, dead| *dead > 0);
        self.dead = dead;
        Ok(())
    }

    pub(crate) fn sweep(
        &mut self,
        regions: Vec<Region>,
        mut extents: BTreeSet<u64>,
    ) -> Result<(), EngineError> {
        let may_keep = self.may_keep();
        for region in regions {
            extents.insert(region.extent);
            match self.punching {
                Punching::Works if may_keep && self.can_be_reused(&region) => self.keep(&region)?,
                Punching::Works => self.punch(region.extent, region.offset, blocks_of(&region))?,
                Punching::Missing => *self.dead.entry(region.extent).or_default() += blocks_of(&region),
            }
        }
        let kept_for = if may_keep { self.freed_after } else { Duration::ZERO };
        self.punch_all(self.extents.free.take_older(kept_for))?;
        let is_closing = self.sweeps.is_closing();
        let may_be_empty =
            |extent: &u64| !is_closing && !self.extents.is_written(*extent) && self.looks_empty(*extent);
        let empty: BTreeSet<u64> = extents.iter().copied().filter(may_be_empty).collect();
        if !empty.is_empty() {
            self.remove_empty(empty)?;
        }
        if self.punching == Punching::Missing && !is_closing {
            self.empty_half_dead()?;
        }
        Ok(())
    }

    /// Whether disk space may stay taken for a moment. On a disk that is nearly full, others need it.
    fn may_keep(&self) -> bool {
        !self.sweeps.is_closing() && self.put.disk.has_space_for(2 * FREE_BYTES_MAX)
    }

    /// Extents of former runs are not written to.
    fn can_be_reused(&self, region: &Region) -> bool {
        blocks_of(region) >= FREE_REGION_BYTES_MIN && region.extent >= self.first_of_run
    }

    fn keep(&self, region: &Region) -> Result<(), EngineError> {
        let extent = self.extents.write_again(region.extent);
        let extent = extent.map_err(|cause| EngineError::Failed { cause: cause.into() })?;
        let region = Region { length: blocks_of(region), ..*region };
        let too_many = self.extents.free.keep(FreeRegion { extent, region, since: Instant::now() });
        self.punch_all(too_many)
    }

    /// When the oldest region that may be written to again becomes a hole.
    fn next_expiry(&self) -> Option<Instant> {
        self.extents.free.oldest().map(|since| since + self.freed_after)
    }

    /// Frees the disk space of each of them, also if that fails for one.
    fn punch_all(&self, regions: Vec<FreeRegion>) -> Result<(), EngineError> {
        let punch = |free: &FreeRegion| {
            let Region { extent, offset, length } = free.region;
            self.punch(extent, offset, length)
        };
        regions.iter().map(punch).fold(Ok(()), Result::and)
    }

    fn punch(&self, extent: u64, offset: u64, length: u64) -> Result<(), EngineError> {
        let punched = self.extents.file(extent).and_then(|file| file.punch(offset, length));
        punched.map_err(|cause| EngineError::Failed { cause: cause.into() })
    }

    /// A hint only: some file systems keep zeros as holes.
    fn looks_empty(&self, extent: u64) -> bool {
        match self.punching {
            Punching::Works => {
                let data = self.extents.file(extent).and_then(|file| file.next_data(HEADER_BYTES));
                data.is_ok_and(|data| data.is_none())
            }
            Punching::Missing => self.dead.contains_key(&extent),
        }
    }

    /// Removes those extents in which the index has nothing. Nobody writes to them any more.
    fn remove_empty(&mut self, mut empty: BTreeSet<u64>) -> Result<(), EngineError> {
        // Every row that names a region of theirs was queued before now.
        self.index.barrier_blocking()?;
        self.visit_index(&mut |_, _, row| {
            empty.retain(|extent| row.regions.iter().all(|region| region.extent != *extent));
        })?;
        for extent in empty {
            let (answer, answered) = oneshot::channel();
            self.index.shared.queue.push(Task::ChangeExtent(ExtentChange::Removed { extent }, answer))?;
            answered
                .blocking_recv()
                .unwrap_or_else(|cause| Err(EngineError::OutcomeUnknown { cause: cause.into() }))?;
            self.extents.forget(extent);
            self.dead.remove(&extent);
            let removed = std::fs::remove_file(path_of(&self.extents.folder, extent));
            removed.map_err(|cause| EngineError::Failed { cause: cause.into() })?;
        }
        Ok(())
    }

    /// Gives back bytes of former runs that have no index row, in extents that were last written so long ago.
    pub(crate) fn sweep_leftovers(&mut self, age_min: Duration) -> Result<(), EngineError> {
        let failed = |cause: std::io::Error| EngineError::Failed { cause: cause.into() };
        let mut live: BTreeMap<u64, BTreeSet<Region>> = BTreeMap::new();
        let entries = match std::fs::read_dir(&self.extents.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let modified = entry.metadata().and_then(|data| data.modified()).map_err(failed)?;
            let is_old = SystemTime::now().duration_since(modified).is_ok_and(|age| age >= age_min);
            if let Some(number) = entry.file_name().to_str().and_then(extent::number_of)
                && number < self.first_of_run
                && is_old
            {
                live.insert(number, BTreeSet::new());
            }
        }
        if live.is_empty() {
            return Ok(());
        }
        self.visit_index(&mut |_, _, row| {
            for region in &row.regions {
                if let Some(regions) = live.get_mut(&region.extent) {
                    regions.insert(*region);
                }
            }
        })?;
        for (number, regions) in &live {
            let extent = self.extents.file(*number).map_err(failed)?;
            let mut at = HEADER_BYTES;
            while self.punching == Punching::Works
                && let Some((start, end)) = extent.next_data(at).map_err(failed)?
            {
                for (from, to) in gaps(regions, start.next_multiple_of(ALIGNMENT), end) {
                    extent.punch(from, to - from).map_err(failed)?;
                }
                at = end;
            }
            self.sweeps.look_at(*number);
        }
        Ok(())
    }

    /// Moves what lives in extents that are more than half dead, so that these can be removed.
    fn empty_half_dead(&mut self) -> Result<(), EngineError> {
        let is_half_dead = |(extent, dead): (&u64, &u64)| {
            let size = self
                .extents
                .file(*extent)
                .and_then(|file| file.file.metadata())
                .map_or(u64::MAX, |data| data.len());
            (!self.extents.is_written(*extent) && *dead * 2 >= size - HEADER_BYTES).then_some(*extent)
        };
        let half_dead: BTreeSet<u64> = self.dead.iter().filter_map(is_half_dead).collect();
        if half_dead.is_empty() {
            return Ok(());
        }
        self.index.barrier_blocking()?;
        let mut moving: Vec<(SpaceId, ContentId, IndexRow)> = Vec::new();
        self.visit_index(&mut |space, id, row| {
            if row.regions.iter().any(|region| half_dead.contains(&region.extent)) {
                moving.push((space, id, row));
            }
        })?;
        for (space, id, row) in moving {
            // Noted as a reader, so that a drop meanwhile leaves its bytes alone.
            let _reader = self.put.readers.note(ContentCursor { space, id });
            put::move_content(&self.put, space, id, &row)?;
        }
        half_dead.into_iter().for_each(|extent| self.sweeps.look_at(extent));
        Ok(())
    }

    /// Shows every durable row of the index.
    fn visit_index(
        &self,
        visit: &mut (dyn FnMut(SpaceId, ContentId, IndexRow) + Send),
    ) -> Result<(), EngineError> {
        let Some(mut rows) = self.index.scan(None)? else { return Ok(()) };
        let mut malformed = false;
        let mut take = |row: tavola_engine::ScannedRow<'_>| {
            match (names_of(row.partition, row.row), IndexRow::decode(&row.body)) {
                (Some((space, id)), Some(row)) => visit(space, id, row),
                _ => malformed = true,
            }
            ControlFlow::Continue(())
        };
        while rows.visit(SCAN_ROWS_AT_ONCE, &mut take)? == ScanState::More {}
        if malformed {
            // Whatever it names must not be given back.
            return Err(EngineError::Damaged { space: super::INDEX_SPACE, what: "a row is malformed" });
        }
        Ok(())
    }
}

fn tell_failed(error: &EngineError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "cannot free the disk space of dropped contents, will retry after a restart");
}

/// The parts of a range that no region takes.
fn gaps(regions: &BTreeSet<Region>, start: u64, end: u64) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = start;
    for region in regions {
        let region_end = region.offset + blocks_of(region);
        if region_end <= at {
            continue;
        }
        if region.offset >= end {
            break;
        }
        if region.offset > at {
            gaps.push((at, region.offset));
        }
        at = region_end;
    }
    if at < end {
        gaps.push((at, end));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_no_region_takes() {
        let region = |offset, length| Region { extent: 1, offset, length };
        let regions = BTreeSet::from([region(8192, 5000), region(20480, 4096)]);
        let check = |start, end, expected: &[(u64, u64)]| assert_eq!(gaps(&regions, start, end), expected);
        check(4096, 40960, &[(4096, 8192), (16384, 20480), (24576, 40960)]);
        check(4096, 8192, &[(4096, 8192)]);
        check(8192, 16384, &[]);
        check(12288, 20481, &[(16384, 20480)]);
        check(24576, 28672, &[(24576, 28672)]);
    }
}
