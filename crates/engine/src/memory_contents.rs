//! The reference store of contents: a map in memory behind one lock.
//!
//! It keeps every promise except durability, in the simplest way that does. Tests of the Blob service run on it, and the
//! conformance suite runs on it first.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tavola_model::Clock;

use crate::{
    ByteSource, BytesSource, Content, ContentCursor, ContentError, ContentId, ContentIds, ContentSize,
    ContentStore, FoundContent, Owner, Pieces, SpaceId, VisitContent,
};

/// A store of contents that forgets everything with its process.
pub struct MemoryContents {
    ids: ContentIds,
    kept: Mutex<BTreeMap<ContentCursor, Kept>>,
}

struct Kept {
    found: FoundContent,
    pieces: Vec<Bytes>,
}

impl MemoryContents {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { ids: ContentIds::new(clock, 0), kept: Mutex::default() }
    }

    /// Bytes of all contents.
    pub fn bytes(&self) -> u64 {
        self.lock().values().map(|kept| kept.found.content.length).sum()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContentCursor, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn keep(
        &self,
        id: ContentId,
        owner: &Owner,
        size: ContentSize,
        source: &mut dyn ByteSource,
    ) -> Result<Content, ContentError> {
        let mut regrouped = Pieces::new(source, size);
        let mut pieces = Vec::new();
        while let Some(piece) = regrouped.next().await? {
            // A copy, because a piece may be a part of something larger that its source wants back.
            pieces.push(Bytes::copy_from_slice(&piece));
        }
        let content = Content { id, length: regrouped.taken() };
        let found = FoundContent { content, owner: owner.clone() };
        self.lock().insert(found.cursor(), Kept { found, pieces });
        Ok(content)
    }
}

#[async_trait]
impl ContentStore for MemoryContents {
    async fn put(
        &self,
        owner: &Owner,
        size: ContentSize,
        source: &mut dyn ByteSource,
    ) -> Result<Content, ContentError> {
        self.keep(self.ids.next(), owner, size, source).await
    }

    async fn load(
        &self,
        owner: &Owner,
        content: &Content,
        source: &mut dyn ByteSource,
    ) -> Result<(), ContentError> {
        self.keep(content.id, owner, ContentSize::Exactly(content.length), source).await?;
        Ok(())
    }

    async fn read(
        &self,
        space: SpaceId,
        content: &Content,
        range: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, ContentError> {
        assert!(range.start <= range.end && range.end <= content.length, "the range is within the content");
        let id = content.id;
        let kept = self.lock();
        let found = kept.get(&ContentCursor { space, id }).ok_or(ContentError::Missing { space, id })?;
        if found.found.content != *content {
            return Err(ContentError::Damaged { space, id, what: "it has another length" });
        }
        let mut at = 0;
        let mut wanted = Vec::new();
        for piece in &found.pieces {
            let length = piece.len() as u64;
            let from = range.start.clamp(at, at + length) - at;
            let to = range.end.clamp(at, at + length) - at;
            let within = |offset: u64| usize::try_from(offset).expect("an offset within a piece");
            wanted.push(piece.slice(within(from)..within(to)));
            at += length;
        }
        Ok(Box::new(BytesSource::new(wanted)))
    }

    async fn drop_contents(&self, space: SpaceId, contents: &[ContentId]) -> Result<(), ContentError> {
        let mut kept = self.lock();
        for id in contents {
            kept.remove(&ContentCursor { space, id: *id });
        }
        Ok(())
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), ContentError> {
        self.lock().retain(|place, _| place.space != space);
        Ok(())
    }

    async fn visit(
        &self,
        from: Option<ContentCursor>,
        visit: &mut VisitContent<'_>,
    ) -> Result<Option<ContentCursor>, ContentError> {
        let kept = self.lock();
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        for (place, kept) in kept.range((from, Bound::Unbounded)) {
            if visit(&kept.found).is_break() {
                return Ok(Some(*place));
            }
        }
        Ok(None)
    }
}
