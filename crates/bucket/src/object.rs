//! What an object is named and what is in it. Both are stored forms: they do not change.
//!
//! ```text
//! name:   root / space, 32 hex digits / hour of birth, 9 digits / content id, 32 hex digits
//! object: the pieces of the content, each with the u64 sum behind it
//!         | owner's partition | u32 its length | u64 length of the content | u64 sum of the trailer | "TVC1"
//! ```
//!
//! Numbers are little-endian. Every piece but the last is full. A sum is seeded with the name of the content and the
//! number of its piece, so that neither pieces nor objects can be exchanged unseen.

use bytes::{BufMut, Bytes};
use object_store::path::Path;
use tavola_engine::{ContentId, Owner, PIECE_BYTES_MAX, SpaceId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(crate) const PIECE: u64 = PIECE_BYTES_MAX as u64;
/// Bytes of the sum behind a piece.
pub(crate) const SUM: usize = 8;
/// Bytes of a full piece with its sum.
pub(crate) const STORED_PIECE: u64 = PIECE + SUM as u64;
/// Bytes of a trailer without the owner.
pub(crate) const TRAILER_FIXED: usize = 24;
/// Bytes of the longest trailer.
pub(crate) const TRAILER_MAX: usize = TRAILER_FIXED + Owner::PARTITION_BYTES_MAX;
const MAGIC: &[u8; 4] = b"TVC1";
/// In place of the number of a piece, for the sum of the trailer.
const TRAILER: u64 = u64::MAX;
const HOUR_TICKS: u64 = 3600 * 10_000_000;

/// The name of a content's object.
pub(crate) fn path_of(root: &Path, space: SpaceId, id: ContentId) -> Path {
    hour_path(&space_path(root, space), hour_of(id)).join(id.to_string())
}

/// What the names of a space's objects begin with.
pub(crate) fn space_path(root: &Path, space: SpaceId) -> Path {
    root.clone().join(hex(&space.0))
}

/// What the names of an hour's objects begin with.
pub(crate) fn hour_path(space_path: &Path, hour: u64) -> Path {
    space_path.clone().join(format!("{hour:09}"))
}

/// The hour in which a content was born.
pub(crate) fn hour_of(id: ContentId) -> u64 {
    let ticks = id.0.first_chunk().map_or(0, |time| u64::from_be_bytes(*time));
    ticks / HOUR_TICKS
}

/// The last part of a path as sixteen bytes, if it is their hex digits.
pub(crate) fn parse_name(path: &Path) -> Option<[u8; 16]> {
    let name = path.filename().filter(|name| name.len() == 32 && name.is_ascii())?;
    let mut bytes = [0; 16];
    for (byte, digits) in bytes.iter_mut().zip(name.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// The last part of a path as an hour.
pub(crate) fn parse_hour(path: &Path) -> Option<u64> {
    path.filename().filter(|name| name.len() == 9)?.parse().ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that the pieces of a content of this length take with their sums.
pub(crate) fn stored_length(length: u64) -> u64 {
    length + length.div_ceil(PIECE) * SUM as u64
}

/// The sum of a piece of a content.
pub(crate) fn sum_of(space: SpaceId, id: ContentId, piece: u64, bytes: &[u8]) -> u64 {
    let mut name = [0; 40];
    name[..16].copy_from_slice(&space.0);
    name[16..32].copy_from_slice(&id.0);
    name[32..].copy_from_slice(&piece.to_le_bytes());
    xxh3_64_with_seed(bytes, xxh3_64(&name))
}

/// The bytes of a piece that is followed by its sum, if they are its bytes.
pub(crate) fn check_piece(space: SpaceId, id: ContentId, number: u64, mut stored: Bytes) -> Option<Bytes> {
    let sum = stored.split_off(stored.len().checked_sub(SUM)?);
    (sum_of(space, id, number, &stored).to_le_bytes() == *sum).then_some(stored)
}

/// What stands behind the pieces.
pub(crate) fn trailer(owner: &Owner, id: ContentId, length: u64) -> Vec<u8> {
    assert!(owner.partition.len() <= Owner::PARTITION_BYTES_MAX, "the owner's name is not too long");
    let mut bytes = owner.partition.clone();
    bytes.put_u32_le(u32::try_from(owner.partition.len()).expect("at most 4,096"));
    bytes.put_u64_le(length);
    bytes.put_u64_le(sum_of(owner.space, id, TRAILER, &bytes));
    bytes.put_slice(MAGIC);
    bytes
}

/// What a trailer tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trailer {
    /// Everything.
    Told { partition: Vec<u8>, length: u64 },
    /// The owner's name begins before these bytes: the trailer has this many.
    Longer(usize),
    /// These are not the last bytes of this content.
    Malformed,
}

/// Reads the trailer at the end of these bytes.
pub(crate) fn read_trailer(space: SpaceId, id: ContentId, tail: &[u8]) -> Trailer {
    let Some((before, fixed)) = tail.split_last_chunk::<TRAILER_FIXED>() else { return Trailer::Malformed };
    let number = |at: usize| fixed[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    let owner_length = fixed[..4].try_into().map_or(0, u32::from_le_bytes) as usize;
    if fixed[20..] != *MAGIC || owner_length > Owner::PARTITION_BYTES_MAX {
        return Trailer::Malformed;
    }
    let Some(start) = before.len().checked_sub(owner_length) else {
        return Trailer::Longer(owner_length + TRAILER_FIXED);
    };
    let summed = &tail[start..before.len() + 12];
    if sum_of(space, id, TRAILER, summed) != number(12) {
        return Trailer::Malformed;
    }
    Trailer::Told { partition: before[start..].to_vec(), length: number(4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId([0xAB; 16]);
    const ID: ContentId = ContentId([8, 0xDE, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7]);

    fn owner(length: usize) -> Owner {
        Owner { space: SPACE, partition: vec![b'n'; length] }
    }

    #[test]
    fn a_trailer_tells_the_owner_and_the_length_and_how_many_bytes_it_needs() {
        for length in [0, 1, 4096] {
            let bytes = trailer(&owner(length), ID, 77);
            assert!(bytes.len() <= TRAILER_MAX);
            let told = Trailer::Told { partition: vec![b'n'; length], length: 77 };
            assert_eq!(read_trailer(SPACE, ID, &bytes), told);
            assert_eq!(read_trailer(SPACE, ID, &[b"body", &bytes[..]].concat()), told);
            if length > 0 {
                assert_eq!(read_trailer(SPACE, ID, &bytes[1..]), Trailer::Longer(bytes.len()));
            }
        }
    }

    #[test]
    fn a_trailer_of_another_content_or_with_a_flipped_bit_is_malformed() {
        let bytes = trailer(&owner(3), ID, 77);
        assert_eq!(read_trailer(SPACE, ContentId::MAX, &bytes), Trailer::Malformed);
        assert_eq!(read_trailer(SPACE, ID, &bytes[bytes.len() - 23..]), Trailer::Malformed);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(!matches!(read_trailer(SPACE, ID, &flipped), Trailer::Told { .. }), "{at}");
        }
    }

    #[test]
    fn names_and_bytes_keep_their_form() {
        let path = path_of(&Path::from("blobs"), SPACE, ID);
        assert_eq!(
            path.as_ref(),
            "blobs/abababababababababababababababab/017748561/08de0000000000010000000000000007"
        );
        assert_eq!(parse_name(&path), Some(ID.0));
        assert_eq!(parse_hour(&hour_path(&space_path(&Path::default(), SPACE), 12)), Some(12));
        let stored = [sum_of(SPACE, ID, 3, b"bytes").to_le_bytes().to_vec(), trailer(&owner(1), ID, 5)];
        assert_eq!(
            stored.map(|bytes| hex(&bytes)),
            ["16f7a26033d1bdb3", "6e010000000500000000000000330136270e60cb0454564331"]
        );
    }

    #[test]
    fn a_piece_is_checked_with_its_name_and_number() {
        let mut stored = b"bytes".to_vec();
        stored.extend_from_slice(&sum_of(SPACE, ID, 3, b"bytes").to_le_bytes());
        let check = |id, number, stored: &[u8]| {
            check_piece(SPACE, id, number, Bytes::copy_from_slice(stored)).is_some()
        };
        assert!(check(ID, 3, &stored));
        assert!(!check(ID, 4, &stored));
        assert!(!check(ContentId::MIN, 3, &stored));
        assert!(!check(ID, 3, &stored[1..]));
        assert!(!check(ID, 3, b"short"));
    }
}
