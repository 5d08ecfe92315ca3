//! Why a command did not succeed, before a client is told.
//!
//! A failure of the store stays what it is (`EngineError`) until [`Failure::answer`], the one place where it meets a
//! code: inside the service the difference between *nothing was kept* and *nobody knows* decides what happens next.

use tavola_engine::{ContentError, EngineError, SourceError, SpaceId};
use tavola_model::{ErrorCode, ServiceError, StorageService};

/// A refusal by the service's rules, or a failure of the store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command breaks a rule; nothing was kept.
    #[error(transparent)]
    Refused(#[from] ServiceError),
    /// The store did not do what it was asked.
    #[error(transparent)]
    Store(#[from] EngineError),
    /// The store of contents did not do what it was asked. No row names what it may have kept.
    #[error(transparent)]
    Content(#[from] ContentError),
}

impl Failure {
    /// Stored bytes that do not say what they should.
    pub fn damaged(space: SpaceId, what: &'static str) -> Self {
        Self::Store(EngineError::Damaged { space, what })
    }

    /// Says which operation of a transaction failed. A failure of the store is not that of an operation.
    pub fn at_operation(self, index: usize) -> Self {
        match self {
            Self::Refused(error) => Self::Refused(error.at_operation(index)),
            other @ (Self::Store(_) | Self::Content(_)) => other,
        }
    }

    /// Whether the space that was asked for is gone.
    pub fn is_space_missing(&self) -> bool {
        matches!(self, Self::Store(EngineError::SpaceMissing { .. }))
    }

    /// What was read before a transaction is not true any more. Nothing was kept; whoever reads again may succeed.
    pub fn changed_meanwhile() -> Self {
        Self::Store(EngineError::Conflict { attempts: 1 })
    }

    /// Whether another writer came first, and nothing was kept.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(EngineError::Conflict { .. }))
    }

    /// Whether the change may have been kept all the same.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Store(EngineError::OutcomeUnknown { .. }))
    }

    /// What a client of the service is told. The cause goes along for the log.
    pub fn answer(self, service: StorageService) -> ServiceError {
        let error = match self {
            Self::Refused(error) => return error,
            Self::Store(error) => error,
            Self::Content(error) => return answer_content(error),
        };
        let code = match &error {
            // A space is dropped after its table or queue left the catalog: whoever still held it came too late.
            EngineError::SpaceMissing { .. } => match service {
                StorageService::Table => ErrorCode::TableNotFound,
                StorageService::Queue => ErrorCode::QueueNotFound,
                StorageService::Blob => ErrorCode::ContainerNotFound,
            },
            // The write may have been kept: the client must not take this for a failure.
            EngineError::OutcomeUnknown { .. } => ErrorCode::OperationTimedOut,
            // Nothing was kept, and trying again may help.
            EngineError::Conflict { .. } | EngineError::Unavailable { .. } | EngineError::Full { .. } => {
                ErrorCode::ServerBusy
            }
            // The request itself is within the limits of the service. Of its codes this comes nearest, and no client
            // tries again on it.
            EngineError::TooLarge { .. } => ErrorCode::RequestBodyTooLarge,
            EngineError::Damaged { .. } | EngineError::Failed { .. } => ErrorCode::InternalError,
        };
        ServiceError::new(code).caused_by(error)
    }
}

impl Failure {
    /// What a client sends cannot be had.
    pub fn of_source(error: SourceError) -> Self {
        Self::Content(ContentError::Source(error))
    }

    /// The same failure where the source was a blob of this server and not a client: it is what the store says of the
    /// blob.
    pub fn of_stored_source(self) -> Self {
        let cause = match self {
            Self::Content(ContentError::Source(SourceError::Broken(cause))) => cause,
            // The body of a blob has the length that its record says.
            Self::Content(error @ (ContentError::Source(_) | ContentError::Size { .. })) => {
                return Self::Content(ContentError::Failed { cause: error.into() });
            }
            other => return other,
        };
        let cause = match cause.downcast::<ContentError>() {
            Ok(error) => return Self::Content(*error).of_stored_source(),
            Err(cause) => cause,
        };
        match cause.downcast::<Self>() {
            Ok(failure) => *failure,
            Err(cause) => Self::Content(ContentError::Failed { cause }),
        }
    }

    /// Whether a content is gone that a row named when it was read: the blob was replaced or deleted since.
    pub fn is_content_missing(&self) -> bool {
        matches!(self, Self::Content(ContentError::Missing { .. }))
    }
}

/// What a client is told of a failure of the store of contents. Nothing that it asked for was done.
fn answer_content(error: ContentError) -> ServiceError {
    let code = match &error {
        ContentError::Source(SourceError::TooLarge { .. }) => ErrorCode::RequestBodyTooLarge,
        ContentError::Source(SourceError::TooSlow) => ErrorCode::OperationTimedOut,
        // The blob was replaced each time that it was read.
        ContentError::Missing { .. }
        | ContentError::Source(SourceError::OverBudget)
        | ContentError::OutcomeUnknown { .. }
        | ContentError::Unavailable { .. }
        | ContentError::Full { .. } => ErrorCode::ServerBusy,
        ContentError::Source(SourceError::Broken(_)) | ContentError::Size { .. } => ErrorCode::InvalidInput,
        ContentError::Damaged { .. } | ContentError::Failed { .. } => ErrorCode::InternalError,
    };
    ServiceError::new(code).caused_by(error)
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self::Refused(code.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_the_store_has_its_code_and_keeps_its_cause() {
        let check = |error: EngineError, code| {
            let answer = Failure::from(error).answer(StorageService::Table);
            assert_eq!(answer.code, code);
            assert!(answer.cause.is_some());
        };
        check(EngineError::SpaceMissing { space: SpaceId::CATALOG }, ErrorCode::TableNotFound);
        check(EngineError::OutcomeUnknown { cause: "lost".into() }, ErrorCode::OperationTimedOut);
        check(EngineError::Unavailable { reason: "closing" }, ErrorCode::ServerBusy);
        check(EngineError::Full { free_bytes: 1 }, ErrorCode::ServerBusy);
        check(EngineError::TooLarge { bytes: 2, bytes_max: 1 }, ErrorCode::RequestBodyTooLarge);
        check(EngineError::Failed { cause: "disk".into() }, ErrorCode::InternalError);
        check(EngineError::Damaged { space: SpaceId::CATALOG, what: "sum" }, ErrorCode::InternalError);
    }

    #[test]
    fn a_write_that_was_not_kept_is_never_told_as_one_that_may_have_been() {
        let conflict = Failure::from(EngineError::Conflict { attempts: 3 });
        assert!(!conflict.is_unknown());
        assert_eq!(conflict.answer(StorageService::Table).code, ErrorCode::ServerBusy);
    }

    #[test]
    fn a_source_that_is_a_blob_fails_as_the_store_says_and_not_as_a_client_does() {
        let (space, id) = (SpaceId::CATALOG, tavola_engine::ContentId::MIN);
        let broken = |cause: tavola_engine::Cause| Failure::of_source(SourceError::Broken(cause));
        let answer = |failure: Failure| failure.of_stored_source().answer(StorageService::Blob).code;
        let damaged = || ContentError::Damaged { space, id, what: "sum" };
        assert_eq!(answer(broken(damaged().into())), ErrorCode::InternalError);
        assert_eq!(answer(broken(Failure::from(damaged()).into())), ErrorCode::InternalError);
        assert_eq!(answer(broken("cut".into())), ErrorCode::InternalError);
        let busy = || ContentError::Unavailable { reason: "closing" };
        assert_eq!(answer(broken(busy().into())), ErrorCode::ServerBusy);
        let nested = broken(ContentError::Source(SourceError::Broken(busy().into())).into());
        assert_eq!(answer(nested), ErrorCode::ServerBusy);
        assert_eq!(answer(ContentError::Size { announced: 2, found: 1 }.into()), ErrorCode::InternalError);
        assert!(broken(ContentError::Missing { space, id }.into()).of_stored_source().is_content_missing());
        let refused = Failure::from(ErrorCode::Md5Mismatch).of_stored_source();
        assert_eq!(refused.answer(StorageService::Blob).code, ErrorCode::Md5Mismatch);
    }

    #[test]
    fn a_missing_space_is_told_in_the_words_of_the_service_that_was_asked() {
        let missing = || Failure::from(EngineError::SpaceMissing { space: SpaceId::CATALOG });
        assert_eq!(missing().answer(StorageService::Queue).code, ErrorCode::QueueNotFound);
        assert_eq!(missing().answer(StorageService::Table).code, ErrorCode::TableNotFound);
    }
}
