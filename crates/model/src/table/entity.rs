//! An entity: two keys, a version that is its Timestamp and ETag, and its properties.

use crate::{DateTime, Etag, Key, Properties};

/// What identifies an entity in its table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntityKey {
    /// The PartitionKey.
    pub partition: Key,
    /// The RowKey.
    pub row: Key,
}

/// An entity as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntity {
    /// Its keys.
    pub key: EntityKey,
    /// When it was last written; also its version.
    pub timestamp: DateTime,
    /// Its custom properties, packed.
    pub properties: Properties,
}

impl StoredEntity {
    /// The ETag that the Timestamp makes.
    pub fn etag(&self) -> Etag {
        Etag(self.timestamp)
    }
}

/// Where the next page of a query begins: at this entity, or the first one behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityToken {
    /// PartitionKey of the next entity.
    pub partition: Box<str>,
    /// RowKey of the next entity; empty for the start of the partition.
    pub row: Box<str>,
}
