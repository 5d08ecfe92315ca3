//! *durable*: `Ok` means the changes survive a crash.

use super::{Client, Harness, Reopen};
use crate::{ScanRange, SpaceId};

pub(super) async fn check(harness: &dyn Harness) {
    for how in [Reopen::Closed, Reopen::Crashed] {
        rows_and_deletes_survive(harness, how).await;
        spaces_survive(harness, how).await;
        spaces_made_after_drops_survive(harness, how).await;
    }
    writes_under_way_survive_once_acknowledged(harness).await;
    the_catalog_is_there_from_the_start(harness).await;
}

async fn rows_and_deletes_survive(harness: &dyn Harness, how: Reopen) {
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    for number in 0..50u8 {
        client.put(space, &[number % 5], &[number], &[number; 100]).await;
    }
    for number in (0..50u8).step_by(3) {
        client.delete(space, &[number % 5], &[number]).await;
    }
    let before = client.scan(space, &ScanRange::all()).await;
    drop(client);
    for _ in 0..2 {
        harness.reopen(how).await;
        assert_eq!(Client::of(harness).scan(space, &ScanRange::all()).await, before);
    }
}

async fn spaces_survive(harness: &dyn Harness, how: Reopen) {
    let client = Client::of(harness);
    let (kept, dropped) = (client.fresh_space().await, client.fresh_space().await);
    client.put(dropped, b"p", b"r", b"gone").await;
    client.drop_space(dropped).await;
    drop(client);
    harness.reopen(how).await;
    let client = Client::of(harness);
    assert!(client.has_space(kept).await);
    assert!(!client.has_space(dropped).await);
    assert_eq!(client.scan(kept, &ScanRange::all()).await, Ok(vec![]));
}

/// A store that numbers its spaces must not let the drop of one take another that got its number.
async fn spaces_made_after_drops_survive(harness: &dyn Harness, how: Reopen) {
    let mut made = Vec::new();
    for _ in 0..3 {
        let client = Client::of(harness);
        for _ in 0..3 {
            let dropped = client.fresh_space().await;
            client.drop_space(dropped).await;
        }
        drop(client);
        harness.reopen(how).await;
        let client = Client::of(harness);
        let space = client.fresh_space().await;
        client.put(space, b"p", b"r", b"body").await;
        made.push(space);
        drop(client);
        harness.reopen(how).await;
        for space in &made {
            let body = Client::of(harness).body(*space, b"p", b"r").await;
            assert_eq!(body.as_deref(), Some(&b"body"[..]));
        }
    }
}

async fn writes_under_way_survive_once_acknowledged(harness: &dyn Harness) {
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    let tasks: Vec<_> = (0..32u8)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                for round in 0..10u8 {
                    client.put(space, &[task % 4], &[task, round], &[task, round]).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the task finishes");
    }
    drop(client);
    harness.reopen(Reopen::Crashed).await;
    let rows = Client::of(harness).scan(space, &ScanRange::all()).await.expect("the space exists");
    assert_eq!(rows.len(), 320);
    assert!(rows.iter().all(|row| row.row == row.body[..]));
}

async fn the_catalog_is_there_from_the_start(harness: &dyn Harness) {
    let client = Client::of(harness);
    assert!(client.has_space(SpaceId::CATALOG).await);
    client.put(SpaceId::CATALOG, b"conformance", b"row", b"body").await;
    assert_eq!(client.body(SpaceId::CATALOG, b"conformance", b"row").await.as_deref(), Some(&b"body"[..]));
}
