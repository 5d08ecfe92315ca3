//! A data folder that is closed or crashed and opened again, for the conformance suites.

#![allow(dead_code, reason = "only the suites use it")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tavola_engine::conformance::{Reopen, TestClock};
use tavola_engine_local::{LocalEngine, LocalSettings};

/// An engine on a folder of its own. After a crash it goes on in a copy of the folder.
pub struct Reopened {
    root: tempfile::TempDir,
    pub clock: Arc<TestClock>,
    state: Mutex<State>,
}

struct State {
    /// How often it has crashed.
    generation: u64,
    engine: Option<Arc<LocalEngine>>,
}

impl Reopened {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let state = Mutex::new(State { generation: 0, engine: None });
        let reopened = Self { root, clock: Arc::new(TestClock::new()), state };
        reopened.open(0);
        reopened
    }

    /// The engine as it is open now, and how often it has crashed.
    pub fn engine(&self) -> (Arc<LocalEngine>, u64) {
        let state = self.state.lock().unwrap();
        (state.engine.clone().unwrap(), state.generation)
    }

    /// Ends the engine, of which the caller must hold nothing, and opens it again.
    pub async fn reopen(&self, how: Reopen) {
        let (generation, engine) = {
            let mut state = self.state.lock().unwrap();
            (state.generation, state.engine.take().unwrap())
        };
        let next = match how {
            Reopen::Crashed => {
                // What a killed process leaves is what its files hold while it still runs.
                super::copy_tree(&self.data_dir(generation), &self.data_dir(generation + 1));
                drop(engine);
                std::fs::remove_dir_all(self.data_dir(generation)).unwrap();
                generation + 1
            }
            Reopen::Closed => {
                engine.close().await;
                drop(engine);
                generation
            }
        };
        self.open(next);
    }

    fn data_dir(&self, generation: u64) -> PathBuf {
        self.root.path().join(generation.to_string())
    }

    fn open(&self, generation: u64) {
        let settings = LocalSettings::new(self.data_dir(generation));
        let engine = LocalEngine::open(settings, self.clock.clone()).unwrap();
        *self.state.lock().unwrap() = State { generation, engine: Some(engine) };
    }
}
