//! The embedded engine keeps the contract, also with faults in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use common::reopened::Reopened;
use tavola_engine::conformance::{self, Harness, Reopen, TestClock};
use tavola_engine::{Engine, FaultEngine, FaultSettings};

struct LocalHarness {
    local: Reopened,
    faults: Option<FaultSettings>,
    /// What the suite sees: the engine itself or its fault-injecting wrapper.
    seen: Mutex<Option<Arc<dyn Engine>>>,
}

impl LocalHarness {
    fn new(faults: Option<FaultSettings>) -> Self {
        let harness = Self { local: Reopened::new(), faults, seen: Mutex::default() };
        harness.look();
        harness
    }

    fn look(&self) {
        let (engine, generation) = self.local.engine();
        let seen: Arc<dyn Engine> = match self.faults {
            Some(faults) => Arc::new(FaultEngine::new(
                engine,
                FaultSettings { seed: faults.seed.wrapping_add(generation), ..faults },
            )),
            None => engine,
        };
        *self.seen.lock().unwrap() = Some(seen);
    }
}

#[async_trait]
impl Harness for LocalHarness {
    fn engine(&self) -> Arc<dyn Engine> {
        self.seen.lock().unwrap().clone().unwrap()
    }

    async fn reopen(&self, how: Reopen) {
        *self.seen.lock().unwrap() = None;
        self.local.reopen(how).await;
        self.look();
    }

    fn clock(&self) -> Arc<TestClock> {
        self.local.clock.clone()
    }
}

#[test]
fn the_embedded_engine_keeps_the_contract() {
    conformance::run(&LocalHarness::new(None));
}

#[test]
fn the_embedded_engine_with_faults_keeps_the_contract() {
    conformance::run(&LocalHarness::new(Some(FaultSettings::with_seed(7))));
}
