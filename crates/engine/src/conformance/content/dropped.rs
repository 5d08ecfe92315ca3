//! *dropped*: to drop twice is to drop once, reads under way end well or with an error, and disk space comes back.

use super::ContentHarness;
use super::client::{ContentClient, ContentMissing, SeededBytes, drain, fresh_owner, space_comes_back};
use crate::PIECE_BYTES_MAX;

const PIECE: u64 = PIECE_BYTES_MAX as u64;

pub(super) async fn check(harness: &dyn ContentHarness) {
    let client = ContentClient::of(harness);
    to_drop_twice_is_to_drop_once(&client).await;
    a_read_under_way_ends_well_or_with_an_error(&client).await;
    a_dropped_space_has_no_contents(&client).await;
    readers_and_droppers_do_not_meet(&client).await;
    space_of_the_dropped_comes_back(harness, &client).await;
}

async fn to_drop_twice_is_to_drop_once(client: &ContentClient) {
    let owner = fresh_owner();
    let pattern = SeededBytes { seed: 1, length: 70_000 };
    let [kept, dropped] = [client.put(&owner, pattern).await, client.put(&owner, pattern).await];
    for _ in 0..3 {
        client.drop(owner.space, &[dropped.id, dropped.id]).await;
        assert_eq!(client.read(owner.space, &dropped, 0..1).await, Err(ContentMissing));
    }
    client.check_bytes(owner.space, &kept, pattern).await;
}

async fn a_read_under_way_ends_well_or_with_an_error(client: &ContentClient) {
    let owner = fresh_owner();
    let pattern = SeededBytes { seed: 2, length: 9 * PIECE };
    let content = client.put(&owner, pattern).await;
    let mut source = loop {
        match client.contents.read(owner.space, &content, 0..content.length).await {
            Ok(source) => break source,
            Err(error) => super::client::bear(error).await,
        }
    };
    let first = source.next().await;
    client.drop(owner.space, &[content.id]).await;
    if let Ok(Some(first)) = first
        && let Ok(rest) = drain(source.as_mut()).await
    {
        assert!([&first[..], &rest].concat() == pattern.bytes(), "a read gave other bytes");
    }
    drop(source);
    assert_eq!(client.read(owner.space, &content, 0..1).await, Err(ContentMissing));
}

async fn a_dropped_space_has_no_contents(client: &ContentClient) {
    let (owner, other) = (fresh_owner(), fresh_owner());
    let pattern = SeededBytes { seed: 3, length: 5000 };
    let mut dropped = Vec::new();
    for _ in 0..30 {
        dropped.push(client.put(&owner, pattern).await);
    }
    let kept = client.put(&other, pattern).await;
    client.drop_space(owner.space).await;
    client.drop_space(owner.space).await;
    assert_eq!(client.found(owner.space, 10).await, []);
    for content in &dropped {
        assert_eq!(client.read(owner.space, content, 0..1).await, Err(ContentMissing));
    }
    client.check_bytes(other.space, &kept, pattern).await;
}

async fn readers_and_droppers_do_not_meet(client: &ContentClient) {
    let owner = fresh_owner();
    for round in 0..20 {
        let pattern = SeededBytes { seed: round, length: 2 * PIECE + round };
        let content = client.put(&owner, pattern).await;
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let (client, space) = (client.clone(), owner.space);
                tokio::spawn(async move {
                    // Reads until it is gone; whatever is read is right.
                    while let Ok(bytes) = client.read(space, &content, 0..content.length).await {
                        assert!(bytes == pattern.bytes(), "a read gave other bytes");
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        client.drop(owner.space, &[content.id]).await;
        for reader in readers {
            reader.await.expect("the task finishes");
        }
    }
}

async fn space_of_the_dropped_comes_back(harness: &dyn ContentHarness, client: &ContentClient) {
    let owner = fresh_owner();
    let used_before = harness.used_bytes().await;
    let kept_pattern = SeededBytes { seed: 4, length: 30_000 };
    let mut ids = Vec::new();
    let mut kept = Vec::new();
    for seed in 0..24 {
        ids.push(client.put(&owner, SeededBytes { seed, length: PIECE * (1 + seed % 9) }).await.id);
        kept.push(client.put(&owner, kept_pattern).await);
    }
    if let (Some(before), Some(used)) = (used_before, harness.used_bytes().await) {
        assert!(used > before + 24 * PIECE, "{used} bytes in use, and {before} before");
    }
    client.drop(owner.space, &ids).await;
    // A put whose outcome was unknown may have left one beside its second try.
    let is_kept = |id| kept.iter().any(|content: &crate::Content| content.id == id);
    let found = client.found(owner.space, 50).await;
    let left: Vec<_> = found.iter().map(|found| found.content.id).filter(|id| !is_kept(*id)).collect();
    client.drop(owner.space, &left).await;
    space_comes_back(harness, used_before, 24 * 40_000 + 64 * 1024).await;
    for content in &kept {
        client.check_bytes(owner.space, content, kept_pattern).await;
    }
    client.drop_space(owner.space).await;
    space_comes_back(harness, used_before, 64 * 1024).await;
}
