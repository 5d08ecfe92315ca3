//! Table names.
//!
//! A table name is 3 to 63 ASCII letters or digits and starts with a letter. It keeps the case it was
//! created with and compares without regard to case. Names are checked once, when the route is parsed;
//! nothing downstream checks them again.
//!
//! Invariant: a name is valid for as long as it exists.

use std::fmt;

use super::value::utf16_len;
use crate::{ErrorCode, ServiceError, Text};

/// A table name that obeys the naming rule.
#[derive(Clone, Debug)]
pub struct TableName {
    text: Text,
    folded: Text,
}

impl TableName {
    /// Characters a name has at least.
    pub const LEN_MIN: usize = 3;
    /// Characters a name has at most.
    pub const LEN_MAX: usize = 63;

    /// Accepts `text` if it obeys the naming rule. The service checks the length first.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        if !(Self::LEN_MIN..=Self::LEN_MAX).contains(&utf16_len(text)) {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
        let starts_with_letter = text.starts_with(|c: char| c.is_ascii_alphabetic());
        if !starts_with_letter || !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(ErrorCode::InvalidResourceName.into());
        }
        Ok(Self { text: text.into(), folded: folded(text) })
    }

    /// The tables that Storage Analytics fills
    /// (<https://learn.microsoft.com/rest/api/storageservices/storage-analytics-metrics-table-schema>).
    const METRICS: [&'static str; 13] = [
        "$MetricsCapacityBlob",
        "$MetricsHourPrimaryTransactionsBlob",
        "$MetricsHourPrimaryTransactionsQueue",
        "$MetricsHourPrimaryTransactionsTable",
        "$MetricsHourSecondaryTransactionsBlob",
        "$MetricsHourSecondaryTransactionsQueue",
        "$MetricsHourSecondaryTransactionsTable",
        "$MetricsMinutePrimaryTransactionsBlob",
        "$MetricsMinutePrimaryTransactionsQueue",
        "$MetricsMinutePrimaryTransactionsTable",
        "$MetricsMinuteSecondaryTransactionsBlob",
        "$MetricsMinuteSecondaryTransactionsQueue",
        "$MetricsMinuteSecondaryTransactionsTable",
    ];

    /// A table of metrics, which the service itself makes; a client can only read it.
    pub fn parse_metrics(text: &str) -> Option<Self> {
        let known = Self::METRICS.iter().find(|known| known.eq_ignore_ascii_case(text))?;
        Some(Self { text: (*known).into(), folded: folded(known) })
    }

    /// Whether it is a table of metrics.
    pub fn is_metrics(&self) -> bool {
        self.text.starts_with('$')
    }

    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name in lower case: equal for one table in whatever case it is written.
    pub fn folded(&self) -> &str {
        &self.folded
    }
}

fn folded(text: &str) -> Text {
    text.chars().map(|character| character.to_ascii_lowercase()).collect()
}

impl PartialEq for TableName {
    fn eq(&self, other: &Self) -> bool {
        self.folded == other.folded
    }
}

impl Eq for TableName {}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_metrics_have_names_of_their_own() {
        let table = TableName::parse_metrics("$metricshourprimarytransactionstable").unwrap();
        assert_eq!(table.as_str(), "$MetricsHourPrimaryTransactionsTable");
        assert!(table.is_metrics() && !TableName::parse("Metrics").unwrap().is_metrics());
        assert!(TableName::parse_metrics("$MetricsOther").is_none());
        assert!(TableName::parse(table.as_str()).is_err(), "no client can make it");
    }

    fn check(text: &str, expected: Result<(), ErrorCode>) {
        assert_eq!(TableName::parse(text).map(|_| ()).map_err(|error| error.code), expected, "{text}");
    }

    #[test]
    fn names_of_three_to_sixty_three_letters_and_digits_are_accepted() {
        check("abc", Ok(()));
        check("A12", Ok(()));
        check(&"a".repeat(63), Ok(()));
    }

    #[test]
    fn a_wrong_length_is_told_before_wrong_characters() {
        check("ab", Err(ErrorCode::OutOfRangeInput));
        check("-", Err(ErrorCode::OutOfRangeInput));
        check(&"-".repeat(64), Err(ErrorCode::OutOfRangeInput));
    }

    #[test]
    fn wrong_characters_and_a_leading_digit_are_refused() {
        for text in ["1abc", "my-table", "my_table", "äpfel", "a b"] {
            check(text, Err(ErrorCode::InvalidResourceName));
        }
    }

    #[test]
    fn names_compare_without_case() {
        assert_eq!(TableName::parse("People").unwrap(), TableName::parse("pEOPLE").unwrap());
    }
}
