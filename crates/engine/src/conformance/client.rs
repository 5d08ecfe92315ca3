//! What the suite does to an engine, through all errors that the contract allows.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tavola_model::DateTime;

use super::Harness;
use crate::{
    Change, Decide, Decision, Engine, EngineError, LoadedRow, Position, ScanRange, SpaceId, StoredRow,
    Transacted,
};

/// Tries before the suite gives up on a call.
const ATTEMPTS_MAX: usize = 1000;

/// An engine whose passing failures are tried again.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) engine: Arc<dyn Engine>,
}

/// The space does not exist, or no longer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing;

/// A row that a scan gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenRow {
    pub(super) partition: Vec<u8>,
    pub(super) row: Vec<u8>,
    pub(super) version: DateTime,
    pub(super) body: Bytes,
}

impl Client {
    pub(super) fn of(harness: &dyn Harness) -> Self {
        Self { engine: harness.engine() }
    }

    /// A space that no other check uses.
    pub(super) async fn fresh_space(&self) -> SpaceId {
        let space = fresh_id();
        self.create_space(space).await;
        space
    }

    pub(super) async fn create_space(&self, space: SpaceId) {
        for _ in 0..ATTEMPTS_MAX {
            match self.engine.create_space(space).await {
                Ok(()) => return,
                Err(error) => bear(error).await,
            }
        }
        panic!("create_space never succeeds");
    }

    pub(super) async fn drop_space(&self, space: SpaceId) {
        for _ in 0..ATTEMPTS_MAX {
            match self.engine.drop_space(space).await {
                Ok(()) => return,
                Err(error) => bear(error).await,
            }
        }
        panic!("drop_space never succeeds");
    }

    pub(super) async fn has_space(&self, space: SpaceId) -> bool {
        for _ in 0..ATTEMPTS_MAX {
            match self.engine.spaces().await {
                Ok(spaces) => return spaces.contains(&space),
                Err(error) => bear(error).await,
            }
        }
        panic!("spaces never succeeds");
    }

    /// A transaction that is tried until its outcome is known.
    pub(super) async fn transact(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, Missing> {
        for _ in 0..ATTEMPTS_MAX {
            let mut decided = None;
            let mut watched = |tick, found: &[Option<StoredRow>]| {
                let decision = decide(tick, found);
                decided = Some((tick, decision.clone()));
                decision
            };
            let error = match self.engine.transact(space, partition, rows, &mut watched).await {
                Ok(transacted) => return Ok(transacted),
                Err(error) => error,
            };
            match (error, decided) {
                (EngineError::SpaceMissing { .. }, _) => return Err(Missing),
                (EngineError::OutcomeUnknown { .. }, Some((tick, decision))) => {
                    if self.was_kept(space, partition, rows, tick, &decision).await? {
                        return Ok(Transacted::Applied(tick));
                    }
                }
                (error, _) => bear(error).await,
            }
        }
        panic!("transact never succeeds");
    }

    /// Whether a write with unknown outcome was kept. Others may have written since, so one row with its version is
    /// proof; a caller with rivals writes a row that is its own.
    async fn was_kept(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        tick: DateTime,
        decision: &Decision,
    ) -> Result<bool, Missing> {
        let Decision::Apply(changes) = decision else { return Ok(false) };
        let mut are_all_deleted = true;
        for change in changes {
            match change {
                Change::Put { index, .. } => {
                    let found = self.get(space, partition, rows[*index]).await?;
                    if found.is_some_and(|row| row.version == tick) {
                        return Ok(true);
                    }
                    are_all_deleted = false;
                }
                Change::Delete { index } => {
                    are_all_deleted &= self.get(space, partition, rows[*index]).await?.is_none();
                }
            }
        }
        Ok(are_all_deleted)
    }

    /// A load that is tried until it is kept; loading twice does no harm.
    pub(super) async fn load(
        &self,
        space: SpaceId,
        partition: &[u8],
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<(), Missing> {
        for _ in 0..ATTEMPTS_MAX {
            match self.engine.load(space, partition, tick, rows).await {
                Ok(()) => return Ok(()),
                Err(EngineError::SpaceMissing { .. }) => return Err(Missing),
                Err(error) => bear(error).await,
            }
        }
        panic!("load never succeeds");
    }

    pub(super) async fn put(&self, space: SpaceId, partition: &[u8], row: &[u8], body: &[u8]) -> DateTime {
        let body = Bytes::copy_from_slice(body);
        let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
        match self.transact(space, partition, &[row], &mut decide).await {
            Ok(Transacted::Applied(tick)) => tick,
            other => panic!("put was not applied: {other:?}"),
        }
    }

    pub(super) async fn delete(&self, space: SpaceId, partition: &[u8], row: &[u8]) {
        let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Delete { index: 0 }]);
        let outcome = self.transact(space, partition, &[row], &mut decide).await;
        assert!(matches!(outcome, Ok(Transacted::Applied(_))), "delete was not applied: {outcome:?}");
    }

    pub(super) async fn get(
        &self,
        space: SpaceId,
        partition: &[u8],
        row: &[u8],
    ) -> Result<Option<StoredRow>, Missing> {
        for _ in 0..ATTEMPTS_MAX {
            match self.engine.get(space, partition, row).await {
                Ok(found) => return Ok(found),
                Err(EngineError::SpaceMissing { .. }) => return Err(Missing),
                Err(error) => bear(error).await,
            }
        }
        panic!("get never succeeds");
    }

    pub(super) async fn body(&self, space: SpaceId, partition: &[u8], row: &[u8]) -> Option<Bytes> {
        self.get(space, partition, row).await.expect("the space exists").map(|row| row.body)
    }

    pub(super) async fn scan(&self, space: SpaceId, range: &ScanRange) -> Result<Vec<SeenRow>, Missing> {
        for _ in 0..ATTEMPTS_MAX {
            let mut seen = Vec::new();
            let mut visit = |row: crate::ScannedRow<'_>| {
                let (partition, version) = (row.partition.to_vec(), row.version);
                seen.push(SeenRow { partition, row: row.row.to_vec(), version, body: row.body });
                ControlFlow::Continue(())
            };
            match self.engine.scan(space, range, &mut visit).await {
                Ok(()) => return Ok(seen),
                Err(EngineError::SpaceMissing { .. }) => return Err(Missing),
                Err(error) => bear(error).await,
            }
        }
        panic!("scan never succeeds");
    }
}

impl SeenRow {
    pub(super) fn position(&self) -> Position {
        Position::at(&self.partition, &self.row)
    }
}

/// An id that was not used before in this process.
pub(super) fn fresh_id() -> SpaceId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    SpaceId((u128::from(NEXT.fetch_add(1, Ordering::Relaxed)) << 32).to_be_bytes())
}

/// A number as a row body.
pub(super) fn number(row: Option<&StoredRow>) -> u64 {
    row.map_or(0, |row| u64::from_be_bytes(row.body[..].try_into().expect("eight bytes were written")))
}

/// A number as a change of a row.
pub(super) fn put_number(index: usize, number: u64) -> Change {
    Change::Put { index, body: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

/// Accepts an error after which one may try again.
async fn bear(error: EngineError) {
    match error {
        EngineError::Conflict { .. }
        | EngineError::Unavailable { .. }
        | EngineError::Failed { .. }
        | EngineError::OutcomeUnknown { .. } => tokio::task::yield_now().await,
        EngineError::SpaceMissing { .. }
        | EngineError::Full { .. }
        | EngineError::TooLarge { .. }
        | EngineError::Damaged { .. } => {
            panic!("unexpected error: {error}")
        }
    }
}
