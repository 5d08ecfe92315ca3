//! A console with something to look at: a day of generated requests, on a store in memory. For screenshots and for
//! whoever works on the pages; entities, messages and blobs are put in through the console itself. With `--cluster` it
//! shows three servers that share a store of three nodes; owners are those that such servers would choose.
//!
//! `cargo run -p tavola-console --example demo -- --help`
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "an example stops at the first error, and its numbers are small"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clap::Parser;
use tavola_advisor::{HeatMap, PriceTable, Traffic, TrafficSettings};
use tavola_auth::{Account, Accounts};
use tavola_console::{
    Console, ConsoleParts, ConsoleSettings, DiskSpace, Growth, Health, HealthFigure, MemberView, NodeView,
    OwnerView, ServerView, ServiceUrl, Tail,
};
use tavola_engine::{MemoryContents, MemoryEngine};
use tavola_frontend::{
    Affinity, LiveAccounts, Member, MemberPort, OwnedCount, OwnedPartition, PartitionHash,
};
use tavola_model::{AccountName, Clock as _, DateTime, ErrorCode, PlanReport, StorageService};
use tavola_service::{Service, ServiceSettings};
use tavola_system::{SystemClock, SystemRandom};
use tavola_telemetry::{AccessRecord, Durations, QueryTarget, RecordSink, Target};

const ACCOUNT: &str = "devstoreaccount1";
const HOURS: u64 = 24;
const GIGABYTE: u64 = 1_000_000_000;
/// The end of the past that is made as densely as the present, so that charts of minutes show no seam.
const DENSE_SECONDS: u64 = 180;

/// A server with a store of its own.
struct Machine;

#[async_trait]
impl ServerView for Machine {
    async fn probe(&self) -> Result<(), String> {
        Ok(())
    }

    fn health(&self) -> Health {
        let figure = |name, value| HealthFigure { name, help: "Made up", value, is_counter: false };
        Health {
            figures: vec![
                figure("commit_p99_us", 2_900 + fastrand::u64(..900)),
                figure("cache_hit_permille", 972 + fastrand::u64(..9)),
                figure("tavola_engine_unflushed_bytes", 18_000_000 + fastrand::u64(..9_000_000)),
                figure("tavola_content_bytes", 236 * GIGABYTE),
            ],
            disk: Some(DiskSpace {
                total_bytes: 931 * GIGABYTE,
                free_bytes: 412 * GIGABYTE,
                data_bytes: 490 * GIGABYTE,
                growth: Some(Growth { bytes: 2 * GIGABYTE, seconds: 24 * 60 * 60 }),
            }),
            location: "tavola-data".into(),
            engine: "local",
        }
    }

    fn members(&self) -> Vec<MemberView> {
        Vec::new()
    }
}

/// A server that shares its store with two others. It is the real choice of owners; nothing is forwarded to them.
struct SharedMachine {
    affinity: Arc<Affinity>,
    started: Instant,
}

impl SharedMachine {
    const NODES: [&str; 3] = ["10.20.0.11:9042", "10.20.0.12:9042", "10.20.0.13:9042"];

    fn new() -> Self {
        let member = |number: u8| Member {
            name: format!("tavola-{number}"),
            start_id: format!("start-{number}"),
            host: format!("10.20.1.{}", 20 + number),
            ports: [(StorageService::Table, 10002), (StorageService::Queue, 10001)]
                .map(|(service, number)| MemberPort { service, secure: false, number })
                .to_vec(),
            certificate: None,
        };
        let affinity = Affinity::new(member(1));
        affinity.meet(vec![member(2), member(3)]);
        Self { affinity, started: Instant::now() }
    }
}

#[async_trait]
impl ServerView for SharedMachine {
    async fn probe(&self) -> Result<(), String> {
        Ok(())
    }

    fn health(&self) -> Health {
        let seconds = self.started.elapsed().as_secs();
        let figure = |(name, help, value)| HealthFigure { name, help, value, is_counter: true };
        let figures = [
            ("tavola_cql_transactions_total", "Transactions that were asked for", 8_420_311 + seconds * 61),
            ("tavola_cql_commits_total", "Conditional batches that were sent", 2_977_406 + seconds * 22),
            (
                "tavola_cql_conflicts_total",
                "Rounds decided again because another server was first",
                1_204 + seconds / 20,
            ),
            (
                "tavola_cql_retries_total",
                "Statements that were sent again after a failure",
                3_318 + seconds / 4,
            ),
            ("tavola_cql_unknown_outcomes_total", "Transactions whose outcome is unknown", 0),
            ("tavola_cql_partitions_listed_total", "Partitions added to a directory", 96_210 + seconds / 2),
            ("tavola_cql_partitions_unlisted_total", "Entries removed from a directory", 4_077),
            ("tavola_cql_spaces_reclaimed_total", "Dropped spaces whose rows were removed", 12),
        ];
        Health {
            figures: figures.map(figure).to_vec(),
            disk: None,
            location: format!("tavola at {}", Self::NODES.join(",")),
            engine: "cql",
        }
    }

    fn members(&self) -> Vec<MemberView> {
        let view = |member: Member| MemberView {
            is_this: member.name == self.affinity.me().name,
            name: member.name,
            host: member.host,
        };
        self.affinity.members().into_iter().map(view).collect()
    }

    fn nodes(&self) -> Vec<NodeView> {
        let settings = ["commitlog_sync batch", "paxos_variant v2"].map(str::to_owned);
        let node = |(place, address): (usize, &str)| NodeView {
            address: address.to_owned(),
            location: format!("milan / rack{}", place + 1),
            is_up: place != 2,
            settings: settings.to_vec(),
        };
        Self::NODES.into_iter().enumerate().map(node).collect()
    }

    fn owner(&self, account: &AccountName, partition: OwnedPartition<'_>) -> Option<OwnerView> {
        let owner = self.affinity.owner_of(account, partition)?;
        let is_this = owner.member.name == self.affinity.me().name;
        Some(OwnerView { name: owner.member.name, is_this, is_suspended: owner.is_suspended })
    }

    fn count_owned(&self, service: StorageService, hashes: &[PartitionHash]) -> Vec<OwnedCount> {
        self.affinity.count_owned(service, hashes)
    }
}

/// Serves a console with generated requests on a store in memory, and prints its address
#[derive(Parser)]
struct Arguments {
    /// Port of 127.0.0.1; 0 for a free one
    #[arg(default_value_t = 0)]
    port: u16,
    /// Show three servers on a store of three nodes, one of which is down
    #[arg(long)]
    cluster: bool,
    /// Serve an account with a key that is not public, so that the console asks for it
    #[arg(long)]
    sign_in: bool,
}

#[tokio::main]
async fn main() {
    let Arguments { port, cluster, sign_in } = Arguments::parse();
    let clock = Arc::new(SystemClock);
    let engine = Arc::new(MemoryEngine::new(clock.clone()));
    let service = Service::new(engine, clock.clone(), Arc::new(SystemRandom), ServiceSettings::default());
    let service = service.with_contents(Arc::new(MemoryContents::new(clock.clone())));
    let socket = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let address = socket.local_addr().unwrap();
    let (traffic, heat, tail) =
        (Traffic::new(TrafficSettings::default()), HeatMap::new(), Arc::new(Tail::default()));
    let sinks: Vec<Arc<dyn RecordSink>> = vec![traffic.clone(), heat.clone(), tail.clone()];

    fastrand::seed(77);
    let now = clock.now().unix_seconds().unsigned_abs();
    let begin = (now - DENSE_SECONDS) / 60;
    for minute in (begin - HOURS * 60)..begin {
        // The server was down for a quarter of an hour.
        let is_down = (507..522).contains(&(minute - (begin - HOURS * 60)));
        if !is_down {
            let records = Requests.minute(minute * 60, now);
            sinks.iter().for_each(|sink| sink.observe(&records));
        }
    }
    // Making a day takes a while, and the present moves on meanwhile.
    for tenth in begin * 600.. {
        let at = DateTime::from_unix_ticks(tenth * 1_000_000);
        if at >= clock.now() {
            break;
        }
        let records = Requests.moment(at);
        sinks.iter().for_each(|sink| sink.observe(&records));
    }
    let live = sinks.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        loop {
            ticks.tick().await;
            let records = Requests.moment(SystemClock.now());
            live.iter().for_each(|sink| sink.observe(&records));
        }
    });

    let url = |service, port: u16| ServiceUrl {
        service,
        base: format!("http://127.0.0.1:{port}"),
        is_secure: false,
    };
    let account =
        if sign_in { Account::parse("production:c2VjcmV0IGtleQ==").unwrap() } else { Account::development() };
    let view: Arc<dyn ServerView> = if cluster { Arc::new(SharedMachine::new()) } else { Arc::new(Machine) };
    let settings = ConsoleSettings {
        host_names: Vec::new(),
        is_loopback: true,
        port: address.port(),
        tls: None,
        version: env!("CARGO_PKG_VERSION"),
        prices: PriceTable::default(),
        token: Box::new(|| None),
    };
    let parts = ConsoleParts {
        service,
        accounts: LiveAccounts::new(Accounts::new(vec![account]).unwrap()),
        clock,
        random: Arc::new(SystemRandom),
        urls: vec![
            url(StorageService::Table, 10002),
            url(StorageService::Queue, 10001),
            url(StorageService::Blob, 10000),
        ],
        traffic,
        heat,
        tail,
        view,
    };
    println!("http://{address}/");
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    Console::new(settings, parts).serve(socket, stopped).await;
}

/// Makes up requests: a hot tenant, an append-only log, a batch job every two hours, scans, and much that is fine.
struct Requests;

impl Requests {
    /// A minute of the past. Each record stands for some requests, so that a day is made in seconds.
    fn minute(&self, at: u64, now: u64) -> Vec<AccessRecord> {
        let mut records = Vec::new();
        let hour = (at % 86_400) as f64 / 3_600.0;
        let day = 0.55 + 0.45 * ((hour - 8.0) / 24.0 * std::f64::consts::TAU).sin();
        let is_hot = now - at < 13 * 3_600;
        for index in 0..120 {
            let time = at + index / 2;
            let weight = 1 + (4.0 * day) as u32;
            match index % 12 {
                0..=2 => {
                    let weight = if is_hot { 16 } else { 2 };
                    let row = format!("{:x}vt-{:04x}", fastrand::u8(..16), fastrand::u16(..));
                    records.push(self.point("Activity", "tenant|contoso", &row, time, weight));
                }
                3 | 4 => {
                    let key = format!("hour|{}", text_of(at - at % 5_400));
                    records.push(self.write("Activity", &key, &format!("{time}-{index}"), time, 8 * weight));
                }
                5 | 6 => {
                    let letter = char::from(b'a' + fastrand::u8(..20));
                    let key = format!("user|{letter}{:03}", fastrand::u16(..400));
                    records.push(self.point("Activity", &key, "profile", time, weight));
                }
                7 => {
                    let key = format!("acct|{:04}", fastrand::u16(..3200));
                    records.push(self.point("Activity", &key, "balance", time, 2 * weight));
                }
                8 => {
                    let names =
                        ["adatum", "bellows", "fabrikam", "litware", "northwind", "tailspin", "wingtip"];
                    let key = format!("tenant|{}", names[fastrand::usize(..7)]);
                    records.push(self.point(
                        "Activity",
                        &key,
                        &format!("evt-{}", fastrand::u16(..)),
                        time,
                        3 * weight,
                    ));
                }
                9 => records.push(self.point(
                    "Orders",
                    &format!("c-{}", fastrand::u16(..900)),
                    &format!("ord-{}", fastrand::u16(..)),
                    time,
                    4 * weight,
                )),
                10 => {
                    let device = fastrand::u16(..840);
                    records.push(self.write(
                        "Telemetry",
                        &text_of(time - time % 3_600),
                        &format!("dev-{device:04}|{index}"),
                        time,
                        9 * weight,
                    ));
                }
                _ => {
                    records.push(self.point(
                        "Sessions",
                        "s",
                        &format!("{:06x}", fastrand::u32(..0xff_ffff)),
                        time,
                        weight,
                    ));
                    let (filter, scanned, returned) = self.scan();
                    records.push(self.query("Employees", filter, scanned, returned, time, 1));
                }
            }
        }
        // The job sweeps all users, letter by letter.
        if at / 60 % 120 < 6 {
            for letter in 0..20_u8 {
                let key = format!("user|{}000", char::from(b'a' + letter));
                records.push(self.point("Activity", &key, "profile", at + u64::from(letter), 40));
            }
        }
        records
    }

    /// What comes in a tenth of a second.
    fn moment(&self, now: DateTime) -> Vec<AccessRecord> {
        let at = now.unix_seconds().unsigned_abs();
        let mut records = Vec::new();
        for _ in 0..fastrand::usize(3..8) {
            let choice = fastrand::u8(..100);
            let mut record = match choice {
                0..=9 => {
                    let key = format!("hour|{}", text_of(at - at % 5_400));
                    self.write("Activity", &key, &format!("{at}-{}", fastrand::u16(..)), at, 1)
                }
                10..=39 => self.point(
                    "Orders",
                    &format!("c-{}", fastrand::u16(..900)),
                    &format!("ord-{}", fastrand::u16(..)),
                    at,
                    1,
                ),
                40..=54 => self.write(
                    "Telemetry",
                    &text_of(at - at % 3_600),
                    &format!("dev-{:04}", fastrand::u16(..840)),
                    at,
                    1,
                ),
                55..=69 => {
                    let row = format!("{:x}vt-{:04x}", fastrand::u8(..16), fastrand::u16(..));
                    self.point("Activity", "tenant|contoso", &row, at, 1)
                }
                70..=84 => self.query(
                    "Activity",
                    "PartitionKey eq 'tenant|contoso' and RowKey ge 'evt-9f'",
                    240,
                    240,
                    at,
                    1,
                ),
                85..=95 => {
                    let (filter, scanned, returned) = self.scan();
                    self.query("Employees", filter, scanned, returned, at, 1)
                }
                _ => self.point("Sessions", "s", "8c1f20", at, 1),
            };
            record.received = now;
            if choice == 60 {
                (record.status, record.code, record.throttled) = (503, Some(ErrorCode::ServerBusy), true);
            } else if choice > 96 {
                (record.status, record.code, record.rows_returned) =
                    (404, Some(ErrorCode::ResourceNotFound), 0);
            }
            records.push(record);
        }
        for operation in ["PutMessage", "DeleteMessage"] {
            let mut message = self.record("order-events", operation, at, fastrand::u32(1..4));
            (message.received, message.service) = (now, StorageService::Queue);
            message.status = if operation == "PutMessage" { 201 } else { 204 };
            (message.rows_returned, message.bytes_in) = (1, 400);
            self.spend(&mut message, 2.4);
            records.push(message);
        }
        records
    }

    fn scan(&self) -> (&'static str, u64, u64) {
        match fastrand::u8(..8) {
            0 => ("Salary gt 60000", 128_430, 411),
            _ => ("PartitionKey eq 'Retail' and LastName eq 'Rossi'", 12_800, 3),
        }
    }

    fn record(&self, table: &str, operation: &'static str, at: u64, weight: u32) -> AccessRecord {
        let received = DateTime::from_unix_ticks(at * 10_000_000);
        let mut record = AccessRecord::new(received, StorageService::Table);
        record.account = AccountName::parse(ACCOUNT);
        record.operation = Some(operation);
        record.resource = Some(table.into());
        record.status = 200;
        record.weight = weight;
        record.request_id = format!("5f0e9c1a-3002-0041-7d1c-{:012x}", fastrand::u64(..1 << 24) << 24).into();
        record
    }

    fn spend(&self, record: &mut AccessRecord, milliseconds: f64) {
        let total = milliseconds * (0.6 + fastrand::f64());
        let part = |share: f64| Duration::from_secs_f64(total * share / 1_000.0);
        record.durations = Durations { queued: part(0.12), executed: part(0.8), total: part(1.0) };
    }

    fn point(&self, table: &str, partition: &str, row: &str, at: u64, weight: u32) -> AccessRecord {
        let mut record = self.record(table, "GetEntity", at, weight);
        record.target = Target::Entity { partition: partition.into(), row: row.into(), properties: 0 };
        (record.rows_scanned, record.rows_returned, record.bytes_out) = (1, 1, 700);
        let time = if partition == "tenant|contoso" { 6.0 } else { 0.8 };
        self.spend(&mut record, time);
        record
    }

    fn write(&self, table: &str, partition: &str, row: &str, at: u64, weight: u32) -> AccessRecord {
        let mut record = self.record(table, "InsertEntity", at, weight);
        record.target = Target::Entity { partition: partition.into(), row: row.into(), properties: 9 };
        (record.status, record.rows_returned, record.bytes_in) = (204, 1, 400);
        self.spend(&mut record, 2.9);
        record
    }

    fn query(
        &self,
        table: &str,
        filter: &str,
        scanned: u64,
        returned: u64,
        at: u64,
        weight: u32,
    ) -> AccessRecord {
        let filter = tavola_odata::parse_filter(filter).unwrap();
        let plan = tavola_service::plan(filter.as_ref());
        let mut record = self.record(table, "QueryEntities", at, weight);
        let count = |rows: u64| usize::try_from(rows).unwrap();
        record.plan = Some(PlanReport {
            kind: plan.kind,
            ranges: plan.ranges.len(),
            scanned: count(scanned),
            returned: count(returned),
        });
        record.target = Target::Query(Arc::new(QueryTarget {
            filter,
            select: Vec::new(),
            top: None,
            is_continuation: false,
        }));
        (record.rows_scanned, record.rows_returned, record.bytes_out) =
            (scanned, returned, 300 + returned * 400);
        let time = 1.0 + scanned as f64 / 400.0;
        self.spend(&mut record, time);
        record
    }
}

/// `2026-11-15T18:00`.
fn text_of(seconds: u64) -> String {
    DateTime::from_unix_ticks(seconds * 10_000_000).to_text_7_digits().chars().take(16).collect()
}
