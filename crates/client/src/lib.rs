//! A client for Azure Table, Queue and Blob storage, whose calls are the table design patterns.

extern crate self as tavola_client;

mod dynamic;
pub mod edm;
pub mod entity;
mod error;
pub mod filter;
pub mod key;
mod scope;
mod source;
mod values;

pub use dynamic::DynamicEntity;
pub use edm::{DateTime, Edm, EdmRef, EdmType, EdmValue, Guid, IntoLiteral, Property, Unfit};
pub use entity::{Changes, Entity, KeyParts, Readable, Save, Stored, Writable};
pub use error::{Error, KeyError, MapError, Result};
pub use filter::{Filter, JsonProp, Prop, Secret};
pub use key::EntityKey;
pub use scope::{Cost, In};
pub use source::Source;
pub use tavola_client_derive::{Entity, EntitySet, Property, filter};
pub use tavola_model::Operator;
pub use values::Values;
