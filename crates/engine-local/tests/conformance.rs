//! The embedded engine keeps the contract, also with faults in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tavola_engine::conformance::{self, Harness, Reopen, TestClock};
use tavola_engine::{Engine, FaultEngine, FaultSettings};
use tavola_engine_local::{LocalEngine, LocalSettings};

struct LocalHarness {
    root: tempfile::TempDir,
    clock: Arc<TestClock>,
    faults: Option<FaultSettings>,
    state: Mutex<State>,
}

struct State {
    generation: u64,
    local: Option<Arc<LocalEngine>>,
    /// What the suite sees: the engine itself or its fault-injecting wrapper.
    seen: Option<Arc<dyn Engine>>,
}

impl LocalHarness {
    fn new(faults: Option<FaultSettings>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock::new());
        let state = Mutex::new(State { generation: 0, local: None, seen: None });
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
        let seen: Arc<dyn Engine> = match self.faults {
            Some(faults) => Arc::new(FaultEngine::new(
                local.clone(),
                FaultSettings { seed: faults.seed.wrapping_add(generation), ..faults },
            )),
            None => local.clone(),
        };
        *self.state.lock().unwrap() = State { generation, local: Some(local), seen: Some(seen) };
    }
}

#[async_trait]
impl Harness for LocalHarness {
    fn engine(&self) -> Arc<dyn Engine> {
        self.state.lock().unwrap().seen.clone().unwrap()
    }

    async fn reopen(&self, how: Reopen) {
        let (generation, local) = {
            let mut state = self.state.lock().unwrap();
            state.seen = None;
            (state.generation, state.local.take().unwrap())
        };
        if how == Reopen::Crashed {
            // What a killed process leaves is what its files hold while it still runs.
            copy_tree(&self.data_dir(generation), &self.data_dir(generation + 1));
        } else {
            local.close().await;
        }
        drop(local);
        let next = if how == Reopen::Crashed {
            std::fs::remove_dir_all(self.data_dir(generation)).unwrap();
            generation + 1
        } else {
            generation
        };
        self.open(next);
    }

    fn clock(&self) -> Arc<TestClock> {
        self.clock.clone()
    }
}

/// Copies a folder in use. All writes are acknowledged and too small to start a merge of tables, so the only files
/// that may vanish meanwhile are those of a dropped space.
fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let Some(entries) = unless_gone(std::fs::read_dir(from)) else { return };
    for entry in entries.filter_map(unless_gone) {
        let target = to.join(entry.file_name());
        if unless_gone(entry.file_type()).is_some_and(|file_type| file_type.is_dir()) {
            copy_tree(&entry.path(), &target);
        } else {
            unless_gone(std::fs::copy(entry.path(), target));
        }
    }
}

fn unless_gone<T>(result: std::io::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("cannot copy: {error}"),
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
