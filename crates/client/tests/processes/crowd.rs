//! Eight processes that write, two that work and are killed again and again; uniqueness is sampled all the time.
//!
//! In the test each writer makes a number of changes. `TAVOLA_CROWD_SECONDS=60` lets them write for a minute, and then
//! every second a writer is killed too and another takes its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tavola_client::eventual::{Intents, Settle, Worker, WorkerSettings};
use tavola_client::index::{IndexedTable, Mend};
use tavola_client::{Account, Entity, Error, In, Result};
use tavola_testkit::TestServer;

use crate::process::{Ended, Moment, Order, Part, Place, Stop};

const LEASE: Duration = Duration::from_secs(3);
const WRITERS: u64 = 8;
const WORKERS: u64 = 2;
/// Changes of each writer where no time is told.
const CHANGES: u32 = 20;
const PEOPLE: u32 = 40;
const BADGES: u32 = 25;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "Crowd", row = "empid_{id:06}", entity_type = "Employee")]
#[entity(index(by_badge, unique, table = "CrowdByBadge", partition = "{badge}", row = "badge"))]
#[entity(index(by_last_name, partition = "name_{last_name}", row = "{id:06}"))]
struct Employee {
    id: u32,
    last_name: String,
    badge: Option<String>,
}

fn intents(account: &Account) -> Intents {
    Intents::new(account.queue("crowd")).with_lease(LEASE)
}

fn table(account: &Account) -> IndexedTable<Employee> {
    IndexedTable::with_intents(account.table("Crowd"), intents(account))
}

fn worker(account: &Account) -> Worker {
    // A worker that is killed has been given the intent too.
    let settings = WorkerSettings { deliveries_max: u32::MAX, ..WorkerSettings::default() };
    Worker::new(intents(account), settings).serve(table(account))
}

/// What a worker's process does.
pub async fn work(place: &Place) -> Result<()> {
    worker(&place.account).drain().await.map(|_| ())
}

/// What a writer's process does.
pub async fn write(place: &Place, seed: u64, seconds: u64) -> Result<()> {
    let (table, ends) = (table(&place.account), Instant::now() + Duration::from_secs(seconds));
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut changes = 0;
    while if seconds == 0 { changes < CHANGES } else { Instant::now() < ends } {
        changes += 1;
        let id = chance.u32(..PEOPLE);
        let badge = (chance.u8(..5) > 0).then(|| format!("badge{}", chance.u32(..BADGES)));
        let last_name = format!("name{}", chance.u8(..5));
        let settle = chance.choice([Settle::Wait, Settle::Behind, Settle::Worker]).unwrap_or_default();
        let stored = table.get(("Crowd", format!("empid_{id:06}"))).await?;
        let told = match stored {
            None => table.insert(&Employee { id, last_name, badge }, settle).await.map(|_| ()),
            Some(stored) if chance.u8(..4) == 0 => table.delete(&stored, settle).await,
            Some(mut stored) => {
                (stored.last_name, stored.badge) = (last_name, badge);
                table.save(&mut stored, settle).await
            }
        };
        match told {
            // What a crowd does to each other; anything else is a bug.
            Ok(())
            | Err(
                Error::Changed
                | Error::Taken { .. }
                | Error::NotFound
                | Error::LeaseLost
                | Error::OutcomeUnknown { .. },
            ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
async fn eight_processes_and_killed_workers_leave_nothing_wrong() {
    let server = TestServer::start().unwrap();
    let account = Account::from_connection_string(&server.connection_string()).unwrap();
    table(&account).create().await.unwrap();
    intents(&account).create().await.unwrap();
    let seconds: u64 =
        std::env::var("TAVOLA_CROWD_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let connection = server.connection_string();
    let order = move |part, stop| Order {
        connection: connection.clone(),
        case: "crowd".to_owned(),
        part,
        place: "crowd".to_owned(),
        stop,
    };
    let (over, kills, samples) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let workers = (0..WORKERS).map(|seed| {
        let (order, over, kills) = (order.clone(), over.clone(), kills.clone());
        tokio::spawn(async move {
            let mut chance = fastrand::Rng::with_seed(seed);
            while !over.load(Ordering::SeqCst) {
                let moment = if chance.bool() { Moment::Before } else { Moment::During };
                let stop = Stop { at: chance.u64(1..20), moment };
                let ended = order(Part::Work, Some(stop)).run().await;
                kills.fetch_add(u64::from(ended == Ended::Killed), Ordering::SeqCst);
            }
        })
    });
    let sampler = {
        let (table, over, samples) = (table(&account), over.clone(), samples.clone());
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                badges_are_unique(&table).await;
                samples.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    };
    let started = Instant::now();
    let writers = (0..WRITERS).map(|seed| {
        let (order, kills) = (order.clone(), kills.clone());
        tokio::spawn(async move {
            let mut chance = fastrand::Rng::with_seed(seed);
            loop {
                let left = seconds.saturating_sub(started.elapsed().as_secs());
                // Most writers are killed too, in a long run.
                let stop = Stop { at: chance.u64(100..2000), moment: Moment::During };
                let stop = (seconds > 0).then_some(stop);
                let ended = order(Part::Write { seed: chance.u64(..), seconds: left }, stop).run().await;
                kills.fetch_add(u64::from(ended == Ended::Killed), Ordering::SeqCst);
                if ended != Ended::Killed || started.elapsed().as_secs() >= seconds {
                    return;
                }
            }
        })
    });
    let (writers, workers): (Vec<_>, Vec<_>) = (writers.collect(), workers.collect());
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    for worker in join_all(workers).await {
        worker.unwrap();
    }
    sampler.await.unwrap();
    while account.queue("crowd").message_count().await.unwrap() > 0 {
        worker(&account).drain().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let report = table(&account).verify(Mend::Tell, None).await.unwrap();
    let (kills, samples) = (kills.load(Ordering::SeqCst), samples.load(Ordering::SeqCst));
    println!("{kills} kills, {samples} samples, {report:?}");
    assert!(report.is_clean() && report.entities > 0, "{report:?}");
    assert!(kills > 0 && samples > 0, "{kills} kills, {samples} samples");
}
