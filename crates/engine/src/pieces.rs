//! Pieces of even size: what a store of contents makes of a source.
//!
//! A source gives pieces as they come; a store writes and checks pieces of [`PIECE_BYTES_MAX`], all but the last of them
//! full. A source that gives full pieces is passed through without a copy.

use bytes::{Bytes, BytesMut};

use crate::{ByteSource, ContentError, ContentSize, PIECE_BYTES_MAX};

/// A source regrouped into full pieces, and held to what was announced.
pub struct Pieces<'a> {
    source: &'a mut dyn ByteSource,
    size: ContentSize,
    /// What has come and not been given yet; less than a piece.
    rest: BytesMut,
    taken: u64,
    has_ended: bool,
}

impl<'a> Pieces<'a> {
    /// The pieces of a source of this size.
    pub fn new(source: &'a mut dyn ByteSource, size: ContentSize) -> Self {
        Self { source, size, rest: BytesMut::new(), taken: 0, has_ended: false }
    }

    /// Bytes that have come so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether all has come and been given that was announced. A source that has more is still refused by `next`.
    pub fn is_complete(&self) -> bool {
        self.rest.is_empty() && self.size == ContentSize::Exactly(self.taken)
    }

    /// The next piece; `None` at the end of a source that gave what was announced.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ContentError> {
        while !self.has_ended {
            let Some(piece) = self.source.next().await.map_err(ContentError::Source)? else {
                self.has_ended = true;
                self.size.check(self.taken)?;
                break;
            };
            self.taken += piece.len() as u64;
            if self.taken > self.size.bytes_max() {
                return Err(ContentError::Size { announced: self.size.bytes_max(), found: self.taken });
            }
            if self.is_complete() || (self.rest.is_empty() && piece.len() == PIECE_BYTES_MAX) {
                return Ok(Some(piece));
            }
            if let Some(full) = self.add(&piece) {
                return Ok(Some(full));
            }
        }
        let last = self.rest.split().freeze();
        Ok((!last.is_empty()).then_some(last))
    }

    /// Adds bytes to the rest; gives a full piece if there is one.
    fn add(&mut self, bytes: &[u8]) -> Option<Bytes> {
        assert!(bytes.len() <= PIECE_BYTES_MAX, "a source gives no larger piece");
        let (fitting, beyond) = bytes.split_at(bytes.len().min(PIECE_BYTES_MAX - self.rest.len()));
        self.rest.extend_from_slice(fitting);
        if self.rest.len() < PIECE_BYTES_MAX {
            return None;
        }
        let full = std::mem::replace(&mut self.rest, BytesMut::from(beyond)).freeze();
        Some(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BytesSource;

    fn lengths(pieces: &[usize], size: ContentSize) -> Result<Vec<usize>, ContentError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes: Vec<Bytes> = pieces.iter().map(|length| Bytes::from(vec![7; *length])).collect();
        let mut source = BytesSource::new(bytes);
        let mut regrouped = Pieces::new(&mut source, size);
        runtime.block_on(async {
            let mut lengths = Vec::new();
            while let Some(piece) = regrouped.next().await? {
                lengths.push(piece.len());
            }
            Ok(lengths)
        })
    }

    #[test]
    fn all_pieces_but_the_last_are_full() {
        const FULL: usize = PIECE_BYTES_MAX;
        let check = |pieces: &[usize], expected: &[usize]| {
            let total = pieces.iter().sum::<usize>() as u64;
            assert_eq!(lengths(pieces, ContentSize::Exactly(total)).unwrap(), expected, "{pieces:?}");
            assert_eq!(lengths(pieces, ContentSize::UpTo(total + 1)).unwrap(), expected, "{pieces:?}");
        };
        check(&[], &[]);
        check(&[1], &[1]);
        check(&[FULL, FULL, 5], &[FULL, FULL, 5]);
        check(&[FULL - 1, 2, 3], &[FULL, 4]);
        check(&[5, FULL, FULL], &[FULL, FULL, 5]);
        check(&[FULL / 2, FULL / 2], &[FULL]);
    }

    #[test]
    fn a_source_that_gives_more_or_less_than_announced_fails() {
        for (pieces, size) in [
            (&[5, 5][..], ContentSize::Exactly(9)),
            (&[5, 5], ContentSize::Exactly(11)),
            (&[5, 5], ContentSize::UpTo(9)),
            (&[], ContentSize::Exactly(1)),
        ] {
            assert!(matches!(lengths(pieces, size), Err(ContentError::Size { .. })), "{pieces:?} {size:?}");
        }
    }
}
