//! From records to blobs and tables, on a store in a folder and with times that the test chooses.

use tavola_auth::{Account, Accounts};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_model::{
    BlobCommand, BlobConditions, BlobHeaders, BlobName, BlobOutcome, BlobPath, Command, ContainerName,
    EdmValue, EntityPage, ErrorCode, GetBlob, Metrics, Outcome, Properties, QueryEntities, QueryTables,
    RetentionPolicy, TableCommand, TableName, TableOutcome,
};
use tavola_service::ServiceSettings;
use tavola_system::{SystemClock, SystemRandom};
use tavola_telemetry::LoggedFields;

use super::*;

struct Bench {
    analytics: Arc<Analytics>,
    store: AnalyticsStore,
    account: AccountName,
    _folder: tempfile::TempDir,
}

impl Bench {
    async fn new(properties: ServiceProperties) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock);
        let engine = LocalEngine::open(LocalSettings::new(folder.path()), clock.clone()).unwrap();
        let contents = engine.contents();
        let service = Service::new(engine, clock.clone(), Arc::new(SystemRandom), ServiceSettings::default());
        let service = service.with_contents(contents);
        service.start().await.unwrap();
        let accounts = LiveAccounts::new(Accounts::new(vec![Account::development()]).unwrap());
        let store = AnalyticsStore::new(service, accounts, clock);
        let account = AccountName::parse("devstoreaccount1").unwrap();
        let analytics = Analytics::new(60);
        let settings = HashMap::from([((account.clone(), StorageService::Table), properties)]);
        analytics.settings.store(Arc::new(settings));
        Self { analytics, store, account, _folder: folder }
    }

    fn record(&self, received: &str, operation: &'static str, status: u16) -> AccessRecord {
        let detail = detail(if operation == "GetEntity" { AccessKind::Read } else { AccessKind::Write });
        AccessRecord {
            account: Some(self.account.clone()),
            operation: Some(operation),
            status,
            code: (status == 404).then_some(ErrorCode::ResourceNotFound),
            bytes_in: 10,
            bytes_out: 20,
            detail: Some(Box::new(detail)),
            ..AccessRecord::new(time(received), StorageService::Table)
        }
    }

    async fn logs(&self) -> Vec<String> {
        self.store.log_names(&self.account, "").await.unwrap()
    }

    /// The text of a log, and its metadata.
    async fn read_log(&self, name: &str) -> (String, Vec<(String, String)>) {
        let path = BlobPath {
            container: ContainerName::parse("$logs").unwrap(),
            name: BlobName::parse(name).unwrap(),
        };
        let get = GetBlob {
            target: path.into(),
            range: None,
            range_sum: None,
            overrides: BlobHeaders::default(),
            conditions: BlobConditions::default(),
        };
        let executed =
            self.store.execute_whole(&self.account, BlobCommand::GetBlob(get).into()).await.unwrap();
        let Outcome::Blob(outcome) = executed.outcome else { panic!() };
        let BlobOutcome::BlobGot(got) = *outcome else { panic!() };
        let metadata = got.properties.metadata.iter();
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let (mut source, mut bytes) = (executed.download.unwrap(), Vec::new());
        while let Some(piece) = source.next().await.unwrap() {
            bytes.extend_from_slice(&piece);
        }
        (String::from_utf8(bytes).unwrap(), metadata)
    }

    async fn entities(&self, table: &str) -> Vec<(String, String, Properties)> {
        let table = TableName::parse_metrics(table).unwrap();
        let query = QueryEntities { table, filter: None, top: None, from: None };
        let queried = self.store.execute(&self.account, TableCommand::QueryEntities(query).into()).await;
        let Ok(Outcome::Table(TableOutcome::EntitiesQueried(EntityPage { entities, .. }))) = queried else {
            return Vec::new();
        };
        let shown = |entity: tavola_model::StoredEntity| {
            let (partition, row) = (entity.key.partition.as_str().into(), entity.key.row.as_str().into());
            (partition, row, entity.properties)
        };
        entities.into_iter().map(shown).collect()
    }
}

fn detail(access: AccessKind) -> RequestDetail {
    RequestDetail {
        authentication: Authentication::Key,
        access,
        request_head_bytes: 100,
        response_head_bytes: 200,
        logged: Some(Box::new(LoggedFields {
            url: "http://127.0.0.1:10002/devstoreaccount1/People".into(),
            object_key: "/devstoreaccount1/People".into(),
            peer: ([127, 0, 0, 1], 4362).into(),
            version: None,
            content_length: None,
            content_md5: None,
            etag: None,
            last_modified: None,
            conditions: "".into(),
            user_agent: None,
            referrer: None,
            copy_source: None,
        })),
    }
}

fn time(text: &str) -> DateTime {
    DateTime::parse(text).unwrap()
}

fn everything() -> ServiceProperties {
    let retention = RetentionPolicy { days: Some(7) };
    let metrics = Metrics { version: "1.0".into(), enabled: true, include_apis: Some(true), retention };
    ServiceProperties {
        logging: Logging { version: "2.0".into(), delete: true, read: true, write: true, retention },
        hour_metrics: metrics.clone(),
        minute_metrics: metrics,
        ..ServiceProperties::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_blobs_of_their_hour_with_times_in_the_metadata() {
    let bench = Bench::new(everything()).await;
    bench.analytics.observe(&[
        bench.record("2026-11-16T06:59:58Z", "InsertEntity", 201),
        bench.record("2026-11-16T06:59:59Z", "GetEntity", 200),
        bench.record("2026-11-16T07:00:01Z", "GetEntity", 404),
    ]);
    bench.analytics.write_due(&bench.store, time("2026-11-16T07:00:02Z"), false).await;
    assert!(bench.logs().await.is_empty(), "they wait for more");
    bench.analytics.write_due(&bench.store, time("2026-11-16T07:01:05Z"), false).await;
    let first = "table/2026/11/16/0600/000000.log";
    assert_eq!(bench.logs().await, [first, "table/2026/11/16/0700/000000.log"]);
    let (text, metadata) = bench.read_log(first).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("2.0;2026-11-16T06:59:58.0000000Z;InsertEntity;Success;201;"), "{text}");
    let pairs = [
        ("EndTime", "2026-11-16T06:59:59Z"),
        ("LogType", "read,write"),
        ("LogVersion", "2.0"),
        ("StartTime", "2026-11-16T06:59:58Z"),
    ];
    assert_eq!(metadata, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    bench.analytics.observe(&[bench.record("2026-11-16T06:59:59.5Z", "GetEntity", 200)]);
    bench.analytics.write_due(&bench.store, time("2026-11-16T07:01:06Z"), true).await;
    assert_eq!(bench.logs().await[1], "table/2026/11/16/0600/000001.log", "the next one of the hour");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_kinds_of_access_that_are_asked_for_are_logged() {
    let mut properties = everything();
    properties.logging.read = false;
    let bench = Bench::new(properties).await;
    bench.analytics.observe(&[
        bench.record("2026-11-16T06:00:00Z", "GetEntity", 200),
        bench.record("2026-11-16T06:00:01Z", "InsertEntity", 201),
    ]);
    bench.analytics.write_due(&bench.store, time("2026-11-16T06:10:00Z"), true).await;
    let (text, _) = bench.read_log("table/2026/11/16/0600/000000.log").await;
    assert_eq!((text.lines().count(), text.contains("InsertEntity")), (1, true), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_summed_by_hour_and_minute_and_hidden_from_the_list_of_tables() {
    let bench = Bench::new(everything()).await;
    bench.analytics.observe(&[
        bench.record("2026-11-16T06:00:10Z", "GetEntity", 200),
        bench.record("2026-11-16T06:00:20Z", "GetEntity", 404),
        bench.record("2026-11-16T06:01:00Z", "InsertEntity", 201),
    ]);
    bench.analytics.write_due(&bench.store, time("2026-11-16T06:01:30Z"), false).await;
    let minutes = bench.entities("$MetricsMinutePrimaryTransactionsTable").await;
    let keys: Vec<_> = minutes.iter().map(|(partition, row, _)| format!("{partition} {row}")).collect();
    assert_eq!(keys, ["20261116T0600 user;All", "20261116T0600 user;GetEntity"]);
    assert!(bench.entities("$MetricsHourPrimaryTransactionsTable").await.is_empty(), "the hour goes on");

    // A restart within the hour: what is written later is added to what was written before.
    bench.analytics.write_due(&bench.store, time("2026-11-16T06:01:31Z"), true).await;
    bench.analytics.observe(&[bench.record("2026-11-16T06:30:00Z", "GetEntity", 200)]);
    bench.analytics.write_due(&bench.store, time("2026-11-16T07:00:06Z"), false).await;
    let hours = bench.entities("$MetricsHourPrimaryTransactionsTable").await;
    let (partition, row, all) = &hours[0];
    assert_eq!((partition.as_str(), row.as_str()), ("20261116T0600", "user;All"));
    for (name, value) in [
        ("TotalRequests", EdmValue::Int64(4)),
        ("TotalBillableRequests", EdmValue::Int64(4)),
        ("TotalIngress", EdmValue::Int64(440)),
        ("TotalEgress", EdmValue::Int64(880)),
        ("Success", EdmValue::Int64(3)),
        ("ClientOtherError", EdmValue::Int64(1)),
        ("PercentSuccess", EdmValue::Double(75.0)),
        ("Availability", EdmValue::Double(100.0)),
    ] {
        assert_eq!(all.get(name), Some(value), "{name}");
    }
    let list = TableCommand::QueryTables(QueryTables::default());
    let Ok(Outcome::Table(TableOutcome::TablesQueried(page))) =
        bench.store.execute(&bench.account, Command::Table(list)).await
    else {
        panic!()
    };
    assert!(page.tables.is_empty(), "{:?}", page.tables);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_older_than_its_retention_goes() {
    let bench = Bench::new(everything()).await;
    for received in ["2026-11-01T06:00:00Z", "2026-11-09T06:00:00Z", "2026-11-15T06:00:00Z"] {
        bench.analytics.observe(&[bench.record(received, "GetEntity", 200)]);
    }
    bench.analytics.write_due(&bench.store, time("2026-11-16T06:00:00Z"), true).await;
    assert_eq!(bench.logs().await.len(), 3);
    bench.analytics.sweep(&bench.store, time("2026-11-16T06:30:00Z")).await;
    assert_eq!(bench.logs().await, ["table/2026/11/09/0600/000000.log", "table/2026/11/15/0600/000000.log"]);
    let hours = bench.entities("$MetricsHourPrimaryTransactionsTable").await;
    assert!(hours.iter().all(|(partition, ..)| partition.as_str() >= "20261109T0600"), "{hours:?}");
    assert_eq!(hours.len(), 2, "of the ninth, in the hour of the sweep, the sum is a little too old");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_that_several_write_at_once_are_added_to_each_other() {
    let bench = Arc::new(Bench::new(everything()).await);
    bench.analytics.observe(&[bench.record("2026-11-16T06:00:10Z", "GetEntity", 200)]);
    let Due { totals, .. } = bench.analytics.take_due(time("2026-11-16T07:00:06Z"), true);
    let (key, sums) = totals.into_iter().find(|(key, _)| key.period == Period::Hour).unwrap();
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let (bench, key, sums) = (bench.clone(), key.clone(), sums.clone());
            tokio::spawn(async move { bench.store.write_totals(&key, &sums).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let hours = bench.entities("$MetricsHourPrimaryTransactionsTable").await;
    assert_eq!(hours[0].2.get("TotalRequests"), Some(EdmValue::Int64(8)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_that_several_write_at_once_do_not_overwrite_each_other() {
    let bench = Arc::new(Bench::new(everything()).await);
    bench.analytics.observe(&[bench.record("2026-11-16T06:00:10Z", "GetEntity", 200)]);
    let Due { logs, .. } = bench.analytics.take_due(time("2026-11-16T07:00:06Z"), true);
    let (key, log) = logs.into_iter().next().unwrap();
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let (bench, key, log) = (bench.clone(), key.clone(), log.clone());
            tokio::spawn(async move { bench.store.write_log(&key, &log).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let names: Vec<String> = (0..8).map(|n| format!("table/2026/11/16/0600/{n:06}.log")).collect();
    assert_eq!(bench.logs().await, names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_waits_for_the_next_time() {
    let bench = Bench::new(everything()).await;
    // The account is not known to this store, so nothing can be written for it.
    let clock = Arc::new(SystemClock);
    let nobody = LiveAccounts::new(Accounts::new(vec![Account::parse("other:aG9sZGVy").unwrap()]).unwrap());
    let broken = AnalyticsStore::new(bench.store.service(), nobody, clock);
    bench.analytics.observe(&[bench.record("2026-11-16T06:00:10Z", "GetEntity", 200)]);
    let written = bench.analytics.write_due(&broken, time("2026-11-16T06:02:00Z"), false).await;
    assert_eq!((written, bench.analytics.left_out()), (Written::Some, 0));
    bench.analytics.observe(&[bench.record("2026-11-16T06:02:10Z", "GetEntity", 200)]);
    let written = bench.analytics.write_due(&bench.store, time("2026-11-16T06:02:11Z"), false).await;
    assert_eq!(written, Written::All);
    let (text, metadata) = bench.read_log("table/2026/11/16/0600/000000.log").await;
    let times: Vec<&str> = text.lines().map(|line| &line[4..23]).collect();
    assert_eq!(times, ["2026-11-16T06:00:10", "2026-11-16T06:02:10"]);
    assert!(metadata.contains(&("EndTime".to_owned(), "2026-11-16T06:02:10Z".to_owned())), "{metadata:?}");
    // At the end there is no next time, so its lines are counted.
    bench.analytics.observe(&[bench.record("2026-11-16T06:03:10Z", "GetEntity", 200)]);
    bench.analytics.write_due(&broken, time("2026-11-16T06:03:11Z"), true).await;
    assert_eq!(bench.analytics.left_out(), 1);
}

#[test]
fn logs_in_memory_are_bounded_and_what_is_left_out_is_counted() {
    let key = LogKey {
        account: AccountName::parse("devstoreaccount1").unwrap(),
        service: "table",
        hour: time("2026-11-16T06:00:00Z"),
    };
    let log = |bytes: usize| {
        let mut log = Log::new("1.0", time("2026-11-16T06:00:00Z"));
        log.text = format!("{}\n", "x".repeat(bytes - 1));
        log
    };
    let mut gathered = Gathered::default();
    gathered.put_back(key.clone(), log(LOG_BYTES_MAX / 2));
    gathered.put_back(key.clone(), log(LOG_BYTES_MAX / 2));
    assert_eq!((gathered.logs[&key].text.len(), gathered.left_out), (LOG_BYTES_MAX, 0));
    gathered.put_back(key.clone(), log(2));
    assert_eq!((gathered.logs[&key].text.len(), gathered.left_out), (LOG_BYTES_MAX, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_grows_fast_does_not_wait_for_the_tick() {
    let bench = Bench::new(everything()).await;
    let mut records = Vec::new();
    let mut bytes = 0;
    while bytes < LOG_BYTES_DUE {
        let mut record = bench.record("2026-11-16T06:00:10Z", "GetEntity", 200);
        if let Some(logged) = record.detail.as_mut().and_then(|detail| detail.logged.as_mut()) {
            logged.user_agent = Some("a".repeat(10_000).into());
        }
        bytes += 10_000;
        records.push(record);
    }
    let is_told = || {
        let told = bench.analytics.due.notified();
        let mut told = std::pin::pin!(told);
        told.as_mut().enable()
    };
    bench.analytics.observe(&records[..1]);
    assert!(!is_told(), "one line waits");
    bench.analytics.observe(&records[1..]);
    assert!(is_told(), "a mebibyte does not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_anonymous_requests_most_failures_are_not_logged() {
    let bench = Bench::new(everything()).await;
    let anonymous = |second: u32, operation, status, code: Option<ErrorCode>| {
        let mut record = bench.record(&format!("2026-11-16T06:00:{second:02}Z"), operation, status);
        record.code = code;
        if let Some(detail) = &mut record.detail {
            detail.authentication = Authentication::Anonymous;
        }
        record
    };
    bench.analytics.observe(&[
        anonymous(1, "GetEntity", 200, None),
        anonymous(2, "GetEntity", 404, Some(ErrorCode::ResourceNotFound)),
        anonymous(3, "GetEntity", 403, Some(ErrorCode::AuthenticationFailed)),
        anonymous(4, "GetEntity", 304, Some(ErrorCode::NotModified)),
        anonymous(5, "GetEntity", 500, Some(ErrorCode::InternalError)),
        anonymous(6, "GetEntity", 0, None),
        anonymous(7, "InsertEntity", 304, Some(ErrorCode::NotModified)),
    ]);
    bench.analytics.write_due(&bench.store, time("2026-11-16T06:10:00Z"), true).await;
    let (text, _) = bench.read_log("table/2026/11/16/0600/000000.log").await;
    let seconds: Vec<&str> = text.lines().map(|line| &line[21..23]).collect();
    assert_eq!(seconds, ["01", "04", "05"], "{text}");
}

#[test]
fn a_record_that_stands_for_several_counts_for_them() {
    let (account, received) = (AccountName::parse("devstoreaccount1").unwrap(), time("2026-11-16T06:00:10Z"));
    let record = AccessRecord {
        account: Some(account.clone()),
        status: 200,
        bytes_in: 10,
        weight: 64,
        detail: Some(Box::new(detail(AccessKind::Read))),
        ..AccessRecord::new(received, StorageService::Table)
    };
    let mut gathered = Gathered::default();
    gathered.add(&record, &ServiceProperties::default());
    let (key, totals) = gathered.totals.first_key_value().unwrap();
    assert_eq!((key.period, key.operation), (Period::Hour, None), "a new account has these");
    let properties = totals.properties().unwrap();
    for (name, sum) in [("TotalRequests", 64), ("TotalIngress", 64 * 110), ("Success", 64)] {
        assert_eq!(properties.get(name), Some(EdmValue::Int64(sum)), "{name}");
    }
    assert_eq!(
        detail_of(&ServiceProperties::default().logging),
        DetailOf::Sampled,
        "it needs no more records"
    );
    assert_eq!(detail_of(&everything().logging), DetailOf::All);
}
