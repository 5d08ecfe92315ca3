//! PartitionKey and RowKey, and the bytes that keep their order.
//!
//! The service orders keys by UTF-16 code unit. `KeyBytes` is CESU-8: UTF-8 for the basic plane, and each
//! surrogate of a supplementary character as three bytes of its own. Comparing those bytes gives exactly
//! UTF-16 order, and for nearly every key they are the UTF-8 text itself. Both engines store these bytes, so
//! order and continuation tokens mean the same on each.

use std::fmt;

use super::limits::KEY_UNITS_MAX;
use crate::{ErrorCode, ServiceError};

/// A PartitionKey or RowKey that the service accepts. It may be empty.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Box<str>);

impl Key {
    /// Accepts `text` if it is short enough and has no forbidden character
    /// (<https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#characters-disallowed-in-key-fields>).
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        if text.len() > KEY_UNITS_MAX && text.encode_utf16().count() > KEY_UNITS_MAX {
            return Err(ErrorCode::KeyValueTooLarge.into());
        }
        if text.chars().any(is_forbidden) {
            return Err(ServiceError::with_message(
                ErrorCode::OutOfRangeInput,
                "One of the request inputs is out of range.",
            ));
        }
        Ok(Self(text.into()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes that sort as the service sorts keys.
    pub fn to_bytes(&self) -> KeyBytes {
        KeyBytes::from_text(&self.0)
    }

    /// The key stored as these bytes; `None` if they were not made by `to_bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(Self(text.into())),
            Err(_) => cesu8_to_text(bytes).map(|text| Self(text.into())),
        }
    }
}

/// Keys are user data and stay out of logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
}

/// A key, or any text a filter compares a key with, in bytes that sort by UTF-16 code unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyBytes(Vec<u8>);

impl KeyBytes {
    /// Encodes any text.
    pub fn from_text(text: &str) -> Self {
        if !text.bytes().any(|byte| byte >= 0xF0) {
            return Self(text.as_bytes().to_vec());
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
        Self(bytes)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, taken out.
    pub fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

fn is_forbidden(character: char) -> bool {
    matches!(character, '/' | '\\' | '#' | '?' | '\u{0}'..='\u{1F}' | '\u{7F}'..='\u{9F}')
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

    #[test]
    fn bytes_turn_back_into_the_same_key() {
        for text in ["", "plain", "é€", "\u{1F600}", "mixed\u{10FFFF}end\u{E000}"] {
            let key = Key::parse(text).unwrap();
            assert_eq!(Key::from_bytes(key.to_bytes().as_slice()).unwrap().as_str(), text);
        }
        assert_eq!(Key::from_bytes(&[0xED, 0xA0, 0x80]), None);
        assert_eq!(Key::from_bytes(&[0xFF]), None);
    }

    #[test]
    fn keys_hold_up_to_512_units_and_no_forbidden_character() {
        assert!(Key::parse(&"k".repeat(512)).is_ok());
        assert!(Key::parse(&"é".repeat(512)).is_ok());
        assert_eq!(Key::parse(&"k".repeat(513)).unwrap_err().code, ErrorCode::KeyValueTooLarge);
        assert_eq!(Key::parse(&"\u{1F600}".repeat(257)).unwrap_err().code, ErrorCode::KeyValueTooLarge);
        for bad in ["/", "\\", "#", "?", "a\u{0}", "\u{1F}", "\u{7F}", "\u{9F}"] {
            assert_eq!(Key::parse(bad).unwrap_err().code, ErrorCode::OutOfRangeInput, "{bad:?}");
        }
        for good in ["%", "'", "\"", "@", "+", " ", ":", "\u{A0}"] {
            assert!(Key::parse(good).is_ok(), "{good:?}");
        }
    }
}
