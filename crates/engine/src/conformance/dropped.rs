//! *dropped is gone*: no row of a dropped space is ever seen again, and no write to it succeeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::client::{Missing, fresh_id};
use super::{Client, Harness, Reopen};
use crate::{Change, Decision, ScanRange, SpaceId};

pub(super) async fn check(harness: &dyn Harness) {
    let client = Client::of(harness);
    a_space_that_was_never_made_is_missing(&client, fresh_id()).await;
    a_dropped_space_is_missing(&client).await;
    making_a_space_twice_keeps_its_rows(&client).await;
    a_space_made_again_is_empty(&client).await;
    no_write_succeeds_after_the_drop(&client).await;
    drop(client);
    a_space_made_again_is_empty_after_a_crash(harness).await;
}

async fn a_space_that_was_never_made_is_missing(client: &Client, space: SpaceId) {
    assert!(!client.has_space(space).await);
    assert_eq!(client.get(space, b"p", b"r").await, Err(Missing));
    assert_eq!(client.scan(space, &ScanRange::all()).await, Err(Missing));
    let outcome = client.transact(space, b"p", &[b"r"], &mut |_, _| Decision::Refuse).await;
    assert_eq!(outcome, Err(Missing));
}

async fn a_dropped_space_is_missing(client: &Client) {
    let space = client.fresh_space().await;
    client.put(space, b"p", b"r", b"body").await;
    client.drop_space(space).await;
    a_space_that_was_never_made_is_missing(client, space).await;
    client.drop_space(space).await;
}

async fn making_a_space_twice_keeps_its_rows(client: &Client) {
    let space = client.fresh_space().await;
    client.put(space, b"p", b"r", b"body").await;
    client.create_space(space).await;
    assert_eq!(client.body(space, b"p", b"r").await.as_deref(), Some(&b"body"[..]));
}

async fn a_space_made_again_is_empty(client: &Client) {
    let space = client.fresh_space().await;
    client.put(space, b"p", b"r", b"old").await;
    client.drop_space(space).await;
    client.create_space(space).await;
    assert_eq!(client.scan(space, &ScanRange::all()).await, Ok(vec![]));
    client.put(space, b"p", b"s", b"new").await;
    assert_eq!(client.body(space, b"p", b"r").await, None);
}

async fn a_space_made_again_is_empty_after_a_crash(harness: &dyn Harness) {
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    client.put(space, b"p", b"r", b"old").await;
    client.drop_space(space).await;
    client.create_space(space).await;
    client.put(space, b"p", b"s", b"new").await;
    drop(client);
    harness.reopen(Reopen::Crashed).await;
    let client = Client::of(harness);
    assert_eq!(client.body(space, b"p", b"r").await, None);
    assert_eq!(client.body(space, b"p", b"s").await.as_deref(), Some(&b"new"[..]));
}

async fn no_write_succeeds_after_the_drop(client: &Client) {
    for _ in 0..5 {
        let space = client.fresh_space().await;
        let is_dropped = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..8u8)
            .map(|task| {
                let (client, is_dropped) = (client.clone(), is_dropped.clone());
                tokio::spawn(async move {
                    loop {
                        let was_dropped = is_dropped.load(Ordering::SeqCst);
                        let mut decide = |_, _: &[_]| {
                            Decision::Apply(vec![Change::Put { index: 0, body: bytes::Bytes::from("body") }])
                        };
                        let outcome = client.transact(space, &[task], &[b"r"], &mut decide).await;
                        assert!(!(was_dropped && outcome.is_ok()), "a write succeeded after the drop");
                        if outcome.is_err() {
                            return;
                        }
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        client.drop_space(space).await;
        is_dropped.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.expect("the task finishes");
        }
        assert_eq!(client.scan(space, &ScanRange::all()).await, Err(Missing));
    }
}
