//! The eight types a property can have, and a borrowed value of one.

use crate::{DateTime, Guid};

/// The type of a property value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum EdmType {
    Binary,
    Boolean,
    DateTime,
    Double,
    Guid,
    Int32,
    Int64,
    String,
}

impl EdmType {
    /// All types.
    pub const ALL: [EdmType; 8] = [
        EdmType::Binary,
        EdmType::Boolean,
        EdmType::DateTime,
        EdmType::Double,
        EdmType::Guid,
        EdmType::Int32,
        EdmType::Int64,
        EdmType::String,
    ];

    /// `Edm.Int32` and the like.
    pub fn as_str(self) -> &'static str {
        match self {
            EdmType::Binary => "Edm.Binary",
            EdmType::Boolean => "Edm.Boolean",
            EdmType::DateTime => "Edm.DateTime",
            EdmType::Double => "Edm.Double",
            EdmType::Guid => "Edm.Guid",
            EdmType::Int32 => "Edm.Int32",
            EdmType::Int64 => "Edm.Int64",
            EdmType::String => "Edm.String",
        }
    }

    /// Reads `Edm.Int32` and the like, in exactly that case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|edm_type| edm_type.as_str() == text)
    }
}

/// A value of one of the eight types, borrowed from where it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum EdmValue<'a> {
    Binary(&'a [u8]),
    Boolean(bool),
    DateTime(DateTime),
    Double(f64),
    Guid(Guid),
    Int32(i32),
    Int64(i64),
    String(&'a str),
}

impl EdmValue<'_> {
    /// The type of this value.
    pub fn edm_type(&self) -> EdmType {
        match self {
            EdmValue::Binary(_) => EdmType::Binary,
            EdmValue::Boolean(_) => EdmType::Boolean,
            EdmValue::DateTime(_) => EdmType::DateTime,
            EdmValue::Double(_) => EdmType::Double,
            EdmValue::Guid(_) => EdmType::Guid,
            EdmValue::Int32(_) => EdmType::Int32,
            EdmValue::Int64(_) => EdmType::Int64,
            EdmValue::String(_) => EdmType::String,
        }
    }

    /// Bytes this value counts for in the size of an entity (the service's billing formula).
    pub fn counted_bytes(&self) -> usize {
        match self {
            EdmValue::Binary(bytes) => bytes.len() + 4,
            EdmValue::Boolean(_) => 1,
            EdmValue::DateTime(_) | EdmValue::Double(_) | EdmValue::Int64(_) => 8,
            EdmValue::Guid(_) => 16,
            EdmValue::Int32(_) => 4,
            EdmValue::String(text) => 2 * utf16_len(text) + 4,
        }
    }
}

/// UTF-16 units of a text.
pub(crate) fn utf16_len(text: &str) -> usize {
    if is_ascii(text.as_bytes()) { text.len() } else { text.encode_utf16().count() }
}

/// Whether bytes are ASCII, eight at a time to the last: the library's own test takes short texts byte by byte.
pub(crate) fn is_ascii(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word));
    let rest = rest.iter().fold(0, |all, byte| all | byte);
    words & u64::from_ne_bytes([0x80; 8]) == 0 && rest < 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_beyond_ascii_is_found_wherever_it_is() {
        for length in 0..40 {
            let mut bytes = vec![0x7F; length];
            assert!(is_ascii(&bytes), "{length}");
            for index in 0..length {
                bytes[index] = 0x80;
                assert!(!is_ascii(&bytes), "{index} of {length}");
                bytes[index] = 0;
            }
        }
    }
}
