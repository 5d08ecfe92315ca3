//! Account names.
//!
//! Invariant: a name is valid for as long as it exists.

use std::fmt;

use crate::Text;

/// An account name: 3 to 24 lower-case letters and digits
/// (<https://learn.microsoft.com/azure/storage/common/storage-account-overview#storage-account-name>).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountName(Text);

impl AccountName {
    /// Accepts `text` if it obeys the naming rule.
    pub fn parse(text: &str) -> Option<Self> {
        let valid = (3..=24).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        valid.then(|| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
