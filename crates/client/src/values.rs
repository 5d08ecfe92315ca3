//! The properties of an entity on their way out: names and values, in order.

use std::borrow::Cow;

use tavola_model::{Properties, PropertiesBuilder};

use crate::edm::{Edm, EdmRef, EdmValue};
use crate::error::{Error, MapError, Result};

/// Names and values, borrowed from the entity where they can be.
///
/// Values to be encrypted are refused unless the collector was made for them ([`Values::with_secrets`]), so that an
/// entity with encrypted fields cannot be written in the clear by mistake.
///
/// ```
/// use tavola_client::{Edm, EdmRef, Values};
/// let mut values = Values::new();
/// values.put("Age", Some(Edm::Borrowed(EdmRef::Int32(34))));
/// values.put("Email", None);
/// assert_eq!(values.named(), [("Age", EdmRef::Int32(34))]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values<'a> {
    list: Vec<(Cow<'a, str>, Edm<'a>)>,
    secrets: Option<Vec<(&'static str, Edm<'a>)>>,
}

impl<'a> Values<'a> {
    /// With nothing in it; refuses values to be encrypted.
    ///
    /// ```
    /// assert!(tavola_client::Values::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// With nothing in it; keeps values to be encrypted apart.
    ///
    /// ```
    /// use tavola_client::{Edm, Values};
    /// let mut values = Values::with_secrets();
    /// values.put_secret("Salary", Some(Edm::Text("100".into()))).unwrap();
    /// assert!(values.is_empty());
    /// assert_eq!(values.take_secrets().len(), 1);
    /// ```
    pub fn with_secrets() -> Self {
        Self { list: Vec::new(), secrets: Some(Vec::new()) }
    }

    /// Adds a property, if there is a value.
    ///
    /// ```
    /// let mut values = tavola_client::Values::new();
    /// values.put("Name", Some(tavola_client::Edm::Text("Don".into())));
    /// assert_eq!(values.len(), 1);
    /// ```
    pub fn put(&mut self, name: impl Into<Cow<'a, str>>, value: Option<Edm<'a>>) {
        if let Some(value) = value {
            self.list.push((name.into(), value));
        }
    }

    /// Adds a property whose value is to be encrypted.
    ///
    /// ```
    /// use tavola_client::{Edm, MapError, Values};
    /// let refused = Values::new().put_secret("Salary", Some(Edm::Text("100".into())));
    /// assert!(matches!(refused, Err(MapError::Encrypted { property: "Salary" })));
    /// ```
    pub fn put_secret(&mut self, name: &'static str, value: Option<Edm<'a>>) -> Result<(), MapError> {
        let secrets = self.secrets.as_mut().ok_or(MapError::Encrypted { property: name })?;
        secrets.extend(value.map(|value| (name, value)));
        Ok(())
    }

    /// Takes out the values to be encrypted.
    ///
    /// ```
    /// assert!(tavola_client::Values::new().take_secrets().is_empty());
    /// ```
    pub fn take_secrets(&mut self) -> Vec<(&'static str, Edm<'a>)> {
        self.secrets.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How many there are, those to be encrypted apart.
    ///
    /// ```
    /// assert_eq!(tavola_client::Values::new().len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// There is none.
    ///
    /// ```
    /// assert!(tavola_client::Values::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The value of a property.
    ///
    /// ```
    /// assert_eq!(tavola_client::Values::new().get("Age"), None);
    /// ```
    pub fn get(&self, name: &str) -> Option<EdmRef<'_>> {
        self.list.iter().find(|(known, _)| known == name).map(|(_, value)| value.borrow())
    }

    /// Names and values in the form in which requests are made.
    ///
    /// ```
    /// assert!(tavola_client::Values::new().named().is_empty());
    /// ```
    pub fn named(&self) -> Vec<(&str, EdmRef<'_>)> {
        self.list.iter().map(|(name, value)| (name.as_ref(), value.borrow())).collect()
    }

    /// Leaves only those that `keep` accepts.
    ///
    /// ```
    /// use tavola_client::{Edm, Values};
    /// let mut values = Values::new();
    /// values.put("A", Some(Edm::Text("a".into())));
    /// values.retain(|name, _| name != "A");
    /// assert!(values.is_empty());
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(&str, EdmRef<'_>) -> bool) {
        self.list.retain(|(name, value)| keep(name, value.borrow()));
    }

    /// The same, borrowing nothing.
    ///
    /// ```
    /// let kept: tavola_client::Values<'static> = tavola_client::Values::new().into_owned();
    /// ```
    pub fn into_owned(self) -> Values<'static> {
        let own = |edm: Edm<'_>| Edm::from(edm.into_value());
        Values {
            list: self
                .list
                .into_iter()
                .map(|(name, value)| (Cow::Owned(name.into_owned()), own(value)))
                .collect(),
            secrets: self
                .secrets
                .map(|list| list.into_iter().map(|(name, value)| (name, own(value))).collect()),
        }
    }

    /// Packs them, as an entity that was read keeps them; refuses what the service refuses.
    ///
    /// ```
    /// assert!(tavola_client::Values::new().pack().unwrap().is_empty());
    /// ```
    pub fn pack(&self) -> Result<Properties> {
        let record_bytes = |(name, value): &(Cow<'_, str>, Edm<'_>)| name.len() + value_bytes(value.borrow());
        let bytes = self.list.iter().map(record_bytes).sum();
        let mut builder = PropertiesBuilder::with_capacity(self.list.len(), bytes);
        for (name, value) in &self.list {
            builder.push(name, value.borrow()).map_err(|error| Error::Invalid(error.to_string()))?;
        }
        Ok(builder.finish())
    }
}

/// At least as many bytes as a value takes in packed form, with the head of its record.
fn value_bytes(value: EdmRef<'_>) -> usize {
    const HEAD_AND_NUMBER: usize = 3 + 16;
    match value {
        EdmRef::String(text) => HEAD_AND_NUMBER + text.len(),
        EdmRef::Binary(bytes) => HEAD_AND_NUMBER + bytes.len(),
        _ => HEAD_AND_NUMBER,
    }
}

impl FromIterator<(String, EdmValue)> for Values<'static> {
    fn from_iter<I: IntoIterator<Item = (String, EdmValue)>>(properties: I) -> Self {
        let list = properties.into_iter().map(|(name, value)| (Cow::Owned(name), value.into())).collect();
        Self { list, secrets: None }
    }
}
