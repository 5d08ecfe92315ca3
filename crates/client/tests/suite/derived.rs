//! Lists of keys, embedded properties, eventual transactions: what they cost, and what a kill at any request leaves.

use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};
use tavola_client::entity::Writable;
use tavola_client::eventual::{
    Attempt, EventualTransaction, Intents, MoveEntity, Settle, Settler, Worker, WorkerSettings,
};
use tavola_client::index::VerifyMode;
use tavola_client::patterns::denormal::{Denormalized, Embeds};
use tavola_client::patterns::list_index::{ListIndex, Lists};
use tavola_client::testing::FaultTransport;
use tavola_client::{
    Account, DynamicEntity, Entity, EntityKey, Error, HyperTransport, In, KeyError, Result, TableClient,
};

use crate::support::{Bench, quick};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    last_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "Department", rename_all = "PascalCase")]
struct Department {
    name: String,
    manager: Option<String>,
    #[entity(default)]
    employee_count: i32,
}

impl Embeds<Employee> for Department {
    fn holders(employee: &Employee) -> Result<Vec<EntityKey>, KeyError> {
        Ok(vec![(employee.department.as_str(), "Department").into()])
    }
    fn embed(&mut self, employee: &Employee) {
        self.manager = employee.last_name.clone();
    }
    fn forget(&mut self, _: &EntityKey) {
        self.manager = None;
    }
}

fn employee(department: &str, id: u32, name: &str) -> Employee {
    Employee { department: department.into(), id, last_name: Some(name.into()) }
}

const LEASE: Duration = Duration::from_secs(2);
const CONCURRENCY: usize = 32;

fn intents(account: &Account, queue: &str) -> Intents {
    Intents::new(account.queue(queue)).with_lease(LEASE)
}

fn list_index(account: &Account, queue: Option<&str>) -> ListIndex<Employee> {
    let lists = match queue {
        None => Lists::SamePartition,
        Some(queue) => Lists::Table { table: account.table("Lists"), intents: intents(account, queue) },
    };
    ListIndex {
        table: account.table("Listed"),
        lists,
        prefix: "lastname_",
        value: |e| e.last_name.as_deref(),
    }
}

fn managers(account: &Account, queue: &str) -> Denormalized<Department, Employee> {
    Denormalized::new(account.table("Managers"), account.table("Departments"), intents(account, queue))
}

/// Lets a worker run until no intent is left.
async fn settle(account: &Account, queue: &str, settler: impl Settler + Clone) {
    let worker = Worker::new(intents(account, queue), WorkerSettings::default()).serve(settler);
    while account.queue(queue).message_count().await.unwrap() > 0 {
        assert_eq!(worker.drain().await.unwrap().failed, 0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_in_the_partition_change_with_the_entity() {
    let bench = Bench::start();
    let lists = list_index(&bench.faulty, None);
    lists.table.create().await.unwrap();
    bench.faults.go_on();
    let mut one = lists.insert(&employee("Sales", 1, "Jones"), Settle::Wait).await.unwrap();
    assert_eq!(bench.faults.count(), 2);
    lists.insert(&employee("Sales", 2, "Jones"), Settle::Wait).await.unwrap();
    assert_eq!(lists.find("Sales", "Jones").await.unwrap().len(), 2);
    bench.faults.go_on();
    one.last_name = Some("Hall".into());
    lists.save(&mut one, Settle::Wait).await.unwrap();
    assert_eq!(bench.faults.count(), 3);
    let jones: Vec<u32> = lists.find("Sales", "Jones").await.unwrap().iter().map(|e| e.id).collect();
    assert_eq!(jones, [2]);
    assert!(lists.verify(VerifyMode::Report, None).await.unwrap().is_clean());
    // Many writers of one value wait for each other, and none is lost.
    let writers = (10..40).map(|id| {
        let lists = lists.clone();
        tokio::spawn(async move { lists.insert(&employee("Sales", id, "Hall"), Settle::Wait).await.is_ok() })
    });
    let done: Vec<bool> = stream::iter(writers).buffered(4).map(|done| done.unwrap()).collect().await;
    let listed = lists.find("Sales", "Hall").await.unwrap().len();
    assert_eq!(listed, 1 + done.iter().filter(|done| **done).count());
    assert!(listed > 20, "{listed}");
    let report = lists.verify(VerifyMode::Report, None).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    for entity in lists
        .table
        .query::<Employee>(In::partition("Sales").rows_with_prefix("empid_"))
        .collect()
        .await
        .unwrap()
    {
        lists.delete(&entity, Settle::Wait).await.unwrap();
    }
    assert!(lists.table.query::<DynamicEntity>(In::whole_table()).collect().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_holds_thousands_of_keys_in_several_properties() {
    let bench = Bench::start();
    let lists = list_index(&bench.plain, None);
    lists.table.create().await.unwrap();
    let many = (0..4000).map(|id| employee("Sales", id, "Smith"));
    lists.table.bulk_upsert(stream::iter(many), None).await.unwrap();
    let list = (0..4000).map(|id| format!("empid_{id:06}")).collect::<Vec<_>>();
    let texts = list.chunks(1500).map(|rows| serde_json::to_string(rows).unwrap());
    let list =
        texts.enumerate().fold(DynamicEntity::new(("Sales", "lastname_Smith")), |list, (number, text)| {
            list.with(&format!("Keys{number:02}"), text)
        });
    lists.table.insert(&list, None).await.unwrap();
    lists.insert(&employee("Sales", 9999, "Smith"), Settle::Wait).await.unwrap();
    assert_eq!(lists.keys("Sales", "Smith").await.unwrap().len(), 4001);
    assert!(lists.verify(VerifyMode::Report, None).await.unwrap().is_clean());
}

/// An employee whose key is so long that a list of a thousand outgrows an entity.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{id:06}_{tail}")]
struct LongKey {
    department: String,
    id: u32,
    tail: String,
    last_name: String,
}

fn long_key(id: u32) -> LongKey {
    LongKey { department: "Sales".into(), id, tail: "x".repeat(450), last_name: "Smith".into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_outgrows_an_entity_is_split_with_the_write() {
    // As many as an entity holds.
    const FULL: u32 = 15 * 71;
    let bench = Bench::start();
    let lists = ListIndex {
        table: bench.faulty.table("Grown"),
        lists: Lists::SamePartition,
        prefix: "lastname_",
        value: |e: &LongKey| Some(&e.last_name),
    };
    lists.table.create().await.unwrap();
    let all: Vec<LongKey> = (0..FULL).map(|number| long_key(2 * number)).collect();
    lists.table.bulk_insert(stream::iter(all.clone()), None).await.unwrap();
    let rows: Vec<String> = all.iter().map(|one| one.key().unwrap().row).collect();
    let texts = rows.chunks(71).map(|rows| serde_json::to_string(rows).unwrap()).enumerate();
    let list = texts.fold(DynamicEntity::new(("Sales", "lastname_Smith")), |list, (number, text)| {
        list.with(&format!("Keys{number:02}"), text)
    });
    lists.table.insert(&list, None).await.unwrap();
    assert_eq!(lists.keys("Sales", "Smith").await.unwrap().len(), FULL as usize);
    let mut requests = Vec::new();
    for number in [1, 999, 2 * FULL] {
        bench.faults.go_on();
        lists.insert(&long_key(number), Settle::Wait).await.unwrap();
        requests.push(bench.faults.count());
    }
    assert_eq!(requests, [2, 3, 3], "the first one splits the list");
    bench.faults.go_on();
    let keys = lists.keys("Sales", "Smith").await.unwrap();
    assert_eq!((keys.len(), bench.faults.count()), (FULL as usize + 3, 3));
    assert!(keys.is_sorted());
    let report = lists.verify(VerifyMode::Report, None).await.unwrap();
    assert!(report.is_clean() && report.entities == u64::from(FULL) + 3, "{report:?}");
    let gone = lists.table.get::<LongKey>(long_key(999).key().unwrap(), None).await.unwrap().unwrap();
    lists.delete(&gone, Settle::Wait).await.unwrap();
    assert!(lists.verify(VerifyMode::Report, None).await.unwrap().is_clean());
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Insert,
    Change,
    Delete,
}
const WORKS: [Work; 3] = [Work::Insert, Work::Change, Work::Delete];

/// One write of a listed entity, killed at a request, then settled.
async fn list_case(plain: &Account, work: Work, first: u64, second: u64) -> bool {
    let name = format!("l{work:?}-{first}-{second}").to_lowercase();
    let faults = Arc::new(FaultTransport::new(HyperTransport::new()));
    let account = plain.clone().with_transport(faults.clone()).with_retry(quick());
    plain.queue(&name).create().await.unwrap();
    let (killed, whole) = (list_index(&account, Some(&name)), list_index(plain, Some(&name)));
    let key = EntityKey::from((name.as_str(), "empid_000001"));
    if work != Work::Insert {
        let calm = list_index(plain, Some(&name));
        calm.insert(&employee(&name, 1, &format!("Hall-{name}")), Settle::Wait).await.unwrap();
    }
    let run = async {
        if work == Work::Insert {
            return killed
                .insert(&employee(&name, 1, &format!("Hall-{name}")), Settle::Wait)
                .await
                .map(|_| ());
        }
        let mut stored = killed.table.get::<Employee>(&key, None).await?.ok_or(Error::NotFound)?;
        if work == Work::Delete {
            return killed.delete(&stored, Settle::Wait).await;
        }
        stored.last_name = Some(format!("Jones-{name}"));
        killed.save(&mut stored, Settle::Wait).await
    };
    let ended = faults.kill_at(first, run).await;
    if second > 0 {
        tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
        let worker = Worker::new(intents(&account, &name), WorkerSettings::default()).serve(killed.clone());
        faults.kill_at(second, worker.drain()).await;
    }
    settle(plain, &name, whole).await;
    ended.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_in_another_table_are_settled_after_a_kill_at_any_requests() {
    let bench = Bench::start();
    bench.plain.table("Listed").create().await.unwrap();
    bench.plain.table("Lists").create().await.unwrap();
    for work in WORKS {
        let cases = (1..=12).flat_map(|first| [0, 1, 2, 3, 4, 5, 6, 7].map(|second| (first, second)));
        let cases: Vec<_> =
            cases.map(|(first, second)| list_case(&bench.plain, work, first, second)).collect();
        let ended: Vec<bool> = stream::iter(cases).buffered(CONCURRENCY).collect().await;
        assert!(ended.last().is_some_and(|ended| *ended), "the last kill is behind the last request");
    }
    let lists = list_index(&bench.plain, Some("none"));
    let report = lists.verify(VerifyMode::Report, None).await.unwrap();
    assert!(report.is_clean() && report.entities > 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_properties_follow_their_source() {
    let bench = Bench::start();
    let table = bench.faulty.table("Mixed");
    table.create().await.unwrap();
    let department = |name: &str| Department { name: name.into(), manager: None, employee_count: 0 };
    table.insert(&department("Sales"), None).await.unwrap();
    bench.faults.go_on();
    table
        .insert_child(&employee("Sales", 1, "Hall"), ("Sales", "Department"), |d: &mut Department| {
            d.employee_count += 1
        })
        .await
        .unwrap();
    assert_eq!(bench.faults.count(), 2);
    let mut manager = table.get::<Employee>(("Sales", "empid_000001"), None).await.unwrap().unwrap();
    manager.last_name = Some("Jones".into());
    bench.faults.go_on();
    table.save_embedded::<Department, _>(&mut manager).await.unwrap();
    assert_eq!(bench.faults.count(), 2);
    let now = table.get::<Department>(("Sales", "Department"), None).await.unwrap().unwrap();
    assert_eq!((now.manager.as_deref(), now.employee_count), (Some("Jones"), 1));
    manager.last_name = Some("Smith".into());
    table.save_embedded::<Department, _>(&mut manager).await.unwrap();
    let again = table
        .insert_child(&employee("Sales", 1, "Hall"), ("Sales", "Department"), |d: &mut Department| {
            d.employee_count += 1
        })
        .await;
    assert!(matches!(again, Err(Error::Taken { .. })));
}

async fn embed_case(plain: &Account, work: Work, first: u64) -> bool {
    let name = format!("e{work:?}-{first}").to_lowercase();
    let faults = Arc::new(FaultTransport::new(HyperTransport::new()));
    let account = plain.clone().with_transport(faults.clone()).with_retry(quick());
    plain.queue(&name).create().await.unwrap();
    let department = Department { name: name.clone(), manager: None, employee_count: 0 };
    plain.table("Departments").insert(&department, None).await.unwrap();
    let killed = managers(&account, &name);
    let sources: TableClient = account.table("Managers");
    let key = EntityKey::from((name.as_str(), "empid_000001"));
    if work != Work::Insert {
        managers(plain, &name).insert(&employee(&name, 1, "Hall"), Settle::Wait).await.unwrap();
    }
    let run = async {
        if work == Work::Insert {
            return killed.insert(&employee(&name, 1, "Hall"), Settle::Wait).await.map(|_| ());
        }
        let mut stored = sources.get::<Employee>(&key, None).await?.ok_or(Error::NotFound)?;
        if work == Work::Delete {
            return killed.delete(&stored, Settle::Wait).await;
        }
        stored.last_name = Some("Jones".into());
        killed.save(&mut stored, Settle::Wait).await
    };
    let ended = faults.kill_at(first, run).await;
    settle(plain, &name, managers(plain, &name)).await;
    let source = plain.table("Managers").get::<Employee>(&key, None).await.unwrap();
    let holder =
        plain.table("Departments").get::<Department>((name.as_str(), "Department"), None).await.unwrap();
    assert_eq!(holder.unwrap().manager, source.and_then(|source| source.last_name.clone()), "{name}");
    ended.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_elsewhere_are_settled_after_a_kill_at_any_request() {
    let bench = Bench::start();
    bench.plain.table("Managers").create().await.unwrap();
    bench.plain.table("Departments").create().await.unwrap();
    for work in WORKS {
        let cases: Vec<_> = (1..=10).map(|first| embed_case(&bench.plain, work, first)).collect();
        let ended: Vec<bool> = stream::iter(cases).buffered(CONCURRENCY).collect().await;
        assert!(ended.last().is_some_and(|ended| *ended));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_in_one_table_or_both_and_ends_in_the_other() {
    let bench = Bench::start();
    let (from, to) = (bench.plain.table("Current"), bench.plain.table("Archive"));
    from.create().await.unwrap();
    to.create().await.unwrap();
    for first in 1..=9 {
        let queue = format!("move-{first}");
        bench.plain.queue(&queue).create().await.unwrap();
        let row = format!("r{first}");
        from.insert(&DynamicEntity::new(("p", row.clone())).with("A", 1), None).await.unwrap();
        intents(&bench.plain, &queue).move_entity(&from, ("p", row.clone()), &to).await.unwrap();
        let worker = |account: &Account| {
            let worker = Worker::new(intents(account, &queue), WorkerSettings::default());
            worker.with::<MoveEntity>(Arc::new(account.clone()))
        };
        bench.faults.kill_at(first, worker(&bench.faulty).drain()).await;
        let there = async |table: &TableClient| {
            table.get::<DynamicEntity>(("p", row.clone()), None).await.unwrap().is_some()
        };
        assert!(there(&from).await || there(&to).await, "never in neither");
        while bench.plain.queue(&queue).message_count().await.unwrap() > 0 {
            worker(&bench.plain).drain().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(!there(&from).await && there(&to).await);
    }
}

/// Fails as often as it is told to, then writes a line once.
#[derive(Serialize, Deserialize)]
struct Flaky {
    fails: u32,
    name: String,
}

impl EventualTransaction for Flaky {
    const KIND: &'static str = "flaky";
    type Context = TableClient;
    fn run<'a>(&'a self, table: &'a TableClient, attempt: &'a Attempt<'a>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let line = DynamicEntity::new(("ledger", self.name.clone()))
                .with("Delivery", i64::from(attempt.count()));
            table.insert_once(&line, attempt).await?;
            if attempt.count() <= self.fails {
                return Err(Error::Step("on purpose".into()));
            }
            Ok(())
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_comes_back_and_what_fails_too_often_is_put_aside() {
    let bench = Bench::start();
    let table = bench.plain.table("Ledger");
    table.create().await.unwrap();
    let intents = intents(&bench.plain, "flaky");
    intents.create().await.unwrap();
    intents.submit(&Flaky { fails: 2, name: "recovers".into() }).await.unwrap();
    intents.submit(&Flaky { fails: 99, name: "never".into() }).await.unwrap();
    intents.queue().put("not an intent", None).await.unwrap();
    intents.queue().put(r#"{"kind":"of a newer build","body":null}"#, None).await.unwrap();
    let settings = WorkerSettings {
        deliveries_max: 3,
        back_off: Duration::from_millis(1),
        poll: Duration::from_millis(10),
        poll_max: Duration::from_millis(200),
        ..WorkerSettings::default()
    };
    let worker = Worker::new(intents.clone(), settings).with::<Flaky>(Arc::new(table.clone()));
    let stop = async {
        while intents.poison().message_count().await.unwrap() < 2
            || intents.queue().message_count().await.unwrap() > 1
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let worked = worker.run(stop).await.unwrap();
    assert_eq!((worked.done, worked.poisoned), (1, 2), "{worked:?}");
    let poison: Vec<String> =
        intents.poison().peek(10).await.unwrap().into_iter().map(|one| one.text).collect();
    assert!(poison.iter().any(|text| text.contains("on purpose") && text.contains("never")), "{poison:?}");
    assert!(poison.iter().any(|text| text.contains("not an intent")));
    let lines = table.query::<DynamicEntity>(In::partition("ledger")).collect().await.unwrap();
    let lines = lines.iter().filter(|line| !line.key.row.starts_with('~'));
    let lines: Vec<_> =
        lines.map(|line| (line.key.row.as_str(), line.get("Delivery").unwrap().as_i64())).collect();
    assert_eq!(lines, [("never", Some(1)), ("recovers", Some(1))], "written once, by the first delivery");
    let hour = Duration::from_secs(3600);
    assert_eq!(table.remove_once_markers(In::whole_table(), hour, None).await.unwrap().written, 0);
    let removed = table.remove_once_markers(In::whole_table(), Duration::ZERO, None).await.unwrap();
    assert_eq!(removed.written, 2, "a marker for each attempt");
    assert_eq!(table.query::<DynamicEntity>(In::whole_table()).collect().await.unwrap().len(), 2);
    // The unknown kind was left alone.
    assert_eq!(intents.queue().message_count().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_rewritten_and_lost() {
    let bench = Bench::start();
    let queue = bench.plain.queue("leases");
    queue.create().await.unwrap();
    queue.put("one", None).await.unwrap();
    let held = queue.get(1, Some(Duration::from_secs(60))).await.unwrap().remove(0);
    assert!(queue.get(1, None).await.unwrap().is_empty());
    held.rewrite("two", Duration::from_secs(60)).await.unwrap();
    held.renew(Duration::ZERO).await.unwrap();
    assert!(matches!(held.still_mine(), Err(Error::LeaseLost)));
    let other = queue.get(1, None).await.unwrap().remove(0);
    assert_eq!((other.text().as_str(), other.dequeue_count(), other.id()), ("two", 2, held.id()));
    assert!(matches!(held.delete().await, Err(Error::LeaseLost)));
    assert!(matches!(held.renew(Duration::from_secs(9)).await, Err(Error::LeaseLost)));
    other.still_mine().unwrap();
    other.delete().await.unwrap();
    assert_eq!(queue.message_count().await.unwrap(), 0);
    assert!(bench.plain.queues(Some("lea")).await.unwrap().contains(&"leases".to_owned()));
}
