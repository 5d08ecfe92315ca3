//! The storage services.

/// One of the storage services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum StorageService {
    Blob,
    Queue,
    Table,
}

impl StorageService {
    /// Its letter in the `ss` field of an account SAS.
    pub fn letter(self) -> char {
        match self {
            Self::Blob => 'b',
            Self::Queue => 'q',
            Self::Table => 't',
        }
    }

    /// Its name in addresses, signatures and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Queue => "queue",
            Self::Table => "table",
        }
    }
}
