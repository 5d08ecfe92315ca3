//! The bag of properties: an entity of any type, or of none.

use std::collections::BTreeMap;

use crate::edm::{Edm, EdmValue};
use crate::entity::{KeyParts, Readable, Writable};
use crate::error::{KeyError, MapError, Result};
use crate::key::EntityKey;
use crate::source::Source;
use crate::values::Values;

/// Any entity: a key and named values.
///
/// ```
/// use tavola_client::{DynamicEntity, EdmValue};
/// let mut department = DynamicEntity::new(("Sales", "Department")).with("EmployeeCount", 153);
/// department.put("EmployeeCount", 154);
/// department.remove("Budget");
/// assert_eq!(department.get("EmployeeCount"), Some(&EdmValue::Int32(154)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DynamicEntity {
    /// Its key.
    pub key: EntityKey,
    /// Its properties, the keys and the Timestamp apart.
    pub properties: BTreeMap<String, EdmValue>,
}

impl DynamicEntity {
    /// An entity without properties.
    ///
    /// ```
    /// let empty = tavola_client::DynamicEntity::new(("Sales", "Department"));
    /// assert!(empty.properties.is_empty());
    /// ```
    pub fn new(key: impl Into<EntityKey>) -> Self {
        Self { key: key.into(), properties: BTreeMap::new() }
    }

    /// The same entity with one more property.
    ///
    /// ```
    /// use tavola_client::DynamicEntity;
    /// assert_eq!(DynamicEntity::new(("p", "r")).with("Age", 34).properties.len(), 1);
    /// ```
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<EdmValue>) -> Self {
        self.put(name, value);
        self
    }

    /// Sets a property.
    ///
    /// ```
    /// let mut bag = tavola_client::DynamicEntity::new(("p", "r"));
    /// bag.put("Age", 34);
    /// ```
    pub fn put(&mut self, name: &str, value: impl Into<EdmValue>) {
        self.properties.insert(name.to_owned(), value.into());
    }

    /// Removes a property.
    ///
    /// ```
    /// let mut bag = tavola_client::DynamicEntity::new(("p", "r")).with("Age", 34);
    /// assert!(bag.remove("Age").is_some());
    /// ```
    pub fn remove(&mut self, name: &str) -> Option<EdmValue> {
        self.properties.remove(name)
    }

    /// The value of a property.
    ///
    /// ```
    /// assert_eq!(tavola_client::DynamicEntity::new(("p", "r")).get("Age"), None);
    /// ```
    pub fn get(&self, name: &str) -> Option<&EdmValue> {
        self.properties.get(name)
    }

    /// The entity as the types read it.
    ///
    /// ```
    /// assert_eq!(tavola_client::DynamicEntity::new(("p", "r")).as_source().row(), "r");
    /// ```
    pub fn as_source(&self) -> Source<'_> {
        Source::bag(&self.key, &self.properties)
    }

    /// The key and the properties that are sent for an entity.
    ///
    /// ```
    /// use tavola_client::DynamicEntity;
    /// let bag = DynamicEntity::new(("p", "r")).with("Age", 34);
    /// assert_eq!(DynamicEntity::from_entity(&bag).unwrap(), bag);
    /// ```
    pub fn from_entity<T: Writable>(entity: &T) -> Result<Self> {
        let mut values = Values::new();
        entity.write(KeyParts::InKey, &mut values)?;
        Ok(Self::from_values(entity.key()?, &values))
    }

    pub(crate) fn from_values(key: EntityKey, values: &Values<'_>) -> Self {
        let named = values.named();
        Self {
            key,
            properties: named.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect(),
        }
    }
}

impl Readable for DynamicEntity {
    fn read(source: &Source<'_>) -> Result<Self, MapError> {
        let key = EntityKey::from((source.partition(), source.row()));
        Ok(Self { key, properties: source.properties().into_iter().collect() })
    }
}

impl Writable for DynamicEntity {
    fn key(&self) -> Result<EntityKey, KeyError> {
        self.key.checked()?;
        Ok(self.key.clone())
    }

    fn write<'a>(&'a self, _: KeyParts, out: &mut Values<'a>) -> Result<(), MapError> {
        for (name, value) in &self.properties {
            out.put(name.as_str(), Some(Edm::Borrowed(value.borrow())));
        }
        Ok(())
    }

    /// All of them: a property that was removed from the bag is removed from the table.
    fn owns(&self, _: &str) -> bool {
        true
    }
}
