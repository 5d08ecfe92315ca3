//! The last requests, and how many of each kind there were in each of the last seconds.
//!
//! Bounded: so many requests, so many seconds. Under load only some of the requests come here (each says for how many it
//! stands), and a page gets at most so many of them in a second.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tavola_model::{AccountName, PlanKind, StorageService};
use tavola_odata::write_filter;
use tavola_telemetry::{AccessRecord, RecordSink, Target};

const REQUESTS_MAX: usize = 1000;
const SECONDS_MAX: usize = 120;
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
    seconds: VecDeque<Second>,
}

struct Entry {
    number: u64,
    account: Option<AccountName>,
    shown: Value,
}

#[derive(Clone, Copy)]
struct Second {
    at: i64,
    counts: [u64; KINDS.len()],
}

impl Tail {
    /// The requests after the `after`th, the oldest first, of accounts that `is_shown`; and the number of the last.
    pub(crate) fn since(
        &self,
        after: u64,
        max: usize,
        is_shown: impl Fn(&AccountName) -> bool,
    ) -> (Vec<Value>, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let new = state.requests.iter().filter(|entry| entry.number > after);
        let shown = new.filter(|entry| entry.account.as_ref().is_some_and(&is_shown));
        let mut entries: Vec<Value> = shown.map(|entry| entry.shown.clone()).collect();
        let surplus = entries.len().saturating_sub(max);
        entries.drain(..surplus);
        (entries, state.next)
    }

    /// How many requests of each kind there were, second by second: `[at, point, range, …]`.
    pub(crate) fn seconds(&self) -> Vec<Vec<i64>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |second: &Second| {
            let counts = second.counts.iter().map(|count| i64::try_from(*count).unwrap_or(i64::MAX));
            std::iter::once(second.at).chain(counts).collect()
        };
        state.seconds.iter().map(row).collect()
    }
}

impl RecordSink for Tail {
    fn observe(&self, records: &[AccessRecord]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            state.next += 1;
            let (number, kind) = (state.next, kind_of(record));
            state.count(record.received.unix_seconds(), kind, record.weight);
            if state.requests.len() >= REQUESTS_MAX {
                state.requests.pop_front();
            }
            let shown = show(record, number, kind);
            state.requests.push_back(Entry { number, account: record.account.clone(), shown });
        }
    }
}

impl State {
    fn count(&mut self, at: i64, kind: usize, weight: u32) {
        let last = self.seconds.back().map(|second| second.at);
        if last.is_none_or(|last| last < at) {
            if self.seconds.len() >= SECONDS_MAX {
                self.seconds.pop_front();
            }
            self.seconds.push_back(Second { at, counts: [0; KINDS.len()] });
        }
        // Records of a batch are nearly in order: a late one counts for a second that is still there, or for none.
        if let Some(second) = self.seconds.iter_mut().rev().find(|second| second.at == at) {
            second.counts[kind] += u64::from(weight);
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

fn show(record: &AccessRecord, number: u64, kind: usize) -> Value {
    let service = match record.service {
        StorageService::Table => "table",
        StorageService::Queue => "queue",
        StorageService::Blob => "blob",
    };
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    json!({
        "n": number,
        "at": record.received.unix_seconds() * 1000 + i64::from(record.received.time_of_day().3 / 10_000),
        "account": record.account.as_ref().map(AccountName::as_str),
        "service": service,
        "operation": record.operation,
        "resource": record.resource,
        "text": text(record),
        "partition": partition(record),
        "kind": KINDS[kind],
        "ranges": record.plan.map(|plan| plan.ranges),
        "scanned": record.rows_scanned,
        "returned": record.rows_returned,
        "bytesIn": record.bytes_in,
        "bytesOut": record.bytes_out,
        "queued": milliseconds(record.durations.queued),
        "executed": milliseconds(record.durations.executed),
        "total": milliseconds(record.durations.total),
        "status": record.status,
        "code": record.code.map(|code| code.as_str()),
        "throttled": record.throttled,
        "id": record.request_id,
        "clientId": record.client_request_id,
        "weight": record.weight,
    })
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
    let text = match &record.target {
        Target::Whole => resource.to_owned(),
        Target::Entity { partition, row, .. } if record.service == StorageService::Table => {
            format!("{resource}(PartitionKey='{}',RowKey='{}')", quoted(partition), quoted(row))
        }
        Target::Entity { partition, .. } => format!("{resource}/{partition}"),
        Target::Batch { partition, operations } => format!("$batch {resource} × {operations} in {partition}"),
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
    text.chars().take(TEXT_CHARS_MAX).collect()
}
