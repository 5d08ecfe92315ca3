//! The figures of the last minute, and of the last hours in longer steps.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tavola_telemetry::AccessRecord;

use crate::sketch::Latencies;

/// What goes on now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// The steps of the time that was asked for, the oldest first: seconds for a minute, longer ones for more. The
    /// current one is not in it.
    pub seconds: Vec<Second>,
    /// Seconds of a step.
    pub step: i64,
    /// Requests in a second, over that time.
    pub requests_per_second: f64,
    /// Rows read in a second.
    pub rows_scanned_per_second: f64,
    /// Rows returned in a second.
    pub rows_returned_per_second: f64,
    /// The 99th percentile of the time of a request over that time, in milliseconds.
    pub p99_ms: f64,
    /// Answers that were errors of the server or refusals for load, in a second.
    pub errors_per_second: f64,
    /// Each table that was asked, the busiest first.
    pub tables: Vec<TableFigures>,
    /// Each queue that messages went into or out of.
    pub queues: Vec<QueueFigures>,
}

/// For how long figures are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Span {
    /// A minute, by the second.
    #[default]
    Minute,
    /// A quarter of an hour.
    Quarter,
    /// An hour.
    Hour,
    /// A day.
    Day,
}

/// The rate of one queue.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueueFigures {
    /// The account.
    pub account: String,
    /// The queue.
    pub queue: String,
    /// Messages put in a second, over the last minute.
    pub in_per_second: f64,
    /// Messages deleted in a second, over the last minute.
    pub out_per_second: f64,
}

/// One second, or a longer step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Which, since the Unix epoch.
    pub at: i64,
    /// Requests.
    pub requests: u64,
    /// Rows read.
    pub rows_scanned: u64,
    /// Rows returned.
    pub rows_returned: u64,
    /// The 99th percentile of the time of a request, in milliseconds.
    pub p99_ms: f64,
    /// Answers with a status of 400 or more.
    pub errors: u64,
}

/// All that was recorded.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Summary {
    /// Tables that were asked.
    pub tables: u64,
    /// Requests to them.
    pub requests: u64,
    /// Rows that reads have read.
    pub rows_scanned: u64,
    /// Rows that they returned.
    pub rows_returned: u64,
    /// Hours from the first to the last request, of the table with the longest.
    pub hours: f64,
}

/// The rate of one table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableFigures {
    /// The account.
    pub account: String,
    /// The table.
    pub table: String,
    /// Requests in a second, over the last minute.
    pub requests_per_second: f64,
    /// Rows read in a second, over the last minute.
    pub rows_scanned_per_second: f64,
    /// The 99th percentile of the time of a request over the last minute or two, in milliseconds.
    pub p99_ms: f64,
    /// How its requests ran, over all the time that was observed.
    pub plans: PlanMix,
}

/// How many requests ran how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanMix {
    /// One entity by its keys.
    pub point: u64,
    /// A range of RowKeys in one partition.
    pub range: u64,
    /// A whole partition.
    pub partition_scan: u64,
    /// A range of partitions.
    pub partition_range: u64,
    /// The whole table.
    pub table_scan: u64,
    /// Writes.
    pub write: u64,
}

/// Seconds that are kept: a minute, and the one under way.
const SECONDS: usize = 61;

/// The last steps of all tables, queues and containers.
#[derive(Debug)]
struct Steps {
    /// Seconds of one.
    step: i64,
    /// How many are shown; one more is kept, the one under way.
    shown: usize,
    counted: VecDeque<Counted>,
}

/// The last minute, and the last hours in longer steps.
#[derive(Debug)]
pub(super) struct Past {
    minute: Steps,
    quarter: Steps,
    hour: Steps,
    day: Steps,
}

#[derive(Debug, Default)]
struct Counted {
    second: Second,
    latencies: Latencies,
}

impl Default for Past {
    fn default() -> Self {
        let steps = |step, shown| Steps { step, shown, counted: VecDeque::new() };
        Self { minute: steps(1, 60), quarter: steps(15, 60), hour: steps(60, 60), day: steps(15 * 60, 96) }
    }
}

impl Past {
    pub fn observe(&mut self, record: &AccessRecord) {
        for steps in [&mut self.minute, &mut self.quarter, &mut self.hour, &mut self.day] {
            steps.observe(record);
        }
    }

    pub fn figures(&self, now: i64, span: Span) -> Figures {
        let steps = match span {
            Span::Minute => &self.minute,
            Span::Quarter => &self.quarter,
            Span::Hour => &self.hour,
            Span::Day => &self.day,
        };
        steps.figures(now)
    }
}

impl Steps {
    fn observe(&mut self, record: &AccessRecord) {
        let at = record.received.unix_seconds();
        let at = at - at.rem_euclid(self.step);
        let newest = self.counted.back().map_or(i64::MIN, |counted| counted.second.at);
        if at > newest {
            self.counted
                .push_back(Counted { second: Second { at, ..Second::default() }, ..Counted::default() });
            if self.counted.len() > self.shown + 1 {
                self.counted.pop_front();
            }
        }
        // A request that took longer than others is recorded after later ones.
        let Some(counted) = self.counted.iter_mut().rev().find(|counted| counted.second.at <= at) else {
            return;
        };
        let times = u64::from(record.weight.max(1));
        counted.second.requests += times;
        counted.second.rows_scanned += record.rows_scanned * times;
        counted.second.rows_returned += record.rows_returned * times;
        counted.second.errors += if record.status >= 400 { times } else { 0 };
        counted.latencies.add(record.durations.total, record.weight.max(1));
    }

    fn figures(&self, now: i64) -> Figures {
        let mut latencies = Latencies::default();
        let mut figures = Figures { step: self.step, ..Figures::default() };
        let mut sum = Second::default();
        let end = now - now.rem_euclid(self.step);
        let shown = i64::try_from(self.shown).unwrap_or(i64::MAX);
        let from = end - self.step * shown;
        for at in (0..shown).map(|place| from + place * self.step) {
            let counted = self.counted.iter().find(|counted| counted.second.at == at);
            let mut second = counted.map_or(Second { at, ..Second::default() }, |counted| counted.second);
            if let Some(counted) = counted {
                second.p99_ms = counted.latencies.quantile_ms(0.99);
                latencies.merge(&counted.latencies);
            }
            sum.requests += second.requests;
            sum.rows_scanned += second.rows_scanned;
            sum.rows_returned += second.rows_returned;
            sum.errors += second.errors;
            figures.seconds.push(second);
        }
        // Longer times are mostly longer than the server has run: there was nothing to count before its first request.
        let first = self.counted.front().map_or(from, |counted| counted.second.at.max(from));
        let seconds = if self.step == 1 { end - from } else { (end - first).max(self.step) };
        figures.requests_per_second = per_second(sum.requests, seconds);
        figures.rows_scanned_per_second = per_second(sum.rows_scanned, seconds);
        figures.rows_returned_per_second = per_second(sum.rows_returned, seconds);
        figures.errors_per_second = per_second(sum.errors, seconds);
        figures.p99_ms = latencies.quantile_ms(0.99);
        figures
    }
}

/// Two counts by second, of the last minute.
#[derive(Clone, Debug, Default)]
struct Counts {
    seconds: VecDeque<(i64, u64, u64)>,
}

impl Counts {
    fn add(&mut self, at: i64, first: u64, second: u64) {
        if self.seconds.back().is_none_or(|(newest, _, _)| at > *newest) {
            self.seconds.push_back((at, 0, 0));
            if self.seconds.len() > SECONDS {
                self.seconds.pop_front();
            }
        }
        if let Some(counted) = self.seconds.iter_mut().rev().find(|(known, _, _)| *known <= at) {
            counted.1 += first;
            counted.2 += second;
        }
    }

    /// Both in a second, over the minute before `now`.
    fn rates(&self, now: i64) -> (f64, f64) {
        let last = self.seconds.iter().filter(|(at, _, _)| (now - 60..now).contains(at));
        let (first, second) = last.fold((0, 0), |sum, counted| (sum.0 + counted.1, sum.1 + counted.2));
        (per_second(first, 60), per_second(second, 60))
    }
}

/// The last minute of one table.
#[derive(Clone, Debug, Default)]
pub(super) struct TableMinute {
    /// Requests and rows read.
    counts: Counts,
    /// Of the minute that is under way, and of the one before.
    latencies: [(i64, Latencies); 2],
}

impl TableMinute {
    pub fn observe(&mut self, record: &AccessRecord) {
        let (at, times) = (record.received.unix_seconds(), record.weight.max(1));
        self.counts.add(at, times.into(), record.rows_scanned * u64::from(times));
        if at / 60 > self.latencies[0].0 {
            self.latencies.swap(0, 1);
            self.latencies[0] = (at / 60, Latencies::default());
        }
        self.latencies[0].1.add(record.durations.total, times);
    }

    /// Requests and rows read in a second, over the minute before `now`.
    pub fn rates(&self, now: i64) -> (f64, f64) {
        self.counts.rates(now)
    }

    /// The 99th percentile of the time of a request, of this minute and the one before.
    pub fn p99_ms(&self, now: i64) -> f64 {
        let mut all = Latencies::default();
        for (_, latencies) in self.latencies.iter().filter(|(minute, _)| *minute + 1 >= now / 60) {
            all.merge(latencies);
        }
        all.quantile_ms(0.99)
    }
}

/// The last minute of one queue.
#[derive(Debug, Default)]
pub(super) struct QueueMinute {
    /// Messages put and deleted.
    counts: Counts,
    last: i64,
}

impl QueueMinute {
    pub fn observe(&mut self, record: &AccessRecord) {
        let (at, times) = (record.received.unix_seconds(), u64::from(record.weight.max(1)));
        self.last = at;
        let is_put = record.operation == Some("PutMessage");
        self.counts.add(at, if is_put { times } else { 0 }, if is_put { 0 } else { times });
    }

    /// When it was last asked.
    pub fn last(&self) -> i64 {
        self.last
    }

    pub fn figures(&self, (account, queue): &(String, String), now: i64) -> QueueFigures {
        let (in_per_second, out_per_second) = self.counts.rates(now);
        QueueFigures { account: account.clone(), queue: queue.clone(), in_per_second, out_per_second }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a rate to look at")]
fn per_second(count: u64, seconds: i64) -> f64 {
    count as f64 / seconds as f64
}
