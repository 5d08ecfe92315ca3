//! *tick*: versions are unique and strictly increase within a partition, across restarts and clocks that step
//! back.

use tavola_model::DateTime;

use super::{Client, Harness, Reopen};
use crate::SpaceId;

const SECOND: i64 = 10_000_000;

pub(super) async fn check(harness: &dyn Harness) {
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    drop(client);
    let mut last = put(harness, space, b"p").await;
    // The clock stands still, then moves on, then steps back, each time also over a restart.
    for step in [0, SECOND, -10 * SECOND, 3 * SECOND] {
        harness.clock().step(step);
        for how in [None, Some(Reopen::Closed), Some(Reopen::Crashed)] {
            if let Some(how) = how {
                harness.reopen(how).await;
            }
            let tick = put(harness, space, b"p").await;
            assert!(tick > last, "{tick} is not after {last} (step={step}, reopen={how:?})");
            last = tick;
        }
    }
    harness.clock().step(100 * SECOND);
    a_tick_is_the_time_when_the_clock_is_ahead(harness, space).await;
    a_deleted_row_leaves_its_tick_behind(harness, space).await;
    concurrent_ticks_are_unique(harness, space).await;
}

async fn put(harness: &dyn Harness, space: SpaceId, partition: &[u8]) -> DateTime {
    let client = Client::of(harness);
    let tick = client.put(space, partition, b"r", b"body").await;
    let stored = client.get(space, partition, b"r").await.expect("the space exists");
    assert_eq!(stored.map(|row| row.version), Some(tick));
    tick
}

async fn a_tick_is_the_time_when_the_clock_is_ahead(harness: &dyn Harness, space: SpaceId) {
    use tavola_model::Clock;
    let now = harness.clock().now();
    let tick = put(harness, space, b"p").await;
    // A call that was tried again has used up a few.
    assert!(tick >= now && tick.seconds_between(now) == 0, "{tick} is not {now}");
}

async fn a_deleted_row_leaves_its_tick_behind(harness: &dyn Harness, space: SpaceId) {
    let before = put(harness, space, b"p").await;
    Client::of(harness).delete(space, b"p", b"r").await;
    harness.clock().step(-1000 * SECOND);
    harness.reopen(Reopen::Crashed).await;
    assert!(put(harness, space, b"p").await > before);
    harness.clock().step(1000 * SECOND);
}

async fn concurrent_ticks_are_unique(harness: &dyn Harness, space: SpaceId) {
    let client = Client::of(harness);
    let tasks: Vec<_> = (0..16u8)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut ticks = Vec::new();
                for _ in 0..20 {
                    ticks.push(client.put(space, b"shared", &[task], b"body").await);
                }
                assert!(ticks.is_sorted());
                ticks
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("the task finishes"));
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "a tick was given twice");
}
