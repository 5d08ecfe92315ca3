//! Indexes of every location: what they promise, what they cost, and what is left after a kill at any request.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tavola_client::eventual::{Intents, Settle, Worker, WorkerSettings};
use tavola_client::index::{IndexedTable, VerifyMode};
use tavola_client::testing::FaultTransport;
use tavola_client::{Account, Entity, Error, HyperTransport, Progress, ProgressCallback, QueueClient};

use crate::support::{Bench, quick};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    partition = "{department}",
    row = "empid_{id:06}",
    rename_all = "PascalCase",
    entity_type = "Employee"
)]
#[entity(index(by_email, unique, row = "email_{email}"))]
#[entity(index(by_badge, unique, table = "EmployeeByBadge", partition = "{badge}", row = "badge"))]
#[entity(index(by_last_name, partition = "name_{last_name}", row = "{department}_{id:06}"))]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    age: i32,
    email: Option<String>,
    badge: Option<String>,
}

/// With entries in its own partition only.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}")]
#[entity(index(by_email, unique, row = "email_{email}"))]
#[entity(index(by_name, row = "name_{name}_{id:06}"))]
struct Local {
    department: String,
    id: u32,
    name: String,
    email: Option<String>,
}

fn don(department: &str) -> Employee {
    Employee {
        department: department.into(),
        id: 212,
        last_name: "Hall".into(),
        age: 34,
        email: Some("donh@contoso.com".into()),
        badge: Some(format!("badge-{department}")),
    }
}

const LEASE: Duration = Duration::from_secs(2);
/// Cases at once: a lease is to be long enough for a write on a slow machine.
const CONCURRENCY: usize = 32;

fn employees(account: &Account, queue: &str) -> IndexedTable<Employee> {
    leased(account, queue, LEASE)
}

fn leased(account: &Account, queue: &str, lease: Duration) -> IndexedTable<Employee> {
    let intents = Intents::new(account.queue(queue)).with_lease(lease);
    IndexedTable::with_intents(account.table("Employees"), intents)
}

fn worker(account: &Account, queue: &str) -> Worker {
    let intents = Intents::new(account.queue(queue)).with_lease(LEASE);
    Worker::new(intents, WorkerSettings::default()).serve(employees(account, queue))
}

/// Lets a worker run until no intent is left.
async fn settle(account: &Account, queue: &str) {
    let (worker, messages): (Worker, QueueClient) = (worker(account, queue), account.queue(queue));
    while messages.message_count().await.unwrap() > 0 {
        assert_eq!(worker.drain().await.unwrap().failed, 0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_tells_of_every_request() {
    let bench = Bench::start();
    bench.plain.table("Watched").create().await.unwrap();
    let table = IndexedTable::<Local>::new(bench.faulty.table("Watched"));
    for id in 0..3 {
        let new = Local { department: "Sales".into(), id, name: "Hall".into(), email: None };
        table.insert(&new, Settle::Wait).await.unwrap();
    }
    let told = Arc::new(std::sync::Mutex::new(Progress::default()));
    let progress: ProgressCallback = {
        let told = told.clone();
        Arc::new(move |progress| *told.lock().unwrap() = progress)
    };
    bench.faults.go_on();
    table.verify(VerifyMode::Report, Some(progress.clone())).await.unwrap();
    // Three entities and their copies.
    let expected = Progress { entities: 6, requests: bench.faults.count() };
    assert_eq!(*told.lock().unwrap(), expected);
    assert!(expected.requests > 6, "{expected:?}");
    bench.faults.go_on();
    table.rebuild("by_name", Some(progress)).await.unwrap();
    assert_eq!(*told.lock().unwrap(), Progress { entities: 6, requests: bench.faults.count() });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_in_the_partition_is_one_transaction() {
    let bench = Bench::start();
    let table = IndexedTable::<Local>::new(bench.faulty.table("Locals"));
    table.create().await.unwrap();
    let new = |id, name: &str, email: &str| Local {
        department: "Sales".into(),
        id,
        name: name.into(),
        email: Some(email.into()),
    };
    bench.faults.go_on();
    let mut don = table.insert(&new(1, "Hall", "d@c.com"), Settle::Wait).await.unwrap();
    assert_eq!(bench.faults.count(), 1);
    let taken = table.insert(&new(2, "Other", "d@c.com"), Settle::Wait).await;
    assert!(matches!(taken, Err(Error::Taken { index: Some("by_email") })), "{taken:?}");
    assert!(table.get(("Sales", "empid_000002")).await.unwrap().is_none(), "nothing was written");
    let same_key = table.insert(&new(1, "Other", "e@c.com"), Settle::Wait).await;
    assert!(matches!(same_key, Err(Error::Taken { index: None })));

    bench.faults.go_on();
    don.email = Some("new@c.com".into());
    don.name = "Jones".into();
    table.save(&mut don, Settle::Wait).await.unwrap();
    assert_eq!(bench.faults.count(), 1);
    assert!(table.find(Local::by_email("Sales", "d@c.com")).await.unwrap().is_none());
    assert_eq!(table.find(Local::by_email("Sales", "new@c.com")).await.unwrap().unwrap().value, don.value);
    assert_eq!(table.find(Local::by_name("Sales", 1, "Jones")).await.unwrap().unwrap().value, don.value);

    // A copy that somebody removed by hand does not stand in the way.
    bench.plain.table("Locals").delete_if_there(("Sales", "name_Jones_000001"), None).await.unwrap();
    assert_eq!(table.verify(VerifyMode::Report, None).await.unwrap().missing, 1);
    don.name = "Hall".into();
    table.save(&mut don, Settle::Wait).await.unwrap();
    assert!(table.verify(VerifyMode::Report, None).await.unwrap().is_clean());
    bench.plain.table("Locals").delete_if_there(("Sales", "name_Hall_000001"), None).await.unwrap();
    assert_eq!(table.verify(VerifyMode::Repair, None).await.unwrap().missing, 1);
    let repaired = table.verify(VerifyMode::Report, None).await.unwrap();
    assert!(repaired.is_clean() && repaired.entities == 1, "{repaired:?}");

    let don = table.find_verified(Local::by_email("Sales", "new@c.com")).await.unwrap().unwrap();
    table.delete(&don, Settle::Wait).await.unwrap();
    let rest =
        bench.plain.table("Locals").query::<tavola_client::DynamicEntity>(tavola_client::In::whole_table());
    assert!(rest.collect().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_elsewhere_follow_and_unique_values_are_taken_once() {
    let bench = Bench::start();
    let table = employees(&bench.faulty, "intents");
    table.create().await.unwrap();
    bench.plain.queue("intents").create().await.unwrap();
    bench.faults.go_on();
    let mut stored = table.insert(&don("Sales"), Settle::Wait).await.unwrap();
    assert_eq!(
        bench.faults.count(),
        7,
        "intent, pending, reservation, entity, copy, look again, intent gone"
    );
    let by_name = || Employee::by_last_name("Sales", 212, "Hall");
    assert_eq!(table.find(by_name()).await.unwrap().unwrap().value, stored.value);
    assert_eq!(table.find(Employee::by_badge("badge-Sales")).await.unwrap().unwrap().value, stored.value);
    assert_eq!(bench.plain.queue("intents").message_count().await.unwrap(), 0);

    let mut thief = don("Legal");
    thief.badge = stored.badge.clone();
    let taken = table.insert(&thief, Settle::Wait).await;
    assert!(matches!(taken, Err(Error::Taken { index: Some("by_badge") })), "{taken:?}");
    assert!(table.get(("Legal", "empid_000212")).await.unwrap().is_none());
    assert!(table.verify(VerifyMode::Report, None).await.unwrap().is_clean());

    let mut late = table.get(("Sales", "empid_000212")).await.unwrap().unwrap();
    stored.last_name = "Jones".into();
    stored.badge = Some("4711".into());
    table.save(&mut stored, Settle::Wait).await.unwrap();
    assert!(table.find(by_name()).await.unwrap().is_none());
    assert!(table.find(Employee::by_badge("badge-Sales")).await.unwrap().is_none());
    assert_eq!(table.find_verified(Employee::by_badge("4711")).await.unwrap().unwrap().last_name, "Jones");
    late.badge = Some("4712".into());
    assert!(matches!(table.save(&mut late, Settle::Wait).await, Err(Error::Changed)));
    assert!(
        table.verify(VerifyMode::Report, None).await.unwrap().is_clean(),
        "its reservation was given back"
    );

    // A stale copy is not believed, and goes.
    let copy = tavola_client::DynamicEntity::new(("name_Hall", "Sales_000212"));
    bench.plain.table("Employees").upsert(&copy, None).await.unwrap();
    let mut copy = bench
        .plain
        .table("Employees")
        .get::<tavola_client::DynamicEntity>(("name_Jones", "Sales_000212"), None)
        .await
        .unwrap()
        .unwrap();
    copy.key = ("name_Hall", "Sales_000212").into();
    bench.plain.table("Employees").upsert(&copy.value, None).await.unwrap();
    assert!(table.find(by_name()).await.unwrap().is_some());
    assert_eq!(table.verify(VerifyMode::Report, None).await.unwrap().orphans, 1);
    assert!(table.find_verified(by_name()).await.unwrap().is_none());
    assert!(table.verify(VerifyMode::Report, None).await.unwrap().is_clean());

    table.delete(&stored, Settle::Behind).await.unwrap();
    settle(&bench.plain, "intents").await;
    let report = table.verify(VerifyMode::Report, None).await.unwrap();
    assert_eq!((report.entities, report.is_clean()), (0, true));
    assert!(table.find(Employee::by_badge("4711")).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_of_old_data_is_built() {
    let bench = Bench::start();
    let table = employees(&bench.plain, "intents");
    table.create().await.unwrap();
    bench.plain.queue("intents").create().await.unwrap();
    for n in 0..25 {
        bench.plain.table("Employees").insert(&don(&format!("D{n}")), None).await.unwrap();
    }
    assert_eq!(table.verify(VerifyMode::Report, None).await.unwrap().missing, 75);
    for index in ["by_email", "by_badge", "by_last_name"] {
        assert_eq!(table.rebuild(index, None).await.unwrap(), 25, "{index}");
        assert_eq!(table.rebuild(index, None).await.unwrap(), 0, "{index}");
    }
    let report = table.verify(VerifyMode::Report, None).await.unwrap();
    assert_eq!((report.entities, report.is_clean()), (25, true), "{report:?}");
    let mut one = table.find(Employee::by_badge("badge-D7")).await.unwrap().unwrap();
    one.badge = None;
    table.save(&mut one, Settle::Wait).await.unwrap();
    assert!(table.verify(VerifyMode::Report, None).await.unwrap().is_clean());
}

/// What a write left whose intent is lost is told, and removed on request once nobody can be at it any more.
#[tokio::test(flavor = "multi_thread")]
async fn orphaned_reservations_and_pending_entities_go_on_request() {
    let bench = Bench::start();
    let (plain, table) = (employees(&bench.plain, "intents"), employees(&bench.faulty, "intents"));
    plain.create().await.unwrap();
    bench.plain.queue("intents").create().await.unwrap();
    for owner_is_left in [true, false] {
        // Intent, pending, reservation; and then the process is gone, and its intent too.
        let killed = bench.faults.kill_at(4, table.insert(&don("Sales"), Settle::Wait)).await;
        assert!(killed.is_none());
        bench.plain.queue("intents").clear().await.unwrap();
        if !owner_is_left {
            bench.plain.table("Employees").delete_if_there(("Sales", "empid_000212"), None).await.unwrap();
        }
        let taken =
            plain.insert(&Employee { department: "Legal".into(), ..don("Sales") }, Settle::Wait).await;
        assert!(matches!(taken, Err(Error::Taken { index: Some("by_badge") })), "{taken:?}");
        let young = plain.verify(VerifyMode::Repair, None).await.unwrap();
        assert_eq!(
            (young.pending, young.orphans),
            (u64::from(owner_is_left), 1),
            "a write may be on its way"
        );
        tokio::time::sleep(LEASE + Duration::from_millis(200)).await;
        let old = plain.verify(VerifyMode::Repair, None).await.unwrap();
        assert_eq!(old.pending, young.pending);
        let left = plain.verify(VerifyMode::Report, None).await.unwrap();
        assert!(left.is_clean() && left.entities == 0, "{left:?}");
        assert_eq!(bench.plain.queue("intents").message_count().await.unwrap(), 0);
    }
    plain.insert(&don("Sales"), Settle::Wait).await.unwrap();
    assert!(plain.verify(VerifyMode::Repair, None).await.unwrap().is_clean(), "what is held stays");
    assert!(plain.find(Employee::by_badge("badge-Sales")).await.unwrap().is_some());
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Insert,
    Change,
    Clear,
    Delete,
}

async fn run(work: Work, table: &IndexedTable<Employee>, department: &str) -> tavola_client::Result<()> {
    if work == Work::Insert {
        return table.insert(&don(department), Settle::Wait).await.map(|_| ());
    }
    let mut stored = table.get((department, "empid_000212")).await?.ok_or(Error::NotFound)?;
    match work {
        Work::Change => {
            stored.last_name = "Jones".into();
            stored.email = Some("jones@contoso.com".into());
            stored.badge = Some(format!("new-{department}"));
            table.save(&mut stored, Settle::Wait).await
        }
        Work::Clear => {
            (stored.email, stored.badge) = (None, None);
            table.save(&mut stored, Settle::Wait).await
        }
        Work::Insert | Work::Delete => table.delete(&stored, Settle::Wait).await,
    }
}

/// A case: a write killed at one request, then a worker killed at another, then one that is not. Gives whether the write
/// came to its end.
async fn case(plain: &Account, work: Work, first: u64, second: u64) -> bool {
    let name = format!("{work:?}-{first}-{second}").to_lowercase();
    let faults = Arc::new(FaultTransport::new(HyperTransport::new()));
    let account = plain.clone().with_transport(faults.clone()).with_retry(quick());
    plain.queue(&name).create().await.unwrap();
    if work != Work::Insert {
        leased(plain, &name, Duration::from_secs(300)).insert(&don(&name), Settle::Wait).await.unwrap();
    }
    let ended = faults.kill_at(first, run(work, &employees(&account, &name), &name)).await;
    if second > 0 {
        tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
        faults.kill_at(second, worker(&account, &name).drain()).await;
    }
    settle(plain, &name).await;
    let found = employees(plain, &name).get((name.as_str(), "empid_000212")).await.unwrap();
    // On a slow machine a lease may end before its write does, which then says so.
    let lost = matches!(ended, Some(Err(Error::LeaseLost)));
    if let (Some(done), false) = (&ended, lost) {
        done.as_ref().unwrap();
        let is_done = match work {
            Work::Insert => found.is_some(),
            Work::Change => found.as_ref().is_some_and(|one| one.last_name == "Jones"),
            Work::Clear => found.as_ref().is_some_and(|one| one.badge.is_none()),
            Work::Delete => found.is_none(),
        };
        assert!(is_done, "{name}: told done");
    }
    // The value can be taken by whoever the entity left it to.
    let badge = employees(plain, &name).find(Employee::by_badge(&format!("badge-{name}"))).await.unwrap();
    let keeps = found.is_some_and(|one| one.badge.as_deref() == Some(&format!("badge-{name}")));
    assert_eq!(badge.is_some(), keeps, "{name}");
    ended.is_some()
}

/// Every kind of write, killed at every request, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_killed_at_any_request_is_settled_by_a_worker() {
    kill_everywhere(&[0]).await;
}

/// The same, with the first worker killed at every request too.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_and_its_worker_killed_at_any_requests_are_settled() {
    kill_everywhere(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]).await;
}

async fn kill_everywhere(seconds: &[u64]) {
    let bench = Bench::start();
    employees(&bench.plain, "none").create().await.unwrap();
    let mut requests = Vec::new();
    for work in [Work::Insert, Work::Change, Work::Clear, Work::Delete] {
        let cases = (1..=14).flat_map(|first| seconds.iter().map(move |second| (first, *second)));
        let cases: Vec<_> = cases.collect();
        let runs = cases.iter().map(|(first, second)| case(&bench.plain, work, *first, *second));
        let ended: Vec<bool> = stream::iter(runs).buffered(CONCURRENCY).collect().await;
        let killed =
            cases.iter().zip(&ended).filter(|(_, ended)| !**ended).map(|((first, _), _)| *first).max();
        assert!(killed.is_some_and(|killed| killed < 14), "the last kill is behind the last request");
        requests.push(killed);
    }
    let report = employees(&bench.plain, "none").verify(VerifyMode::Report, None).await.unwrap();
    assert!(report.is_clean(), "nothing missing, nothing left over: {report:?} {requests:?}");
    assert!(report.entities > 0);
}
