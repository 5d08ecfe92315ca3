//! The nouns of the storage services: what exists, what is valid, what can be asked and answered.
//!
//! Nothing here does I/O, knows JSON or HTTP, or is `async`. Every type is valid for as long as it
//! exists: text is checked once, where it enters, and the type is the proof.
//!
//! ```
//! use tavola_model::{TableName, PropertiesBuilder, EdmValue};
//! let name = TableName::parse("People").unwrap();
//! assert_eq!(name.folded(), "people");
//! let mut properties = PropertiesBuilder::new();
//! properties.push("Age", EdmValue::Int32(41)).unwrap();
//! assert_eq!(properties.finish().get("Age"), Some(EdmValue::Int32(41)));
//! ```

mod acl;
mod address;
mod clock;
mod command;
mod datetime;
mod entity;
mod error;
mod etag;
mod filter;
mod guid;
mod key;
mod limits;
mod name;
mod outcome;
mod properties;
mod queue;
mod queue_command;
mod service_properties;
mod value;

pub use acl::{AccessPolicy, SignedIdentifier};
pub use address::{Address, AddressStyle};
pub use clock::{Clock, SystemClock};
pub use command::{
    Command, EntityChange, EntityGroupTransaction, EntityWrite, GetEntity, Preflight, QueryEntities,
    QueryTables, TableToken,
};
pub use datetime::DateTime;
pub use entity::{EntityKey, EntityToken, StoredEntity};
pub use error::{ErrorCode, ServiceError};
pub use etag::{Etag, EtagCondition};
pub use filter::{Comparison, Filter, FilterBuilder, FilterNode, NodeId, Operator, PropertyRef};
pub use guid::Guid;
pub use key::{Key, KeyBytes};
pub use limits::*;
pub use name::{AccountName, TableName};
pub use outcome::{
    EntityPage, Outcome, PlanKind, PlanReport, PreflightAllowed, ServiceStats, TablePage, WriteOutcome,
};
pub use properties::{
    Properties, PropertiesBuilder, Property, StoredProperty, StoredValue, UncheckedProperty,
    validate_property_name,
};
pub use queue::{Message, MessageHold, MessageId, Metadata, PopReceipt, QueueName};
pub use queue_command::{
    GetMessages, ListQueues, ListedQueue, MessageRef, PeekMessages, PutMessage, QueueCommand, QueueOutcome,
    QueuePage, QueueWas, UpdateMessage,
};
pub use service_properties::{
    CorsRule, Logging, Metrics, RetentionPolicy, ServiceProperties, ServicePropertiesPatch,
};
pub use value::{EdmType, EdmValue};
