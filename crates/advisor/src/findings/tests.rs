//! A workload for each rule, in which the advisor names the right pattern; healthy ones, in which it is silent; and both
//! sides of the thresholds.

use std::sync::Arc;

use tavola_model::ErrorCode;
use tavola_telemetry::{AccessRecord, QueryTarget, RecordSink as _, Target};

use super::*;
use crate::testing::{batch, entity, query, record};
use crate::{SampleEntity, TrafficSettings};

const ACCOUNT: &str = "devstoreaccount1";

fn scattered(n: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
}

fn found(records: impl IntoIterator<Item = AccessRecord>) -> Vec<Finding> {
    found_with(records, &TableFacts::default())
}

fn found_with(records: impl IntoIterator<Item = AccessRecord>, facts: &TableFacts) -> Vec<Finding> {
    let traffic = Traffic::new(TrafficSettings::default());
    for record in records {
        traffic.observe(&[record]);
    }
    findings(&traffic, facts)
}

fn names(findings: &[Finding]) -> Vec<(Rule, Pattern)> {
    findings.iter().map(|finding| (finding.rule, finding.pattern)).collect()
}

/// Asserts the one finding that a workload gives, and returns it.
fn only(records: impl IntoIterator<Item = AccessRecord>, rule: Rule, pattern: Pattern) -> Finding {
    let found = found(records);
    assert_eq!(names(&found), [(rule, pattern)], "{found:#?}");
    found.into_iter().next().unwrap()
}

fn keys_text(finding: &Finding, label: &str) -> String {
    let line = finding.keys.iter().find(|line| line.label == label).expect("a line of keys");
    let text = |parts: &[crate::KeyPart]| parts.iter().map(|part| part.text.as_str()).collect::<String>();
    format!("{} / {}", text(&line.partition), text(&line.row))
}

/// So many queries, a second apart.
fn queries(count: u64, filter: &str, scanned: usize, returned: usize) -> Vec<AccessRecord> {
    (0..count).map(|n| query("Employees", n * 1000, filter, scanned, returned)).collect()
}

#[test]
fn a_lookup_by_a_property_over_the_table_wants_an_index_in_other_partitions() {
    let finding = only(
        queries(50, "Email eq 'jo@contoso.com'", 20_000, 1),
        Rule::TableScan,
        Pattern::InterPartitionIndex,
    );
    assert_eq!((finding.severity, finding.plan), (Severity::Bad, Some("table-scan")));
    assert!(finding.title.contains("scans 20,000 rows to return 1"), "{}", finding.title);
    assert_eq!(keys_text(&finding, "query"), "eq 'Email_jo@contoso.com' / ");
    assert!(keys_text(&finding, "add").starts_with("Email_jo@contoso.com / "));
    assert_eq!(finding.example.as_ref().unwrap().request, "Email eq 'jo@contoso.com'");
    assert_eq!(finding.guide_section, "Inter-partition secondary index pattern");
    assert!(finding.cost_per_month.is_some());
}

#[test]
fn a_property_that_many_share_wants_index_entities() {
    let finding =
        only(queries(50, "LastName eq 'Smith'", 20_000, 40), Rule::TableScan, Pattern::IndexEntities);
    assert_eq!(finding.what_if.unwrap().partition, "LastName_{LastName}");
    only(
        queries(50, "PartitionKey eq 'Sales' and LastName eq 'Smith'", 5_000, 40),
        Rule::PartitionScan,
        Pattern::IndexEntities,
    );
}

#[test]
fn a_lookup_inside_of_a_partition_wants_an_index_in_it() {
    let finding = only(
        queries(50, "PartitionKey eq 'Sales' and Email eq 'jo@contoso.com'", 5_000, 1),
        Rule::PartitionScan,
        Pattern::IntraPartitionIndex,
    );
    let proposal = finding.what_if.clone().unwrap();
    assert_eq!(
        (proposal.partition.as_str(), proposal.row.as_str()),
        ("{PartitionKey}", "Email_{Email}_{RowKey}")
    );
    assert_eq!(
        keys_text(&finding, "query"),
        "eq 'Sales' / ge 'Email_jo@contoso.com_' lt 'Email_jo@contoso.com`'"
    );
    assert_eq!(finding.severity, Severity::Bad);
}

#[test]
fn several_properties_want_a_compound_key() {
    let finding = only(
        queries(50, "Department eq 'Sales' and Year eq 2026", 8_000, 20),
        Rule::TableScan,
        Pattern::CompoundKey,
    );
    let proposal = finding.what_if.clone().unwrap();
    assert_eq!(
        (proposal.partition.as_str(), proposal.row.as_str()),
        ("{Department}", "{Year}_{PartitionKey}_{RowKey}")
    );
    assert_eq!(keys_text(&finding, "query"), "eq 'Sales' / ge '2026_' lt '2026`'");
}

#[test]
fn a_comparison_of_numbers_wants_an_index_that_sorts() {
    let finding = only(
        queries(50, "PartitionKey eq 'Sales' and Age gt 60", 5_000, 50),
        Rule::PartitionScan,
        Pattern::IntraPartitionIndex,
    );
    assert_eq!(keys_text(&finding, "query"), "eq 'Sales' / ge 'Age_0000000060' lt 'Age`'");
    assert_eq!(finding.what_if.unwrap().row, "Age_{Age:010}_{RowKey}");
    let finding = only(queries(50, "Age gt 60", 5_000, 50), Rule::TableScan, Pattern::IndexEntities);
    assert_eq!(keys_text(&finding, "query"), "eq 'Age_index' / ge '0000000060'");
}

#[test]
fn a_row_key_without_its_partition_wants_both() {
    let finding =
        only(queries(50, "RowKey eq '0042'", 20_000, 1), Rule::TableScan, Pattern::InterPartitionIndex);
    assert_eq!(keys_text(&finding, "query"), "eq 'RowKey_0042' / ");
}

#[test]
fn the_newest_of_a_partition_want_the_log_tail() {
    let finding = only(
        queries(50, "PartitionKey eq 'Sales' and Timestamp ge datetime'2026-11-15T00:00:00Z'", 5_000, 20),
        Rule::PartitionScan,
        Pattern::LogTail,
    );
    assert_eq!(finding.what_if.unwrap().row, "{Timestamp:reverse}_{RowKey}");
}

#[test]
fn a_span_of_time_over_all_partitions_is_log_data() {
    let filter = "Created ge datetime'2026-11-15T15:04:00Z' and Created lt datetime'2026-11-15T15:06:00Z'";
    let finding = only(queries(50, filter, 50_000, 200), Rule::TableScan, Pattern::LogData);
    assert_eq!(finding.what_if.as_ref().unwrap().partition, "{Created:hour}");
    assert!(keys_text(&finding, "add").starts_with("2026-11-15T15 / "), "{:?}", finding.keys);
    assert_eq!(keys_text(&finding, "query"), "ge '2026-11-15T15' lt '2026-11-15T16' / ");
    let filter = "Created ge datetime'2026-11-15T15:04:00Z'";
    let finding = only(queries(50, filter, 50_000, 200), Rule::TableScan, Pattern::LogData);
    assert_eq!(finding.what_if.as_ref().unwrap().partition, "{Created:day}");
    assert_eq!(keys_text(&finding, "query"), "ge '2026-11-15' / ");
}

#[test]
fn each_alternative_of_a_filter_gets_an_index() {
    let filter = "City eq 'Rome' or Name eq 'Jo' and Age gt 5";
    let finding = only(queries(50, filter, 20_000, 40), Rule::TableScan, Pattern::IndexEntities);
    let labels: Vec<&str> = finding.keys.iter().map(|line| line.label).collect();
    assert_eq!(labels, ["now", "add", "query", "add", "query"], "{:?}", finding.keys);
    let partitions: Vec<&str> = finding.keys.iter().map(|line| line.partition[0].text.as_str()).collect();
    assert_eq!(partitions[1..], ["City_Rome", "eq 'City_Rome'", "Name_Jo", "eq 'Name_Jo'"]);
    let filter = "PartitionKey eq 'Sales' and (City eq 'Rome' or Name eq 'Jo')";
    let finding = only(queries(50, filter, 5_000, 4), Rule::PartitionScan, Pattern::IndexEntities);
    assert!(keys_text(&finding, "add").contains(" / City_Rome_"), "{:?}", finding.keys);
}

#[test]
fn a_range_that_a_property_thins_out_is_wide() {
    only(
        queries(50, "PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b' and State eq 'open'", 1_000, 2),
        Rule::WideRange,
        Pattern::IntraPartitionIndex,
    );
}

#[test]
fn thresholds_of_scans_have_two_sides() {
    let rules = |records| names(&found(records)).into_iter().map(|(rule, _)| rule).collect::<Vec<_>>();
    assert_eq!(rules(queries(4, "A eq 1", 50_000, 1)), []);
    assert_eq!(rules(queries(5, "A eq 1", 50_000, 1)), [Rule::TableScan]);
    assert_eq!(rules(queries(50, "A eq 1", 19, 1)), []);
    assert_eq!(rules(queries(50, "A eq 1", 20, 1)), [Rule::TableScan]);
    assert_eq!(rules(queries(50, "A eq 1", 1_000, 201)), []);
    assert_eq!(rules(queries(50, "A eq 1", 1_000, 200)), [Rule::TableScan]);
    let in_partition = "PartitionKey eq 'p' and A eq 1";
    assert_eq!(rules(queries(50, in_partition, 99, 1)), []);
    assert_eq!(rules(queries(50, in_partition, 100, 1)), [Rule::PartitionScan]);
    let severity = |rows| found(queries(50, "A eq 1", rows, 1))[0].severity;
    assert_eq!(
        (severity(99), severity(100), severity(1_000)),
        (Severity::Info, Severity::Warning, Severity::Bad)
    );
}

#[test]
fn findings_are_ranked_by_severity_then_by_rows_read_for_each_one_returned() {
    let mut records = queries(10, "Rare eq 1", 50_000, 1);
    records.extend(queries(1_000, "Often eq 1", 5_000, 1));
    // As many rows for each one returned as the one before, at more than its cost.
    records.extend(queries(1_000, "Dear eq 1", 500_000, 100));
    // A warning, however much it reads in all.
    records.extend(queries(9_000, "PartitionKey eq 'p' and Mild eq 1", 9_000, 90));
    let found = found(records);
    let shapes: Vec<_> = found.iter().map(|finding| finding.shape.as_deref().unwrap()).collect();
    assert_eq!(shapes, ["Rare eq ?", "Dear eq ?", "Often eq ?", "PartitionKey eq ? and Mild eq ?"]);
    let weights: Vec<f64> = found.iter().map(|finding| finding.weight).collect();
    assert_eq!(weights, [50_000.0, 5_000.0, 5_000.0, 100.0]);
}

#[test]
fn a_flag_never_becomes_the_partition_key() {
    let records = || queries(50, "Active eq true and Email eq 'jo@contoso.com'", 20_000, 1);
    let finding = only(records(), Rule::TableScan, Pattern::CompoundKey);
    assert_eq!(finding.what_if.unwrap().partition, "{Email}", "nothing is known but that one is a flag");
    let sample = |n: usize| SampleEntity {
        partition: "p".to_owned(),
        row: n.to_string(),
        properties: [("Level", n % 3), ("Email", n)]
            .map(|(name, value)| (name.to_owned(), value.to_string()))
            .into_iter()
            .chain([
                ("Active".to_owned(), n.is_multiple_of(2).to_string()),
                ("Paid".to_owned(), "true".to_owned()),
            ])
            .collect(),
    };
    let fact = TableFact {
        account: ACCOUNT.to_owned(),
        table: "Employees".to_owned(),
        samples: (0..30).map(sample).collect(),
        ..TableFact::default()
    };
    let facts = TableFacts { tables: vec![fact] };
    let keys = |filter: &str| {
        let found = found_with(queries(50, filter, 20_000, 1), &facts);
        let proposal = found[0].what_if.clone().unwrap();
        (proposal.partition, proposal.row)
    };
    let pair = |partition: &str, row: &str| (partition.to_owned(), row.to_owned());
    assert_eq!(
        keys("Active eq true and Level eq 1 and Email eq '5'"),
        pair("{Email}", "{Level}_{Active}_{PartitionKey}_{RowKey}"),
        "the one with the most values comes first"
    );
    assert_eq!(
        keys("Active eq true and Paid eq true"),
        pair("{Active}_{Paid}_{RowKey:mod8}", "{PartitionKey}_{RowKey}"),
        "flags alone are spread over buckets"
    );
}

#[test]
fn what_stands_in_another_partition_follows_through_a_queue() {
    let names_it = |filter: &str, scanned, returned| {
        let found = found(queries(50, filter, scanned, returned));
        found[0].advice.contains("eventually consistent transactions pattern")
    };
    assert!(names_it("Email eq 'jo@contoso.com'", 20_000, 1));
    assert!(names_it("LastName eq 'Smith'", 20_000, 40));
    assert!(names_it("Department eq 'Sales' and Year eq 2026", 8_000, 20));
    assert!(names_it("Age gt 60", 8_000, 50));
    assert!(names_it("RowKey eq 'r'", 8_000, 1));
    assert!(!names_it("PartitionKey eq 'Sales' and Email eq 'jo@contoso.com'", 5_000, 1));
}

#[test]
fn numbers_without_padding_are_seen_in_batches_too() {
    let batches = |width: usize| {
        (0..20_u64).map(move |n| {
            let key = |number: u64| Box::<str>::from(format!("{number:0width$}"));
            let mut record = batch("Orders", n * 1000, ("p", &key(n * 10)), 10, 0);
            if let Target::Batch { numbers, .. } = &mut record.target {
                *numbers = Some((key(n * 10), key(n * 10 + 9)));
            }
            record
        })
    };
    only(batches(1), Rule::UnpaddedNumber, Pattern::SortingData);
    assert!(found(batches(8)).is_empty());
}

#[test]
fn a_query_that_is_gone_for_a_day_is_over() {
    let day = 24 * 3600 * 1000;
    let later = |at_ms| entity("Employees", at_ms, "GetEntity", "p", "r");
    let with_last = |at_ms| {
        let mut records = queries(50, "A eq 1", 5_000, 1);
        records.push(later(at_ms));
        found(records).len()
    };
    assert_eq!((with_last(day), with_last(day + 60_000)), (1, 0));
}

#[test]
fn a_partition_beyond_the_promise_is_hot_and_one_below_half_is_not() {
    let rate = |per_second: u64, seconds: u64| {
        let records = (0..per_second * seconds).map(move |n| {
            let partition = if n % 10 == 0 { format!("p{}", n % 100) } else { "tenant|contoso".to_owned() };
            entity("Activity", n * 1000 / per_second, "MergeEntity", &partition, &format!("{n:08}"))
        });
        found(records)
    };
    let hot = rate(3_000, 3);
    assert_eq!(names(&hot), [(Rule::HotPartition, Pattern::ChoosingPartitionKey)]);
    assert_eq!(hot[0].severity, Severity::Bad);
    assert!(keys_text(&hot[0], "then").starts_with("tenant|contoso_"), "{:?}", hot[0].keys);
    let moment = rate(3_000, 2);
    assert_eq!((moment.len(), moment[0].severity), (1, Severity::Warning), "two seconds are a moment");
    let near = rate(1_200, 12);
    assert_eq!((near.len(), near[0].severity), (1, Severity::Warning));
    assert_eq!(rate(1_200, 8).len(), 0, "eight busy seconds are not ten");
    assert_eq!(rate(1_050, 20).len(), 0, "less than half of the promise");
}

/// What the recorder of a server hands over at its usual rate, when so many batches of 100 go to one partition in each
/// second beside 1,500 reads of others.
fn sampled_batches(batches_per_second: u64, seconds: u64) -> (Vec<Finding>, u32) {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tavola_model::{Clock, DateTime, StorageService};
    use tavola_telemetry::{Counted, RecordSink, Recorder};

    #[derive(Default)]
    struct Held(AtomicU64);
    impl Clock for Held {
        fn now(&self) -> DateTime {
            DateTime::from_unix_ticks(self.0.load(Ordering::Relaxed) * 10_000)
        }
    }
    #[derive(Default)]
    struct Kept(Mutex<Vec<AccessRecord>>);
    impl RecordSink for Kept {
        fn observe(&self, records: &[AccessRecord]) {
            self.0.lock().unwrap().extend_from_slice(records);
        }
    }

    let (clock, kept) = (Arc::new(Held::default()), Arc::new(Kept::default()));
    let recorder = Recorder::new(vec![kept.clone()], clock.clone()).with_rate(500);
    let each_second = 1_500 + batches_per_second;
    for n in 0..each_second * seconds {
        let at_ms = n * 1000 / each_second;
        if at_ms >= clock.0.load(Ordering::Relaxed) + 100 {
            clock.0.store(at_ms, Ordering::Relaxed);
            recorder.flush();
        }
        let Some(weight) = recorder.begin(StorageService::Table) else { continue };
        let is_batch = n * batches_per_second / each_second != (n + 1) * batches_per_second / each_second;
        let mut record = if is_batch {
            batch("Activity", at_ms, ("tenant|contoso", &format!("{n:08}-x")), 100, 0)
        } else {
            entity("Activity", at_ms, "GetEntity", &format!("{:x}", scattered(n)), "r")
        };
        record.weight = weight;
        let counted = Counted {
            operation: record.operation,
            status: 200,
            rows_returned: 1,
            ..Counted::new(StorageService::Table)
        };
        recorder.end(&counted, Some("Activity"), Some(Box::new(record)));
    }
    recorder.flush();
    let records = std::mem::take(&mut *kept.0.lock().unwrap());
    let weight = records.iter().map(|record| record.weight).max().unwrap();
    let found = found(records).into_iter().filter(|finding| finding.rule == Rule::HotPartition).collect();
    (found, weight)
}

#[test]
fn few_sampled_batches_do_not_make_a_partition_hot() {
    let (found, weight) = sampled_batches(8, 600);
    assert_eq!(weight, 4, "one record stands for four requests");
    assert!(found.is_empty(), "800 entities a second are not 2,000, nor near it: {found:#?}");
    let (found, _) = sampled_batches(40, 120);
    assert_eq!(found.len(), 1, "4,000 entities a second are too many, sampled or not");
    assert_eq!(found[0].severity, Severity::Bad);
}

#[test]
fn an_account_beyond_the_promise_is_hot() {
    let rate =
        |each: u64| (0..each).map(|n| entity("T", 1, "GetEntity", &format!("{:x}", scattered(n)), "r"));
    only(rate(20_001), Rule::HotAccount, Pattern::ChoosingPartitionKey);
    assert!(found(rate(20_000)).is_empty());
    let sampled = |each: u64, weight: u32| {
        rate(each).map(move |mut record| {
            record.weight = weight;
            record
        })
    };
    assert!(found(sampled(201, 100)).is_empty(), "so few records leave it open");
    only(sampled(300, 100), Rule::HotAccount, Pattern::ChoosingPartitionKey);
}

/// Inserts a tenth of a second apart into partitions that `partition` names.
fn inserts(count: u64, partition: impl Fn(u64) -> String) -> Vec<AccessRecord> {
    (0..count)
        .map(|n| {
            entity("Telemetry", n * 100, "InsertEntity", &partition(n), &format!("id-{:016x}z", scattered(n)))
        })
        .collect()
}

#[test]
fn inserts_at_the_end_or_the_front_are_append_only() {
    let up = only(inserts(500, |n| format!("hour-{:06}", n / 20)), Rule::AppendOnly, Pattern::PrependAppend);
    assert!(up.title.contains("end") && up.severity == Severity::Info, "{up:?}");
    let down = only(
        inserts(500, |n| format!("hour-{:06}", 9_999 - n / 20)),
        Rule::AppendOnly,
        Pattern::PrependAppend,
    );
    assert!(down.title.contains("front"), "{}", down.title);
    assert_eq!(down.what_if.unwrap().partition, "{RowKey:mod8}_{PartitionKey}");
    assert!(found(inserts(199, |n| format!("hour-{:06}", n / 20))).is_empty());
    assert!(found(inserts(500, |n| format!("device-{:04}", scattered(n) % 50))).is_empty());
    assert!(found(inserts(500, |_| "one".to_owned())).is_empty(), "one partition is no order");
    assert!(found(inserts(500, |n| format!("hour-{:06}", if n % 5 == 0 { 0 } else { n }))).is_empty());
}

#[test]
fn an_append_that_is_fast_is_worse() {
    let fast = |times: usize| {
        let records = inserts(500, |n| format!("hour-{:06}", n / 20));
        let records = records.into_iter().flat_map(|record| std::iter::repeat_n(record, times));
        found(records).into_iter().find(|finding| finding.rule == Rule::AppendOnly).unwrap().severity
    };
    assert_eq!((fast(19), fast(20), fast(201)), (Severity::Info, Severity::Warning, Severity::Bad));
}

#[test]
fn a_property_that_spreads_comes_first_in_the_new_key() {
    let samples = (0..40)
        .map(|n| SampleEntity {
            partition: "2026-11-15T18".to_owned(),
            row: format!("{n:04}"),
            properties: vec![
                ("Device".to_owned(), format!("dev-{}", n % 8)),
                ("Id".to_owned(), n.to_string()),
                ("Kind".to_owned(), "x".to_owned()),
            ],
        })
        .collect();
    let fact = TableFact {
        account: ACCOUNT.to_owned(),
        table: "telemetry".to_owned(),
        samples,
        ..TableFact::default()
    };
    let found =
        found_with(inserts(500, |n| format!("hour-{:06}", n / 20)), &TableFacts { tables: vec![fact] });
    let proposal = found[0].what_if.clone().unwrap();
    assert_eq!((proposal.partition.as_str(), proposal.row.as_str()), ("{Device}", "{PartitionKey}_{RowKey}"));
    assert_eq!(keys_text(&found[0], "then"), "dev-0 / 2026-11-15T18_0000");
}

#[test]
fn large_and_wide_entities_are_named_before_they_fail() {
    let write = |bytes: u64, properties: u16, code: Option<ErrorCode>| {
        let target = Target::Entity { partition: "p".into(), row: "r".into(), properties };
        let mut record = record("T", 0, "InsertEntity", target);
        record.bytes_in = bytes;
        if code.is_some() {
            (record.status, record.code) = (400, code);
        }
        vec![record]
    };
    assert!(found(write(384 * 1024 - 1, 199, None)).is_empty());
    let large = only(write(384 * 1024, 10, None), Rule::LargeEntity, Pattern::LargeEntities);
    assert_eq!(large.severity, Severity::Warning);
    let refused =
        only(write(100, 10, Some(ErrorCode::EntityTooLarge)), Rule::LargeEntity, Pattern::LargeEntities);
    assert_eq!(refused.severity, Severity::Bad);
    only(write(100, 200, None), Rule::WideEntity, Pattern::WideEntities);
    let refused =
        only(write(100, 0, Some(ErrorCode::TooManyProperties)), Rule::WideEntity, Pattern::WideEntities);
    assert_eq!(refused.severity, Severity::Bad);
}

#[test]
fn numbers_without_padding_do_not_sort() {
    let invoices = |row: fn(u64) -> String| {
        (0..120_u64).map(move |n| {
            entity(
                "Invoices",
                n * 1000,
                "InsertEntity",
                &format!("2026-Q{}", scattered(n) % 4),
                &row(scattered(n) % 500),
            )
        })
    };
    let finding = only(invoices(|n| n.to_string()), Rule::UnpaddedNumber, Pattern::SortingData);
    assert_eq!(finding.severity, Severity::Info);
    assert!(keys_text(&finding, "then").ends_with(&finding.fact.split('\'').nth(1).unwrap().to_owned()));
    assert!(found(invoices(|n| format!("{n:06}"))).is_empty());
    assert!(found(invoices(|n| format!("{:016x}", scattered(n)))).is_empty());
    let behind = only(invoices(|n| format!("inv-{n}")), Rule::UnpaddedNumber, Pattern::SortingData);
    assert_eq!(behind.what_if.unwrap().row, "{RowKey:end8}");
    let range = (0..10).map(|n| query("Invoices", n, "PartitionKey eq '2026-Q1' and RowKey gt '9'", 5, 5));
    let wrong = only(invoices(|n| n.to_string()).chain(range), Rule::UnpaddedNumber, Pattern::SortingData);
    assert_eq!(wrong.severity, Severity::Bad);
    assert!(wrong.fact.contains("wrong entities"), "{}", wrong.fact);
}

#[test]
fn a_log_that_is_never_deleted_only_grows() {
    let log = |count: u64| {
        (0..count).map(|n| {
            let partition = format!("device-{:03}", scattered(n) % 100);
            entity("Log", n * 100, "InsertEntity", &partition, &format!("2026-11-15T18:{:08}", n))
        })
    };
    only(log(1_000), Rule::OnlyGrows, Pattern::HighVolumeDelete);
    assert!(found(log(999)).is_empty());
    let one_deleted = [entity("Log", 5, "DeleteEntity", "device-001", "x")];
    assert!(found(log(1_000).chain(one_deleted)).is_empty());
    let batches = |deletes: u16| {
        (0..20).map(move |n| {
            let partition = format!("device-{:03}", scattered(n) % 100);
            batch("Log", n * 100, (&partition, &format!("2026-11-15T18:{n:08}")), 50, deletes)
        })
    };
    only(batches(0), Rule::OnlyGrows, Pattern::HighVolumeDelete);
    assert!(found(batches(1)).is_empty(), "a batch deletes, too");
    let people =
        (0..2_000_u64).map(|n| entity("People", n, "InsertEntity", &format!("{:x}", scattered(n)), "r"));
    assert!(found(people).is_empty(), "a table of people grows, too, and that is no log");
}

#[test]
fn deletes_in_the_order_of_the_keys_empty_a_table() {
    let deletes = |count: u64, row: fn(u64) -> u64| {
        (0..count).map(move |n| {
            entity(
                "Logins",
                n * 10,
                "DeleteEntity",
                &format!("user-{:03}", row(n) / 100),
                &format!("{:06}", row(n)),
            )
        })
    };
    let finding = only(deletes(500, |n| n), Rule::RowByRowDelete, Pattern::HighVolumeDelete);
    assert!(finding.advice.contains("Logins202611"), "{}", finding.advice);
    assert!(found(deletes(499, |n| n)).is_empty());
    assert!(found(deletes(1_000, |n| scattered(n) % 100_000)).is_empty());
}

#[test]
fn batches_of_one_are_named() {
    let batches = |ones: u64, others: u64| {
        (0..ones + others).map(move |n| {
            let operations = if n < ones { 1 } else { 20 };
            batch("T", n * 10, (&format!("{:x}", scattered(n)), "r"), operations, 0)
        })
    };
    only(batches(50, 0), Rule::SingleBatch, Pattern::EntityGroupTransactions);
    only(batches(50, 50), Rule::SingleBatch, Pattern::EntityGroupTransactions);
    assert!(found(batches(49, 0)).is_empty());
    assert!(found(batches(49, 51)).is_empty());
}

#[test]
fn writes_that_fail_on_the_version_in_loops_are_named() {
    let writes = |failed: u64, succeeded: u64, key: fn(u64) -> String| {
        (0..failed + succeeded).map(move |n| {
            let mut record = entity("Counters", n * 10, "MergeEntity", &key(n), "total");
            if n < failed {
                (record.status, record.code) = (412, Some(ErrorCode::UpdateConditionNotSatisfied));
            }
            record
        })
    };
    let finding = only(writes(20, 80, |_| "hits".to_owned()), Rule::EtagLoop, Pattern::ManagingConcurrency);
    assert!(finding.title.contains("hits / total"), "{}", finding.title);
    assert!(found(writes(19, 70, |_| "hits".to_owned())).is_empty());
    assert!(found(writes(20, 81, |_| "hits".to_owned())).is_empty());
    assert!(found(writes(200, 100, |n| format!("{:x}", scattered(n)))).is_empty(), "no entity fails twice");
}

#[test]
fn whole_reads_of_large_entities_want_a_projection() {
    let reads = |bytes_each: u64, select: &'static [&'static str]| {
        (0..20_u64).map(move |n| {
            let mut record = query("Docs", n * 1000, "PartitionKey eq 'p'", 10, 10);
            record.bytes_out = bytes_each * 10;
            if let Target::Query(target) = &record.target {
                let select = select.iter().map(|name| (*name).into()).collect();
                record.target = Target::Query(Arc::new(QueryTarget { select, ..QueryTarget::clone(target) }));
            }
            record
        })
    };
    only(reads(16 * 1024, &[]), Rule::SelectAll, Pattern::ServerSideProjection);
    assert!(found(reads(16 * 1024 - 1, &[])).is_empty());
    assert!(found(reads(64 * 1024, &["Title"])).is_empty());
}

#[test]
fn whole_reads_of_single_large_entities_want_a_projection_too() {
    let reads = |bytes: u64, selected: u16| {
        (0..50_u64).map(move |n| {
            let mut record = entity("Documents", n * 1000, "GetEntity", &format!("{:x}", scattered(n)), "r");
            if let Target::Entity { properties, .. } = &mut record.target {
                *properties = selected;
            }
            record.bytes_out = bytes;
            record
        })
    };
    let finding = only(reads(64 * 1024, 0), Rule::SelectAll, Pattern::ServerSideProjection);
    assert!(finding.title.starts_with("GetEntity reads whole entities of 64.0 KiB"), "{}", finding.title);
    assert!(found(reads(64 * 1024, 2)).is_empty(), "these name what they want");
    assert!(found(reads(63 * 1024, 0)).is_empty());
    let one = |bytes: u64| {
        let mut records = queries(50, "PartitionKey eq 'p' and RowKey ge 'a'", 1, 1);
        records.iter_mut().for_each(|record| record.bytes_out = bytes);
        names(&found(records))
    };
    assert_eq!(
        one(64 * 1024),
        [(Rule::SelectAll, Pattern::ServerSideProjection)],
        "one is enough if it is large"
    );
    assert_eq!(one(63 * 1024), []);
}

#[test]
fn a_series_that_is_read_together_wants_to_be_one_entity() {
    let series = |properties: u16| {
        let writes = (0..480_u64).map(move |n| {
            let target = Target::Entity {
                partition: format!("user-{:03}", scattered(n) % 40).into(),
                row: format!("{:02}", n % 24).into(),
                properties,
            };
            record("Messages", n * 1000, "InsertOrReplaceEntity", target)
        });
        let reads = (0..50_u64)
            .map(|n| query("Messages", n * 9000, &format!("PartitionKey eq 'user-{n:03}'"), 24, 24));
        found(writes.chain(reads))
    };
    assert_eq!(names(&series(1)), [(Rule::DataSeries, Pattern::DataSeries)]);
    assert!(series(3).is_empty());
}

/// Point reads, short ranges and writes over many partitions, at a fair rate, with paging and a rare export.
#[test]
fn a_healthy_workload_gives_no_finding() {
    let mut records = Vec::new();
    for n in 0..20_000_u64 {
        let (at, random) = (n * 20, scattered(n));
        let partition = format!("customer-{:04}", random % 800);
        let row = format!("order_{:08}", random % 100_000);
        records.push(match n % 10 {
            0..=4 => entity("Orders", at, "GetEntity", &partition, &row),
            5 | 6 => query(
                "Orders",
                at,
                &format!("PartitionKey eq '{partition}' and RowKey ge 'order_00000100' and RowKey lt 'order_00000200'"),
                12,
                12,
            ),
            7 => entity("Orders", at, "InsertEntity", &partition, &row),
            8 => entity("Orders", at, "MergeEntity", &partition, &row),
            _ if n % 100 == 9 => entity("Orders", at, "DeleteEntity", &partition, &row),
            _ => query("Orders", at, &format!("PartitionKey eq '{partition}'"), 30, 30),
        });
    }
    for n in 0..20_u64 {
        records.push(query("Orders", n * 20_000, "", 1_000, 1_000));
        records.push(batch("Orders", n * 20_000, (&format!("customer-{n:04}"), "order_00000001"), 40, 0));
        let mut conflict = entity("Orders", n * 20_000, "MergeEntity", "customer-0001", "order_00000001");
        conflict.status = 412;
        records.push(conflict);
    }
    let found = found(records);
    assert!(found.is_empty(), "{found:#?}");
}

/// The guide's own designs: log tail, index entities, prefixes.
#[test]
fn the_patterns_of_the_guide_give_no_finding() {
    let mut records = Vec::new();
    for n in 0..5_000_u64 {
        let (at, random) = (n * 50, scattered(n));
        let department = format!("dept-{:02}", random % 60);
        let ticks = 2_516_934_079_999_999_999 - n * 500_000;
        records.push(match n % 5 {
            0 => entity(
                "Expenses",
                at,
                "InsertEntity",
                &format!("empid_{:05}", random % 3000),
                &format!("{ticks:019}_{n}"),
            ),
            1 => query(
                "Expenses",
                at,
                &format!("PartitionKey eq 'empid_{:05}' and RowKey lt '{ticks}'", random % 3000),
                10,
                10,
            ),
            2 => query(
                "Staff",
                at,
                &format!("PartitionKey eq '{department}' and RowKey eq 'email_{random:x}@contoso.com'"),
                1,
                1,
            ),
            3 => query(
                "Staff",
                at,
                &format!(
                    "PartitionKey eq '{department}' and RowKey ge 'lastname_Jo' and RowKey lt 'lastname_Jp'"
                ),
                4,
                4,
            ),
            _ => entity("Staff", at, "InsertEntity", &department, &format!("empid_{:06}", random % 900_000)),
        });
        if n % 100 == 0 {
            records.push(entity("Expenses", at, "DeleteEntity", &format!("empid_{:05}", random % 3000), "x"));
        }
    }
    let found = found(records);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn numbers_are_written_as_people_write_them() {
    assert_eq!([shown(0.0), shown(3.24), shown(999.0), shown(128_000.4)], ["0", "3.2", "999", "128,000"]);
    assert_eq!([shown_bytes(512.0), shown_bytes(1536.0)], ["512 B", "1.5 KiB"]);
    assert!(Rule::ALL.iter().all(|rule| Rule::parse(rule.as_str()) == Some(*rule)));
}

#[test]
fn whole_entities_gain_what_their_large_properties_take() {
    let record = |n: u64| {
        let mut record = query("Employees", n * 1000, "PartitionKey eq 'drafts'", 5, 5);
        record.bytes_out = 100_000;
        record
    };
    let facts = |properties: &[(&str, String)]| {
        let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let sample = SampleEntity { partition: "drafts".to_owned(), row: "1".to_owned(), properties };
        let fact = TableFact {
            account: ACCOUNT.to_owned(),
            table: "Employees".to_owned(),
            samples: vec![sample],
            ..TableFact::default()
        };
        TableFacts { tables: vec![fact] }
    };
    let stored = facts(&[("Body", "x".repeat(128)), ("Title", "a".repeat(20))]);
    let found = found_with((0..20).map(record), &stored);
    assert_eq!(names(&found), [(Rule::SelectAll, Pattern::ServerSideProjection)], "{found:#?}");
    let gain = &found[0].gains[0];
    assert_eq!((gain.before, gain.after), (2_000_000, 100 * (150 + 5 + 20 + 6)));
    assert_eq!(gain.to_string(), "1.9 MiB → 17.7 KiB, if $select leaves out Body");
    let without = found_with((0..20).map(record), &TableFacts::default());
    assert_eq!(without[0].gains[0].after, 15_000, "keys alone");
}

#[test]
fn a_span_of_time_gains_the_days_that_it_does_not_ask_for() {
    let filter = "Created ge datetime'2026-11-02T00:00:00Z' and Created lt datetime'2026-11-03T00:00:00Z'";
    let samples = (1..=20).map(|day| SampleEntity {
        partition: "p".to_owned(),
        row: day.to_string(),
        properties: vec![("Created".to_owned(), format!("2026-11-{day:02}T08:00:00Z"))],
    });
    let fact = TableFact {
        account: ACCOUNT.to_owned(),
        table: "Employees".to_owned(),
        samples: samples.collect(),
        ..TableFact::default()
    };
    let found = found_with(queries(10, filter, 1_000, 20), &TableFacts { tables: vec![fact] });
    assert_eq!(names(&found), [(Rule::TableScan, Pattern::LogData)], "{found:#?}");
    let gain = &found[0].gains[0];
    assert_eq!(
        (gain.kind, gain.before, gain.after),
        (crate::GainKind::Rows, 10_000, 1_000),
        "two days of twenty"
    );
}

#[test]
fn alternatives_gain_what_they_do_not_return() {
    let found = found(queries(10, "City eq 'Rome' or Name eq 'Jo'", 1_000, 20));
    assert_eq!(names(&found), [(Rule::TableScan, Pattern::IndexEntities)], "{found:#?}");
    assert_eq!((found[0].gains[0].before, found[0].gains[0].after), (10_000, 200));
}
