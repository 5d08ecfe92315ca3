//! The stored form of a row.
//!
//! The key keeps the order of (partition, row): the partition with every `00` written as `00 FF`, then `00 01`,
//! then the row. The value is a format byte, a checksum, the version and the body. The checksum also covers the
//! space and the key, so that a row found under another row's key is as bad as a flipped bit.
//! `docs/formats.md` has the full text; a change there needs a new format byte and a reader for this one.

use bytes::{Buf, Bytes};
use tavola_engine::{SpaceId, StoredRow};
use tavola_model::DateTime;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const FORMAT: u8 = 1;
const CHECKSUM_AT: usize = 1;
const TICK_AT: usize = 9;
const BODY_AT: usize = 17;

const ZERO: u8 = 0x00;
const ZERO_ESCAPED: u8 = 0xFF;
const PARTITION_END: u8 = 0x01;

/// Appends the stored key of a row.
pub(crate) fn encode_key(partition: &[u8], row: &[u8], key: &mut Vec<u8>) {
    key.reserve(partition.len() + 2 + row.len());
    let mut parts = partition.split(|&byte| byte == ZERO);
    key.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        key.extend_from_slice(&[ZERO, ZERO_ESCAPED]);
        key.extend_from_slice(part);
    }
    key.extend_from_slice(&[ZERO, PARTITION_END]);
    key.extend_from_slice(row);
}

/// The partition and row of a stored key, or `None` if it is not one. `scratch` is used only for a partition
/// that holds a zero byte.
pub(crate) fn decode_key<'a>(key: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<(&'a [u8], &'a [u8])> {
    scratch.clear();
    let mut start = 0;
    loop {
        let zero = start + key.get(start..)?.iter().position(|&byte| byte == ZERO)?;
        match *key.get(zero + 1)? {
            PARTITION_END if scratch.is_empty() => return Some((&key[..zero], &key[zero + 2..])),
            PARTITION_END => {
                scratch.extend_from_slice(&key[start..zero]);
                return Some((scratch, &key[zero + 2..]));
            }
            ZERO_ESCAPED => {
                scratch.extend_from_slice(&key[start..=zero]);
                start = zero + 2;
            }
            _ => return None,
        }
    }
}

/// The stored value of a row.
pub(crate) fn encode_value(space: SpaceId, key: &[u8], version: DateTime, body: &[u8]) -> Bytes {
    let mut value = Vec::with_capacity(BODY_AT + body.len());
    value.push(FORMAT);
    value.extend_from_slice(&[0; TICK_AT - CHECKSUM_AT]);
    value.extend_from_slice(&version.ticks().to_le_bytes());
    value.extend_from_slice(body);
    let checksum = checksum(space, key, &value[TICK_AT..]);
    value[CHECKSUM_AT..TICK_AT].copy_from_slice(&checksum.to_le_bytes());
    value.into()
}

/// The row in a stored value, or what is wrong with it.
pub(crate) fn decode_value(space: SpaceId, key: &[u8], mut value: Bytes) -> Result<StoredRow, &'static str> {
    if value.first() != Some(&FORMAT) {
        return Err("unknown row format");
    }
    let stored_checksum = read_u64(&value, CHECKSUM_AT).ok_or("row is too short")?;
    let ticks = read_u64(&value, TICK_AT).ok_or("row is too short")?;
    if checksum(space, key, &value[TICK_AT..]) != stored_checksum {
        return Err("checksum does not match");
    }
    let version = DateTime::from_ticks(ticks).ok_or("version is out of range")?;
    value.advance(BODY_AT);
    Ok(StoredRow { version, body: value })
}

/// The body in a value that was just encoded.
pub(crate) fn body_of(value: &Bytes) -> Bytes {
    value.slice(BODY_AT..)
}

fn checksum(space: SpaceId, key: &[u8], version_and_body: &[u8]) -> u64 {
    let space_seed = xxh3_64_with_seed(&space.0, 0);
    xxh3_64_with_seed(version_and_body, xxh3_64_with_seed(key, space_seed))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId([7; 16]);

    fn key_of(partition: &[u8], row: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        encode_key(partition, row, &mut key);
        key
    }

    #[test]
    fn keys_sort_as_partition_then_row_and_turn_back() {
        let parts: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"\0\x01", b"\x01", b"a", b"a\0", b"a\0b", b"\xFF\xFF"];
        let mut pairs: Vec<_> = parts.iter().flat_map(|p| parts.iter().map(move |r| (*p, *r))).collect();
        pairs.sort();
        let keys: Vec<_> = pairs.iter().map(|(partition, row)| key_of(partition, row)).collect();
        assert!(keys.is_sorted());
        for (key, pair) in keys.iter().zip(&pairs) {
            assert_eq!(decode_key(key, &mut Vec::new()), Some(*pair));
        }
    }

    #[test]
    fn other_bytes_are_no_key() {
        for bytes in [&b""[..], b"abc", b"a\0", b"a\0\x02", b"a\0\xFF", b"a\0\xFFb\0"] {
            assert_eq!(decode_key(bytes, &mut Vec::new()), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_value_turns_back_into_its_row() {
        for body in [&b""[..], b"x", &[9; 5000]] {
            let version = DateTime::from_ticks(123_456_789).unwrap();
            let value = encode_value(SPACE, b"key", version, body);
            let row = decode_value(SPACE, b"key", value).unwrap();
            assert_eq!(row, StoredRow { version, body: Bytes::copy_from_slice(body) });
        }
    }

    #[test]
    fn format_1_stays_as_it_was_first_written() {
        let key = key_of(b"a\0b", b"row");
        assert_eq!(key, b"a\0\xFFb\0\x01row");
        let value = encode_value(SPACE, &key, DateTime::from_ticks(0x0102_0304_0506_0708).unwrap(), b"body");
        let expected = b"\x01\x30\x0f\x59\xd8\xc8\x8e\xce\x33\x08\x07\x06\x05\x04\x03\x02\x01body";
        assert_eq!(value[..], expected[..], "{:02x?}", &value[..]);
    }

    #[test]
    fn every_flipped_bit_and_a_wrong_place_are_noticed() {
        let value = encode_value(SPACE, b"key", DateTime::from_ticks(5).unwrap(), b"body");
        for bit in 0..value.len() * 8 {
            let mut flipped = value.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_value(SPACE, b"key", flipped.into()).is_err(), "bit {bit}");
        }
        for length in 0..value.len() {
            assert!(decode_value(SPACE, b"key", value.slice(..length)).is_err(), "length {length}");
        }
        assert!(decode_value(SPACE, b"kez", value.clone()).is_err());
        assert!(decode_value(SpaceId([8; 16]), b"key", value).is_err());
    }
}
