//! The reference engine: a map in memory behind one lock.
//!
//! It keeps every promise except durability, in the simplest way that does. Tests of the services run on it,
//! and the conformance suite runs on it first, to show that the suite asks only for what the contract says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tavola_model::{Clock, DateTime};

use crate::{
    Change, Decide, Decision, Engine, EngineError, LoadedRow, ScanRange, ScannedRow, SpaceId, StoredRow,
    TickClock, Transacted, Visit,
};

type Rows = BTreeMap<(Vec<u8>, Vec<u8>), StoredRow>;

/// An engine that forgets everything with its process.
pub struct MemoryEngine {
    ticks: TickClock,
    spaces: Mutex<BTreeMap<SpaceId, Rows>>,
}

impl MemoryEngine {
    /// An engine with nothing but an empty catalog space.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            ticks: TickClock::starting_above(DateTime::MIN, clock),
            spaces: Mutex::new(BTreeMap::from([(SpaceId::CATALOG, Rows::new())])),
        }
    }

    /// A `decide` that panicked has changed nothing, so the map behind a poisoned lock is still whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SpaceId, Rows>> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Engine for MemoryEngine {
    async fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.lock().entry(space).or_default();
        Ok(())
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.lock().remove(&space);
        Ok(())
    }

    async fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        Ok(self.lock().keys().copied().collect())
    }

    async fn transact(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError> {
        let mut spaces = self.lock();
        let stored = spaces.get_mut(&space).ok_or(EngineError::SpaceMissing { space })?;
        let key_at = |index: usize| (partition.to_vec(), rows[index].to_vec());
        let found: Vec<_> = (0..rows.len()).map(|index| stored.get(&key_at(index)).cloned()).collect();
        let tick = self.ticks.next();
        let Decision::Apply(changes) = decide(tick, &found) else {
            return Ok(Transacted::Refused);
        };
        for change in changes {
            match change {
                Change::Put { index, body } => {
                    stored.insert(key_at(index), StoredRow { version: tick, body });
                }
                Change::Delete { index } => {
                    stored.remove(&key_at(index));
                }
            }
        }
        Ok(Transacted::Applied(tick))
    }

    async fn load(
        &self,
        space: SpaceId,
        partition: &[u8],
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<(), EngineError> {
        let mut spaces = self.lock();
        let stored = spaces.get_mut(&space).ok_or(EngineError::SpaceMissing { space })?;
        let mut placed = Vec::with_capacity(rows.len());
        for LoadedRow { row, stored: loaded } in rows {
            assert!(loaded.version <= tick, "no row is newer than the store it comes from");
            let key = (partition.to_vec(), row.to_vec());
            if stored.get(&key).is_some_and(|found| found.version > tick) {
                return Err(EngineError::Failed {
                    cause: "a row that would be replaced was written since".into(),
                });
            }
            placed.push((key, loaded.clone()));
        }
        self.ticks.raise(tick);
        stored.extend(placed);
        Ok(())
    }

    async fn get(
        &self,
        space: SpaceId,
        partition: &[u8],
        row: &[u8],
    ) -> Result<Option<StoredRow>, EngineError> {
        let spaces = self.lock();
        let stored = spaces.get(&space).ok_or(EngineError::SpaceMissing { space })?;
        Ok(stored.get(&(partition.to_vec(), row.to_vec())).cloned())
    }

    async fn scan(
        &self,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        let spaces = self.lock();
        let stored = spaces.get(&space).ok_or(EngineError::SpaceMissing { space })?;
        let from = (range.from.partition.clone(), range.from.row.clone());
        let in_range =
            stored.range(from..).take_while(|((partition, row), _)| range.contains(partition, row));
        for ((partition, row), StoredRow { version, body }) in in_range {
            let scanned = ScannedRow { partition, row, version: *version, body: body.clone() };
            if visit(scanned).is_break() {
                break;
            }
        }
        Ok(())
    }
}
