//! A bucket under the conformance suite of contents.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use tavola_bucket::BucketContents;
use tavola_engine::conformance::content::ContentHarness;
use tavola_engine::conformance::{Reopen, TestClock};
use tavola_engine::{ContentFaultSettings, ContentStore, Engine, FaultContents, MemoryEngine};

/// A bucket outlives the server, so a reopening opens it again with what it holds.
pub struct BucketHarness {
    store: Arc<dyn ObjectStore>,
    clock: Arc<TestClock>,
    faults: Option<ContentFaultSettings>,
    engine: Arc<MemoryEngine>,
    contents: Mutex<Arc<dyn ContentStore>>,
}

impl BucketHarness {
    pub fn new(store: Arc<dyn ObjectStore>, faults: Option<ContentFaultSettings>) -> Self {
        let clock = Arc::new(TestClock::new());
        let contents = Mutex::new(open(&store, &clock, faults));
        Self { engine: Arc::new(MemoryEngine::new(clock.clone())), store, clock, faults, contents }
    }
}

fn open(
    store: &Arc<dyn ObjectStore>,
    clock: &Arc<TestClock>,
    faults: Option<ContentFaultSettings>,
) -> Arc<dyn ContentStore> {
    let bucket = Arc::new(BucketContents::new(store.clone(), Path::from("some/path"), clock.clone()));
    match faults {
        Some(faults) => Arc::new(FaultContents::new(bucket, faults)),
        None => bucket,
    }
}

#[async_trait]
impl ContentHarness for BucketHarness {
    fn contents(&self) -> Arc<dyn ContentStore> {
        self.contents.lock().unwrap().clone()
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn reopen(&self, _how: Reopen) {
        *self.contents.lock().unwrap() = open(&self.store, &self.clock, self.faults);
    }

    async fn used_bytes(&self) -> Option<u64> {
        let sizes: Vec<u64> = self.store.list(None).map_ok(|meta| meta.size).try_collect().await.unwrap();
        Some(sizes.iter().sum())
    }
}
