use tavola_telemetry::{RecordSink as _, Target};

use super::*;
use crate::testing::{START, entity, query, record};

fn second(seconds: u64) -> DateTime {
    DateTime::from_unix_ticks((u64::try_from(START).unwrap() + seconds) * 10_000_000)
}

#[test]
fn requests_are_counted_by_shape_and_plan() {
    let traffic = Traffic::new(TrafficSettings::default());
    for n in 0..100 {
        traffic.observe(&[
            query("People", n, &format!("LastName eq 'n{n}'"), 500, 2),
            entity("people", n, "GetEntity", "p", "r"),
        ]);
    }
    let tables = traffic.tables();
    let [table] = &tables[..] else { panic!("names differ in case only") };
    assert_eq!((table.requests, table.plans.table_scan, table.plans.point), (200, 100, 100));
    let shapes: Vec<_> =
        table.shapes.iter().map(|(text, shape)| (text, shape.count, shape.rows_scanned)).collect();
    assert_eq!(shapes, [("GetEntity", 100, 100), ("LastName eq ?", 100, 50_000)]);
}

#[test]
fn the_number_of_shapes_tables_and_samples_is_bounded() {
    let traffic = Traffic::new(TrafficSettings::default());
    for n in 0..300 {
        traffic.observe(&[query("T", n, &format!("P{n} eq 1"), 10, 1)]);
        traffic.observe(&[query("T", n, "Often eq 1", 10, 1)]);
        traffic.observe(&[query(&format!("T{n}"), n + 1, "A eq 1", 10, 1)]);
        traffic.observe(&[entity("T", n, "InsertEntity", &format!("partition{n}"), &"r".repeat(900))]);
    }
    let tables = traffic.tables();
    assert_eq!(tables.len(), 64);
    let table = tables.iter().find(|table| table.table == "T").unwrap();
    assert!(table.shapes.iter().count() <= 49);
    let of = |text: &str| table.shapes.iter().find(|shape| shape.0 == text).map(|shape| shape.1.count);
    assert_eq!(of("Often eq ?"), Some(300));
    assert!(of("other").unwrap() > 200);
    assert_eq!(table.points.len(), 128);
    assert!(table.points.iter().all(|point| point.row.len() <= 256));
}

#[test]
fn a_sampled_record_counts_for_as_many_as_it_stands_for() {
    let traffic = Traffic::new(TrafficSettings::default());
    let mut sampled = entity("T", 0, "InsertEntity", "p", "r");
    sampled.weight = 50;
    traffic.observe(&[sampled]);
    let table = &traffic.tables()[0];
    assert_eq!((table.requests, table.writes.inserts), (50, 50));
    assert_eq!(table.partitions.totals.total(), 50);
    assert_eq!(table.partitions.peaks_until_now()["p"].per_second, 0, "one record proves no rate");
}

#[test]
fn figures_are_those_of_the_last_minute() {
    let traffic = Traffic::new(TrafficSettings::default());
    for n in 0..120_u64 {
        traffic.observe(&[query("T", n * 1000, "A eq 1", 10, 1)]);
    }
    let mut failed = record("T", 119_500, "InsertEntity", Target::Whole);
    failed.status = 500;
    traffic.observe(&[failed]);
    let figures = traffic.figures(second(120), Span::Minute);
    assert_eq!(figures.seconds.len(), 60);
    assert_eq!((figures.seconds[0].at - START, figures.seconds[59].requests), (60, 2));
    assert!((figures.requests_per_second - 61.0 / 60.0).abs() < 1e-9, "{}", figures.requests_per_second);
    assert!((figures.errors_per_second - 1.0 / 60.0).abs() < 1e-9);
    assert!((figures.tables[0].rows_scanned_per_second - 10.0).abs() < 1e-9);
    assert!((figures.p99_ms - 2.0).abs() < 0.2, "{}", figures.p99_ms);
}

#[test]
fn figures_of_longer_times_come_in_longer_steps() {
    let traffic = Traffic::new(TrafficSettings::default());
    // Two hours, at one request in a second and then two.
    for n in 0..7_200_u64 {
        let records = vec![query("T", n * 1000, "A eq 1", 10, 1); if n < 3_600 { 1 } else { 2 }];
        traffic.observe(&records);
    }
    let of = |span| traffic.figures(second(7_200), span);
    for (span, steps, step) in [(Span::Quarter, 60, 15), (Span::Hour, 60, 60), (Span::Day, 96, 900)] {
        let figures = of(span);
        assert_eq!((figures.seconds.len(), figures.step), (steps, step));
        assert_eq!(figures.seconds[steps - 1].requests, 2 * u64::try_from(step).unwrap(), "{span:?}");
    }
    assert!((of(Span::Hour).requests_per_second - 2.0).abs() < 1e-9);
    let day = of(Span::Day);
    assert!(
        (day.requests_per_second - 1.5).abs() < 1e-9,
        "since the first request: {}",
        day.requests_per_second
    );
    assert_eq!(day.seconds.iter().filter(|step| step.requests > 0).count(), 8);
    assert!((day.tables[0].requests_per_second - 2.0).abs() < 1e-9, "tables are of the last minute");
    assert!((day.tables[0].p99_ms - 2.0).abs() < 0.2, "{}", day.tables[0].p99_ms);
    assert!(traffic.figures(second(7_400), Span::Minute).tables[0].p99_ms < 0.01, "that is over");
}

#[test]
fn queues_have_messages_that_go_in_and_out() {
    let traffic = Traffic::new(TrafficSettings::default());
    let message = |n: u64, operation, status| {
        let mut record = record("orders", n * 1000, operation, Target::Whole);
        (record.service, record.status) = (StorageService::Queue, status);
        record
    };
    for n in 0..60 {
        traffic.observe(&[message(n, "PutMessage", 201), message(n, "PutMessage", 201)]);
        traffic.observe(&[message(n, "GetMessages", 200), message(n, "DeleteMessage", 204)]);
        traffic.observe(&[message(n, "DeleteMessage", 404)]);
    }
    let figures = traffic.figures(second(60), Span::Minute);
    let [queue] = &figures.queues[..] else { panic!("{figures:?}") };
    assert_eq!((queue.queue.as_str(), queue.in_per_second, queue.out_per_second), ("orders", 2.0, 1.0));
    assert!(figures.tables.is_empty());
    for n in 0..1_000 {
        let mut other = message(61, "PutMessage", 201);
        other.resource = Some(format!("q{n}").into());
        traffic.observe(&[other]);
    }
    assert_eq!(traffic.figures(second(62), Span::Minute).queues.len(), QUEUES_MAX);
}

#[test]
fn traffic_survives_a_restart_and_a_damaged_file_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic");
    let settings = TrafficSettings { file: Some(file.clone()) };
    let traffic = Traffic::new(settings.clone());
    for n in 0..50 {
        traffic.observe(&[query("T", n, "A eq 1", 10, 1), entity("T", n, "InsertEntity", "p", "r")]);
    }
    traffic.save().unwrap();
    let again = Traffic::new(settings.clone());
    let (before, after) = (&traffic.tables()[0], &again.tables()[0]);
    assert_eq!(serde_json::to_string(before).unwrap().len(), serde_json::to_string(after).unwrap().len());
    assert_eq!((after.requests, after.partitions.totals.total()), (100, 50));

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert!(Traffic::new(settings.clone()).tables().is_empty());
    assert!(folder.path().join("traffic.damaged").exists() && !file.exists());
    assert!(Traffic::new(settings).tables().is_empty());
}

#[test]
fn whatever_clients_send_the_file_stays_small() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("traffic");
    let settings = TrafficSettings { file: Some(file.clone()) };
    let traffic = Traffic::new(settings.clone());
    // Each character takes six in the file.
    let hostile = "\u{1}".repeat(480);
    for n in 0..64_000_u64 {
        let (table, property) = (format!("T{}", n % 64), format!("P{}", n / 64 % 40));
        traffic.observe(&[query(&table, n, &format!("{property} eq '{hostile}'"), 10, 1)]);
    }
    traffic.save().unwrap();
    let bytes = std::fs::metadata(&file).unwrap().len();
    assert!(bytes > 16 * 1024 * 1024 && bytes <= 33 * 1024 * 1024, "{bytes}");
    let again = Traffic::new(settings).tables().len();
    assert!((1..64).contains(&again), "those that fit are read again: {again}");
}

#[test]
fn a_deleted_table_is_forgotten() {
    let traffic = Traffic::new(TrafficSettings::default());
    traffic.observe(&[entity("T", 0, "InsertEntity", "p", "r")]);
    traffic.observe(&[record("T", 1, "DeleteTable", Target::Whole)]);
    assert!(traffic.tables().is_empty());
}

#[test]
fn old_traffic_fades() {
    let traffic = Traffic::new(TrafficSettings::default());
    for day in 0..30_u64 {
        for n in 0..100 {
            let at = day * 86_400_000 + n * 1000;
            let filter = if day == 0 { "Old eq 1" } else { "New eq 1" };
            traffic.observe(&[query("T", at, filter, 10, 1)]);
        }
    }
    let table = &traffic.tables()[0];
    let of = |text: &str| table.shapes.iter().find(|shape| shape.0 == text).map_or(0, |shape| shape.1.count);
    assert!(of("Old eq ?") < 10, "{}", of("Old eq ?"));
    assert!(of("New eq ?") > 300, "{}", of("New eq ?"));
    assert!(table.hours() <= 7.0 * 24.0);
}
