//! A console with something to look at: a day of generated requests, on a store in memory. For screenshots and for
//! whoever works on the pages; entities, messages and blobs are put in through the console itself.
//!
//! `cargo run -p tavola-console --example demo -- --help`
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "an example stops at the first error, and its numbers are small"
)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::Parser;
use tavola_advisor::{HeatMap, PriceTable, Traffic, TrafficSettings};
use tavola_auth::{Account, Accounts};
use tavola_console::{
    Console, ConsoleParts, ConsoleSettings, DiskSpace, Growth, Health, HealthFigure, MemberView, ServerView,
    ServiceUrl, Tail,
};
use tavola_engine::{MemoryContents, MemoryEngine};
use tavola_frontend::LiveAccounts;
use tavola_model::{AccountName, Clock as _, DateTime, ErrorCode, PlanReport, StorageService};
use tavola_service::{Service, ServiceSettings};
use tavola_system::{SystemClock, SystemRandom};
use tavola_telemetry::{AccessRecord, Durations, QueryTarget, RecordSink, Target};

const ACCOUNT: &str = "devstoreaccount1";
const HOURS: u64 = 24;
const GIGABYTE: u64 = 1_000_000_000;

struct Machine;

#[async_trait]
impl ServerView for Machine {
    async fn probe(&self) -> Result<(), String> {
        Ok(())
    }

    fn health(&self) -> Health {
        let figure = |name, value| HealthFigure { name, help: "made up", value, is_counter: false };
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

/// Serves a console with generated requests on a store in memory, and prints its address
#[derive(Parser)]
struct Arguments {
    /// Port of 127.0.0.1; 0 for a free one
    #[arg(default_value_t = 0)]
    port: u16,
}

#[tokio::main]
async fn main() {
    let Arguments { port } = Arguments::parse();
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
    for minute in (now / 60 - HOURS * 60)..now / 60 {
        // The server was down for a quarter of an hour.
        let is_down = (507..522).contains(&(minute - (now / 60 - HOURS * 60)));
        if !is_down {
            let records = Requests.minute(minute * 60, now);
            sinks.iter().for_each(|sink| sink.observe(&records));
        }
    }
    for tenth in 0..(now % 60) * 10 {
        let at = DateTime::from_unix_ticks((now - now % 60) * 10_000_000 + tenth * 1_000_000);
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
        accounts: LiveAccounts::new(Accounts::new(vec![Account::development()]).unwrap()),
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
        view: Arc::new(Machine),
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
                0..=39 => self.point(
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
                    self.point("Activity", "tenant|contoso", &format!("evt-{:04x}", fastrand::u16(..)), at, 1)
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
