use tavola_model::{EdmValue, EntityChange, EntityKey, EntityWrite, Key, PropertiesBuilder, TableCommand};
use tavola_service::ServiceSettings;
use tavola_system::{SystemClock, SystemRandom};
use tavola_telemetry::{AccessRecord, RecordSink as _};

use super::*;
use crate::facts::{TableReader, gather};
use crate::testing::{entity, query};
use crate::{Pattern, Rule, TrafficSettings, findings};

const DEPARTMENTS: [&str; 4] = ["Sales", "Support", "Research", "Board"];

fn sources() -> Sources {
    Sources { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) }
}

fn service() -> Service {
    let sources = sources();
    let engine = Arc::new(tavola_engine::MemoryEngine::new(sources.clock.clone()));
    Service::new(engine, sources.clock, sources.random, ServiceSettings::default())
}

fn account() -> Account {
    Account::development()
}

/// Four hundred people, keyed by department and number.
async fn people(service: &Service) {
    let account = account();
    let reader = TableReader::new(service, &account);
    let table = TableName::parse("People").unwrap();
    reader.execute(TableCommand::CreateTable(table.clone())).await.unwrap();
    for n in 0..400_i32 {
        let mut properties = PropertiesBuilder::new();
        let department = DEPARTMENTS[usize::try_from(n).unwrap() % 4];
        properties.push("Email", EdmValue::String(&format!("p{n}@contoso.com"))).unwrap();
        properties.push("LastName", EdmValue::String(&format!("Name{}", n % 20))).unwrap();
        properties.push("Age", EdmValue::Int32(20 + n % 50)).unwrap();
        if n != 7 {
            properties.push("City", EdmValue::String(&format!("City/{}", n % 10))).unwrap();
        }
        let key = EntityKey {
            partition: Key::parse(department).unwrap(),
            row: Key::parse(&format!("{n:06}")).unwrap(),
        };
        let write = EntityWrite { key, change: EntityChange::Insert(properties.finish()) };
        reader.execute(TableCommand::WriteEntity(table.clone(), write)).await.unwrap();
    }
}

fn traffic(records: impl IntoIterator<Item = AccessRecord>) -> Arc<Traffic> {
    let traffic = Traffic::new(TrafficSettings::default());
    traffic.observe(&records.into_iter().collect::<Vec<_>>());
    traffic
}

fn asked(partition: &str, row: &str, is_index: bool) -> WhatIf {
    WhatIf {
        table: "People".to_owned(),
        partition: partition.to_owned(),
        row: row.to_owned(),
        is_index,
        entities_max: 10_000,
    }
}

async fn try_keys(traffic: &Traffic, asked: &WhatIf) -> WhatIfReport {
    let service = service();
    people(&service).await;
    let report = what_if(&service, &account(), traffic, asked, &sources()).await.unwrap();
    let facts = gather(&service, &[account()], 10_000).await.unwrap();
    assert_eq!(
        (facts.tables[0].entities, facts.tables[0].bytes),
        (400, report.before.bytes),
        "the table is as it was"
    );
    report
}

#[tokio::test]
async fn an_index_turns_a_scan_into_a_short_range_and_leaves_point_reads_alone() {
    let mut records = Vec::new();
    for n in 0..100 {
        records.push(query("People", n * 1000, &format!("Email eq 'p{n}@contoso.com'"), 400, 1));
        records.push(entity(
            "People",
            n * 1000,
            "GetEntity",
            DEPARTMENTS[(n % 4) as usize],
            &format!("{n:06}"),
        ));
    }
    let traffic = traffic(records);
    let report = try_keys(&traffic, &asked("Email_{Email}", "{PartitionKey}_{RowKey}", true)).await;
    let [email, get] = &report.shapes[..] else { panic!("{:?}", report.shapes) };
    assert_eq!((email.plan_before, email.plan_after), ("table-scan", "partition-scan"));
    assert!(
        (email.scanned_before - 400.0).abs() < 1e-9 && (email.scanned_after - 1.0).abs() < 1e-9,
        "{email:?}"
    );
    assert!(email.is_same_result && email.example_after.starts_with("PartitionKey eq 'Email_p"), "{email:?}");
    assert_eq!((get.plan_before, get.plan_after), ("point", "point"));
    assert_eq!((report.collisions.count, report.without_key.count), (0, 0));
    assert_eq!((report.before.entities, report.after.entities), (400, 800));
    assert_eq!((report.before.plans.table_scan, report.after.plans.table_scan), (100, 0));
    assert!(report.before.rows_scanned > 40_000.0 && report.after.rows_scanned < 300.0, "{:?}", report.after);
}

#[tokio::test]
async fn the_proposal_of_a_finding_brings_what_it_says() {
    let filter = |n: u64| format!("PartitionKey eq 'Sales' and Email eq 'p{}@contoso.com'", n * 4);
    let traffic = traffic((0..50).map(|n| query("People", n * 1000, &filter(n), 100, 1)));
    let service = service();
    people(&service).await;
    let facts = gather(&service, &[account()], 10_000).await.unwrap();
    let found = findings(&traffic, &facts);
    assert_eq!(found[0].rule, Rule::PartitionScan);
    let proposal = found[0].what_if.clone().unwrap();
    let report = try_keys(&traffic, &asked(&proposal.partition, &proposal.row, proposal.is_index)).await;
    assert_eq!((report.shapes[0].plan_before, report.shapes[0].plan_after), ("partition-scan", "range"));
    assert!((report.shapes[0].scanned_after - 1.0).abs() < 1e-9 && report.shapes[0].is_same_result);
    assert!(found[0].price.starts_with("400 more"), "{}", found[0].price);
}

#[tokio::test]
async fn other_keys_make_the_requests_slower_that_relied_on_the_old_ones() {
    let mut records = Vec::new();
    for n in 0..40 {
        records.push(query("People", n * 1000, "LastName eq 'Name3'", 400, 20));
        records.push(entity(
            "People",
            n * 1000,
            "GetEntity",
            DEPARTMENTS[(n % 4) as usize],
            &format!("{n:06}"),
        ));
    }
    let report = try_keys(&traffic(records), &asked("{LastName}", "{RowKey}", false)).await;
    let of = |shape: &str| report.shapes.iter().find(|change| change.shape == shape).unwrap();
    let (by_name, get) = (of("LastName eq ?"), of("GetEntity"));
    assert_eq!((by_name.plan_after, get.plan_after), ("partition-scan", "table-scan"));
    assert!((by_name.scanned_after - 20.0).abs() < 1e-9 && by_name.is_same_result);
    assert!(get.scanned_after > 300.0 && get.is_same_result, "{get:?}");
    assert_eq!((report.after.partitions, report.before.partitions), (20, 4));
    assert_eq!(report.after.largest.as_ref().unwrap().count, 20);
}

#[tokio::test]
async fn collisions_and_missing_properties_are_reported() {
    let traffic = traffic((0..10).map(|n| query("People", n * 1000, "Age gt 60", 400, 80)));
    let report = try_keys(&traffic, &asked("{LastName}", "{Age}", false)).await;
    assert_eq!(report.collisions.count, 300);
    assert!(report.collisions.examples[0].contains("would be Name"), "{:?}", report.collisions);
    assert!(!report.shapes[0].is_same_result);
    let report = try_keys(&traffic, &asked("{City}", "{RowKey}", false)).await;
    assert_eq!(report.without_key.count, 400, "a slash cannot stand in a key");
    assert!(
        report.without_key.examples.iter().any(|text| text.contains("City/")),
        "{:?}",
        report.without_key
    );
    let report = try_keys(&traffic, &asked("{Nothing}", "{RowKey}", false)).await;
    assert!(report.without_key.examples[0].ends_with("no property Nothing"), "{:?}", report.without_key);
}

#[tokio::test]
async fn sorted_numbers_and_buckets_are_asked_for_by_range_and_by_bucket() {
    let in_partition = |filter: &str| format!("PartitionKey eq 'Sales' and {filter}");
    let traffic = traffic((0..10).flat_map(|n| {
        [
            query("People", n, &in_partition("Age gt 60"), 100, 20),
            query("People", n, &in_partition("RowKey lt '000100'"), 25, 25),
        ]
    }));
    let report = try_keys(&traffic, &asked("{PartitionKey}", "Age_{Age:010}_{RowKey}", true)).await;
    let age = report.shapes.iter().find(|change| change.shape.contains("Age")).unwrap();
    assert_eq!((age.plan_after, age.is_same_result), ("range", true));
    assert!(age.scanned_after < age.scanned_before / 2.0, "{age:?}");

    let report = try_keys(&traffic, &asked("{PartitionKey}_{RowKey:mod4}", "{RowKey}", false)).await;
    let range = report.shapes.iter().find(|change| change.shape.contains("RowKey")).unwrap();
    assert_eq!((range.plan_after, range.is_same_result), ("range", true));
    assert_eq!(report.after.partitions, 16);
    assert!(report.after.largest.as_ref().unwrap().count < 60);
}

#[tokio::test]
async fn a_time_counted_down_is_asked_for_from_the_front() {
    let traffic = traffic((0..10).map(|n| {
        query("People", n, "PartitionKey eq 'Sales' and Timestamp ge datetime'2100-01-01T00:00:00Z'", 100, 0)
    }));
    let report = try_keys(&traffic, &asked("{PartitionKey}", "{Timestamp:reverse}_{RowKey}", false)).await;
    assert_eq!((report.shapes[0].plan_after, report.shapes[0].is_same_result), ("range", true));
    assert!(report.shapes[0].scanned_after < 1.0, "{:?}", report.shapes[0]);
}

#[tokio::test]
async fn a_copy_is_bounded_in_entities_and_in_bytes() {
    let service = service();
    people(&service).await;
    // Pages have a thousand entities, so a table of more than one page is needed.
    let (account, table) = (account(), TableName::parse("People").unwrap());
    let reader = TableReader::new(&service, &account);
    for n in 0..1_000 {
        let key = EntityKey {
            partition: Key::parse("More").unwrap(),
            row: Key::parse(&format!("{n:06}")).unwrap(),
        };
        let write = EntityWrite { key, change: EntityChange::Insert(PropertiesBuilder::new().finish()) };
        reader.execute(TableCommand::WriteEntity(table.clone(), write)).await.unwrap();
    }
    let templates = copy::Templates {
        partition: Template::parse("{PartitionKey}").unwrap(),
        row: Template::parse("{RowKey}").unwrap(),
        is_index: false,
    };
    for (bounds, expected) in [((10, 1 << 30), 1_000), ((10_000, 100), 1_000), ((10_000, 1 << 30), 1_400)] {
        let copies =
            copy::Copies::make(&service, &account, &table, &templates, bounds, &sources()).await.unwrap();
        assert_eq!((copies.entities, copies.is_whole_table), (expected, expected == 1_400), "{bounds:?}");
    }
}

#[tokio::test]
async fn mistakes_are_named() {
    let service = service();
    people(&service).await;
    let traffic = traffic([query("People", 0, "A eq 1", 1, 1)]);
    let tried = |asked: WhatIf| {
        let (service, traffic) = (service.clone(), traffic.clone());
        async move { what_if(&service, &account(), &traffic, &asked, &sources()).await.unwrap_err().to_string() }
    };
    assert!(tried(asked("{", "x", false)).await.contains("not valid"));
    let none = WhatIf { table: "Nobody".to_owned(), ..asked("{A}", "x", false) };
    assert_eq!(tried(none).await, "no requests to the table Nobody are recorded");
    let bad = WhatIf { table: "1".to_owned(), ..asked("{A}", "x", false) };
    assert!(tried(bad).await.contains("not the name"));
}

/// Each query of the guide's list, as the service itself ran it: the advisor finds it, and its own proposal mends it.
#[tokio::test]
async fn every_proposal_for_a_query_reads_a_fifth_or_less_and_returns_the_same() {
    let service = service();
    people(&service).await;
    let facts = gather(&service, &[account()], 10_000).await.unwrap();
    let account = account();
    for (filter, pattern) in [
        ("Email eq 'p7@contoso.com'", Pattern::InterPartitionIndex),
        ("RowKey eq '000042'", Pattern::InterPartitionIndex),
        ("LastName eq 'Name3'", Pattern::IndexEntities),
        ("LastName eq 'Name3' and Age eq 23", Pattern::CompoundKey),
        ("PartitionKey eq 'Sales' and Email eq 'p8@contoso.com'", Pattern::IntraPartitionIndex),
        ("PartitionKey eq 'Sales' and Age gt 66", Pattern::IntraPartitionIndex),
        ("PartitionKey eq 'Sales' and Timestamp ge datetime'2100-01-01T00:00:00Z'", Pattern::LogTail),
    ] {
        let query_entities = tavola_model::QueryEntities {
            table: TableName::parse("People").unwrap(),
            filter: tavola_odata::parse_filter(filter).unwrap(),
            top: None,
            from: None,
        };
        let ran = TableReader::new(&service, &account).page(query_entities).await.unwrap().plan;
        let traffic = traffic((0..20).map(|n| query("People", n * 1000, filter, ran.scanned, ran.returned)));
        let found = findings(&traffic, &facts);
        assert_eq!((found.len(), found[0].pattern), (1, pattern), "{filter}: {found:#?}");
        let proposal = found[0].what_if.clone().unwrap();
        let tried = asked(&proposal.partition, &proposal.row, proposal.is_index);
        let report = what_if(&service, &account, &traffic, &tried, &sources()).await.unwrap();
        let change = &report.shapes[0];
        assert!(change.scanned_after * 5.0 <= change.scanned_before, "{filter}: {change:#?}");
        assert!(change.is_same_result && report.collisions.count == 0, "{filter}: {report:#?}");
    }
}

/// Inserts in the order of time, and a partition that takes nearly all: the proposals spread them.
#[tokio::test]
async fn every_proposal_for_load_spreads_it() {
    type Load = (Rule, fn(u64) -> String, u32);
    let cases: [Load; 2] = [
        (Rule::AppendOnly, |n| format!("2026-11-15T{:02}:{:02}", n / 1200, n / 20 % 60), 1),
        (
            Rule::HotPartition,
            |n| if n % 20 == 0 { format!("small-{n}") } else { "tenant|contoso".to_owned() },
            100,
        ),
    ];
    for (rule, partition, weight) in cases {
        let (service, account) = (service(), account());
        let reader = TableReader::new(&service, &account);
        let table = TableName::parse("People").unwrap();
        reader.execute(TableCommand::CreateTable(table.clone())).await.unwrap();
        let mut records = Vec::new();
        for n in 0..400_u64 {
            let (partition, row) =
                (partition(n), format!("{:08x}-{n:04}z", xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())));
            let mut properties = PropertiesBuilder::new();
            properties.push("Device", EdmValue::String(&format!("dev-{}", n % 16))).unwrap();
            let key =
                EntityKey { partition: Key::parse(&partition).unwrap(), row: Key::parse(&row).unwrap() };
            let write = EntityWrite { key, change: EntityChange::Insert(properties.finish()) };
            reader.execute(TableCommand::WriteEntity(table.clone(), write)).await.unwrap();
            let mut record = entity("People", n * 20, "InsertEntity", &partition, &row);
            record.weight = weight;
            records.push(record);
        }
        let traffic = traffic(records);
        let facts = gather(&service, std::slice::from_ref(&account), 10_000).await.unwrap();
        let found = findings(&traffic, &facts);
        let finding = found
            .iter()
            .find(|finding| finding.rule == rule)
            .unwrap_or_else(|| panic!("{rule:?}: {found:#?}"));
        let proposal = finding.what_if.clone().unwrap();
        let tried = asked(&proposal.partition, &proposal.row, proposal.is_index);
        let report = what_if(&service, &account, &traffic, &tried, &sources()).await.unwrap();
        let share = |side: &Side| side.hottest_lately.as_ref().unwrap().share;
        assert!(
            share(&report.after) * 2.0 <= share(&report.before),
            "{rule:?}: {:?} {:?}",
            report.before,
            report.after
        );
        assert_eq!((report.collisions.count, report.without_key.count, report.after.entities), (0, 0, 400));
    }
}

#[tokio::test]
async fn padded_numbers_are_asked_for_as_numbers() {
    check_padded("", "{RowKey:08}").await;
    check_padded("item-", "{RowKey:end8}").await;
}

async fn check_padded(prefix: &str, row: &str) {
    let (service, account) = (service(), account());
    let reader = TableReader::new(&service, &account);
    let table = TableName::parse("People").unwrap();
    reader.execute(TableCommand::CreateTable(table.clone())).await.unwrap();
    for n in 1..=30 {
        let key = EntityKey {
            partition: Key::parse("p").unwrap(),
            row: Key::parse(&format!("{prefix}{n}")).unwrap(),
        };
        let write = EntityWrite { key, change: EntityChange::Insert(PropertiesBuilder::new().finish()) };
        reader.execute(TableCommand::WriteEntity(table.clone(), write)).await.unwrap();
    }
    let proposal = asked("{PartitionKey}", row, false);
    for (range, before, after) in [
        ("RowKey ge '5' and RowKey lt '12'", 0.0, 7.0),
        ("RowKey gt '5' and RowKey le '12'", 0.0, 7.0),
        // As text, 2, 20 to 29, 3, 30 and 4 to 9 come behind 2.
        ("RowKey ge '2'", 19.0, 29.0),
    ] {
        let filter = format!("PartitionKey eq 'p' and {}", range.replace(" '", &format!(" '{prefix}")));
        let traffic = traffic((0..10).map(|n| query("People", n, &filter, 30, 0)));
        let report = what_if(&service, &account, &traffic, &proposal, &sources()).await.unwrap();
        let shape = &report.shapes[0];
        assert!(shape.is_order_mended && !shape.is_same_result, "{shape:?}");
        assert_eq!((shape.returned_before, shape.returned_after), (before, after), "{range}: {shape:?}");
        assert_eq!(shape.plan_after, "range");
    }
    let filter = format!("PartitionKey eq 'p' and RowKey eq '{prefix}5'");
    let traffic = traffic((0..10).map(|n| query("People", n, &filter, 1, 1)));
    let report = what_if(&service, &account, &traffic, &proposal, &sources()).await.unwrap();
    assert!(report.shapes[0].is_same_result && !report.shapes[0].is_order_mended, "{:?}", report.shapes);
}

#[tokio::test]
async fn a_span_of_time_reads_the_days_that_it_touches() {
    let (service, account) = (service(), account());
    let reader = TableReader::new(&service, &account);
    let table = TableName::parse("People").unwrap();
    reader.execute(TableCommand::CreateTable(table.clone())).await.unwrap();
    for n in 0..100_u64 {
        let mut properties = PropertiesBuilder::new();
        let time = tavola_model::DateTime::parse(&format!("2026-11-{:02}T{:02}:30:00Z", n % 25 + 1, n % 24));
        properties.push("Hired", EdmValue::DateTime(time.unwrap())).unwrap();
        let key =
            EntityKey { partition: Key::parse("p").unwrap(), row: Key::parse(&format!("{n:06}")).unwrap() };
        let write = EntityWrite { key, change: EntityChange::Insert(properties.finish()) };
        reader.execute(TableCommand::WriteEntity(table.clone(), write)).await.unwrap();
    }
    let filter = "Hired gt datetime'2026-11-03T09:00:00Z' and Hired le datetime'2026-11-04T12:00:00Z'";
    let traffic = traffic((0..10).map(|n| query("People", n, filter, 100, 0)));
    let proposal = asked("{Hired:day}", "{PartitionKey}_{RowKey}", true);
    let report = what_if(&service, &account, &traffic, &proposal, &sources()).await.unwrap();
    let shape = &report.shapes[0];
    assert!(shape.is_same_result, "{shape:?}");
    assert_eq!(
        (shape.scanned_before, shape.scanned_after),
        (100.0, 8.0),
        "two days of four entities: {shape:?}"
    );
    assert_eq!((report.collisions.count, report.without_key.count), (0, 0));
}
