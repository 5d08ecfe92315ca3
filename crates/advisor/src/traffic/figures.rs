//! The figures of the last minute.

use serde::Serialize;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
