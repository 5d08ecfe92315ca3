//! The contents of the distributed engine keep the contract, on a real cluster: `cargo xtask cluster` starts one and runs
//! this.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tavola_engine::conformance::content::{self, ContentHarness};
use tavola_engine::conformance::{Reopen, TestClock};
use tavola_engine::{ContentFaultSettings, ContentStore, Engine, FaultContents};
use tavola_engine_cql::{ClusterSettings, CqlEngine, CqlSettings, init};
use tokio::runtime::Runtime;

struct CqlHarness {
    settings: CqlSettings,
    clock: Arc<TestClock>,
    faults: Option<ContentFaultSettings>,
    /// Where connections live, whatever runtime the suite makes.
    runtime: Runtime,
    engine: Mutex<Option<Arc<CqlEngine>>>,
}

impl CqlHarness {
    fn new(name: &str, faults: Option<ContentFaultSettings>) -> Self {
        let nodes = std::env::var("TAVOLA_CQL_NODES").expect("TAVOLA_CQL_NODES names the cluster");
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut settings = CqlSettings::new(nodes.split(',').map(str::to_owned).collect());
        settings.keyspace = format!("{name}_{}", since.as_millis());
        let copies = u32::try_from(settings.nodes.len()).unwrap();
        let lease = Duration::from_millis(60);
        let cluster = ClusterSettings {
            replication: vec![("datacenter1".to_owned(), copies)],
            lease,
            content_bucket: None,
        };
        let runtime = Runtime::new().unwrap();
        runtime.block_on(init(&settings, &cluster)).unwrap();
        let clock = Arc::new(TestClock::new());
        let engine = runtime.block_on(CqlEngine::connect(&settings, clock.clone())).unwrap();
        Self { settings, clock, faults, runtime, engine: Mutex::new(Some(engine)) }
    }
}

#[async_trait]
impl ContentHarness for CqlHarness {
    fn contents(&self) -> Arc<dyn ContentStore> {
        let contents = self.engine.lock().unwrap().as_ref().unwrap().contents();
        match self.faults {
            Some(faults) => Arc::new(FaultContents::new(contents, faults)),
            None => contents,
        }
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.lock().unwrap().clone().unwrap()
    }

    /// Nothing is kept in a process, so both ends are the same: the engine is dropped as it stands.
    async fn reopen(&self, _how: Reopen) {
        drop(self.engine.lock().unwrap().take());
        let (settings, clock) = (self.settings.clone(), self.clock.clone());
        let connecting = self.runtime.spawn(async move { CqlEngine::connect(&settings, clock).await });
        *self.engine.lock().unwrap() = Some(connecting.await.unwrap().unwrap());
    }

    /// The cluster frees disk space when it compacts.
    async fn used_bytes(&self) -> Option<u64> {
        None
    }
}

#[test]
fn the_contents_of_the_distributed_engine_keep_the_contract() {
    content::run(&CqlHarness::new("contents", None));
}

#[test]
fn the_contents_of_the_distributed_engine_with_faults_keep_the_contract() {
    content::run(&CqlHarness::new("content_faults", Some(ContentFaultSettings::with_seed(7))));
}
