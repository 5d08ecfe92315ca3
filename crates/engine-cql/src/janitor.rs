//! The janitor: removes what nobody needs any more. Everything it does may be done twice, by any number of servers.
//!
//! - Partitions that have lost their last row are taken off the directory.
//! - Entries of the directory that no head names are removed: a server ended between the two writes.
//! - The rows of dropped spaces are removed.
//!
//! It also asks now and then how large the directories are (`census.rs`).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tavola_engine::EngineError;

use crate::commit::Patience;
use crate::directory::{right_after, shard_of};
use crate::engine::{Core, read_failed};
use crate::head::{Attempt, Listing, PartitionHead};
use crate::lane::fresh_id;
use crate::settings::{DIRECTORY_PAGE_MAX, DIRECTORY_SHARDS};
use crate::spaces::Dropped;
use crate::store::{Applied, HeadLife, Partition, ROW_PREFIX, StoredSpace, stored_key};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a partition or an entry must have been left alone, in ticks: a minute.
const IDLE_TICKS: u64 = 60 * 10_000_000;
const IDLE_TIME: Duration = Duration::from_secs(60);
/// How long a dropped space is left alone, in ticks: two minutes. By then no server that was stopped for a while
/// still has a write to it under way.
const DROPPED_TICKS: u64 = 120 * 10_000_000;
/// Partitions that wait to be looked at, at most; the walk finds those that are left out.
const CANDIDATES_MAX: usize = 100_000;
/// Partitions that are looked at in one go.
const CANDIDATES_EACH: usize = 500;
/// Looks between two walks, and between two looks for dropped spaces.
const WALK_LOOKS: u64 = 6;
/// Entries of one walk.
const WALK_ENTRIES: i32 = 100;

/// Partitions that may have lost their last row.
#[derive(Default)]
pub(crate) struct Candidates(Mutex<VecDeque<(Instant, Partition)>>);

impl Candidates {
    /// A row of the partition was deleted.
    pub fn note(&self, partition: &Partition) {
        let mut waiting = self.lock();
        let is_last = waiting.back().is_some_and(|(_, last)| last == partition);
        if !is_last && waiting.len() < CANDIDATES_MAX {
            waiting.push_back((Instant::now(), partition.clone()));
        }
    }

    /// Those that have waited for long enough.
    fn take(&self) -> VecDeque<(Instant, Partition)> {
        let mut waiting = self.lock();
        let due = waiting.iter().take(CANDIDATES_EACH).take_while(|(since, _)| since.elapsed() >= IDLE_TIME);
        let due = due.count();
        waiting.drain(..due).collect()
    }

    /// Puts back those of [`Self::take`] that were not looked at.
    fn put_back(&self, due: VecDeque<(Instant, Partition)>) {
        let mut waiting = self.lock();
        due.into_iter().rev().for_each(|candidate| waiting.push_front(candidate));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, Partition)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far the walk through each shard of the directory has come; a shard that is not here begins at its start.
#[derive(Default)]
pub(crate) struct Cursors(Mutex<HashMap<(StoredSpace, i16), Bytes>>);

impl Cursors {
    /// Where to go on in a shard.
    fn get(&self, shard: (StoredSpace, i16)) -> Bytes {
        self.lock().get(&shard).cloned().unwrap_or_default()
    }

    /// Goes on there the next time; `None` for the start.
    fn set(&self, shard: (StoredSpace, i16), from: Option<Bytes>) {
        let mut cursors = self.lock();
        match from {
            Some(from) => cursors.insert(shard, from),
            None => cursors.remove(&shard),
        };
    }

    /// Forgets the shards of other spaces than these.
    fn keep_only(&self, spaces: &[StoredSpace]) {
        let spaces: HashSet<&StoredSpace> = spaces.iter().collect();
        self.lock().retain(|(space, _), _| spaces.contains(space));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(StoredSpace, i16), Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until the engine is gone.
pub(crate) async fn run(core: Weak<Core>) {
    for look in 0u64.. {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(core) = core.upgrade() else { return };
        let mut done = vec![core.tidy_candidates().await];
        if look % WALK_LOOKS == WALK_LOOKS - 1 {
            done.push(core.reclaim_spaces().await);
            done.push(core.walk_somewhere().await);
            done.push(core.estimate_directory().await);
        }
        for error in done.into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "cannot clean up the cluster, will retry at the next pass");
        }
    }
}

impl Core {
    /// Looks at everything at once: every entry of the directory of every space, every dropped space, and the estimate
    /// of how many entries there are.
    pub async fn tidy(self: &Arc<Self>) -> Result<(), EngineError> {
        self.reclaim_spaces().await?;
        for space in self.stored_spaces().await? {
            for shard in 0..DIRECTORY_SHARDS {
                self.tidy_shard(space, shard).await?;
            }
        }
        self.estimate_directory().await
    }

    async fn tidy_shard(&self, space: StoredSpace, shard: i16) -> Result<(), EngineError> {
        let mut from = Bytes::new();
        loop {
            let read = || self.store.read_directory(&space, shard, &from, DIRECTORY_PAGE_MAX);
            let entries = self.patiently(&mut Patience::new(), read).await.map_err(read_failed)?;
            let Some((last, _)) = entries.last() else { return Ok(()) };
            from = right_after(last);
            for (bytes, generation) in entries {
                self.tidy_entry(&Partition { space, bytes }, generation).await?;
            }
        }
    }

    /// Looks at those that are due, up to the first that fails.
    async fn tidy_candidates(&self) -> Result<(), EngineError> {
        let mut due = self.candidates.take();
        while let Some((_, partition)) = due.pop_front() {
            if let Err(error) = self.tidy_candidate(&partition).await {
                self.candidates.put_back(due);
                // Behind the others, so that it does not hold them up again.
                self.candidates.note(&partition);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn tidy_candidate(&self, partition: &Partition) -> Result<(), EngineError> {
        let (head, _) = self.read_rows(partition, &[], &mut Patience::new()).await.map_err(read_failed)?;
        match head.listing {
            Listing::Listed(generation) => self.tidy_entry(partition, generation).await,
            Listing::Unlisted => Ok(()),
        }
    }

    /// Looks at some more entries of the directory, of a space and a shard by chance.
    async fn walk_somewhere(&self) -> Result<(), EngineError> {
        let spaces = self.stored_spaces().await?;
        self.cursors.keep_only(&spaces);
        let chance = fresh_id();
        let index = usize::try_from(chance % u64::try_from(spaces.len()).unwrap_or(1)).unwrap_or(0);
        let Some(space) = spaces.get(index).copied() else { return Ok(()) };
        let shard = i16::try_from((chance >> 32) % DIRECTORY_SHARDS.unsigned_abs() as u64).unwrap_or(0);
        let from = self.cursors.get((space, shard));
        let read = || self.store.read_directory(&space, shard, &from, WALK_ENTRIES);
        let entries = self.patiently(&mut Patience::new(), read).await.map_err(read_failed)?;
        let is_last = i32::try_from(entries.len()).is_ok_and(|len| len < WALK_ENTRIES);
        for (bytes, generation) in entries {
            // Past it in any case: one that fails does not hold up the others.
            self.cursors.set((space, shard), Some(right_after(&bytes)));
            self.tidy_entry(&Partition { space, bytes }, generation).await?;
        }
        if is_last {
            self.cursors.set((space, shard), None);
        }
        Ok(())
    }

    /// Removes an entry of the directory if no row needs it. `directory.rs` tells why this is safe.
    async fn tidy_entry(&self, partition: &Partition, generation: u64) -> Result<(), EngineError> {
        let now = self.clock.now().ticks();
        let is_old = |tick: u64| tick.saturating_add(IDLE_TICKS) <= now;
        let mut patience = Patience::new();
        let (head, _) = self.read_rows(partition, &[], &mut patience).await.map_err(read_failed)?;
        let tick = head.tick.unwrap_or(0);
        let may_go = if head.listing == Listing::Listed(generation) {
            // If the head is still the same when it is written, nothing was written since it was read.
            is_old(tick)
                && self.has_no_rows(partition).await?
                && self.write_head(partition, &head, now, Listing::Unlisted).await
        } else if tick >= generation {
            true
        } else {
            // A writer has announced it and may still take it, unless the tick is raised first.
            is_old(generation) && self.write_head(partition, &head, now.max(generation), head.listing).await
        };
        if may_go {
            let shard = shard_of(&partition.bytes);
            let unlist = || self.store.unlist(partition, shard, generation);
            self.patiently(&mut patience, unlist).await.map_err(read_failed)?;
            self.counters.partitions_unlisted.add(1);
        }
        Ok(())
    }

    async fn has_no_rows(&self, partition: &Partition) -> Result<bool, EngineError> {
        let (from, before) = (stored_key(&[]), Bytes::from_static(&[ROW_PREFIX + 1]));
        let page = self.store.read_page(partition, &from, &before, 1).await.map_err(read_failed)?;
        Ok(page.rows.is_empty())
    }

    /// Writes a head without rows; true only if that is certain.
    async fn write_head(
        &self,
        partition: &Partition,
        head: &PartitionHead,
        now: u64,
        listing: Listing,
    ) -> bool {
        let tick = now.max(head.tick.unwrap_or(0) + 1);
        let after = head.after(Attempt { tick, id: fresh_id() }, listing);
        let life = if listing == Listing::Unlisted { HeadLife::Expiring } else { HeadLife::Lasting };
        matches!(self.store.write(partition, head.tick, &after, life, &[]).await, Ok(Applied::Yes))
    }

    /// Removes the rows of spaces that were dropped a while ago. One that fails does not hold up those behind it; the
    /// first failure is told at the end.
    async fn reclaim_spaces(self: &Arc<Self>) -> Result<(), EngineError> {
        let now = self.clock.now().ticks();
        let mut done = Ok(());
        for dropped in self.dropped_spaces().await? {
            if dropped.since.ticks().saturating_add(DROPPED_TICKS) <= now {
                done = done.and(self.reclaim(&dropped).await);
            }
        }
        done
    }

    async fn reclaim(self: &Arc<Self>, dropped: &Dropped) -> Result<(), EngineError> {
        for shard in 0..DIRECTORY_SHARDS {
            self.reclaim_shard(&dropped.stored, shard).await?;
        }
        self.forget_dropped(dropped).await?;
        self.counters.spaces_reclaimed.add(1);
        Ok(())
    }

    async fn reclaim_shard(&self, space: &StoredSpace, shard: i16) -> Result<(), EngineError> {
        let mut from = Bytes::new();
        loop {
            let read = || self.store.read_directory(space, shard, &from, DIRECTORY_PAGE_MAX);
            let entries = self.patiently(&mut Patience::new(), read).await.map_err(read_failed)?;
            for (bytes, _) in &entries {
                let partition = Partition { space: *space, bytes: bytes.clone() };
                let delete = || self.store.delete_partition(&partition);
                self.patiently(&mut Patience::new(), delete).await.map_err(read_failed)?;
            }
            match entries.last() {
                Some((last, _)) => from = right_after(last),
                None => break,
            }
        }
        let delete = || self.store.delete_directory(space, shard);
        self.patiently(&mut Patience::new(), delete).await.map_err(read_failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: u8) -> Partition {
        Partition { space: [1; 16], bytes: Bytes::copy_from_slice(&[number]) }
    }

    #[test]
    fn candidates_that_are_put_back_are_the_next_again_and_in_their_order() {
        let candidates = Candidates::default();
        let long_ago = Instant::now().checked_sub(IDLE_TIME).unwrap();
        candidates.put_back([1, 2, 3].map(|number| (long_ago, partition(number))).into());
        candidates.note(&partition(4));
        let mut due = candidates.take();
        assert_eq!(due.pop_front().unwrap().1, partition(1));
        candidates.put_back(due);
        candidates.note(&partition(1));
        let due: Vec<_> = candidates.take().into_iter().map(|(_, partition)| partition).collect();
        assert_eq!(due, [partition(2), partition(3)], "those that were just noted wait");
        assert_eq!(candidates.lock().len(), 2);
    }

    #[test]
    fn a_walk_goes_on_where_it_was_and_begins_again_after_the_end() {
        let (cursors, kept, dropped) = (Cursors::default(), ([1; 16], 3), ([2; 16], 3));
        assert_eq!(cursors.get(kept), Bytes::new());
        cursors.set(kept, Some(right_after(b"p")));
        cursors.set(dropped, Some(right_after(b"q")));
        cursors.keep_only(&[[1; 16]]);
        assert_eq!((cursors.get(kept), cursors.get(dropped)), (Bytes::from("p\0"), Bytes::new()));
        cursors.set(kept, None);
        assert_eq!(cursors.get(kept), Bytes::new());
    }
}
