//! Many writers, faults, and workers that are killed, all at once; then both sides of every index are compared.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tavola_client::index::{IndexedTable, VerifyMode};
use tavola_client::testing::{Fault, FaultTransport};
use tavola_client::{Account, HyperTransport};

use crate::employees::{Employee, badges_are_unique, change, table, worker};
use crate::support::{Bench, quick};

const WRITERS: u64 = 8;
const WRITES: u32 = 25;

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
        let told = change(&table, &mut chance, 12, 10).await;
        assert!(told.is_ok(), "{told:?}");
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
    let report = table(&bench.plain).verify(VerifyMode::Report, None).await.unwrap();
    assert!(report.is_clean() && report.entities > 0, "{report:?}");
}
