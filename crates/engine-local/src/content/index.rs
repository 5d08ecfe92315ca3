//! The index of contents: rows of a space that only this store uses.
//!
//! The partition is the 16 bytes of a content's space, the row the 16 bytes of its id, the body (version 1):
//!
//! ```text
//! u8 version = 1 | u64 length | u64 sum of its sums | u16 length of the owner's partition | partition
//! | regions, each: u64 extent | u64 offset | u64 length
//! ```
//!
//! The regions one after the other hold the bytes of the content and then the table of its sums. Numbers are
//! little-endian. Rows that are queued and not yet durable are seen through the overlay: the caller of a put has the id
//! as soon as the put is over.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tavola_engine::{
    Content, ContentId, EngineError, FoundContent, Owner, Position, ScanRange, SpaceId, TickClock,
};
use tokio::sync::oneshot;

use super::sums::stored_bytes;
use crate::catalog::{SLOT_LEN, Space};
use crate::commit::Shared;
use crate::commit_queue::{RowChange, Task, Write};
use crate::engine::{Scan, row_key};
use crate::overlay::PendingRow;
use crate::row;

/// The space of the index. The services never choose it, and never see it.
pub(crate) const INDEX_SPACE: SpaceId = SpaceId([0xFE; 16]);
const VERSION: u8 = 1;
const REGION_LEN: usize = 24;
const PARTITION_AT: usize = 19;

/// A part of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Region {
    pub(crate) extent: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Where a content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexRow {
    pub(crate) length: u64,
    pub(crate) sum: u64,
    pub(crate) partition: Vec<u8>,
    pub(crate) regions: Vec<Region>,
}

impl IndexRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let partition_len = u16::try_from(self.partition.len()).expect("the owner was measured before");
        let mut body =
            Vec::with_capacity(PARTITION_AT + self.partition.len() + self.regions.len() * REGION_LEN);
        body.push(VERSION);
        body.extend_from_slice(&self.length.to_le_bytes());
        body.extend_from_slice(&self.sum.to_le_bytes());
        body.extend_from_slice(&partition_len.to_le_bytes());
        body.extend_from_slice(&self.partition);
        for region in &self.regions {
            for number in [region.extent, region.offset, region.length] {
                body.extend_from_slice(&number.to_le_bytes());
            }
        }
        body
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let number =
            |at: usize| -> Option<u64> { body.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes) };
        if *body.first()? != VERSION {
            return None;
        }
        let (length, sum) = (number(1)?, number(9)?);
        let partition_len = usize::from(u16::from_le_bytes(body.get(17..PARTITION_AT)?.try_into().ok()?));
        let regions_at = PARTITION_AT + partition_len;
        let partition = body.get(PARTITION_AT..regions_at)?.to_vec();
        let mut regions = Vec::new();
        for at in (regions_at..body.len()).step_by(REGION_LEN) {
            regions.push(Region { extent: number(at)?, offset: number(at + 8)?, length: number(at + 16)? });
        }
        let row = Self { length, sum, partition, regions };
        let held = row.regions.iter().try_fold(0u64, |held, region| held.checked_add(region.length))?;
        (held == stored_bytes(length)).then_some(row)
    }

    /// As a visit shows it.
    pub(crate) fn found(self, space: SpaceId, id: ContentId) -> FoundContent {
        let content = Content { id, length: self.length };
        FoundContent { content, owner: Owner { space, partition: self.partition } }
    }
}

/// What waits for a commit.
pub(crate) type CommitReceiver = oneshot::Receiver<Result<(), EngineError>>;

/// The index of an open store.
#[derive(Clone)]
pub(crate) struct Index {
    pub(crate) shared: Shared,
    pub(crate) ticks: Arc<TickClock>,
    /// Held while the folder is told that it has contents: several puts may be the first.
    pub(crate) making: Arc<Mutex<()>>,
}

impl Index {
    /// The space of the index; `None` before the first put.
    pub(crate) fn space(&self) -> Option<Arc<Space>> {
        self.shared.store.catalog.space(INDEX_SPACE).ok()
    }

    /// Makes the space of the index, if there is none.
    pub(crate) async fn make(&self) -> Result<Arc<Space>, EngineError> {
        if let Some(space) = self.space() {
            return Ok(space);
        }
        let (store, making) = (self.shared.store.clone(), self.making.clone());
        let noted = tokio::task::spawn_blocking(move || {
            let _making = making.lock().unwrap_or_else(PoisonError::into_inner);
            store.folder.note_contents()
        });
        let noted = noted.await;
        noted.map_err(failed)?.map_err(failed)?;
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(Task::CreateSpace(INDEX_SPACE, answer))?;
        outcome_of(answered).await?;
        self.shared.store.catalog.space(INDEX_SPACE)
    }

    /// Queues the row of a content, behind everything that was queued before. Gives the row that it replaces.
    pub(crate) fn queue_put(
        &self,
        space: SpaceId,
        id: ContentId,
        new: &IndexRow,
    ) -> Result<(CommitReceiver, Option<IndexRow>), EngineError> {
        self.change(space, &[id], |_| Some(Some(new))).map(|changed| {
            (
                changed.committed.expect("a row was written"),
                changed.found.into_iter().next().map(|(_, row)| row),
            )
        })
    }

    /// Queues the row of a content that was moved, if it still is what it was.
    pub(crate) fn queue_move(
        &self,
        space: SpaceId,
        id: ContentId,
        old: &IndexRow,
        new: &IndexRow,
    ) -> Result<Option<CommitReceiver>, EngineError> {
        let choose = |found: Option<&IndexRow>| (found == Some(old)).then_some(Some(new));
        let changed = self.change(space, &[id], choose)?;
        // Nothing was moved, although there may be something to wait for: another change of the row.
        Ok(changed.committed.filter(|_| !changed.found.is_empty()))
    }

    /// Queues the removal of rows. Gives those that were there.
    pub(crate) fn queue_remove(&self, space: SpaceId, ids: &[ContentId]) -> Result<IndexChange, EngineError> {
        self.change(space, ids, |found| found.map(|_| None))
    }

    /// Changes rows of one space in its turn: `choose` gets a row and says what becomes of it, if anything changes.
    fn change<'a>(
        &self,
        space: SpaceId,
        ids: &[ContentId],
        choose: impl Fn(Option<&IndexRow>) -> Option<Option<&'a IndexRow>>,
    ) -> Result<IndexChange, EngineError> {
        let Some(index) = self.space() else { return Ok(IndexChange::default()) };
        let stripe = self.shared.overlay.stripe_of(&index, &space.0);
        let mut pending = self.shared.overlay.lock(stripe);
        let snapshot = self.shared.store.snapshot();
        let tick = self.ticks.next();
        let mut changed = IndexChange::default();
        let (mut row_changes, mut pending_rows, mut saw_pending) = (Vec::new(), Vec::new(), false);
        for id in ids {
            let key = row_key(&index, &space.0, &id.0)?;
            if row_changes.iter().any(|change: &RowChange| change.key == key) {
                continue;
            }
            let stored = match pending.get(&key) {
                Some(row) => {
                    saw_pending = true;
                    row.row.clone()
                }
                None => self.shared.store.read(&snapshot, &index, &key)?,
            };
            let row = stored.map(|stored| decode(&index, &stored.body)).transpose()?;
            let Some(new) = choose(row.as_ref()) else { continue };
            let value = new.map(|new| row::encode_value(index.id, &key[SLOT_LEN..], tick, &new.encode()));
            let stored = value
                .as_ref()
                .map(|value| tavola_engine::StoredRow { version: tick, body: row::body_of(value) });
            pending_rows.push((key.clone(), PendingRow { tick, row: stored }));
            row_changes.push(RowChange { key, value });
            changed.found.extend(row.map(|row| (*id, row)));
        }
        let (answer, answered) = oneshot::channel();
        if row_changes.is_empty() {
            // What others have changed may not be durable yet.
            if saw_pending {
                self.shared.queue.push(Task::Barrier(answer))?;
                changed.committed = Some(answered);
            }
            return Ok(changed);
        }
        let write = Write { space: index, stripe, tick, changes: row_changes, answer };
        self.shared.queue.push(Task::Write(write))?;
        pending.extend(pending_rows);
        changed.committed = Some(answered);
        Ok(changed)
    }

    /// The row of a content, also if it is not durable yet.
    pub(crate) fn get(&self, space: SpaceId, id: ContentId) -> Result<Option<IndexRow>, EngineError> {
        let Some(index) = self.space() else { return Ok(None) };
        let key = row_key(&index, &space.0, &id.0)?;
        let stripe = self.shared.overlay.stripe_of(&index, &space.0);
        let queued = self.shared.overlay.lock(stripe).get(&key).map(|row| row.row.clone());
        let stored = match queued {
            Some(queued) => queued,
            None => self.shared.store.read(&self.shared.store.snapshot(), &index, &key)?,
        };
        stored.map(|stored| decode(&index, &stored.body)).transpose()
    }

    /// The durable rows behind a place, or all.
    pub(crate) fn scan(&self, from: Option<(SpaceId, ContentId)>) -> Result<Option<Scan>, EngineError> {
        let Some(index) = self.space() else { return Ok(None) };
        let from = from.map_or(Position::first(), |(space, id)| Position::after(&space.0, &id.0));
        Scan::new(&self.shared.store, index, &ScanRange { from, before: None }).map(Some)
    }

    /// Waits until everything that was queued before is durable and seen by scans.
    pub(crate) async fn barrier(&self) -> Result<(), EngineError> {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(Task::Barrier(answer))?;
        outcome_of(answered).await
    }

    /// The same, for a thread of its own.
    pub(crate) fn barrier_blocking(&self) -> Result<(), EngineError> {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(Task::Barrier(answer))?;
        answered
            .blocking_recv()
            .unwrap_or_else(|cause| Err(EngineError::OutcomeUnknown { cause: cause.into() }))
    }
}

/// What a change of index rows found and did.
#[derive(Default)]
pub(crate) struct IndexChange {
    /// The rows that were replaced or removed.
    pub(crate) found: Vec<(ContentId, IndexRow)>,
    /// `None` if there is nothing to wait for.
    pub(crate) committed: Option<CommitReceiver>,
}

/// The answer of the committer.
pub(crate) async fn outcome_of(answered: CommitReceiver) -> Result<(), EngineError> {
    answered.await.unwrap_or_else(|cause| Err(EngineError::OutcomeUnknown { cause: cause.into() }))
}

/// The names in the key of an index row.
pub(crate) fn names_of(partition: &[u8], row: &[u8]) -> Option<(SpaceId, ContentId)> {
    Some((SpaceId(partition.try_into().ok()?), ContentId(row.try_into().ok()?)))
}

fn decode(index: &Space, body: &Bytes) -> Result<IndexRow, EngineError> {
    IndexRow::decode(body).ok_or_else(|| index.damaged("a row of the index of contents is malformed"))
}

fn failed(cause: impl Into<tavola_engine::Cause>) -> EngineError {
    EngineError::Failed { cause: cause.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> IndexRow {
        let regions = vec![
            Region { extent: 0x0A, offset: 4096, length: 3 },
            Region { extent: 0x0B, offset: 8192, length: 8 },
        ];
        IndexRow { length: 3, sum: 0x1122, partition: b"a/b".to_vec(), regions }
    }

    #[test]
    fn the_bytes_of_an_index_row_are_these_and_are_read_back() {
        let number = |number: u64| number.to_le_bytes();
        let expected = [
            &[1][..],
            &number(3),
            &number(0x1122),
            &[3, 0],
            b"a/b",
            &number(0x0A),
            &number(4096),
            &number(3),
            &number(0x0B),
            &number(8192),
            &number(8),
        ]
        .concat();
        assert_eq!(row().encode(), expected);
        assert_eq!(IndexRow::decode(&expected), Some(row()));
        let empty = IndexRow { length: 0, regions: vec![], ..row() };
        assert_eq!(IndexRow::decode(&empty.encode()), Some(empty));
    }

    #[test]
    fn other_bytes_are_no_index_row() {
        let bytes = row().encode();
        for length in 0..bytes.len() {
            assert_eq!(IndexRow::decode(&bytes[..length]), None, "length {length}");
        }
        let mut other = bytes.clone();
        other[0] = 2;
        assert_eq!(IndexRow::decode(&other), None);
        // Regions that hold more or less than the content.
        let mut other = bytes;
        other[1] = 4;
        assert_eq!(IndexRow::decode(&other), None);
    }
}
