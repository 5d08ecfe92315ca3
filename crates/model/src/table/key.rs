//! PartitionKey and RowKey, and the bytes that keep their order.
//!
//! `KeyBytes` says how they sort.

use std::borrow::Cow;
use std::fmt;

use super::limits::KEY_UNITS_MAX;
use crate::{ErrorCode, KeyBytes, ServiceError, Text};

/// A PartitionKey or RowKey that the service accepts. It may be empty.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Text);

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

    /// The same bytes, borrowed where they are those of the text.
    pub fn as_bytes(&self) -> Cow<'_, [u8]> {
        KeyBytes::encode(&self.0)
    }

    /// The key stored as these bytes; `None` if they were not made by `to_bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        KeyBytes::to_text(bytes).map(|text| Self(text.as_ref().into()))
    }
}

/// Keys are user data and stay out of logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
}

fn is_forbidden(character: char) -> bool {
    matches!(character, '/' | '\\' | '#' | '?' | '\u{0}'..='\u{1F}' | '\u{7F}'..='\u{9F}')
}

#[cfg(test)]
mod tests {
    use super::*;

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
