//! What a client is told when the store does not do what it was asked.

use tavola_engine::EngineError;
use tavola_model::{ErrorCode, ServiceError};

/// The answer for an engine's failure. The cause goes along for the log.
pub(crate) fn from_engine(error: EngineError) -> ServiceError {
    let code = match &error {
        // A space is dropped after its table left the catalog, so whoever still held the table came too late.
        EngineError::SpaceMissing { .. } => ErrorCode::TableNotFound,
        // The client must not take these for a failure: the write may have been kept, or may be tried again.
        EngineError::OutcomeUnknown { .. } | EngineError::Conflict { .. } => ErrorCode::OperationTimedOut,
        EngineError::Unavailable { .. } | EngineError::Full { .. } => ErrorCode::ServerBusy,
        // The request itself is within the limits of the service. Of its codes this comes nearest, and no client tries
        // again on it.
        EngineError::TooLarge { .. } => ErrorCode::RequestBodyTooLarge,
        EngineError::Damaged { .. } | EngineError::Failed { .. } => ErrorCode::InternalError,
    };
    ServiceError::new(code).caused_by(error)
}

/// The answer when stored bytes do not say what they should.
pub(crate) fn damaged(space: tavola_engine::SpaceId, what: &'static str) -> ServiceError {
    from_engine(EngineError::Damaged { space, what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_engine::SpaceId;

    #[test]
    fn each_failure_has_its_code_and_keeps_its_cause() {
        let check = |error: EngineError, code| {
            let answer = from_engine(error);
            assert_eq!(answer.code, code);
            assert!(answer.cause.is_some());
        };
        check(EngineError::SpaceMissing { space: SpaceId::CATALOG }, ErrorCode::TableNotFound);
        check(EngineError::Conflict { attempts: 3 }, ErrorCode::OperationTimedOut);
        check(EngineError::OutcomeUnknown { cause: "lost".into() }, ErrorCode::OperationTimedOut);
        check(EngineError::Unavailable { reason: "closing" }, ErrorCode::ServerBusy);
        check(EngineError::Full { free_bytes: 1 }, ErrorCode::ServerBusy);
        check(EngineError::TooLarge { bytes: 2, bytes_max: 1 }, ErrorCode::RequestBodyTooLarge);
        check(EngineError::Failed { cause: "disk".into() }, ErrorCode::InternalError);
        check(EngineError::Damaged { space: SpaceId::CATALOG, what: "sum" }, ErrorCode::InternalError);
    }
}
