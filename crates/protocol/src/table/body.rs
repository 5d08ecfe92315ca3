//! An entity as a request body gave it, whichever the format.
//!
//! A body can be wrong in two ways: it cannot be read (the reader says so at once), or what it holds breaks a
//! rule of the data model. The second kind is kept here until the table is known to exist, because the
//! service looks for the table first.

use tavola_model::{EdmValue, EntityKey, ErrorCode, Key, Properties, PropertiesBuilder, ServiceError};

/// Where the keys of an entity are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysIn {
    /// In the body: a new entity.
    Body,
    /// In the address: what the body says of them is not looked at.
    Address,
}

/// Keys and properties, and the first rule they broke.
pub struct EntityBody {
    partition: Option<String>,
    row: Option<String>,
    properties: PropertiesBuilder,
    refusal: Option<ServiceError>,
}

impl EntityBody {
    /// With nothing read yet.
    pub fn new(properties: PropertiesBuilder) -> Self {
        Self { partition: None, row: None, properties, refusal: None }
    }

    /// Notes `PartitionKey` or `RowKey`.
    pub fn set_key(&mut self, name: &str, value: String) {
        let key = if name == "PartitionKey" { &mut self.partition } else { &mut self.row };
        if key.replace(value).is_some() {
            self.refuse(ErrorCode::DuplicatePropertiesSpecified.into());
        }
    }

    /// Notes a property.
    pub fn push(&mut self, name: &str, value: EdmValue<'_>) {
        if self.refusal.is_none()
            && let Err(error) = self.properties.push(name, value)
        {
            self.refuse(error);
        }
    }

    /// Notes that a rule was broken; the first one counts.
    pub fn refuse(&mut self, error: ServiceError) {
        self.refusal.get_or_insert(error);
    }

    /// The keys of a new entity and its properties.
    pub fn into_entity(self) -> Result<(EntityKey, Properties), ServiceError> {
        let (Some(partition), Some(row)) = (self.partition, self.row) else {
            return Err(ErrorCode::PropertiesNeedValue.into());
        };
        if let Some(error) = self.refusal {
            return Err(error);
        }
        let key = EntityKey { partition: Key::parse(&partition)?, row: Key::parse(&row)? };
        Ok((key, self.properties.finish()))
    }

    /// The properties alone, where the keys are in the address.
    pub fn into_properties(self) -> Result<Properties, ServiceError> {
        match self.refusal {
            Some(error) => Err(error),
            None => Ok(self.properties.finish()),
        }
    }
}
