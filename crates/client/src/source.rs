//! The one place from which entities are read, whatever holds their properties.

use std::collections::BTreeMap;

use tavola_model::Properties;
use tavola_protocol::table::FetchedEntity;

use crate::edm::{DateTime, EdmRef, EdmValue, Property, Unfit};
use crate::entity::KeyParts;
use crate::error::MapError;
use crate::key::{KeyPart, Template};

/// An entity to be read: its keys and its properties, borrowed.
///
/// ```
/// use tavola_client::{DynamicEntity, EdmRef};
/// let bag = DynamicEntity::new(("Sales", "Department")).with("Count", 3);
/// let source = bag.as_source();
/// assert_eq!(source.get("Count"), Some(EdmRef::Int32(3)));
/// assert_eq!(source.property::<i32>("Count").unwrap(), 3);
/// ```
#[derive(Clone, Copy)]
pub struct Source<'a> {
    partition: &'a str,
    row: &'a str,
    timestamp: Option<DateTime>,
    properties: Held<'a>,
    parts: KeyParts,
    /// Values that were decrypted.
    opened: Option<&'a BTreeMap<String, EdmValue>>,
}

#[derive(Clone, Copy)]
enum Held<'a> {
    Packed(&'a Properties),
    Fetched(&'a FetchedEntity<'a>),
    Bag(&'a BTreeMap<String, EdmValue>),
}

impl<'a> Source<'a> {
    /// Packed properties.
    pub(crate) fn packed(key: &'a crate::EntityKey, properties: &'a Properties) -> Self {
        Self::new(&key.partition, &key.row, Held::Packed(properties))
    }

    /// An entity of an answer. Keys that were not asked for are empty.
    #[doc(hidden)]
    pub fn fetched(entity: &'a FetchedEntity<'a>) -> Self {
        let partition = entity.partition_key.as_deref().unwrap_or_default();
        let row = entity.row_key.as_deref().unwrap_or_default();
        Self { timestamp: entity.timestamp, ..Self::new(partition, row, Held::Fetched(entity)) }
    }

    pub(crate) fn bag(key: &'a crate::EntityKey, properties: &'a BTreeMap<String, EdmValue>) -> Self {
        Self::new(&key.partition, &key.row, Held::Bag(properties))
    }

    fn new(partition: &'a str, row: &'a str, properties: Held<'a>) -> Self {
        Self { partition, row, timestamp: None, properties, parts: KeyParts::InKey, opened: None }
    }

    /// The same entity, whose key parts are (or are not) among its properties: a copy under another key.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, KeyParts};
    /// let copy = DynamicEntity::new(("name_Hall", "Sales_000212")).with("Department", "Sales");
    /// let source = copy.as_source().with_parts(KeyParts::AsProperties);
    /// assert_eq!(source.partition(), "name_Hall");
    /// ```
    #[must_use]
    pub fn with_parts(mut self, parts: KeyParts) -> Self {
        self.parts = parts;
        self
    }

    /// The same entity with the values that were decrypted.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub(crate) fn with_opened(mut self, opened: &'a BTreeMap<String, EdmValue>) -> Self {
        self.opened = Some(opened);
        self
    }

    /// The same entity under another PartitionKey.
    #[must_use]
    pub(crate) fn with_partition(mut self, partition: &'a str) -> Self {
        self.partition = partition;
        self
    }

    /// The PartitionKey.
    ///
    /// ```
    /// assert_eq!(tavola_client::DynamicEntity::new(("p", "r")).as_source().partition(), "p");
    /// ```
    pub fn partition(&self) -> &'a str {
        self.partition
    }

    /// The RowKey.
    ///
    /// ```
    /// assert_eq!(tavola_client::DynamicEntity::new(("p", "r")).as_source().row(), "r");
    /// ```
    pub fn row(&self) -> &'a str {
        self.row
    }

    /// The value of a property, of the three that every entity has too.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, EdmRef};
    /// assert_eq!(DynamicEntity::new(("p", "r")).as_source().get("RowKey"), Some(EdmRef::String("r")));
    /// ```
    pub fn get(&self, name: &str) -> Option<EdmRef<'a>> {
        match name {
            "PartitionKey" => Some(EdmRef::String(self.partition)),
            "RowKey" => Some(EdmRef::String(self.row)),
            "Timestamp" => self.timestamp.map(EdmRef::DateTime),
            _ => match self.properties {
                Held::Packed(properties) => properties.get(name),
                Held::Fetched(entity) => entity.get(name),
                Held::Bag(bag) => bag.get(name).map(EdmValue::borrow),
            },
        }
    }

    /// Every property but the three that every entity has.
    ///
    /// ```
    /// use tavola_client::DynamicEntity;
    /// let bag = DynamicEntity::new(("p", "r")).with("A", 1);
    /// assert_eq!(bag.as_source().properties(), [("A".to_owned(), 1.into())]);
    /// ```
    pub fn properties(&self) -> Vec<(String, EdmValue)> {
        match self.properties {
            Held::Packed(properties) => {
                properties.iter().map(|property| (property.name.to_owned(), property.value.into())).collect()
            }
            Held::Fetched(entity) => {
                let own = |property: &tavola_protocol::table::FetchedProperty<'_>| {
                    (property.name.clone().into_owned(), property.value.as_edm().into())
                };
                entity.properties.iter().map(own).collect()
            }
            Held::Bag(bag) => bag.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        }
    }

    /// Reads a property into its field.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, MapError};
    /// let missing = DynamicEntity::new(("p", "r")).as_source().property::<i32>("Age");
    /// assert!(matches!(missing, Err(MapError::Missing { property: "Age" })));
    /// ```
    pub fn property<T: Property>(&self, property: &'static str) -> Result<T, MapError> {
        match self.get(property) {
            Some(value) => T::from_edm(value).map_err(|unfit| unfit.of(property)),
            None => T::absent().ok_or(MapError::Missing { property }),
        }
    }

    /// Reads a property into its field; one that is not there gives the default.
    ///
    /// ```
    /// use tavola_client::DynamicEntity;
    /// assert_eq!(DynamicEntity::new(("p", "r")).as_source().or_default::<i64>("Visits").unwrap(), 0);
    /// ```
    pub fn or_default<T: Property + Default>(&self, property: &'static str) -> Result<T, MapError> {
        match self.get(property) {
            Some(_) => self.property(property),
            None => Ok(T::default()),
        }
    }

    /// Reads a property that is a value of serde as JSON text.
    ///
    /// ```
    /// use tavola_client::DynamicEntity;
    /// let bag = DynamicEntity::new(("p", "r")).with("Skills", r#"["SQL"]"#);
    /// assert_eq!(bag.as_source().json::<Vec<String>>("Skills").unwrap(), ["SQL"]);
    /// ```
    pub fn json<T: serde::de::DeserializeOwned>(&self, property: &'static str) -> Result<T, MapError> {
        match self.get(property) {
            Some(EdmRef::String(text)) => serde_json::from_str(text)
                .map_err(|cause| MapError::Value { property, cause: cause.to_string() }),
            Some(other) => Err(Unfit::Type(other.edm_type()).of(property)),
            // An optional value that is not there reads as null does.
            None => serde_json::from_str("null").map_err(|_| MapError::Missing { property }),
        }
    }

    /// Reads an encrypted property. What was not decrypted is refused, so that a later save cannot lose it.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, MapError};
    /// let sealed = DynamicEntity::new(("p", "r")).with("Salary", &[1u8, 2][..]);
    /// let refused = sealed.as_source().secret::<String>("Salary");
    /// assert!(matches!(refused, Err(MapError::Encrypted { property: "Salary" })));
    /// ```
    pub fn secret<T: Property>(&self, property: &'static str) -> Result<T, MapError> {
        match self.opened.and_then(|opened| opened.get(property)) {
            Some(value) => T::from_edm(value.borrow()).map_err(|unfit| unfit.of(property)),
            None if self.get(property).is_some() => Err(MapError::Encrypted { property }),
            None => T::absent().ok_or(MapError::Missing { property }),
        }
    }

    /// Reads an encrypted property that is JSON text inside. For the derive macro.
    #[doc(hidden)]
    pub fn secret_json<T: serde::de::DeserializeOwned>(&self, property: &'static str) -> Result<T, MapError> {
        let text = self.secret::<Option<String>>(property)?;
        let text = text.as_deref().unwrap_or("null");
        serde_json::from_str(text).map_err(|cause| MapError::Value { property, cause: cause.to_string() })
    }

    /// Reads a part of the PartitionKey: from the key, or from the property that a copy has instead. For the derive
    /// macro.
    #[doc(hidden)]
    pub fn partition_part<T: KeyPart>(
        &self,
        template: &Template,
        name: &str,
        property: &'static str,
    ) -> Result<T, MapError> {
        self.part(template, self.partition, name, property)
    }

    /// Reads a part of the RowKey, in the same way. For the derive macro.
    #[doc(hidden)]
    pub fn row_part<T: KeyPart>(
        &self,
        template: &Template,
        name: &str,
        property: &'static str,
    ) -> Result<T, MapError> {
        self.part(template, self.row, name, property)
    }

    /// Refuses a PartitionKey that does not follow a template without parts. For the derive macro.
    #[doc(hidden)]
    pub fn check_partition(&self, template: &Template) -> Result<(), MapError> {
        self.check_fixed(template, self.partition)
    }

    /// Refuses a RowKey that does not follow a template without parts. For the derive macro.
    #[doc(hidden)]
    pub fn check_row(&self, template: &Template) -> Result<(), MapError> {
        self.check_fixed(template, self.row)
    }

    fn check_fixed(&self, template: &Template, key: &str) -> Result<(), MapError> {
        if self.parts == KeyParts::InKey && !template.fits(key) {
            return Err(MapError::Key { template: template.text, key: key.to_owned() });
        }
        Ok(())
    }

    fn part<T: KeyPart>(
        &self,
        template: &Template,
        key: &str,
        name: &str,
        property: &'static str,
    ) -> Result<T, MapError> {
        match self.parts {
            KeyParts::InKey => template.parse(key, name),
            KeyParts::AsProperties => {
                let value = self.get(property).ok_or(MapError::Missing { property })?;
                T::part_from_edm(value).map_err(|unfit| unfit.of(property))
            }
        }
    }
}

impl Unfit {
    fn of(self, property: &'static str) -> MapError {
        match self {
            Self::Type(found) => MapError::Type { property, found: found.as_str() },
            Self::Value(cause) => MapError::Value { property, cause },
        }
    }
}
