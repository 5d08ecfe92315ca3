//! Names of containers and blobs, and which state of a blob is meant.
//!
//! Invariant: a name is valid for as long as it exists.

use std::fmt;

use crate::{DateTime, ErrorCode, ServiceError, Text};

/// A container name that obeys the naming rule
/// (<https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata>): 3 to 63
/// lower-case letters, digits and single dashes inside, or one of the names that the service itself gives.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerName(Text);

impl ContainerName {
    /// Characters a name has at least.
    pub const LEN_MIN: usize = 3;
    /// Characters a name has at most.
    pub const LEN_MAX: usize = 63;
    /// The container that a path without one means.
    pub const ROOT: &'static str = "$root";
    /// Names of the service's own making.
    const SPECIAL: [&'static str; 4] = [Self::ROOT, "$web", "$logs", "$blobchangefeed"];

    /// Accepts `text` if it obeys the naming rule. Characters are told before the length, as for queues.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        if Self::SPECIAL.contains(&text) {
            return Ok(Self(text.into()));
        }
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

    /// `$root`.
    pub fn root() -> Self {
        Self(Self::ROOT.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A blob name: 1 to 1,024 characters, as UTF-16 counts them, in at most 254 segments between slashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobName(Box<str>);

impl BlobName {
    /// Characters a name has at most, as UTF-16 counts them.
    pub const LEN_MAX: usize = 1024;
    /// Segments between slashes.
    pub const SEGMENTS_MAX: usize = 254;

    /// Accepts `text` if it obeys the naming rule.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        let length = if text.is_ascii() { text.len() } else { text.encode_utf16().count() };
        if !(1..=Self::LEN_MAX).contains(&length) {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
        if text.contains('\0') || text.split('/').count() > Self::SEGMENTS_MAX {
            return Err(ErrorCode::InvalidResourceName.into());
        }
        Ok(Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a blob is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlobPath {
    /// Its container.
    pub container: ContainerName,
    /// Its name.
    pub name: BlobName,
}

impl fmt::Display for BlobPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.container, self.name)
    }
}

/// Which state of a blob is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlobMoment {
    /// As it is now.
    #[default]
    Current,
    /// The snapshot of this time (`snapshot=`).
    Snapshot(DateTime),
    /// The version of this time (`versionid=`), which may be the current one.
    Version(DateTime),
}

/// A blob in one of its states.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlobTarget {
    /// Where it is.
    pub path: BlobPath,
    /// Which state.
    pub moment: BlobMoment,
}

impl From<BlobPath> for BlobTarget {
    fn from(path: BlobPath) -> Self {
        Self { path, moment: BlobMoment::Current }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T>(parsed: Result<T, ServiceError>, expected: Result<(), ErrorCode>, text: &str) {
        assert_eq!(parsed.map(|_| ()).map_err(|error| error.code), expected, "{text}");
    }

    #[test]
    fn containers_are_named_like_queues_or_by_the_service() {
        for text in ["abc", "a-1", "$root", "$web", "$logs", &"c".repeat(63)] {
            check(ContainerName::parse(text), Ok(()), text);
        }
        for text in ["Abc", "a_b", "-ab", "ab-", "a--b", "$other", "a b"] {
            check(ContainerName::parse(text), Err(ErrorCode::InvalidResourceName), text);
        }
        for text in ["", "ab", &"c".repeat(64)] {
            check(ContainerName::parse(text), Err(ErrorCode::OutOfRangeInput), text);
        }
    }

    #[test]
    fn blob_names_hold_any_text_of_1024_characters() {
        let smile = "\u{1F600}";
        for text in ["a", "a/b", "/", "a.", "ÄÖ %25?", &"b".repeat(1024), &smile.repeat(512)] {
            check(BlobName::parse(text), Ok(()), text);
        }
        for text in ["", &"b".repeat(1025), &smile.repeat(513)] {
            check(BlobName::parse(text), Err(ErrorCode::OutOfRangeInput), text);
        }
        check(BlobName::parse("a\0"), Err(ErrorCode::InvalidResourceName), "a NUL");
        check(BlobName::parse(&"/".repeat(253)), Ok(()), "254 segments");
        check(BlobName::parse(&"/".repeat(254)), Err(ErrorCode::InvalidResourceName), "255 segments");
    }
}
