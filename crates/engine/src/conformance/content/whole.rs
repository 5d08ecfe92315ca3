//! *whole*: a read gives the bytes that were put, or an error.

use std::sync::atomic::AtomicU64;

use super::ContentHarness;
use super::client::{ContentClient, ContentMissing, SeededBytes, bear, fresh_owner};
use crate::{Content, ContentError, ContentSize, PIECE_BYTES_MAX};

const PIECE: u64 = PIECE_BYTES_MAX as u64;

pub(super) async fn check(harness: &dyn ContentHarness) {
    let client = ContentClient::of(harness);
    contents_of_every_size_read_back(&client).await;
    ranges_are_parts_of_the_whole(&client).await;
    many_at_once_do_not_mix(&client).await;
    another_length_than_announced_is_refused(&client).await;
    a_copy_has_the_same_bytes_and_its_own_life(&client).await;
}

async fn contents_of_every_size_read_back(client: &ContentClient) {
    let owner = fresh_owner();
    let lengths =
        [0, 1, 4095, 4096, 4097, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 5 * PIECE + 17, 40 * PIECE + 3];
    for (seed, length) in (1..).zip(lengths) {
        let pattern = SeededBytes { seed, length };
        for size in
            [ContentSize::Exactly(length), ContentSize::UpTo(length), ContentSize::UpTo(length + 9 * PIECE)]
        {
            let content = client.put_as(&owner, size, pattern).await;
            client.check_bytes(owner.space, &content, pattern).await;
        }
    }
}

async fn ranges_are_parts_of_the_whole(client: &ContentClient) {
    let owner = fresh_owner();
    let pattern = SeededBytes { seed: 99, length: 3 * PIECE + 100 };
    let content = client.put(&owner, pattern).await;
    let bytes = pattern.bytes();
    let edges =
        [0, 1, 4096, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 5, 3 * PIECE, 3 * PIECE + 99, 3 * PIECE + 100];
    for from in edges {
        for to in edges.into_iter().filter(|to| *to >= from) {
            let found = client.read(owner.space, &content, from..to).await.expect("the content is there");
            let within = |offset: u64| usize::try_from(offset).expect("a small number");
            assert!(found == bytes[within(from)..within(to)], "range {from}..{to} has other bytes");
        }
    }
}

async fn many_at_once_do_not_mix(client: &ContentClient) {
    let owner = fresh_owner();
    let put_and_read = |seed: u64| {
        let (client, owner) = (client.clone(), owner.clone());
        tokio::spawn(async move {
            let pattern = SeededBytes { seed, length: seed * 7919 % (3 * PIECE) };
            let content = client.put(&owner, pattern).await;
            client.check_bytes(owner.space, &content, pattern).await;
            (content, pattern)
        })
    };
    let tasks: Vec<_> = (0..48).map(put_and_read).collect();
    let mut all: Vec<(Content, SeededBytes)> = Vec::new();
    for task in tasks {
        all.push(task.await.expect("the task finishes"));
    }
    for (content, pattern) in all {
        client.check_bytes(owner.space, &content, pattern).await;
    }
}

async fn another_length_than_announced_is_refused(client: &ContentClient) {
    let owner = fresh_owner();
    let pattern = SeededBytes { seed: 5, length: 2 * PIECE };
    for size in [
        ContentSize::Exactly(2 * PIECE - 1),
        ContentSize::Exactly(2 * PIECE + 1),
        ContentSize::UpTo(2 * PIECE - 1),
    ] {
        // A fault may come first.
        loop {
            match client.contents.put(&owner, size, &mut pattern.source()).await {
                Err(ContentError::Size { .. }) => break,
                Err(error) => bear(error).await,
                Ok(_) => panic!("{size:?} was taken for {} bytes", pattern.length),
            }
        }
    }
    assert_eq!(client.found(owner.space, 10).await, []);
}

async fn a_copy_has_the_same_bytes_and_its_own_life(client: &ContentClient) {
    let (from, to) = (fresh_owner(), fresh_owner());
    let pattern = SeededBytes { seed: 44, length: 2 * PIECE + 1 };
    let content = client.put(&from, pattern).await;
    let copy = loop {
        let copied = AtomicU64::new(0);
        match client.contents.copy(from.space, &content, &to, &copied).await {
            Ok(copy) => {
                assert_eq!(copied.into_inner(), content.length);
                break copy;
            }
            Err(error) => bear(error).await,
        }
    };
    assert_ne!(copy.id, content.id);
    client.drop(from.space, &[content.id]).await;
    client.check_bytes(to.space, &copy, pattern).await;
    assert_eq!(client.read(from.space, &content, 0..1).await, Err(ContentMissing));
}
