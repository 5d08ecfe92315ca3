//! A client for Azure Table, Queue and Blob storage, whose calls are the table design patterns.
//!
//! It works with any service of this API: Azure, the emulator, and the server of this workspace. An entity type is
//! described once ([`Entity`]); keys, filters and projections are checked by the compiler. A write whose answer is lost is
//! found out by reading back ([`Resolve`]), so what a call tells is what the table holds. Indexes ([`index`]), eventually
//! consistent transactions ([`eventual`]) and the other patterns ([`patterns`]) survive the death of a process at any
//! request.
//!
//! ```no_run
//! # async fn example() -> tavola_client::Result<()> {
//! use futures_util::TryStreamExt;
//! use tavola_client::{Account, Entity, In};
//!
//! #[derive(Clone, Entity)]
//! #[entity(partition = "{department}", row = "empid_{id:06}", rename_all = "PascalCase")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     last_name: String,
//!     age: i32,
//!     email: Option<String>,
//! }
//!
//! let table = Account::from_connection_string("UseDevelopmentStorage=true")?.table("Employees");
//! table.create().await?;
//! let don = Employee { department: "Sales".into(), id: 212, last_name: "Hall".into(), age: 34, email: None };
//! let mut stored = table.insert(&don, None).await?;
//! stored.email = Some("donh@contoso.com".into());
//! table.save(&mut stored, None).await?; // a merge of what differs, if nobody changed it since
//!
//! let query = table.query::<Employee>(In::partition("Sales")).filter(|e| e.age.ge(30));
//! let mut employees = std::pin::pin!(query.stream());
//! while let Some(employee) = employees.try_next().await? {
//!     println!("{} {}", employee.id, employee.last_name);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Requests need a tokio runtime.
//!
//! # Features
//!
//! None is on by default: HTTP to our server and to the emulator needs none, and the first build stays at 60 crates.
//!
//! - `tls`: HTTPS, as Azure needs it.
//! - `encryption`: properties encrypted by the client (`encrypt`).

extern crate self as tavola_client;

mod account;
mod apply;
mod blob;
mod blob_stream;
mod bulk;
mod dynamic;
pub mod edm;
#[cfg(feature = "encryption")]
pub mod encrypt;
mod entities;
pub mod entity;
mod error;
pub mod eventual;
pub mod filter;
pub mod index;
pub mod key;
mod key_space;
mod options;
pub mod patterns;
mod query;
mod queue;
mod raw;
mod resolve;
mod retry;
mod scan;
mod scope;
mod send;
mod serde_entity;
mod service;
mod source;
mod table;
pub mod testing;
mod transaction;
mod transport;
mod values;
mod write;

pub use account::{Account, Credential, Endpoints, TokenSource};
pub use blob::ContainerClient;
pub use bulk::{BulkOptions, BulkReport, Progress, ProgressCallback};
pub use dynamic::DynamicEntity;
pub use edm::{DateTime, Edm, EdmRef, EdmType, EdmValue, Guid, IntoLiteral, Property, Unfit};
pub use entity::{Changes, Entity, KeyParts, Readable, Save, Stored, Writable};
pub use error::{Error, KeyError, MapError, Result};
pub use filter::{Filter, JsonProp, Prop, Secret};
pub use key::EntityKey;
pub use options::{GetOptions, Resolve, WriteOptions};
pub use query::{Continuation, Page, Query};
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
pub use transaction::{Committed, Transaction};
pub use transport::{HyperTransport, Transport, TransportError};
pub use values::Values;
