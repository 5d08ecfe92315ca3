//! The distributed engine keeps the contract, on a real cluster: `cargo xtask cluster` starts one and runs this.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tavola_engine::conformance::{self, Harness, Reopen, TestClock};
use tavola_engine::{Engine, FaultEngine, FaultSettings};
use tavola_engine_cql::{ClusterSettings, CqlEngine, CqlSettings, init};
use tokio::runtime::Runtime;

/// Short, because every drop of a space waits for it.
const LEASE: Duration = Duration::from_millis(60);

struct CqlHarness {
    settings: CqlSettings,
    clock: Arc<TestClock>,
    faults: Option<FaultSettings>,
    /// Where connections live, whatever runtime the suite makes.
    runtime: Runtime,
    engine: Mutex<Option<Arc<dyn Engine>>>,
}

impl CqlHarness {
    /// A fresh keyspace, because the suite numbers its spaces from one.
    fn new(name: &str, faults: Option<FaultSettings>) -> Self {
        let nodes = std::env::var("TAVOLA_CQL_NODES").expect("TAVOLA_CQL_NODES names the cluster");
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut settings = CqlSettings::new(nodes.split(',').map(str::to_owned).collect());
        settings.keyspace = format!("{name}_{}", since.as_millis());
        let copies = u32::try_from(settings.nodes.len()).unwrap();
        let cluster = ClusterSettings {
            replication: vec![("datacenter1".to_owned(), copies)],
            lease: LEASE,
            content_bucket: None,
        };
        let runtime = Runtime::new().unwrap();
        // Twice, because that must do no harm.
        runtime.block_on(init(&settings, &cluster)).unwrap();
        runtime.block_on(init(&settings, &cluster)).unwrap();
        let clock = Arc::new(TestClock::new());
        let engine = runtime.block_on(CqlEngine::connect(&settings, clock.clone())).unwrap();
        let harness = Self { settings, clock, faults, runtime, engine: Mutex::default() };
        harness.set(engine);
        harness
    }

    fn set(&self, engine: Arc<CqlEngine>) {
        let engine: Arc<dyn Engine> = match self.faults {
            Some(faults) => Arc::new(FaultEngine::new(engine, faults)),
            None => engine,
        };
        *self.engine.lock().unwrap() = Some(engine);
    }
}

#[async_trait]
impl Harness for CqlHarness {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.lock().unwrap().clone().unwrap()
    }

    /// Nothing is kept in a process, so both ends are the same: the engine is dropped as it stands.
    async fn reopen(&self, _how: Reopen) {
        drop(self.engine.lock().unwrap().take());
        let (settings, clock) = (self.settings.clone(), self.clock.clone());
        let connecting = self.runtime.spawn(async move { CqlEngine::connect(&settings, clock).await });
        self.set(connecting.await.unwrap().unwrap());
    }

    fn clock(&self) -> Arc<TestClock> {
        self.clock.clone()
    }
}

#[test]
fn the_distributed_engine_keeps_the_contract() {
    conformance::run(&CqlHarness::new("conformance", None));
}

#[test]
fn the_distributed_engine_with_faults_keeps_the_contract() {
    conformance::run(&CqlHarness::new("faults", Some(FaultSettings::with_seed(7))));
}
