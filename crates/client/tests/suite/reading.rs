//! Queries, pages, parallel scans, transactions and bulk.

use std::collections::BTreeSet;

use futures_util::{TryStreamExt, stream};
use tavola_client::{
    AccessPolicy, Account, BulkOptions, Continuation, Credential, DateTime, DynamicEntity, Endpoints, Entity,
    Error, In, Permissions, SignedIdentifier,
};

use crate::support::Bench;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    age: i32,
    email: Option<String>,
}

fn employee(department: &str, id: u32) -> Employee {
    let age = i32::try_from(id % 50).unwrap();
    Employee {
        department: department.into(),
        id,
        age,
        email: id.is_multiple_of(2).then(|| format!("{id}@contoso.com")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_filter_project_take_and_go_on_after_a_restart() {
    let bench = Bench::start();
    let table = bench.plain.table("Employees");
    table.create().await.unwrap();
    let all = (0..250).map(|id| employee("Sales", id)).chain((0..30).map(|id| employee("Legal", id)));
    let report = table.bulk_insert(stream::iter(all), None).await.unwrap();
    assert_eq!((report.written, report.refused.len()), (280, 0));

    let scope = || In::partition("Sales").rows("empid_000100".."empid_000200");
    let old = table.query::<Employee>(scope()).filter(|e| e.age.ge(45)).collect().await.unwrap();
    assert_eq!(
        old.iter().map(|e| e.id).collect::<Vec<_>>(),
        [145, 146, 147, 148, 149, 195, 196, 197, 198, 199]
    );
    assert_eq!(old[0].value, employee("Sales", 145));
    let pairs =
        table.query::<Employee>(scope()).select(|e| (e.age, e.email)).take(2).collect().await.unwrap();
    assert_eq!(pairs, [(0, Some("100@contoso.com".to_owned())), (1, None)]);

    bench.faults.go_on();
    let query =
        bench.faulty.table("Employees").query::<Employee>(In::partition("Sales")).page_size(100).take(150);
    assert_eq!(query.collect().await.unwrap().len(), 150);
    assert_eq!(bench.faults.count(), 2, "the second page asks for what is left of `take`");

    let query = table.query::<Employee>(In::partition("Sales")).page_size(100);
    let first = query.page(None).await.unwrap();
    let kept = serde_json::to_string(&first.next).unwrap();
    let next: Option<Continuation> = serde_json::from_str(&kept).unwrap();
    let other = table.query::<Employee>(In::partition("Legal")).page(next.as_ref()).await;
    assert!(matches!(other, Err(Error::ContinuationMismatch)));
    let rest: Vec<_> = query.pages(next).map_ok(|page| page.items.len()).try_collect().await.unwrap();
    assert_eq!(rest, [100, 50]);

    let missing = bench.plain.table("Nowhere").get::<Employee>(("a", "b"), None).await;
    assert_eq!(missing.unwrap_err().code(), Some("TableNotFound"));
    assert!(table.get::<Employee>(("a", "empid_000000"), None).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parallel_scan_reads_everything_once() {
    let bench = Bench::start();
    let table = bench.plain.table("Scanned");
    table.create().await.unwrap();
    // Most of it in one partition, and some in partitions whose keys share a prefix.
    let key = |n: u32| {
        if n < 2500 { ("hot".to_owned(), format!("{n:05}")) } else { (format!("part-{:04}", n), "r".into()) }
    };
    let all: BTreeSet<_> = (0..4000).map(key).collect();
    let entities = all.iter().map(|key| DynamicEntity::new(key.clone()).with("A", 1));
    let report = table.bulk_upsert(stream::iter(entities), None).await.unwrap();
    assert_eq!(report.written, 4000);
    for (scope, ranges) in [(In::whole_table(), 1), (In::whole_table(), 8), (In::partition("hot"), 4)] {
        let wanted: Vec<_> =
            all.iter().filter(|key| scope.only_partition().is_none_or(|only| only == key.0)).collect();
        let found = table.scan_parallel::<DynamicEntity>(scope, ranges);
        let found: Vec<_> = found.map_ok(|entity| entity.key.clone()).try_collect().await.unwrap();
        let unique: BTreeSet<_> = found.iter().map(|key| (key.partition.clone(), key.row.clone())).collect();
        assert_eq!((found.len(), unique.len()), (wanted.len(), wanted.len()));
        assert!(unique.iter().eq(wanted));
    }
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let progress = {
        let told = told.clone();
        std::sync::Arc::new(move |progress: tavola_client::Progress| told.lock().unwrap().push(progress))
    };
    let found = table.scan_parallel_with_progress::<DynamicEntity>(In::whole_table(), 4, progress);
    assert_eq!(found.try_collect::<Vec<_>>().await.unwrap().len(), 4000);
    let told = told.lock().unwrap().clone();
    let last = told.last().unwrap();
    assert_eq!((last.entities, last.requests), (4000, told.len() as u64), "once a page");
    assert!(told.len() >= 4);
    let keys: Vec<_> =
        (0..100).rev().map(|n| ("hot", format!("{n:05}")).into()).chain([("hot", "none").into()]).collect();
    let many = table.get_many::<DynamicEntity>(keys).await.unwrap();
    assert_eq!(many.len(), 101);
    assert_eq!(many[0].as_ref().unwrap().key.row, "00099");
    assert!(many[100].is_none());
    let gone = table.bulk_delete(In::partition("hot"), None).await.unwrap();
    assert_eq!(gone.written, 2500);
    assert_eq!(table.query::<DynamicEntity>(In::whole_table()).collect().await.unwrap().len(), 1500);
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_reports_what_was_refused_and_writes_the_rest() {
    let bench = Bench::start();
    let table = bench.plain.table("Bulk");
    table.create().await.unwrap();
    for id in [3, 4, 5, 50, 51] {
        table.insert(&employee("Sales", id), None).await.unwrap();
    }
    let told = std::sync::Arc::new(std::sync::Mutex::new(0));
    let progress = {
        let told = told.clone();
        std::sync::Arc::new(move |progress: tavola_client::Progress| {
            *told.lock().unwrap() = progress.entities
        })
    };
    let options = BulkOptions { concurrency: 3, progress: Some(progress), write: None };
    let report = table
        .bulk_insert(stream::iter((0..200).map(|id| employee("Sales", id))), Some(options))
        .await
        .unwrap();
    assert_eq!(report.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [3, 4, 5, 50, 51]);
    assert!(report.refused.iter().all(|(_, error)| matches!(error, Error::Taken { .. })));
    assert_eq!((report.written, *told.lock().unwrap()), (195, 195));
    // The last of the same key wins, because a partition's writes go in order.
    let twice = (0..300).map(|n| Employee { age: n, ..employee("Twice", 7) });
    assert_eq!(table.bulk_upsert(stream::iter(twice), None).await.unwrap().written, 300);
    assert_eq!(table.get::<Employee>(("Twice", "empid_000007"), None).await.unwrap().unwrap().age, 299);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_refused_before_sending_and_drops_absent_deletes() {
    let bench = Bench::start();
    let table = bench.faulty.table("Txn");
    table.create().await.unwrap();
    bench.faults.go_on();
    let begin = || table.transaction("Sales");
    let at = |result: tavola_client::Result<tavola_client::Transaction>| match result {
        Err(Error::Transaction { index, .. }) => index,
        other => panic!("{other:?}"),
    };
    assert_eq!(at(begin().insert(&employee("Legal", 1))), 0);
    assert_eq!(at(begin().insert(&employee("Sales", 1)).unwrap().upsert(&employee("Sales", 1))), 1);
    let full = (0..100).fold(begin(), |txn, id| txn.insert(&employee("Sales", id)).unwrap());
    assert_eq!(at(full.clone().insert(&employee("Sales", 100))), 100);
    let large = |id: u32| DynamicEntity::new(("Sales", format!("{id}"))).with("B", vec![0u8; 60_000]);
    let refused = (0..100).try_fold(begin(), |txn, id| txn.insert(&large(id)));
    assert!(at(refused) < 80);
    assert_eq!(bench.faults.count(), 0, "nothing was sent");
    full.commit().await.unwrap();
    bench.faults.go_on();
    let txn = begin()
        .delete_if_there(("Sales", "empid_000001"))
        .unwrap()
        .delete_if_there(("Sales", "none"))
        .unwrap();
    let committed = txn.upsert(&employee("Sales", 500)).unwrap().commit().await.unwrap();
    assert_eq!((committed.absent, bench.faults.count()), (vec![1], 2));
    assert!(committed.etags[2].is_some());
    assert!(table.get::<Employee>(("Sales", "empid_000001"), None).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_opens_what_it_says() {
    let bench = Bench::start();
    let table = bench.plain.table("Opened");
    table.create().await.unwrap();
    table.insert(&employee("Sales", 1), None).await.unwrap();
    let expiry = DateTime::from_parts((2099, 1, 1), (0, 0, 0), 0);
    let permissions = Permissions {
        letters: "r".into(),
        expiry,
        partitions: Some(("Sales".into(), "Sales".into())),
        ..Permissions::default()
    };
    let text = bench.plain.table("Opened").sign(&permissions).unwrap();
    let endpoint = bench.table_endpoint();
    let endpoints = Endpoints { table: endpoint.clone(), queue: endpoint.clone(), blob: endpoint };
    let reader = Account::new(&endpoints, Credential::Sas(text)).unwrap().table("Opened");
    assert_eq!(reader.get::<Employee>(("Sales", "empid_000001"), None).await.unwrap().unwrap().id, 1);
    // The service hides what lies outside.
    assert!(reader.get::<Employee>(("Legal", "empid_000001"), None).await.unwrap().is_none());
    assert!(reader.insert(&employee("Sales", 2), None).await.is_err());
    assert!(reader.sign(&permissions).is_err(), "only a key signs");
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_policies_are_set_and_read() {
    let bench = Bench::start();
    let table = bench.plain.table("Policies");
    table.create().await.unwrap();
    let policy = AccessPolicy {
        start: DateTime::parse("2026-01-01"),
        expiry: DateTime::parse("2099-01-01"),
        permission: Some("r".into()),
    };
    let readers = SignedIdentifier { id: "readers".into(), policy: Some(policy) };
    table.set_policies(std::slice::from_ref(&readers)).await.unwrap();
    assert_eq!(table.policies().await.unwrap(), [readers]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_policy_may_say_nothing() {
    let bench = Bench::start();
    let table = bench.plain.table("Policies");
    table.create().await.unwrap();
    let empty = SignedIdentifier { id: "readers".into(), policy: None };
    table.set_policies(std::slice::from_ref(&empty)).await.unwrap();
    assert_eq!(table.policies().await.unwrap(), [empty]);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_properties_and_tables_are_listed() {
    let bench = Bench::start();
    bench.plain.table("Opened").create().await.unwrap();
    let properties = bench.plain.table_service_properties().await.unwrap();
    bench.plain.set_table_service_properties(&properties).await.unwrap();
    assert!(bench.plain.tables(Some("Open")).await.unwrap().contains(&"Opened".to_owned()));
}
