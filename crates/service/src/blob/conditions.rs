//! Conditions: what a request asks of a blob or container before it is done, in the order of the service.
//!
//! The lease comes first, then versions and times, then tags. Which code a condition is answered with
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
            Self::Unchanged | Self::Changed => ErrorCode::TargetConditionNotMet,
            Self::Tags => ErrorCode::ConditionNotMet,
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

/// Checks versions and times against what is there, if anything is, by the expression of the service:
/// `If-Match && If-Unmodified-Since && (If-None-Match || If-Modified-Since)`.
/// <https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations>
pub(crate) fn check_version(conditions: &VersionConditions, changed: Option<DateTime>) -> Result<(), Unmet> {
    let VersionConditions { if_match, if_none_match, if_modified_since, if_unmodified_since } = conditions;
    let Some(changed) = changed else {
        // Nothing is of no version. Times are not compared.
        return if if_match.is_some() { Err(Unmet::Changed) } else { Ok(()) };
    };
    let etag = BlobEtag(changed);
    // Last-Modified is told in whole seconds, so it is compared in them.
    let is_later = |since: DateTime| changed.unix_seconds() > since.unix_seconds();
    if if_match.as_ref().is_some_and(|named| !named.names(etag)) || if_unmodified_since.is_some_and(is_later)
    {
        return Err(Unmet::Changed);
    }
    let is_other = if_none_match.as_ref().map(|named| !named.names(etag));
    match (is_other, if_modified_since.map(is_later)) {
        (None, None) | (Some(true), _) | (_, Some(true)) => Ok(()),
        _ if *if_none_match == Some(EtagMatch::Any) => Err(Unmet::Exists),
        _ => Err(Unmet::Unchanged),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected` is what a read is answered with whose conditions, taken one by one, are met or not.
    fn check(
        [matches, none_match, modified, unmodified]: [Option<bool>; 4],
        expected: Result<(), ErrorCode>,
    ) {
        let at = |second: u64| DateTime::from_ticks(638_000_000_000_000_000 + second * 10_000_000).unwrap();
        let (changed, other) = (at(10), EtagMatch::Is(BlobEtag(at(11))));
        let own = EtagMatch::Is(BlobEtag(changed));
        let conditions = VersionConditions {
            if_match: matches.map(|is_met| if is_met { own.clone() } else { other.clone() }),
            if_none_match: none_match.map(|is_met| if is_met { other.clone() } else { own.clone() }),
            if_modified_since: modified.map(|is_met| if is_met { at(9) } else { changed }),
            if_unmodified_since: unmodified.map(|is_met| if is_met { changed } else { at(9) }),
        };
        let found = check_version(&conditions, Some(changed)).map_err(Unmet::of_read);
        assert_eq!(found, expected, "{conditions:?}");
    }

    #[test]
    fn the_conditions_of_a_read_are_combined_as_documented() {
        const NOT_MODIFIED: Result<(), ErrorCode> = Err(ErrorCode::NotModified);
        const NOT_MET: Result<(), ErrorCode> = Err(ErrorCode::ConditionNotMet);
        let (yes, no) = (Some(true), Some(false));
        check([None; 4], Ok(()));
        check([no, None, yes, None], NOT_MET);
        check([no, None, no, None], NOT_MET);
        check([yes, None, yes, None], Ok(()));
        check([yes, None, no, None], NOT_MODIFIED);
        check([None, no, yes, None], Ok(()));
        check([None, yes, no, None], Ok(()));
        check([None, no, no, None], NOT_MODIFIED);
        check([yes, None, no, no], NOT_MET);
        check([yes, None, no, yes], NOT_MODIFIED);
        check([yes, no, yes, no], NOT_MET);
        check([yes, no, yes, yes], Ok(()));
        check([no, yes, no, yes], NOT_MET);
        check([yes, yes, no, yes], Ok(()));
        check([yes, no, no, no], NOT_MET);
    }

    #[test]
    fn tags_of_the_target_of_a_copy_are_told_like_those_of_any_write() {
        assert_eq!(Unmet::Tags.of_copy_target(), ErrorCode::ConditionNotMet);
        assert_eq!(Unmet::Changed.of_copy_target(), ErrorCode::TargetConditionNotMet);
    }
}
