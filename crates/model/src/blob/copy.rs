//! Copies: where from, and how far they are.

use crate::{AccountName, BlobTarget, DateTime, Guid, Query};

/// The source of a copy, as its address names it.
#[derive(Clone, PartialEq, Eq)]
pub struct CopySource {
    /// The address as it was sent, without the signature of a token: it is shown to whoever reads the properties.
    pub shown: String,
    /// Host and port.
    pub host: String,
    /// The raw path.
    pub path: String,
    /// The query, with the token if there is one: never shown, never logged.
    pub query: Query<'static>,
    /// The account and the blob, if the address has the form of one of ours.
    pub target: Option<(AccountName, BlobTarget)>,
    /// `x-ms-copy-source-authorization`: never shown, never logged.
    pub authorization: Option<String>,
    /// Over TLS.
    pub is_secure: bool,
}

impl std::fmt::Debug for CopySource {
    /// Without what must not be logged.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CopySource").field(&self.shown).finish()
    }
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum CopyStatus {
    Pending,
    Success,
    Aborted,
    Failed,
}

impl CopyStatus {
    /// As headers and listings have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
        }
    }
}

/// The id of a copy.
pub type CopyId = Guid;

/// The last copy into a blob, as properties show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyShown {
    /// Its id.
    pub id: CopyId,
    /// The address of its source.
    pub source: String,
    /// How far it is.
    pub status: CopyStatus,
    /// Why it failed.
    pub status_description: Option<String>,
    /// Bytes copied.
    pub copied: u64,
    /// Bytes to copy.
    pub total: u64,
    /// When it ended.
    pub completed: Option<DateTime>,
}
