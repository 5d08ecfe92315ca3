//! What the suite does to a store of contents, through all errors that the contract allows.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::super::client::fresh_id;
use super::ContentHarness;
use crate::{
    ByteSource, Content, ContentCursor, ContentError, ContentId, ContentSize, ContentStore, FoundContent,
    Owner, PIECE_BYTES_MAX, SourceError, SpaceId,
};

/// Tries before the suite gives up on a call.
const ATTEMPTS_MAX: usize = 1000;
/// How long disk space may take to come back, in steps of ten milliseconds. A hang guard, not a measure.
const FREED_WAITS_MAX: usize = 6000;

/// A store whose passing failures are tried again.
#[derive(Clone)]
pub(super) struct ContentClient {
    pub(super) contents: Arc<dyn ContentStore>,
}

/// The content does not exist, or no longer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContentMissing;

impl ContentClient {
    pub(super) fn of(harness: &dyn ContentHarness) -> Self {
        Self { contents: harness.contents() }
    }

    /// Puts the bytes of a pattern. A put whose outcome is unknown may leave another content of the same owner.
    pub(super) async fn put(&self, owner: &Owner, pattern: SeededBytes) -> Content {
        self.put_as(owner, ContentSize::Exactly(pattern.length), pattern).await
    }

    pub(super) async fn put_as(&self, owner: &Owner, size: ContentSize, pattern: SeededBytes) -> Content {
        for _ in 0..ATTEMPTS_MAX {
            match self.contents.put(owner, size, &mut pattern.source()).await {
                Ok(content) => {
                    assert_eq!(content.length, pattern.length);
                    return content;
                }
                Err(error) => bear(error).await,
            }
        }
        panic!("put never succeeds");
    }

    pub(super) async fn load(&self, owner: &Owner, content: &Content, pattern: SeededBytes) {
        for _ in 0..ATTEMPTS_MAX {
            match self.contents.load(owner, content, &mut pattern.source()).await {
                Ok(()) => return,
                Err(error) => bear(error).await,
            }
        }
        panic!("load never succeeds");
    }

    /// All bytes of a range, however often a read fails on the way.
    pub(super) async fn read(
        &self,
        space: SpaceId,
        content: &Content,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ContentMissing> {
        for _ in 0..ATTEMPTS_MAX {
            match self.contents.read(space, content, range.clone()).await {
                Ok(mut source) => match drain(source.as_mut()).await {
                    Ok(bytes) => return Ok(bytes),
                    Err(_) => tokio::task::yield_now().await,
                },
                Err(ContentError::Missing { .. }) => return Err(ContentMissing),
                Err(error) => bear(error).await,
            }
        }
        panic!("read never succeeds");
    }

    /// A content has exactly these bytes.
    pub(super) async fn check_bytes(&self, space: SpaceId, content: &Content, pattern: SeededBytes) {
        let found = self.read(space, content, 0..content.length).await.expect("the content is there");
        assert!(found == pattern.bytes(), "content {} of {} bytes has others", content.id, content.length);
    }

    pub(super) async fn drop(&self, space: SpaceId, contents: &[ContentId]) {
        for _ in 0..ATTEMPTS_MAX {
            match self.contents.drop_contents(space, contents).await {
                Ok(()) => return,
                Err(error) => bear(error).await,
            }
        }
        panic!("drop never succeeds");
    }

    pub(super) async fn drop_space(&self, space: SpaceId) {
        for _ in 0..ATTEMPTS_MAX {
            match self.contents.drop_space(space).await {
                Ok(()) => return,
                Err(error) => bear(error).await,
            }
        }
        panic!("drop_space never succeeds");
    }

    /// The contents of a space, in the order they are shown, at most so many at a time.
    pub(super) async fn found(&self, space: SpaceId, at_once: usize) -> Vec<FoundContent> {
        let mut all = Vec::new();
        let mut from = Some(ContentCursor::space_start(space));
        for _ in 0..ATTEMPTS_MAX * 10 {
            let mut page = Vec::new();
            let mut is_over = false;
            let mut visit = |found: &FoundContent| {
                if found.owner.space != space {
                    is_over = true;
                    return ControlFlow::Break(());
                }
                page.push(found.clone());
                if page.len() == at_once { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            match self.contents.visit(from, &mut visit).await {
                Ok(next) => {
                    if let (Some(next), Some(last), false) = (next, page.last(), is_over) {
                        assert_eq!(next, last.cursor(), "a visit goes on behind the last content shown");
                    }
                    all.append(&mut page);
                    from = next;
                    if is_over || next.is_none() {
                        return all;
                    }
                }
                Err(error) => bear(error).await,
            }
        }
        panic!("visit never ends");
    }
}

/// Waits until contents take no more than this, if the store can tell.
pub(super) async fn space_comes_back(harness: &dyn ContentHarness, used_before: Option<u64>, slack: u64) {
    let Some(used_before) = used_before else { return };
    let mut used = 0;
    for _ in 0..FREED_WAITS_MAX {
        used = harness.used_bytes().await.expect("the store could tell before");
        if used <= used_before + slack {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{used} bytes are in use, and {used_before} before");
}

/// An owner in a space that no other check uses.
pub(super) fn fresh_owner() -> Owner {
    Owner { space: fresh_id(), partition: b"a/blob\0name".to_vec() }
}

/// Bytes that follow from a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeededBytes {
    pub(super) seed: u64,
    pub(super) length: u64,
}

impl SeededBytes {
    pub(super) fn bytes(self) -> Vec<u8> {
        let length = usize::try_from(self.length).expect("a test's content fits memory");
        let mut state = self.seed;
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.extend_from_slice(&(state ^ (state >> 29)).to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// Its bytes in pieces of uneven size.
    pub(super) fn source(self) -> PatternSource {
        PatternSource { bytes: self.bytes().into(), seed: self.seed, fails_after: u64::MAX }
    }
}

/// Gives the bytes of a pattern, and fails on the way if it is told to.
pub(super) struct PatternSource {
    bytes: Bytes,
    seed: u64,
    pub(super) fails_after: u64,
}

#[async_trait]
impl ByteSource for PatternSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        // A third of all sources give full pieces only.
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let length = match self.seed >> 60 {
            0..=9 => PIECE_BYTES_MAX,
            10..=12 => 1 + usize::try_from(self.seed >> 32).expect("a small number") % 9000,
            _ => 1 + usize::try_from(self.seed >> 32).expect("a small number") % PIECE_BYTES_MAX,
        };
        let piece = self.bytes.split_to(length.min(self.bytes.len()));
        if self.fails_after < piece.len() as u64 {
            return Err(SourceError::Broken("the test cuts it".into()));
        }
        self.fails_after -= piece.len() as u64;
        Ok((!piece.is_empty()).then_some(piece))
    }
}

/// All that a source gives.
pub(super) async fn drain(source: &mut dyn ByteSource) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    while let Some(piece) = source.next().await? {
        assert!(!piece.is_empty() && piece.len() <= PIECE_BYTES_MAX, "a piece of {} bytes", piece.len());
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Waits a little after an error that may pass; panics on any other.
pub(super) async fn bear(error: ContentError) {
    match error {
        ContentError::OutcomeUnknown { .. }
        | ContentError::Unavailable { .. }
        | ContentError::Source(_)
        | ContentError::Failed { .. } => tokio::task::yield_now().await,
        error @ (ContentError::Missing { .. }
        | ContentError::Size { .. }
        | ContentError::Full { .. }
        | ContentError::Damaged { .. }) => panic!("unexpected error: {error}"),
    }
}
