//! The primitives of stored records.
//!
//! A flag is a byte 0 or 1, an option a flag and what follows it, a text or list a u32 length and its content, a time
//! u64 ticks; numbers are little-endian. A record begins with its version. Bytes that are not what they should be are
//! never guessed at: every reader gives `None` for them.

use bytes::Bytes;
use tavola_model::DateTime;

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(crate) fn put_time(out: &mut Vec<u8>, time: DateTime) {
    out.extend_from_slice(&time.ticks().to_le_bytes());
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a request body is smaller than 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
}

pub(crate) fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_len(out, items.len());
    items.iter().for_each(|item| put(out, item));
}

pub(crate) fn put_option<T>(out: &mut Vec<u8>, item: Option<&T>, put: impl Fn(&mut Vec<u8>, &T)) {
    out.push(u8::from(item.is_some()));
    if let Some(item) = item {
        put(out, item);
    }
}

/// Takes values off the front of a record; `None` when the bytes are not what they should be.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// What the record is a part of, if bytes that are taken may share it.
    shared: Option<&'a Bytes>,
}

impl<'a> Reader<'a> {
    pub fn of_version(bytes: &'a [u8], version: u8) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        (*first == version).then_some(Self { rest, shared: None })
    }

    /// The same for a record whose `shared_bytes` are not copied.
    pub fn of_shared(bytes: &'a Bytes, version: u8) -> Option<Self> {
        Self::of_version(bytes, version).map(|reader| Self { shared: Some(bytes), ..reader })
    }

    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        self.take(LEN)?.try_into().ok()
    }

    pub fn flag(&mut self) -> Option<bool> {
        match self.array()? {
            [0] => Some(false),
            [1] => Some(true),
            [_] => None,
        }
    }

    pub fn time(&mut self) -> Option<DateTime> {
        DateTime::from_ticks(u64::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.len()?;
        self.take(len)
    }

    /// The same, to keep.
    pub fn shared_bytes(&mut self) -> Option<Bytes> {
        let bytes = self.bytes()?;
        Some(match self.shared {
            Some(shared) => shared.slice_ref(bytes),
            None => Bytes::copy_from_slice(bytes),
        })
    }

    fn len(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    pub fn text(&mut self) -> Option<String> {
        let len = self.len()?;
        String::from_utf8(self.take(len)?.to_vec()).ok()
    }

    pub fn option<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    pub fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.len()?;
        // The length is not trusted with memory: damage may have made it huge.
        let mut items = Vec::new();
        for _ in 0..len {
            items.push(read(self)?);
        }
        Some(items)
    }
}

/// Stored bytes as fixtures write them: hex digits.
#[cfg(test)]
pub(crate) mod fixture {
    pub(crate) fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn bytes(hex: &str) -> Vec<u8> {
        let digit = |letter: u8| u8::try_from(char::from(letter).to_digit(16).unwrap()).unwrap();
        assert!(hex.len().is_multiple_of(2), "two digits are a byte");
        hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }
}
