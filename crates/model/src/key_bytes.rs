//! Bytes of text that sort as the services sort: by UTF-16 code unit.
//!
//! `KeyBytes` is CESU-8: UTF-8 for the basic plane, and each surrogate of a supplementary character as three bytes of its
//! own. Comparing those bytes gives exactly UTF-16 order, and for nearly every text they are the UTF-8 text itself. All
//! engines store these bytes, so order and continuation tokens mean the same on each.

use std::borrow::Cow;

/// A key, or any text a filter compares a key with, in bytes that sort by UTF-16 code unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyBytes(Vec<u8>);

impl KeyBytes {
    /// Encodes any text.
    pub fn from_text(text: &str) -> Self {
        Self(Self::encode(text).into_owned())
    }

    /// Encodes any text; nearly every one is its own encoding.
    pub fn encode(text: &str) -> Cow<'_, [u8]> {
        if !text.bytes().any(|byte| byte >= 0xF0) {
            return Cow::Borrowed(text.as_bytes());
        }
        let mut bytes = Vec::with_capacity(text.len() + 8);
        for character in text.chars() {
            let mut units = [0u16; 2];
            let units = character.encode_utf16(&mut units);
            if units.len() == 1 {
                bytes.extend_from_slice(character.encode_utf8(&mut [0u8; 4]).as_bytes());
                continue;
            }
            for unit in units {
                let [high, low] = unit.to_be_bytes();
                bytes.extend_from_slice(&[
                    0xE0 | (high >> 4),
                    0x80 | ((high & 0x0F) << 2) | (low >> 6),
                    0x80 | (low & 0x3F),
                ]);
            }
        }
        Cow::Owned(bytes)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The text that was stored as these bytes; `None` if they were not made by `from_text`.
    pub fn to_text(bytes: &[u8]) -> Option<Cow<'_, str>> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(Cow::Borrowed(text)),
            Err(_) => cesu8_to_text(bytes).map(Cow::Owned),
        }
    }

    /// The bytes, taken out.
    pub fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

fn cesu8_to_text(bytes: &[u8]) -> Option<String> {
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, _)) = rest.split_first() {
        let length = match first {
            0x00..=0x7F => 1,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => return None,
        };
        let chunk = rest.get(..length)?;
        let mut unit = u16::from(first) & [0x7F, 0x1F, 0x0F][length - 1];
        for byte in &chunk[1..] {
            if byte & 0xC0 != 0x80 {
                return None;
            }
            unit = (unit << 6) | u16::from(byte & 0x3F);
        }
        units.push(unit);
        rest = &rest[length..];
    }
    String::from_utf16(&units).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_sort_as_utf_16_units_do() {
        let mut texts =
            vec!["", "a", "A", "é", "\u{E000}", "\u{FFFD}", "\u{10000}", "\u{1F600}x", "z", "aa", "\u{D7FF}"];
        let mut by_units = texts.clone();
        by_units.sort_by_key(|text| text.encode_utf16().collect::<Vec<_>>());
        texts.sort_by_key(|text| KeyBytes::from_text(text));
        assert_eq!(texts, by_units);
    }
}
