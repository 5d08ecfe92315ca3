//! The contents of the embedded engine keep the contract, also with faults in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tavola_engine::conformance::content::{self, ContentHarness};
use tavola_engine::conformance::{Reopen, TestClock};
use tavola_engine::{ContentFaultSettings, ContentStore, Engine, FaultContents};
use tavola_engine_local::{LocalEngine, LocalSettings};

struct LocalHarness {
    root: tempfile::TempDir,
    clock: Arc<TestClock>,
    faults: Option<ContentFaultSettings>,
    state: Mutex<State>,
}

struct State {
    generation: u64,
    local: Option<Arc<LocalEngine>>,
    contents: Option<Arc<dyn ContentStore>>,
}

impl LocalHarness {
    fn new(faults: Option<ContentFaultSettings>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock::new());
        let state = Mutex::new(State { generation: 0, local: None, contents: None });
        let harness = Self { root, clock, faults, state };
        harness.open(0);
        harness
    }

    fn data_dir(&self, generation: u64) -> PathBuf {
        self.root.path().join(generation.to_string())
    }

    fn open(&self, generation: u64) {
        let settings = LocalSettings::new(self.data_dir(generation));
        let local = LocalEngine::open(settings, self.clock.clone()).unwrap();
        let contents: Arc<dyn ContentStore> = match self.faults {
            Some(faults) => Arc::new(FaultContents::new(
                local.contents(),
                ContentFaultSettings { seed: faults.seed.wrapping_add(generation), ..faults },
            )),
            None => local.contents(),
        };
        *self.state.lock().unwrap() = State { generation, local: Some(local), contents: Some(contents) };
    }
}

#[async_trait]
impl ContentHarness for LocalHarness {
    fn contents(&self) -> Arc<dyn ContentStore> {
        self.state.lock().unwrap().contents.clone().unwrap()
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.state.lock().unwrap().local.clone().unwrap()
    }

    async fn reopen(&self, how: Reopen) {
        let (generation, local) = {
            let mut state = self.state.lock().unwrap();
            state.contents = None;
            (state.generation, state.local.take().unwrap())
        };
        let next = match how {
            Reopen::Crashed => {
                // What a killed process leaves is what its files hold while it still runs.
                common::copy_tree(&self.data_dir(generation), &self.data_dir(generation + 1));
                drop(local);
                std::fs::remove_dir_all(self.data_dir(generation)).unwrap();
                generation + 1
            }
            Reopen::Closed => {
                local.close().await;
                drop(local);
                generation
            }
        };
        self.open(next);
    }

    async fn used_bytes(&self) -> Option<u64> {
        let local = self.state.lock().unwrap().local.clone().unwrap();
        Some(local.contents().usage().unwrap().bytes)
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
