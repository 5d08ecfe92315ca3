//! The load generator.
//!
//! In a closed loop each connection sends its next request when it has the answer to the last one: it finds
//! what a server can do. In an open loop requests are due at fixed times whether or not the server keeps up, and
//! latency counts from when a request was due: it finds what a client waits.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::AnyError;
use crate::connection::Connection;
use crate::cores::{Cores, keep_to};
use crate::process::cpu_time;
use crate::work::Source;

/// An answer that takes longer than this fails the run.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// A server under load.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`
    pub host: String,
    /// Whose time is counted.
    pub process_id: u32,
}

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub connections: usize,
    pub period: Duration,
    pub requests_max: u64,
    pub pace: Pace,
    pub waiting: Waiting,
}

impl Load {
    /// Each connection as fast as it is answered, for a time.
    pub fn closed(connections: usize, period: Duration) -> Self {
        Self { connections, period, requests_max: u64::MAX, pace: Pace::Closed, waiting: Waiting::Polling }
    }
}

/// When the next request is sent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// When the last one is answered.
    Closed,
    /// When it is due, at this rate over all connections.
    Open { per_second: u32 },
}

/// What the generator does until the next answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It polls its sockets, see [`stay_awake`].
    Polling,
    /// It sleeps, so that other load can be made on the same core.
    Sleeping,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Requests answered.
    pub requests: u64,
    pub elapsed: Duration,
    /// In microseconds.
    pub latency: Histogram<u64>,
    /// Time that the server spent on cores.
    pub cpu: Duration,
}

impl Measured {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Microseconds of the server's cores for each request.
    pub fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests.max(1) as f64
    }
}

/// A histogram of microseconds up to the longest answer.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 120_000_000, 3).expect("the bounds are constants that are valid")
}

/// Puts a load on a server. A request that is refused fails the run: it would be measured as fast.
pub fn run(cores: &Cores, target: &Target, load: Load, source: &Source) -> Result<Measured, AnyError> {
    let threads = cores.generator.len().clamp(1, load.connections);
    let started_requests = Arc::new(AtomicU64::new(0));
    let cpu_before = cpu_time(target.process_id);
    let parts = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let core = cores.generator.get(thread).copied();
                let started_requests = started_requests.clone();
                scope.spawn(move || {
                    keep_to(core.as_slice());
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                    let indexes = (thread..load.connections).step_by(threads);
                    runtime.block_on(run_thread(target, load, source, indexes, started_requests))
                })
            })
            .collect();
        let joined =
            handles.into_iter().map(|handle| handle.join().unwrap_or(Err("a thread panicked".into())));
        joined.collect::<Result<Vec<Part>, AnyError>>()
    })?;
    let mut total =
        Measured { requests: 0, elapsed: Duration::ZERO, latency: latencies(), cpu: Duration::ZERO };
    for part in parts {
        total.requests += part.latency.len();
        total.elapsed = total.elapsed.max(part.elapsed);
        total.latency.add(&part.latency)?;
    }
    total.cpu = cpu_time(target.process_id).saturating_sub(cpu_before);
    Ok(total)
}

/// What one connection or thread measured.
struct Part {
    latency: Histogram<u64>,
    elapsed: Duration,
}

async fn run_thread(
    target: &Target,
    load: Load,
    source: &Source,
    indexes: impl Iterator<Item = usize>,
    started_requests: Arc<AtomicU64>,
) -> Result<Part, AnyError> {
    let mut opened = Vec::new();
    for index in indexes {
        opened.push((index, Connection::open(&target.host).await?));
    }
    if load.waiting == Waiting::Polling {
        // Ends with the runtime.
        tokio::spawn(stay_awake());
    }
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (index, connection) in opened {
        let client =
            Client { index, connection, source: source.clone(), started_requests: started_requests.clone() };
        tasks.spawn(client.run(load, started));
    }
    let mut total = latencies();
    while let Some(joined) = tasks.join_next().await {
        total.add(joined??)?;
    }
    Ok(Part { latency: total, elapsed: started.elapsed() })
}

/// Keeps the generator looking for answers instead of sleeping until one comes. Whoever sends to a sleeping thread
/// pays for waking it, and only a server slower than its client finds it asleep: that would be a tax on the slower
/// ones that no client on another machine takes. It also makes the generator's share of the machine the same in each run.
pub async fn stay_awake() {
    loop {
        tokio::task::yield_now().await;
    }
}

/// One connection at work.
struct Client {
    index: usize,
    connection: Connection,
    source: Source,
    started_requests: Arc<AtomicU64>,
}

impl Client {
    async fn run(mut self, load: Load, started: Instant) -> Result<Histogram<u64>, AnyError> {
        let mut latency = latencies();
        let mut random = fastrand::Rng::with_seed(self.index as u64 + 1);
        let mut request = Vec::new();
        let deadline = started + load.period;
        // A server that cannot keep the pace is let off after as long again.
        let patience = deadline + load.period;
        for turn in 0.. {
            let due = match load.pace {
                Pace::Closed => Instant::now(),
                Pace::Open { per_second } => {
                    let number = turn * load.connections as u64 + self.index as u64;
                    let due = started + Duration::from_secs_f64(number as f64 / f64::from(per_second.max(1)));
                    tokio::time::sleep_until(due.into()).await;
                    due
                }
            };
            let is_over = due >= deadline || Instant::now() >= patience;
            if is_over || self.started_requests.fetch_add(1, Ordering::Relaxed) >= load.requests_max {
                break;
            }
            if let ControlFlow::Break(()) = self.source.next(&mut random, &mut request) {
                break;
            }
            // The body of an insert is made while its connection waits for nothing; that is not the server's time.
            let begun = if matches!(load.pace, Pace::Closed) { Instant::now() } else { due };
            let answer = tokio::time::timeout(ANSWER_TIME_MAX, self.connection.exchange(&request)).await??;
            if !self.connection.succeeded(&answer) {
                return Err(self.refusal(&request, &answer));
            }
            latency.saturating_record(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        Ok(latency)
    }

    fn refusal(&self, request: &[u8], answer: &crate::connection::Answer) -> AnyError {
        let line =
            |bytes: &[u8], len: usize| String::from_utf8_lossy(&bytes[..bytes.len().min(len)]).into_owned();
        let body = self.connection.bytes(answer.body.clone());
        format!("request refused ({})\n{}\n{}", answer.status, line(request, 200), line(body, 800)).into()
    }
}
