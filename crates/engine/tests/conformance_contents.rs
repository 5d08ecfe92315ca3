//! The reference store of contents keeps the contract, also with faults in between.

use std::sync::Arc;

use async_trait::async_trait;
use tavola_engine::conformance::content::{self, ContentHarness};
use tavola_engine::conformance::{Reopen, TestClock};
use tavola_engine::{
    ContentFaultSettings, ContentStore, Engine, FaultContents, MemoryContents, MemoryEngine,
};

/// Memory cannot end, so its reopening changes nothing.
struct MemoryHarness {
    engine: Arc<dyn Engine>,
    memory: Arc<MemoryContents>,
    contents: Arc<dyn ContentStore>,
}

impl MemoryHarness {
    fn new(faults: Option<ContentFaultSettings>) -> Self {
        let clock = Arc::new(TestClock::new());
        let memory = Arc::new(MemoryContents::new(clock.clone()));
        let contents: Arc<dyn ContentStore> = match faults {
            Some(faults) => Arc::new(FaultContents::new(memory.clone(), faults)),
            None => memory.clone(),
        };
        Self { engine: Arc::new(MemoryEngine::new(clock)), memory, contents }
    }
}

#[async_trait]
impl ContentHarness for MemoryHarness {
    fn contents(&self) -> Arc<dyn ContentStore> {
        self.contents.clone()
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn reopen(&self, _how: Reopen) {}

    async fn used_bytes(&self) -> Option<u64> {
        Some(self.memory.bytes())
    }
}

#[test]
fn the_reference_store_of_contents_keeps_the_contract() {
    content::run(&MemoryHarness::new(None));
}

#[test]
fn the_reference_store_of_contents_with_faults_keeps_the_contract() {
    for seed in [1, 2, 3] {
        content::run(&MemoryHarness::new(Some(ContentFaultSettings::with_seed(seed))));
    }
}
