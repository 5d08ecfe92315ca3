//! Requests counted by account: in each of the last seconds by kind, in steps of the last minute to the last day, and in
//! a second for each table, queue and container.
//!
//! A session is shown the sum of the accounts that it opens, and nothing of others. All is bounded: whoever names
//! accounts that do not exist does not displace those that are asked for more often.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use tavola_advisor::{Figures, Second, Span};
use tavola_model::{AccountName, StorageService};
use tavola_telemetry::AccessRecord;

use crate::tail::KINDS;

const ACCOUNTS_MAX: usize = 256;
/// Tables, queues and containers of all accounts that have a rate.
const RESOURCES_MAX: usize = 4096;
const SECONDS_MAX: usize = 120;
/// Seconds that a rate is taken over.
const RATE_SECONDS: i64 = 60;

/// Whether a session opens an account.
pub(crate) type IsShown<'a> = dyn Fn(&AccountName) -> bool + 'a;

/// An account, a service and a table, queue or container.
type ResourceKey = (AccountName, &'static str, Box<str>);

/// What was counted.
#[derive(Default)]
pub(crate) struct RequestSeries {
    accounts: HashMap<AccountName, Past>,
    resources: HashMap<ResourceKey, VecDeque<(i64, u64)>>,
}

/// One account.
struct Past {
    requests: u64,
    kinds: VecDeque<(i64, [u64; KINDS.len()])>,
    /// By [`Span`], from the shortest.
    spans: [Steps; 4],
}

impl Default for Past {
    fn default() -> Self {
        let steps = |step, shown| Steps { step, shown, counted: VecDeque::new() };
        Self {
            requests: 0,
            kinds: VecDeque::new(),
            spans: [steps(1, 60), steps(15, 60), steps(60, 60), steps(15 * 60, 96)],
        }
    }
}

/// Counts in steps of so many seconds.
struct Steps {
    step: i64,
    /// How many are shown; one more is kept, the one under way.
    shown: usize,
    counted: VecDeque<Counted>,
}

#[derive(Clone, Default)]
struct Counted {
    second: Second,
    latencies: Latencies,
}

impl RequestSeries {
    pub fn observe(&mut self, record: &AccessRecord, kind: usize) {
        let Some(account) = &record.account else { return };
        let (at, times) = (record.received.unix_seconds(), u64::from(record.weight.max(1)));
        if !self.accounts.contains_key(account) && self.accounts.len() >= ACCOUNTS_MAX {
            let least = self.accounts.iter().min_by_key(|(_, past)| past.requests);
            let Some(least) = least.map(|(name, _)| name.clone()) else { return };
            self.accounts.remove(&least);
        }
        let past = self.accounts.entry(account.clone()).or_default();
        past.requests += times;
        if let Some((_, counts)) =
            entry_at(&mut past.kinds, at, SECONDS_MAX, |kinds| kinds.0, |at| (at, [0; KINDS.len()]))
        {
            counts[kind] += times;
        }
        for steps in &mut past.spans {
            steps.observe(record, times);
        }
        let Some(resource) = &record.resource else { return };
        let key = (account.clone(), service_name(record.service), resource.clone());
        if self.resources.len() >= RESOURCES_MAX && !self.resources.contains_key(&key) {
            self.resources.retain(|_, seconds| seconds.back().is_some_and(|last| last.0 > at - RATE_SECONDS));
            if self.resources.len() >= RESOURCES_MAX {
                return;
            }
        }
        let seconds = self.resources.entry(key).or_default();
        let kept = usize::try_from(RATE_SECONDS).unwrap_or(0) + 1;
        if let Some((_, count)) = entry_at(seconds, at, kept, |second| second.0, |at| (at, 0)) {
            *count += times;
        }
    }

    /// All requests of the accounts since they were first seen.
    pub fn total(&self, is_shown: &IsShown<'_>) -> u64 {
        self.accounts.iter().filter(|(name, _)| is_shown(name)).map(|(_, past)| past.requests).sum()
    }

    /// How many requests of each kind there were, second by second: `[at, point, range, …]`.
    pub fn seconds(&self, is_shown: &IsShown<'_>) -> Vec<Vec<i64>> {
        let mut sums: BTreeMap<i64, [u64; KINDS.len()]> = BTreeMap::new();
        for (_, past) in self.accounts.iter().filter(|(name, _)| is_shown(name)) {
            for (at, counts) in &past.kinds {
                let sum = sums.entry(*at).or_default();
                sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        let surplus = sums.len().saturating_sub(SECONDS_MAX);
        let row = |(at, counts): (i64, [u64; KINDS.len()])| {
            let counts = counts.iter().map(|count| i64::try_from(*count).unwrap_or(i64::MAX));
            std::iter::once(at).chain(counts).collect()
        };
        sums.into_iter().skip(surplus).map(row).collect()
    }

    /// Puts the sums over the accounts in place of those over all accounts.
    pub fn fill(&self, figures: &mut Figures, now: i64, span: Span, is_shown: &IsShown<'_>) {
        let place = match span {
            Span::Minute => 0,
            Span::Quarter => 1,
            Span::Hour => 2,
            Span::Day => 3,
        };
        let accounts = self.accounts.iter().filter(|(name, _)| is_shown(name));
        let all: Vec<&Steps> = accounts.map(|(_, past)| &past.spans[place]).collect();
        let none = Past::default();
        let Steps { step, shown, .. } = none.spans[place];
        let end = now - now.rem_euclid(step);
        let from = end - step * i64::try_from(shown).unwrap_or(i64::MAX);
        let mut sums: BTreeMap<i64, Counted> = (0..shown)
            .filter_map(|place| Some(from + step * i64::try_from(place).ok()?))
            .map(|at| (at, Counted { second: Second { at, ..Second::default() }, ..Counted::default() }))
            .collect();
        for counted in all.iter().flat_map(|steps| &steps.counted) {
            if let Some(sum) = sums.get_mut(&counted.second.at) {
                sum.add(counted);
            }
        }
        let mut whole = Counted::default();
        sums.values().for_each(|counted| whole.add(counted));
        // Longer times are mostly longer than the server has run: there was nothing to count before its first request.
        let first =
            all.iter().filter_map(|steps| steps.counted.front()).map(|counted| counted.second.at).min();
        let first = first.map_or(from, |first| first.max(from));
        let seconds = if step == 1 { end - from } else { (end - first).max(step) };
        figures.step = step;
        figures.requests_per_second = per_second(whole.second.requests, seconds);
        figures.rows_scanned_per_second = per_second(whole.second.rows_scanned, seconds);
        figures.rows_returned_per_second = per_second(whole.second.rows_returned, seconds);
        figures.errors_per_second = per_second(whole.second.errors, seconds);
        figures.p99_ms = whole.latencies.p99_ms();
        figures.seconds = sums
            .into_values()
            .map(|counted| Second { p99_ms: counted.latencies.p99_ms(), ..counted.second })
            .collect();
    }

    /// Requests in a second over the last minute: of each account, and of each table, queue and container.
    pub fn rates(&self, now: i64, is_shown: &IsShown<'_>) -> Value {
        let is_recent = |at: i64| (now - RATE_SECONDS..now).contains(&at);
        let accounts = self.accounts.iter().filter(|(name, _)| is_shown(name)).map(|(name, past)| {
            let steps = past.spans[0].counted.iter().filter(|counted| is_recent(counted.second.at));
            let count = steps.map(|counted| counted.second.requests).sum();
            json!({ "account": name.as_str(), "perSecond": per_second(count, RATE_SECONDS) })
        });
        let resources = self.resources.iter().filter(|((name, ..), _)| is_shown(name));
        let resources = resources.filter_map(|((account, service, name), seconds)| {
            let count = seconds.iter().filter(|(at, _)| is_recent(*at)).map(|(_, count)| count).sum();
            let rate = || {
                json!({ "account": account.as_str(), "service": service, "name": name,
                "perSecond": per_second(count, RATE_SECONDS) })
            };
            (count > 0).then(rate)
        });
        json!({ "accounts": accounts.collect::<Vec<_>>(), "resources": resources.collect::<Vec<_>>() })
    }
}

/// The entry of a time, which is added where it is missing, unless it is older than all that are kept. A request that
/// took longer than others is recorded after later ones.
fn entry_at<T>(
    entries: &mut VecDeque<T>,
    at: i64,
    max: usize,
    time: impl Fn(&T) -> i64,
    new: impl Fn(i64) -> T,
) -> Option<&mut T> {
    let mut place = entries.partition_point(|entry| time(entry) < at);
    if entries.get(place).is_none_or(|entry| time(entry) != at) {
        if entries.len() >= max {
            place = place.checked_sub(1)?;
            entries.pop_front();
        }
        entries.insert(place, new(at));
    }
    entries.get_mut(place)
}

impl Steps {
    fn observe(&mut self, record: &AccessRecord, times: u64) {
        let at = record.received.unix_seconds();
        let at = at - at.rem_euclid(self.step);
        let new = |at| Counted { second: Second { at, ..Second::default() }, ..Counted::default() };
        let Some(counted) = entry_at(&mut self.counted, at, self.shown + 1, |counted| counted.second.at, new)
        else {
            return;
        };
        counted.second.requests += times;
        counted.second.rows_scanned += record.rows_scanned * times;
        counted.second.rows_returned += record.rows_returned * times;
        counted.second.errors += if record.status >= 400 { times } else { 0 };
        counted.latencies.add(record.durations.total, times);
    }
}

impl Counted {
    fn add(&mut self, other: &Self) {
        self.second.requests += other.second.requests;
        self.second.rows_scanned += other.second.rows_scanned;
        self.second.rows_returned += other.second.rows_returned;
        self.second.errors += other.second.errors;
        for (bucket, count) in &other.latencies.buckets {
            *self.latencies.buckets.entry(*bucket).or_default() += count;
        }
    }
}

/// Durations by size: eight buckets to each doubling of a microsecond.
#[derive(Clone, Default)]
struct Latencies {
    buckets: BTreeMap<u16, u64>,
}

impl Latencies {
    const PER_DOUBLING: f64 = 8.0;

    fn add(&mut self, duration: Duration, times: u64) {
        let bucket = ((duration.as_secs_f64() * 1e6).max(1.0).log2() * Self::PER_DOUBLING).ceil();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 512")]
        let bucket = bucket as u16;
        *self.buckets.entry(bucket).or_default() += times;
    }

    fn p99_ms(&self) -> f64 {
        let total: u64 = self.buckets.values().sum();
        let mut seen = 0;
        let slow = self.buckets.iter().find(|(_, count)| {
            seen += **count;
            seen * 100 >= total * 99
        });
        slow.map_or(0.0, |(bucket, _)| (f64::from(*bucket) / Self::PER_DOUBLING).exp2() / 1000.0)
    }
}

/// A service as the pages name it.
pub(crate) fn service_name(service: StorageService) -> &'static str {
    match service {
        StorageService::Table => "table",
        StorageService::Queue => "queue",
        StorageService::Blob => "blob",
    }
}

#[allow(clippy::cast_precision_loss, reason = "a rate to look at")]
fn per_second(count: u64, seconds: i64) -> f64 {
    count as f64 / seconds.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::DateTime;

    const NOW: i64 = 1_800_000_000;

    fn record(account: &str, second: i64, status: u16, milliseconds: u64) -> AccessRecord {
        let ticks = u64::try_from(second).unwrap() * 10_000_000;
        let mut record = AccessRecord::new(DateTime::from_unix_ticks(ticks), StorageService::Queue);
        record.account = AccountName::parse(account);
        record.resource = Some("jobs".into());
        record.status = status;
        record.durations.total = Duration::from_millis(milliseconds);
        record.rows_scanned = 10;
        record
    }

    #[test]
    fn a_session_sees_the_sum_of_its_accounts_and_nothing_of_others() {
        let mut series = RequestSeries::default();
        for second in (1..=30).rev() {
            series.observe(&record("mine", NOW - second, 200, 4), 5);
            series.observe(&record("also", NOW - second, 404, 4), 0);
            series.observe(&record("other", NOW - second, 500, 900), 4);
        }
        let shown = |account: &AccountName| account.as_str() != "other";
        for (span, step) in [(Span::Minute, 1), (Span::Quarter, 15), (Span::Hour, 60), (Span::Day, 900)] {
            let mut figures = Figures::default();
            series.fill(&mut figures, NOW + 120, span, &shown);
            assert_eq!(figures.step, step);
            let sum: u64 = figures.seconds.iter().map(|second| second.requests).sum();
            assert_eq!(sum, if span == Span::Minute { 0 } else { 60 }, "{span:?}");
        }
        let mut figures = Figures::default();
        series.fill(&mut figures, NOW, Span::Minute, &shown);
        assert_eq!(figures.seconds.len(), 60);
        assert!((figures.requests_per_second - 1.0).abs() < 1e-9);
        assert!((figures.errors_per_second - 0.5).abs() < 1e-9);
        assert!((figures.rows_scanned_per_second - 10.0).abs() < 1e-9);
        assert!((4.0..5.0).contains(&figures.p99_ms), "{}", figures.p99_ms);
        let last = series.seconds(&shown).pop().unwrap();
        assert_eq!(last, [NOW - 1, 1, 0, 0, 0, 0, 1]);
        assert_eq!(series.total(&shown), 60);
        let rates = series.rates(NOW, &shown).to_string();
        assert!(
            rates.contains(r#"{"account":"mine","name":"jobs","perSecond":0.5,"service":"queue"}"#),
            "{rates}"
        );
        assert!(!rates.contains("other"), "{rates}");
    }

    #[test]
    fn a_slow_request_counts_in_the_second_in_which_it_came() {
        let mut series = RequestSeries::default();
        series.observe(&record("mine", NOW - 1, 200, 1), 0);
        series.observe(&record("mine", NOW - 3, 200, 2000), 4);
        let seconds: Vec<i64> = series.seconds(&|_| true).iter().map(|row| row[0]).collect();
        assert_eq!(seconds, [NOW - 3, NOW - 1]);
        for second in 0..200 {
            series.observe(&record("mine", NOW + second, 200, 1), 0);
        }
        series.observe(&record("mine", NOW - 5, 200, 1), 0);
        assert_eq!(series.seconds(&|_| true).len(), SECONDS_MAX);
        assert_eq!(series.seconds(&|_| true)[0][0], NOW + 80);
    }

    #[test]
    fn invented_accounts_do_not_push_out_a_real_one() {
        let mut series = RequestSeries::default();
        for _ in 0..3 {
            series.observe(&record("mine", NOW, 200, 1), 0);
        }
        for number in 0..2 * ACCOUNTS_MAX {
            series.observe(&record(&format!("invented{number}"), NOW, 400, 1), 0);
        }
        assert_eq!(series.accounts.len(), ACCOUNTS_MAX);
        assert_eq!(series.total(&|account| account.as_str() == "mine"), 3);
    }

    #[test]
    fn resources_are_bounded_and_forgotten_when_idle() {
        let mut series = RequestSeries::default();
        let asked = |name: usize, at: i64| AccessRecord {
            resource: Some(format!("q{name}").into()),
            ..record("mine", at, 200, 1)
        };
        for name in 0..RESOURCES_MAX + 5 {
            series.observe(&asked(name, NOW), 0);
        }
        assert_eq!(series.resources.len(), RESOURCES_MAX);
        series.observe(&asked(RESOURCES_MAX + 9, NOW + RATE_SECONDS + 1), 0);
        assert_eq!(series.resources.len(), 1);
    }
}
