//! The heat map of a million requests over ten thousand partitions: what it holds, and how long a view takes.

use std::time::{Duration, Instant};

use tavola_advisor::{HeatMap, HeatMetric, HeatQuery, Traffic, TrafficSettings};
use tavola_model::{AccountName, DateTime, StorageService};
use tavola_telemetry::{AccessRecord, Durations, RecordSink as _, Target};

use crate::AnyError;
use crate::compare::Range;
use crate::report::{Bound, Report};

const REQUESTS: u64 = 1_000_000;
const PARTITIONS: u64 = 10_000;
const SECONDS: u64 = 4 * 3600;
const START: u64 = 1_794_700_800;
/// What it may hold, in MiB, and how long it may take to answer, in milliseconds.
const MEBIBYTES_MAX: f64 = 32.0;
const VIEW_MS_MAX: f64 = 200.0;
/// Views of one kind.
const VIEWS: usize = 5;
/// Requests that are counted for the advisor.
const COUNTED: u64 = 100_000;

/// Fills a map and looks at it; prints what came of it. Fails if a target is missed.
pub fn heat_map() -> Result<(), AnyError> {
    const LINE: &str = "heat map";
    let mut report = Report::default();
    let mut random = fastrand::Rng::with_seed(7);
    let map = HeatMap::new();
    let begun = Instant::now();
    let mut records = Vec::new();
    for n in 0..REQUESTS {
        records.push(record(&mut random, n));
        if records.len() == 1000 {
            map.observe(&records);
            records.clear();
        }
    }
    let nanoseconds = |begun: Instant, count: u64| begun.elapsed().as_secs_f64() * 1e9 / count as f64;
    let each = nanoseconds(begun, REQUESTS);
    report.note(format!("{REQUESTS} requests over {PARTITIONS} partitions and {} minutes", SECONDS / 60));
    report.note(format!("the heat map takes {each:.0} ns for a request"));
    let traffic = Traffic::new(TrafficSettings::default());
    let records: Vec<_> = (0..COUNTED).map(|n| record(&mut random, n)).collect();
    let begun = Instant::now();
    traffic.observe(&records);
    report.note(format!("the advisor takes {:.0} ns for a request", nanoseconds(begun, COUNTED)));
    let mebibytes = map.bytes() as f64 / 1024.0 / 1024.0;
    report.check(LINE, "MiB held", Range::of(&[mebibytes]), Bound::AtMost(MEBIBYTES_MAX));
    let mut slowest: f64 = 0.0;
    for metric in [HeatMetric::Operations, HeatMetric::Bytes, HeatMetric::Latency, HeatMetric::RowsScanned] {
        let query = HeatQuery {
            account: "devstoreaccount1".to_owned(),
            table: "Load".to_owned(),
            from: time(0),
            to: time(SECONDS),
            key_from: None,
            key_to: None,
            metric,
            rows_max: 64,
            columns_max: 288,
        };
        let times: Vec<f64> = (0..VIEWS)
            .map(|_| {
                let begun = Instant::now();
                let view = map.view(&query);
                assert!(!view.cells.is_empty(), "a view has something to show");
                begun.elapsed().as_secs_f64() * 1000.0
            })
            .collect();
        let range = Range::of(&times);
        slowest = slowest.max(range.as_ref().map_or(0.0, |range| range.median));
        report.check(LINE, &format!("ms for a view of {metric:?}"), range, Bound::AtMost(VIEW_MS_MAX));
    }
    println!("\n{}", report.tables());
    if mebibytes > MEBIBYTES_MAX || slowest > VIEW_MS_MAX {
        return Err("the heat map misses its target".into());
    }
    Ok(())
}

fn time(second: u64) -> DateTime {
    DateTime::from_unix_ticks((START + second) * 10_000_000)
}

fn record(random: &mut fastrand::Rng, n: u64) -> AccessRecord {
    AccessRecord {
        account: AccountName::parse("devstoreaccount1"),
        operation: Some("GetEntity"),
        resource: Some("Load".into()),
        target: Target::Entity {
            partition: format!("tenant|{:05}", random.u64(0..PARTITIONS)).into(),
            row: format!("{:06}", random.u32(0..1_000_000)).into(),
            properties: 0,
        },
        rows_scanned: 1,
        rows_returned: 1,
        bytes_out: random.u64(200..4000),
        durations: Durations { total: Duration::from_micros(random.u64(80..20_000)), ..Durations::default() },
        status: 200,
        request_id: "1".into(),
        ..AccessRecord::new(time(n * SECONDS / REQUESTS), StorageService::Table)
    }
}
