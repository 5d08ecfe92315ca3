//! Storage Analytics: logs of requests as blobs in `$logs`, and metrics in the `$Metrics…` tables, for the services of
//! accounts whose properties ask for them
//! (<https://learn.microsoft.com/azure/storage/common/storage-analytics>).
//!
//! Access records come in as to any other sink. A log has a line for every request, so each has a record where logs are
//! kept; metrics, which a new account has, add up the records that there are, by their weights. What is gathered waits in
//! memory, bounded, and is written through the service like anything else: logs every minute or when a mebibyte is there,
//! metrics when their hour or minute is over, all of it when the server stops. A log that cannot be written waits for the
//! next time. As with the real service a log may lack requests, if the server is killed or lines come faster than the
//! store takes them; nothing waits for it, and what is left out is counted.

mod line;
mod store;
mod totals;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tavola_frontend::LiveAccounts;
use tavola_model::{AccountName, Clock, DateTime, Logging, ServiceProperties, StorageService};
use tavola_service::Service;
use tavola_telemetry::{
    AccessKind, AccessRecord, Authentication, DetailOf, RecordSink, Recorder, RequestDetail, SERVICES,
    UNKNOWN_OPERATION,
};
use tokio::sync::{Notify, watch};

use line::Ending;
use store::AnalyticsStore;
use totals::{Period, Totals};

/// How often properties are read again, and what is due is written.
const TICK: Duration = Duration::from_secs(5);
/// Bytes of a log that do not wait any longer.
const LOG_BYTES_DUE: usize = 1024 * 1024;
/// Bytes of a log in memory at most; what comes then is left out.
const LOG_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long after its end a period is written, so that its last records are there.
const PERIOD_GRACE_SECONDS: u64 = 5;
/// How often it is looked for what is older than its retention.
const SWEEP_SECONDS: u64 = 60 * 60;

type ServiceKey = (AccountName, StorageService);

/// Gathers what is asked for, and writes it.
pub struct Analytics {
    /// How long a log may wait.
    log_seconds: u64,
    settings: ArcSwap<HashMap<ServiceKey, ServiceProperties>>,
    gathered: Mutex<Gathered>,
    /// Told when a log should not wait for the next tick.
    due: Notify,
    /// Lines that are in no log.
    left_out: AtomicU64,
}

#[derive(Default)]
struct Gathered {
    logs: BTreeMap<LogKey, Log>,
    totals: BTreeMap<TotalsKey, Totals>,
    /// Lines that did not fit into the buffers since it was last asked.
    left_out: u64,
}

/// A log of one hour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LogKey {
    account: AccountName,
    service: &'static str,
    hour: DateTime,
}

/// Lines that are not written yet.
#[derive(Clone, Debug)]
struct Log {
    text: String,
    version: String,
    /// When the first of its requests came, and the last.
    first: DateTime,
    last: DateTime,
    kinds: Vec<AccessKind>,
}

/// What is summed up together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TotalsKey {
    account: AccountName,
    service: StorageService,
    period: Period,
    begin: DateTime,
    /// One operation, or all.
    operation: Option<&'static str>,
}

/// What is to be written now.
struct Due {
    logs: Vec<(LogKey, Log)>,
    totals: Vec<(TotalsKey, Totals)>,
}

/// Whether everything was written that was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    All,
    Some,
}

impl Analytics {
    /// With nothing gathered yet.
    pub fn new(log_seconds: u64) -> Arc<Self> {
        Arc::new(Self {
            log_seconds,
            settings: ArcSwap::default(),
            gathered: Mutex::default(),
            due: Notify::new(),
            left_out: AtomicU64::new(0),
        })
    }

    /// Lines that are in no log, because the buffers were full or the last try to write them failed.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Writes what is due now and then, until told to stop, and then the rest.
    pub async fn run(
        self: Arc<Self>,
        service: Service,
        accounts: Arc<LiveAccounts>,
        recorder: Arc<Recorder>,
        clock: Arc<dyn Clock>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let store = AnalyticsStore::new(service, accounts, clock.clone());
        let mut swept_at = None;
        loop {
            if let Err(error) = self.read_settings(&store, &recorder).await {
                tracing::warn!(%error, "cannot read the properties of services, will retry");
            }
            let is_last = *stopped.borrow();
            if is_last {
                recorder.flush();
            }
            let written = self.write_due(&store, clock.now(), is_last).await;
            if is_last {
                return;
            }
            if swept_at.is_none_or(|at: DateTime| clock.now().seconds_between(at) >= SWEEP_SECONDS) {
                swept_at = Some(clock.now());
                self.sweep(&store, clock.now()).await;
            }
            tokio::select! {
                () = tokio::time::sleep(TICK.min(Duration::from_secs(self.log_seconds.max(1)))) => {}
                // A store that has just refused a log is not asked again at once.
                () = self.due.notified(), if written == Written::All => {}
                _ = stopped.wait_for(|stop| *stop) => {}
            }
        }
    }

    /// Reads what the services of all accounts ask for.
    async fn read_settings(
        &self,
        store: &AnalyticsStore,
        recorder: &Recorder,
    ) -> Result<(), tavola_model::ServiceError> {
        let mut settings = HashMap::new();
        for account in store.accounts() {
            for service in SERVICES {
                let properties = store.properties(&account, service).await?;
                if is_wanted(&properties) {
                    settings.insert((account.clone(), service), properties);
                }
            }
        }
        let detailed = settings.iter().map(|(key, properties)| (key.clone(), detail_of(&properties.logging)));
        recorder.detail(detailed.collect());
        self.settings.store(Arc::new(settings));
        Ok(())
    }

    /// Writes logs and sums that are due, or all of them.
    async fn write_due(&self, store: &AnalyticsStore, now: DateTime, is_last: bool) -> Written {
        let Due { logs, totals } = self.take_due(now, is_last);
        let mut written = Written::All;
        for (key, log) in logs {
            if let Err(error) = store.write_log(&key, &log).await {
                tracing::warn!(account = %key.account, service = key.service, %error, "cannot write a log of Storage Analytics");
                written = Written::Some;
                let mut gathered = self.lock();
                match is_last {
                    true => gathered.left_out += log.lines(),
                    false => gathered.put_back(key, log),
                }
            }
        }
        for (key, totals) in totals {
            if let Err(error) = store.write_totals(&key, &totals).await {
                tracing::warn!(account = %key.account, table = totals::table_name(key.service, key.period), %error, "cannot write metrics of Storage Analytics");
            }
        }
        let left_out = std::mem::take(&mut self.lock().left_out);
        if left_out > 0 {
            tracing::warn!(left_out, "requests were left out of the logs of Storage Analytics");
            self.left_out.fetch_add(left_out, Ordering::Relaxed);
        }
        written
    }

    fn take_due(&self, now: DateTime, is_last: bool) -> Due {
        let mut gathered = self.lock();
        let is_log_due = |log: &Log| {
            is_last
                || log.text.len() >= LOG_BYTES_DUE
                || now > log.first && now.seconds_between(log.first) >= self.log_seconds
        };
        let logs = gathered.logs.extract_if(.., |_, log| is_log_due(log)).collect();
        let totals = gathered.totals.extract_if(.., |key, _| is_last || key.is_over(now)).collect();
        Due { logs, totals }
    }

    /// Removes what is older than it is to be kept.
    async fn sweep(&self, store: &AnalyticsStore, now: DateTime) {
        for ((account, service), properties) in self.settings.load().iter() {
            if let Err(error) = store.sweep(account, *service, properties, now).await {
                tracing::warn!(%account, %error, "cannot remove old data of Storage Analytics, will retry");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordSink for Analytics {
    fn observe(&self, records: &[AccessRecord]) {
        let settings = self.settings.load();
        if settings.is_empty() {
            return;
        }
        let mut gathered = self.lock();
        for record in records {
            let Some(account) = record.account.clone() else { continue };
            if let Some(properties) = settings.get(&(account, record.service)) {
                gathered.add(record, properties);
            }
        }
        if gathered.logs.values().any(|log| log.text.len() >= LOG_BYTES_DUE) {
            self.due.notify_one();
        }
    }
}

impl Gathered {
    /// Keeps a log that could not be written, in front of what has come meanwhile.
    fn put_back(&mut self, key: LogKey, mut log: Log) {
        let Some(newer) = self.logs.remove(&key) else {
            self.logs.insert(key, log);
            return;
        };
        if log.version != newer.version || log.text.len() + newer.text.len() > LOG_BYTES_MAX {
            self.left_out += log.lines();
            self.logs.insert(key, newer);
            return;
        }
        log.text.push_str(&newer.text);
        log.first = log.first.min(newer.first);
        log.last = log.last.max(newer.last);
        for kind in newer.kinds {
            if !log.kinds.contains(&kind) {
                log.kinds.push(kind);
            }
        }
        self.logs.insert(key, log);
    }

    fn add(&mut self, record: &AccessRecord, properties: &ServiceProperties) {
        let (Some(account), Some(detail)) = (&record.account, &record.detail) else { return };
        if is_logged(&properties.logging, detail.access) && is_told(record, detail) {
            let hour = begin(record.received, Period::Hour);
            let key = LogKey { account: account.clone(), service: line::service_word(record.service), hour };
            let version = &properties.logging.version;
            let log = self.logs.entry(key).or_insert_with(|| Log::new(version, record.received));
            if log.text.len() < LOG_BYTES_MAX {
                line::append(&mut log.text, &log.version, record, detail);
                log.first = log.first.min(record.received);
                log.last = log.last.max(record.received);
                if !log.kinds.contains(&detail.access) {
                    log.kinds.push(detail.access);
                }
            } else {
                self.left_out += 1;
            }
        }
        let periods =
            [(Period::Hour, &properties.hour_metrics), (Period::Minute, &properties.minute_metrics)];
        for (period, metrics) in periods.into_iter().filter(|(_, metrics)| metrics.enabled) {
            let own = Some(record.operation.unwrap_or(UNKNOWN_OPERATION));
            let per_operation = metrics.include_apis.unwrap_or(false).then_some(own);
            for operation in [None].into_iter().chain(per_operation) {
                let key = TotalsKey {
                    account: account.clone(),
                    service: record.service,
                    period,
                    begin: begin(record.received, period),
                    operation,
                };
                self.totals.entry(key).or_default().add(record, detail);
            }
        }
    }
}

impl Log {
    fn new(version: &str, received: DateTime) -> Self {
        let version = if version == "2.0" { "2.0" } else { "1.0" };
        Self {
            text: String::new(),
            version: version.to_owned(),
            first: received,
            last: received,
            kinds: Vec::new(),
        }
    }

    fn lines(&self) -> u64 {
        self.text.lines().count() as u64
    }
}

impl TotalsKey {
    /// Whether nothing more comes for it.
    fn is_over(&self, now: DateTime) -> bool {
        let seconds = match self.period {
            Period::Hour => 60 * 60,
            Period::Minute => 60,
        };
        let end = self.begin.plus_seconds(seconds + PERIOD_GRACE_SECONDS);
        end.is_some_and(|end| now >= end)
    }
}

fn is_wanted(properties: &ServiceProperties) -> bool {
    detail_of(&properties.logging) == DetailOf::All
        || properties.hour_metrics.enabled
        || properties.minute_metrics.enabled
}

/// Which requests have to be recorded.
fn detail_of(logging: &Logging) -> DetailOf {
    if logging.read || logging.write || logging.delete { DetailOf::All } else { DetailOf::Sampled }
}

fn is_logged(logging: &Logging, access: AccessKind) -> bool {
    match access {
        AccessKind::Read => logging.read,
        AccessKind::Write => logging.write,
        AccessKind::Delete => logging.delete,
    }
}

/// Whether a request is one that logs tell of. Of anonymous ones they leave out most failures
/// (<https://learn.microsoft.com/azure/storage/common/storage-analytics-logging#logging-anonymous-requests>), because
/// anybody could fill them.
fn is_told(record: &AccessRecord, detail: &RequestDetail) -> bool {
    let is_not_modified = record.status == 304 && detail.access == AccessKind::Read;
    detail.authentication != Authentication::Anonymous
        || Ending::of(record) == Ending::Success
        || record.status >= 500
        || is_not_modified
}

/// When the period of a moment began.
fn begin(at: DateTime, period: Period) -> DateTime {
    const TICKS_PER_SECOND: u64 = 10_000_000;
    let ticks = TICKS_PER_SECOND
        * match period {
            Period::Hour => 60 * 60,
            Period::Minute => 60,
        };
    DateTime::from_ticks(at.ticks() / ticks * ticks).unwrap_or(at)
}

#[cfg(test)]
mod tests;
