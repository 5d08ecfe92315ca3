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

/// Who may read a container without credentials (`x-ms-blob-public-access`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PublicAccess {
    /// Nobody.
    #[default]
    None,
    /// Anybody may read its blobs.
    Blob,
    /// Anybody may read its blobs and list them.
    Container,
}

impl PublicAccess {
    /// As headers and listings have it; `None` where there is no header.
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Blob => Some("blob"),
            Self::Container => Some("container"),
        }
    }
}
