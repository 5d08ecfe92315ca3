//! The one place where an error code meets an HTTP status.

use http::StatusCode;
use tavola_model::ErrorCode;

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
        | MalformedAuthenticationInfo
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
