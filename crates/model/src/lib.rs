//! The nouns of the storage services: what exists, what is valid, what can be asked and answered.
//!
//! Nothing here does I/O, knows JSON or HTTP, or is `async`. Every type is valid for as long as it
//! exists: text is checked once, where it enters, and the type is the proof.
//!
//! What all services share is at the top; `table`, `queue` and `blob` hold the nouns of one service each and
//! never import from each other.
//!
//! ```
//! use tavola_model::{TableName, PropertiesBuilder, EdmValue};
//! let name = TableName::parse("People").unwrap();
//! assert_eq!(name.folded(), "people");
//! let mut properties = PropertiesBuilder::new();
//! properties.push("Age", EdmValue::Int32(41)).unwrap();
//! assert_eq!(properties.finish().get("Age"), Some(EdmValue::Int32(41)));
//! ```

mod account;
mod acl;
mod address;
mod blob;
mod clock;
mod command;
mod datetime;
mod error;
mod guid;
mod key_bytes;
mod lease;
mod limits;
mod metadata;
mod outcome;
mod query;
mod queue;
mod random;
mod service;
mod service_properties;
mod table;
mod text;

pub use account::AccountName;
pub use acl::{AccessPolicy, PublicAccess, SignedIdentifier};
pub use address::{Address, AddressStyle};
pub use blob::*;
pub use clock::Clock;
pub use command::{AccountCommand, Command, Preflight};
pub use datetime::DateTime;
pub use error::{ErrorCode, ServiceError};
pub use guid::Guid;
pub use key_bytes::KeyBytes;
pub use lease::{LeaseAction, LeaseDone, LeaseDuration, LeaseId, LeaseShown, LeaseState};
pub use limits::*;
pub use metadata::Metadata;
pub use outcome::{AccountOutcome, Outcome, PreflightAllowed, ServiceStats};
pub use query::{Query, is_signature};
pub use queue::*;
pub use random::RandomSource;
pub use service::StorageService;
pub use service_properties::{
    BlobServiceProperties, CorsRule, DeleteRetention, Logging, Metrics, RetentionPolicy, ServiceProperties,
    ServicePropertiesPatch, StaticWebsite,
};
pub use table::*;
pub use text::Text;
