//! *cancelled*: a put that is let go, or whose source fails, keeps nothing that `visit` does not show.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use super::ContentHarness;
use super::client::{ContentClient, SeededBytes, fresh_owner, space_comes_back};
use crate::{ContentError, ContentSize, PIECE_BYTES_MAX};

const PIECE: u64 = PIECE_BYTES_MAX as u64;
const ROUNDS: u64 = 300;

pub(super) async fn check(harness: &dyn ContentHarness) {
    let client = ContentClient::of(harness);
    let owner = fresh_owner();
    let used_before = harness.used_bytes().await;
    let kept_pattern = SeededBytes { seed: 7, length: PIECE + 1 };
    let kept = client.put(&owner, kept_pattern).await;
    for round in 0..ROUNDS {
        let pattern = SeededBytes { seed: round, length: round * 7919 * 31 % (6 * PIECE) + 1 };
        let size = if round % 3 == 0 {
            ContentSize::UpTo(pattern.length + PIECE)
        } else {
            ContentSize::Exactly(pattern.length)
        };
        let mut source = pattern.source();
        if round % 2 == 0 {
            source.fails_after = round * 104_729 % pattern.length;
            let outcome = client.contents.put(&owner, size, &mut source).await;
            assert!(outcome.is_err(), "a put succeeded whose source failed");
            continue;
        }
        // Let go after so many times that it had nothing to do but wait.
        let outcome = poll_times(client.contents.put(&owner, size, &mut source), round % 13).await;
        if let Some(Ok(content)) = outcome {
            client.drop(owner.space, &[content.id]).await;
        } else if let Some(Err(error @ (ContentError::Size { .. } | ContentError::Damaged { .. }))) = outcome
        {
            panic!("unexpected error: {error}");
        }
    }
    client.check_bytes(owner.space, &kept, kept_pattern).await;
    // A put that was let go may have been kept in the same moment; then it is found.
    for found in client.found(owner.space, 50).await {
        client.drop(owner.space, &[found.content.id]).await;
    }
    space_comes_back(harness, used_before, 64 * 1024).await;
    let again = client.put(&owner, kept_pattern).await;
    client.check_bytes(owner.space, &again, kept_pattern).await;
    client.drop_space(owner.space).await;
}

/// Polls a future until it has been pending so many times, then drops it.
async fn poll_times<F: Future>(future: F, times: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut pending = 0;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if pending >= times => Poll::Ready(None),
        Poll::Pending => {
            pending += 1;
            Poll::Pending
        }
    })
    .await
}
