//! Reading a range of an object in one request; each piece is checked before it leaves.

use std::ops::Range;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use tavola_engine::{ByteSource, Content, ContentError, ContentId, SourceError, SpaceId};

use crate::object::{PIECE, STORED_PIECE, TRAILER_FIXED, TRAILER_MAX, check_piece, path_of, stored_length};
use crate::{BucketContents, read_failed};

/// Begins a read. The first piece has been checked when this returns.
pub(crate) async fn read(
    contents: &BucketContents,
    space: SpaceId,
    content: &Content,
    range: Range<u64>,
) -> Result<Box<dyn ByteSource>, ContentError> {
    assert!(range.start <= range.end && range.end <= content.length, "the range is within the content");
    let Content { id, length } = *content;
    let path = path_of(&contents.root, space, id);
    let missing = |error| match error {
        object_store::Error::NotFound { .. } => ContentError::Missing { space, id },
        error => read_failed(error),
    };
    if range.is_empty() {
        let meta = contents.store.head(&path).await.map_err(missing)?;
        check_size(space, content, meta.size)?;
        return Ok(Box::new(Nothing));
    }
    let (first, end) = (range.start / PIECE, range.end.div_ceil(PIECE));
    let stored = first * STORED_PIECE..(end * STORED_PIECE).min(stored_length(length));
    let options = GetOptions { range: Some(GetRange::Bounded(stored)), ..GetOptions::default() };
    let found = contents.store.get_opts(&path, options).await.map_err(missing)?;
    check_size(space, content, found.meta.size)?;
    let mut source = ObjectSource {
        space,
        id,
        length,
        range,
        next: first,
        end,
        first: None,
        rest: BytesMut::new(),
        stream: found.into_stream(),
    };
    source.first = source.piece().await?;
    Ok(Box::new(source))
}

/// The size of an object tells the length of its content but for the name of the owner.
fn check_size(space: SpaceId, content: &Content, size: u64) -> Result<(), ContentError> {
    let trailer = size.checked_sub(stored_length(content.length));
    let is_possible =
        trailer.is_some_and(|trailer| (TRAILER_FIXED as u64..=TRAILER_MAX as u64).contains(&trailer));
    let id = content.id;
    is_possible.then_some(()).ok_or(ContentError::Damaged { space, id, what: "it has another length" })
}

/// The bytes of a range, piece by piece.
struct ObjectSource {
    space: SpaceId,
    id: ContentId,
    length: u64,
    range: Range<u64>,
    /// The piece to take next, and the one behind the last.
    next: u64,
    end: u64,
    /// What was read before the source was asked.
    first: Option<Bytes>,
    /// What has come of the next piece, less than a piece.
    rest: BytesMut,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
}

impl ObjectSource {
    /// The next piece, as far as it is in the range.
    async fn piece(&mut self) -> Result<Option<Bytes>, ContentError> {
        if self.next == self.end {
            return Ok(None);
        }
        let (space, id, number) = (self.space, self.id, self.next);
        let damaged = |what| {
            tracing::error!(%space, content = %id, what, "a content of a blob is damaged");
            ContentError::Damaged { space, id, what }
        };
        let at = number * PIECE;
        let wanted = stored_length((self.length - at).min(PIECE));
        let wanted = usize::try_from(wanted).expect("a piece is small");
        while self.rest.len() < wanted {
            let more = self.stream.next().await.transpose().map_err(read_failed)?;
            self.rest.extend_from_slice(&more.ok_or_else(|| damaged("the object is cut short"))?);
        }
        let stored = self.rest.split_to(wanted).freeze();
        let piece =
            check_piece(space, id, number, stored).ok_or_else(|| damaged("a piece has another sum"))?;
        self.next += 1;
        let end = at + piece.len() as u64;
        let within = |offset: u64| usize::try_from(offset.clamp(at, end) - at).expect("within a piece");
        Ok(Some(piece.slice(within(self.range.start)..within(self.range.end))))
    }
}

#[async_trait]
impl ByteSource for ObjectSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        self.piece().await.map_err(|error| SourceError::Broken(error.into()))
    }
}

/// No bytes.
struct Nothing;

#[async_trait]
impl ByteSource for Nothing {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        Ok(None)
    }
}
