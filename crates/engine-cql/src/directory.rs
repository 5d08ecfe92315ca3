//! The directory: the partitions of a space in key order, which the cluster itself does not know.
//!
//! Invariant: a partition with rows is listed with a generation, and the directory holds the entry of that
//! generation at a quorum of its replicas. The directory may hold entries beside those; a scan finds nothing there.
//!
//! A generation is a tick of the partition. Its entry is written before the write of the head that takes it, and it
//! is removed only when the head has that tick or a later one and does not name it (`janitor.rs`): from then on no
//! write can take it, because what takes a generation raises the tick to it. So no entry in use is ever removed, and
//! plain writes suffice.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::commit::Patience;
use crate::engine::Core;
use crate::settings::{DIRECTORY_PAGE_MAX, DIRECTORY_PAGE_MIN, DIRECTORY_SHARDS};
use crate::store::{Partition, StatementError, StoredSpace};

impl Core {
    /// Adds the entry of a generation.
    pub async fn list(
        &self,
        partition: &Partition,
        generation: u64,
        patience: &mut Patience,
    ) -> Result<(), StatementError> {
        let shard = shard_of(&partition.bytes);
        self.patiently(patience, || self.store.list(partition, shard, generation)).await?;
        self.counters.partitions_listed.add(1);
        Ok(())
    }
}

/// The shard of a partition. Part of the stored form.
pub(crate) fn shard_of(partition: &[u8]) -> i16 {
    let hash = xxhash_rust::xxh3::xxh3_64(partition) % DIRECTORY_SHARDS.unsigned_abs() as u64;
    i16::try_from(hash).expect("there are few shards")
}

/// A walk through the partitions of a space, in order.
pub(crate) struct Walk<'a> {
    core: &'a Core,
    space: StoredSpace,
    shards: Vec<Shard>,
    page_max: i32,
}

struct Shard {
    number: i16,
    waiting: VecDeque<Bytes>,
    /// Where the next page begins; `None` after the last.
    from: Option<Bytes>,
}

impl<'a> Walk<'a> {
    /// Begins at a partition.
    pub fn new(core: &'a Core, space: StoredSpace, from: &[u8]) -> Self {
        let from = Bytes::copy_from_slice(from);
        let shard = |number| Shard { number, waiting: VecDeque::new(), from: Some(from.clone()) };
        Self { core, space, shards: (0..DIRECTORY_SHARDS).map(shard).collect(), page_max: DIRECTORY_PAGE_MIN }
    }

    /// The next partition, each once.
    pub async fn next(&mut self, patience: &mut Patience) -> Result<Option<Bytes>, StatementError> {
        if self.shards.iter().any(|shard| shard.waiting.is_empty() && shard.from.is_some()) {
            self.fill(patience).await?;
        }
        let fronts = self.shards.iter().filter_map(|shard| shard.waiting.front());
        let Some(first) = fronts.min().cloned() else { return Ok(None) };
        for shard in &mut self.shards {
            if shard.waiting.front() == Some(&first) {
                shard.waiting.pop_front();
            }
        }
        Ok(Some(first))
    }

    /// Reads the next page of every shard of which nothing waits. One of them may hold the first partition.
    async fn fill(&mut self, patience: &mut Patience) -> Result<(), StatementError> {
        let (core, space, page_max) = (self.core, self.space, self.page_max);
        let empty = self.shards.iter().filter(|shard| shard.waiting.is_empty());
        let wanted: Vec<(i16, Bytes)> =
            empty.filter_map(|shard| Some((shard.number, shard.from.clone()?))).collect();
        let read = || {
            let pages = wanted.iter().map(|(number, from)| async {
                Ok::<_, StatementError>((
                    *number,
                    core.store.read_directory(&space, *number, from, page_max).await?,
                ))
            });
            try_join_all(pages)
        };
        for (number, entries) in core.patiently(patience, read).await? {
            let shard = self.shards.iter_mut().find(|shard| shard.number == number);
            let shard = shard.expect("only shards of this walk are asked");
            let is_last = i32::try_from(entries.len()).is_ok_and(|len| len < page_max);
            shard.from = match entries.last() {
                Some((last, _)) if !is_last => Some(right_after(last)),
                _ => None,
            };
            shard.waiting.extend(entries.into_iter().map(|(partition, _)| partition));
            // A partition may have more than one entry.
            let mut last = None;
            shard.waiting.retain(|partition| last.replace(partition.clone()).as_ref() != Some(partition));
        }
        self.page_max = (self.page_max * 2).min(DIRECTORY_PAGE_MAX);
        Ok(())
    }
}

/// The smallest key behind this one.
pub(crate) fn right_after(key: &[u8]) -> Bytes {
    let mut after = Vec::with_capacity(key.len() + 1);
    after.extend_from_slice(key);
    after.push(0);
    after.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_keep_their_shards() {
        assert_eq!(DIRECTORY_SHARDS, 16);
        let partitions: [&[u8]; 4] = [b"", b"q", b"account", b"\xFF\x00"];
        assert_eq!(partitions.map(shard_of), [2, 6, 3, 7]);
    }
}
