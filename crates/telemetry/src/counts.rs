//! What is counted of every request, recorded or not: exactly, and without a lock.
//!
//! Label sets are bounded by what the server knows, never by what a client sends: the three services, the operations
//! that have a name in the code, the classes of status, the error codes. Threads add to shards, so that they do not take
//! each other's cache lines; a reading sums the shards. The first threads, one for each core, have a shard to themselves
//! and add to it by plain loads and stores: an addition that is atomic waits for its cache line before the next begins.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use tavola_model::{ErrorCode, PlanKind, PlanReport, StorageService};

use crate::histogram::{Histogram, HistogramReading};

/// Bounds of the latency buckets, in nanoseconds.
pub const LATENCY_BOUNDS_NS: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
];

/// The operation of a request that was refused before it was known.
pub const UNKNOWN_OPERATION: &str = "Unknown";

/// The kinds of plan, as they are counted.
pub const PLAN_KINDS: [PlanKind; 5] = [
    PlanKind::Point,
    PlanKind::Range,
    PlanKind::PartitionScan,
    PlanKind::PartitionRange,
    PlanKind::TableScan,
];

/// The services, as they are counted.
pub const SERVICES: [StorageService; 3] =
    [StorageService::Table, StorageService::Queue, StorageService::Blob];

/// Classes of status; the first is of requests that had no answer.
pub const STATUS_CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Shards of a single thread each, at most.
const OWN_SHARDS_MAX: usize = 16;
/// Shards of all other threads.
const COMMON_SHARDS: usize = 4;
/// Twice the operations that have names, so that one finds its slot at the first look, nearly always.
const SLOTS: usize = 256;
const CODES_MAX: usize = 256;

/// One request, as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The service that was asked.
    pub service: StorageService,
    /// What for.
    pub operation: Option<&'static str>,
    /// The status of its answer; 0 for none.
    pub status: u16,
    /// The code of a refusal.
    pub code: Option<ErrorCode>,
    /// Refused because of load.
    pub throttled: bool,
    /// From the head to the begin of the execution; `None` if it was not executed.
    pub queued: Option<Duration>,
    /// From the head to the end of the answer.
    pub total: Duration,
    /// The plan of a query.
    pub plan: Option<PlanReport>,
    /// Rows read.
    pub rows_scanned: u64,
    /// Rows answered with, or written.
    pub rows_returned: u64,
    /// Bytes of the body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
}

impl Counted {
    /// A request of which nothing is known yet.
    pub fn new(service: StorageService) -> Self {
        Self {
            service,
            operation: None,
            status: 0,
            code: None,
            throttled: false,
            queued: None,
            total: Duration::ZERO,
            plan: None,
            rows_scanned: 0,
            rows_returned: 0,
            bytes_in: 0,
            bytes_out: 0,
        }
    }
}

/// What was counted since the start.
#[derive(Debug)]
pub struct RequestCounts {
    shards: Vec<Shard>,
}

#[derive(Debug)]
struct Shard {
    operations: Vec<Slot>,
    services: [ServiceShard; SERVICES.len()],
    plans: [AtomicU64; PLAN_KINDS.len()],
    codes: [AtomicU64; CODES_MAX],
}

#[derive(Debug)]
struct Slot {
    key: OnceLock<(StorageService, &'static str)>,
    statuses: [AtomicU64; STATUS_CLASSES.len()],
    latency: Histogram,
}

#[derive(Debug)]
struct ServiceShard {
    begun: AtomicU64,
    ended: AtomicU64,
    queued: Histogram,
    throttled: AtomicU64,
    rows_scanned: AtomicU64,
    rows_returned: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// A reading of all counts.
#[derive(Clone, Debug)]
pub struct CountsReading {
    /// By service and operation, those that were asked for.
    pub operations: Vec<OperationReading>,
    /// By service, in the order of [`SERVICES`].
    pub services: [ServiceReading; SERVICES.len()],
    /// In the order of [`PLAN_KINDS`].
    pub plans: [u64; PLAN_KINDS.len()],
    /// Codes that were answered at least once.
    pub codes: Vec<(&'static str, u64)>,
}

/// What was counted of one operation.
#[derive(Clone, Debug)]
pub struct OperationReading {
    /// Its service.
    pub service: StorageService,
    /// Its name.
    pub operation: &'static str,
    /// Requests by class of status, in the order of [`STATUS_CLASSES`].
    pub statuses: [u64; STATUS_CLASSES.len()],
    /// Nanoseconds to the end of the answer.
    pub latency: HistogramReading,
}

/// What was counted of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ServiceReading {
    /// Nanoseconds from the head to the begin of the execution.
    pub queued: HistogramReading,
    pub throttled: u64,
    pub rows_scanned: u64,
    pub rows_returned: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub in_flight: u64,
}

impl Default for ServiceReading {
    fn default() -> Self {
        let queued = Histogram::new(LATENCY_BOUNDS_NS).read();
        Self {
            queued,
            throttled: 0,
            rows_scanned: 0,
            rows_returned: 0,
            bytes_in: 0,
            bytes_out: 0,
            in_flight: 0,
        }
    }
}

impl Default for RequestCounts {
    fn default() -> Self {
        let zeros = || [const { AtomicU64::new(0) }; CODES_MAX];
        let slot = |_| Slot {
            key: OnceLock::new(),
            statuses: Default::default(),
            latency: Histogram::new(LATENCY_BOUNDS_NS),
        };
        let shard = |_| Shard {
            operations: (0..SLOTS).map(slot).collect(),
            services: std::array::from_fn(|_| ServiceShard::new()),
            plans: Default::default(),
            codes: zeros(),
        };
        assert!(ErrorCode::ALL.len() <= CODES_MAX, "every code is counted");
        Self { shards: (0..own_shards() + COMMON_SHARDS).map(shard).collect() }
    }
}

impl RequestCounts {
    /// A request has begun.
    pub fn begin(&self, service: StorageService) {
        let mine = MyShard::get();
        mine.add(&self.shards[mine.index].services[index(service)].begun, 1);
    }

    /// It has ended, like this.
    pub fn end(&self, counted: &Counted) {
        let service = index(counted.service);
        let mine = MyShard::get();
        let shard = &self.shards[mine.index];
        let operation = counted.operation.unwrap_or(UNKNOWN_OPERATION);
        if let Some(slot) = shard.slot(counted.service, operation) {
            let class = usize::from(counted.status / 100).min(STATUS_CLASSES.len() - 1);
            mine.add(&slot.statuses[class], 1);
            slot.latency.add_by(nanoseconds(counted.total), |counter, number| mine.add(counter, number));
        }
        let counts = &shard.services[service];
        mine.add(&counts.ended, 1);
        let add = |counter: &AtomicU64, number: u64| {
            if number > 0 {
                mine.add(counter, number);
            }
        };
        if let Some(queued) = counted.queued {
            counts.queued.add_by(nanoseconds(queued), |counter, number| mine.add(counter, number));
        }
        add(&counts.throttled, u64::from(counted.throttled));
        add(&counts.rows_scanned, counted.rows_scanned);
        add(&counts.rows_returned, counted.rows_returned);
        add(&counts.bytes_in, counted.bytes_in);
        add(&counts.bytes_out, counted.bytes_out);
        if let Some(plan) = counted.plan {
            mine.add(&shard.plans[plan_index(plan.kind)], 1);
        }
        if let Some(code) = counted.code {
            mine.add(&shard.codes[code as usize], 1);
        }
    }

    /// What was counted so far.
    pub fn read(&self) -> CountsReading {
        let mut reading = CountsReading {
            operations: Vec::new(),
            services: Default::default(),
            plans: [0; PLAN_KINDS.len()],
            codes: Vec::new(),
        };
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Ends before begins, so that no request seems to have ended that has not begun.
        let sum_of = |service: usize, of: fn(&ServiceShard) -> &AtomicU64| -> u64 {
            self.shards.iter().map(|shard| of(&shard.services[service]).load(Ordering::Acquire)).sum()
        };
        for (index, service) in reading.services.iter_mut().enumerate() {
            let ended = sum_of(index, |shard| &shard.ended);
            service.in_flight = sum_of(index, |shard| &shard.begun).saturating_sub(ended);
        }
        for shard in &self.shards {
            shard.operations.iter().filter_map(Slot::read).for_each(|read| reading.add(read));
            for (sum, service) in reading.services.iter_mut().zip(&shard.services) {
                sum.queued.merge(&service.queued.read());
                sum.throttled += load(&service.throttled);
                sum.rows_scanned += load(&service.rows_scanned);
                sum.rows_returned += load(&service.rows_returned);
                sum.bytes_in += load(&service.bytes_in);
                sum.bytes_out += load(&service.bytes_out);
            }
            reading.plans.iter_mut().zip(&shard.plans).for_each(|(sum, plan)| *sum += load(plan));
        }
        // Codes of one name on the wire are one.
        for code in ErrorCode::ALL {
            let count: u64 = self.shards.iter().map(|shard| load(&shard.codes[*code as usize])).sum();
            match reading.codes.iter_mut().find(|(name, _)| *name == code.as_str()) {
                Some((_, sum)) => *sum += count,
                None if count > 0 => reading.codes.push((code.as_str(), count)),
                None => {}
            }
        }
        reading.operations.sort_by_key(|read| (index(read.service), read.operation));
        reading
    }
}

impl CountsReading {
    fn add(&mut self, read: OperationReading) {
        let is_same = |known: &&mut OperationReading| {
            known.service == read.service && known.operation == read.operation
        };
        match self.operations.iter_mut().find(is_same) {
            Some(known) => {
                known.statuses.iter_mut().zip(read.statuses).for_each(|(sum, count)| *sum += count);
                known.latency.merge(&read.latency);
            }
            None => self.operations.push(read),
        }
    }
}

impl Shard {
    /// The slot of an operation; the first request of it takes one. Names are found by where they are in memory: one
    /// that is there twice has two slots, which a reading merges.
    fn slot(&self, service: StorageService, operation: &'static str) -> Option<&Slot> {
        let address = operation.as_ptr() as usize;
        let start = (address ^ (address >> 7)).wrapping_mul(31) + index(service);
        (0..SLOTS).map(|step| &self.operations[(start + step) % SLOTS]).find(|slot| {
            let (known_service, known) = slot.key.get_or_init(|| (service, operation));
            *known_service == service && std::ptr::eq(known.as_ptr(), operation.as_ptr())
        })
    }
}

impl ServiceShard {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            begun: zero(),
            ended: zero(),
            queued: Histogram::new(LATENCY_BOUNDS_NS),
            throttled: zero(),
            rows_scanned: zero(),
            rows_returned: zero(),
            bytes_in: zero(),
            bytes_out: zero(),
        }
    }
}

impl Slot {
    fn read(&self) -> Option<OperationReading> {
        let (service, operation) = *self.key.get()?;
        let statuses = std::array::from_fn(|class| self.statuses[class].load(Ordering::Relaxed));
        Some(OperationReading { service, operation, statuses, latency: self.latency.read() })
    }
}

fn index(service: StorageService) -> usize {
    match service {
        StorageService::Table => 0,
        StorageService::Queue => 1,
        StorageService::Blob => 2,
    }
}

fn plan_index(kind: PlanKind) -> usize {
    match kind {
        PlanKind::Point => 0,
        PlanKind::Range => 1,
        PlanKind::PartitionScan => 2,
        PlanKind::PartitionRange => 3,
        PlanKind::TableScan => 4,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn own_shards() -> usize {
    static COUNT: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from).min(OWN_SHARDS_MAX));
    *COUNT
}

/// The shard that this thread adds to.
#[derive(Clone, Copy)]
struct MyShard {
    index: usize,
    /// No other thread adds to it.
    is_own: bool,
}

impl MyShard {
    fn get() -> Self {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static MINE: MyShard = MyShard::of_thread(THREADS.fetch_add(1, Ordering::Relaxed)));
        MINE.with(|mine| *mine)
    }

    /// Of the thread of this number; a number is never given twice.
    fn of_thread(number: usize) -> Self {
        let own = own_shards();
        let is_own = number < own;
        Self { index: if is_own { number } else { own + number % COMMON_SHARDS }, is_own }
    }

    fn add(self, counter: &AtomicU64, number: u64) {
        if self.is_own {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
        } else {
            counter.fetch_add(number, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(operation: Option<&'static str>, status: u16) -> Counted {
        Counted {
            operation,
            status,
            total: Duration::from_micros(300),
            rows_scanned: 3,
            rows_returned: 1,
            bytes_in: 10,
            bytes_out: 20,
            ..Counted::new(StorageService::Table)
        }
    }

    #[test]
    fn what_many_threads_count_is_summed() {
        let counts = RequestCounts::default();
        std::thread::scope(|scope| {
            for _ in 0..9 {
                scope.spawn(|| {
                    for (operation, status) in
                        [(Some("GetEntity"), 200), (Some("GetEntity"), 404), (None, 403), (None, 0)]
                    {
                        counts.begin(StorageService::Table);
                        counts.end(&counted(operation, status));
                    }
                    counts.begin(StorageService::Queue);
                    let got = counted(Some("GetEntity"), 200);
                    counts.end(&Counted { service: StorageService::Queue, ..got });
                });
            }
        });
        let reading = counts.read();
        let shown: Vec<_> = reading
            .operations
            .iter()
            .map(|read| (read.operation, read.statuses, read.latency.count()))
            .collect();
        assert_eq!(
            shown,
            [
                ("GetEntity", [0, 0, 9, 0, 9, 0], 18),
                (UNKNOWN_OPERATION, [9, 0, 0, 0, 9, 0], 18),
                ("GetEntity", [0, 0, 9, 0, 0, 0], 9)
            ]
        );
        let table = ServiceReading {
            rows_scanned: 108,
            rows_returned: 36,
            bytes_in: 360,
            bytes_out: 720,
            ..ServiceReading::default()
        };
        assert_eq!(reading.services[0], table);
    }

    #[test]
    fn every_code_and_plan_has_its_count() {
        let counts = RequestCounts::default();
        for code in ErrorCode::ALL {
            counts.begin(StorageService::Blob);
            counts.end(&Counted { code: Some(*code), throttled: true, ..counted(None, 500) });
        }
        for kind in PLAN_KINDS {
            let plan = PlanReport { kind, ranges: 1, scanned: 1, returned: 1 };
            counts.begin(StorageService::Table);
            counts.end(&Counted { plan: Some(plan), ..counted(None, 200) });
        }
        let reading = counts.read();
        let total: u64 = reading.codes.iter().map(|(_, count)| count).sum();
        assert_eq!((total, reading.plans), (ErrorCode::ALL.len() as u64, [1; 5]));
        let mut names: Vec<_> = reading.codes.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), reading.codes.len());
        assert_eq!(reading.services[0].throttled, ErrorCode::ALL.len() as u64);
    }
}
