//! Queues and their messages.
//!
//! A queue name is 3 to 63 lower-case letters, digits and single dashes inside. Metadata names are identifiers
//! that keep the case they were given and compare without it. A pop receipt says when its message becomes
//! visible again and how often it has changed hands, so it holds for one hand only.
//!
//! Invariant: what exists of these types is valid.

use std::fmt;

use crate::{DateTime, ErrorCode, Guid, METADATA_BYTES_MAX, ServiceError};

/// A queue name that obeys the naming rule
/// (<https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata>).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(Box<str>);

impl QueueName {
    /// Characters a name has at least.
    pub const LEN_MIN: usize = 3;
    /// Characters a name has at most.
    pub const LEN_MAX: usize = 63;

    /// Accepts `text` if it obeys the naming rule. Characters are told before the length, as recorded.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        let of_the_alphabet =
            text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !of_the_alphabet || text.starts_with('-') || text.ends_with('-') || text.contains("--") {
            return Err(ErrorCode::InvalidResourceName.into());
        }
        if !(Self::LEN_MIN..=Self::LEN_MAX).contains(&text.len()) {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
        Ok(Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names and values that a client keeps with a queue, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(Vec<(String, String)>);

impl Metadata {
    /// Accepts pairs whose names are identifiers. Of two names that differ only in case the values are joined,
    /// as those of a repeated header are.
    pub fn parse(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, ServiceError> {
        let mut kept: Vec<(String, String)> = Vec::new();
        let mut bytes = 0;
        for (name, value) in pairs {
            if name.is_empty() {
                return Err(
                    ServiceError::new(ErrorCode::EmptyMetadataKey).with_detail("MetadataValue", value)
                );
            }
            let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
            let goes_on_well = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let is_text = value.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t');
            if !starts_well || !goes_on_well || !is_text {
                return Err(ErrorCode::InvalidMetadata.into());
            }
            bytes += name.len() + value.len();
            match kept.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
                Some((_, joined)) => {
                    joined.push(',');
                    joined.push_str(&value);
                }
                None => kept.push((name, value)),
            }
        }
        if bytes > METADATA_BYTES_MAX {
            return Err(ErrorCode::MetadataTooLarge.into());
        }
        kept.sort_by_cached_key(|(name, _)| name.to_ascii_lowercase());
        Ok(Self(kept))
    }

    /// The pairs by name, without regard to case.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Names a message for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub Guid);

impl MessageId {
    /// Reads an id; text of another form names no message.
    pub fn parse(text: &str) -> Option<Self> {
        Guid::parse(text).map(Self)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Shows that its holder was the last to get or update a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PopReceipt {
    /// When the message becomes visible.
    pub next_visible: DateTime,
    /// How often the message had been got or updated, so that no two receipts of a message are alike.
    pub changes: u32,
}

/// What the receipts of the service begin with.
const RECEIPT_FIRST: u32 = 2;
const RECEIPT_SECOND: u32 = 3;

impl PopReceipt {
    /// Its bytes, in the layout of the service; ours puts the number of changes where the service has zeros.
    pub fn to_bytes(self) -> [u8; 20] {
        let since_1601 = self.next_visible.ticks().saturating_sub(DateTime::STORABLE_MIN.ticks());
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&RECEIPT_FIRST.to_le_bytes());
        bytes[4..8].copy_from_slice(&RECEIPT_SECOND.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.changes.to_le_bytes());
        bytes[12..].copy_from_slice(&since_1601.to_le_bytes());
        bytes
    }

    /// Reads the bytes of a receipt; others can only be stale.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 20] = bytes.try_into().ok()?;
        let number = |from: usize| {
            u32::from_le_bytes([bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]])
        };
        if number(0) != RECEIPT_FIRST || number(4) != RECEIPT_SECOND {
            return None;
        }
        let since_1601 = u64::from(number(12)) | u64::from(number(16)) << 32;
        let ticks = since_1601.checked_add(DateTime::STORABLE_MIN.ticks())?;
        Some(Self { next_visible: DateTime::from_ticks(ticks)?, changes: number(8) })
    }
}

/// A message as readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// When it was put.
    pub inserted: DateTime,
    /// When it goes away by itself; `DateTime::MAX` for never.
    pub expires: DateTime,
    /// How often it has been got.
    pub dequeue_count: u32,
    /// Its text.
    pub text: String,
}

/// What whoever puts, gets or updates a message holds of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHold {
    /// Needed to update or delete it.
    pub receipt: PopReceipt,
    /// When others see it.
    pub next_visible: DateTime,
}

impl MessageHold {
    /// The hold that this receipt gives.
    pub fn of(receipt: PopReceipt) -> Self {
        Self { receipt, next_visible: receipt.next_visible }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_name(text: &str, expected: Result<(), ErrorCode>) {
        assert_eq!(QueueName::parse(text).map(|_| ()).map_err(|error| error.code), expected, "{text}");
    }

    #[test]
    fn names_hold_lower_case_letters_digits_and_single_dashes_inside() {
        for text in ["abc", "a-1", "1-2-3", &"q".repeat(63)] {
            check_name(text, Ok(()));
        }
        for text in ["Abc", "a_b", "-ab", "ab-", "a--b", "äpfel", "a b", "A"] {
            check_name(text, Err(ErrorCode::InvalidResourceName));
        }
        for text in ["", "ab", &"q".repeat(64)] {
            check_name(text, Err(ErrorCode::OutOfRangeInput));
        }
    }

    fn check_metadata(pairs: &[(&str, &str)], expected: &str) {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let shown = match Metadata::parse(pairs) {
            Ok(metadata) => metadata.iter().map(|(name, value)| format!("{name}={value};")).collect(),
            Err(error) => error.code.as_str().to_owned(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn metadata_is_sorted_without_regard_to_case_and_keeps_it() {
        check_metadata(&[("foo", "1"), ("UPPER", "2"), ("Capital", "3")], "Capital=3;foo=1;UPPER=2;");
        check_metadata(&[("a", "1"), ("A", "2")], "a=1,2;");
        check_metadata(&[], "");
    }

    #[test]
    fn metadata_names_are_identifiers_and_sizes_are_bounded() {
        check_metadata(&[("_a9", "")], "_a9=;");
        for name in ["9a", "a-b", "a b", "é"] {
            check_metadata(&[(name, "v")], "InvalidMetadata");
        }
        check_metadata(&[("a", "é")], "InvalidMetadata");
        check_metadata(&[("", "v")], "EmptyMetadataKey");
        check_metadata(&[("a", &"v".repeat(METADATA_BYTES_MAX))], "MetadataTooLarge");
        check_metadata(
            &[("a", &"v".repeat(METADATA_BYTES_MAX - 1))],
            &format!("a={};", "v".repeat(METADATA_BYTES_MAX - 1)),
        );
    }

    #[test]
    fn receipts_read_back_and_other_bytes_are_no_receipt() {
        let next_visible = DateTime::parse("2026-01-01T00:00:00.0000001Z").unwrap();
        let receipt = PopReceipt { next_visible, changes: 7 };
        let bytes = receipt.to_bytes();
        assert_eq!(PopReceipt::from_bytes(&bytes), Some(receipt));
        assert_eq!(PopReceipt::from_bytes(&bytes[..19]), None);
        for place in [0, 4, 19] {
            let mut spoilt = bytes;
            spoilt[place] ^= 0x80;
            assert_eq!(PopReceipt::from_bytes(&spoilt), None, "{place}");
        }
    }
}
