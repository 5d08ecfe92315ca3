//! A table of entities with encrypted fields.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use futures_core::Stream;
use futures_util::{StreamExt, TryStreamExt};

use super::wrap::{ContentKey, KeyWrapper};
use super::{KEY_DETAILS, PROPERTY_DETAILS, legacy, seal};
use crate::dynamic::DynamicEntity;
use crate::edm::{Edm, EdmRef, EdmValue};
use crate::encrypt::Binding;
use crate::entities::{save_write, stamped, told};
use crate::entity::{Changes, Entity, KeyParts, Stored};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::key::EntityKey;
use crate::scope::In;
use crate::table::TableClient;
use crate::values::Values;
use crate::write::{Change, Write};

/// What to do with data that an old library encrypted.
///
/// ```
/// use tavola_client::encrypt::Legacy;
/// assert_eq!(Legacy::default(), Legacy::Refuse);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Legacy {
    /// Refuse it: it is not authenticated.
    #[default]
    Refuse,
    /// Read it. A save that changes a secret writes the new format.
    Read,
}

/// A table whose entities of type `E` have encrypted fields.
///
/// Requests are those of the plain table: encryption adds none, apart from what the key wrapper itself asks for.
///
/// ```no_run
/// use tavola_client::encrypt::{EncryptedTable, LocalKeys};
/// use tavola_client::{Entity, TableClient};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{department}", row = "{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     #[entity(encrypt)]
///     salary: Option<i64>,
/// }
///
/// # async fn example(table: TableClient, key: [u8; 32]) -> tavola_client::Result<()> {
/// let employees = EncryptedTable::<Employee>::new(table, LocalKeys::new("2026", key));
/// employees.insert(&Employee { department: "Sales".into(), id: 7, salary: Some(100) }).await?;
/// if let Some(mut employee) = employees.get(("Sales", "000007")).await? {
///     employee.salary = Some(110);
///     employees.save(&mut employee).await?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct EncryptedTable<E> {
    table: TableClient,
    wrapper: Arc<dyn KeyWrapper>,
    binding: Binding,
    legacy: Legacy,
    entity: PhantomData<fn() -> E>,
}

/// An entity as it was read, its secrets opened.
///
/// ```no_run
/// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
/// # use tavola_client::{Changes, Entity, In};
/// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
/// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
/// if let Some(opened) = employees.get(("Sales", "000001")).await? {
///     println!("{:?}", opened.pay);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Opened<E> {
    stored: Stored<E>,
    secrets: BTreeMap<String, EdmValue>,
}

impl<E> Opened<E> {
    /// The tag of the version that was read.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// if let Some(opened) = employees.get(("Sales", "000001")).await? {
    ///     println!("{}", opened.etag());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn etag(&self) -> &str {
        &self.stored.etag
    }

    /// The entity.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// let don = employees.get(("Sales", "000001")).await?.map(Opened::into_value);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_value(self) -> E {
        self.stored.value
    }
}

impl<E> Deref for Opened<E> {
    type Target = E;
    fn deref(&self) -> &E {
        &self.stored.value
    }
}

impl<E> DerefMut for Opened<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.stored.value
    }
}

/// What [`EncryptedTable::rewrap`] did.
///
/// ```
/// assert_eq!(tavola_client::encrypt::Rewrapped::default().seen, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrapped {
    /// Entities that were looked at.
    pub seen: u64,
    /// Entities whose content key is now under the current key.
    pub rewrapped: u64,
    /// Entities that changed meanwhile: run again.
    pub changed: u64,
}

impl<E> fmt::Debug for EncryptedTable<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedTable").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

impl<E: Entity> EncryptedTable<E> {
    /// A table, and who wraps its keys.
    ///
    /// ```
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # fn main() -> tavola_client::Result<()> {
    /// let table = tavola_client::Account::development()?.table("Employees");
    /// let employees = EncryptedTable::<Employee>::new(table, LocalKeys::new("2026", [7; 32]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(table: TableClient, wrapper: impl KeyWrapper) -> Self {
        Self {
            table,
            wrapper: Arc::new(wrapper),
            binding: Binding::default(),
            legacy: Legacy::default(),
            entity: PhantomData,
        }
    }

    /// What sealed values are bound to.
    ///
    /// ```
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # fn example(employees: EncryptedTable<Employee>) {
    /// let employees = employees.with_binding(Binding::Unbound);
    /// # }
    /// ```
    #[must_use]
    pub fn with_binding(mut self, binding: Binding) -> Self {
        self.binding = binding;
        self
    }

    /// What to do with data of old libraries.
    ///
    /// ```
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # fn example(employees: EncryptedTable<Employee>) {
    /// let employees = employees.with_legacy(Legacy::Read);
    /// # }
    /// ```
    #[must_use]
    pub fn with_legacy(mut self, legacy: Legacy) -> Self {
        self.legacy = legacy;
        self
    }

    /// Inserts an entity: one request.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// employees.insert(&don).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert(&self, entity: &E) -> Result<()> {
        self.write(entity, Change::Insert).await
    }

    /// Inserts an entity or replaces the one of its key: one request.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// employees.upsert(&don).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn upsert(&self, entity: &E) -> Result<()> {
        self.write(entity, Change::InsertOrReplace).await
    }

    async fn write(&self, entity: &E, change: fn(tavola_model::Properties) -> Change) -> Result<()> {
        let key = entity.key()?;
        let (mut values, secrets) = values_of(entity)?;
        if !secrets.is_empty() {
            self.put_sealed(&secrets, &key, &mut values).await?;
        }
        let write = Write::new(key.checked()?, change(values.pack()?));
        self.table.apply(write, stamped::<E>(None).as_ref()).await.map(|_| ())
    }

    /// Reads an entity: one request. Refuses secrets that do not open.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// let opened = employees.get(("Sales", "000001")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: impl Into<EntityKey>) -> Result<Option<Opened<E>>> {
        match self.table.get::<DynamicEntity>(key, None).await? {
            Some(stored) => self.open(stored).await.map(Some),
            None => Ok(None),
        }
    }

    /// Entities of a scope, opened as they come.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// use futures_util::TryStreamExt;
    /// let all: Vec<_> = employees.query(In::partition("Sales"), None).try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn query(
        &self,
        scope: In,
        filter: Option<Filter<E>>,
    ) -> impl Stream<Item = Result<Opened<E>>> + Send + '_ {
        let mut query = self.table.query::<DynamicEntity>(scope);
        if let Some(filter) = filter {
            query = query.filter_by(filter.cast());
        }
        query.stream().and_then(|stored| self.open(stored)).boxed()
    }

    /// Saves an entity that was read: one request, on the condition that nobody changed it since. If a secret differs,
    /// all of them are sealed again; else none is touched.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// if let Some(mut opened) = employees.get(("Sales", "000001")).await? {
    ///     opened.pay = Some(110);
    ///     employees.save(&mut opened).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn save(&self, opened: &mut Opened<E>) -> Result<()> {
        let stored = &opened.stored;
        if stored.value.key()? != *stored.stored_key() {
            return Err(Error::Limit("a save cannot change the key: move the entity instead"));
        }
        let (mut values, secrets) = values_of(&stored.value)?;
        let now: BTreeMap<String, EdmValue> =
            secrets.iter().map(|(name, value)| ((*name).to_owned(), value.borrow().into())).collect();
        if now != opened.secrets {
            self.put_sealed(&secrets, stored.stored_key(), &mut values).await?;
        } else {
            // What is stored stays as it is.
            for name in E::ENCRYPTED {
                let kept = stored.original().get(name).map(|value| Edm::from(EdmValue::from(value)));
                values.put(*name, kept);
            }
        }
        let save = stored.plan(values);
        let Some(write) = save_write(stored, &save)? else { return Ok(()) };
        let written = self.table.apply(write, stamped::<E>(None).as_ref()).await?;
        drop(secrets);
        let (etag, timestamp) = told(&written);
        opened.stored.saved(&save, etag, timestamp)?;
        opened.secrets = now;
        Ok(())
    }

    /// Merges plain properties without reading; the compiler refuses encrypted ones.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// employees.merge(("Sales", "000001"), Changes::<Employee>::new().set(|e| e.name, "Don")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn merge(&self, key: impl Into<EntityKey>, changes: Changes<E>) -> Result<()> {
        self.table.merge(key, changes, None).await
    }

    /// Deletes an entity that was read, if nobody changed it since: one request.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// if let Some(opened) = employees.get(("Sales", "000001")).await? {
    ///     employees.delete(&opened).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, opened: &Opened<E>) -> Result<()> {
        self.table.delete(&opened.stored, None).await
    }

    /// Wraps the content keys of a scope under the current key, where they are under an old one: one request a page and
    /// one an entity. Sealed values are not touched. It can be stopped and run again at any time; when it finds nothing
    /// more to do, the old key can go.
    ///
    /// ```no_run
    /// # use tavola_client::encrypt::{ContentKey, EncryptedTable, Binding, Legacy, KeyWrapper, LocalKeys, Opened};
    /// # use tavola_client::{Changes, Entity, In};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{d}", row = "{id:06}")] struct Employee { d: String, id: u32, name: String, #[entity(encrypt)] pay: Option<i64> }
    /// # async fn example(employees: EncryptedTable<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// let report = employees.rewrap(In::whole_table()).await?;
    /// println!("{} of {}", report.rewrapped, report.seen);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rewrap(&self, scope: In) -> Result<Rewrapped> {
        let mut report = Rewrapped::default();
        let query = self.table.query::<DynamicEntity>(scope);
        let mut entities = std::pin::pin!(query.stream());
        while let Some(mut stored) = entities.try_next().await? {
            report.seen += 1;
            if stored.get(KEY_DETAILS).is_none() || legacy::read_details(&stored).is_some() {
                continue;
            }
            let details = seal::read_details(&stored)?;
            if details.wrapped.key_id == self.wrapper.current_key_id() {
                continue;
            }
            let content = self.wrapper.unwrap(&details.wrapped).await?;
            // Opened once, so that a damaged entity is told now and not when the old key is gone.
            seal::open(&stored, &details, &content)?;
            let wrapped = self.wrapper.wrap(&content).await?;
            stored.put(KEY_DETAILS, details.rewritten(&wrapped)?);
            match self.table.save(&mut stored, None).await {
                Ok(()) => report.rewrapped += 1,
                Err(Error::Changed | Error::NotFound) => report.changed += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }

    async fn open(&self, stored: Stored<DynamicEntity>) -> Result<Opened<E>> {
        let secrets = self.open_secrets(&stored).await?;
        let value = E::read(&stored.value.as_source().with_opened(&secrets))?;
        // Only what the type knows as a secret is compared when it is saved.
        let secrets = secrets.into_iter().filter(|(name, _)| E::ENCRYPTED.contains(&name.as_str())).collect();
        Ok(Opened { stored: stored.map(|_| value), secrets })
    }

    async fn open_secrets(&self, entity: &DynamicEntity) -> Result<BTreeMap<String, EdmValue>> {
        if entity.get(KEY_DETAILS).is_none() {
            if let Some(name) = E::ENCRYPTED.iter().find(|name| entity.get(name).is_some()) {
                return Err(Error::Encryption(format!("the property is not encrypted (property={name})")));
            }
            return Ok(BTreeMap::new());
        }
        if let Some(details) = legacy::read_details(entity) {
            if self.legacy == Legacy::Refuse {
                return Err(Error::Encryption(
                    "the entity is in the format of an old library: ask for `Legacy::Read`".into(),
                ));
            }
            let content = self.wrapper.unwrap(&details.wrapped).await?;
            return legacy::open(entity, &details, &content);
        }
        let details = seal::read_details(entity)?;
        let content = self.wrapper.unwrap(&details.wrapped).await?;
        seal::open(entity, &details, &content)
    }

    /// Seals secrets under a fresh content key and adds them.
    async fn put_sealed(
        &self,
        secrets: &[(&'static str, Edm<'_>)],
        key: &EntityKey,
        values: &mut Values<'_>,
    ) -> Result<()> {
        let content = ContentKey::fresh()?;
        let wrapped = self.wrapper.wrap(&content).await?;
        let borrowed: Vec<(&str, EdmRef<'_>)> =
            secrets.iter().map(|(name, value)| (*name, value.borrow())).collect();
        for (name, value) in seal::seal(&borrowed, key, &content, &wrapped, self.binding)? {
            values.put(name, Some(Edm::from(value)));
        }
        Ok(())
    }
}

/// Plain values and secrets.
type Parted<'a> = (Values<'a>, Vec<(&'static str, Edm<'a>)>);

fn values_of<E: Entity>(entity: &E) -> Result<Parted<'_>> {
    let mut values = Values::with_secrets();
    entity.write(KeyParts::InKey, &mut values)?;
    let secrets = values.take_secrets();
    // An entity without secrets has no details either; a save must not keep those of before.
    debug_assert!(values.get(KEY_DETAILS).is_none() && values.get(PROPERTY_DETAILS).is_none());
    Ok((values, secrets))
}
