//! Reading a content, chunk by chunk, one ahead of the one that is used; each piece is checked before it leaves.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{ByteSource, Content, ContentError, PIECE_BYTES_MAX, SourceError, SpaceId};
use tokio::task::JoinHandle;

use super::chunks::{CHUNK_BYTES, check};
use super::statements::ContentKey;
use super::{Inner, read_failed};
use crate::commit::Patience;

const PIECE: u64 = PIECE_BYTES_MAX as u64;

/// Begins a read. The first chunk has been checked when this returns.
pub(super) async fn read(
    inner: &Arc<Inner>,
    space: SpaceId,
    content: &Content,
    range: Range<u64>,
) -> Result<Box<dyn ByteSource>, ContentError> {
    assert!(range.start <= range.end && range.end <= content.length, "the range is within the content");
    let id = content.id;
    let key = ContentKey::of(space, id);
    let entry = inner.entry(&key).await?;
    let length = entry.and_then(|entry| entry.length).ok_or(ContentError::Missing { space, id })?;
    if length != content.length {
        return Err(ContentError::Damaged { space, id, what: "it has another length" });
    }
    let reading = Reading { inner: inner.clone(), key, length };
    let (next, end) = (range.start / CHUNK_BYTES, range.end.div_ceil(CHUNK_BYTES));
    let mut source = ChunkSource { reading, next, end, range, ready: VecDeque::new(), ahead: None };
    if source.range.is_empty() {
        source.end = source.next;
    } else {
        let first = source.reading.chunk(next).await?;
        source.take(first);
    }
    Ok(Box::new(source))
}

#[derive(Clone)]
struct Reading {
    inner: Arc<Inner>,
    key: ContentKey,
    length: u64,
}

impl Reading {
    async fn chunk(&self, number: u64) -> Result<Vec<Bytes>, ContentError> {
        let ContentKey { space, id } = self.key;
        let (statements, session) = (self.inner.statements().await?, &self.inner.core.store.session);
        let read = || statements.read_chunk(session, &self.key, number);
        let chunk = self.inner.core.patiently(&mut Patience::new(), read).await.map_err(read_failed)?;
        let Some(chunk) = chunk else {
            // It was dropped meanwhile, or it was lost.
            let what = "a chunk is missing";
            return Err(match self.inner.entry(&self.key).await? {
                Some(entry) if entry.length.is_some() => ContentError::Damaged { space, id, what },
                _ => ContentError::Missing { space, id },
            });
        };
        check(space, id, self.length, &chunk).map_err(|what| {
            tracing::error!(%space, content = %id, what, "a content of a blob is damaged");
            ContentError::Damaged { space, id, what }
        })
    }
}

/// The bytes of a range, piece by piece.
struct ChunkSource {
    reading: Reading,
    /// The chunk to take next, and the one behind the last.
    next: u64,
    end: u64,
    range: Range<u64>,
    ready: VecDeque<Bytes>,
    ahead: Option<JoinHandle<Result<Vec<Bytes>, ContentError>>>,
}

impl ChunkSource {
    /// Takes what the range has of a chunk, and asks for the next one.
    fn take(&mut self, pieces: Vec<Bytes>) {
        let mut at = self.next * CHUNK_BYTES;
        for piece in pieces {
            let length = piece.len() as u64;
            let within =
                |offset: u64| usize::try_from(offset.clamp(at, at + length) - at).expect("within a piece");
            let wanted = piece.slice(within(self.range.start)..within(self.range.end));
            if !wanted.is_empty() {
                self.ready.push_back(wanted);
            }
            at += PIECE;
        }
        self.next += 1;
        if self.next < self.end {
            let (reading, number) = (self.reading.clone(), self.next);
            self.ahead = Some(tokio::spawn(async move { reading.chunk(number).await }));
        }
    }
}

#[async_trait]
impl ByteSource for ChunkSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        if self.ready.is_empty()
            && let Some(ahead) = self.ahead.take()
        {
            let read = ahead.await.map_err(|cause| SourceError::Broken(cause.into()))?;
            self.take(read.map_err(|error| SourceError::Broken(error.into()))?);
        }
        Ok(self.ready.pop_front())
    }
}

/// A read that is let go reads nothing more.
impl Drop for ChunkSource {
    fn drop(&mut self) {
        if let Some(ahead) = &self.ahead {
            ahead.abort();
        }
    }
}
