//! *bounded*: a call holds at most four pieces, whatever the size of the content.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;

use super::ContentHarness;
use super::client::{ContentClient, bear, fresh_owner};
use crate::{ByteSource, ContentSize, PIECE_BYTES_MAX, SourceError};

const PIECES: usize = 100;
const PIECES_HELD_MAX: usize = 4;

/// Gives pieces and counts those that somebody still holds.
struct CountingSource {
    left: usize,
    held: Arc<AtomicUsize>,
    held_most: Arc<AtomicUsize>,
}

struct CountedPiece {
    bytes: Vec<u8>,
    held: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for CountedPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for CountedPiece {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ByteSource for CountingSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let held = self.held.fetch_add(1, Ordering::SeqCst) + 1;
        self.held_most.fetch_max(held, Ordering::SeqCst);
        let bytes = vec![u8::try_from(self.left).expect("a small number"); PIECE_BYTES_MAX];
        Ok(Some(Bytes::from_owner(CountedPiece { bytes, held: self.held.clone() })))
    }
}

pub(super) async fn check(harness: &dyn ContentHarness) {
    let client = ContentClient::of(harness);
    let owner = fresh_owner();
    let length = (PIECES * PIECE_BYTES_MAX) as u64;
    for size in [ContentSize::Exactly(length), ContentSize::UpTo(2 * length)] {
        let (held, held_most) = (Arc::default(), Arc::<AtomicUsize>::default());
        let content = loop {
            let mut source =
                CountingSource { left: PIECES, held: Arc::clone(&held), held_most: held_most.clone() };
            match client.contents.put(&owner, size, &mut source).await {
                Ok(content) => break content,
                Err(error) => bear(error).await,
            }
        };
        let most = held_most.load(Ordering::SeqCst);
        assert!(most <= PIECES_HELD_MAX, "{most} pieces were held at once");
        let bytes = client.read(owner.space, &content, 0..length).await.expect("the content is there");
        let is_right = |(number, piece): (usize, &[u8])| {
            piece.iter().all(|byte| usize::from(*byte) == PIECES - 1 - number)
        };
        assert!(bytes.chunks(PIECE_BYTES_MAX).enumerate().all(is_right));
        client.drop(owner.space, &[content.id]).await;
    }
}
