//! An entity as it was read, whatever its type: keys, tag, time and packed properties.

use tavola_model::{DateTime, EntityKey, Key, Properties, PropertiesBuilder};
use tavola_protocol::table::FetchedEntity;

/// An entity of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawEntity {
    pub(crate) key: EntityKey,
    /// Empty if the answer does not tell it.
    pub(crate) etag: String,
    pub(crate) timestamp: DateTime,
    pub(crate) properties: Properties,
}

impl RawEntity {
    /// Packs what an answer tells. With a projection, keys and time may be missing: then they are empty.
    pub(crate) fn read(fetched: &FetchedEntity<'_>) -> Option<Self> {
        let mut properties = PropertiesBuilder::with_capacity(fetched.properties.len(), 256);
        for property in &fetched.properties {
            properties.push(&property.name, property.value.as_edm()).ok()?;
        }
        let key =
            |text: &Option<std::borrow::Cow<'_, str>>| Key::parse(text.as_deref().unwrap_or_default()).ok();
        let key = EntityKey { partition: key(&fetched.partition_key)?, row: key(&fetched.row_key)? };
        Some(Self {
            key,
            etag: fetched.etag.as_deref().unwrap_or_default().to_owned(),
            timestamp: fetched.timestamp.unwrap_or(DateTime::MIN),
            properties: properties.finish(),
        })
    }
}
