//! Bytes that come piece by piece: the body of an upload on its way in, a content on its way out.

use async_trait::async_trait;
use bytes::Bytes;

/// Bytes of one piece at most.
pub const PIECE_BYTES_MAX: usize = 256 * 1024;

/// A stream of pieces. Whoever takes the next piece decides when the next one is made: nothing runs ahead.
#[async_trait]
pub trait ByteSource: Send {
    /// The next piece, not empty and at most [`PIECE_BYTES_MAX`] long; `None` at the end. After an error or the end
    /// there is nothing more to ask for.
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError>;

    /// All that is left, if it is one piece in memory: nobody has to wait for it. `None` takes nothing.
    fn buffered(&mut self) -> Option<Bytes> {
        None
    }
}

/// Why a stream of bytes does not go on.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It is longer than it may be.
    #[error("more than {bytes_max} bytes")]
    TooLarge {
        /// What it may be.
        bytes_max: u64,
    },
    /// The other side is too slow.
    #[error("the bytes come too slowly")]
    TooSlow,
    /// There is no memory for the next piece now.
    #[error("no memory for the next piece")]
    OverBudget,
    /// It ended before its end.
    #[error("the bytes end early")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A stream of pieces that are in memory already.
#[derive(Debug, Default)]
pub struct BytesSource {
    pieces: std::collections::VecDeque<Bytes>,
}

impl BytesSource {
    /// Gives these bytes, cut into pieces where they are longer than one.
    pub fn new(bytes: impl IntoIterator<Item = Bytes>) -> Self {
        let mut pieces = std::collections::VecDeque::new();
        for mut bytes in bytes {
            while bytes.len() > PIECE_BYTES_MAX {
                pieces.push_back(bytes.split_to(PIECE_BYTES_MAX));
            }
            if !bytes.is_empty() {
                pieces.push_back(bytes);
            }
        }
        Self { pieces }
    }
}

#[async_trait]
impl ByteSource for BytesSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        Ok(self.pieces.pop_front())
    }

    fn buffered(&mut self) -> Option<Bytes> {
        if self.pieces.len() == 1 { self.pieces.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_in_memory_is_at_hand_and_more_than_one_is_not() {
        let take = |lengths: &[usize]| {
            let mut source = BytesSource::new(lengths.iter().map(|length| Bytes::from(vec![7; *length])));
            (source.buffered().map(|bytes| bytes.len()), source.pieces.len())
        };
        assert_eq!(take(&[]), (None, 0));
        assert_eq!(take(&[5]), (Some(5), 0));
        assert_eq!(take(&[5, 6]), (None, 2));
        assert_eq!(take(&[PIECE_BYTES_MAX + 1]), (None, 2));
    }
}
