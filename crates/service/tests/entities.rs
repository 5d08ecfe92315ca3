//! Entities: every change with every precondition, limits, and transactions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Bench, properties, show_properties, table};
use tavola_model::{
    Command, EdmValue, EntityChange, ErrorCode, Etag, EtagCondition, PropertiesBuilder, TableCommand,
    WriteOutcome,
};

/// One step of a script: what is done to `p/r`. `=` conditions take the entity's present ETag, `!` a stale one.
fn step(bench: &Bench, text: &str) -> Result<(), ErrorCode> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let current =
        || bench.get("p/r").map_or(EtagCondition::Foreign, |entity| EtagCondition::Is(entity.etag()));
    let stale = EtagCondition::Is(Etag(tavola_model::DateTime::STORABLE_MIN));
    let change = match verb {
        "insert" => EntityChange::Insert(properties(rest)),
        "put" => EntityChange::InsertOrReplace(properties(rest)),
        "patch" => EntityChange::InsertOrMerge(properties(rest)),
        "update*" => EntityChange::Update(properties(rest), EtagCondition::Any),
        "update=" => EntityChange::Update(properties(rest), current()),
        "update!" => EntityChange::Update(properties(rest), stale),
        "merge*" => EntityChange::Merge(properties(rest), EtagCondition::Any),
        "merge=" => EntityChange::Merge(properties(rest), current()),
        "merge!" => EntityChange::Merge(properties(rest), stale),
        "delete*" => EntityChange::Delete(EtagCondition::Any),
        "delete=" => EntityChange::Delete(current()),
        "delete!" => EntityChange::Delete(stale),
        other => panic!("{other}"),
    };
    bench.write("p/r", change).map(|_| ())
}

/// Runs the steps; all but the last must succeed. Gives the entity, or the code of the last step or the read.
fn check(script: &str, expected: Result<&str, ErrorCode>) {
    let bench = Bench::with_table();
    let mut steps: Vec<_> = script.split("; ").collect();
    let last = steps.pop().unwrap();
    for text in steps {
        step(&bench, text).unwrap();
    }
    let shown =
        step(&bench, last).and_then(|()| bench.get("p/r")).map(|entity| show_properties(&entity.properties));
    assert_eq!(shown, expected.map(str::to_owned), "{script}");
}

#[test]
fn an_insert_keeps_the_order_of_the_request() {
    check("insert b=2 a=1", Ok("b=2 a=1"));
    check("insert b=2; insert c=3", Err(ErrorCode::EntityAlreadyExists));
}

#[test]
fn any_update_leaves_properties_sorted_by_name() {
    check("put b=2 a=1", Ok("a=1 b=2"));
    check("patch b=2 a=1 C=3", Ok("C=3 a=1 b=2"));
    check("insert c=1; update* b=2 a=1", Ok("a=1 b=2"));
    check("insert c=1 a=0; merge* b=2 a=1", Ok("a=1 b=2 c=1"));
}

#[test]
fn merge_keeps_properties_the_request_leaves_out() {
    check("insert a=1 b=2; merge* b=3", Ok("a=1 b=3"));
    check("insert a=1 b=2; patch b=x", Ok("a=1 b=x"));
    check("insert a=1 b=2; put b=3", Ok("b=3"));
    check("insert a=1 b=2; update* b=3", Ok("b=3"));
}

#[test]
fn conditions_are_held_against_the_stored_version() {
    check("insert a=1; update= a=2", Ok("a=2"));
    check("insert a=1; merge= b=2", Ok("a=1 b=2"));
    check("insert a=1; delete=", Err(ErrorCode::ResourceNotFound));
    for verb in ["update! a=2", "merge! a=2", "delete!"] {
        check(&format!("insert a=1; {verb}"), Err(ErrorCode::UpdateConditionNotSatisfied));
    }
    for verb in ["update* a=2", "update! a=2", "merge* a=2", "merge! a=2", "delete*", "delete!"] {
        check(verb, Err(ErrorCode::ResourceNotFound));
    }
}

#[test]
fn each_write_gives_a_higher_version_even_when_the_clock_stands_still() {
    let bench = Bench::with_table();
    let WriteOutcome::Inserted(inserted) =
        bench.write("p/r", EntityChange::Insert(properties("a=1"))).unwrap()
    else {
        panic!("not inserted")
    };
    assert_eq!(bench.get("p/r").unwrap(), inserted);
    let update = EntityChange::Update(properties("a=2"), EtagCondition::Is(inserted.etag()));
    let WriteOutcome::Updated { etag, .. } = bench.write("p/r", update).unwrap() else {
        panic!("not updated")
    };
    assert!(etag.0 > inserted.timestamp);
    assert_eq!(bench.get("p/r").unwrap().etag(), etag);
}

#[test]
fn an_entity_of_one_mebibyte_fits_and_a_byte_more_does_not() {
    // 4 for the entity, 2 * 2 for keys p and r; a binary takes 8, twice its name and 4 besides its bytes.
    let sized = |total: usize| {
        let mut left = total - 8;
        let mut builder = PropertiesBuilder::new();
        let mut number = 0;
        while left > 0 {
            let name = format!("b{number:02}");
            let head = 8 + 2 * name.len() + 4;
            // The last piece must leave bytes for its own head.
            let len = if left > 65_536 + 2 * head { 65_536 - head } else { left - head };
            builder.push(&name, EdmValue::Binary(&vec![0; len.min(65_536)])).unwrap();
            left -= head + len.min(65_536);
            number += 1;
        }
        builder.finish()
    };
    let bench = Bench::with_table();
    let large = sized(1024 * 1024);
    assert_eq!(large.entity_bytes(&common::entity_key("p/r")), 1024 * 1024);
    bench.write("p/r", EntityChange::Insert(large)).unwrap();
    let one_more = bench.write("p/s", EntityChange::Insert(sized(1024 * 1024 + 1)));
    assert_eq!(one_more.unwrap_err(), ErrorCode::EntityTooLarge);
    let merged = bench.write("p/r", EntityChange::InsertOrMerge(properties("a=1")));
    assert_eq!(merged.unwrap_err(), ErrorCode::EntityTooLarge);
}

#[test]
fn a_merge_may_not_lead_to_more_than_252_properties() {
    let numbered = |from: usize, count: usize| {
        let list: Vec<_> = (from..from + count).map(|number| format!("p{number}={number}")).collect();
        properties(&list.join(" "))
    };
    let bench = Bench::with_table();
    bench.write("p/r", EntityChange::Insert(numbered(0, 251))).unwrap();
    bench.write("p/r", EntityChange::InsertOrMerge(numbered(250, 2))).unwrap();
    let too_many = bench.write("p/r", EntityChange::InsertOrMerge(numbered(252, 1)));
    assert_eq!(too_many.unwrap_err(), ErrorCode::TooManyProperties);
    assert_eq!(bench.get("p/r").unwrap().properties.len(), 252);
}

#[test]
fn a_transaction_applies_all_its_writes_under_one_version() {
    let bench = Bench::with_table();
    bench.write("p/old", EntityChange::Insert(properties("a=1"))).unwrap();
    bench.write("p/gone", EntityChange::Insert(properties("a=1"))).unwrap();
    let outcomes = bench.transact(vec![
        ("p/new", EntityChange::Insert(properties("b=2 a=1"))),
        ("p/old", EntityChange::Merge(properties("b=2"), EtagCondition::Any)),
        ("p/gone", EntityChange::Delete(EtagCondition::Any)),
    ]);
    assert_eq!(outcomes.unwrap().len(), 3);
    let (new, old) = (bench.get("p/new").unwrap(), bench.get("p/old").unwrap());
    assert_eq!(new.timestamp, old.timestamp);
    assert_eq!(
        (show_properties(&new.properties), show_properties(&old.properties)),
        ("b=2 a=1".into(), "a=1 b=2".into())
    );
    assert_eq!(bench.get("p/gone").unwrap_err(), ErrorCode::ResourceNotFound);
}

#[test]
fn a_transaction_that_fails_names_the_operation_and_changes_nothing() {
    let bench = Bench::with_table();
    bench.write("p/x", EntityChange::Insert(properties("a=1"))).unwrap();
    let insert = |key| (key, EntityChange::Insert(properties("a=2")));
    let check = |writes: Vec<(&str, EntityChange)>, index, code| {
        assert_eq!(bench.transact(writes).unwrap_err(), (Some(index), code));
        assert_eq!(bench.query("", None, None).entities.len(), 1, "{code:?}");
    };
    check(vec![insert("p/a"), insert("p/x")], 1, ErrorCode::EntityAlreadyExists);
    check(
        vec![insert("p/a"), ("p/b", EntityChange::Delete(EtagCondition::Any)), insert("p/x")],
        1,
        ErrorCode::ResourceNotFound,
    );
    check(
        vec![insert("p/a"), ("p/x", EntityChange::Update(properties("a=2"), EtagCondition::Foreign))],
        1,
        ErrorCode::UpdateConditionNotSatisfied,
    );
    check(vec![insert("p/a"), insert("q/b")], 1, ErrorCode::CommandsInBatchActOnDifferentPartitions);
    check(
        vec![insert("p/a"), insert("p/b"), insert("p/a"), insert("q/c")],
        2,
        ErrorCode::InvalidDuplicateRow,
    );
    bench.run(Command::Table(TableCommand::DeleteTable(table("People")))).unwrap();
    assert_eq!(bench.transact(vec![insert("p/a")]).unwrap_err(), (Some(0), ErrorCode::TableNotFound));
}
