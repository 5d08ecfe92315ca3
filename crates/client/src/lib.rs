//! A client for Azure Table, Queue and Blob storage, whose calls are the table design patterns.

extern crate self as tavola_client;

mod account;
mod apply;
mod error;
mod options;
mod queue;
mod raw;
mod resolve;
mod retry;
mod send;
mod service;
mod table;
pub mod testing;
mod transport;
mod write;

pub use account::{Account, Credential, Endpoints, TokenSource};
pub use error::{Error, KeyError, MapError, Result};
pub use options::{GetOptions, Resolve, WriteOptions};
pub use queue::{Lease, PeekedMessage, PutOptions, QueueClient};
pub use retry::RetrySettings;
pub use service::{AccountPermissions, Permissions};
pub use table::{Creation, TableClient};
pub use tavola_model::{AccessPolicy, ServicePropertiesPatch, SignedIdentifier};
pub use tavola_protocol::{AnswerCode, Refusal};
pub use transport::{HyperTransport, Transport, TransportError};
