//! A service whose engine counts what it is asked for, and can be told to stop.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{
    Change, ContentStore, Decide, Decision, Engine, EngineError, LoadedRow, MemoryContents, MemoryEngine,
    Position, ScanRange, ScannedRow, SpaceId, StoredRow, Transacted, Visit,
};
use tavola_model::{BlobCommand, BlobOutcome, DateTime, ErrorCode};
use tavola_service::{Service, ServiceSettings};
use tavola_system::SystemRandom;

use crate::bench::{Bench, clock, create_container, execute};

/// An engine that counts.
pub struct WatchedEngine {
    inner: MemoryEngine,
    pub transactions: AtomicUsize,
    /// Rows that one transaction asked for, and bytes that one wrote, at most.
    pub rows_max: AtomicUsize,
    pub bytes_max: AtomicUsize,
    pub scans: AtomicUsize,
    pub rows_scanned: AtomicUsize,
    pub bytes_scanned: AtomicUsize,
    /// Transactions that are still done; all later ones fail.
    pub left: AtomicUsize,
    /// What somebody else does just before the next transaction, and what happens between the next one and its answer.
    pub before: Event,
    pub after: Event,
    /// Rows that a scan gives of one snapshot, and what somebody else does before the next scan goes on with another one.
    pub snapshot_rows: AtomicUsize,
    pub between: Event,
    /// What somebody else does just before the next scan.
    pub before_scan: Event,
}

/// Something that happens once.
pub type Event = Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>;

pub async fn happen(event: &Event) {
    let taken = event.lock().unwrap().take();
    if let Some(taken) = taken {
        taken.await;
    }
}

/// What a watched engine was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub transactions: usize,
    pub rows_max: usize,
    pub bytes_max: usize,
    pub scans: usize,
    pub rows_scanned: usize,
    pub bytes_scanned: usize,
}

/// A bench on a watched engine.
pub struct Watched {
    pub engine: Arc<WatchedEngine>,
    pub bench: Bench,
}

impl Watched {
    pub fn new() -> Self {
        Self::with(ServiceSettings::default())
    }

    pub fn with(settings: ServiceSettings) -> Self {
        let clock = clock();
        let engine = Arc::new(WatchedEngine {
            inner: MemoryEngine::new(clock.clone()),
            transactions: AtomicUsize::new(0),
            rows_max: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(0),
            scans: AtomicUsize::new(0),
            rows_scanned: AtomicUsize::new(0),
            bytes_scanned: AtomicUsize::new(0),
            left: AtomicUsize::new(usize::MAX),
            before: Mutex::new(None),
            after: Mutex::new(None),
            snapshot_rows: AtomicUsize::new(usize::MAX),
            between: Mutex::new(None),
            before_scan: Mutex::new(None),
        });
        let contents = Arc::new(MemoryContents::new(clock.clone()));
        let random = Arc::new(SystemRandom);
        let service = Service::new(engine.clone() as Arc<dyn Engine>, clock.clone(), random, settings)
            .with_contents(contents.clone() as Arc<dyn ContentStore>);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(execute(&service, create_container(), Bytes::new())).unwrap();
        Self { engine, bench: Bench { service, contents, clock, runtime } }
    }

    /// What a command asks the engine for.
    pub fn asked(&self, command: BlobCommand) -> (Result<BlobOutcome, ErrorCode>, Asked) {
        self.asked_by(|| self.bench.run(command))
    }

    pub fn asked_by<T>(&self, run: impl FnOnce() -> T) -> (T, Asked) {
        let engine = &self.engine;
        let counts = [
            &engine.transactions,
            &engine.rows_max,
            &engine.bytes_max,
            &engine.scans,
            &engine.rows_scanned,
            &engine.bytes_scanned,
        ];
        counts.iter().for_each(|count| count.store(0, Ordering::SeqCst));
        let done = run();
        let [transactions, rows_max, bytes_max, scans, rows_scanned, bytes_scanned] =
            counts.map(|count| count.load(Ordering::SeqCst));
        (done, Asked { transactions, rows_max, bytes_max, scans, rows_scanned, bytes_scanned })
    }

    /// Lets what is done behind answers come to its end.
    pub fn settle(&self) {
        self.bench.runtime.block_on(async {
            for _ in 0..2_000 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// How many entries the index of tags has.
    pub fn index_entries(&self) -> usize {
        self.bench.runtime.block_on(async {
            let mut entries = 0;
            for space in self.engine.inner.spaces().await.unwrap() {
                let mut visit = |row: ScannedRow<'_>| {
                    let is_index = row.partition.first() == Some(&0);
                    entries += usize::from(space != SpaceId::CATALOG && is_index);
                    ControlFlow::Continue(())
                };
                self.engine.inner.scan(space, &ScanRange::all(), &mut visit).await.unwrap();
            }
            entries
        })
    }

    /// The rows of a blob, without the index of tags and the other blobs.
    pub fn rows_of(&self, name: &str) -> Vec<(Vec<u8>, Bytes)> {
        self.bench.runtime.block_on(async {
            let mut found = Vec::new();
            for space in self.engine.inner.spaces().await.unwrap() {
                let range = ScanRange { from: Position::partition_start(name.as_bytes()), before: None };
                let mut visit = |row: ScannedRow<'_>| {
                    if space != SpaceId::CATALOG && row.partition == name.as_bytes() {
                        found.push((row.row.to_vec(), row.body));
                    }
                    ControlFlow::Continue(())
                };
                self.engine.inner.scan(space, &range, &mut visit).await.unwrap();
            }
            found
        })
    }
}

#[async_trait]
impl Engine for WatchedEngine {
    async fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.inner.create_space(space).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.inner.drop_space(space).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        self.inner.spaces().await
    }

    async fn transact(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError> {
        happen(&self.before).await;
        let one_less = |left: usize| if left == usize::MAX { Some(left) } else { left.checked_sub(1) };
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            return Err(EngineError::Unavailable { reason: "it was told to stop" });
        }
        self.transactions.fetch_add(1, Ordering::SeqCst);
        self.rows_max.fetch_max(rows.len(), Ordering::SeqCst);
        let mut counted = |now: DateTime, rows: &[Option<StoredRow>]| {
            let decision = decide(now, rows);
            if let Decision::Apply(changes) = &decision {
                let bytes = changes.iter().map(|change| match change {
                    Change::Put { body, .. } => body.len(),
                    Change::Delete { .. } => 0,
                });
                self.bytes_max.fetch_max(bytes.sum(), Ordering::SeqCst);
            }
            decision
        };
        let done = self.inner.transact(space, partition, rows, &mut counted).await;
        happen(&self.after).await;
        done
    }

    async fn load(
        &self,
        space: SpaceId,
        partition: &[u8],
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<(), EngineError> {
        self.inner.load(space, partition, tick, rows).await
    }

    async fn get(
        &self,
        space: SpaceId,
        partition: &[u8],
        row: &[u8],
    ) -> Result<Option<StoredRow>, EngineError> {
        self.inner.get(space, partition, row).await
    }

    async fn scan(
        &self,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        happen(&self.before_scan).await;
        self.scans.fetch_add(1, Ordering::SeqCst);
        let mut range = range.clone();
        loop {
            let (mut rows, mut next) = (0, None);
            let mut counted = |row: ScannedRow<'_>| {
                if rows >= self.snapshot_rows.load(Ordering::SeqCst) {
                    next = Some(Position::at(row.partition, row.row));
                    return ControlFlow::Break(());
                }
                rows += 1;
                self.rows_scanned.fetch_add(1, Ordering::SeqCst);
                self.bytes_scanned.fetch_add(row.body.len(), Ordering::SeqCst);
                visit(row)
            };
            self.inner.scan(space, &range, &mut counted).await?;
            let Some(from) = next else { return Ok(()) };
            happen(&self.between).await;
            range.from = from;
        }
    }
}
