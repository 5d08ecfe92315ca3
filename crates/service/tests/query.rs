//! Queries: pages and their continuation, budgets, key limits, and the plan that each report claims.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use common::hooks::{HookedEngine, Hooks};
use common::{Bench, HeldClock, account, properties, show_keys, table};
use tavola_auth::{KeyLimit, Permitted};
use tavola_engine::{Engine, EngineError, MemoryEngine, ScanRange, ScannedRow, SpaceId, Visit};
use tavola_model::{
    Command, EdmValue, EntityChange, EntityToken, ErrorCode, GetEntity, Outcome, PlanKind, PropertiesBuilder,
    QueryEntities, TableCommand, TableOutcome,
};
use tavola_service::{Service, ServiceSettings};
use tavola_system::SystemRandom;

/// A table with these entities, each with `n` set to its place.
fn with_entities(keys: &str) -> Bench {
    let bench = Bench::with_table();
    for (index, key) in keys.split_whitespace().enumerate() {
        bench.write(key, EntityChange::Insert(properties(&format!("n={index}")))).unwrap();
    }
    bench
}

fn token(text: &str) -> Option<EntityToken> {
    let (partition, row) = text.split_once('/')?;
    Some(EntityToken { partition: partition.into(), row: row.into() })
}

fn show_token(token: Option<&EntityToken>) -> String {
    token.map(|token| format!("{}/{}", token.partition, token.row)).unwrap_or_default()
}

/// All pages of a query, `|` between them.
fn pages(bench: &Bench, filter: &str, top: usize) -> String {
    let mut shown = Vec::new();
    let mut from = None;
    loop {
        let page = bench.query(filter, Some(top), from);
        shown.push(show_keys(&page));
        from = page.next;
        if from.is_none() {
            return shown.join(" | ");
        }
    }
}

#[test]
fn entities_come_by_partition_key_then_row_key_in_utf_16_order() {
    let bench = with_entities("b/1 a/2 a/10 \u{E000}/x \u{1F600}/x a/ /z");
    assert_eq!(show_keys(&bench.query("", None, None)), "/z a/ a/10 a/2 b/1 \u{1F600}/x \u{E000}/x");
}

#[test]
fn a_page_names_the_next_entity_and_the_last_page_none() {
    let bench = with_entities("p/1 p/2 p/3 q/1");
    let page = bench.query("", Some(2), None);
    assert_eq!((show_keys(&page).as_str(), show_token(page.next.as_ref()).as_str()), ("p/1 p/2", "p/3"));
    assert_eq!(pages(&bench, "", 2), "p/1 p/2 | p/3 q/1");
    assert_eq!(pages(&bench, "", 3), "p/1 p/2 p/3 | q/1");
    assert_eq!(pages(&bench, "", 4), "p/1 p/2 p/3 q/1");
    assert_eq!(pages(&bench, "PartitionKey eq 'p'", 3), "p/1 p/2 p/3");
    assert_eq!(pages(&bench, "PartitionKey eq 'p' and (RowKey eq '1' or RowKey eq '3')", 1), "p/1 | p/3");
}

#[test]
fn pages_end_with_their_partition_where_that_is_asked_for() {
    let settings = ServiceSettings { pages_end_with_partitions: true, ..ServiceSettings::default() };
    let bench = Bench::with_settings(settings);
    bench.run(Command::Table(TableCommand::CreateTable(table("People")))).unwrap();
    for key in ["p/1", "p/2", "q/1", "r/1", "r/2"] {
        bench.write(key, EntityChange::Insert(properties("n=1"))).unwrap();
    }
    assert_eq!(pages(&bench, "", 1000), "p/1 p/2 | q/1 | r/1 r/2");
    assert_eq!(pages(&bench, "", 1), "p/1 | p/2 | q/1 | r/1 | r/2");
    assert_eq!(pages(&bench, "RowKey eq '2'", 1000), "p/2 |  | r/2", "a page may be empty and go on");
    assert_eq!(pages(&bench, "PartitionKey eq 'p' or PartitionKey eq 'r'", 1000), "p/1 p/2 | r/1 r/2");
    assert_eq!(pages(&bench, "PartitionKey eq 'p'", 1000), "p/1 p/2");
}

#[test]
fn a_token_may_name_an_entity_that_is_gone_or_only_a_partition() {
    let bench = with_entities("p/1 p/3 q/1");
    assert_eq!(show_keys(&bench.query("", None, token("p/2"))), "p/3 q/1");
    assert_eq!(show_keys(&bench.query("", None, token("p/"))), "p/1 p/3 q/1");
    assert_eq!(show_keys(&bench.query("PartitionKey eq 'p'", None, token("q/1"))), "");
}

#[test]
fn a_top_of_zero_is_an_empty_page_without_continuation() {
    let page = with_entities("p/1").query("", Some(0), None);
    assert_eq!((page.entities.len(), page.next, page.plan.scanned), (0, None, 0));
}

#[test]
fn a_page_holds_a_thousand_entities() {
    let keys: Vec<_> = (0..1001).map(|number| format!("p/{number:04}")).collect();
    let bench = with_entities(&keys.join(" "));
    let page = bench.query("", None, None);
    assert_eq!((page.entities.len(), show_token(page.next.as_ref()).as_str()), (1000, "p/1000"));
    assert_eq!(bench.query("", Some(5000), None).entities.len(), 1000);
    assert_eq!(bench.query("", None, page.next).entities.len(), 1);
}

#[test]
fn no_continuation_is_given_when_nothing_more_matches_nearby() {
    let bench = with_entities("p/1 p/2 p/3 p/4 p/5");
    let page = bench.query("n lt 2", Some(2), None);
    assert_eq!((show_keys(&page).as_str(), page.next, page.plan.scanned), ("p/1 p/2", None, 5));
}

#[test]
fn behind_a_full_page_only_a_few_rows_are_looked_at() {
    let keys: Vec<_> = (0..500).map(|number| format!("p/{number:04}")).collect();
    let bench = with_entities(&keys.join(" "));
    let page = bench.query("n lt 2", Some(2), None);
    assert_eq!((show_keys(&page).as_str(), page.plan.scanned), ("p/0000 p/0001", 67));
    let rest = bench.query("n lt 2", Some(2), page.next);
    assert_eq!((rest.entities.len(), rest.next), (0, None));
}

#[test]
fn a_page_ends_early_when_its_entities_are_large() {
    let bench = Bench::with_table();
    for number in 0..30 {
        let mut builder = PropertiesBuilder::new();
        for name in ["a", "b", "c", "d"] {
            builder.push(name, EdmValue::Binary(&[7; 64 * 1024])).unwrap();
        }
        bench.write(&format!("p/{number:02}"), EntityChange::Insert(builder.finish())).unwrap();
    }
    // 256 KiB and a little each: fifteen fit into 4 MiB.
    assert_eq!(
        pages(&bench, "", 1000).split(" | ").map(|page| page.split(' ').count()).collect::<Vec<_>>(),
        [15, 15]
    );
}

#[test]
fn a_query_that_takes_too_long_answers_with_what_it_has() {
    let clock = HeldClock::new();
    let scans = Arc::new(SlowScans(clock.clone()));
    let engine = HookedEngine::new(MemoryEngine::new(clock.clone()), scans);
    let service = Service::new(engine, clock, Arc::new(SystemRandom), ServiceSettings::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let run =
        |command| runtime.block_on(service.execute(Permitted::unchecked_for_test(account(), command, None)));
    run(Command::Table(TableCommand::CreateTable(table("People")))).unwrap();
    for number in 0..1300 {
        let key = common::entity_key(&format!("p/{number:04}"));
        let write = tavola_model::EntityWrite { key, change: EntityChange::Insert(properties("")) };
        run(Command::Table(TableCommand::WriteEntity(table("People"), write))).unwrap();
    }
    // Each row takes 10 ms, so five seconds are over at row 500; the clock is looked at every 256 rows.
    let mut scanned = Vec::new();
    let mut from = None;
    loop {
        let filter = tavola_odata::parse_filter("missing eq 1").unwrap();
        let query = QueryEntities { table: table("People"), filter, top: None, from };
        let Ok(Outcome::Table(TableOutcome::EntitiesQueried(page))) =
            run(Command::Table(TableCommand::QueryEntities(query)))
        else {
            panic!("no page")
        };
        assert!(page.entities.is_empty());
        scanned.push(page.plan.scanned);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(scanned, [512, 512, 278]);
}

/// Lets time pass with every row of a scan.
struct SlowScans(Arc<HeldClock>);

#[async_trait]
impl Hooks for SlowScans {
    async fn scan(
        &self,
        inner: &MemoryEngine,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        let mut slow = |row: ScannedRow<'_>| -> ControlFlow<()> {
            self.0.pass_ms(10);
            visit(row)
        };
        inner.scan(space, range, &mut slow).await
    }
}

#[test]
fn the_report_says_how_the_query_ran() {
    let bench = with_entities("a/1 a/2 p/1 p/2 p/3 q/1");
    let check = |filter: &str, kind, ranges, scanned, returned| {
        let plan = bench.query(filter, None, None).plan;
        assert_eq!(
            (plan.kind, plan.ranges, plan.scanned, plan.returned),
            (kind, ranges, scanned, returned),
            "{filter}"
        );
    };
    check("PartitionKey eq 'p' and RowKey eq '1'", PlanKind::Point, 1, 1, 1);
    check("PartitionKey eq 'p' and (RowKey eq '1' or RowKey eq '9')", PlanKind::Point, 2, 1, 1);
    check("PartitionKey eq 'p' and RowKey gt '1'", PlanKind::Range, 1, 2, 2);
    check("PartitionKey eq 'p' and n eq 2", PlanKind::PartitionScan, 1, 3, 1);
    check("PartitionKey gt 'a' and RowKey eq '1'", PlanKind::PartitionRange, 1, 4, 2);
    check("n eq 0", PlanKind::TableScan, 1, 6, 1);
    check("PartitionKey eq 'p' and PartitionKey eq 'q'", PlanKind::Point, 0, 0, 0);
}

#[test]
fn a_key_limit_narrows_reads_and_refuses_writes() {
    let bench = with_entities("a/1 p/1 p/2 p/3 q/1 z/1");
    let bound = |partition: &str, row: Option<&str>| Some((partition.to_owned(), row.map(str::to_owned)));
    let limit = KeyLimit { start: bound("p", Some("2")), end: bound("q", None) };
    let query = |filter: &str, from| show_keys(&bench.query_within(filter, None, from, Some(limit.clone())));
    assert_eq!(query("", None), "p/2 p/3 q/1");
    assert_eq!(query("PartitionKey eq 'p'", None), "p/2 p/3");
    assert_eq!(query("", token("a/1")), "p/2 p/3 q/1");
    assert_eq!(query("RowKey eq '1'", None), "q/1");
    let run =
        |command| bench.run_within(command, Some(limit.clone())).map(|_| ()).map_err(|error| error.code);
    let get = |key| {
        Command::Table(TableCommand::GetEntity(GetEntity {
            table: table("People"),
            key: common::entity_key(key),
        }))
    };
    assert_eq!(run(get("p/2")), Ok(()));
    assert_eq!(run(get("p/1")), Err(ErrorCode::ResourceNotFound));
    let put = |key| {
        let change = EntityChange::InsertOrReplace(properties("n=1"));
        tavola_model::EntityWrite { key: common::entity_key(key), change }
    };
    assert_eq!(run(Command::Table(TableCommand::WriteEntity(table("People"), put("q/9")))), Ok(()));
    assert_eq!(
        run(Command::Table(TableCommand::WriteEntity(table("People"), put("r/1")))),
        Err(ErrorCode::AuthorizationFailure)
    );
}

#[test]
fn a_query_on_a_missing_table_is_table_not_found() {
    let query = QueryEntities { table: table("none"), filter: None, top: None, from: None };
    let error = Bench::new().run(Command::Table(TableCommand::QueryEntities(query))).unwrap_err();
    assert_eq!(error.code, ErrorCode::TableNotFound);
}
