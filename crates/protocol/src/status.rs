//! The one place where an error code meets an HTTP status.

use http::StatusCode;
use tavola_model::ErrorCode;

/// The status the service answers with this code.
pub fn status(code: ErrorCode) -> StatusCode {
    use ErrorCode::*;
    match code {
        AccessTierNotSupportedForBlobType
        | BlockListTooLong
        | BothCrc64AndMd5HeaderPresent
        | BothUserTagsAndSourceTagsCopyPresent
        | CommandsInBatchActOnDifferentPartitions
        | CopyAcrossAccountsNotSupported
        | CopySourceInvalid
        | Crc64Mismatch
        | DuplicatePropertiesSpecified
        | EmptyMetadataKey
        | EntityTooLarge
        | ExceedsMaxBatchRequestCount
        | HostInformationNotPresent
        | InvalidBlobOrBlock
        | InvalidBlobTier
        | InvalidBlockId
        | InvalidBlockList
        | InvalidCrc64
        | InvalidDuplicateRow
        | InvalidHeaderValue
        | InvalidHttpVerb
        | InvalidInput
        | InvalidMd5
        | InvalidMetadata
        | InvalidQueryParameterValue
        | InvalidResourceName
        | InvalidTag
        | InvalidUri
        | InvalidValueType
        | InvalidXmlDocument
        | KeyValueTooLarge
        | MalformedAuthenticationInfo
        | Md5Mismatch
        | MetadataTooLarge
        | MissingRequiredHeader
        | MissingRequiredQueryParameter
        | MultipleConditionHeadersNotSupported
        | MutuallyExclusiveQueryParameters
        | OutOfRangeInput
        | OutOfRangeQueryParameterValue
        | PopReceiptMismatch
        | PropertiesNeedValue
        | PropertyNameInvalid
        | PropertyNameTooLong
        | PropertyValueTooLarge
        | RequestUrlFailedToParse
        | TooManyProperties
        | UnsatisfiableCondition
        | UnsupportedHeader
        | XMethodIncorrectCount
        | XMethodIncorrectValue
        | XMethodNotUsingPost => StatusCode::BAD_REQUEST,
        CopySourceNotModified | NotModified => StatusCode::NOT_MODIFIED,
        CopySourceUnauthorized | InvalidAuthenticationInfo | NoAuthenticationInformation => {
            StatusCode::UNAUTHORIZED
        }
        AuthenticationFailed
        | AuthorizationFailure
        | AuthorizationPermissionMismatch
        | AuthorizationProtocolMismatch
        | AuthorizationResourceTypeMismatch
        | AuthorizationServiceMismatch
        | AuthorizationSourceIPMismatch
        | CopySourceForbidden
        | CorsPreflightFailure
        | OperationNotAllowedOnRootBlob
        | UnauthorizedBlobOverwrite
        | WriteOperationsNotAllowed => StatusCode::FORBIDDEN,
        AccountNotFound
        | BlobNotFound
        | CannotVerifyCopySource
        | ContainerNotFound
        | MessageNotFound
        | QueueNotFound
        | ResourceNotFound
        | TableNotFound => StatusCode::NOT_FOUND,
        MethodNotAllowed | UnsupportedHttpVerb => StatusCode::METHOD_NOT_ALLOWED,
        BlobAlreadyExists
        | BlobArchived
        | BlobBeingRehydrated
        | BlobIsSealed
        | BlobNotArchived
        | BlobTierInadequateForContentLength
        | BlockCountExceedsLimit
        | CannotChangeToLowerTier
        | ContainerAlreadyExists
        | ContainerBeingDeleted
        | CopyIdMismatch
        | CopySourceConflict
        | EntityAlreadyExists
        | InvalidBlobType
        | InvalidSourceBlobType
        | LeaseAlreadyBroken
        | LeaseAlreadyPresent
        | LeaseIdMismatchWithLeaseOperation
        | LeaseIsBreakingAndCannotBeAcquired
        | LeaseIsBreakingAndCannotBeChanged
        | LeaseIsBrokenAndCannotBeRenewed
        | LeaseNotPresentWithLeaseOperation
        | NoPendingCopyOperation
        | PendingCopyOperation
        | PermanentDeleteIsOff
        | PreviousSnapshotCannotBeNewer
        | PreviousSnapshotNotFound
        | QueueAlreadyExists
        | QueueBeingDeleted
        | SequenceNumberIncrementTooLarge
        | SnapshotCountExceeded
        | SnapshotsPresent
        | TableAlreadyExists
        | TableBeingDeleted => StatusCode::CONFLICT,
        MissingContentLengthHeader => StatusCode::LENGTH_REQUIRED,
        AppendPositionConditionNotMet
        | ConditionNotMet
        | CopySourceConditionNotMet
        | InfiniteLeaseDurationRequired
        | LeaseIdMismatchWithBlobOperation
        | LeaseIdMismatchWithContainerOperation
        | LeaseIdMissing
        | LeaseLost
        | LeaseNotPresentWithBlobOperation
        | LeaseNotPresentWithContainerOperation
        | MaxBlobSizeConditionNotMet
        | SequenceNumberConditionNotMet
        | SourceConditionNotMet
        | TargetConditionNotMet
        | UpdateConditionNotSatisfied => StatusCode::PRECONDITION_FAILED,
        RequestBodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        InvalidPageRange | InvalidRange => StatusCode::RANGE_NOT_SATISFIABLE,
        JsonFormatNotSupported | MediaTypeNotSupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        InternalError | OperationTimedOut => StatusCode::INTERNAL_SERVER_ERROR,
        NotImplemented => StatusCode::NOT_IMPLEMENTED,
        ServerBusy => StatusCode::SERVICE_UNAVAILABLE,
    }
}
