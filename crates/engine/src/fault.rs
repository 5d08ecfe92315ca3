//! An engine that fails on purpose.
//!
//! It wraps another engine and, by chance from a seed, does to a call what a network or a crash could do: refuses
//! it, delays it, runs its `decide` twice, loses it and says so, loses only the answer. It never lies: an error
//! that promises that nothing was kept keeps nothing. So whatever runs on it must still keep its own promises.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tavola_model::DateTime;

use crate::{
    Decide, Decision, Engine, EngineError, LoadedRow, ScanRange, SpaceId, StoredRow, Transacted, Visit,
};

/// How often a call fails, in thousandths. The same seed gives the same faults to the same sequence of calls.
#[derive(Clone, Copy, Debug)]
pub struct FaultSettings {
    /// Where chance begins.
    pub seed: u64,
    /// Calls that are refused before they reach the store.
    pub refused: u16,
    /// Writes that fail with a conflict.
    pub conflict: u16,
    /// Writes whose request is lost; whoever asked cannot know.
    pub lost_request: u16,
    /// Writes whose answer is lost; whoever asked cannot know.
    pub lost_answer: u16,
    /// Reads that fail, possibly midway.
    pub failed_read: u16,
    /// Writes that are decided twice, as an optimistic engine does.
    pub decided_twice: u16,
    /// Calls that are delayed, by up to a millisecond.
    pub delayed: u16,
}

impl FaultSettings {
    /// A few percent of everything.
    pub fn with_seed(seed: u64) -> Self {
        Self {
            seed,
            refused: 30,
            conflict: 30,
            lost_request: 30,
            lost_answer: 30,
            failed_read: 30,
            decided_twice: 50,
            delayed: 50,
        }
    }
}

/// The wrapper.
pub struct FaultEngine {
    inner: Arc<dyn Engine>,
    settings: FaultSettings,
    chance: Chance,
}

impl FaultEngine {
    /// Wraps an engine.
    pub fn new(inner: Arc<dyn Engine>, settings: FaultSettings) -> Self {
        Self { inner, settings, chance: Chance::new(settings.seed) }
    }

    fn happens(&self, thousandths: u16) -> bool {
        self.chance.happens(thousandths)
    }

    fn draw(&self) -> u64 {
        self.chance.draw()
    }

    async fn delay(&self) {
        if self.happens(self.settings.delayed) {
            tokio::time::sleep(Duration::from_micros(self.draw() % 1000)).await;
        }
    }

    /// What happens on the way to the store.
    async fn before_write(&self) -> Result<(), EngineError> {
        self.delay().await;
        if self.happens(self.settings.refused) {
            return Err(EngineError::Unavailable { reason: "injected fault" });
        }
        if self.happens(self.settings.lost_request) {
            return Err(unknown());
        }
        Ok(())
    }

    /// What happens on the way back.
    async fn after_write<T>(&self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        self.delay().await;
        if self.happens(self.settings.lost_answer) { Err(unknown()) } else { outcome }
    }

    fn read_fails(&self) -> Result<(), EngineError> {
        if self.happens(self.settings.failed_read) {
            return Err(EngineError::Failed { cause: "injected fault".into() });
        }
        Ok(())
    }
}

#[async_trait]
impl Engine for FaultEngine {
    async fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.before_write().await?;
        let outcome = self.inner.create_space(space).await;
        self.after_write(outcome).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.before_write().await?;
        let outcome = self.inner.drop_space(space).await;
        self.after_write(outcome).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        self.read_fails()?;
        self.inner.spaces().await
    }

    async fn transact(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError> {
        self.before_write().await?;
        if self.happens(self.settings.conflict) {
            return Err(EngineError::Conflict { attempts: 1 });
        }
        if self.happens(self.settings.decided_twice) {
            let mut in_vain = |tick, found: &[Option<StoredRow>]| {
                drop(decide(tick, found));
                Decision::Refuse
            };
            self.inner.transact(space, partition, rows, &mut in_vain).await?;
        }
        let outcome = self.inner.transact(space, partition, rows, decide).await;
        self.after_write(outcome).await
    }

    async fn load(
        &self,
        space: SpaceId,
        partition: &[u8],
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<(), EngineError> {
        self.before_write().await?;
        if self.happens(self.settings.conflict) {
            return Err(EngineError::Conflict { attempts: 1 });
        }
        let outcome = self.inner.load(space, partition, tick, rows).await;
        self.after_write(outcome).await
    }

    async fn get(
        &self,
        space: SpaceId,
        partition: &[u8],
        row: &[u8],
    ) -> Result<Option<StoredRow>, EngineError> {
        self.delay().await;
        self.read_fails()?;
        self.inner.get(space, partition, row).await
    }

    async fn scan(
        &self,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        self.delay().await;
        if self.read_fails().is_ok() {
            return self.inner.scan(space, range, visit).await;
        }
        let mut rows_left = self.draw() % 4;
        let mut stopped = false;
        let mut visit_some = |row: crate::ScannedRow<'_>| {
            if rows_left == 0 {
                return ControlFlow::Break(());
            }
            rows_left -= 1;
            let flow = visit(row);
            stopped = flow.is_break();
            flow
        };
        self.inner.scan(space, range, &mut visit_some).await?;
        if stopped { Ok(()) } else { Err(EngineError::Failed { cause: "injected fault".into() }) }
    }
}

/// A run that fails says how to have it again.
impl Drop for FaultEngine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("faults were drawn with seed {}", self.settings.seed);
        }
    }
}

fn unknown() -> EngineError {
    EngineError::OutcomeUnknown { cause: "injected fault".into() }
}

/// Chance from a seed, for any number of tasks.
pub(crate) struct Chance(Mutex<u64>);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// Whether something happens that happens so many times in a thousand.
    pub(crate) fn happens(&self, thousandths: u16) -> bool {
        self.draw() % 1000 < u64::from(thousandths)
    }

    /// SplitMix64.
    pub(crate) fn draw(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }
}
