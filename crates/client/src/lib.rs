//! A client for Azure Table, Queue and Blob storage, whose calls are the table design patterns.

extern crate self as tavola_client;

mod account;
mod apply;
mod dynamic;
pub mod edm;
pub mod entity;
mod error;
pub mod filter;
pub mod key;
mod options;
mod queue;
mod raw;
mod resolve;
mod retry;
mod scope;
mod send;
mod serde_entity;
mod service;
mod source;
mod table;
pub mod testing;
mod transport;
mod values;
mod write;

pub use account::{Account, Credential, Endpoints, TokenSource};
pub use dynamic::DynamicEntity;
pub use edm::{DateTime, Edm, EdmRef, EdmType, EdmValue, Guid, IntoLiteral, Property, Unfit};
pub use entity::{Changes, Entity, KeyParts, Readable, Save, Stored, Writable};
pub use error::{Error, KeyError, MapError, Result};
pub use filter::{Filter, JsonProp, Prop, Secret};
pub use key::EntityKey;
pub use options::{GetOptions, Resolve, WriteOptions};
pub use queue::{Lease, PeekedMessage, PutOptions, QueueClient};
pub use retry::RetrySettings;
pub use scope::{Cost, In};
pub use serde_entity::Serde;
pub use service::{AccountPermissions, Permissions};
pub use source::Source;
pub use table::{Creation, TableClient};
pub use tavola_client_derive::{Entity, EntitySet, Property, filter};
pub use tavola_model::{AccessPolicy, Operator, ServicePropertiesPatch, SignedIdentifier};
pub use tavola_protocol::{AnswerCode, Refusal};
pub use transport::{HyperTransport, Transport, TransportError};
pub use values::Values;
