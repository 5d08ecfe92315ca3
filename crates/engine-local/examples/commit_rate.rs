//! How fast the embedded engine commits, gets and scans on this machine's disk.
//!
//! `cargo run --release -p tavola-engine-local --example commit_rate -- --help`
//!
//! Without a rate each writer goes on as soon as it has its answer. With one, the latency counts from when a row was due.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use tavola_engine::{Change, Decision, Engine, Position, ScanRange, SpaceId};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_system::SystemClock;

/// As in the server: the system's allocator keeps much of what the store gives back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WRITERS: u64 = 64;
const SPACE: SpaceId = SpaceId([1; 16]);
const BODY_BYTES: usize = 1000;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Measures how fast the embedded engine commits, gets and scans on this machine's disk
#[derive(Parser)]
struct Arguments {
    /// Rows that are inserted, into one partition and again into many
    #[arg(default_value_t = 250_000)]
    rows: u64,
    /// Folder in which a temporary data folder is made
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Threads that compact
    #[arg(long)]
    compaction_threads: Option<usize>,
    /// Size of a memtable in MiB
    #[arg(long)]
    memtable_mib: Option<u64>,
    /// Rows per second, of all writers together
    #[arg(long)]
    rate: Option<f64>,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), AnyError> {
    let Arguments { rows, folder, compaction_threads, memtable_mib, rate } = Arguments::parse();
    let folder = tempfile::tempdir_in(folder)?;
    let mut settings = LocalSettings::new(folder.path().join("data"));
    settings.compaction_threads = compaction_threads.unwrap_or(settings.compaction_threads);
    settings.memtable_bytes = memtable_mib.map_or(settings.memtable_bytes, |mebibytes| mebibytes << 20);
    let interval = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(WRITERS as f64 / rate));
    let mut out = std::io::stdout().lock();
    writeln!(out, "sync of 64 KiB: {:.2} ms (median)", sync_time(folder.path())?.as_secs_f64() * 1e3)?;
    let engine = LocalEngine::open(settings.clone(), Arc::new(SystemClock))?;
    engine.create_space(SPACE).await?;

    for (name, spread) in [("one hot partition", Spread::Hot), ("many partitions", Spread::Wide)] {
        let cpu_before = cpu_time();
        let started = Instant::now();
        let latencies = write_rows(&engine, rows / WRITERS, interval, spread).await?;
        let written = latencies.len() as f64;
        let rate = written / started.elapsed().as_secs_f64();
        let cpu = (cpu_time() - cpu_before).as_secs_f64() * 1e6 / written;
        writeln!(out, "insert, {name}: {rate:.0}/s, {}, CPU {cpu:.1} us", percentiles(latencies))?;
    }
    let rows = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let counter = rows.clone();
    engine
        .scan(SPACE, &ScanRange::all(), &mut |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            ControlFlow::Continue(())
        })
        .await?;
    let rows = rows.load(Ordering::Relaxed);
    writeln!(out, "scan: {rows} rows, {:.2} M rows/s", rows as f64 / started.elapsed().as_secs_f64() / 1e6)?;

    // Compaction goes on for a while after the last write.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let gets = 300_000u64;
    let cpu_before = cpu_time();
    let started = Instant::now();
    let readers = (0..2).map(|reader| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let mut state = reader + 1;
            for _ in 0..gets {
                state = next_random(state);
                let (partition, row) = wide_key(state % WRITERS, state / WRITERS % 300);
                engine.get(SPACE, &partition, &row).await?.ok_or("row is missing")?;
            }
            Ok::<(), AnyError>(())
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await??;
    }
    let rate = 2.0 * gets as f64 / started.elapsed().as_secs_f64();
    let cpu = (cpu_time() - cpu_before).as_secs_f64() * 1e6 / (2.0 * gets as f64);
    writeln!(out, "point get, 2 threads: {rate:.0}/s, CPU {cpu:.2} us")?;
    let pages = 2_000u64;
    let cpu_before = cpu_time();
    let started = Instant::now();
    let mut state = 7;
    for _ in 0..pages {
        state = next_random(state);
        let (partition, row) = wide_key(state % WRITERS, state / WRITERS % 300);
        let mut count = 0;
        let range = ScanRange { from: Position::at(&partition, &row), before: None };
        engine
            .scan(SPACE, &range, &mut |_| {
                count += 1;
                if count == 1000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .await?;
    }
    let rate = pages as f64 / started.elapsed().as_secs_f64();
    let cpu = (cpu_time() - cpu_before).as_secs_f64() * 1e6 / pages as f64;
    writeln!(out, "page of 1,000: {rate:.0}/s, CPU {cpu:.0} us")?;
    writeln!(out, "memory: {}", memory())?;
    engine.close().await;
    drop(engine);
    let started = Instant::now();
    let engine = LocalEngine::open(settings, Arc::new(SystemClock))?;
    writeln!(out, "reopen: {:.0} ms", started.elapsed().as_secs_f64() * 1e3)?;
    drop(engine);
    Ok(())
}

#[derive(Clone, Copy)]
enum Spread {
    Hot,
    Wide,
}

fn wide_key(writer: u64, count: u64) -> (Vec<u8>, Vec<u8>) {
    (format!("partition-{writer}-{}", count / 10).into_bytes(), format!("row-{count:010}").into_bytes())
}

/// Writes the same number of rows whatever the speed, so that what is read afterwards is the same.
async fn write_rows(
    engine: &Arc<LocalEngine>,
    rows_each: u64,
    interval: Duration,
    spread: Spread,
) -> Result<Vec<u32>, AnyError> {
    let begun = Instant::now();
    let writers = (0..WRITERS).map(|writer| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            let mut state = writer + 1;
            let mut body = vec![0u8; BODY_BYTES];
            for count in 0..rows_each {
                for chunk in body.chunks_mut(8) {
                    state = next_random(state);
                    chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
                }
                let body = Bytes::copy_from_slice(&body);
                let (partition, row) = match spread {
                    Spread::Hot => (b"hot".to_vec(), format!("row-{writer}-{count:010}").into_bytes()),
                    Spread::Wide => wide_key(writer, count),
                };
                let started = if interval.is_zero() {
                    Instant::now()
                } else {
                    let due = begun + interval.mul_f64(count as f64 + writer as f64 / WRITERS as f64);
                    tokio::time::sleep_until(due.into()).await;
                    due
                };
                let mut decide =
                    |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
                engine.transact(SPACE, &partition, &[&row], &mut decide).await?;
                latencies.push(u32::try_from(started.elapsed().as_micros())?);
            }
            Ok::<_, AnyError>(latencies)
        })
    });
    let mut all = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        all.extend(writer.await??);
    }
    Ok(all)
}

fn next_random(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

fn percentiles(mut latencies: Vec<u32>) -> String {
    latencies.sort();
    let at = |thousandths: usize| f64::from(latencies[(latencies.len() - 1) * thousandths / 1000]) / 1e3;
    format!("p50 {:.2} p99 {:.2} p99.9 {:.2} max {:.2} ms", at(500), at(990), at(999), at(1000))
}

fn sync_time(folder: &Path) -> Result<Duration, AnyError> {
    let mut file = std::fs::File::create(folder.join("sync-probe"))?;
    let mut times = Vec::new();
    for _ in 0..50 {
        file.write_all(&[1; 65536])?;
        let started = Instant::now();
        file.sync_data()?;
        times.push(started.elapsed());
    }
    std::fs::remove_file(folder.join("sync-probe"))?;
    times.sort();
    Ok(times[25])
}

/// Time on all cores, in steps of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.collect::<Vec<_>>().join(", ").replace(['\t', ' '], "")
}
