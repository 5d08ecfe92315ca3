//! Conditions: what a request asks of a blob or container before it is done, in the order of the service.
//!
//! The lease comes first, then `If-None-Match: *`, then the rest, then tags. Which code a condition is answered with
//! depends on who asks: a read, a write, or one of the copies.

use tavola_model::{
    BlobConditions, BlobEtag, ContainerConditions, DateTime, ErrorCode, EtagMatch, ServiceError,
    SourceConditions, VersionConditions,
};

use crate::catalog::ContainerState;
use crate::lease::{Lease, Leased};

use super::record::Record;

/// Which condition is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// `If-None-Match: *`, and it is there.
    Exists,
    /// It is the version that the client has, or was not changed since.
    Unchanged,
    /// It is not the version that the client means, or was changed since.
    Changed,
    /// Its tags are others.
    Tags,
}

impl Unmet {
    /// The answer to a read.
    pub fn of_read(self) -> ErrorCode {
        match self {
            Self::Exists | Self::Unchanged => ErrorCode::NotModified,
            Self::Changed | Self::Tags => ErrorCode::ConditionNotMet,
        }
    }

    /// The answer to a write.
    pub fn of_write(self) -> ErrorCode {
        match self {
            Self::Exists => ErrorCode::BlobAlreadyExists,
            Self::Unchanged | Self::Changed | Self::Tags => ErrorCode::ConditionNotMet,
        }
    }

    /// The answer to Copy Blob for its target.
    pub fn of_copy_target(self) -> ErrorCode {
        match self {
            Self::Exists => ErrorCode::BlobAlreadyExists,
            Self::Unchanged | Self::Changed | Self::Tags => ErrorCode::TargetConditionNotMet,
        }
    }

    /// The answer to a copy that reads its source within the request, as if by a request of its own.
    pub fn of_copied_url(self) -> ErrorCode {
        match self {
            Self::Exists | Self::Unchanged => ErrorCode::CopySourceNotModified,
            Self::Changed | Self::Tags => ErrorCode::CopySourceConditionNotMet,
        }
    }
}

/// Checks versions and times against what is there, if anything is.
pub(crate) fn check_version(conditions: &VersionConditions, changed: Option<DateTime>) -> Result<(), Unmet> {
    let VersionConditions { if_match, if_none_match, if_modified_since, if_unmodified_since } = conditions;
    let Some(changed) = changed else {
        // Nothing is of no version. Times are not compared.
        return if if_match.is_some() { Err(Unmet::Changed) } else { Ok(()) };
    };
    let etag = BlobEtag(changed);
    match if_none_match {
        Some(EtagMatch::Any) => return Err(Unmet::Exists),
        Some(named) if named.names(etag) => return Err(Unmet::Unchanged),
        _ => {}
    }
    if if_match.is_some_and(|named| !named.names(etag)) {
        return Err(Unmet::Changed);
    }
    // Last-Modified is told in whole seconds, so it is compared in them.
    let second = changed.unix_seconds();
    if if_unmodified_since.is_some_and(|since| second > since.unix_seconds()) {
        return Err(Unmet::Changed);
    }
    if if_modified_since.is_some_and(|since| second <= since.unix_seconds()) {
        return Err(Unmet::Unchanged);
    }
    Ok(())
}

/// Checks the conditions of a read of a blob that is there.
pub(crate) fn check_read(
    conditions: &BlobConditions,
    record: &Record,
    now: DateTime,
) -> Result<(), ServiceError> {
    Lease::admit_read(record.lease.as_ref(), conditions.lease, Leased::Blob, now)?;
    check(conditions, Some(record)).map_err(|unmet| unmet.of_read().into())
}

/// Checks the conditions of a write to a blob, which may be missing. Gives its lease afterwards.
pub(crate) fn check_write(
    conditions: &BlobConditions,
    record: Option<&Record>,
    now: DateTime,
    answer: impl FnOnce(Unmet) -> ErrorCode,
) -> Result<Option<Lease>, ServiceError> {
    let lease = record.and_then(|record| record.lease.as_ref());
    let lease = Lease::admit_write(lease, conditions.lease, Leased::Blob, now)?;
    match check(conditions, record) {
        // Whoever holds the lease knows that the blob is there (recorded).
        Err(Unmet::Exists) if conditions.lease.is_some() => Ok(lease),
        Err(unmet) => Err(answer(unmet).into()),
        Ok(()) => Ok(lease),
    }
}

/// Checks what a copy asks of its source.
pub(crate) fn check_source(conditions: &SourceConditions, record: &Record) -> Result<(), Unmet> {
    check_version(&conditions.version, Some(record.changed))?;
    match &conditions.if_tags {
        Some(filter) if !filter.admits(&record.tags) => Err(Unmet::Tags),
        _ => Ok(()),
    }
}

fn check(conditions: &BlobConditions, record: Option<&Record>) -> Result<(), Unmet> {
    check_version(&conditions.version, record.map(|record| record.changed))?;
    match (&conditions.if_tags, record) {
        (Some(filter), Some(record)) if !filter.admits(&record.tags) => Err(Unmet::Tags),
        (Some(_), None) => Err(Unmet::Tags),
        _ => Ok(()),
    }
}

/// Checks the conditions of a request about a container.
pub(crate) fn check_container(
    conditions: &ContainerConditions,
    container: &ContainerState,
    writes: bool,
    now: DateTime,
) -> Result<(), ServiceError> {
    Lease::admit_read(container.lease.as_ref(), conditions.lease, Leased::Container, now)
        .map_err(|code| Leased::Container.refusal(code))?;
    check_version(&conditions.version, Some(container.changed)).map_err(|unmet| {
        let code = if writes { ErrorCode::ConditionNotMet } else { unmet.of_read() };
        code.into()
    })
}
