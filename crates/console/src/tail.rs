//! The last requests, and what is counted of all of them (`series.rs`).
//!
//! Bounded: so many requests. Under load only some of the requests come here (each says for how many it stands), and a
//! page gets at most so many of them in a second, with the number that there were.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tavola_model::{AccountName, PlanKind, StorageService};
use tavola_odata::write_filter;
use tavola_telemetry::{AccessRecord, RecordSink, Target};

use crate::series::{IsShown, RequestSeries, service_name};

const REQUESTS_MAX: usize = 1000;
/// Characters of a request's text.
const TEXT_CHARS_MAX: usize = 2000;

/// How a request ran, as the pages colour it.
pub(crate) const KINDS: [&str; 6] = ["point", "range", "pscan", "prange", "tscan", "write"];

/// Recent requests.
#[derive(Default)]
pub struct Tail {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    requests: VecDeque<Entry>,
    series: RequestSeries,
}

/// A request as it is kept. It becomes JSON when a page asks for it: most never are.
struct Entry {
    number: u64,
    account: Option<AccountName>,
    shown: Shown,
}

/// What a page is told of a request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    n: u64,
    at: i64,
    account: Option<Box<str>>,
    service: &'static str,
    operation: Option<&'static str>,
    resource: Option<Box<str>>,
    text: String,
    partition: Option<Box<str>>,
    kind: &'static str,
    ranges: Option<usize>,
    scanned: u64,
    returned: u64,
    bytes_in: u64,
    bytes_out: u64,
    queued: f64,
    executed: f64,
    total: f64,
    status: u16,
    code: Option<&'static str>,
    throttled: bool,
    id: Box<str>,
    client_id: Option<Box<str>>,
    weight: u32,
}

/// What is new in the tail.
pub(crate) struct New {
    /// Requests, the oldest first.
    pub requests: Vec<Value>,
    /// The number of the last request there is.
    pub last: u64,
    /// All requests of the accounts so far, those that were never recorded too.
    pub total: u64,
}

impl Tail {
    /// The requests after the `after`th of accounts that `is_shown`. Of more than `max` those that failed come first,
    /// then the newest.
    pub(crate) fn since(&self, after: u64, max: usize, is_shown: &IsShown<'_>) -> New {
        let state = self.lock();
        let new = state.requests.iter().filter(|entry| entry.number > after);
        let mut entries: Vec<&Entry> =
            new.filter(|entry| entry.account.as_ref().is_some_and(is_shown)).collect();
        if entries.len() > max {
            entries.sort_by_key(|entry| (!entry.failed(), std::cmp::Reverse(entry.number)));
            entries.truncate(max);
            entries.sort_by_key(|entry| entry.number);
        }
        let requests = entries.iter().filter_map(|entry| serde_json::to_value(&entry.shown).ok()).collect();
        New { requests, last: state.next, total: state.series.total(is_shown) }
    }

    /// What was counted of the requests.
    pub(crate) fn with_series<T>(&self, read: impl FnOnce(&RequestSeries) -> T) -> T {
        read(&self.lock().series)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn failed(&self) -> bool {
        self.shown.status >= 400 || self.shown.status == 0
    }
}

impl RecordSink for Tail {
    fn observe(&self, records: &[AccessRecord]) {
        let mut state = self.lock();
        for record in records {
            state.next += 1;
            let (number, kind) = (state.next, kind_of(record));
            state.series.observe(record, kind);
            if state.requests.len() >= REQUESTS_MAX {
                state.requests.pop_front();
            }
            let shown = show(record, number, kind);
            state.requests.push_back(Entry { number, account: record.account.clone(), shown });
        }
    }
}

fn kind_of(record: &AccessRecord) -> usize {
    match record.plan.map(|plan| plan.kind) {
        Some(PlanKind::Point) => 0,
        Some(PlanKind::Range) => 1,
        Some(PlanKind::PartitionScan) => 2,
        Some(PlanKind::PartitionRange) => 3,
        Some(PlanKind::TableScan) => 4,
        None if is_read(record.operation) => 0,
        None => 5,
    }
}

/// Reads that are not queries go to one place.
fn is_read(operation: Option<&str>) -> bool {
    let reads = ["Get", "Peek", "List", "Query", "Find", "Preflight"];
    operation.is_none_or(|operation| reads.iter().any(|read| operation.starts_with(read)))
}

fn show(record: &AccessRecord, number: u64, kind: usize) -> Shown {
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    Shown {
        n: number,
        at: record.received.unix_seconds() * 1000 + i64::from(record.received.time_of_day().3 / 10_000),
        account: record.account.as_ref().map(|account| account.as_str().into()),
        service: service_name(record.service),
        operation: record.operation,
        resource: record.resource.clone(),
        text: text(record),
        partition: partition(record).map(Into::into),
        kind: KINDS[kind],
        ranges: record.plan.map(|plan| plan.ranges),
        scanned: record.rows_scanned,
        returned: record.rows_returned,
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        queued: milliseconds(record.durations.queued),
        executed: milliseconds(record.durations.executed),
        total: milliseconds(record.durations.total),
        status: record.status,
        code: record.code.map(|code| code.as_str()),
        throttled: record.throttled,
        id: record.request_id.clone(),
        client_id: record.client_request_id.clone(),
        weight: record.weight,
    }
}

fn partition(record: &AccessRecord) -> Option<&str> {
    match &record.target {
        Target::Entity { partition, .. } | Target::Batch { partition, .. } => Some(partition),
        Target::Whole | Target::Query(_) => None,
    }
}

/// What was asked, as a person would write it.
fn text(record: &AccessRecord) -> String {
    let resource = record.resource.as_deref().unwrap_or_default();
    let quoted = |key: &str| key.replace('\'', "''");
    let mut text = match &record.target {
        Target::Whole => resource.to_owned(),
        Target::Entity { partition, row, .. } if record.service == StorageService::Table => {
            format!("{resource}(PartitionKey='{}',RowKey='{}')", quoted(partition), quoted(row))
        }
        Target::Entity { partition, .. } => format!("{resource}/{partition}"),
        Target::Batch { partition, operations, .. } => {
            format!("$batch {resource} × {operations} in {partition}")
        }
        Target::Query(query) => {
            let mut text = resource.to_owned();
            let mut mark = '?';
            let mut add = |name: &str, value: &str| {
                text.push(mark);
                mark = '&';
                text.push_str(name);
                text.push_str(value);
            };
            if let Some(filter) = &query.filter {
                add("$filter=", &write_filter(filter));
            }
            if !query.select.is_empty() {
                add("$select=", &query.select.join(","));
            }
            if let Some(top) = query.top {
                add("$top=", &top.to_string());
            }
            text
        }
    };
    let end = text.char_indices().nth(TEXT_CHARS_MAX).map_or(text.len(), |(end, _)| end);
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::DateTime;

    fn record(account: &str, row: &str) -> AccessRecord {
        let mut record = AccessRecord::new(DateTime::from_unix_ticks(12_345_678), StorageService::Table);
        record.account = AccountName::parse(account);
        record.operation = Some("GetEntity");
        record.resource = Some("People".into());
        record.target = Target::Entity { partition: "it's".into(), row: row.into(), properties: 0 };
        (record.bytes_out, record.status) = (7, 200);
        record
    }

    #[test]
    fn a_page_gets_the_newest_requests_of_its_accounts() {
        let tail = Tail::default();
        let records: Vec<_> = (0..REQUESTS_MAX + 5).map(|row| record("mine", &row.to_string())).collect();
        tail.observe(&records);
        tail.observe(&[record("other", "x"), record("mine", "last")]);
        let is_mine = |account: &AccountName| account.as_str() == "mine";
        let New { requests: shown, last, total } = tail.since(0, 2, &is_mine);
        assert_eq!(last, REQUESTS_MAX as u64 + 7);
        assert_eq!(total, REQUESTS_MAX as u64 + 6, "those that are kept no more count too");
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[0]["text"], format!("People(PartitionKey='it''s',RowKey='{}')", REQUESTS_MAX + 4));
        assert_eq!(shown[1]["n"], last);
        assert_eq!((&shown[1]["bytesOut"], &shown[1]["kind"]), (&Value::from(7), &Value::from("point")));
        assert!(tail.since(last, 2, &|_| true).requests.is_empty());
        assert_eq!(tail.state.lock().unwrap().requests.len(), REQUESTS_MAX);
    }

    #[test]
    fn of_more_requests_than_a_page_gets_those_that_failed_come_first() {
        let tail = Tail::default();
        let records = (0..50).map(|row| {
            let mut record = record("mine", &row.to_string());
            (record.status, record.weight) = (if row == 3 || row == 7 { 500 } else { 200 }, 2);
            record
        });
        tail.observe(&records.collect::<Vec<_>>());
        let new = tail.since(0, 4, &|_| true);
        let numbers: Vec<_> = new.requests.iter().map(|request| request["n"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [4, 8, 49, 50]);
        assert_eq!(new.total, 100);
    }

    #[test]
    fn the_text_of_a_request_is_bounded_and_cut_between_characters() {
        let text = text(&record("mine", &"é".repeat(3 * TEXT_CHARS_MAX)));
        assert_eq!(text.chars().count(), TEXT_CHARS_MAX);
    }
}
