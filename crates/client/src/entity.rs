//! Entities: what can be written, what can be read, and an entity as it was read.
//!
//! A type is described once, by `#[derive(Entity)]`; names, types and keys of requests, filters and projections all come
//! from there. [`Stored`] remembers the properties as they were read, so that a save sends only what differs and keeps
//! what the type does not know.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use tavola_model::Properties;

use crate::edm::{DateTime, Edm, EdmRef, EdmValue};
use crate::error::{KeyError, MapError, Result};
use crate::filter::Assign;
use crate::key::EntityKey;
use crate::source::Source;
use crate::values::Values;

/// The property that names the type of an entity.
///
/// ```
/// assert_eq!(tavola_client::entity::ENTITY_TYPE, "EntityType");
/// ```
pub const ENTITY_TYPE: &str = "EntityType";

/// The property that holds the stamp of a write, where the type asks for one.
///
/// ```
/// assert_eq!(tavola_client::entity::STAMP, "WriteStamp");
/// ```
pub const STAMP: &str = "WriteStamp";

/// Where the parts of the key are kept.
///
/// ```
/// # use tavola_client::{Entity, Readable, Writable};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
/// use tavola_client::{KeyParts, Values};
/// let don = Employee { department: "Sales".into(), id: 1, age: 34, name: "Don".into(), tags: vec![], pay: None };
/// let mut copy = Values::with_secrets();
/// don.write(KeyParts::AsProperties, &mut copy).unwrap();
/// assert!(copy.get("department").is_some());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyParts {
    /// In the key alone.
    #[default]
    InKey,
    /// Among the properties: of a copy under another key, which could not give them back.
    AsProperties,
}

/// What can be written to a table: an entity type, a set of them, or a bag of properties.
///
/// ```
/// # use tavola_client::{Entity, Readable, Writable};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
/// let don = Employee { department: "Sales".into(), id: 1, age: 34, name: "Don".into(), tags: vec![], pay: None };
/// assert_eq!(don.key().unwrap().row, "000001");
/// assert!(don.owns("age") && !don.owns("AddedByOthers"));
/// ```
pub trait Writable: Send + Sync {
    /// Whether every write carries a stamp of its own, so that a write whose answer was lost can be told from an equal
    /// one of another writer.
    const STAMPED: bool = false;

    /// The key, built from the parts.
    fn key(&self) -> Result<EntityKey, KeyError>;

    /// Writes the properties.
    fn write<'a>(&'a self, parts: KeyParts, out: &mut Values<'a>) -> Result<(), MapError>;

    /// Whether a stored property of this name belongs to this entity: if `write` leaves it out, a save removes it.
    fn owns(&self, property: &str) -> bool;
}

/// What can be read from a table: an entity type, a set of them, or a bag of properties.
///
/// ```
/// use tavola_client::{DynamicEntity, Readable};
/// let bag = DynamicEntity::new(("p", "r")).with("A", 1);
/// assert_eq!(DynamicEntity::read(&bag.as_source()).unwrap(), bag);
/// ```
pub trait Readable: Sized + Send + 'static {
    /// Reads an entity.
    fn read(source: &Source<'_>) -> Result<Self, MapError>;
}

/// An entity type. Made by `#[derive(Entity)]`.
///
/// ```
/// use tavola_client::{DynamicEntity, Entity, Readable, Writable};
///
/// #[derive(Debug, PartialEq, Entity)]
/// #[entity(partition = "{department}", row = "empid_{id:06}", rename_all = "PascalCase", entity_type = "Employee")]
/// struct Employee {
///     department: String,
///     id: u32,
///     last_name: String,
///     email: Option<String>,
/// }
///
/// let don = Employee { department: "Sales".into(), id: 212, last_name: "Hall".into(), email: None };
/// assert_eq!(don.key().unwrap().row, "empid_000212");
/// assert_eq!(Employee::key_of(("Sales", 212)).unwrap(), don.key().unwrap());
///
/// let stored = DynamicEntity::from_entity(&don).unwrap();
/// assert_eq!(stored.get("LastName").and_then(|name| name.as_str()), Some("Hall"));
/// assert_eq!(Employee::read(&stored.as_source()).unwrap(), don);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an entity type",
    label = "needs `#[derive(Entity)]`",
    note = "a set of types and a bag of properties can be read and written, but have no typed filters or projections; filter them with `filter!`"
)]
pub trait Entity: Readable + Writable + 'static {
    /// What stands in the `EntityType` property; empty where the type keeps none.
    const TYPE: &'static str;

    /// The names of its properties on the wire.
    const NAMES: &'static [&'static str];

    /// The names of those that are encrypted.
    const ENCRYPTED: &'static [&'static str];

    /// One `Prop` a property, for filters and projections.
    type Properties: Copy + 'static;

    /// The properties.
    const PROPERTIES: Self::Properties;

    /// The parts of the key, in the order of the templates.
    type Parts<'a>;

    /// The key of these parts.
    fn key_of(parts: Self::Parts<'_>) -> Result<EntityKey, KeyError>;
}

/// An entity as it was read or written: its value, its tag, and all properties that were stored.
///
/// It stands for its value (`stored.age += 1`); `table.save(&mut stored)` sends what differs.
///
/// ```no_run
/// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
/// # use tavola_client::DynamicEntity;
/// if let Some(mut department) = table.get::<DynamicEntity>(("Sales", "Department"), None).await? {
///     department.put("EmployeeCount", 154);
///     table.save(&mut department, None).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Stored<T> {
    /// The entity.
    pub value: T,
    /// The tag of the version that was read.
    pub etag: String,
    /// When that version was written, if the answer told it.
    pub timestamp: Option<DateTime>,
    key: EntityKey,
    original: Properties,
}

impl<T> Stored<T> {
    /// An entity as it is in the table. Calls of a table make it; a test of your own may.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, Stored, Values};
    /// let bag = DynamicEntity::new(("Sales", "Department"));
    /// let key = bag.key.clone();
    /// let stored = Stored::new(bag, "W/\"1\"".into(), None, key, Values::new().pack().unwrap());
    /// assert_eq!(stored.stored_key().partition, "Sales");
    /// ```
    pub fn new(
        value: T,
        etag: String,
        timestamp: Option<DateTime>,
        key: EntityKey,
        original: Properties,
    ) -> Self {
        Self { value, etag, timestamp, key, original }
    }

    /// The key under which it was read.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, Stored, Values};
    /// let bag = DynamicEntity::new(("p", "r"));
    /// let stored = Stored::new(bag.clone(), "e".into(), None, bag.key.clone(), Values::new().pack().unwrap());
    /// assert_eq!(stored.stored_key().row, "r");
    /// ```
    pub fn stored_key(&self) -> &EntityKey {
        &self.key
    }

    /// The same entity under the key by which its type knows it.
    #[must_use]
    pub(crate) fn with_key(mut self, key: EntityKey) -> Self {
        self.key = key;
        self
    }

    /// The properties as they were read.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, Stored, Values};
    /// let bag = DynamicEntity::new(("p", "r"));
    /// let stored = Stored::new(bag.clone(), "e".into(), None, bag.key.clone(), Values::new().pack().unwrap());
    /// assert_eq!(stored.original().get("A"), None);
    /// ```
    pub fn original(&self) -> Source<'_> {
        Source::packed(&self.key, &self.original)
    }

    /// The value as another type of the same entity.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, Stored, Values};
    /// let bag = DynamicEntity::new(("p", "r"));
    /// let stored = Stored::new(bag.clone(), "e".into(), None, bag.key.clone(), Values::new().pack().unwrap());
    /// assert_eq!(stored.map(|_| 5).value, 5);
    /// ```
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Stored<U> {
        Stored {
            value: map(self.value),
            etag: self.etag,
            timestamp: self.timestamp,
            key: self.key,
            original: self.original,
        }
    }
}

impl<T> Deref for Stored<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Stored<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// The least that makes the stored entity equal to the changed one.
///
/// ```
/// use tavola_client::{DynamicEntity, Stored, Values};
/// let bag = DynamicEntity::new(("p", "r"));
/// let stored = Stored::new(bag.clone(), "e".into(), None, bag.key.clone(), Values::new().pack().unwrap());
/// use tavola_client::Save;
/// assert_eq!(stored.plan_save().unwrap(), Save::Nothing);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Save {
    /// Nothing differs: no request.
    Nothing,
    /// These properties, by a merge: what others added stays.
    Merge(Values<'static>),
    /// A property goes away, which a merge cannot say: all of them, those that the type does not know included.
    Replace(Values<'static>),
}

impl<T: Writable> Stored<T> {
    /// What `save` sends. A changed key is refused: that is a move, not a save.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, Stored, Values};
    /// let bag = DynamicEntity::new(("p", "r"));
    /// let mut stored = Stored::new(bag.clone(), "e".into(), None, bag.key.clone(), Values::new().pack().unwrap());
    /// use tavola_client::Save;
    /// stored.put("A", 1);
    /// assert!(matches!(stored.plan_save().unwrap(), Save::Merge(values) if values.len() == 1));
    /// ```
    pub fn plan_save(&self) -> Result<Save> {
        if self.value.key()? != self.key {
            return Err(crate::Error::Limit("a save cannot change the key: move the entity instead"));
        }
        let mut now = Values::new();
        self.value.write(KeyParts::InKey, &mut now)?;
        Ok(self.plan(now))
    }

    /// What makes the stored properties equal to `now`.
    pub(crate) fn plan(&self, now: Values<'_>) -> Save {
        let mut now = now.into_owned();
        let gone = |name: &str| self.value.owns(name) && now.get(name).is_none();
        if self.original.iter().any(|property| gone(property.name)) {
            for property in self.original.iter() {
                if !self.value.owns(property.name) && now.get(property.name).is_none() {
                    now.put(property.name.to_owned(), Some(Edm::from(EdmValue::from(property.value))));
                }
            }
            return Save::Replace(now);
        }
        now.retain(|name, value| !same(self.original.get(name), value));
        if now.is_empty() { Save::Nothing } else { Save::Merge(now) }
    }

    /// Notes that a save was answered with this tag.
    #[doc(hidden)]
    pub fn saved(&mut self, save: &Save, etag: String, timestamp: Option<DateTime>) -> Result<()> {
        match save {
            Save::Nothing => return Ok(()),
            Save::Merge(values) => self.original = self.original.merged(&values.pack()?),
            Save::Replace(values) => self.original = values.pack()?,
        }
        self.etag = etag;
        self.timestamp = timestamp;
        Ok(())
    }
}

/// Whether a value is stored already. A NaN is the same as itself here.
fn same(stored: Option<EdmRef<'_>>, value: EdmRef<'_>) -> bool {
    match (stored, value) {
        (Some(EdmRef::Double(stored)), EdmRef::Double(value)) => stored.to_bits() == value.to_bits(),
        (stored, value) => stored == Some(value),
    }
}

/// Typed changes for a merge without reading first.
///
/// An encrypted property cannot be set, and no property can be removed: a merge could not do either.
///
/// ```
/// use tavola_client::{Changes, EdmRef, Entity};
///
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     age: i32,
///     email: Option<String>,
/// }
///
/// let changes = Changes::<Employee>::new().set(|e| e.age, 35).set(|e| e.email, "don@contoso.com");
/// assert_eq!(changes.to_values().get("age"), Some(EdmRef::Int32(35)));
/// ```
#[derive(Clone, Debug)]
pub struct Changes<E> {
    values: BTreeMap<&'static str, EdmValue>,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> Changes<E> {
    /// None yet.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// assert!(tavola_client::Changes::<Employee>::new().to_values().is_empty());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a property.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// let changes = tavola_client::Changes::<Employee>::new().set(|e| e.age, 35);
    /// assert_eq!(changes.to_values().len(), 1);
    /// ```
    #[must_use]
    pub fn set<P: Assign<E, V>, V>(mut self, which: impl FnOnce(E::Properties) -> P, value: V) -> Self {
        let (name, value) = which(E::PROPERTIES).assign(value);
        self.values.insert(name, value);
        self
    }

    /// Names and values.
    ///
    /// ```
    /// # use tavola_client::{Entity, Readable, Writable};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32, name: String, #[entity(json)] tags: Vec<u8>, #[entity(encrypt)] pay: Option<i64> }
    /// assert_eq!(tavola_client::Changes::<Employee>::new().to_values().len(), 0);
    /// ```
    pub fn to_values(&self) -> Values<'_> {
        let mut values = Values::new();
        for (name, value) in &self.values {
            values.put(*name, Some(Edm::Borrowed(value.borrow())));
        }
        values
    }
}

impl<E> Default for Changes<E> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), entity: PhantomData }
    }
}

/// The text of a field that is kept as JSON. For the derive macro.
#[doc(hidden)]
pub fn json_edm<T: serde::Serialize>(
    property: &'static str,
    value: &T,
) -> Result<Option<Edm<'static>>, MapError> {
    match serde_json::to_string(value) {
        // A null stands for a property that is not there.
        Ok(text) if text == "null" => Ok(None),
        Ok(text) => Ok(Some(Edm::Text(text))),
        Err(cause) => Err(MapError::Value { property, cause: cause.to_string() }),
    }
}
