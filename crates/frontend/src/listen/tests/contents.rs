//! Contents of blobs that end too early when told so.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{
    Content, ContentCursor, ContentError, ContentId, ContentSize, ContentStore, MemoryContents, Owner,
    SpaceId, VisitContent,
};
use tavola_model::Clock;
use tavola_service::{ByteSource, SourceError};

/// The reference store. While `is_cut` is set, a read fails in the middle.
pub(super) struct CutContents {
    inner: MemoryContents,
    pub is_cut: AtomicBool,
}

impl CutContents {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { inner: MemoryContents::new(clock), is_cut: AtomicBool::new(false) }
    }
}

/// Gives this many bytes at least, then fails.
struct CutSource {
    inner: Box<dyn ByteSource>,
    left: u64,
}

#[async_trait]
impl ByteSource for CutSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        if self.left == 0 {
            return Err(SourceError::Broken("a test says so".into()));
        }
        let piece = self.inner.next().await?;
        self.left = self.left.saturating_sub(piece.as_ref().map_or(0, Bytes::len) as u64);
        Ok(piece)
    }
}

#[async_trait]
impl ContentStore for CutContents {
    async fn put(
        &self,
        owner: &Owner,
        size: ContentSize,
        source: &mut dyn ByteSource,
    ) -> Result<Content, ContentError> {
        self.inner.put(owner, size, source).await
    }

    async fn load(
        &self,
        owner: &Owner,
        content: &Content,
        source: &mut dyn ByteSource,
    ) -> Result<(), ContentError> {
        self.inner.load(owner, content, source).await
    }

    async fn read(
        &self,
        space: SpaceId,
        content: &Content,
        range: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, ContentError> {
        let inner = self.inner.read(space, content, range).await?;
        if !self.is_cut.load(Ordering::SeqCst) {
            return Ok(inner);
        }
        Ok(Box::new(CutSource { inner, left: content.length / 2 }))
    }

    async fn copy(
        &self,
        space: SpaceId,
        content: &Content,
        owner: &Owner,
        copied: &AtomicU64,
    ) -> Result<Content, ContentError> {
        self.inner.copy(space, content, owner, copied).await
    }

    async fn drop_contents(&self, space: SpaceId, contents: &[ContentId]) -> Result<(), ContentError> {
        self.inner.drop_contents(space, contents).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), ContentError> {
        self.inner.drop_space(space).await
    }

    async fn visit(
        &self,
        from: Option<ContentCursor>,
        visit: &mut VisitContent<'_>,
    ) -> Result<Option<ContentCursor>, ContentError> {
        self.inner.visit(from, visit).await
    }
}
