//! The floor below us in storage: the embedded engine called directly, on the contestants' cores.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use md5::{Digest as _, Md5};
use tavola_engine::{
    BytesSource, Change, Content, ContentSize, ContentStore, Decision, Engine, Owner, PIECE_BYTES_MAX,
    ScanRange, SpaceId,
};
use tavola_engine_local::{LocalContents, LocalEngine, LocalSettings};
use tavola_model::Properties;
use tavola_system::SystemClock;
use tokio::runtime::Runtime;

use crate::AnyError;
use crate::cores::{Cores, on_cores};
use crate::dataset::{Entities, PARTITION_ROWS, partition_key, row_key};
use crate::load::{Measured, latencies};
use crate::process::cpu_time;
use crate::transfer::MIB;
use crate::work::Spread;

const WRITERS: u64 = 64;
const SPACE: SpaceId = SpaceId([7; 16]);

/// What is counted of contents that are put: the service keeps the MD5 of every blob that is put as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summed {
    No,
    Md5,
}

/// An open engine with a runtime of its own.
pub struct EngineFloor {
    // Before the runtime, so that it is dropped first.
    engine: Arc<LocalEngine>,
    runtime: Runtime,
    entities: Entities,
    fresh: Arc<AtomicU64>,
    rows: u64,
}

impl EngineFloor {
    /// Opens an engine in `folder` and puts `rows` rows of the data set into it.
    pub fn open(cores: &Cores, folder: &Path, rows: u64) -> Result<Self, AnyError> {
        on_cores(&cores.contestant, || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let settings = LocalSettings::new(folder.join("engine"));
            let engine = LocalEngine::open(settings, Arc::new(SystemClock))?;
            let floor = Self { engine, runtime, entities: Entities::default(), fresh: Arc::default(), rows };
            floor.fill()?;
            Ok(floor)
        })
    }

    fn fill(&self) -> Result<(), AnyError> {
        let rows = self.rows;
        let (engine, entities) = (self.engine.clone(), self.entities.clone());
        self.runtime.block_on(async move {
            engine.create_space(SPACE).await?;
            for first in (0..rows).step_by(100) {
                let numbers = first..rows.min(first + 100);
                let keys: Vec<String> = numbers.clone().map(row_key).collect();
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
                let bodies = numbers.map(|row| entities.stored(row)).collect::<Result<Vec<_>, _>>()?;
                let mut decide = |_, _: &[_]| {
                    let puts = bodies.iter().cloned().enumerate();
                    Decision::Apply(puts.map(|(index, body)| Change::Put { index, body }).collect())
                };
                engine.transact(SPACE, partition_key(first).as_bytes(), &keys, &mut decide).await?;
            }
            Ok(())
        })
    }

    /// Durable inserts by 64 tasks, through the engine's group commit.
    pub fn insert(&self, spread: Spread, period: Duration) -> Result<Measured, AnyError> {
        self.write(period, |seed, deadline| {
            let writer = Writer {
                engine: self.engine.clone(),
                entities: self.entities.clone(),
                fresh: self.fresh.clone(),
                random: fastrand::Rng::with_seed(seed),
            };
            writer.run(spread, deadline)
        })
    }

    /// Durable puts of contents by 64 tasks, without a row that names them.
    pub fn put_contents(&self, body: &Bytes, summed: Summed, period: Duration) -> Result<Measured, AnyError> {
        self.write(period, |writer, deadline| {
            put_contents_until(self.engine.contents(), writer, body.clone(), summed, deadline)
        })
    }

    /// Keeps a content that repeats a payload up to so many bytes.
    pub fn keep_content(&self, payload: &Bytes, bytes: usize) -> Result<Content, AnyError> {
        let pieces = payload.chunks(PIECE_BYTES_MAX).map(|piece| payload.slice_ref(piece)).cycle();
        let mut source = BytesSource::new(pieces.take(bytes / PIECE_BYTES_MAX));
        let owner = Owner { space: SPACE, partition: b"read".to_vec() };
        let size = ContentSize::Exactly(bytes as u64);
        Ok(self.runtime.block_on(self.engine.contents().put(&owner, size, &mut source))?)
    }

    /// Reads a content so often, and checks all of it: what a server does before it sends. The requests of what is measured
    /// are mebibytes.
    pub fn read_content(&self, content: Content, times: usize) -> Result<Measured, AnyError> {
        let process_id = std::process::id();
        let cpu_before = cpu_time(process_id);
        let started = Instant::now();
        let contents = self.engine.contents();
        let reading = self.runtime.spawn(async move {
            let mut latency = latencies();
            for _ in 0..times {
                let begun = Instant::now();
                let mut source = contents.read(SPACE, &content, 0..content.length).await?;
                while let Some(piece) = source.next().await? {
                    std::hint::black_box(&piece);
                }
                latency.saturating_record(u64::try_from(begun.elapsed().as_micros())?);
            }
            Ok::<_, AnyError>(latency)
        });
        let latency = self.runtime.block_on(reading)??;
        let elapsed = started.elapsed();
        let cpu = cpu_time(process_id).saturating_sub(cpu_before);
        let requests = content.length * times as u64 / MIB as u64;
        Ok(Measured { requests, elapsed, latency, cpu })
    }

    /// Lets 64 tasks write until a deadline; `writer` makes the task with a number.
    fn write<W>(&self, period: Duration, writer: impl Fn(u64, Instant) -> W) -> Result<Measured, AnyError>
    where
        W: Future<Output = Result<Histogram<u64>, AnyError>> + Send + 'static,
    {
        let process_id = std::process::id();
        let cpu_before = cpu_time(process_id);
        let started = Instant::now();
        let latency = self.runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..WRITERS {
                tasks.spawn(writer(number, started + period));
            }
            let mut total = latencies();
            while let Some(joined) = tasks.join_next().await {
                total.add(joined??)?;
            }
            Ok::<_, AnyError>(total)
        })?;
        let elapsed = started.elapsed();
        let cpu = cpu_time(process_id).saturating_sub(cpu_before);
        Ok(Measured { requests: latency.len(), elapsed, latency, cpu })
    }

    /// Reads ranges of this many rows and writes each as JSON text, on one task.
    pub fn scan_to_json(&self, range_rows: u64, period: Duration) -> Result<Measured, AnyError> {
        let process_id = std::process::id();
        let cpu_before = cpu_time(process_id);
        let started = Instant::now();
        let (engine, total_rows) = (self.engine.clone(), self.rows);
        let scanning = self.runtime.spawn(async move {
            let mut random = fastrand::Rng::with_seed(1);
            let (mut latency, mut text) = (latencies(), Vec::new());
            while started.elapsed() < period {
                let begun = Instant::now();
                let first = random.u64(..total_rows) / range_rows * range_rows;
                scan_range(&engine, first, range_rows, &mut text).await?;
                latency.saturating_record(u64::try_from(begun.elapsed().as_micros())?);
            }
            Ok::<_, AnyError>(latency)
        });
        let latency = self.runtime.block_on(scanning)??;
        let elapsed = started.elapsed();
        let cpu = cpu_time(process_id).saturating_sub(cpu_before);
        Ok(Measured { requests: latency.len(), elapsed, latency, cpu })
    }
}

async fn put_contents_until(
    contents: Arc<LocalContents>,
    writer: u64,
    body: Bytes,
    summed: Summed,
    deadline: Instant,
) -> Result<Histogram<u64>, AnyError> {
    let owner = Owner { space: SPACE, partition: writer.to_be_bytes().to_vec() };
    let size = ContentSize::Exactly(body.len() as u64);
    let mut latency = latencies();
    while Instant::now() < deadline {
        let begun = Instant::now();
        if summed == Summed::Md5 {
            std::hint::black_box(Md5::digest(std::hint::black_box(&body)));
        }
        contents.put(&owner, size, &mut BytesSource::new([body.clone()])).await?;
        latency.saturating_record(u64::try_from(begun.elapsed().as_micros())?);
    }
    Ok(latency)
}

async fn scan_range(
    engine: &LocalEngine,
    first: u64,
    range_rows: u64,
    text: &mut Vec<u8>,
) -> Result<(), AnyError> {
    text.clear();
    let mut range = ScanRange::partition(partition_key(first).as_bytes());
    range.from.row = row_key(first).into_bytes();
    let (mut count, mut failure) = (0, None);
    let mut visit = |row: tavola_engine::ScannedRow<'_>| {
        failure = append_json(text, row).err();
        count += 1;
        if failure.is_some() || count == range_rows {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    engine.scan(SPACE, &range, &mut visit).await?;
    match failure {
        Some(failure) => Err(failure),
        None if count == range_rows => Ok(()),
        None => Err(format!("a range of {range_rows} rows has {count}").into()),
    }
}

/// The text of one entity by a JSON library that knows nothing of tables.
fn append_json(text: &mut Vec<u8>, row: tavola_engine::ScannedRow<'_>) -> Result<(), AnyError> {
    use serde_json::json;
    use tavola_model::EdmValue;
    let properties = Properties::from_bytes(row.body).ok_or("a stored row is malformed")?;
    text.extend_from_slice(b"{\"PartitionKey\":");
    write_text(text, std::str::from_utf8(row.partition)?)?;
    text.extend_from_slice(b",\"RowKey\":");
    write_text(text, std::str::from_utf8(row.row)?)?;
    text.extend_from_slice(b",\"Timestamp\":");
    write_text(text, &row.version.to_string())?;
    for property in properties.iter() {
        text.push(b',');
        write_text(text, property.name)?;
        text.push(b':');
        match property.value {
            EdmValue::String(value) => write_text(text, value)?,
            EdmValue::Int32(value) => serde_json::to_writer(&mut *text, &value)?,
            EdmValue::Double(value) => serde_json::to_writer(&mut *text, &value)?,
            EdmValue::Boolean(value) => serde_json::to_writer(&mut *text, &value)?,
            other => serde_json::to_writer(&mut *text, &json!(format!("{other:?}")))?,
        }
    }
    text.push(b'}');
    Ok(())
}

fn write_text(text: &mut Vec<u8>, value: &str) -> Result<(), AnyError> {
    serde_json::to_writer(&mut *text, value).map_err(Into::into)
}

struct Writer {
    engine: Arc<LocalEngine>,
    entities: Entities,
    fresh: Arc<AtomicU64>,
    random: fastrand::Rng,
}

impl Writer {
    async fn run(mut self, spread: Spread, deadline: Instant) -> Result<Histogram<u64>, AnyError> {
        let mut latency = latencies();
        while Instant::now() < deadline {
            let number = self.fresh.fetch_add(1, Ordering::Relaxed);
            let body = self.entities.stored(number)?;
            let partition = match spread {
                Spread::Many => format!("n{:05}", self.random.u64(..10 * PARTITION_ROWS)),
                Spread::Hot => "hot".to_owned(),
            };
            let row = format!("r{number:012}");
            let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
            let begun = Instant::now();
            self.engine.transact(SPACE, partition.as_bytes(), &[row.as_bytes()], &mut decide).await?;
            latency.saturating_record(u64::try_from(begun.elapsed().as_micros())?);
        }
        Ok(latency)
    }
}
