//! Scans beside short requests: where they run, that they take turns, and when they end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use common::hooks::{HookedEngine, Hooks};
use common::{HeldClock, account, properties, table};
use tavola_auth::Permitted;
use tavola_engine::{Engine, EngineError, MemoryEngine, ScanRange, ScannedRow, SpaceId, Visit};
use tavola_model::{
    Command, DateTime, EntityPage, ErrorCode, Outcome, QueryEntities, ServiceError, TableCommand,
    TableOutcome,
};
use tavola_odata::parse_filter;
use tavola_service::{AnswerBudget, Service, ServiceSettings};
use tavola_system::SystemRandom;

/// A hang guard.
const PATIENCE: Duration = Duration::from_secs(120);
/// Rows between two points at which a scan gives way.
const ROWS_AT_ONCE: usize = 100;

/// Tables with rows without end, which are made up as they are read.
struct Endless {
    /// On which threads rows were visited.
    threads: Mutex<Vec<String>>,
    /// Scans end when this is so, after so many rows at least.
    may_end: AtomicBool,
    rows_min: usize,
    scans_open: Arc<AtomicUsize>,
}

/// Counts a scan for as long as it is there.
struct OpenScan(Arc<AtomicUsize>);

impl Drop for OpenScan {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Hooks for Endless {
    async fn scan(
        &self,
        inner: &MemoryEngine,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        if space == SpaceId::CATALOG {
            return inner.scan(space, range, visit).await;
        }
        self.scans_open.fetch_add(1, Ordering::Relaxed);
        let _open = OpenScan(self.scans_open.clone());
        let body = properties("n=1").as_bytes().clone();
        let mut rows = 0;
        while rows < self.rows_min || !self.may_end.load(Ordering::Relaxed) {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            self.threads.lock().unwrap().push(thread);
            for _ in 0..ROWS_AT_ONCE {
                rows += 1;
                let row = format!("{rows:09}");
                let scanned = ScannedRow {
                    partition: b"p",
                    row: row.as_bytes(),
                    version: DateTime::MIN,
                    body: body.clone(),
                };
                if visit(scanned) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

async fn serve(rows_min: usize, may_end: bool) -> (Service, Arc<Endless>) {
    let clock = HeldClock::new();
    let scans = Arc::new(Endless {
        threads: Mutex::default(),
        may_end: AtomicBool::new(may_end),
        rows_min,
        scans_open: Arc::default(),
    });
    let engine = HookedEngine::new(MemoryEngine::new(clock.clone()), scans.clone());
    let service = Service::new(engine, clock, Arc::new(SystemRandom), ServiceSettings::default());
    let create = Command::Table(TableCommand::CreateTable(table("People")));
    service.execute(Permitted::unchecked_for_test(account(), create, None)).await.unwrap();
    (service, scans)
}

async fn query(
    service: &Service,
    filter: &str,
    top: Option<usize>,
    budget: Option<Arc<dyn AnswerBudget>>,
) -> Result<EntityPage, ServiceError> {
    let filter = parse_filter(filter).unwrap();
    let query = QueryEntities { table: table("People"), filter, top, from: None };
    let command = Command::Table(TableCommand::QueryEntities(query));
    let permitted = Permitted::unchecked_for_test(account(), command, None);
    match service.execute_within(permitted, budget).await? {
        Outcome::Table(TableOutcome::EntitiesQueried(page)) => Ok(page),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_run_on_threads_of_their_own_and_short_ones_do_not() {
    let (service, scans) = serve(10_000, true).await;
    let page = query(&service, "n eq 7", None, None).await.unwrap();
    assert_eq!((page.plan.scanned, page.entities.len()), (10_000, 0));
    let threads = std::mem::take(&mut *scans.threads.lock().unwrap());
    let own = threads.iter().filter(|name| *name == "tavola-scan").count();
    assert_eq!(threads.len() - own, 12, "a full page and what is looked at behind it stay");
    assert!(threads[12..].iter().all(|name| name == "tavola-scan"), "{threads:?}");
    query(&service, "", None, None).await.unwrap();
    let threads = scans.threads.lock().unwrap();
    assert!(threads.iter().all(|name| name != "tavola-scan"), "{threads:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_is_not_behind_others_that_do_not_end() {
    let (service, scans) = serve(5_000, false).await;
    let endless: Vec<_> = (0..8)
        .map(|_| {
            let service = service.clone();
            tokio::spawn(async move { query(&service, "n eq 7", None, None).await })
        })
        .collect();
    let wait = async {
        while scans.scans_open.load(Ordering::Relaxed) < 8 {
            tokio::task::yield_now().await;
        }
        // Its page is full with the first row that it takes.
        query(&service, "RowKey gt '000004000'", Some(1), None).await
    };
    let page = tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
    assert_eq!(page.entities.len(), 1);
    scans.may_end.store(true, Ordering::Relaxed);
    for scan in endless {
        assert!(scan.await.unwrap().unwrap().plan.scanned >= 5_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_that_nobody_waits_for_ends() {
    let (service, scans) = serve(0, false).await;
    let scan = tokio::spawn({
        let service = service.clone();
        async move { query(&service, "n eq 7", None, None).await }
    });
    let is_long = || scans.threads.lock().unwrap().iter().any(|name| name == "tavola-scan");
    while !is_long() {
        tokio::task::yield_now().await;
    }
    assert_eq!(scans.scans_open.load(Ordering::Relaxed), 1);
    scan.abort();
    let ended = async {
        while scans.scans_open.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
}

/// So many bytes.
struct BytesLeft(AtomicUsize);

impl AnswerBudget for BytesLeft {
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_ends_where_there_is_no_more_budget() {
    let (service, _) = serve(5_000, true).await;
    let mut counts = Vec::new();
    for bytes in [0, 16 * 1024, 1024 * 1024] {
        let page = query(&service, "", None, Some(Arc::new(BytesLeft(bytes.into())))).await.unwrap();
        assert!(page.next.is_some(), "a continuation follows");
        counts.push(page.entities.len());
    }
    assert!(counts[0] > 0 && counts[0] < counts[2], "{counts:?}");
    assert_eq!(counts[2], 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_could_hold_nothing_is_refused() {
    struct NothingLeft;
    impl AnswerBudget for NothingLeft {
        fn take(&self, _: usize) -> bool {
            false
        }
    }
    let (service, _) = serve(0, true).await;
    let text = "x".repeat(30_000);
    let key = common::entity_key("p/r");
    let change = tavola_model::EntityChange::Insert(properties(&format!("s={text}")));
    let write = tavola_model::EntityWrite { key, change };
    let command = Command::Table(TableCommand::WriteEntity(table("People"), write));
    service.execute(Permitted::unchecked_for_test(account(), command, None)).await.unwrap();
    let point = "PartitionKey eq 'p' and RowKey eq 'r'";
    let refused = query(&service, point, None, Some(Arc::new(NothingLeft))).await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::ServerBusy);
    assert_eq!(query(&service, point, None, None).await.unwrap().entities.len(), 1);
}
