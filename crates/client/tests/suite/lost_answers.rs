//! What the caller is told is what the table holds, however the network betrays it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tavola_client::testing::{Fault, FaultTransport};
use tavola_client::{
    DynamicEntity, EdmValue, Error, HyperTransport, In, Resolve, Stored, TableClient, WriteOptions,
};

use crate::support::Bench;

fn entity(row: &str, value: i64) -> DynamicEntity {
    DynamicEntity::new(("p", row)).with("Value", value).with("Text", format!("text {value}"))
}

/// Row and value of everything in the table.
async fn held(table: &TableClient) -> BTreeMap<String, i64> {
    let all = table.query::<DynamicEntity>(In::partition("p")).collect().await.unwrap();
    let value = |entity: &Stored<DynamicEntity>| entity.get("Value").and_then(EdmValue::as_i64).unwrap();
    all.iter().map(|entity| (entity.key.row.clone(), value(entity))).collect()
}

/// Every single fault at the first try of every kind of write.
#[tokio::test(flavor = "multi_thread")]
async fn every_write_survives_every_fault() {
    let bench = Bench::start();
    let (plain, table) = (bench.plain.table("Faults"), bench.faulty.table("Faults"));
    plain.create().await.unwrap();
    for resolve in [Resolve::ByContent, Resolve::ByStamp] {
        let options = || Some(WriteOptions { resolve, ..WriteOptions::default() });
        for fault in Fault::ALL {
            let told = format!("{fault:?} {resolve:?}");
            bench.faults.push(fault);
            let mut stored = table.insert(&entity("a", 1), options()).await.expect(&told);
            bench.faults.all_arrived().await;
            assert_eq!(held(&plain).await, [("a".to_owned(), 1)].into(), "insert {told}");
            assert!(matches!(table.insert(&entity("a", 2), None).await, Err(Error::Taken { index: None })));

            bench.faults.push(fault);
            stored.put("Value", 2i64);
            table.save(&mut stored, options()).await.expect(&told);
            bench.faults.all_arrived().await;
            assert_eq!(held(&plain).await["a"], 2, "merge {told}");

            // The tag that the call learned is the one that the table has.
            bench.faults.push(fault);
            stored.put("Value", 3i64);
            stored.remove("Text");
            table.save(&mut stored, options()).await.expect(&told);
            bench.faults.all_arrived().await;
            assert_eq!(held(&plain).await["a"], 3, "replace {told}");

            bench.faults.push(fault);
            table.upsert(&entity("a", 4), options()).await.expect(&told);
            bench.faults.all_arrived().await;
            assert_eq!(held(&plain).await["a"], 4, "upsert {told}");

            bench.faults.push(fault);
            let stale = table.delete(&stored, options()).await;
            assert!(matches!(stale, Err(Error::Changed)), "{told} {stale:?}");
            let fresh = plain.get::<DynamicEntity>(("p", "a"), None).await.unwrap().unwrap();
            bench.faults.push(fault);
            table.delete(&fresh, options()).await.expect(&told);
            bench.faults.all_arrived().await;
            assert!(held(&plain).await.is_empty(), "delete {told}");

            bench.faults.push(fault);
            let batch = || table.transaction("p").with_options(options().unwrap());
            let inserted = batch().insert(&entity("b", 1)).unwrap().insert(&entity("c", 2)).unwrap();
            let inserted = inserted.commit().await.expect(&told);
            bench.faults.all_arrived().await;
            assert_eq!(held(&plain).await, [("b".to_owned(), 1), ("c".to_owned(), 2)].into(), "batch {told}");
            let c = plain.get::<DynamicEntity>(("p", "c"), None).await.unwrap().unwrap();
            assert_eq!(inserted.etags[1].as_deref(), Some(c.etag.as_str()), "{told}");

            bench.faults.push(fault);
            let mixed =
                batch().upsert(&entity("b", 5)).unwrap().delete(&c).unwrap().insert(&entity("d", 6)).unwrap();
            mixed.commit().await.expect(&told);
            bench.faults.all_arrived().await;
            assert_eq!(held(&plain).await, [("b".to_owned(), 5), ("d".to_owned(), 6)].into(), "mixed {told}");

            bench.faults.push(fault);
            let refused =
                batch().upsert(&entity("b", 7)).unwrap().insert(&entity("d", 8)).unwrap().commit().await;
            let at_one = matches!(&refused, Err(Error::Transaction { index: 1, cause }) if matches!(**cause, Error::Taken { .. }));
            assert!(at_one, "{told} {refused:?}");
            bench.faults.all_arrived().await;
            assert_eq!(held(&plain).await["b"], 5, "refused {told}");
            for row in ["b", "d"] {
                bench.faults.push(fault);
                assert!(table.delete_if_there(("p", row), None).await.expect(&told), "{told}");
            }
            bench.faults.all_arrived().await;
        }
    }
}

/// Faults at random tries, two of three requests; told and held are compared after each call.
#[tokio::test(flavor = "multi_thread")]
async fn told_is_held_under_random_faults() {
    let seed = 16;
    let chance = Mutex::new(fastrand::Rng::with_seed(seed));
    let faults = FaultTransport::new(HyperTransport::new()).with_plan(Box::new(move |_, request| {
        // A lost read changes nothing; faults are kept for what writes, and for half of the reading back.
        let mut chance = chance.lock().unwrap();
        if request.method() == http::Method::GET && chance.bool() {
            return Fault::None;
        }
        chance.choice(Fault::ALL).unwrap_or(Fault::None)
    }));
    let bench = Bench::with(faults);
    let (plain, table) = (bench.plain.table("Random"), bench.faulty.table("Random"));
    plain.create().await.unwrap();
    let mut chance = fastrand::Rng::with_seed(seed + 1);
    let mut expected: BTreeMap<String, i64> = BTreeMap::new();
    let mut unknown = 0;
    for step in 0..250i64 {
        let row = ["a", "b", "c"][chance.usize(..3)];
        let stored = plain.get::<DynamicEntity>(("p", row), None).await.unwrap();
        let kind = chance.u8(..6);
        let mut after = expected.clone();
        let told = match (kind, stored) {
            (0, _) => {
                after.insert(row.into(), step);
                table.insert(&entity(row, step), None).await.map(|_| ())
            }
            (1, _) => {
                after.insert(row.into(), step);
                table.upsert(&entity(row, step), None).await.map(|_| ())
            }
            (2, Some(mut stored)) => {
                after.insert(row.into(), step);
                stored.put("Value", step);
                table.save(&mut stored, None).await
            }
            (3, Some(stored)) => {
                after.remove(row);
                table.delete(&stored, None).await
            }
            (4, Some(stored)) => {
                after.remove(row);
                let other = format!("x{}", chance.u8(..2));
                after.insert(other.clone(), step);
                let batch =
                    table.transaction("p").delete(&stored).unwrap().insert(&entity(&other, step)).unwrap();
                batch.commit().await.map(|_| ())
            }
            _ => continue,
        };
        bench.faults.all_arrived().await;
        let now = held(&plain).await;
        match told {
            Ok(()) => assert_eq!(now, after, "step {step}, kind {kind}: told done"),
            Err(Error::OutcomeUnknown { .. }) => {
                unknown += 1;
                assert!(
                    now == after || now == expected,
                    "step {step}, kind {kind}: neither before nor after"
                );
            }
            Err(error) => assert_eq!(now, expected, "step {step}, kind {kind}: told {error:?}"),
        }
        expected = now;
    }
    assert!(unknown < 25, "most outcomes are resolved, not given up ({unknown})");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_of_another_writer_are_told_apart_by_a_stamp_only() {
    let bench = Bench::start();
    let (plain, table) = (bench.plain.table("Locks"), bench.faulty.table("Locks"));
    plain.create().await.unwrap();
    // The request is lost on its way, and another writes the same before the repeat.
    let race = |options: Option<WriteOptions>| {
        let (plain, table) = (plain.clone(), table.clone());
        let other = options.clone();
        async move {
            plain.delete_if_there(("p", "lock"), None).await.unwrap();
            plain.insert(&entity("lock", 1), other).await.unwrap();
            table.insert(&entity("lock", 1), options).await
        }
    };
    bench.faults.push(Fault::LoseRequest);
    race(None).await.expect("by content, identical bytes written a moment ago count as ours");
    bench.faults.push(Fault::LoseRequest);
    let exact = WriteOptions { resolve: Resolve::ByStamp, ..WriteOptions::default() };
    assert!(matches!(race(Some(exact)).await, Err(Error::Taken { index: None })));
    bench.faults.push(Fault::LoseRequest);
    let never = WriteOptions { resolve: Resolve::Never, ..WriteOptions::default() };
    assert!(matches!(race(Some(never)).await, Err(Error::OutcomeUnknown { attempts: 2, .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_costs_two_requests_and_nothing_else_more_than_one() {
    let bench = Bench::start();
    let (plain, table) = (bench.plain.table("Counted"), bench.faulty.table("Counted"));
    plain.create().await.unwrap();
    bench.faults.go_on();
    let mut stored = table.insert(&entity("a", 1), None).await.unwrap();
    table.get::<DynamicEntity>(("p", "a"), None).await.unwrap().unwrap();
    stored.put("Value", 2i64);
    table.save(&mut stored, None).await.unwrap();
    table.save(&mut stored, None).await.unwrap();
    assert_eq!(bench.faults.count(), 3, "a save of nothing sends nothing");
    bench.faults.go_on();
    bench.faults.push(Fault::LoseAnswer);
    table.insert(&entity("b", 1), None).await.unwrap();
    assert_eq!(bench.faults.count(), 3, "the try, its repeat, and reading back");
}
