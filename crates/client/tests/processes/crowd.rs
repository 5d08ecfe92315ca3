//! Eight processes that write, two that work and are killed again and again; uniqueness is sampled all the time.
//!
//! In the test each writer makes a number of changes. `TAVOLA_CROWD_SECONDS=60` lets them write for a minute, and then
//! every second a writer is killed too and another takes its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tavola_client::index::VerifyMode;
use tavola_client::{Account, Result};
use tavola_testkit::TestServer;

use crate::employees::{badges_are_unique, change, intents, table, worker};
use crate::process::{Ended, Fixture, Moment, Order, Part, Stop};

const WRITERS: u64 = 8;
const WORKERS: u64 = 2;
/// Changes of each writer where no time is told.
const CHANGES: u32 = 20;
const PEOPLE: u32 = 40;
const BADGES: u32 = 25;

/// What a worker's process does.
pub async fn work(fixture: &Fixture) -> Result<()> {
    worker(&fixture.account).drain().await.map(|_| ())
}

/// What a writer's process does.
pub async fn write(fixture: &Fixture, seed: u64, seconds: u64) -> Result<()> {
    let (table, ends) = (table(&fixture.account), Instant::now() + Duration::from_secs(seconds));
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut changes = 0;
    while if seconds == 0 { changes < CHANGES } else { Instant::now() < ends } {
        changes += 1;
        change(&table, &mut chance, PEOPLE, BADGES).await?;
    }
    Ok(())
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
        fixture: "crowd".to_owned(),
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
    let report = table(&account).verify(VerifyMode::Report, None).await.unwrap();
    let (kills, samples) = (kills.load(Ordering::SeqCst), samples.load(Ordering::SeqCst));
    println!("{kills} kills, {samples} samples, {report:?}");
    assert!(report.is_clean() && report.entities > 0, "{report:?}");
    assert!(kills > 0 && samples > 0, "{kills} kills, {samples} samples");
}
