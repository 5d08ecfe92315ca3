//! The reference engine with scans of a test's own making.

use std::sync::Arc;

use async_trait::async_trait;
use tavola_engine::{
    Decide, Engine, EngineError, LoadedRow, MemoryEngine, ScanRange, SpaceId, StoredRow, Transacted, Visit,
};
use tavola_model::DateTime;

/// What a scan does.
#[async_trait]
pub trait Scans: Send + Sync {
    async fn scan(
        &self,
        inner: &MemoryEngine,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError>;
}

/// The engine. Everything but scans is done by the one inside.
pub struct WithScans<S> {
    pub inner: MemoryEngine,
    pub scans: Arc<S>,
}

#[async_trait]
impl<S: Scans + 'static> Engine for WithScans<S> {
    async fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.inner.create_space(space).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.inner.drop_space(space).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        self.inner.spaces().await
    }

    async fn transact(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError> {
        self.inner.transact(space, partition, rows, decide).await
    }

    async fn load(
        &self,
        space: SpaceId,
        partition: &[u8],
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<(), EngineError> {
        self.inner.load(space, partition, tick, rows).await
    }

    async fn get(
        &self,
        space: SpaceId,
        partition: &[u8],
        row: &[u8],
    ) -> Result<Option<StoredRow>, EngineError> {
        self.inner.get(space, partition, row).await
    }

    async fn scan(
        &self,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        self.scans.scan(&self.inner, space, range, visit).await
    }
}
