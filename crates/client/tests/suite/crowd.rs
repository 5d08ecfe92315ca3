//! Many writers, faults, and workers that are killed, all at once; then both sides of every index are compared.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tavola_client::eventual::{Intents, Settle, Worker, WorkerSettings};
use tavola_client::index::{IndexedTable, Mend};
use tavola_client::testing::{Fault, FaultTransport};
use tavola_client::{Account, Entity, Error, HyperTransport, In};

use crate::support::{Bench, quick};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "Crowd", row = "empid_{id:06}", rename_all = "PascalCase", entity_type = "Employee")]
#[entity(index(by_badge, unique, table = "CrowdByBadge", partition = "{badge}", row = "badge"))]
#[entity(index(by_last_name, partition = "name_{last_name}", row = "{id:06}"))]
struct Employee {
    id: u32,
    last_name: String,
    badge: Option<String>,
}

const LEASE: Duration = Duration::from_secs(3);
const WRITERS: u64 = 8;
const WRITES: u32 = 25;

fn table(account: &Account) -> IndexedTable<Employee> {
    IndexedTable::with_intents(account.table("Crowd"), Intents::new(account.queue("crowd")).with_lease(LEASE))
}

fn worker(account: &Account) -> Worker {
    let settings = WorkerSettings { deliveries_max: u32::MAX, ..WorkerSettings::default() };
    Worker::new(Intents::new(account.queue("crowd")).with_lease(LEASE), settings).serve(table(account))
}

/// An account whose requests fail now and then, in every way but arriving after all is over.
fn faulty(plain: &Account, seed: u64) -> (Account, Arc<FaultTransport<HyperTransport>>) {
    let chance = Mutex::new(fastrand::Rng::with_seed(seed));
    let faults = [Fault::NotSent, Fault::LoseRequest, Fault::LoseAnswer, Fault::Duplicate, Fault::Busy];
    let plan = move |_: u64, _: &http::Request<bytes::Bytes>| {
        let mut chance = chance.lock().unwrap();
        if chance.u8(..8) == 0 { chance.choice(faults).unwrap() } else { Fault::None }
    };
    let transport = Arc::new(FaultTransport::new(HyperTransport::new()).with_plan(Box::new(plan)));
    (plain.clone().with_transport(transport.clone()).with_retry(quick()), transport)
}

async fn write(table: IndexedTable<Employee>, seed: u64) {
    let mut chance = fastrand::Rng::with_seed(seed);
    for _ in 0..WRITES {
        let id = chance.u32(..12);
        let badge = (chance.u8(..5) > 0).then(|| format!("badge{}", chance.u8(..10)));
        let last_name = format!("name{}", chance.u8(..5));
        let settle = if chance.bool() { Settle::Wait } else { Settle::Behind };
        let Ok(stored) = table.get(("Crowd", format!("empid_{id:06}"))).await else { continue };
        let told = match stored {
            None => table.insert(&Employee { id, last_name, badge }, settle).await.map(|_| ()),
            Some(stored) if chance.u8(..4) == 0 => table.delete(&stored, settle).await,
            Some(mut stored) => {
                (stored.last_name, stored.badge) = (last_name, badge);
                table.save(&mut stored, settle).await
            }
        };
        // What a crowd does to each other; anything else is a bug.
        let expected = matches!(
            told,
            Ok(())
                | Err(Error::Changed
                    | Error::Taken { .. }
                    | Error::NotFound
                    | Error::LeaseLost
                    | Error::OutcomeUnknown { .. })
        );
        assert!(expected, "{told:?}");
    }
}

/// No two entities have one badge. A page is not one moment, so what it shows is looked at again.
async fn badges_are_unique(table: &IndexedTable<Employee>) {
    let all = table.table().query::<Employee>(In::partition("Crowd")).collect().await.unwrap();
    for (place, one) in all.iter().enumerate() {
        for other in all[..place].iter().filter(|other| other.badge.is_some() && other.badge == one.badge) {
            let read = async |id: u32| table.get(("Crowd", format!("empid_{id:06}"))).await.unwrap();
            let before = read(one.id).await;
            let between = read(other.id).await;
            let after = read(one.id).await;
            if let (Some(before), Some(between), Some(after)) = (before, between, after) {
                let is_so =
                    before.etag == after.etag && before.badge.is_some() && before.badge == between.badge;
                assert!(!is_so, "{:?} {:?}", before.value, between.value);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_writers_and_killed_workers_leaves_nothing_wrong() {
    let bench = Bench::start();
    table(&bench.plain).create().await.unwrap();
    bench.plain.queue("crowd").create().await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let writers =
        (0..WRITERS).map(|seed| tokio::spawn(write(table(&faulty(&bench.plain, seed).0), 100 + seed)));
    let writers: Vec<_> = writers.collect();
    let killed = (0..2).map(|seed| {
        let (account, faults) = faulty(&bench.plain, 50 + seed);
        let over = over.clone();
        tokio::spawn(async move {
            let mut chance = fastrand::Rng::with_seed(seed);
            while !over.load(Ordering::SeqCst) {
                // A worker that dies after some requests, again and again.
                let _ = faults.kill_at(chance.u64(1..20), worker(&account).drain()).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    });
    let killed: Vec<_> = killed.collect();
    let sampler = {
        let (table, over) = (table(&bench.plain), over.clone());
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                badges_are_unique(&table).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    };
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    for one in join_all(killed).await {
        one.unwrap();
    }
    sampler.await.unwrap();
    while bench.plain.queue("crowd").message_count().await.unwrap() > 0 {
        worker(&bench.plain).drain().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let report = table(&bench.plain).verify(Mend::Tell, None).await.unwrap();
    assert!(report.is_clean() && report.entities > 0, "{report:?}");
}
