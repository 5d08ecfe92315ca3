//! Stored access policies: named limits that a SAS can refer to.

use crate::DateTime;

/// A stored access policy under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedIdentifier {
    /// Its id, at most 64 characters.
    pub id: String,
    /// The limits, if any were given.
    pub policy: Option<AccessPolicy>,
}

/// Limits of a stored access policy. What is missing here must come with the SAS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Valid from.
    pub start: Option<DateTime>,
    /// Valid until.
    pub expiry: Option<DateTime>,
    /// Permission letters as they were written.
    pub permission: Option<String>,
}
