//! The payload of a journal record: the rows that a commit changes, one after the other.
//!
//! ```text
//! u8 tree | u8 kind (1 put, 2 delete) | u16 key length | u32 value length | key | value
//! ```

use super::record::RECORD_HEADER_LEN;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const HEAD_LEN: usize = 8;

/// A payload that grows, in a buffer that has bytes free for the record's header in front.
pub(crate) struct Payload {
    pub(super) buffer: Vec<u8>,
}

/// One change of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedRow<'a> {
    pub(crate) tree: usize,
    pub(crate) key: &'a [u8],
    /// `None` if the row is deleted.
    pub(crate) value: Option<&'a [u8]>,
}

impl Payload {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; RECORD_HEADER_LEN] }
    }

    /// Adds a change.
    pub(crate) fn push(&mut self, change: ChangedRow<'_>) {
        let ChangedRow { tree, key, value } = change;
        let (kind, value) = value.map_or((DELETE, &[][..]), |value| (PUT, value));
        self.buffer.push(u8::try_from(tree).expect("there are few trees"));
        self.buffer.push(kind);
        let key_len = u16::try_from(key.len()).expect("keys were measured before they were queued");
        let value_len =
            u32::try_from(value.len()).expect("transactions were measured before they were queued");
        self.buffer.extend_from_slice(&key_len.to_le_bytes());
        self.buffer.extend_from_slice(&value_len.to_le_bytes());
        self.buffer.extend_from_slice(key);
        self.buffer.extend_from_slice(value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.len() == RECORD_HEADER_LEN
    }

    /// Bytes of the record that this makes.
    pub(crate) fn record_len(&self) -> usize {
        self.buffer.len()
    }

    /// Forgets the changes, and most of an unusually large buffer.
    pub(crate) fn clear(&mut self) {
        const KEPT: usize = 1 << 20;
        self.buffer.truncate(RECORD_HEADER_LEN);
        self.buffer.shrink_to(KEPT);
    }
}

/// The changes in a payload; the last is `None` if the payload is malformed.
pub(crate) fn changes(payload: &[u8]) -> impl Iterator<Item = Option<ChangedRow<'_>>> {
    let mut rest = Some(payload);
    std::iter::from_fn(move || {
        let bytes = rest.filter(|bytes| !bytes.is_empty())?;
        let read = read_change(bytes);
        rest = read.map(|(_, len)| &bytes[len..]);
        Some(read.map(|(change, _)| change))
    })
}

fn read_change(bytes: &[u8]) -> Option<(ChangedRow<'_>, usize)> {
    let head = bytes.get(..HEAD_LEN)?;
    let key_len = usize::from(u16::from_le_bytes([head[2], head[3]]));
    let value_len = usize::try_from(u32::from_le_bytes([head[4], head[5], head[6], head[7]])).ok()?;
    let value_at = HEAD_LEN + key_len;
    let key = bytes.get(HEAD_LEN..value_at)?;
    let value = bytes.get(value_at..value_at.checked_add(value_len)?)?;
    let value = match head[1] {
        PUT => Some(value),
        DELETE if value.is_empty() => None,
        _ => return None,
    };
    Some((ChangedRow { tree: usize::from(head[0]), key, value }, value_at + value_len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_changes_are_these_and_are_read_back() {
        let put = ChangedRow { tree: 2, key: b"key", value: Some(b"value") };
        let delete = ChangedRow { tree: 0, key: b"k", value: None };
        let mut payload = Payload::new();
        assert!(payload.is_empty());
        payload.push(put);
        payload.push(delete);
        let bytes = &payload.buffer[RECORD_HEADER_LEN..];
        assert_eq!(bytes, b"\x02\x01\x03\x00\x05\x00\x00\x00keyvalue\x00\x02\x01\x00\x00\x00\x00\x00k");
        assert_eq!(changes(bytes).collect::<Vec<_>>(), [Some(put), Some(delete)]);
        for length in 1..bytes.len() {
            let read: Vec<_> = changes(&bytes[..length]).collect();
            let is_at_a_boundary = length == 16;
            assert_eq!(read.iter().all(Option::is_some), is_at_a_boundary, "length {length}");
        }
    }
}
