//! A million requests over ten thousand partitions: prints what the heat map takes and how long a view takes.
//!
//! `cargo run --release -p tavola-advisor --example heat_map`

use std::time::{Duration, Instant};

use tavola_advisor::{HeatMap, HeatMetric, HeatQuery, Traffic, TrafficSettings};
use tavola_model::{AccountName, DateTime, StorageService};
use tavola_telemetry::{AccessRecord, Durations, RecordSink as _, Target};

const REQUESTS: u64 = 1_000_000;
const PARTITIONS: u64 = 10_000;
const SECONDS: u64 = 4 * 3600;
const START: u64 = 1_794_700_800;

fn main() {
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
    let observed = begun.elapsed();
    println!("requests      {REQUESTS} over {PARTITIONS} partitions and {} minutes", SECONDS / 60);
    println!("to observe    {:.0} ns each", observed.as_secs_f64() * 1e9 / REQUESTS as f64);
    let traffic = Traffic::new(TrafficSettings::default());
    let records: Vec<_> = (0..100_000).map(|n| record(&mut random, n)).collect();
    let begun = Instant::now();
    traffic.observe(&records);
    println!("to count      {:.0} ns each, for the advisor", begun.elapsed().as_secs_f64() * 1e9 / 100_000.0);
    println!("memory        {:.1} MiB", map.bytes() as f64 / 1024.0 / 1024.0);
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
        let mut times: Vec<_> = (0..5)
            .map(|_| {
                let begun = Instant::now();
                let view = map.view(&query);
                (begun.elapsed(), view.rows.len(), view.columns.len(), view.cells.len())
            })
            .collect();
        times.sort();
        let (middle, rows, columns, cells) = times[2];
        println!(
            "view          {:.1} ms (median of 5), {rows} rows x {columns} columns, {cells} cells, {metric:?}",
            middle.as_secs_f64() * 1000.0
        );
    }
}

fn time(second: u64) -> DateTime {
    DateTime::from_unix_ticks((START + second) * 10_000_000)
}

fn record(random: &mut fastrand::Rng, n: u64) -> AccessRecord {
    AccessRecord {
        received: time(n * SECONDS / REQUESTS),
        account: AccountName::parse("devstoreaccount1"),
        service: StorageService::Table,
        operation: Some("GetEntity"),
        resource: Some("Load".into()),
        target: Target::Entity {
            partition: format!("tenant|{:05}", random.u64(0..PARTITIONS)).into(),
            row: format!("{:06}", random.u32(0..1_000_000)).into(),
            properties: 0,
        },
        plan: None,
        rows_scanned: 1,
        rows_returned: 1,
        bytes_in: 0,
        bytes_out: random.u64(200..4000),
        durations: Durations { total: Duration::from_micros(random.u64(80..20_000)), ..Durations::default() },
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
