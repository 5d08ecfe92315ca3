//! The distributed engine keeps the contract, on a real cluster: `cargo xtask cluster` starts one and runs this.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tavola_engine::conformance::{self, Harness, Reopen, TestClock};
use tavola_engine::{Engine, FaultEngine, FaultSettings};
use tavola_engine_cql::{ClusterSettings, CqlEngine, CqlSettings, init};
use tavola_model::{Clock, DateTime};
use tokio::runtime::Runtime;

/// Short, because every drop of a space waits for it.
const LEASE: Duration = Duration::from_millis(60);

/// The suite compares versions of different partitions too, also after a restart while its clock stands still or
/// has stepped back. The contract asks that within a partition only, and servers share nothing but the cluster, so
/// here the clock goes on from reading to reading. `servers.rs` has clocks that do not.
struct Unstoppable {
    clock: Arc<TestClock>,
    last: AtomicU64,
}

impl Clock for Unstoppable {
    fn now(&self) -> DateTime {
        let now = self.clock.now().ticks();
        let after = |last: u64| now.max(last + 1);
        let last = self.last.update(Ordering::AcqRel, Ordering::Acquire, after);
        DateTime::from_ticks(after(last)).unwrap()
    }
}

struct CqlHarness {
    settings: CqlSettings,
    clock: Arc<TestClock>,
    engine_clock: Arc<Unstoppable>,
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
        let cluster = ClusterSettings { replication: vec![("datacenter1".to_owned(), copies)], lease: LEASE };
        let runtime = Runtime::new().unwrap();
        // Twice, because that must do no harm.
        runtime.block_on(init(&settings, &cluster)).unwrap();
        runtime.block_on(init(&settings, &cluster)).unwrap();
        let clock = Arc::new(TestClock::new());
        let engine_clock = Arc::new(Unstoppable { clock: clock.clone(), last: AtomicU64::new(0) });
        let engine = runtime.block_on(CqlEngine::connect(&settings, engine_clock.clone())).unwrap();
        let harness = Self { settings, clock, engine_clock, faults, runtime, engine: Mutex::default() };
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
        let (settings, clock) = (self.settings.clone(), self.engine_clock.clone());
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
