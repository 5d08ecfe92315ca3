//! Queue names.
//!
//! A queue name is 3 to 63 lower-case letters, digits and single dashes inside.
//!
//! Invariant: a name is valid for as long as it exists.

use std::fmt;

use crate::{ErrorCode, ServiceError, Text};

/// A queue name that obeys the naming rule
/// (<https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata>).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(Text);

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
}
