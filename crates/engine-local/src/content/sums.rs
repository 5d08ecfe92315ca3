//! Checksums of contents.
//!
//! A content is stored as its bytes, followed by the table of its sums: eight bytes of XXH3-64 for each piece of 256 KiB.
//! The sum of the table is in the index row, seeded with the content's own name. So a changed piece, a changed table,
//! exchanged pieces and the region of another content are all noticed.

use tavola_engine::{ContentId, PIECE_BYTES_MAX, SpaceId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of the sum of one piece.
pub(crate) const SUM_BYTES: u64 = 8;
const PIECE: u64 = PIECE_BYTES_MAX as u64;

/// The sums of the pieces of a content, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SumTable(Vec<u8>);

impl SumTable {
    /// Adds the next piece.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(&xxh3_64(piece).to_le_bytes());
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The sum of the table, which the index row keeps.
    pub(crate) fn sum(&self, space: SpaceId, id: ContentId) -> u64 {
        let mut name = [0; 32];
        name[..16].copy_from_slice(&space.0);
        name[16..].copy_from_slice(&id.0);
        xxh3_64_with_seed(&self.0, xxh3_64(&name))
    }

    /// The table in stored bytes, if its sum is this one.
    pub(crate) fn decode(bytes: Vec<u8>, space: SpaceId, id: ContentId, sum: u64) -> Option<Self> {
        let table = Self(bytes);
        (table.sum(space, id) == sum).then_some(table)
    }

    /// Whether these are the bytes of the piece with this number.
    pub(crate) fn matches(&self, number: u64, piece: &[u8]) -> bool {
        let expected = usize::try_from(number * SUM_BYTES).ok().and_then(|at| self.0.get(at..at + 8));
        expected == Some(&xxh3_64(piece).to_le_bytes())
    }
}

/// Pieces of a content of this length.
pub(crate) fn piece_count(length: u64) -> u64 {
    length.div_ceil(PIECE)
}

/// Bytes that a content of this length takes with its sums.
pub(crate) fn stored_bytes(length: u64) -> u64 {
    length + piece_count(length) * SUM_BYTES
}

/// Reads a whole content by `read_at`, which fills a buffer from an offset of the stored bytes, and checks every piece.
/// Gives each piece to `take`. The inner error says what is wrong.
pub(crate) fn check_all<E>(
    space: SpaceId,
    id: ContentId,
    (length, sum): (u64, u64),
    mut read_at: impl FnMut(&mut [u8], u64) -> Result<(), E>,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<Result<(), &'static str>, E> {
    let table_bytes = usize::try_from(piece_count(length) * SUM_BYTES).unwrap_or(usize::MAX);
    let mut table = vec![0; table_bytes];
    read_at(&mut table, length)?;
    let Some(table) = SumTable::decode(table, space, id, sum) else {
        return Ok(Err("the sums of its pieces are damaged"));
    };
    take(length, table.bytes())?;
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    for number in 0..piece_count(length) {
        let at = number * PIECE;
        let piece_bytes = usize::try_from((length - at).min(PIECE)).expect("at most a piece");
        let piece = &mut buffer[..piece_bytes];
        read_at(piece, at)?;
        if !table.matches(number, piece) {
            return Ok(Err("a piece is damaged"));
        }
        take(at, piece)?;
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_a_content_stay_as_they_were_first_written() {
        let (space, id) = (SpaceId([7; 16]), ContentId([9; 16]));
        let mut table = SumTable::default();
        table.add(b"first piece");
        table.add(b"second");
        let expected: [u8; 16] =
            [0xec, 0xfe, 0xb8, 0xe8, 0x3c, 0x43, 0xe4, 0xd8, 0x3a, 0x08, 0x4b, 0x05, 0x11, 0x42, 0x58, 0x30];
        assert_eq!(table.bytes(), expected, "{:02x?}", table.bytes());
        assert_eq!(table.sum(space, id), 0x59ae_9420_f76b_8e16);
    }

    #[test]
    fn exchanged_pieces_and_another_contents_table_are_noticed() {
        let (space, id) = (SpaceId([7; 16]), ContentId([9; 16]));
        let mut table = SumTable::default();
        table.add(b"first");
        table.add(b"second");
        assert!(table.matches(0, b"first") && table.matches(1, b"second"));
        assert!(!table.matches(0, b"second") && !table.matches(2, b"first"));
        let sum = table.sum(space, id);
        let decode = |bytes: &[u8], space, id| SumTable::decode(bytes.to_vec(), space, id, sum);
        assert_eq!(decode(table.bytes(), space, id), Some(table.clone()));
        assert_eq!(decode(table.bytes(), SpaceId([8; 16]), id), None);
        assert_eq!(decode(table.bytes(), space, ContentId([8; 16])), None);
        let exchanged = [&table.bytes()[8..], &table.bytes()[..8]].concat();
        assert_eq!(decode(&exchanged, space, id), None);
    }

    #[test]
    fn a_content_takes_eight_bytes_more_for_each_piece() {
        let cases = [(0, 0), (1, 9), (PIECE, PIECE + 8), (PIECE + 1, PIECE + 17)];
        for (length, expected) in cases {
            assert_eq!(stored_bytes(length), expected);
        }
    }
}
