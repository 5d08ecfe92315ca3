//! The reference engine with some calls of a test's own making.

use std::sync::Arc;

use async_trait::async_trait;
use tavola_engine::{
    Decide, Engine, EngineError, LoadedRow, MemoryEngine, ScanRange, SpaceId, StoredRow, Transacted, Visit,
};
use tavola_model::DateTime;

/// What is done in the place of the engine inside. It does what a test leaves out.
#[async_trait]
pub trait Hooks: Send + Sync {
    async fn create_space(&self, inner: &MemoryEngine, space: SpaceId) -> Result<(), EngineError> {
        inner.create_space(space).await
    }

    async fn drop_space(&self, inner: &MemoryEngine, space: SpaceId) -> Result<(), EngineError> {
        inner.drop_space(space).await
    }

    async fn transact(
        &self,
        inner: &MemoryEngine,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError> {
        inner.transact(space, partition, rows, decide).await
    }

    async fn scan(
        &self,
        inner: &MemoryEngine,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        inner.scan(space, range, visit).await
    }
}

/// The engine.
pub struct HookedEngine<H> {
    pub inner: Arc<MemoryEngine>,
    pub hooks: Arc<H>,
}

impl<H> HookedEngine<H> {
    pub fn new(inner: MemoryEngine, hooks: Arc<H>) -> Arc<Self> {
        Arc::new(Self { inner: Arc::new(inner), hooks })
    }
}

#[async_trait]
impl<H: Hooks + 'static> Engine for HookedEngine<H> {
    async fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.hooks.create_space(&self.inner, space).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.hooks.drop_space(&self.inner, space).await
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
        self.hooks.transact(&self.inner, space, partition, rows, decide).await
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
        self.hooks.scan(&self.inner, space, range, visit).await
    }
}
