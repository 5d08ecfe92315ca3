//! `client`: what the client library costs beside a bare hyper connection, the generator's batches and bare scans.

use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_core::Stream;
use futures_util::TryStreamExt;
use tavola_client::{In, TableClient};

use crate::AnyError;
use crate::client_calls::{BULK_CONNECTIONS, Called, Calls, Kind, Order, Person, Stack, table};
use crate::compare::{Contestant, Range, Series, take_turns};
use crate::cores::{Cores, on_cores};
use crate::dataset::{BATCH_ROWS, PARTITION_ROWS, partition_key};
use crate::instructions::total;
use crate::load::{Load, Measured, latencies, run};
use crate::process::cpu_time;
use crate::report::{Bound, Report, machine};
use crate::suite::Extent;
use crate::tavola::{Tavola, fill, output_folder, scratch_folder};
use crate::work::{Table, Work};

const TABLE: &str = "Client";
const TYPED: &str = "typed client";
const RAW: &str = "bare hyper";
const GENERATOR: &str = "generator";
const QUERIES: &str = "eight queries";
const RANGES: usize = 8;
const BULK_TIME_MAX: Duration = Duration::from_secs(120);
/// Calls counted by callgrind, and so many times as many.
const COUNTED_CALLS: u64 = 500;

struct ClientPlan {
    rounds: usize,
    /// Calls of each round.
    calls: u64,
    /// Rows of the table that is read.
    rows: u64,
    /// Entities of each round of bulk inserts.
    bulk: u64,
}

impl ClientPlan {
    fn of(extent: Extent) -> Self {
        match extent {
            Extent::Quick => Self { rounds: 3, calls: 3_000, rows: 32_000, bulk: 10_000 },
            Extent::Full => Self { rounds: 7, calls: 15_000, rows: 200_000, bulk: 50_000 },
        }
    }
}

/// Which calls a process of its own makes, to be counted.
#[derive(Clone, Debug)]
pub struct ClientCallOptions {
    /// `host:port` of the server's tables.
    pub host: String,
    /// `get`, `insert` or `bulk`
    pub kind: String,
    /// `typed` or `raw`
    pub stack: String,
    /// Rows of the table.
    pub rows: u64,
    /// The number of the first new entity.
    pub first: u64,
    /// How many calls.
    pub count: u64,
    /// They are made, and not only prepared.
    pub is_sent: bool,
}

/// Makes them.
pub fn client_calls(options: &ClientCallOptions) -> Result<(), AnyError> {
    let ClientCallOptions { host, kind, stack, rows, first, count, is_sent } = options;
    let (kind, stack) = (kind.parse()?, stack.parse()?);
    let calls = Calls { host, table: TABLE, rows: *rows, kind, stack, first: *first, count: *count };
    calls.run(*is_sent).map(|_| ())
}

impl FromStr for Kind {
    type Err = AnyError;

    fn from_str(text: &str) -> Result<Self, AnyError> {
        match text {
            "get" => Ok(Self::Get),
            "insert" => Ok(Self::Insert),
            "bulk" => Ok(Self::Bulk(Order::ByPartition)),
            _ => Err("a kind is get, insert or bulk".into()),
        }
    }
}

impl FromStr for Stack {
    type Err = AnyError;

    fn from_str(text: &str) -> Result<Self, AnyError> {
        match text {
            "typed" => Ok(Self::Typed),
            "raw" => Ok(Self::Raw),
            _ => Err("a stack is typed or raw".into()),
        }
    }
}

struct ClientStage {
    cores: Cores,
    plan: ClientPlan,
    folder: tempfile::TempDir,
    server: Tavola,
    report: Report,
    /// The number of the next new entity.
    fresh: AtomicU64,
}

/// Runs the lines whose name contains `only`; prints them and keeps them as JSON.
pub fn client(extent: Extent, only: &str) -> Result<(), AnyError> {
    let started = Instant::now();
    let (cores, plan) = (Cores::share_out(), ClientPlan::of(extent));
    println!("{}: client on {:?}, server on {:?}", machine(), cores.generator, cores.contestant);
    let folder = scratch_folder()?;
    let server = Tavola::start(&cores, &folder.path().join("tavola"))?;
    fill(&cores, &server.target(), &Table::new(&server.endpoint, TABLE, plan.rows))?;
    let mut stage =
        ClientStage { cores, plan, folder, server, report: Report::default(), fresh: AtomicU64::new(1) };
    for (line, name, kind, most) in
        [("client get", "get", Kind::Get, 1.5), ("client insert", "insert", Kind::Insert, 1.6)]
    {
        if line.contains(only) {
            stage.run_calls(line, kind, most)?;
            if let Err(error) = stage.run_counted(line, name) {
                stage.report.note(format!("{line}: instructions could not be counted: {error}"));
            }
        }
    }
    for (line, order) in [
        ("client bulk insert", Order::ByPartition),
        ("client bulk insert, 64 partitions in turn", Order::InTurn),
    ] {
        if line.contains(only) {
            stage.run_bulk(line, order)?;
            if order == Order::ByPartition
                && let Err(error) = stage.run_counted_bulk(line)
            {
                stage.report.note(format!("{line}: instructions could not be counted: {error}"));
            }
        }
    }
    if "client parallel scan".contains(only) {
        stage.run_scan("client parallel scan")?;
    }
    let ClientStage { report, server, .. } = stage;
    server.stop();
    println!("\n{}", report.tables());
    let path = output_folder()?.join("client.json");
    std::fs::write(&path, serde_json::to_vec_pretty(&report.to_json())?)?;
    println!("took {:.0} s; figures are in {}", started.elapsed().as_secs_f64(), path.display());
    Ok(())
}

impl ClientStage {
    fn host(&self) -> &str {
        &self.server.endpoint.host
    }

    /// The first of so many numbers that no entity has yet.
    fn fresh(&self, count: u64) -> u64 {
        self.fresh.fetch_add(count, Ordering::Relaxed)
    }

    /// Makes calls on the generator's cores.
    fn call(&self, kind: Kind, stack: Stack, count: u64) -> Result<Called, AnyError> {
        let (first, rows) = (self.fresh(count), self.plan.rows);
        let calls = Calls { host: self.host(), table: TABLE, rows, kind, stack, first, count };
        on_cores(&self.cores.generator, || calls.run(true))
    }

    fn run_calls(&mut self, line: &str, kind: Kind, most: f64) -> Result<(), AnyError> {
        let stage = &*self;
        let calls = stage.plan.calls;
        let contestants = [(TYPED, Stack::Typed), (RAW, Stack::Raw)].map(|(name, stack)| {
            let round = Box::new(move || {
                let Called { elapsed, cpu } = stage.call(kind, stack, calls)?;
                Ok(Measured { requests: calls, elapsed, latency: latencies(), cpu })
            });
            Contestant { name, process_id: None, round }
        });
        let series = take_turns(stage.plan.rounds, contestants.into())?;
        self.report.add_series(line, &series)?;
        if let [typed, raw] = series.as_slice() {
            let cpu = Range::of_ratios(&typed.cpu_micros(), &raw.cpu_micros());
            self.report.check(line, "× bare hyper, CPU of a call", cpu, Bound::AtMost(most));
            let time = Range::of_ratios(&raw.rates(), &typed.rates());
            self.report.check(line, "× bare hyper, time of a call", time, Bound::None);
        }
        Ok(())
    }

    /// Instructions of a call in user space, by callgrind: what two runs of different length differ by.
    fn run_counted(&mut self, line: &str, kind: &str) -> Result<(), AnyError> {
        let count = |stack: &str| {
            let sent = self.count(kind, stack, true)?;
            Ok::<_, AnyError>(sent.saturating_sub(self.count(kind, stack, false)?))
        };
        let (typed, raw) = (count("typed")?, count("raw")?);
        self.report.note(format!("{line}: {typed} instructions, by bare hyper {raw}"));
        let range = Range::of(&[typed as f64 / raw.max(1) as f64]);
        self.report.check(line, "× bare hyper, instructions in user space", range, Bound::None);
        Ok(())
    }

    /// Instructions of a bulk insert for each entity.
    fn run_counted_bulk(&mut self, line: &str) -> Result<(), AnyError> {
        let sent = self.count("bulk", "typed", true)?;
        let range = Range::of(&[sent.saturating_sub(self.count("bulk", "typed", false)?) as f64]);
        self.report.check(line, "instructions in user space an entity", range, Bound::None);
        Ok(())
    }

    /// Instructions for each call, from two runs of different length.
    fn count(&self, kind: &str, stack: &str, is_sent: bool) -> Result<u64, AnyError> {
        let fewer = self.count_run(kind, stack, COUNTED_CALLS, is_sent)?;
        let more = self.count_run(kind, stack, 3 * COUNTED_CALLS, is_sent)?;
        Ok(more.saturating_sub(fewer) / (2 * COUNTED_CALLS))
    }

    fn count_run(&self, kind: &str, stack: &str, calls: u64, is_sent: bool) -> Result<u64, AnyError> {
        let output = self.folder.path().join("callgrind.out");
        let mut command = Command::new("valgrind");
        command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", output.display()));
        command.arg(std::env::current_exe()?);
        command.args(["client-calls", "--host", self.host(), "--kind", kind, "--stack", stack]);
        for (name, value) in [("--rows", self.plan.rows), ("--first", self.fresh(calls)), ("--count", calls)]
        {
            command.arg(name).arg(value.to_string());
        }
        command.args((!is_sent).then_some("--prepare-only"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if !on_cores(&self.cores.generator, || command.status())?.success() {
            return Err("valgrind failed".into());
        }
        total(&output)
    }

    /// Entities a second of bulk inserts, beside the generator's own batches of as many entities.
    fn run_bulk(&mut self, line: &str, order: Order) -> Result<(), AnyError> {
        let stage = &*self;
        let count = stage.plan.bulk;
        let target = stage.server.target();
        let source = Table::new(&stage.server.endpoint, TABLE, 0).source(Work::Batch)?;
        let load = Load { requests_max: count / BATCH_ROWS, ..Load::closed(BULK_CONNECTIONS, BULK_TIME_MAX) };
        let batches = || {
            let measured = run(&stage.cores, &target, load, &source)?;
            Ok(Measured { requests: measured.requests * BATCH_ROWS, ..measured })
        };
        let bulk = || {
            let process_id = stage.server.target().process_id;
            let cpu_before = cpu_time(process_id);
            let elapsed = stage.call(Kind::Bulk(order), Stack::Typed, count)?.elapsed;
            let cpu = cpu_time(process_id).saturating_sub(cpu_before);
            Ok(Measured { requests: count, elapsed, latency: latencies(), cpu })
        };
        let contestants = vec![
            Contestant { name: TYPED, process_id: None, round: Box::new(bulk) },
            Contestant { name: GENERATOR, process_id: None, round: Box::new(batches) },
        ];
        let series = take_turns(stage.plan.rounds, contestants)?;
        self.judge(&format!("{line}, entities/s"), &series, "× the generator's batches", 0.9)
    }

    /// Entities a second of a parallel scan that knows no keys, beside as many queries that were given even ranges.
    fn run_scan(&mut self, line: &str) -> Result<(), AnyError> {
        let name = "Scanned";
        fill(&self.cores, &self.server.target(), &Table::new(&self.server.endpoint, name, self.plan.rows))?;
        let stage = &*self;
        let contestants =
            [(TYPED, Reading::Parallel), (QUERIES, Reading::EvenRanges)].map(|(who, reading)| {
                let round = Box::new(move || on_cores(&stage.cores.generator, || stage.scan(name, reading)));
                Contestant { name: who, process_id: None, round }
            });
        let series = take_turns(stage.plan.rounds, contestants.into())?;
        self.judge(&format!("{line}, entities/s"), &series, "× eight queries of even ranges", 0.9)
    }

    fn scan(&self, name: &str, reading: Reading) -> Result<Measured, AnyError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let table = table(self.host(), name)?;
        let (started, cpu_before) = (Instant::now(), cpu_time(self.server.target().process_id));
        let found = runtime.block_on(async {
            match reading {
                Reading::Parallel => {
                    count_all(table.scan_parallel::<Person>(In::whole_table(), RANGES)).await
                }
                Reading::EvenRanges => self.query_ranges(&table).await,
            }
        })?;
        let elapsed = started.elapsed();
        if found != self.plan.rows {
            return Err(format!("{found} of {} entities were found", self.plan.rows).into());
        }
        let cpu = cpu_time(self.server.target().process_id).saturating_sub(cpu_before);
        Ok(Measured { requests: found, elapsed, latency: latencies(), cpu })
    }

    async fn query_ranges(&self, table: &TableClient) -> Result<u64, AnyError> {
        let each = self.plan.rows.div_ceil(RANGES as u64).next_multiple_of(PARTITION_ROWS);
        let queries = (0..RANGES as u64).map(|number| {
            let (from, to) = (partition_key(number * each), partition_key((number + 1) * each));
            count_all(table.query::<Person>(In::partitions(from.as_str()..to.as_str())).stream())
        });
        let counts = futures_util::future::try_join_all(queries).await?;
        Ok(counts.into_iter().sum())
    }

    fn judge(&mut self, line: &str, series: &[Series], measure: &str, least: f64) -> Result<(), AnyError> {
        self.report.add_series(line, series)?;
        if let [ours, other] = series {
            let range = Range::of_ratios(&ours.rates(), &other.rates());
            self.report.check(line, measure, range, Bound::AtLeast(least));
        }
        Ok(())
    }
}

/// How a whole table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Parallel,
    EvenRanges,
}

async fn count_all<T>(entities: impl Stream<Item = tavola_client::Result<T>>) -> Result<u64, AnyError> {
    let mut entities = std::pin::pin!(entities);
    let mut count = 0;
    while let Some(entity) = entities.try_next().await? {
        std::hint::black_box(entity);
        count += 1;
    }
    Ok(count)
}
