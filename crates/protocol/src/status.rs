//! The one place where an error code meets an HTTP status.

use http::StatusCode;
use tavola_model::{ErrorCode, ServiceError};

/// The status of an error. One code has two: an `Authorization` header that cannot be read is a bad request,
/// as its text says; one that is read and not believed is a challenge.
pub fn error_status(error: &ServiceError) -> StatusCode {
    let unreadable =
        error.code == ErrorCode::InvalidAuthenticationInfo && error.message != error.code.message();
    if unreadable { StatusCode::BAD_REQUEST } else { status(error.code) }
}

/// The status the service answers with this code.
pub fn status(code: ErrorCode) -> StatusCode {
    use ErrorCode::*;
    match code {
        CommandsInBatchActOnDifferentPartitions
        | DuplicatePropertiesSpecified
        | EmptyMetadataKey
        | EntityTooLarge
        | HostInformationNotPresent
        | InvalidDuplicateRow
        | InvalidHeaderValue
        | InvalidHttpVerb
        | InvalidInput
        | InvalidMetadata
        | InvalidQueryParameterValue
        | InvalidResourceName
        | InvalidUri
        | InvalidValueType
        | InvalidXmlDocument
        | KeyValueTooLarge
        | MetadataTooLarge
        | MissingRequiredHeader
        | MissingRequiredQueryParameter
        | OutOfRangeInput
        | OutOfRangeQueryParameterValue
        | PopReceiptMismatch
        | PropertiesNeedValue
        | PropertyNameInvalid
        | PropertyNameTooLong
        | PropertyValueTooLarge
        | RequestUrlFailedToParse
        | TooManyProperties
        | XMethodIncorrectCount
        | XMethodIncorrectValue
        | XMethodNotUsingPost => StatusCode::BAD_REQUEST,
        InvalidAuthenticationInfo | NoAuthenticationInformation => StatusCode::UNAUTHORIZED,
        AuthenticationFailed
        | AuthorizationFailure
        | AuthorizationPermissionMismatch
        | AuthorizationProtocolMismatch
        | AuthorizationResourceTypeMismatch
        | AuthorizationServiceMismatch
        | AuthorizationSourceIPMismatch
        | CorsPreflightFailure
        | WriteOperationsNotAllowed => StatusCode::FORBIDDEN,
        AccountNotFound | MessageNotFound | QueueNotFound | ResourceNotFound | TableNotFound => {
            StatusCode::NOT_FOUND
        }
        MethodNotAllowed | UnsupportedHttpVerb => StatusCode::METHOD_NOT_ALLOWED,
        EntityAlreadyExists | QueueAlreadyExists | QueueBeingDeleted | TableAlreadyExists
        | TableBeingDeleted => StatusCode::CONFLICT,
        MissingContentLengthHeader => StatusCode::LENGTH_REQUIRED,
        UpdateConditionNotSatisfied => StatusCode::PRECONDITION_FAILED,
        RequestBodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        JsonFormatNotSupported | MediaTypeNotSupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        InternalError | OperationTimedOut => StatusCode::INTERNAL_SERVER_ERROR,
        NotImplemented => StatusCode::NOT_IMPLEMENTED,
        ServerBusy => StatusCode::SERVICE_UNAVAILABLE,
    }
}
