//! The heat map: how much of what went to which keys, minute by minute.

use serde::Serialize;
use tavola_model::DateTime;
use tavola_telemetry::{AccessRecord, RecordSink};

/// The heat of every table.
#[derive(Default)]
pub struct HeatMap {}

/// Which part of a heat map is asked for.
#[derive(Clone, Debug)]
pub struct HeatQuery {
    /// The account.
    pub account: String,
    /// The table.
    pub table: String,
    /// The first minute.
    pub from: DateTime,
    /// The end; not part of it.
    pub to: DateTime,
    /// The first key; `None` means from the first there is.
    pub key_from: Option<HeatKey>,
    /// The end of the keys, not part of it; `None` means to the last there is.
    pub key_to: Option<HeatKey>,
    /// What the values count.
    pub metric: HeatMetric,
    /// How many rows at most; 64 unless there is a reason.
    pub rows_max: usize,
    /// How many columns at most; 288 unless there is a reason.
    pub columns_max: usize,
}

/// What a heat map counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeatMetric {
    /// Requests.
    #[default]
    Operations,
    /// Bytes of requests and answers.
    Bytes,
    /// The 99th percentile of the time of a request, in milliseconds.
    Latency,
    /// Rows read.
    RowsScanned,
}

/// A place in the keys of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct HeatKey {
    /// A PartitionKey.
    pub partition: String,
    /// A RowKey; empty means the start of the partition.
    pub row: String,
}

/// A part of a heat map.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HeatView {
    /// Time, from left to right.
    pub columns: Vec<HeatColumn>,
    /// Key ranges, from top to bottom.
    pub rows: Vec<HeatRow>,
    /// The cells that have a value; all others in a column with data are zero.
    pub cells: Vec<HeatCell>,
    /// The largest value among them.
    pub value_max: f64,
    /// Hot ranges, append diagonals and batch jobs.
    pub marks: Vec<HeatMark>,
}

/// One stretch of time.
#[derive(Clone, Debug, Serialize)]
pub struct HeatColumn {
    /// Its begin, in seconds since the Unix epoch.
    pub from: i64,
    /// Its end.
    pub to: i64,
    /// Whether the server was recording; where it was not, nothing is known.
    pub has_data: bool,
}

/// One key range.
#[derive(Clone, Debug, Serialize)]
pub struct HeatRow {
    /// What to show beside it.
    pub label: String,
    /// The first key.
    pub from: HeatKey,
    /// The end, not part of it; `None` for the last range.
    pub to: Option<HeatKey>,
    /// How many different keys were asked for in it, about.
    pub keys: u64,
    /// The prefix that it shares with its neighbours; a change of it is a gap.
    pub group: String,
    /// Whether it is a part of one hot partition.
    pub is_part: bool,
}

/// One cell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HeatCell {
    /// Index into the rows.
    pub row: u16,
    /// Index into the columns.
    pub column: u16,
    /// What the metric counts.
    pub value: f64,
    /// Whether it was shared out from a coarser range.
    pub estimated: bool,
}

/// Something to look at.
#[derive(Clone, Debug, Serialize)]
pub struct HeatMark {
    /// What it is.
    pub kind: MarkKind,
    /// The first row it covers.
    pub row_from: usize,
    /// The last row it covers.
    pub row_to: usize,
    /// The first column it covers.
    pub column_from: usize,
    /// The last column it covers.
    pub column_to: usize,
    /// One sentence about it.
    pub text: String,
}

/// Kinds of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// A range that takes a large part of all operations for a while.
    Hot,
    /// The busiest range moves on in key order.
    Append,
    /// The same load at regular intervals.
    Batch,
}

impl HeatMap {
    /// With nothing in it.
    pub fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self::default())
    }

    /// A part of the map of one table, merged down to the size asked for.
    pub fn view(&self, _query: &HeatQuery) -> HeatView {
        HeatView::default()
    }
}

impl RecordSink for HeatMap {
    fn observe(&self, _records: &[AccessRecord]) {}
}
