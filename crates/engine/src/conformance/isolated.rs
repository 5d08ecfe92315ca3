//! *isolated*: `transact`s on one partition happen one after the other, reads see their results as soon as they
//! are acknowledged, and what a scan gives of one partition is one snapshot of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::client::{number, put_number};
use super::{Client, Harness};
use crate::{Decision, ScanRange, SpaceId, StoredRow};

const TASKS: u64 = 16;
const ROUNDS: u64 = 40;

pub(super) async fn check(harness: &dyn Harness) {
    let client = Client::of(harness);
    no_increment_of_a_shared_counter_is_lost(&client).await;
    partitions_do_not_disturb_each_other(&client).await;
    a_write_is_seen_as_soon_as_it_is_acknowledged(&client).await;
    a_scan_of_a_partition_is_one_snapshot(&client).await;
    reads_never_go_back_in_time(&client).await;
}

/// Adds one to the counter of a partition, and signs with a row that only this task writes.
async fn increment(client: &Client, space: SpaceId, partition: &[u8], task: u64) -> u64 {
    let mut incremented = 0;
    let mut decide = |_, found: &[Option<StoredRow>]| {
        incremented = number(found[0].as_ref()) + 1;
        Decision::Apply(vec![put_number(0, incremented), put_number(1, incremented)])
    };
    let rows: [&[u8]; 2] = [b"counter", &task.to_be_bytes()];
    client.transact(space, partition, &rows, &mut decide).await.expect("the space exists");
    incremented
}

async fn counter(client: &Client, space: SpaceId, partition: &[u8]) -> u64 {
    number(client.get(space, partition, b"counter").await.expect("the space exists").as_ref())
}

async fn no_increment_of_a_shared_counter_is_lost(client: &Client) {
    let space = client.fresh_space().await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                for _ in 0..ROUNDS {
                    seen.push(increment(&client, space, b"shared", task).await);
                }
                assert!(seen.is_sorted());
                seen
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("the task finishes"));
    }
    all.sort();
    assert!(all.iter().copied().eq(1..=TASKS * ROUNDS), "an increment was lost or seen twice");
    assert_eq!(counter(client, space, b"shared").await, TASKS * ROUNDS);
}

async fn partitions_do_not_disturb_each_other(client: &Client) {
    let space = client.fresh_space().await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                for round in 1..=ROUNDS {
                    assert_eq!(increment(&client, space, &task.to_be_bytes(), task).await, round);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the task finishes");
    }
    let rows = client.scan(space, &ScanRange::all()).await.expect("the space exists");
    assert_eq!(rows.len() as u64, 2 * TASKS);
    assert!(rows.iter().all(|row| row.body[..] == ROUNDS.to_be_bytes()));
}

async fn a_write_is_seen_as_soon_as_it_is_acknowledged(client: &Client) {
    let space = client.fresh_space().await;
    for _ in 0..ROUNDS {
        let incremented = increment(client, space, b"p", 0).await;
        assert_eq!(counter(client, space, b"p").await, incremented);
        let rows = client.scan(space, &ScanRange::partition(b"p")).await.expect("the space exists");
        assert!(rows.iter().all(|row| row.body[..] == incremented.to_be_bytes()));
    }
}

/// Two accounts whose sum never changes.
async fn a_scan_of_a_partition_is_one_snapshot(client: &Client) {
    const SUM: u64 = 1000;
    let space = client.fresh_space().await;
    let mut fill = |_, _: &[_]| Decision::Apply(vec![put_number(0, SUM), put_number(1, 0)]);
    client.transact(space, b"p", &[b"a", b"b"], &mut fill).await.expect("the space exists");
    let writers = run_until_done(client, move |client| async move {
        let mut transfer = |_, found: &[Option<StoredRow>]| {
            let (a, b) = (number(found[0].as_ref()), number(found[1].as_ref()));
            let moved = (a / 2).max(1).min(a);
            Decision::Apply(if a > 0 {
                vec![put_number(0, a - moved), put_number(1, b + moved)]
            } else {
                vec![put_number(0, b), put_number(1, 0)]
            })
        };
        client.transact(space, b"p", &[b"a", b"b"], &mut transfer).await.expect("the space exists");
    });
    for _ in 0..200 {
        let rows = client.scan(space, &ScanRange::partition(b"p")).await.expect("the space exists");
        let amounts =
            rows.iter().map(|row| u64::from_be_bytes(row.body[..].try_into().expect("eight bytes")));
        assert_eq!(amounts.sum::<u64>(), SUM);
        tokio::task::yield_now().await;
    }
    writers.stop().await;
}

/// Every write sets both rows to the same higher number, so a later read of either cannot give a lower one.
async fn reads_never_go_back_in_time(client: &Client) {
    let space = client.fresh_space().await;
    let writers = run_until_done(client, move |client| async move {
        let mut raise = |_, found: &[Option<StoredRow>]| {
            let next = number(found[0].as_ref()) + 1;
            Decision::Apply(vec![put_number(0, next), put_number(1, next)])
        };
        client.transact(space, b"p", &[b"a", b"b"], &mut raise).await.expect("the space exists");
    });
    let mut last = 0;
    for turn in 0..1000 {
        let row = if turn % 2 == 0 { b"a" } else { b"b" };
        let seen = number(client.get(space, b"p", row).await.expect("the space exists").as_ref());
        assert!(seen >= last, "read {seen} after {last}");
        last = seen;
        if turn % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    writers.stop().await;
}

struct Writers {
    done: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    async fn stop(self) {
        self.done.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("the task finishes");
        }
    }
}

/// Repeats some work in a few tasks until told to stop.
fn run_until_done<F>(client: &Client, work: impl Fn(Client) -> F + Clone + Send + 'static) -> Writers
where
    F: Future<Output = ()> + Send,
{
    let done = Arc::new(AtomicBool::new(false));
    let tasks = (0..4)
        .map(|_| {
            let (client, work, done) = (client.clone(), work.clone(), done.clone());
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    work(client.clone()).await;
                    // An engine in memory never waits; the reader needs a turn too.
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    Writers { done, tasks }
}
