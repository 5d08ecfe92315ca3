//! What a client can be told when a request fails.
//!
//! `ErrorCode` lists every code we promise, with the text the real service sends for it. The HTTP status
//! of a code lives in `protocol/src/status.rs` and nowhere else. The cause is logged, never sent.

use std::borrow::Cow;
use std::sync::Arc;

macro_rules! error_codes {
    ($($code:ident $(as $wire:ident)? = $message:literal $(| $of_container:literal)?,)+) => {
        /// Every error code this server can answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the variants are the service's own words and carry their text")]
        pub enum ErrorCode { $($code,)+ }

        impl ErrorCode {
            /// All codes, in the order of their declaration.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$code,)+];

            /// The code as it is written on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$code => error_codes!(@wire $code $($wire)?),)+ }
            }

            /// The text that the service sends with this code unless the error says more.
            pub fn message(self) -> &'static str {
                match self { $(ErrorCode::$code => $message,)+ }
            }

            /// The same where it is about a container: codes of leases are for blobs and containers, each with its
            /// text.
            pub fn message_of_container(self) -> &'static str {
                match self { $(ErrorCode::$code => error_codes!(@of_container $message $(, $of_container)?),)+ }
            }
        }
    };
    (@wire $code:ident) => { stringify!($code) };
    (@wire $code:ident $wire:ident) => { stringify!($wire) };
    (@of_container $message:literal) => { $message };
    (@of_container $message:literal, $of_container:literal) => { $of_container };
}

// A code that the service answers with two statuses is two codes here, of one name on the wire.
error_codes! {
    AccessTierNotSupportedForBlobType = "The access tier is not supported for this blob type.",
    AccountNotFound = "The specified account does not exist.",
    AppendPositionConditionNotMet = "The append position condition specified was not met.",
    AuthenticationFailed = "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
    AuthorizationFailure = "This request is not authorized to perform this operation.",
    AuthorizationPermissionMismatch = "This request is not authorized to perform this operation using this permission.",
    AuthorizationProtocolMismatch = "This request is not authorized to perform this operation using this protocol.",
    AuthorizationResourceTypeMismatch = "This request is not authorized to perform this operation using this resource type.",
    AuthorizationServiceMismatch = "This request is not authorized to perform this operation using this service.",
    AuthorizationSourceIPMismatch = "This request is not authorized to perform this operation using this source IP.",
    BlobAlreadyExists = "The specified blob already exists.",
    BlobArchived = "This operation is not permitted on an archived blob.",
    BlobBeingRehydrated = "This operation is not permitted because the blob is being rehydrated.",
    BlobIsSealed = "The blob is sealed and its contents cannot be modified.",
    BlobNotArchived = "Blob in the tier is not archived.",
    BlobNotFound = "The specified blob does not exist.",
    BlobTierInadequateForContentLength = "Specified blob tier size limit cannot be less than content length.",
    BlockCountExceedsLimit = "The committed block count cannot exceed the maximum limit of 50,000 blocks.",
    BlockListTooLong = "The block list may not contain more than 50,000 blocks.",
    BothCrc64AndMd5HeaderPresent as BothCrc64AndMd5RangeHeaderPresent = "Both x-ms-range-get-content-crc64 header and x-ms-range-get-content-md5 header are present.",
    BothUserTagsAndSourceTagsCopyPresent as BothUserTagsAndSourceTagsCopyPresentException = "x-ms-tags header must not be present with x-ms-copy-source-tag-option as COPY.",
    CannotChangeToLowerTier = "A higher blob tier has already been explicitly set.",
    CannotVerifyCopySource = "The specified blob does not exist.",
    CopySourceConflict as CannotVerifyCopySource = "Could not verify the copy source.",
    CopySourceForbidden as CannotVerifyCopySource = "This request is not authorized to perform this operation.",
    CopySourceInvalid as CannotVerifyCopySource = "The value for one of the HTTP headers is not in the correct format.",
    CopySourceNotModified as CannotVerifyCopySource = "The condition specified using HTTP conditional header(s) is not met.",
    CopySourceConditionNotMet as CannotVerifyCopySource = "The condition specified using HTTP conditional header(s) is not met.",
    CopySourceUnauthorized as CannotVerifyCopySource = "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
    CommandsInBatchActOnDifferentPartitions = "All commands in a batch must operate on same entity group.",
    ConditionNotMet = "The condition specified using HTTP conditional header(s) is not met.",
    NotModified as ConditionNotMet = "The condition specified using HTTP conditional header(s) is not met.",
    ContainerAlreadyExists = "The specified container already exists.",
    ContainerBeingDeleted = "The specified container is being deleted. Try operation later.",
    ContainerNotFound = "The specified container does not exist.",
    CopyAcrossAccountsNotSupported = "The copy source account and destination account must be the same.",
    CopyIdMismatch = "The specified copy ID did not match the copy ID for the pending copy operation.",
    CorsPreflightFailure = "CORS not enabled or no matching rule found for this request.",
    Crc64Mismatch = "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server.",
    DuplicatePropertiesSpecified = "A property is specified more than one time.",
    EmptyMetadataKey = "The key for one of the metadata key-value pairs is empty.",
    EntityAlreadyExists = "The specified entity already exists.",
    EntityTooLarge = "The entity is larger than the maximum size permitted.",
    ExceedsMaxBatchRequestCount = "The batch operation exceeds maximum number of allowed subrequests.",
    HostInformationNotPresent = "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line.",
    InfiniteLeaseDurationRequired = "The lease ID matched, but the specified lease must be an infinite-duration lease.",
    InternalError = "Server encountered an internal error. Please try again after some time.",
    InvalidAuthenticationInfo = "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
    MalformedAuthenticationInfo as InvalidAuthenticationInfo = "Authentication information is not given in the correct format. Check the value of Authorization header.",
    InvalidBlobOrBlock = "The specified blob or block content is invalid.",
    InvalidBlobTier = "The specified blob tier is invalid.",
    InvalidBlobType = "The blob type is invalid for this operation.",
    InvalidBlockId = "The specified block ID is invalid. The block ID must be Base64-encoded.",
    InvalidBlockList = "The specified block list is invalid.",
    InvalidCrc64 = "The CRC64 value specified in the request is invalid. CRC64 value must be 64 bits and base64 encoded.",
    InvalidDuplicateRow = "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
    InvalidHeaderValue = "The value for one of the HTTP headers is not in the correct format.",
    InvalidHttpVerb = "The HTTP verb specified is invalid - it is not recognized by the server.",
    InvalidInput = "One of the request inputs is not valid.",
    InvalidMd5 = "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded.",
    InvalidMetadata = "The metadata specified is invalid. It has characters that are not permitted.",
    InvalidPageRange = "The page range specified is invalid.",
    InvalidQueryParameterValue = "Value for one of the query parameters specified in the request URI is invalid.",
    InvalidRange = "The range specified is invalid for the current size of the resource.",
    InvalidResourceName = "The specifed resource name contains invalid characters.",
    InvalidSourceBlobType = "The copy source blob type is invalid for this operation.",
    InvalidTag as InvalidTags = "The tags specified are invalid. It contains characters that are not permitted.",
    InvalidUri = "The requested URI does not represent any resource on the server.",
    InvalidValueType = "The value specified is invalid.",
    InvalidXmlDocument = "XML specified is not syntactically valid.",
    JsonFormatNotSupported = "JSON format is not supported.",
    KeyValueTooLarge = "The key value is larger than the maximum size permitted.",
    LeaseAlreadyBroken = "The lease has already been broken and cannot be broken again.",
    LeaseAlreadyPresent = "There is already a lease present.",
    LeaseIdMismatchWithBlobOperation = "The lease ID specified did not match the lease ID for the blob.",
    LeaseIdMismatchWithContainerOperation = "The lease ID specified did not match the lease ID for the container.",
    LeaseIdMismatchWithLeaseOperation = "The lease ID specified did not match the lease ID for the blob."
        | "The lease ID specified did not match the lease ID for the container.",
    LeaseIdMissing = "There is currently a lease on the blob and no lease ID was specified in the request."
        | "There is currently a lease on the container and no lease ID was specified in the request.",
    LeaseIsBreakingAndCannotBeAcquired = "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.",
    LeaseIsBreakingAndCannotBeChanged = "The lease ID matched, but the lease is currently in breaking state and cannot be changed.",
    LeaseIsBrokenAndCannotBeRenewed = "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.",
    LeaseLost = "A lease ID was specified, but the lease for the blob has expired."
        | "A lease ID was specified, but the lease for the container has expired.",
    LeaseNotPresentWithBlobOperation = "There is currently no lease on the blob.",
    LeaseNotPresentWithContainerOperation = "There is currently no lease on the container.",
    LeaseNotPresentWithLeaseOperation = "There is currently no lease on the blob."
        | "There is currently no lease on the container.",
    MaxBlobSizeConditionNotMet = "The max blob size condition specified was not met.",
    Md5Mismatch = "The MD5 value specified in the request did not match with the MD5 value calculated by the server.",
    MediaTypeNotSupported = "None of the provided media types are supported",
    MessageNotFound = "The specified message does not exist.",
    MetadataTooLarge = "The size of the specified metadata exceeds the maximum size permitted.",
    MethodNotAllowed = "The requested method is not allowed on the specified resource.",
    MissingContentLengthHeader = "The Content-Length header was not specified.",
    MissingRequiredHeader = "An HTTP header that's mandatory for this request is not specified.",
    MissingRequiredQueryParameter = "A query parameter that's mandatory for this request is not specified.",
    MultipleConditionHeadersNotSupported = "Multiple condition headers are not supported.",
    MutuallyExclusiveQueryParameters = "Two mutually exclusive query parameters are specified in the request URI.",
    NoAuthenticationInformation = "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
    NoPendingCopyOperation = "There is currently no pending copy operation.",
    NotImplemented = "The requested operation is not implemented on the specified resource.",
    OperationNotAllowedOnRootBlob = "The specified operation is not allowed on root blob.",
    OperationTimedOut = "Operation could not be completed within the specified time.",
    OutOfRangeInput = "The specified resource name length is not within the permissible limits.",
    OutOfRangeQueryParameterValue = "One of the query parameters specified in the request URI is outside the permissible range.",
    PendingCopyOperation = "There is currently a pending copy operation.",
    PermanentDeleteIsOff = "Permanent delete is off on the storage account.",
    PopReceiptMismatch = "The specified pop receipt did not match the pop receipt for a dequeued message.",
    PreviousSnapshotCannotBeNewer = "The prevsnapshot query parameter value cannot be newer than snapshot query parameter value.",
    PreviousSnapshotNotFound = "The previous snapshot is not found.",
    PropertiesNeedValue = "The values are not specified for all properties in the entity.",
    PropertyNameInvalid = "The property name is invalid.",
    PropertyNameTooLong = "The property name exceeds the maximum allowed length (255).",
    PropertyValueTooLarge = "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.",
    QueueAlreadyExists = "The specified queue already exists.",
    QueueBeingDeleted = "The specified queue is being deleted.",
    QueueNotFound = "The specified queue does not exist.",
    RequestBodyTooLarge = "The request body is too large and exceeds the maximum permissible limit.",
    RequestUrlFailedToParse = "The url in the request could not be parsed.",
    ResourceNotFound = "The specified resource does not exist.",
    SequenceNumberConditionNotMet = "The sequence number condition specified was not met.",
    SequenceNumberIncrementTooLarge = "The sequence number increment cannot be performed because it would result in overflow of the sequence number.",
    ServerBusy = "The server is currently unable to receive requests. Please retry your request.",
    SnapshotCountExceeded = "The snapshot count against this blob has been exceeded.",
    SnapshotsPresent = "This operation is not permitted because the blob has snapshots.",
    SourceConditionNotMet = "The source condition specified using HTTP conditional header(s) is not met.",
    TableAlreadyExists = "The table specified already exists.",
    TableBeingDeleted = "The specified table is being deleted. Try operation later.",
    TableNotFound = "The table specified does not exist.",
    TargetConditionNotMet = "The target condition specified using HTTP conditional header(s) is not met.",
    TooManyProperties = "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.",
    UnauthorizedBlobOverwrite = "This request is not authorized to perform blob overwrites.",
    UnsatisfiableCondition = "The request includes an unsatisfiable condition for this operation.",
    UnsupportedHeader = "One of the HTTP headers specified in the request is not supported.",
    UnsupportedHttpVerb = "The resource doesn't support specified Http Verb.",
    UpdateConditionNotSatisfied = "The update condition specified in the request was not satisfied.",
    WriteOperationsNotAllowed = "Write operations are not allowed.",
    XMethodIncorrectCount = "The X-HTTP-Method header was specified more than once.",
    XMethodIncorrectValue = "The X-HTTP-Method header has an incorrect value.",
    XMethodNotUsingPost = "The X-HTTP-Method header can be used only with the POST verb.",
}

/// A failure as the client will see it: a code, its text, and for a batch the operation that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} ({message})", code.as_str())]
pub struct ServiceError {
    /// The promised code.
    pub code: ErrorCode,
    /// The text sent with it, without request id and time.
    pub message: Cow<'static, str>,
    /// Zero-based index of the failing operation of an entity group transaction.
    pub index: Option<usize>,
    /// Further elements of the body, where the form of the error can hold them: names and texts, in order.
    pub details: Vec<(&'static str, String)>,
    /// What went wrong underneath; for the log only.
    #[source]
    pub cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl ServiceError {
    /// The code with the text of the service.
    pub fn new(code: ErrorCode) -> Self {
        Self::with_message(code, code.message())
    }

    /// The code with a text of its own.
    pub fn with_message(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), index: None, details: Vec::new(), cause: None }
    }

    /// `InvalidInput` with the text that the service uses for bodies it cannot read.
    pub fn unreadable_body() -> Self {
        Self::with_message(ErrorCode::InvalidInput, "An error occurred while processing this request.")
    }

    /// `InvalidRange` for a content of this length, which the answer tells in a header.
    pub fn invalid_range(length: u64) -> Self {
        Self::new(ErrorCode::InvalidRange).with_detail(Self::CONTENT_RANGE, format!("bytes */{length}"))
    }

    /// What is told of the source of a copy where it is not told why it was refused.
    pub const SOURCE_UNVERIFIED: &'static str = "Could not verify the copy source within the specified time.";

    /// `BlobNotFound` for a version that can be had back, which the answer tells in a header.
    pub fn deleted_version() -> Self {
        Self::new(ErrorCode::BlobNotFound).with_detail(Self::SOFT_DELETED, "true")
    }

    /// The detail that tells the length of a content.
    pub const CONTENT_RANGE: &'static str = "Content-Range";
    /// The detail that tells of a deleted version.
    pub const SOFT_DELETED: &'static str = "x-ms-is-soft-deleted";
    /// The details that are headers of the answer and not elements of its body.
    pub const HEADERS: [&'static str; 2] = [Self::CONTENT_RANGE, Self::SOFT_DELETED];

    /// `OutOfRangeInput` for something else than a name.
    pub fn out_of_range() -> Self {
        Self::with_message(ErrorCode::OutOfRangeInput, "One of the request inputs is out of range.")
    }

    /// Says which operation of a transaction failed.
    #[must_use]
    pub fn at_operation(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }

    /// Adds an element to the body.
    #[must_use]
    pub fn with_detail(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.details.push((name, text.into()));
        self
    }

    /// Adds what went wrong underneath.
    #[must_use]
    pub fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }
}

impl From<ErrorCode> for ServiceError {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}
