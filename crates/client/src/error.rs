//! What can go wrong, sorted by what a caller can do about it.
//!
//! A refusal that has a meaning of its own (`Changed`, `Taken`, `NotFound`) is a variant of its own; every other keeps
//! all that the service told. `OutcomeUnknown` is the only one after which a write may or may not have been kept.

use tavola_protocol::{AnswerCode, AnswerError, Refusal};

/// A property that does not fit its field.
///
/// ```
/// # #[derive(Clone, Debug, tavola_client::Entity)]
/// # #[entity(partition = "{a}", row = "r")]
/// # struct One { a: String, age: i32 }
/// use tavola_client::{DynamicEntity, MapError, Readable};
/// let empty = DynamicEntity::new(("p", "r"));
/// assert!(matches!(One::read(&empty.as_source()), Err(MapError::Missing { property: "age" })));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The entity has no such property and the field has no default.
    #[error("property is missing (property={property})")]
    Missing {
        /// Its name on the wire.
        property: &'static str,
    },
    /// The property is of another type than the field.
    #[error("property has another type (property={property}, found={found})")]
    Type {
        /// Its name on the wire.
        property: &'static str,
        /// The type that it has.
        found: &'static str,
    },
    /// The value is of the right type and yet none that the field can hold.
    #[error("property holds no value of its field (property={property}): {cause}")]
    Value {
        /// Its name on the wire.
        property: &'static str,
        /// What is wrong with it.
        cause: String,
    },
    /// A key was not built from the template of the type.
    #[error("key does not follow its template (template={template})")]
    Key {
        /// The template.
        template: &'static str,
        /// The key.
        key: String,
    },
    /// The property is encrypted, and this call has no keys.
    #[error("property is encrypted and there is no key to it here (property={property})")]
    Encrypted {
        /// Its name on the wire.
        property: &'static str,
    },
    /// No variant of the set takes an entity of this type.
    #[error("entity type is unknown (found={found})")]
    EntityType {
        /// What stands in the `EntityType` property.
        found: String,
    },
}

/// A key that cannot be built.
///
/// ```
/// # #[derive(Clone, Debug, tavola_client::Entity)]
/// # #[entity(partition = "{a}", row = "r")]
/// # struct One { a: String }
/// use tavola_client::{KeyError, Writable};
/// assert_eq!(One { a: "a/b".into() }.key(), Err(KeyError::Forbidden('/')));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The service accepts no such character in a key.
    #[error("key has a forbidden character (character={0:?})")]
    Forbidden(char),
    /// A part holds the text that ends it, so the key could not be parsed back.
    #[error("key part holds its own separator (separator={separator})")]
    Separator {
        /// The part.
        part: String,
        /// The text behind it.
        separator: &'static str,
    },
    /// A number has more digits than its template says.
    #[error("number does not fit its width (width={0})")]
    Width(usize),
    /// A struct of serde has no text named `PartitionKey` or `RowKey`.
    #[error("entity has no PartitionKey or no RowKey")]
    Missing,
    /// The service accepts at most 512 UTF-16 units.
    #[error("key is longer than 512 UTF-16 units")]
    TooLong,
}

/// All that a call can answer.
///
/// ```
/// use tavola_client::Error;
/// # fn decide(error: Error) -> &'static str {
/// match error {
///     Error::Changed => "read again and decide again",
///     Error::Taken { .. } => "the key is in use",
///     Error::OutcomeUnknown { .. } => "look before trying again",
///     _ => "give up",
/// }
/// # }
/// # assert_eq!(decide(Error::Changed), "read again and decide again");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service refused; nothing was changed.
    #[error("service refused: {0}")]
    Service(Box<Refusal>),
    /// There is no such entity. Reads give `None` instead.
    #[error("entity does not exist")]
    NotFound,
    /// The entity is not as it was read. Read again and decide again.
    #[error("entity changed since it was read")]
    Changed,
    /// The key, or a value that a unique index holds, is in use.
    #[error("key is taken (index={index:?})")]
    Taken {
        /// The unique index; `None` for the key of the entity itself.
        index: Option<&'static str>,
    },
    /// One operation of a transaction was refused; none was applied.
    #[error("operation {index} of the transaction was refused")]
    Transaction {
        /// Zero-based, in the order in which they were added.
        index: usize,
        /// Why.
        #[source]
        cause: Box<Error>,
    },
    /// No answer came, and reading back could not tell. The write may or may not have been kept.
    #[error("outcome is unknown (attempts={attempts})")]
    OutcomeUnknown {
        /// How often the request was sent.
        attempts: u32,
        /// The last failure.
        #[source]
        cause: Option<Box<Error>>,
    },
    /// A limit of the service or of a pattern, checked before anything was sent.
    #[error("limit exceeded: {0}")]
    Limit(&'static str),
    /// The token belongs to another query.
    #[error("continuation is of another query")]
    ContinuationMismatch,
    /// An entity could not be read into its type.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A key could not be built.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The request was refused before it was sent: a name, a value or a tag that the service would not accept.
    #[error("request is invalid: {0}")]
    Invalid(String),
    /// A secret could not be sealed or opened: a key is missing, or what was stored was changed.
    #[error("encryption failed: {0}")]
    Encryption(String),
    /// A connection string, an endpoint or a credential cannot be used.
    #[error("account cannot be used: {0}")]
    Account(String),
    /// The service could not be reached, and nothing was sent.
    #[error("service could not be reached: {0}")]
    NotSent(String),
    /// The answer says that the operation succeeded but cannot be read.
    #[error("answer cannot be read: {0}")]
    Unreadable(String),
    /// The message or the lease is no longer held by this process.
    #[error("lease is lost")]
    LeaseLost,
    /// A step of an eventual transaction failed for a reason of the application's own.
    #[error("step failed: {0}")]
    Step(String),
}

/// What calls of this crate return.
///
/// ```
/// fn name() -> tavola_client::Result<String> {
///     Ok(tavola_client::Account::development()?.table("Employees").name().to_owned())
/// }
/// assert_eq!(name().unwrap(), "Employees");
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The refusal of the service, if it is one: of the operation that failed, in a transaction.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// if let Err(error) = table.delete_table().await {
    ///     println!("{:?}", error.refusal().and_then(|refusal| refusal.request_id.as_deref()));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Service(refusal) => Some(refusal),
            Self::Transaction { cause, .. } => cause.refusal(),
            _ => None,
        }
    }

    /// The code of the refusal as it is on the wire.
    ///
    /// ```
    /// assert_eq!(tavola_client::Error::Changed.code(), None);
    /// ```
    pub fn code(&self) -> Option<&str> {
        self.refusal()?.code.as_ref().map(AnswerCode::as_str)
    }
}

impl From<AnswerError> for Error {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Refused(refusal) => Self::Service(refusal),
            unreadable @ AnswerError::Unreadable { .. } => Self::Unreadable(unreadable.to_string()),
        }
    }
}

impl From<tavola_model::ServiceError> for Error {
    fn from(error: tavola_model::ServiceError) -> Self {
        Self::Invalid(error.to_string())
    }
}
