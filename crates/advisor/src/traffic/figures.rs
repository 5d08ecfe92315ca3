//! The figures of the last minute.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tavola_telemetry::AccessRecord;

use crate::sketch::Latencies;

/// What goes on now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// The last sixty seconds, the oldest first; the current one is not in it.
    pub seconds: Vec<Second>,
    /// Requests in a second, over that minute.
    pub requests_per_second: f64,
    /// Rows read in a second.
    pub rows_scanned_per_second: f64,
    /// Rows returned in a second.
    pub rows_returned_per_second: f64,
    /// The 99th percentile of the time of a request over that minute, in milliseconds.
    pub p99_ms: f64,
    /// Answers that were errors of the server or refusals for load, in a second.
    pub errors_per_second: f64,
    /// Each table that was asked, the busiest first.
    pub tables: Vec<TableFigures>,
}

/// One second.
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

/// The last minute of all tables, queues and containers.
#[derive(Debug, Default)]
pub(super) struct Minute {
    seconds: VecDeque<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    second: Second,
    latencies: Latencies,
}

impl Minute {
    pub fn observe(&mut self, record: &AccessRecord) {
        let at = record.received.unix_seconds();
        let newest = self.seconds.back().map_or(i64::MIN, |counted| counted.second.at);
        if at > newest {
            self.seconds
                .push_back(Counted { second: Second { at, ..Second::default() }, ..Counted::default() });
            if self.seconds.len() > SECONDS {
                self.seconds.pop_front();
            }
        }
        // A request that took longer than others is recorded after later ones.
        let Some(counted) = self.seconds.iter_mut().rev().find(|counted| counted.second.at <= at) else {
            return;
        };
        let times = u64::from(record.weight.max(1));
        counted.second.requests += times;
        counted.second.rows_scanned += record.rows_scanned * times;
        counted.second.rows_returned += record.rows_returned * times;
        counted.second.errors += if record.status >= 400 { times } else { 0 };
        counted.latencies.add(record.durations.total, record.weight.max(1));
    }

    pub fn figures(&self, now: i64) -> Figures {
        let mut latencies = Latencies::default();
        let mut figures = Figures::default();
        let mut sum = Second::default();
        for at in now - 60..now {
            let counted = self.seconds.iter().find(|counted| counted.second.at == at);
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
        figures.requests_per_second = per_second(sum.requests);
        figures.rows_scanned_per_second = per_second(sum.rows_scanned);
        figures.rows_returned_per_second = per_second(sum.rows_returned);
        figures.errors_per_second = per_second(sum.errors);
        figures.p99_ms = latencies.quantile_ms(0.99);
        figures
    }
}

/// The last minute of one table.
#[derive(Clone, Debug, Default)]
pub(super) struct TableMinute {
    /// Second, requests, rows read.
    seconds: VecDeque<(i64, u64, u64)>,
}

impl TableMinute {
    pub fn observe(&mut self, record: &AccessRecord) {
        let at = record.received.unix_seconds();
        let times = u64::from(record.weight.max(1));
        if self.seconds.back().is_none_or(|(newest, _, _)| at > *newest) {
            self.seconds.push_back((at, 0, 0));
            if self.seconds.len() > SECONDS {
                self.seconds.pop_front();
            }
        }
        if let Some(second) = self.seconds.iter_mut().rev().find(|(second, _, _)| *second <= at) {
            second.1 += times;
            second.2 += record.rows_scanned * times;
        }
    }

    /// Requests and rows read in a second, over the minute before `now`.
    pub fn rates(&self, now: i64) -> (f64, f64) {
        let last = self.seconds.iter().filter(|(at, _, _)| (now - 60..now).contains(at));
        let (requests, rows) = last.fold((0, 0), |sum, second| (sum.0 + second.1, sum.1 + second.2));
        (per_second(requests), per_second(rows))
    }
}

#[allow(clippy::cast_precision_loss, reason = "a rate to look at")]
fn per_second(count: u64) -> f64 {
    count as f64 / 60.0
}
