//! Chunks: a content cut into rows of a mebibyte, sixteen in a partition, each with the sums of its pieces.

use bytes::{Bytes, BytesMut};
use tavola_engine::{ContentError, ContentId, PIECE_BYTES_MAX, Pieces, SpaceId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Pieces in a chunk. Part of the stored form.
pub(super) const CHUNK_PIECES: u64 = 4;
/// Chunks in a partition. Part of the stored form.
const SEGMENT_CHUNKS: u64 = 16;
const PIECE: u64 = PIECE_BYTES_MAX as u64;
/// Bytes of a full chunk.
pub(super) const CHUNK_BYTES: u64 = CHUNK_PIECES * PIECE;

/// A chunk on its way.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) number: u64,
    pub(super) body: Bytes,
    /// Eight bytes for each piece.
    pub(super) sums: Vec<u8>,
}

/// The position of a chunk: its partition, and its key in that.
pub(super) fn chunk_position(number: u64) -> (i32, i16) {
    let segment = i32::try_from(number / SEGMENT_CHUNKS).expect("contents are smaller than that");
    (segment, i16::try_from(number % SEGMENT_CHUNKS).expect("a small number"))
}

/// Partitions that a content of this length takes.
pub(super) fn segments(length: u64) -> i32 {
    let segments = length.div_ceil(CHUNK_BYTES * SEGMENT_CHUNKS);
    i32::try_from(segments).expect("contents are smaller than that")
}

/// The sum of a piece of a content.
pub(super) fn sum_of(space: SpaceId, id: ContentId, piece: u64, bytes: &[u8]) -> u64 {
    let mut name = [0; 40];
    name[..16].copy_from_slice(&space.0);
    name[16..32].copy_from_slice(&id.0);
    name[32..].copy_from_slice(&piece.to_le_bytes());
    xxh3_64_with_seed(bytes, xxh3_64(&name))
}

/// The next chunk of a source; `None` at its end. The chunk is a copy, so pieces of the source are let go one by one.
pub(super) async fn gather(
    space: SpaceId,
    id: ContentId,
    number: u64,
    pieces: &mut Pieces<'_>,
) -> Result<Option<Chunk>, ContentError> {
    let (mut body, mut sums) = (BytesMut::new(), Vec::new());
    for key in 0..CHUNK_PIECES {
        let Some(piece) = pieces.next().await? else { break };
        sums.extend_from_slice(&sum_of(space, id, number * CHUNK_PIECES + key, &piece).to_le_bytes());
        body.extend_from_slice(&piece);
        if piece.len() < PIECE_BYTES_MAX {
            break;
        }
    }
    Ok((!body.is_empty()).then(|| Chunk { number, body: body.freeze(), sums }))
}

/// Cuts a stored chunk of a content of this length into its pieces, and checks each.
pub(super) fn check(
    space: SpaceId,
    id: ContentId,
    length: u64,
    chunk: &Chunk,
) -> Result<Vec<Bytes>, &'static str> {
    let at = chunk.number * CHUNK_BYTES;
    if chunk.body.len() as u64 != length.saturating_sub(at).min(CHUNK_BYTES) {
        return Err("a chunk has another length");
    }
    let count = chunk.body.len().div_ceil(PIECE_BYTES_MAX);
    if chunk.sums.len() != count * 8 {
        return Err("the sums of a chunk are damaged");
    }
    let mut pieces = Vec::with_capacity(count);
    for (key, sum) in (0..).zip(chunk.sums.chunks_exact(8)) {
        let start = key * PIECE_BYTES_MAX;
        let piece = chunk.body.slice(start..(start + PIECE_BYTES_MAX).min(chunk.body.len()));
        let number = chunk.number * CHUNK_PIECES + key as u64;
        if sum_of(space, id, number, &piece).to_le_bytes() != *sum {
            return Err("a piece is damaged");
        }
        pieces.push(piece);
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId([7; 16]);
    const ID: ContentId = ContentId([9; 16]);

    fn chunk(number: u64, body: &[u8]) -> Chunk {
        let mut sums = Vec::new();
        for (key, piece) in (0..).zip(body.chunks(PIECE_BYTES_MAX)) {
            sums.extend_from_slice(&sum_of(SPACE, ID, number * CHUNK_PIECES + key, piece).to_le_bytes());
        }
        Chunk { number, body: Bytes::copy_from_slice(body), sums }
    }

    #[test]
    fn chunks_are_spread_over_partitions_of_sixteen() {
        assert_eq!([0, 15, 16, 33].map(chunk_position), [(0, 0), (0, 15), (1, 0), (2, 1)]);
        let segment = 16 * CHUNK_BYTES;
        assert_eq!([0, 1, segment, segment + 1].map(segments), [0, 1, 1, 2]);
    }

    #[test]
    fn a_sum_stays_as_it_was_first_written() {
        assert_eq!(sum_of(SPACE, ID, 3, b"piece"), 0x0fb4_459a_ee8e_669e);
    }

    #[test]
    fn a_chunk_of_another_place_content_or_length_is_noticed() {
        let body = vec![3; PIECE_BYTES_MAX + 5];
        let length = CHUNK_BYTES + body.len() as u64;
        let good = chunk(1, &body);
        assert_eq!(check(SPACE, ID, length, &good).unwrap().concat(), body);
        assert!(check(SPACE, ID, length + 1, &good).is_err());
        assert!(check(SPACE, ContentId([8; 16]), length, &good).is_err());
        assert!(check(SpaceId([8; 16]), ID, length, &good).is_err());
        assert!(check(SPACE, ID, length - CHUNK_BYTES, &Chunk { number: 0, ..good.clone() }).is_err());
        let mut spoilt = body.clone();
        spoilt[PIECE_BYTES_MAX] ^= 1;
        assert!(check(SPACE, ID, length, &Chunk { body: spoilt.into(), ..good.clone() }).is_err());
        assert!(check(SPACE, ID, length, &Chunk { sums: vec![], ..good }).is_err());
    }
}
