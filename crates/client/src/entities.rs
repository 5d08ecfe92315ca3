//! Reading and writing single entities.
//!
//! Every call is one request, and two more only after a lost answer. What a type does not know survives a save; what a
//! field no longer holds is removed by it.

use tavola_model::{DateTime, Properties, StorageService};
use tavola_protocol::AnswerError;
use tavola_protocol::table::{self, FetchedEntity, Written};

use crate::apply::is_absence;
use crate::entity::{Changes, Entity, KeyParts, Readable, Save, Stored, Writable};
use crate::error::{Error, MapError, Result};
use crate::key::EntityKey;
use crate::options::{GetOptions, Resolve, WriteOptions};
use crate::raw::RawEntity;
use crate::retry::random;
use crate::send::Call;
use crate::source::Source;
use crate::table::TableClient;
use crate::values::Values;
use crate::write::{Change, Condition, PENDING, Write};

/// How often a read-change-save loop begins again before it gives up with [`Error::Changed`].
pub(crate) const CHANGED_TRIES_MAX: u32 = 16;

impl TableClient {
    /// Reads one entity; `None` where there is none. A missing table is an error. One request.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// if let Some(department) = table.get::<DynamicEntity>(("Sales", "Department"), None).await? {
    ///     println!("{:?} {}", department.get("EmployeeCount"), department.etag);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get<R: Readable>(
        &self,
        key: impl Into<EntityKey>,
        options: Option<GetOptions>,
    ) -> Result<Option<Stored<R>>> {
        self.get_with(key, options, R::read).await
    }

    /// Reads one entity with a reader of its own.
    pub(crate) async fn get_with<R>(
        &self,
        key: impl Into<EntityKey>,
        options: Option<GetOptions>,
        read: impl Fn(&Source<'_>) -> Result<R, MapError>,
    ) -> Result<Option<Stored<R>>> {
        let (key, options) = (key.into().checked()?, options.unwrap_or_default());
        let select: Vec<&str> = options.select.iter().map(String::as_str).collect();
        let request = table::get_entity(self.checked_name()?, &key, &select);
        let call = Call {
            service: StorageService::Table,
            operation: "GetEntity",
            request: &request,
            deadline: options.deadline,
        };
        let tried = self.account().call(&call, |answer| match table::entity_fetched(answer) {
            Ok(fetched) => Ok(stored(&fetched, &read)),
            Err(AnswerError::Refused(refusal)) if is_absence(&refusal) => Ok(Ok(None)),
            Err(error) => Err(error),
        });
        tried.await.read()?
    }

    /// Writes a new entity. One request. A key that is in use gives [`Error::Taken`].
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// let department = DynamicEntity::new(("Sales", "Department")).with("EmployeeCount", 153);
    /// let stored = table.insert(&department, None).await?;
    /// println!("{}", stored.etag);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert<E: Writable + Clone>(
        &self,
        entity: &E,
        options: Option<WriteOptions>,
    ) -> Result<Stored<E>> {
        self.write_whole(entity, Change::Insert, options).await
    }

    /// Writes an entity whether or not there is one, replacing all of it. One request. Where an answer is lost, the
    /// repeat may cover what another wrote in between.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// table.upsert(&DynamicEntity::new(("Sales", "Department")).with("EmployeeCount", 154), None).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn upsert<E: Writable + Clone>(
        &self,
        entity: &E,
        options: Option<WriteOptions>,
    ) -> Result<Stored<E>> {
        self.write_whole(entity, Change::InsertOrReplace, options).await
    }

    /// Writes an entity whether or not there is one; properties that are there and not among these stay. One request.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// table.upsert_merge(&DynamicEntity::new(("Sales", "Department")).with("Budget", 100), None).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn upsert_merge<E: Writable>(&self, entity: &E, options: Option<WriteOptions>) -> Result<()> {
        let options = stamped::<E>(options);
        let (key, properties) = (entity.key()?.checked()?, pack(entity)?);
        self.apply(Write::new(key, Change::InsertOrMerge(properties)), options.as_ref()).await.map(|_| ())
    }

    async fn write_whole<E: Writable + Clone>(
        &self,
        entity: &E,
        change: fn(Properties) -> Change,
        options: Option<WriteOptions>,
    ) -> Result<Stored<E>> {
        let options = stamped::<E>(options);
        let (key, properties) = (entity.key()?, pack(entity)?);
        let written =
            self.apply(Write::new(key.checked()?, change(properties.clone())), options.as_ref()).await?;
        Ok(as_stored(entity.clone(), key, properties, &written))
    }

    /// Sends the least that makes the stored entity equal to the changed one, if nobody changed it since: a merge of what
    /// differs, a replacement where a property goes away, nothing where nothing differs. Properties that the type does
    /// not know stay. One request. [`Error::Changed`] if another came between.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// if let Some(mut stored) = table.get::<DynamicEntity>(("Sales", "Department"), None).await? {
    ///     stored.put("EmployeeCount", 155);
    ///     stored.remove("Budget");
    ///     table.save(&mut stored, None).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn save<E: Writable>(
        &self,
        stored: &mut Stored<E>,
        options: Option<WriteOptions>,
    ) -> Result<()> {
        let save = stored.plan_save()?;
        let Some(write) = save_write(stored, &save)? else { return Ok(()) };
        let written = self.apply(write, stamped::<E>(options).as_ref()).await?;
        let (etag, timestamp) = told(&written);
        stored.saved(&save, etag, timestamp)
    }

    /// Replaces all of the stored entity, if nobody changed it since: properties that the type does not know go away.
    /// One request.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// if let Some(mut stored) = table.get::<DynamicEntity>(("Sales", "Department"), None).await? {
    ///     table.replace(&mut stored, None).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replace<E: Writable>(
        &self,
        stored: &mut Stored<E>,
        options: Option<WriteOptions>,
    ) -> Result<()> {
        let values = values(&stored.value)?.into_owned();
        let save = Save::Replace(values);
        let Some(write) = save_write(stored, &save)? else { return Ok(()) };
        let written = self.apply(write, stamped::<E>(options).as_ref()).await?;
        let (etag, timestamp) = told(&written);
        stored.saved(&save, etag, timestamp)
    }

    /// Reads, changes and saves, again until nobody came between; after 16 times [`Error::Changed`]. Two requests where
    /// nobody does. [`Error::NotFound`] if there is no such entity.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// let changed = table
    ///     .update::<DynamicEntity>(("Sales", "Department"), |department| {
    ///         department.put("Budget", 200);
    ///         Ok(())
    ///     })
    ///     .await?;
    /// println!("{}", changed.etag);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update<E: Readable + Writable>(
        &self,
        key: impl Into<EntityKey>,
        mut change: impl FnMut(&mut E) -> Result<()>,
    ) -> Result<Stored<E>> {
        let key = key.into();
        for attempt in 1..=CHANGED_TRIES_MAX {
            let mut stored = self.get::<E>(&key, None).await?.ok_or(Error::NotFound)?;
            change(&mut stored)?;
            match self.save(&mut stored, None).await {
                Err(Error::Changed) => pause(attempt).await,
                saved => return saved.map(|()| stored),
            }
        }
        Err(Error::Changed)
    }

    /// Sets properties of an entity that is there, whatever its version; the others stay. One request.
    /// [`Error::NotFound`] if there is no such entity.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::{Changes, Entity};
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{department}", row = "{id:06}")]
    /// struct Employee {
    ///     department: String,
    ///     id: u32,
    ///     age: i32,
    /// }
    ///
    /// table.merge(("Sales", "000212"), Changes::<Employee>::new().set(|e| e.age, 35), None).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn merge<E: Entity>(
        &self,
        key: impl Into<EntityKey>,
        changes: Changes<E>,
        options: Option<WriteOptions>,
    ) -> Result<()> {
        let options = stamped::<E>(options);
        let (key, properties) = (key.into().checked()?, changes.to_values().pack()?);
        self.apply(Write::new(key, Change::Merge(properties, Condition::Any)), options.as_ref())
            .await
            .map(|_| ())
    }

    /// Removes an entity, if nobody changed it since it was read. One request. [`Error::NotFound`] if it is gone.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// if let Some(stored) = table.get::<DynamicEntity>(("Sales", "Department"), None).await? {
    ///     table.delete(&stored, None).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete<T>(&self, stored: &Stored<T>, options: Option<WriteOptions>) -> Result<()> {
        let condition = Condition::Etag(stored.etag.clone());
        let write = Write::new(stored.stored_key().checked()?, Change::Delete(condition));
        self.apply(write, options.as_ref()).await.map(|_| ())
    }

    /// Removes an entity, whatever its version. One request. Gives whether there was one.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let was_there = table.delete_if_there(("Sales", "Department"), None).await?;
    /// println!("{was_there}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_if_there(
        &self,
        key: impl Into<EntityKey>,
        options: Option<WriteOptions>,
    ) -> Result<bool> {
        let write = Write::new(key.into().checked()?, Change::Delete(Condition::Any));
        match self.apply(write, options.as_ref()).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// An entity of an answer; `None` if it is not active yet.
pub(crate) fn stored<R>(
    fetched: &FetchedEntity<'_>,
    read: impl Fn(&Source<'_>) -> Result<R, MapError>,
) -> Result<Option<Stored<R>>> {
    if fetched.get(PENDING).is_some() {
        return Ok(None);
    }
    stored_or_pending(fetched, read).map(Some)
}

/// An entity of an answer, whatever it is.
pub(crate) fn stored_or_pending<R>(
    fetched: &FetchedEntity<'_>,
    read: impl Fn(&Source<'_>) -> Result<R, MapError>,
) -> Result<Stored<R>> {
    let value = read(&Source::fetched(fetched))?;
    let broken = || Error::Unreadable("an entity breaks the rules of the data model".to_owned());
    let raw = RawEntity::read(fetched).ok_or_else(broken)?;
    let timestamp = fetched.timestamp;
    Ok(Stored::new(value, raw.etag, timestamp, EntityKey::from(&raw.key), raw.properties))
}

/// An entity that was just written.
pub(crate) fn as_stored<E>(value: E, key: EntityKey, properties: Properties, written: &Written) -> Stored<E> {
    let (etag, timestamp) = told(written);
    Stored::new(value, etag, timestamp, key, properties)
}

/// The tag and the time that a write was answered with.
pub(crate) fn told(written: &Written) -> (String, Option<DateTime>) {
    (written.etag.clone().unwrap_or_default(), written.timestamp())
}

/// What an entity writes.
pub(crate) fn values<E: Writable>(entity: &E) -> Result<Values<'_>> {
    let mut values = Values::new();
    entity.write(KeyParts::InKey, &mut values)?;
    Ok(values)
}

pub(crate) fn pack<E: Writable>(entity: &E) -> Result<Properties> {
    values(entity)?.pack()
}

/// The write that a save is; `None` for nothing.
pub(crate) fn save_write<E>(stored: &Stored<E>, save: &Save) -> Result<Option<Write>> {
    let condition = Condition::Etag(stored.etag.clone());
    let change = match save {
        Save::Nothing => return Ok(None),
        Save::Merge(values) => Change::Merge(values.pack()?, condition),
        Save::Replace(values) => Change::Replace(values.pack()?, condition),
    };
    Ok(Some(Write::new(stored.stored_key().checked()?, change)))
}

/// The options of a write of a type that asks for stamps.
pub(crate) fn stamped<E: Writable>(options: Option<WriteOptions>) -> Option<WriteOptions> {
    if !E::STAMPED {
        return options;
    }
    let mut options = options.unwrap_or_default();
    if options.resolve == Resolve::ByContent {
        options.resolve = Resolve::ByStamp;
    }
    Some(options)
}

/// A random wait before a loop begins again, longer with each time.
pub(crate) async fn pause(attempt: u32) {
    let longest_us = 2_000u64 << attempt.min(8);
    tokio::time::sleep(std::time::Duration::from_micros(random() % longest_us)).await;
}
