//! The heat map: how much of what went to which keys, minute by minute.
//!
//! Each table has a list of key ranges that follows its traffic (`ranges.rs`), and columns of counts in the ranges of
//! their time (`column.rs`), which become coarser with age (`table.rs`). A view draws a window of them in the ranges of
//! today (`view.rs`) and marks what to look at (`marks.rs`). All maps together stay below [`BYTES_MAX`].

mod column;
mod load;
mod marks;
mod ranges;
mod recorded;
mod table;
mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tavola_model::{DateTime, StorageService};
use tavola_telemetry::{AccessRecord, RecordSink, Target};

use recorded::Recorded;
use table::TableHeat;

/// Memory of all maps together; the oldest columns of the largest are dropped.
pub(crate) const BYTES_MAX: usize = 28 * 1024 * 1024;
/// Tables that have a map; the one that was asked longest ago is dropped.
const TABLES_MAX: usize = 64;
/// How often the memory is looked at, in records.
const WEIGHED_EVERY: u32 = 20_000;

/// The heat of every table.
#[derive(Default)]
pub struct HeatMap {
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    /// By account and lower-case name.
    by_name: BTreeMap<(String, String), TableHeat>,
    /// When the server was recording: at any other time, nothing is known.
    recorded: Recorded,
    since_weighed: u32,
}

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Where the busiest range was, column by column; only an append mark has it.
    pub path: Vec<HeatPoint>,
    /// One sentence about it.
    pub text: String,
}

/// A cell that a line goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HeatPoint {
    /// Index into the rows.
    pub row: usize,
    /// Index into the columns.
    pub column: usize,
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
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A part of the map of one table, merged down to the size asked for.
    pub fn view(&self, query: &HeatQuery) -> HeatView {
        let tables = self.lock();
        let key = (query.account.clone(), query.table.to_ascii_lowercase());
        view::view(tables.by_name.get(&key), &tables.recorded, query)
    }

    /// The server is up at this time, with requests or without. Whoever runs the map says so every minute.
    pub fn note_alive(&self, now: DateTime) {
        self.lock().recorded.add(now.unix_seconds());
    }

    /// Memory that all maps take.
    pub fn bytes(&self) -> usize {
        self.lock().by_name.values().map(TableHeat::bytes).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordSink for HeatMap {
    fn observe(&self, records: &[AccessRecord]) {
        let mut tables = self.lock();
        for record in records {
            tables.observe(record);
        }
    }
}

impl Tables {
    fn observe(&mut self, record: &AccessRecord) {
        self.recorded.add(record.received.unix_seconds());
        let (Some(account), Some(table)) = (&record.account, &record.resource) else { return };
        let is_counted = record.service == StorageService::Table && !matches!(record.target, Target::Whole);
        if !is_counted {
            return;
        }
        let key = (account.as_str().to_owned(), table.to_ascii_lowercase());
        if !self.by_name.contains_key(&key) && self.by_name.len() >= TABLES_MAX {
            let oldest =
                self.by_name.iter().min_by_key(|(_, table)| table.last()).map(|(key, _)| key.clone());
            oldest.map(|key| self.by_name.remove(&key));
        }
        self.by_name.entry(key).or_insert_with(TableHeat::new).observe(record);
        self.since_weighed += 1;
        if self.since_weighed >= WEIGHED_EVERY {
            self.since_weighed = 0;
            self.drop_oldest(BYTES_MAX);
        }
    }

    /// Drops the oldest columns of the largest maps.
    fn drop_oldest(&mut self, bytes_max: usize) {
        let mut sizes: Vec<usize> = self.by_name.values().map(TableHeat::bytes).collect();
        while sizes.iter().sum::<usize>() > bytes_max {
            let Some(largest) = (0..sizes.len()).max_by_key(|index| sizes[*index]) else { return };
            let Some(table) = self.by_name.values_mut().nth(largest) else { return };
            let dropped = (table.columns.len() / 8).max(1);
            if table.columns.len() <= 1 {
                return;
            }
            table.columns.drain(..dropped.min(table.columns.len() - 1));
            sizes[largest] = table.bytes();
        }
    }
}

#[cfg(test)]
mod tests;
