//! The contents of the embedded engine keep the contract, also with faults in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use common::reopened::Reopened;
use tavola_engine::conformance::Reopen;
use tavola_engine::conformance::content::{self, ContentHarness};
use tavola_engine::{ContentFaultSettings, ContentStore, Engine, FaultContents};

struct LocalHarness {
    local: Reopened,
    faults: Option<ContentFaultSettings>,
    /// What the suite sees: the contents themselves or their fault-injecting wrapper.
    seen: Mutex<Option<Arc<dyn ContentStore>>>,
}

impl LocalHarness {
    fn new(faults: Option<ContentFaultSettings>) -> Self {
        let harness = Self { local: Reopened::new(), faults, seen: Mutex::default() };
        harness.look();
        harness
    }

    fn look(&self) {
        let (engine, generation) = self.local.engine();
        let seen: Arc<dyn ContentStore> = match self.faults {
            Some(faults) => Arc::new(FaultContents::new(
                engine.contents(),
                ContentFaultSettings { seed: faults.seed.wrapping_add(generation), ..faults },
            )),
            None => engine.contents(),
        };
        *self.seen.lock().unwrap() = Some(seen);
    }
}

#[async_trait]
impl ContentHarness for LocalHarness {
    fn contents(&self) -> Arc<dyn ContentStore> {
        self.seen.lock().unwrap().clone().unwrap()
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.local.engine().0
    }

    async fn reopen(&self, how: Reopen) {
        *self.seen.lock().unwrap() = None;
        self.local.reopen(how).await;
        self.look();
    }

    async fn used_bytes(&self) -> Option<u64> {
        Some(self.local.engine().0.contents().usage().unwrap().bytes)
    }
}

#[test]
fn the_contents_of_the_embedded_engine_keep_the_contract() {
    content::run(&LocalHarness::new(None));
}

#[test]
fn the_contents_of_the_embedded_engine_with_faults_keep_the_contract() {
    content::run(&LocalHarness::new(Some(ContentFaultSettings::with_seed(7))));
}
