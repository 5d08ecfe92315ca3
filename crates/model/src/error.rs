//! What a client can be told when a request fails.
//!
//! `ErrorCode` lists every code we promise, with the text the real service sends for it. The HTTP status
//! of a code lives in `protocol/src/status.rs` and nowhere else. The cause is logged, never sent.

use std::borrow::Cow;
use std::sync::Arc;

macro_rules! error_codes {
    ($($code:ident $(as $wire:ident)? = $message:literal,)+) => {
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
        }
    };
    (@wire $code:ident) => { stringify!($code) };
    (@wire $code:ident $wire:ident) => { stringify!($wire) };
}

// A code that the service answers with two statuses is two codes here, of one name on the wire.
error_codes! {
    AccountNotFound = "The specified account does not exist.",
    AuthenticationFailed = "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
    AuthorizationFailure = "This request is not authorized to perform this operation.",
    AuthorizationPermissionMismatch = "This request is not authorized to perform this operation using this permission.",
    AuthorizationProtocolMismatch = "This request is not authorized to perform this operation using this protocol.",
    AuthorizationResourceTypeMismatch = "This request is not authorized to perform this operation using this resource type.",
    AuthorizationServiceMismatch = "This request is not authorized to perform this operation using this service.",
    AuthorizationSourceIPMismatch = "This request is not authorized to perform this operation using this source IP.",
    CommandsInBatchActOnDifferentPartitions = "All commands in a batch must operate on same entity group.",
    CorsPreflightFailure = "CORS not enabled or no matching rule found for this request.",
    DuplicatePropertiesSpecified = "A property is specified more than one time.",
    EmptyMetadataKey = "The key for one of the metadata key-value pairs is empty.",
    EntityAlreadyExists = "The specified entity already exists.",
    EntityTooLarge = "The entity is larger than the maximum size permitted.",
    HostInformationNotPresent = "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line.",
    InternalError = "Server encountered an internal error. Please try again after some time.",
    InvalidAuthenticationInfo = "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
    MalformedAuthenticationInfo as InvalidAuthenticationInfo = "Authentication information is not given in the correct format. Check the value of Authorization header.",
    InvalidDuplicateRow = "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
    InvalidHeaderValue = "The value for one of the HTTP headers is not in the correct format.",
    InvalidHttpVerb = "The HTTP verb specified is invalid - it is not recognized by the server.",
    InvalidInput = "One of the request inputs is not valid.",
    InvalidMetadata = "The metadata specified is invalid. It has characters that are not permitted.",
    InvalidQueryParameterValue = "Value for one of the query parameters specified in the request URI is invalid.",
    InvalidResourceName = "The specifed resource name contains invalid characters.",
    InvalidUri = "The requested URI does not represent any resource on the server.",
    InvalidValueType = "The value specified is invalid.",
    InvalidXmlDocument = "XML specified is not syntactically valid.",
    JsonFormatNotSupported = "JSON format is not supported.",
    KeyValueTooLarge = "The key value is larger than the maximum size permitted.",
    MediaTypeNotSupported = "None of the provided media types are supported",
    MessageNotFound = "The specified message does not exist.",
    MetadataTooLarge = "The size of the specified metadata exceeds the maximum size permitted.",
    MethodNotAllowed = "The requested method is not allowed on the specified resource.",
    MissingContentLengthHeader = "The Content-Length header was not specified.",
    MissingRequiredHeader = "An HTTP header that's mandatory for this request is not specified.",
    MissingRequiredQueryParameter = "A query parameter that's mandatory for this request is not specified.",
    NoAuthenticationInformation = "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
    NotImplemented = "The requested operation is not implemented on the specified resource.",
    OperationTimedOut = "Operation could not be completed within the specified time.",
    OutOfRangeInput = "The specified resource name length is not within the permissible limits.",
    OutOfRangeQueryParameterValue = "One of the query parameters specified in the request URI is outside the permissible range.",
    PopReceiptMismatch = "The specified pop receipt did not match the pop receipt for a dequeued message.",
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
    ServerBusy = "The server is currently unable to receive requests. Please retry your request.",
    TableAlreadyExists = "The table specified already exists.",
    TableBeingDeleted = "The specified table is being deleted. Try operation later.",
    TableNotFound = "The table specified does not exist.",
    TooManyProperties = "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.",
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
    /// Further elements of the body, where the form of the error has room for them: names and texts, in order.
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
