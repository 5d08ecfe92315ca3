//! The hand-over of records from requests to whoever wants them.
//!
//! A request never waits here. It asks whether it is recorded, and if so leaves its record in a bounded queue; a
//! thread takes them out in batches and shows each batch to every sink. At more requests a second than are to be recorded
//! only one in `k` is, and its weight says so; `k` follows the rate. A record that finds the queue full is
//! dropped and counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam_queue::ArrayQueue;
use tavola_model::{AccountName, Clock, StorageService};

use crate::counts::{Counted, RequestCounts};
use crate::record::{AccessRecord, RecordSink};

/// Records that wait at most. The highest rate of an interval fits, so that a burst out of the blue is not lost.
const WAITING_MAX: usize = 8_192;
/// How often waiting records are taken out while there are some.
const INTERVAL: Duration = Duration::from_millis(100);
/// How often it is looked for records while there are none; the first one ends the wait.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// At most one in so many is recorded.
const ONE_IN_MAX: u32 = 1 << 16;

/// Counts requests, takes records of them and hands those to sinks.
pub struct Recorder {
    counts: RequestCounts,
    sinks: Vec<Arc<dyn RecordSink>>,
    clock: Arc<dyn Clock>,
    waiting: ArrayQueue<Box<AccessRecord>>,
    /// Requests a second of which every one is recorded.
    per_second: u32,
    slow_time: Option<Duration>,
    is_on: bool,
    /// Services of accounts whose records are to have their detail.
    detailed: ArcSwap<HashMap<(AccountName, StorageService), DetailOf>>,
    /// Every request to some of them is recorded.
    records_all: AtomicBool,
    /// Requests that asked whether they are recorded.
    asked: AtomicU64,
    /// One request in this many, a power of two, is recorded.
    one_in: AtomicU32,
    /// Requests of records that did not fit into the queue.
    dropped: AtomicU64,
    is_idle: AtomicBool,
    is_closing: AtomicBool,
    thread: OnceLock<Thread>,
    running: Mutex<Option<JoinHandle<()>>>,
    hand_over: Mutex<HandOver>,
}

/// Which requests are recorded with their detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailOf {
    /// Those that are recorded anyway: enough for sums, as records have weights.
    Sampled,
    /// Every one, at any load: a log has a line for each.
    All,
}

/// What the one who hands over keeps from one time to the next.
struct HandOver {
    batch: Vec<AccessRecord>,
    at: Duration,
    asked: u64,
    dropped: u64,
}

impl Recorder {
    /// Gives a recorder its thread. Without sinks it needs none, and nothing is recorded.
    pub fn start(self) -> std::io::Result<Arc<Self>> {
        let recorder = Arc::new(self);
        if !recorder.sinks.is_empty() {
            let run = recorder.clone();
            let running = std::thread::Builder::new().name("records".into()).spawn(move || run.run())?;
            let _ = recorder.thread.set(running.thread().clone());
            *recorder.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        }
        Ok(recorder)
    }

    /// A recorder for these sinks. Until it is started, records are handed over only by [`Recorder::flush`].
    pub fn new(sinks: Vec<Arc<dyn RecordSink>>, clock: Arc<dyn Clock>) -> Self {
        let hand_over = HandOver { batch: Vec::new(), at: clock.monotonic(), asked: 0, dropped: 0 };
        Self {
            counts: RequestCounts::default(),
            per_second: u32::MAX,
            slow_time: None,
            is_on: true,
            detailed: ArcSwap::default(),
            records_all: AtomicBool::new(false),
            waiting: ArrayQueue::new(if sinks.is_empty() { 1 } else { WAITING_MAX }),
            sinks,
            clock,
            asked: AtomicU64::new(0),
            one_in: AtomicU32::new(1),
            dropped: AtomicU64::new(0),
            is_idle: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            thread: OnceLock::new(),
            running: Mutex::default(),
            hand_over: Mutex::new(hand_over),
        }
    }

    /// The time on the clock that requests are measured by; always the same if nobody measures.
    pub fn now(&self) -> Duration {
        if self.is_on { self.clock.monotonic() } else { Duration::ZERO }
    }

    /// The same; if it is not on, requests are neither counted nor recorded nor measured.
    #[must_use]
    pub fn with_telemetry(self, is_on: bool) -> Self {
        Self { is_on, ..self }
    }

    /// Whether requests are to be observed at all.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The same, with about so many records a second; of more requests some are recorded. With 0 none is but what is
    /// logged.
    #[must_use]
    pub fn with_rate(self, per_second: u32) -> Self {
        Self { per_second, ..self }
    }

    /// The same; a request that takes so long to be answered is slow, and whoever answers it is to say so.
    #[must_use]
    pub fn with_slow_time(self, slow_time: Option<Duration>) -> Self {
        Self { slow_time, ..self }
    }

    /// How long a slow request takes, if somebody wants to know.
    pub fn slow_time(&self) -> Option<Duration> {
        self.slow_time
    }

    /// From now on records of these services of accounts have their detail, and of some there is one of every request.
    pub fn detail(&self, detailed: HashMap<(AccountName, StorageService), DetailOf>) {
        let records_all = detailed.values().any(|of| *of == DetailOf::All);
        self.detailed.store(Arc::new(detailed));
        self.records_all.store(records_all, Ordering::Release);
    }

    /// Whether every request to a service of an account is recorded.
    pub fn records_all_of(&self, account: &AccountName, service: StorageService) -> bool {
        // One flag is all that most requests look at.
        self.records_all.load(Ordering::Acquire) && self.detail_of(account, service) == Some(DetailOf::All)
    }

    /// Which requests to a service of an account are recorded with their detail.
    pub fn detail_of(&self, account: &AccountName, service: StorageService) -> Option<DetailOf> {
        self.detailed.load().get(&(account.clone(), service)).copied()
    }

    /// What was counted of all requests.
    pub fn counts(&self) -> &RequestCounts {
        &self.counts
    }

    /// A request begins. Whether it is recorded, and if so for how many it stands.
    pub fn begin(&self, service: StorageService) -> Option<u32> {
        self.counts.begin(service);
        self.sample()
    }

    /// It has ended: it is counted, and its record, if it has one, is completed and taken.
    pub fn end(&self, counted: &Counted, resource: Option<&str>, record: Option<Box<AccessRecord>>) {
        self.counts.end(counted);
        let Some(mut record) = record else { return };
        record.operation = counted.operation;
        record.resource = resource.map(Box::from);
        record.plan = counted.plan;
        record.rows_scanned = counted.rows_scanned;
        record.rows_returned = counted.rows_returned;
        record.bytes_in = counted.bytes_in;
        record.bytes_out = counted.bytes_out;
        record.durations.total = counted.total;
        record.status = counted.status;
        record.code = counted.code;
        record.throttled = counted.throttled;
        self.push(record);
    }

    /// Whether the next request is recorded, and if so for how many it stands.
    fn sample(&self) -> Option<u32> {
        if self.sinks.is_empty() || self.per_second == 0 {
            return None;
        }
        let one_in = self.one_in.load(Ordering::Relaxed);
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        // Not simply every k-th: requests that alternate would then be seen from one side only.
        (one_in == 1 || scatter(asked) & (one_in - 1) == 0).then_some(one_in)
    }

    /// Takes a record, unless the queue is full.
    fn push(&self, record: Box<AccessRecord>) {
        if let Err(refused) = self.waiting.push(record) {
            self.dropped.fetch_add(u64::from(refused.weight), Ordering::Relaxed);
        }
        let wake = self.is_idle.load(Ordering::Relaxed) || self.waiting.len() == WAITING_MAX / 2;
        if wake && let Some(thread) = self.thread.get() {
            self.is_idle.store(false, Ordering::Relaxed);
            thread.unpark();
        }
    }

    /// Requests that stay unrecorded because records came faster than the sinks took them. Those that were left out
    /// on purpose, and are in the weight of others, are not among them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// One request in this many is recorded now.
    pub fn one_in(&self) -> u32 {
        self.one_in.load(Ordering::Relaxed)
    }

    /// Hands all waiting records over now.
    pub fn flush(&self) {
        self.hand_over();
    }

    /// Hands the last records over and ends the thread.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.thread().unpark();
            if running.join().is_err() {
                tracing::error!("a sink of access records has panicked");
            }
        }
        self.hand_over();
    }

    fn run(&self) {
        while !self.is_closing.load(Ordering::Acquire) {
            let was_idle = self.hand_over() == 0;
            // A request that comes just now may miss this, and then its record waits for the longer time.
            self.is_idle.store(was_idle, Ordering::Relaxed);
            std::thread::park_timeout(if was_idle { IDLE_INTERVAL } else { INTERVAL });
        }
    }

    /// Shows waiting records to all sinks, and says how many there were.
    fn hand_over(&self) -> usize {
        let mut hand_over = self.hand_over.lock().unwrap_or_else(PoisonError::into_inner);
        let HandOver { batch, at, asked, dropped } = &mut *hand_over;
        batch.clear();
        // What comes meanwhile is for the next time, so that this ends.
        for _ in 0..self.waiting.len() {
            let Some(record) = self.waiting.pop() else { break };
            batch.push(*record);
        }
        if !batch.is_empty() {
            for sink in &self.sinks {
                sink.observe(batch);
            }
        }
        let handed_over = batch.len();
        // Keys and filters of the last batch are not held until the next one.
        batch.clear();
        let (now, asked_now, dropped_now) =
            (self.clock.monotonic(), self.asked.load(Ordering::Relaxed), self.dropped());
        let elapsed = now.saturating_sub(*at);
        if elapsed >= INTERVAL / 2 {
            let one_in = match dropped_now > *dropped {
                true => self.one_in().saturating_mul(2).min(ONE_IN_MAX),
                false => one_in(asked_now - *asked, elapsed, self.per_second),
            };
            self.one_in.store(one_in, Ordering::Relaxed);
            (*at, *asked, *dropped) = (now, asked_now, dropped_now);
        }
        handed_over
    }
}

/// One request in how many is recorded, if so many came in this time: the least power of two that keeps the rate.
fn one_in(requests: u64, elapsed: Duration, per_second: u32) -> u32 {
    let allowed = u128::from(per_second) * elapsed.as_nanos() / 1_000_000_000;
    let one_in = u128::from(requests).div_ceil(allowed.max(1)).max(1).next_power_of_two();
    u32::try_from(one_in).unwrap_or(ONE_IN_MAX).min(ONE_IN_MAX)
}

/// A number whose low bits depend on all bits of the given one (the finalizer of SplitMix64).
fn scatter(count: u64) -> u32 {
    let value = (count ^ (count >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    u32::try_from(value >> 32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::DateTime;

    #[derive(Default)]
    struct Kept(Mutex<Vec<(u32, u16)>>);

    impl RecordSink for Kept {
        fn observe(&self, records: &[AccessRecord]) {
            let kept = records.iter().map(|record| (record.weight, record.status));
            self.0.lock().unwrap().extend(kept);
        }
    }

    /// A clock that a test moves.
    #[derive(Default)]
    struct Held(AtomicU64);

    impl Held {
        fn pass(&self, time: Duration) {
            self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap() / 100, Ordering::Relaxed);
        }
    }

    impl Clock for Held {
        fn now(&self) -> DateTime {
            DateTime::from_unix_ticks(self.0.load(Ordering::Relaxed))
        }
    }

    fn record(weight: u32, status: u16) -> Box<AccessRecord> {
        let record = AccessRecord::new(DateTime::from_unix_ticks(0), StorageService::Table);
        Box::new(AccessRecord { weight, status, ..record })
    }

    fn recorder() -> (Recorder, Arc<Kept>, Arc<Held>) {
        let (kept, clock) = (Arc::new(Kept::default()), Arc::new(Held::default()));
        (Recorder::new(vec![kept.clone()], clock.clone()).with_rate(500), kept, clock)
    }

    #[test]
    fn at_a_low_rate_every_request_is_recorded_in_order() {
        let (recorder, kept, clock) = recorder();
        for second in 0..3 {
            for number in 0..500 {
                let weight = recorder.sample().unwrap();
                recorder.push(record(weight, u16::try_from(number % 100 + second).unwrap()));
            }
            clock.pass(Duration::from_secs(1));
            recorder.flush();
        }
        let kept = kept.0.lock().unwrap();
        assert_eq!(kept.len(), 1500);
        assert!(kept.iter().all(|(weight, _)| *weight == 1));
        assert_eq!(kept[..3], [(1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn under_load_the_weights_of_some_stand_for_all() {
        let (recorder, kept, clock) = recorder();
        let mut asked = 0;
        for _ in 0..50 {
            for _ in 0..5_000 {
                asked += 1;
                if let Some(weight) = recorder.sample() {
                    // Requests that alternate are both seen.
                    recorder.push(record(weight, asked % 2));
                }
                asked %= 2;
            }
            clock.pass(Duration::from_millis(100));
            recorder.flush();
        }
        assert_eq!((recorder.one_in(), recorder.dropped()), (128, 0), "50,000 a second, 500 of them");
        let kept = kept.0.lock().unwrap();
        let first_interval = 5_000;
        assert!(kept.len() < first_interval + 50 * 250, "{}", kept.len());
        let sum: u32 = kept.iter().map(|(weight, _)| weight).sum();
        assert!((225_000..275_000).contains(&sum), "{sum} of 250,000");
        let odd: u32 = kept.iter().filter(|(_, status)| *status == 1).map(|(weight, _)| weight).sum();
        assert!((105_000..145_000).contains(&odd), "{odd} of 125,000");
    }

    #[test]
    fn only_where_a_log_is_kept_every_request_is_recorded() {
        let (recorder, ..) = recorder();
        let [logged, summed] = ["logged", "summed"].map(|name| AccountName::parse(name).unwrap());
        let table = |account: &AccountName| (account.clone(), StorageService::Table);
        recorder.detail([(table(&summed), DetailOf::Sampled)].into());
        assert!(!recorder.records_all_of(&summed, StorageService::Table));
        assert_eq!(recorder.detail_of(&summed, StorageService::Table), Some(DetailOf::Sampled));
        recorder.detail([(table(&summed), DetailOf::Sampled), (table(&logged), DetailOf::All)].into());
        assert!(recorder.records_all_of(&logged, StorageService::Table));
        assert!(!recorder.records_all_of(&logged, StorageService::Queue), "of this service no log is kept");
        assert!(!recorder.records_all_of(&summed, StorageService::Table));
    }

    #[test]
    fn records_beyond_the_queue_are_counted_and_fewer_are_taken() {
        let (recorder, kept, clock) = recorder();
        for _ in 0..WAITING_MAX + 10 {
            recorder.push(record(3, 200));
        }
        clock.pass(Duration::from_secs(1));
        recorder.flush();
        assert_eq!((kept.0.lock().unwrap().len(), recorder.dropped()), (WAITING_MAX, 30));
        assert_eq!(recorder.one_in(), 2);
        clock.pass(Duration::from_secs(1));
        recorder.flush();
        assert_eq!(recorder.one_in(), 1, "nothing was dropped since");
    }

    #[test]
    fn the_thread_hands_over_what_comes_and_the_rest_when_it_ends() {
        let kept = Arc::new(Kept::default());
        let recorder = Recorder::new(vec![kept.clone()], Arc::new(Held::default())).start().unwrap();
        for _ in 0..100 {
            recorder.push(record(1, 200));
        }
        while kept.0.lock().unwrap().len() < 100 {
            std::thread::yield_now();
        }
        recorder.push(record(1, 404));
        recorder.close();
        assert_eq!(kept.0.lock().unwrap().last(), Some(&(1, 404)));
    }

    #[test]
    fn with_a_rate_of_0_nobody_is_asked_to_make_a_record() {
        let (recorder, ..) = recorder();
        assert_eq!(recorder.with_rate(0).sample(), None);
    }

    #[test]
    fn without_sinks_nobody_is_asked_to_make_a_record() {
        let recorder = Recorder::new(Vec::new(), Arc::new(Held::default())).start().unwrap();
        assert_eq!(recorder.sample(), None);
        recorder.close();
    }
}
