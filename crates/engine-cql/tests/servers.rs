//! Several servers on one cluster, each with a clock of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use scylla::client::session_builder::SessionBuilder;
use tavola_engine::conformance::TestClock;
use tavola_engine::{
    Change, Decision, Engine, EngineError, LoadedRow, ScanRange, ScannedRow, SpaceId, StoredRow, Transacted,
};
use tavola_engine_cql::{ClusterSettings, CqlEngine, CqlSettings, init};
use tavola_model::{Clock, DateTime};

const LEASE: Duration = Duration::from_millis(300);
const SPACE: SpaceId = SpaceId([7; 16]);
const SECOND: i64 = 10_000_000;

/// A keyspace of its own and servers on it.
struct Cluster {
    settings: CqlSettings,
}

impl Cluster {
    async fn new(name: &str) -> Self {
        let nodes = std::env::var("TAVOLA_CQL_NODES").expect("TAVOLA_CQL_NODES names the cluster");
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut settings = CqlSettings::new(nodes.split(',').map(str::to_owned).collect());
        settings.keyspace = format!("{name}_{}", since.as_millis());
        init(&settings, &chosen(&settings)).await.unwrap();
        Self { settings }
    }

    /// A server whose clock is so many seconds ahead of that of the others.
    async fn server(&self, seconds_ahead: i64) -> (Arc<CqlEngine>, Arc<TestClock>) {
        let clock = Arc::new(TestClock::new());
        clock.step(seconds_ahead * SECOND);
        (CqlEngine::connect(&self.settings, clock.clone()).await.unwrap(), clock)
    }
}

fn chosen(settings: &CqlSettings) -> ClusterSettings {
    let copies = u32::try_from(settings.nodes.len()).unwrap();
    ClusterSettings {
        replication: vec![("datacenter1".to_owned(), copies)],
        lease: LEASE,
        content_bucket: None,
    }
}

async fn put(engine: &CqlEngine, partition: &[u8], row: &[u8], body: &str) -> Result<DateTime, EngineError> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
    match engine.transact(SPACE, partition, &[row], &mut decide).await? {
        Transacted::Applied(version) => Ok(version),
        Transacted::Refused => panic!("a put does not refuse"),
    }
}

async fn delete(engine: &CqlEngine, partition: &[u8], row: &[u8]) {
    let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Delete { index: 0 }]);
    engine.transact(SPACE, partition, &[row], &mut decide).await.unwrap();
}

async fn partitions(engine: &CqlEngine) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    let mut visit = |row: ScannedRow<'_>| {
        seen.push(row.partition.to_vec());
        ControlFlow::Continue(())
    };
    engine.scan(SPACE, &ScanRange::all(), &mut visit).await.unwrap();
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_a_partition_go_up_whatever_the_clocks_say() {
    let cluster = Cluster::new("versions").await;
    let (ahead, _) = cluster.server(3600).await;
    let (behind, clock) = cluster.server(0).await;
    ahead.create_space(SPACE).await.unwrap();
    let mut last = DateTime::MIN;
    for round in 0..10 {
        for server in [&ahead, &behind] {
            let version = put(server, b"p", b"r", "body").await.unwrap();
            assert!(version > last, "round {round}");
            last = version;
        }
        delete(&behind, b"p", b"r").await;
        clock.step(-10 * SECOND);
    }
    drop((ahead, behind));
    let (restarted, _) = cluster.server(-7200).await;
    assert!(put(&restarted, b"p", b"r", "body").await.unwrap() > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_write_to_one_partition_lose_nothing() {
    const TASKS: u64 = 8;
    const ROUNDS: u64 = 25;
    let cluster = Cluster::new("contention").await;
    let servers = [cluster.server(0).await.0, cluster.server(5).await.0];
    servers[0].create_space(SPACE).await.unwrap();
    let number =
        |row: Option<&StoredRow>| row.map_or(0, |row| u64::from_be_bytes(row.body[..].try_into().unwrap()));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let server = servers[usize::try_from(task % 2).unwrap()].clone();
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let mut add = |_, found: &[Option<StoredRow>]| {
                        let sum = number(found[0].as_ref()) + 1;
                        let body = Bytes::copy_from_slice(&sum.to_be_bytes());
                        Decision::Apply(vec![Change::Put { index: 0, body }])
                    };
                    server.transact(SPACE, b"p", &[b"sum"], &mut add).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for server in &servers {
        let sum = server.get(SPACE, b"p", b"sum").await.unwrap();
        assert_eq!(number(sum.as_ref()), TASKS * ROUNDS);
    }
    let metrics = servers[0].metrics();
    assert!(metrics.commits < metrics.transactions, "writers of one server were not combined: {metrics:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_dropped_by_one_server_is_gone_on_all_when_that_is_answered() {
    let cluster = Cluster::new("dropped").await;
    let servers = [cluster.server(0).await.0, cluster.server(0).await.0];
    for _ in 0..3 {
        servers[0].create_space(SPACE).await.unwrap();
        assert_eq!(partitions(&servers[1]).await, Vec::<Vec<u8>>::new());
        let is_dropped = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn(write_until_gone(servers[1].clone(), is_dropped.clone()));
        tokio::time::sleep(LEASE * 2).await;
        servers[0].drop_space(SPACE).await.unwrap();
        is_dropped.store(true, Ordering::SeqCst);
        writer.await.unwrap();
        let read = servers[1].get(SPACE, b"p", b"r").await;
        assert!(matches!(read, Err(EngineError::SpaceMissing { .. })));
    }
}

/// Writes until the space is gone, and never succeeds after the drop was answered.
async fn write_until_gone(server: Arc<CqlEngine>, is_dropped: Arc<AtomicBool>) {
    loop {
        let was_dropped = is_dropped.load(Ordering::SeqCst);
        match put(&server, b"p", b"r", "body").await {
            Ok(_) => assert!(!was_dropped, "a write succeeded after the drop"),
            Err(EngineError::SpaceMissing { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_that_another_server_is_dropping_is_gone_on_all_when_its_drop_is_answered() {
    let cluster = Cluster::new("dropped_twice").await;
    let servers = [cluster.server(0).await.0, cluster.server(0).await.0, cluster.server(0).await.0];
    for _ in 0..3 {
        servers[0].create_space(SPACE).await.unwrap();
        let is_dropped = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn(write_until_gone(servers[2].clone(), is_dropped.clone()));
        tokio::time::sleep(LEASE * 2).await;
        let first = servers[0].clone();
        let dropping = tokio::spawn(async move { first.drop_space(SPACE).await });
        while servers[1].spaces().await.unwrap().contains(&SPACE) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let asked = Instant::now();
        servers[1].drop_space(SPACE).await.unwrap();
        is_dropped.store(true, Ordering::SeqCst);
        assert!(asked.elapsed() >= LEASE, "the leases of other servers were not waited out");
        writer.await.unwrap();
        dropping.await.unwrap().unwrap();
    }
}

/// One server tidies all the time, with a clock for which everything is long ago, while others empty their
/// partitions and fill them again. A scan misses no partition that has a row.
#[tokio::test(flavor = "multi_thread")]
async fn no_partition_with_rows_is_missed_while_empty_ones_are_taken_off_the_directory() {
    let cluster = Cluster::new("directory").await;
    let servers = [cluster.server(0).await.0, cluster.server(0).await.0];
    let (janitor, clock) = cluster.server(0).await;
    janitor.create_space(SPACE).await.unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let (done, tidier) = (is_done.clone(), janitor.clone());
    let tidying = tokio::spawn(async move {
        while !done.load(Ordering::SeqCst) {
            clock.step(120 * SECOND);
            tidier.tidy().await.unwrap();
        }
    });
    let tasks: Vec<_> = (0..4u8)
        .map(|task| {
            let server = servers[usize::from(task % 2)].clone();
            tokio::spawn(async move {
                for round in 0..40u8 {
                    let partition = [task, round % 3];
                    put(&server, &partition, b"r", "body").await.unwrap();
                    let seen = partitions(&server).await;
                    assert!(
                        seen.is_sorted() && seen.contains(&partition.to_vec()),
                        "round {round}: {seen:?}"
                    );
                    delete(&server, &partition, b"r").await;
                    assert!(!partitions(&server).await.contains(&partition.to_vec()));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    is_done.store(true, Ordering::SeqCst);
    tidying.await.unwrap();
    assert!(janitor.metrics().partitions_unlisted > 10, "{:?}", janitor.metrics());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_a_dropped_space_are_removed_behind_it() {
    let cluster = Cluster::new("reclaim").await;
    let (server, clock) = cluster.server(0).await;
    server.create_space(SPACE).await.unwrap();
    for partition in 0..20u8 {
        put(&server, &[partition], b"r", "body").await.unwrap();
    }
    server.drop_space(SPACE).await.unwrap();
    let session = SessionBuilder::new().known_nodes(&cluster.settings.nodes).build().await.unwrap();
    let count = async || {
        let select = format!("SELECT space, part FROM {}.row", cluster.settings.keyspace);
        session.query_unpaged(select, ()).await.unwrap().into_rows_result().unwrap().rows_num()
    };
    let before = count().await;
    server.tidy().await.unwrap();
    assert_eq!(count().await, before, "a drop is left alone for a while");
    clock.step(600 * SECOND);
    server.tidy().await.unwrap();
    // Twenty partitions with a head and a row each, and the note of the drop itself.
    assert!(count().await <= before - 40, "{before} rows before, {} after", count().await);
    assert_eq!(server.metrics().spaces_reclaimed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_an_earlier_version_get_the_settings_they_lack() {
    let cluster = Cluster::new("settings").await;
    let keyspace = &cluster.settings.keyspace;
    let session = SessionBuilder::new().known_nodes(&cluster.settings.nodes).build().await.unwrap();
    let seconds = async || {
        let select =
            "SELECT gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
        let found = session.query_unpaged(select, (keyspace, "directory")).await.unwrap();
        found.into_rows_result().unwrap().first_row::<(i32,)>().unwrap().0
    };
    assert_eq!(seconds().await, 3600);
    let before = format!("ALTER TABLE {keyspace}.directory WITH gc_grace_seconds = 864000");
    session.query_unpaged(before, ()).await.unwrap();
    assert_eq!(seconds().await, 864_000);
    init(&cluster.settings, &chosen(&cluster.settings)).await.unwrap();
    assert_eq!(seconds().await, 3600);
}

/// The pages of such a scan are disturbed all the time, and small at first.
#[tokio::test(flavor = "multi_thread")]
async fn a_scan_of_a_partition_that_is_written_all_the_time_is_one_snapshot() {
    const ROWS: u8 = 60;
    let cluster = Cluster::new("snapshot").await;
    let servers = [cluster.server(0).await.0, cluster.server(0).await.0];
    servers[0].create_space(SPACE).await.unwrap();
    for row in 0..ROWS {
        // Small ones first, so that the pages behind them are judged wrongly.
        let bytes = if row < ROWS / 2 { 10 } else { 100_000 };
        put(&servers[0], b"p", &[row], &"x".repeat(bytes)).await.unwrap();
    }
    let is_done = Arc::new(AtomicBool::new(false));
    let (done, writer) = (is_done.clone(), servers[0].clone());
    let write_both = async move || {
        let put = |place| Change::Put { index: place, body: Bytes::from("body") };
        let mut both = |_, _: &[_]| Decision::Apply(vec![put(0), put(1)]);
        writer.transact(SPACE, b"p", &[&[0], &[ROWS - 1]], &mut both).await.unwrap();
    };
    write_both().await;
    let writing = tokio::spawn(async move {
        while !done.load(Ordering::SeqCst) {
            write_both().await;
        }
    });
    for round in 0..5 {
        let mut seen = Vec::new();
        let mut visit = |row: ScannedRow<'_>| {
            seen.push((row.row.to_vec(), row.version));
            ControlFlow::Continue(())
        };
        servers[1].scan(SPACE, &ScanRange::all(), &mut visit).await.unwrap();
        assert!(seen.iter().map(|(row, _)| row[0]).eq(0..ROWS), "round {round}");
        assert_eq!(seen.first().unwrap().1, seen.last().unwrap().1, "round {round}");
    }
    is_done.store(true, Ordering::SeqCst);
    writing.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_import_that_goes_on_does_not_undo_what_was_written_since() {
    let cluster = Cluster::new("outdated").await;
    let (server, clock) = cluster.server(0).await;
    server.create_space(SPACE).await.unwrap();
    let tick = clock.now();
    let stored = StoredRow { version: tick, body: Bytes::from("old") };
    let rows = [b"q", b"r"].map(|row| LoadedRow { row: Bytes::copy_from_slice(row), stored: stored.clone() });
    server.load(SPACE, b"p", tick, &rows).await.unwrap();
    let version = put(&server, b"p", b"r", "new").await.unwrap();
    delete(&server, b"p", b"q").await;
    let again = server.load(SPACE, b"p", tick, &rows).await;
    assert!(matches!(again, Err(EngineError::Failed { .. })), "{again:?}");
    let written = StoredRow { version, body: Bytes::from("new") };
    assert_eq!(server.get(SPACE, b"p", b"r").await.unwrap(), Some(written));
    assert_eq!(server.get(SPACE, b"p", b"q").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_kept_up_to_what_the_nodes_take_and_refused_above() {
    let cluster = Cluster::new("large").await;
    let (server, _) = cluster.server(0).await;
    server.create_space(SPACE).await.unwrap();
    let bytes_max = server.transaction_bytes_max();
    assert_eq!(bytes_max, 12 * 1024 * 1024, "a node that is set as Cassandra is by itself takes that much");
    let names: Vec<[u8; 1]> = (0..12u8).map(|row| [row]).collect();
    let rows: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    // The key of a row has a byte more in the tables.
    for (row_bytes, is_kept) in [(bytes_max / 12 - 2, true), (bytes_max / 12 - 1, false)] {
        let body = Bytes::from(vec![u8::from(is_kept); row_bytes]);
        let put = |place| Change::Put { index: place, body: body.clone() };
        let mut decide = |_, _: &[_]| Decision::Apply((0..12).map(put).collect());
        match server.transact(SPACE, b"p", &rows, &mut decide).await {
            Ok(Transacted::Applied(_)) => assert!(is_kept),
            Err(EngineError::TooLarge { bytes, .. }) => assert!(!is_kept && bytes > bytes_max),
            other => panic!("{other:?}"),
        }
        for row in &rows {
            let body = server.get(SPACE, b"p", row).await.unwrap().unwrap().body;
            assert_eq!(body[0], 1, "nothing of a transaction that is refused is kept");
        }
    }
}

/// What the writers of a round ask for is more than is read at once.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_write_to_many_large_rows_of_one_partition_lose_nothing() {
    const ROW_BYTES: usize = 700_000;
    const ROUNDS: u8 = 2;
    let cluster = Cluster::new("large_rows").await;
    let servers = [cluster.server(0).await.0, cluster.server(0).await.0];
    servers[0].create_space(SPACE).await.unwrap();
    let tasks: Vec<_> = (0..32u8)
        .map(|task| {
            let server = servers[usize::from(task % 2)].clone();
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let mut add = |_, found: &[Option<StoredRow>]| {
                        let sum = found[0].as_ref().map_or(0, |row| row.body[0]) + 1;
                        let body = Bytes::from(vec![sum; ROW_BYTES]);
                        Decision::Apply(vec![Change::Put { index: 0, body }])
                    };
                    server.transact(SPACE, b"p", &[&[task / 2]], &mut add).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for row in 0..16u8 {
        let stored = servers[1].get(SPACE, b"p", &[row]).await.unwrap().unwrap();
        assert_eq!((stored.body[0], stored.body.len()), (2 * ROUNDS, ROW_BYTES));
    }
}

/// Most have one row, so many are read at once; some have more than is then asked for.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_large_and_small_are_scanned_in_order() {
    let cluster = Cluster::new("partitions").await;
    let (server, _) = cluster.server(0).await;
    server.create_space(SPACE).await.unwrap();
    let mut written = Vec::new();
    for partition in 0..150u8 {
        let rows = if partition % 40 == 39 { 30 } else { 1 };
        let names: Vec<[u8; 1]> = (0..rows).map(|row| [row]).collect();
        let keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let put = |place| Change::Put { index: place, body: Bytes::from("body") };
        let mut decide = |_, _: &[_]| Decision::Apply((0..names.len()).map(put).collect());
        server.transact(SPACE, &[partition], &keys, &mut decide).await.unwrap();
        written.extend(names.iter().map(|row| (partition, row[0])));
    }
    let mut seen = Vec::new();
    let mut visit = |row: ScannedRow<'_>| {
        seen.push((row.partition[0], row.row[0]));
        ControlFlow::Continue(())
    };
    server.scan(SPACE, &ScanRange::all(), &mut visit).await.unwrap();
    assert_eq!(seen, written);
}

/// The cluster estimates from what is on its disk, so it is told to write it there at once, and in steps of 128 for each
/// file, so there are more partitions than that.
#[tokio::test(flavor = "multi_thread")]
async fn the_size_of_the_directory_is_known_about() {
    const TASKS: u64 = 20;
    const EACH: u64 = 50;
    let cluster = Cluster::new("census").await;
    let (server, _) = cluster.server(0).await;
    server.create_space(SPACE).await.unwrap();
    let fill = async |task: u64| {
        for number in 0..EACH {
            put(&server, &(task * EACH + number).to_be_bytes(), b"r", "body").await.unwrap();
        }
    };
    futures_util::future::join_all((0..TASKS).map(fill)).await;
    let session = SessionBuilder::new().known_nodes(&cluster.settings.nodes).build().await.unwrap();
    let keyspace = &cluster.settings.keyspace;
    let flush = format!("ALTER TABLE {keyspace}.row WITH memtable_flush_period_in_ms = 500");
    session.query_unpaged(flush, ()).await.unwrap();
    let started = Instant::now();
    loop {
        server.tidy().await.unwrap();
        let entries = server.metrics().directory_entries.unwrap();
        if (TASKS * EACH * 3 / 4..=TASKS * EACH * 3 / 2).contains(&entries) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{entries} of {}", TASKS * EACH);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}
