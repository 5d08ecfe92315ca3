//! Index entities: lists of keys under a value that is not unique.
//!
//! A list in the entity's partition changes in one transaction with it; a list in another table or in a blob follows by
//! the settle engine, and holds both keys of each member. Writers of one value wait for each other: where a value is written
//! often, the non-unique index of `index` (one small entity for each member) has neither contention nor a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use futures_core::future::BoxFuture;
use futures_util::future::try_join_all;
use futures_util::stream::StreamExt;
use serde_json::Value;

use crate::account::Account;
use crate::blob::ContainerClient;
use crate::bulk::{ProgressCallback, Watch};
use crate::dynamic::DynamicEntity;
use crate::entities::{CHANGED_TRIES_MAX, pause};
use crate::entity::{Entity, Stored};
use crate::error::{Error, Result};
use crate::eventual::{After, Derived, Guard, Intents, Settle, Settler, Target};
use crate::index::{Report, VerifyMode};
use crate::key::EntityKey;
use crate::options::WriteOptions;
use crate::queue::Lease;
use crate::scope::In;
use crate::table::TableClient;
use crate::write::{Change, Condition};

use super::blob_list::{read_blob_list, read_blob_lists, set_blob_member};
use super::list_entity::{Leaf, List, as_list, is_conflict, is_list, read_list, set_member};

const LIST_ROW: &str = "list";

/// Where the lists are kept.
///
/// ```no_run
/// # fn example(account: tavola_client::Account) {
/// use tavola_client::eventual::Intents;
/// use tavola_client::patterns::list_index::Lists;
/// let intents = Intents::new(account.queue("intents"));
/// let lists = Lists::Table { table: account.table("LastNames"), intents };
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Lists {
    /// In the entity's partition: one transaction with it, an ETag loop.
    SamePartition,
    /// In another table: eventually consistent, by intents.
    Table {
        /// The table of the lists.
        table: TableClient,
        /// The queue of intents.
        intents: Intents,
    },
    /// In blobs, one for each value: eventually consistent, by intents; for lists that are too large for an entity.
    Blobs {
        /// The container of the lists, with no other blobs that begin like them.
        container: ContainerClient,
        /// The queue of intents.
        intents: Intents,
    },
}

impl Lists {
    /// The queue by which lists elsewhere follow.
    fn intents(&self) -> Option<&Intents> {
        match self {
            Self::SamePartition => None,
            Self::Table { intents, .. } | Self::Blobs { intents, .. } => Some(intents),
        }
    }
}

/// A list index over `E` by a value taken from it; `None` keeps an entity out.
///
/// **Atomic**: the entity, with its lists where they are in its partition. **Eventual**: lists in another table or in
/// blobs. **After a crash**: nothing to do, or a worker that serves this index. **Requests** of an insert: 2, or 6 with
/// another table or blobs; of a change of the value: 3, or 8. A list of more than about 900 KiB is split into several
/// entities, in the transaction that makes it so long; each write of it then takes one request more, and reading it whole
/// one for each part. **Refuses**: a list of more than 16 MiB in a blob, more than 16 conflicts in a row.
///
/// ```no_run
/// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
/// use tavola_client::Entity;
/// use tavola_client::eventual::Settle;
/// use tavola_client::patterns::list_index::{ListIndex, Lists};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{department}", row = "empid_{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     last_name: String,
/// }
///
/// let by_name = ListIndex::<Employee> {
///     table: account.table("Employees"),
///     lists: Lists::SamePartition,
///     prefix: "lastname_",
///     value: |e| Some(&e.last_name),
/// };
/// let new = Employee { department: "Sales".into(), id: 212, last_name: "Jones".into() };
/// by_name.insert(&new, Settle::Wait).await?;
/// println!("{}", by_name.find("Sales", "Jones").await?.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ListIndex<E> {
    /// The entities.
    pub table: TableClient,
    /// Where the lists are kept.
    pub lists: Lists,
    /// What the keys of lists begin with.
    pub prefix: &'static str,
    /// The value under which an entity is listed.
    pub value: fn(&E) -> Option<&str>,
}

impl<E: Entity + Clone> ListIndex<E> {
    /// Inserts an entity and lists it.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # use tavola_client::eventual::Settle;
    /// # async fn example(index: tavola_client::patterns::list_index::ListIndex<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// let stored = index.insert(&don, Settle::Wait).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert(&self, entity: &E, settle: Settle) -> Result<Stored<E>> {
        match &self.lists {
            Lists::SamePartition => {
                let key = entity.key()?;
                let properties = crate::entities::pack(entity)?;
                let change = Change::Insert(properties.clone());
                let etag = self.write_with_lists(&key, change, None, (self.value)(entity)).await?;
                let written = tavola_protocol::table::Written { etag };
                Ok(crate::entities::as_stored(entity.clone(), key, properties, &written))
            }
            Lists::Table { intents, .. } | Lists::Blobs { intents, .. } => {
                let targets = self.targets([(self.value)(entity)]);
                let write = async |options| self.table.insert(entity, Some(options)).await;
                let guard = self.guard(intents);
                guard.write(self, entity.key()?, targets, settle, write, known).await
            }
        }
    }

    /// Saves a changed entity, and moves it between lists where its value changed.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # use tavola_client::eventual::Settle;
    /// # async fn example(index: tavola_client::patterns::list_index::ListIndex<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// let mut stored = index.insert(&don, Settle::Wait).await?;
    /// stored.email = "d@c.com".into();
    /// index.save(&mut stored, Settle::Wait).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn save(&self, stored: &mut Stored<E>, settle: Settle) -> Result<()> {
        let before = E::read(&stored.original())?;
        let (old, new) = ((self.value)(&before), (self.value)(stored));
        if old == new {
            return self.table.save(stored, None).await;
        }
        let key = stored.stored_key().clone();
        match &self.lists {
            Lists::SamePartition => {
                let save = stored.plan_save()?;
                let Some(write) = crate::entities::save_write(stored, &save)? else { return Ok(()) };
                let etag = self.write_with_lists(&key, write.change, old, new).await?;
                let written = tavola_protocol::table::Written { etag };
                let (etag, timestamp) = crate::entities::told(&written);
                stored.saved(&save, etag, timestamp)
            }
            Lists::Table { intents, .. } | Lists::Blobs { intents, .. } => {
                let targets = self.targets([old, new]);
                let write = async |options| {
                    self.table.save(stored, Some(options)).await?;
                    Ok(stored.clone())
                };
                self.guard(intents).write(self, key, targets, settle, write, known).await.map(|_| ())
            }
        }
    }

    /// Removes an entity, from its list too.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # use tavola_client::eventual::Settle;
    /// # async fn example(index: tavola_client::patterns::list_index::ListIndex<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// let stored = index.insert(&don, Settle::Wait).await?;
    /// index.delete(&stored, Settle::Wait).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, stored: &Stored<E>, settle: Settle) -> Result<()> {
        let before = E::read(&stored.original())?;
        let (old, key) = ((self.value)(&before), stored.stored_key().clone());
        match &self.lists {
            Lists::SamePartition => {
                let change = Change::Delete(Condition::Etag(stored.etag.clone()));
                self.write_with_lists(&key, change, old, None).await.map(|_| ())
            }
            Lists::Table { intents, .. } | Lists::Blobs { intents, .. } => {
                let targets = self.targets([old]);
                let write = async |options| self.table.delete(stored, Some(options)).await;
                self.guard(intents).write(self, key, targets, settle, write, |()| None).await
            }
        }
    }

    /// The keys that are listed under a value. One request, and one for each part of a list in several. `partition` is that of the entities; lists elsewhere have
    /// members of every partition, and it chooses among them unless it is empty.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # use tavola_client::eventual::Settle;
    /// # async fn example(index: tavola_client::patterns::list_index::ListIndex<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// for key in index.keys("Sales", "d@c.com").await? {
    ///     println!("{}", key.row);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn keys(&self, partition: &str, value: &str) -> Result<Vec<EntityKey>> {
        let key = self.list_key(partition, value);
        let list = match &self.lists {
            Lists::SamePartition => read_list(&self.table, key, partition).await?,
            Lists::Table { table, .. } => read_list(table, key, "").await?,
            Lists::Blobs { container, .. } => read_blob_list(container, key).await?,
        };
        let here = |member: &EntityKey| partition.is_empty() || member.partition == partition;
        Ok(list.members.into_iter().filter(here).collect())
    }

    /// The entities that are listed under a value: one request, and one for each, 32 at a time. Members that are gone or
    /// have another value by now are left out.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # use tavola_client::eventual::Settle;
    /// # async fn example(index: tavola_client::patterns::list_index::ListIndex<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// println!("{}", index.find("Sales", "d@c.com").await?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find(&self, partition: &str, value: &str) -> Result<Vec<Stored<E>>> {
        let keys = self.keys(partition, value).await?;
        let found = self.table.get_many::<E>(keys).await?;
        Ok(found.into_iter().flatten().filter(|entity| (self.value)(entity) == Some(value)).collect())
    }

    /// Scans entities and lists, and compares.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # use tavola_client::eventual::Settle;
    /// # async fn example(index: tavola_client::patterns::list_index::ListIndex<Employee>, don: Employee) -> tavola_client::Result<()> {
    /// use tavola_client::index::VerifyMode;
    /// assert!(index.verify(VerifyMode::Repair, None).await?.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify(&self, mode: VerifyMode, progress: Option<ProgressCallback>) -> Result<Report> {
        let mut report = Report::default();
        let mut wanted: BTreeMap<EntityKey, EntityKey> = BTreeMap::new();
        let mut lists: Vec<List> = Vec::new();
        let mut take = |found: Stored<DynamicEntity>, is_list: bool| -> Result<()> {
            if is_list {
                lists.push(as_list(&found, self.own_partition(&found.stored_key().partition))?);
            } else if let Ok(entity) = E::read(&found.original())
                && entity.key().is_ok_and(|key| key == *found.stored_key())
            {
                report.entities += 1;
                if let Some(value) = (self.value)(&entity) {
                    wanted.insert(
                        found.stored_key().clone(),
                        self.list_key(&found.stored_key().partition, value),
                    );
                }
            }
            Ok(())
        };
        let mut watch = Watch::new(progress);
        let this = self.counted(&watch.requests);
        let mut scan = pin!(this.table.scan_raw(In::whole_table(), 4));
        while let Some(found) = scan.next().await {
            let found = found?;
            let is_list = matches!(self.lists, Lists::SamePartition) && is_list(&found, self.prefix);
            take(found, is_list)?;
            watch.tell();
        }
        if let Lists::Table { table, .. } = &this.lists {
            let mut scan = pin!(table.scan_raw(In::partitions_with_prefix(self.prefix), 4));
            while let Some(found) = scan.next().await {
                take(found?, true)?;
                watch.tell();
            }
        }
        if let Lists::Blobs { container, .. } = &this.lists {
            lists.extend(read_blob_lists(container, self.prefix, LIST_ROW).await?);
        }
        let mut wrong: Vec<(EntityKey, EntityKey)> = Vec::new();
        for (member, list_key) in &wanted {
            let listed = lists.iter().any(|list| list.key == *list_key && list.members.contains(member));
            if !listed {
                report.missing += 1;
                wrong.push((member.clone(), list_key.clone()));
            }
        }
        for list in &lists {
            for member in list.members.iter().filter(|member| wanted.get(member) != Some(&list.key)) {
                report.orphans += 1;
                wrong.push((member.clone(), list.key.clone()));
            }
        }
        if mode == VerifyMode::Repair {
            for (member, list_key) in wrong {
                this.repair(member, list_key).await?;
                watch.tell();
            }
        }
        Ok(report)
    }

    /// The same index, whose requests are counted.
    fn counted(&self, requests: &Arc<AtomicU64>) -> Self {
        let counted = |account: &Account| account.counted(requests);
        let lists = match &self.lists {
            Lists::SamePartition => Lists::SamePartition,
            Lists::Table { table, intents } => Lists::Table {
                table: counted(table.account()).table(table.name()),
                intents: intents.counted(requests),
            },
            Lists::Blobs { container, intents } => Lists::Blobs {
                container: counted(container.account()).container(container.name()),
                intents: intents.counted(requests),
            },
        };
        Self { table: counted(self.table.account()).table(self.table.name()), lists, ..self.clone() }
    }

    async fn repair(&self, member: EntityKey, list_key: EntityKey) -> Result<()> {
        match &self.lists {
            Lists::Table { intents, .. } | Lists::Blobs { intents, .. } => {
                let targets = [Target { of: "list".to_owned(), key: list_key }].into();
                self.guard(intents).repair(self, member, targets).await
            }
            Lists::SamePartition => {
                let entity = self.table.get::<E>(&member, None).await?;
                let value = entity.as_ref().and_then(|entity| (self.value)(entity));
                let is_wanted =
                    value.is_some_and(|value| self.list_key(&member.partition, value) == list_key);
                let options = WriteOptions::default();
                set_member(&self.table, list_key, &member.partition.clone(), &member, is_wanted, &options)
                    .await
            }
        }
    }

    fn guard(&self, intents: &Intents) -> Guard {
        let kind = format!("tavola-list/{}/{}", self.table.name().to_ascii_lowercase(), self.prefix);
        Guard { intents: intents.clone(), kind }
    }

    /// Makes an entity be a member of a list elsewhere, or not.
    async fn set_elsewhere(
        &self,
        list: &EntityKey,
        member: &EntityKey,
        is_wanted: bool,
        options: &WriteOptions,
    ) -> Result<()> {
        match &self.lists {
            // Written with the entity, never by the settle engine.
            Lists::SamePartition => Ok(()),
            Lists::Table { table, .. } => {
                set_member(table, list.clone(), "", member, is_wanted, options).await
            }
            Lists::Blobs { container, .. } => {
                set_blob_member(container, list, member, is_wanted, options).await
            }
        }
    }

    /// The partition whose members a list names by their row alone.
    fn own_partition<'p>(&self, partition: &'p str) -> &'p str {
        match &self.lists {
            Lists::SamePartition => partition,
            Lists::Table { .. } | Lists::Blobs { .. } => "",
        }
    }

    fn list_key(&self, partition: &str, value: &str) -> EntityKey {
        let name = format!("{}{value}", self.prefix);
        match &self.lists {
            Lists::SamePartition => EntityKey { partition: partition.to_owned(), row: name },
            Lists::Table { .. } | Lists::Blobs { .. } => {
                EntityKey { partition: name, row: LIST_ROW.to_owned() }
            }
        }
    }

    fn targets<'v>(&self, values: impl IntoIterator<Item = Option<&'v str>>) -> BTreeSet<Target> {
        let keys = values.into_iter().flatten().map(|value| self.list_key("", value));
        keys.map(|key| Target { of: "list".to_owned(), key }).collect()
    }

    /// The entity and its lists in one transaction, again until nobody changed a list in between.
    async fn write_with_lists(
        &self,
        key: &EntityKey,
        change: Change,
        old: Option<&str>,
        new: Option<&str>,
    ) -> Result<Option<String>> {
        let partition = &key.partition;
        for attempt in 1..=CHANGED_TRIES_MAX {
            let written = async {
                let read = [(old, false), (new, true)].into_iter();
                let read = read.filter_map(|(value, is_wanted)| Some((value?, is_wanted)));
                let leaves = read.map(async |(value, is_wanted)| {
                    let list = self.list_key(partition, value);
                    let mut leaf = Leaf::read(&self.table, list, partition, key).await?;
                    leaf.set(key, is_wanted);
                    leaf.changes()
                });
                // A list that has the member already is written too: its tag is part of what is decided here.
                let mut txn = self.table.transaction(partition.clone()).add(key, change.clone())?;
                for (key, change) in try_join_all(leaves).await?.into_iter().flatten() {
                    txn = txn.add(&key, change)?;
                }
                txn.commit().await
            };
            match written.await {
                Ok(committed) => return Ok(committed.etags.into_iter().next().flatten()),
                Err(Error::Transaction { index: 0, cause }) => return Err(*cause),
                Err(error) if is_conflict(&error) => pause(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(Error::Changed)
    }
}

fn known<E: Clone>(stored: &Stored<E>) -> Option<(String, E)> {
    Some((stored.etag.clone(), stored.value.clone()))
}

impl<E: Entity + Clone> Derived for ListIndex<E> {
    type Source = E;

    async fn read(&self, owner: &EntityKey) -> Result<Option<(String, E)>> {
        let found = self.table.get::<E>(owner, None).await?;
        Ok(found.map(|stored| (stored.etag.clone(), stored.value)))
    }

    fn wanted(&self, source: &E) -> Result<Vec<Target>> {
        Ok(self.targets([(self.value)(source)]).into_iter().collect())
    }

    async fn put(&self, target: &Target, source: &E, options: &WriteOptions) -> Result<()> {
        self.set_elsewhere(&target.key, &source.key()?, true, options).await
    }

    async fn remove(&self, target: &Target, owner: &EntityKey, options: &WriteOptions) -> Result<()> {
        self.set_elsewhere(&target.key, owner, false, options).await
    }
}

impl<E: Entity + Clone> Settler for ListIndex<E> {
    fn kind(&self) -> String {
        match self.lists.intents() {
            None => "tavola-list".to_owned(),
            Some(intents) => self.guard(intents).kind,
        }
    }

    fn settle<'a>(&'a self, body: &'a Value, lease: &'a Lease) -> BoxFuture<'a, Result<After>> {
        Box::pin(async move {
            match self.lists.intents() {
                None => Ok(After::Delete),
                Some(intents) => self.guard(intents).serve(self, body, lease).await,
            }
        })
    }
}
