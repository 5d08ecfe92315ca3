//! Records for tests.

use std::sync::Arc;
use std::time::Duration;

use tavola_model::{AccountName, DateTime, PlanKind, PlanReport, StorageService};
use tavola_odata::parse_filter;
use tavola_service::plan;
use tavola_telemetry::{AccessRecord, Durations, QueryTarget, Target};

/// Seconds since the Unix epoch at which tests begin: the start of a minute.
pub const START: i64 = 1_794_700_800;

/// A request at so many milliseconds after [`START`].
pub fn record(table: &str, at_ms: u64, operation: &'static str, target: Target) -> AccessRecord {
    let ticks = u64::try_from(START).unwrap() * 10_000_000 + at_ms * 10_000;
    AccessRecord {
        received: DateTime::from_unix_ticks(ticks),
        account: Some(AccountName::parse("devstoreaccount1").unwrap()),
        service: StorageService::Table,
        operation: Some(operation),
        resource: Some(table.into()),
        target,
        plan: None,
        rows_scanned: 0,
        rows_returned: 1,
        bytes_in: 200,
        bytes_out: 300,
        durations: Durations { total: Duration::from_millis(2), ..Durations::default() },
        status: 200,
        code: None,
        throttled: false,
        request_id: "1".into(),
        client_request_id: None,
        trace_parent: None,
        detail: None,
        weight: 1,
    }
}

/// A request for one entity, or a write of one with five properties.
pub fn entity(table: &str, at_ms: u64, operation: &'static str, partition: &str, row: &str) -> AccessRecord {
    let is_read = operation == "GetEntity";
    let properties = if is_read || operation == "DeleteEntity" { 0 } else { 5 };
    let target = Target::Entity { partition: partition.into(), row: row.into(), properties };
    let mut record = record(table, at_ms, operation, target);
    record.rows_scanned = u64::from(is_read);
    if is_read {
        record.plan = Some(PlanReport { kind: PlanKind::Point, ranges: 1, scanned: 1, returned: 1 });
    }
    record
}

/// A transaction that inserts and deletes so many entities of five properties.
pub fn batch(table: &str, at_ms: u64, keys: (&str, &str), inserts: u16, deletes: u16) -> AccessRecord {
    let target = Target::Batch {
        partition: keys.0.into(),
        row: keys.1.into(),
        operations: inserts + deletes,
        inserts,
        deletes,
        properties_max: if inserts > 0 { 5 } else { 0 },
        numbers: None,
    };
    record(table, at_ms, "EntityGroupTransaction", target)
}

/// A query that read and returned so many rows. Its plan is the planner's.
pub fn query(table: &str, at_ms: u64, filter: &str, scanned: usize, returned: usize) -> AccessRecord {
    let filter = parse_filter(filter).unwrap();
    let planned = plan(filter.as_ref());
    let target = QueryTarget { filter, select: Vec::new(), top: None, is_continuation: false };
    let mut record = record(table, at_ms, "QueryEntities", Target::Query(Arc::new(target)));
    record.plan = Some(PlanReport { kind: planned.kind, ranges: planned.ranges.len(), scanned, returned });
    (record.rows_scanned, record.rows_returned) = (scanned as u64, returned as u64);
    record.bytes_out = 300 * returned as u64;
    record
}
