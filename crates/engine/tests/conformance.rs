//! The reference engine keeps the contract, also with faults in between.

use std::sync::Arc;

use async_trait::async_trait;
use tavola_engine::conformance::{self, Harness, Reopen, TestClock};
use tavola_engine::{Engine, FaultEngine, FaultSettings, MemoryEngine};

/// A memory engine cannot end, so its reopening changes nothing.
struct MemoryHarness {
    engine: Arc<dyn Engine>,
    clock: Arc<TestClock>,
}

#[async_trait]
impl Harness for MemoryHarness {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn reopen(&self, _how: Reopen) {}

    fn clock(&self) -> Arc<TestClock> {
        self.clock.clone()
    }
}

#[test]
fn the_reference_engine_keeps_the_contract() {
    let clock = Arc::new(TestClock::new());
    let engine = Arc::new(MemoryEngine::new(clock.clone()));
    conformance::run(&MemoryHarness { engine, clock });
}

#[test]
fn the_reference_engine_with_faults_keeps_the_contract() {
    for seed in [1, 2, 3] {
        let clock = Arc::new(TestClock::new());
        let memory = Arc::new(MemoryEngine::new(clock.clone()));
        let engine = Arc::new(FaultEngine::new(memory, FaultSettings::with_seed(seed)));
        conformance::run(&MemoryHarness { engine, clock });
    }
}
