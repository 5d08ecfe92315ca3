//! What a blob consists of: pieces of bytes in order, each in a row or in the store of contents.
//!
//! ```text
//! a row of pieces: u8 version = 1 | list of pieces: option(bytes block id) | data
//! data: u8 0 | bytes, or u8 1 | 16 bytes content id | u64 length
//! ```

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{ByteSource, Content, ContentError, ContentId, ContentStore, SourceError, SpaceId};
use tavola_model::BlockId;

use crate::codec::{Reader, put_bytes, put_list, put_option};

const VERSION: u8 = 1;

/// Bytes of a piece that stays in its row: below this a row is faster than a content.
pub(crate) const INLINE_BYTES_MAX: usize = 4096;

/// Where the bytes of a piece are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Here.
    Inline(Bytes),
    /// In the store of contents.
    Content(Content),
}

impl Data {
    pub fn length(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Content(content) => content.length,
        }
    }

    /// The content, if it is one.
    pub fn content(&self) -> Option<ContentId> {
        match self {
            Self::Inline(_) => None,
            Self::Content(content) => Some(content.id),
        }
    }

    pub fn put(out: &mut Vec<u8>, data: &Self) {
        match data {
            Self::Inline(bytes) => {
                out.push(0);
                put_bytes(out, bytes);
            }
            Self::Content(content) => {
                out.push(1);
                out.extend_from_slice(&content.id.0);
                out.extend_from_slice(&content.length.to_le_bytes());
            }
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Option<Self> {
        match reader.byte()? {
            0 => reader.shared_bytes().map(Self::Inline),
            1 => Some(Self::Content(Content { id: ContentId(reader.array()?), length: reader.u64()? })),
            _ => None,
        }
    }
}

/// One piece of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The block that it was put as.
    pub block: Option<BlockId>,
    pub data: Data,
}

pub(crate) fn encode_pieces(pieces: &[Piece]) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_list(&mut out, pieces, |out, piece| {
        put_option(out, piece.block.as_ref(), |out, id| put_bytes(out, id.as_bytes()));
        Data::put(out, &piece.data);
    });
    out
}

pub(crate) fn decode_pieces(bytes: &[u8]) -> Option<Vec<Piece>> {
    let mut reader = Reader::of_version(bytes, VERSION)?;
    let pieces = reader.list(|reader| {
        let block = reader.option(|reader| BlockId::from_bytes(reader.bytes()?))?;
        Some(Piece { block, data: Data::read(reader)? })
    })?;
    reader.is_done().then_some(pieces)
}

/// The parts of pieces that a range of the whole covers.
pub(crate) fn select<'a>(
    pieces: impl IntoIterator<Item = &'a Data>,
    range: Range<u64>,
) -> VecDeque<(Data, Range<u64>)> {
    let mut parts = VecDeque::new();
    let mut at = 0;
    for data in pieces {
        let end = at + data.length();
        let (from, to) = (range.start.max(at), range.end.min(end));
        if from < to {
            parts.push_back((data.clone(), from - at..to - at));
        }
        at = end;
        if at >= range.end {
            break;
        }
    }
    parts
}

/// The bytes of parts of pieces, one after the other.
pub(crate) struct PieceSource {
    contents: Arc<dyn ContentStore>,
    space: SpaceId,
    parts: VecDeque<(Data, Range<u64>)>,
    current: Option<Box<dyn ByteSource>>,
}

impl PieceSource {
    /// Opens the first part, so that what is missing or damaged there is an error now.
    pub async fn open(
        contents: Arc<dyn ContentStore>,
        space: SpaceId,
        parts: VecDeque<(Data, Range<u64>)>,
    ) -> Result<Self, ContentError> {
        let mut source = Self { contents, space, parts, current: None };
        if let Some((Data::Content(content), range)) = source.parts.front().cloned() {
            source.current = Some(source.contents.read(space, &content, range).await?);
            source.parts.pop_front();
        }
        Ok(source)
    }
}

#[async_trait]
impl ByteSource for PieceSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        loop {
            if let Some(current) = &mut self.current {
                match current.next().await? {
                    Some(piece) => return Ok(Some(piece)),
                    None => self.current = None,
                }
            }
            match self.parts.pop_front() {
                None => return Ok(None),
                Some((Data::Inline(bytes), range)) => {
                    let location = |at| usize::try_from(at).expect("a row is small");
                    return Ok(Some(bytes.slice(location(range.start)..location(range.end))));
                }
                Some((Data::Content(content), range)) => {
                    let opened = self.contents.read(self.space, &content, range).await;
                    self.current = Some(opened.map_err(|error| SourceError::Broken(error.into()))?);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Vec<Piece> {
        let content = Content { id: ContentId([3; 16]), length: 1 << 40 };
        vec![
            Piece { block: BlockId::from_bytes(b"QUFB"), data: Data::Content(content) },
            Piece { block: None, data: Data::Inline(Bytes::from_static(b"abc")) },
        ]
    }

    #[test]
    fn a_row_of_pieces_reads_back_as_it_was_written() {
        let bytes = encode_pieces(&pieces());
        assert_eq!(decode_pieces(&bytes), Some(pieces()));
        for len in 0..bytes.len() {
            assert_eq!(decode_pieces(&bytes[..len]), None, "{len}");
        }
    }

    #[test]
    fn a_row_of_pieces_keeps_its_layout() {
        let hex: String = encode_pieces(&pieces()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "0102000000010400000051554642\
             01030303030303030303030303030303030000000000010000\
             000003000000616263"
        );
    }

    #[test]
    fn a_range_covers_parts_of_pieces() {
        let data = ["abc", "", "de", "fgh"].map(|text| Data::Inline(Bytes::from_static(text.as_bytes())));
        let check = |range, expected: &[(&str, Range<u64>)]| {
            let parts: Vec<(Data, Range<u64>)> = select(&data, range).into();
            let expected: Vec<(Data, Range<u64>)> = expected
                .iter()
                .map(|(text, range)| (Data::Inline(Bytes::copy_from_slice(text.as_bytes())), range.clone()))
                .collect();
            assert_eq!(parts, expected);
        };
        check(0..8, &[("abc", 0..3), ("de", 0..2), ("fgh", 0..3)]);
        check(2..6, &[("abc", 2..3), ("de", 0..2), ("fgh", 0..1)]);
        check(3..5, &[("de", 0..2)]);
        check(4..4, &[]);
        check(0..0, &[]);
    }
}
