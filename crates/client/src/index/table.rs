//! A table whose writes keep the indexes of its type.
//!
//! Everything in the entity's partition is one transaction. Everything else is named in an intent first, follows after
//! the entity, and is finished by a worker if this process does not.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tavola_model::Properties;

use crate::edm::{Edm, EdmRef};
use crate::entities::{as_stored, save_write, told};
use crate::entity::{KeyParts, Save, Stored, Writable};
use crate::error::{Error, Result};
use crate::eventual::{
    After, Derived, Envelope, Intent, Intents, Rules, Settle, Settler, Target, reads_whole, settle,
};
use crate::index::plan::{Plan, plan};
use crate::index::unique::Reservations;
use crate::index::{Definition, INDEX, Indexed, Location, Lookup};
use crate::key::EntityKey;
use crate::options::WriteOptions;
use crate::queue::Lease;
use crate::source::Source;
use crate::table::TableClient;
use crate::transaction::Transaction;
use crate::values::Values;
use crate::write::{Change, Condition};

/// What an intent of an indexed table says.
pub(crate) type IndexIntent = Intent<Option<Reservations>>;

/// A table whose writes keep the indexes of `E`. Cheap to clone.
///
/// **Atomic**: the entity and its entries in its own partition. **Eventual**: entries in other partitions and tables;
/// until a write is settled a lookup there can miss, or hit a copy that is no longer true. **After a crash**: a
/// [`Worker`](crate::eventual::Worker) that serves this table finishes what was begun, when the lease of its intent is
/// over. **Requests** of an insert: 1 where all indexes are in the partition, else 3 and one or two for each entry
/// elsewhere. **Refuses**: blind upserts, a save that changes the key, an encrypted property in an index.
///
/// Where a unique value can be the key itself, let it be: no index, one request.
///
/// ```no_run
/// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
/// use tavola_client::Entity;
/// use tavola_client::eventual::{Intents, Settle};
/// use tavola_client::index::IndexedTable;
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{department}", row = "empid_{id:06}")]
/// #[entity(index(by_email, unique, row = "email_{email}"))]
/// #[entity(index(by_last_name, partition = "name_{last_name}", row = "{department}_{id:06}"))]
/// struct Employee {
///     department: String,
///     id: u32,
///     last_name: String,
///     email: Option<String>,
/// }
///
/// let intents = Intents::new(account.queue("intents"));
/// let employees = IndexedTable::<Employee>::with_intents(account.table("Employees"), intents);
/// let new = Employee { department: "Sales".into(), id: 212, last_name: "Hall".into(), email: None };
/// let mut stored = employees.insert(&new, Settle::Wait).await?;
/// stored.email = Some("donh@contoso.com".into());
/// employees.save(&mut stored, Settle::Wait).await?;
/// let found = employees.find(Employee::by_email("Sales", "donh@contoso.com")).await?;
/// assert_eq!(found.map(|e| e.id), Some(212));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct IndexedTable<E> {
    pub(super) table: TableClient,
    pub(super) intents: Option<Intents>,
    pub(super) rules: Rules,
    entity: PhantomData<fn() -> E>,
}

impl<E> Clone for IndexedTable<E> {
    fn clone(&self) -> Self {
        let (table, intents) = (self.table.clone(), self.intents.clone());
        Self { table, intents, rules: self.rules, entity: PhantomData }
    }
}

impl<E: Indexed> IndexedTable<E> {
    /// For types whose indexes all live in the entity's partition.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{a}", row = "{b}", index(by_c, unique, row = "c_{c}"))]
    /// # struct Employee { a: String, b: String, c: String }
    /// use tavola_client::{Account, index::IndexedTable};
    /// let employees = IndexedTable::<Employee>::new(Account::development()?.table("Employees"));
    /// # let _ = employees;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(table: TableClient) -> Self {
        Self { table, intents: None, rules: Rules::default(), entity: PhantomData }
    }

    /// With the queue that finishes what a killed process began.
    ///
    /// ```
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, eventual::Intents, index::IndexedTable};
    /// let account = Account::development()?;
    /// let intents = Intents::new(account.queue("intents"));
    /// let employees = IndexedTable::<Employee>::with_intents(account.table("Employees"), intents);
    /// # let _ = employees;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_intents(table: TableClient, intents: Intents) -> Self {
        Self { table, intents: Some(intents), rules: Rules::default(), entity: PhantomData }
    }

    /// The same table, whose requests are counted.
    pub(super) fn counted(&self, requests: &Arc<AtomicU64>) -> Self {
        let table = self.table.account().counted(requests).table(self.table.name());
        let intents = self.intents.as_ref().map(|intents| intents.counted(requests));
        Self { table, intents, rules: self.rules, entity: PhantomData }
    }

    #[cfg(test)]
    pub(crate) fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// The table itself, for reads and queries.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// println!("{}", employees.table().name());
    /// # Ok(())
    /// # }
    /// ```
    pub fn table(&self) -> &TableClient {
        &self.table
    }

    /// Makes the table and those of its indexes; those that are there are no error.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// employees.create().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self) -> Result<()> {
        self.table.create().await?;
        for definition in E::INDEXES {
            if let Location::Table(_) = definition.location {
                self.table_of(definition).create().await?;
            }
        }
        Ok(())
    }

    /// Reads an entity by its key.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// let don = employees.get(("Sales", "000001")).await?;
    /// # let _ = don;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: impl Into<EntityKey>) -> Result<Option<Stored<E>>> {
        self.table.get(key, None).await
    }

    /// Writes a new entity and its index entries. [`Error::Taken`] names the unique index whose value is in use, or none
    /// for the key itself; nothing is written then.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// use tavola_client::eventual::Settle;
    /// let don = Employee { department: "Sales".into(), id: 1, email: "d@c.com".into() };
    /// employees.insert(&don, Settle::Wait).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert(&self, entity: &E, settle: Settle) -> Result<Stored<E>> {
        let after = self.write(None, Some(entity), settle).await?;
        after.ok_or(Error::NotFound)
    }

    /// Saves a changed entity and moves its index entries, if nobody changed it since it was read.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// use tavola_client::eventual::Settle;
    /// if let Some(mut don) = employees.get(("Sales", "000001")).await? {
    ///     don.email = "donh@contoso.com".into();
    ///     employees.save(&mut don, Settle::Wait).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn save(&self, stored: &mut Stored<E>, settle: Settle) -> Result<()> {
        let after = stored.value.clone();
        if let Some(saved) = self.write(Some(stored), Some(&after), settle).await? {
            *stored = saved;
        }
        Ok(())
    }

    /// Removes an entity and its index entries, if nobody changed it since it was read.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// use tavola_client::eventual::Settle;
    /// if let Some(don) = employees.get(("Sales", "000001")).await? {
    ///     employees.delete(&don, Settle::Wait).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, stored: &Stored<E>, settle: Settle) -> Result<()> {
        self.write(Some(stored), None, settle).await.map(|_| ())
    }

    /// Looks an entity up. One point read of the copy, whose tag is not that of the entity; two for a unique index
    /// elsewhere, which is always true. A copy elsewhere may be older than its entity: see
    /// [`find_verified`](Self::find_verified).
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// let don = employees.find(Employee::by_email("Sales", "d@c.com")).await?;
    /// # let _ = don;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find(&self, lookup: Result<Lookup<E>, crate::error::KeyError>) -> Result<Option<Stored<E>>> {
        let lookup = lookup?;
        let definition = &E::INDEXES[lookup.index];
        let table = self.table_of(definition);
        if definition.reserves() {
            return self.find_reserved(&table, definition, &lookup.key).await;
        }
        let read = |source: &Source<'_>| E::read(&source.with_parts(KeyParts::AsProperties));
        table.get_with(&lookup.key, None, read).await
    }

    /// Looks an entity up and reads the entity itself: never one that is not so, and good to save. Two requests. What it
    /// finds to be stale is repaired.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// let don = employees.find_verified(Employee::by_email("Sales", "d@c.com")).await?;
    /// # let _ = don;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find_verified(
        &self,
        lookup: Result<Lookup<E>, crate::error::KeyError>,
    ) -> Result<Option<Stored<E>>> {
        let lookup = lookup?;
        let definition = &E::INDEXES[lookup.index];
        let (index, key) = (lookup.index, lookup.key.clone());
        let Some(copy) = self.find(Ok(lookup)).await? else { return Ok(None) };
        if definition.reserves() {
            return Ok(Some(copy));
        }
        let owner = copy.value.key()?;
        let entity = self.table.get::<E>(&owner, None).await?;
        match entity {
            Some(entity) if (definition.key)(&entity)?.as_ref() == Some(&key) => Ok(Some(entity)),
            _ => {
                if self.intents.is_some() {
                    self.repair(&owner, [Target { of: E::INDEXES[index].name.to_owned(), key }].into())
                        .await?;
                }
                Ok(None)
            }
        }
    }

    pub(super) fn table_of(&self, definition: &Definition<E>) -> TableClient {
        match definition.location {
            Location::SamePartition | Location::Partition => self.table.clone(),
            Location::Table(name) => self.table.account().table(name),
        }
    }

    pub(super) fn intents(&self) -> Result<&Intents> {
        self.intents.as_ref().ok_or(Error::Limit("an index in another partition needs a queue of intents"))
    }

    async fn write(
        &self,
        before: Option<&Stored<E>>,
        after: Option<&E>,
        settle: Settle,
    ) -> Result<Option<Stored<E>>> {
        reads_whole::<E>()?;
        let old = before.map(|stored| E::read(&stored.original())).transpose()?;
        let plan = plan(old.as_ref(), after)?;
        let save = match (before, after) {
            (Some(stored), Some(_)) => match stored.plan_save()? {
                Save::Nothing => return Ok(Some(stored.clone())),
                save => Some(save),
            },
            _ => None,
        };
        let write = EntityWrite { before, after, save, plan };
        if write.plan.is_atomic() {
            return self.transact(&write, None, None).await;
        }
        let owner = match (before, after) {
            (Some(stored), _) => stored.stored_key().clone(),
            (None, Some(after)) => after.key()?,
            (None, None) => return Ok(None),
        };
        self.write_with_intent(owner, write, settle).await
    }

    /// Intent, reservations, entity; then what is derived.
    async fn write_with_intent(
        &self,
        owner: EntityKey,
        mut write: EntityWrite<'_, E>,
        settle: Settle,
    ) -> Result<Option<Stored<E>>> {
        let reservations = Reservations::of(&write.plan, write.before, E::INDEXES)?;
        let mut intent = IndexIntent { owner, targets: write.plan.targets(), unique: reservations };
        let mut lease = None;
        if self.rules.intent_first {
            lease = Some(self.put_intent(&intent).await?);
        }
        let written = self.write_entity(&mut write, &intent, lease.as_ref()).await;
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                if let (Some(lease), true) = (&lease, is_certain(&error)) {
                    self.clean_up(&intent, lease).await;
                }
                return Err(error);
            }
        };
        let lease = match lease {
            Some(lease) => lease,
            None => self.put_intent(&intent).await?,
        };
        let known = written.clone().map(|stored| (stored.etag.clone(), stored));
        match settle {
            Settle::Wait => self.finish(&mut intent, &lease, Some(known)).await?,
            Settle::Behind => {
                let table = self.clone();
                // What this task does not finish, a worker does.
                tokio::spawn(async move { table.finish(&mut intent, &lease, Some(known)).await });
            }
            Settle::Worker => {}
        }
        Ok(written)
    }

    pub(super) async fn put_intent(&self, intent: &IndexIntent) -> Result<Lease> {
        let body = serde_json::to_value(intent).map_err(|error| Error::Step(error.to_string()))?;
        let intents = self.intents()?;
        intents.put(&self.kind(), body, intents.lease()).await
    }

    async fn write_entity(
        &self,
        write: &mut EntityWrite<'_, E>,
        intent: &IndexIntent,
        lease: Option<&Lease>,
    ) -> Result<Option<Stored<E>>> {
        let etag = match (&intent.unique, lease) {
            (Some(reservations), Some(lease)) => {
                self.reserve(write, reservations, &intent.owner, lease).await?
            }
            _ => None,
        };
        let options = lease.map(|lease| self.rules.within(lease)).transpose()?;
        let stamps = intent.unique.as_ref().map(Reservations::stamps);
        let deadline = options.and_then(|options| options.deadline);
        let pending = etag.map(|etag| (etag, stamps.clone().unwrap_or_default()));
        match pending {
            Some(pending) => self.transact(write, Some(pending), deadline).await,
            None => self.transact(write, stamps.map(|stamps| (String::new(), stamps)), deadline).await,
        }
    }

    /// The entity and its copies in its partition, in one transaction. `stamps` are the ids of reservations that the
    /// entity now holds, and the tag of the pending entity that is activated, if it is one.
    async fn transact(
        &self,
        write: &EntityWrite<'_, E>,
        stamps: Option<(String, Vec<(String, tavola_model::Guid)>)>,
        deadline: Option<std::time::Duration>,
    ) -> Result<Option<Stored<E>>> {
        let (pending, stamps) = stamps.unwrap_or_default();
        let key = match (write.before, write.after) {
            (Some(stored), _) => stored.stored_key().clone(),
            (None, Some(after)) => after.key()?,
            (None, None) => return Ok(None),
        };
        let (change, properties) = entity_change(write, &pending, &stamps)?;
        let options = WriteOptions { deadline, ..WriteOptions::default() };
        let mut names: Vec<Option<&'static str>> = vec![None];
        let mut txn =
            self.table.transaction(key.partition.clone()).with_options(options).add(&key, change)?;
        for (index, copy_key) in &write.plan.copies {
            let Some(after) = write.after else { continue };
            let copy = copy_properties(after, E::INDEXES[*index].name)?;
            let is_new = write.plan.inserted.contains(index);
            let change = if is_new { Change::Insert(copy) } else { Change::InsertOrReplace(copy) };
            txn = txn.add(copy_key, change)?;
            names.push(is_new.then_some(E::INDEXES[*index].name));
        }
        for key in &write.plan.removed {
            // A copy that somebody removed by hand is left out.
            txn = txn.delete_if_there(key)?;
            names.push(None);
        }
        let etag = commit(txn, &names).await?;
        let Some(after) = write.after else { return Ok(None) };
        let written = tavola_protocol::table::Written { etag };
        let mut stored = match (write.before, &write.save) {
            (Some(stored), Some(save)) => {
                let mut stored = stored.clone();
                let (etag, timestamp) = told(&written);
                stored.saved(&with_stamps(save, &stamps), etag, timestamp)?;
                stored
            }
            _ => as_stored(after.clone(), key, properties, &written),
        };
        stored.value = after.clone();
        Ok(Some(stored))
    }

    /// Writes what is derived, gives back what is no longer reserved, and removes the intent.
    pub(super) async fn finish(
        &self,
        intent: &mut IndexIntent,
        lease: &Lease,
        known: Option<Option<(String, Stored<E>)>>,
    ) -> Result<()> {
        match self.settle_all(intent, lease, known).await {
            // A worker has taken over.
            Err(Error::LeaseLost) => return Ok(()),
            settled => settled?,
        }
        match lease.delete().await {
            Err(Error::LeaseLost) => Ok(()),
            deleted => deleted,
        }
    }

    pub(super) async fn settle_all(
        &self,
        intent: &mut IndexIntent,
        lease: &Lease,
        known: Option<Option<(String, Stored<E>)>>,
    ) -> Result<()> {
        if let Some(reservations) = intent.unique.clone() {
            match &known {
                Some(_) => self.release_old(&reservations, lease).await?,
                None => self.settle_reservations(&reservations, &intent.owner, lease).await?,
            }
        }
        if intent.targets.is_empty() {
            return Ok(());
        }
        let rename = |intent: &IndexIntent| {
            let body = serde_json::to_value(intent).map_err(|error| Error::Step(error.to_string()))?;
            Envelope { kind: self.kind(), body }.text()
        };
        settle(self, intent, lease, self.intents()?.lease(), self.rules, known, rename).await
    }

    /// After a write that certainly did nothing: what was prepared for it goes, if this process still may.
    async fn clean_up(&self, intent: &IndexIntent, lease: &Lease) {
        let settled = match &intent.unique {
            Some(reservations) => self.settle_reservations(reservations, &intent.owner, lease).await,
            None => Ok(()),
        };
        if settled.is_ok() {
            // What fails here, a worker finds.
            let _ = lease.delete().await;
        }
    }

    /// Settles an entity again, with these places beside those that it should have.
    pub(super) async fn repair(&self, owner: &EntityKey, targets: BTreeSet<Target>) -> Result<()> {
        let mut intent = IndexIntent { owner: owner.clone(), targets, unique: None };
        let lease = self.put_intent(&intent).await?;
        self.finish(&mut intent, &lease, None).await
    }
}

/// What a write makes of an entity.
pub(super) struct EntityWrite<'a, E> {
    pub(super) before: Option<&'a Stored<E>>,
    pub(super) after: Option<&'a E>,
    pub(super) save: Option<Save>,
    pub(super) plan: Plan,
}

/// The change of the entity itself, and its properties after an insert.
fn entity_change<E: Indexed>(
    write: &EntityWrite<'_, E>,
    pending: &str,
    stamps: &[(String, tavola_model::Guid)],
) -> Result<(Change, Properties)> {
    match (write.before, write.after, &write.save) {
        (Some(stored), Some(_), Some(save)) => {
            let change = save_write(stored, &with_stamps(save, stamps))?;
            let change = change.map(|write| write.change).ok_or(Error::NotFound)?;
            Ok((change, Properties::empty()))
        }
        (Some(stored), _, _) => {
            Ok((Change::Delete(Condition::Etag(stored.etag.clone())), Properties::empty()))
        }
        (None, Some(after), _) => {
            let properties = entity_properties(after, stamps)?;
            let change = match pending {
                "" => Change::Insert(properties.clone()),
                etag => Change::Replace(properties.clone(), Condition::Etag(etag.to_owned())),
            };
            Ok((change, properties))
        }
        (None, None, _) => Err(Error::NotFound),
    }
}

/// The properties of an entity that holds reservations.
pub(super) fn entity_properties<E: Writable>(
    entity: &E,
    stamps: &[(String, tavola_model::Guid)],
) -> Result<Properties> {
    let mut values = Values::new();
    entity.write(KeyParts::InKey, &mut values)?;
    for (name, stamp) in stamps {
        values.put(name.as_str(), Some(Edm::Borrowed(EdmRef::Guid(*stamp))));
    }
    values.pack()
}

fn with_stamps(save: &Save, stamps: &[(String, tavola_model::Guid)]) -> Save {
    let mut save = save.clone();
    if let Save::Merge(values) | Save::Replace(values) = &mut save {
        for (name, stamp) in stamps {
            values.retain(|known, _| known != name);
            values.put(name.clone(), Some(Edm::Borrowed(EdmRef::Guid(*stamp))));
        }
    }
    save
}

/// The properties of a copy: those of the entity, the parts of its key, and the name of the index.
pub(super) fn copy_properties<E: Writable>(entity: &E, index: &str) -> Result<Properties> {
    let mut values = Values::new();
    entity.write(KeyParts::AsProperties, &mut values)?;
    values.put(INDEX, Some(Edm::Borrowed(EdmRef::String(index))));
    values.pack()
}

/// Commits, and tells which unique index a refusal is about. Gives the tag of the entity.
async fn commit(txn: Transaction, names: &[Option<&'static str>]) -> Result<Option<String>> {
    match txn.commit().await {
        Ok(committed) => Ok(committed.etags.into_iter().next().flatten()),
        Err(Error::Transaction { index, cause }) => Err(match *cause {
            Error::Taken { .. } => Error::Taken { index: names.get(index).copied().flatten() },
            // The entity itself: as for a single write.
            other if index == 0 => other,
            other => Error::Transaction { index, cause: Box::new(other) },
        }),
        Err(error) => Err(error),
    }
}

/// Whether an error says that nothing was written.
fn is_certain(error: &Error) -> bool {
    !matches!(error, Error::OutcomeUnknown { .. } | Error::LeaseLost)
}

impl<E: Indexed> Derived for IndexedTable<E> {
    type Source = Stored<E>;

    async fn read(&self, owner: &EntityKey) -> Result<Option<(String, Stored<E>)>> {
        let found = self.table.get::<E>(owner, None).await?;
        Ok(found.map(|stored| (stored.etag.clone(), stored)))
    }

    fn wanted(&self, source: &Stored<E>) -> Result<Vec<Target>> {
        let plan = plan(None, Some(&source.value))?;
        Ok(plan.targets().into_iter().collect())
    }

    async fn put(&self, target: &Target, source: &Stored<E>, options: &WriteOptions) -> Result<()> {
        let definition = self.definition(&target.of)?;
        let copy = copy_properties(&source.value, definition.name)?;
        let write = crate::write::Write::new(target.key.checked()?, Change::InsertOrReplace(copy));
        self.table_of(definition).apply(write, Some(options)).await.map(|_| ())
    }

    async fn remove(&self, target: &Target, _: &EntityKey, options: &WriteOptions) -> Result<()> {
        let definition = self.definition(&target.of)?;
        self.table_of(definition).delete_if_there(&target.key, Some(options.clone())).await.map(|_| ())
    }
}

impl<E: Indexed> IndexedTable<E> {
    /// An intent of a newer build may name an index that this one does not know.
    pub(super) fn definition(&self, name: &str) -> Result<&'static Definition<E>> {
        let known = E::INDEXES.iter().find(|definition| definition.name == name);
        known.ok_or_else(|| Error::Step(format!("the index is unknown to this build (index={name})")))
    }
}

impl<E: Indexed> Settler for IndexedTable<E> {
    fn kind(&self) -> String {
        format!("tavola-index/{}", self.table.name().to_ascii_lowercase())
    }

    fn settle<'a>(&'a self, body: &'a Value, lease: &'a Lease) -> BoxFuture<'a, Result<After>> {
        Box::pin(async move {
            let mut intent: IndexIntent =
                serde_json::from_value(body.clone()).map_err(|error| Error::Step(error.to_string()))?;
            if intent.targets.iter().any(|target| self.definition(&target.of).is_err()) {
                // Left for a newer worker.
                return Ok(After::Hide(self.intents()?.lease()));
            }
            self.settle_all(&mut intent, lease, None).await?;
            Ok(After::Delete)
        })
    }
}
