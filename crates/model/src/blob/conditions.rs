//! Conditions: what must be true of a container or a blob for a request to be done.
//!
//! Which code a failed condition has depends on the operation; that is decided where it is executed.

use crate::{DateTime, EtagMatch, LeaseId, TagFilter};

/// The conditions of HTTP on versions and times. A write has one of them at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionConditions {
    /// `If-Match`.
    pub if_match: Option<EtagMatch>,
    /// `If-None-Match`.
    pub if_none_match: Option<EtagMatch>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<DateTime>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<DateTime>,
}

impl VersionConditions {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a request asks of a blob before it is done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlobConditions {
    /// Versions and times.
    pub version: VersionConditions,
    /// `x-ms-if-tags`.
    pub if_tags: Option<TagFilter>,
    /// `x-ms-lease-id`.
    pub lease: Option<LeaseId>,
}

/// What a request asks of a container before it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerConditions {
    /// Times; operations on containers take no others.
    pub version: VersionConditions,
    /// `x-ms-lease-id`.
    pub lease: Option<LeaseId>,
}

/// What a copy asks of its source (`x-ms-source-if-*`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceConditions {
    /// Versions and times.
    pub version: VersionConditions,
    /// `x-ms-source-if-tags`.
    pub if_tags: Option<TagFilter>,
}

/// What Append Block asks of the blob it appends to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendConditions {
    /// `x-ms-blob-condition-appendpos`: how long the blob is.
    pub position: Option<u64>,
    /// `x-ms-blob-condition-maxsize`: how long it may be afterwards.
    pub length_max: Option<u64>,
}

/// What Put Page asks of the sequence number (`x-ms-if-sequence-number-*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub struct SequenceConditions {
    pub less_or_equal: Option<i64>,
    pub less: Option<i64>,
    pub equal: Option<i64>,
}
