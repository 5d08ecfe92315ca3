//! Denormalization: entities that hold a copy of another's properties, and parents that count their children.
//!
//! Holders in the source's own partition are written with it in one transaction. Holders elsewhere follow by the settle
//! engine: the source is the truth, and every holder becomes what the source says, after any crash.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use futures_core::future::BoxFuture;
use futures_util::future::try_join_all;
use serde_json::Value;

use crate::entities::{CHANGED_TRIES_MAX, pause};
use crate::entity::{Entity, Readable, Stored, Writable};
use crate::error::{Error, KeyError, Result};
use crate::eventual::{After, Derived, Guard, Intents, Settle, Settler, Target};
use crate::key::EntityKey;
use crate::options::WriteOptions;
use crate::queue::Lease;
use crate::table::TableClient;

/// `Self` holds a copy of some of `S`.
///
/// ```
/// use tavola_client::patterns::denormal::Embeds;
/// use tavola_client::{Entity, EntityKey, KeyError};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{department}", row = "empid_{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     email: String,
/// }
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{name}", row = "Department")]
/// struct Department {
///     name: String,
///     manager_email: Option<String>,
/// }
///
/// impl Embeds<Employee> for Department {
///     fn holders(manager: &Employee) -> Result<Vec<EntityKey>, KeyError> {
///         Ok(vec![(manager.department.as_str(), "Department").into()])
///     }
///     fn embed(&mut self, manager: &Employee) {
///         self.manager_email = Some(manager.email.clone());
///     }
///     fn forget(&mut self, _: &EntityKey) {
///         self.manager_email = None;
///     }
/// }
/// ```
pub trait Embeds<S: Entity>: Entity + Clone {
    /// Who holds a copy of this one.
    fn holders(source: &S) -> Result<Vec<EntityKey>, KeyError>;
    /// Takes the copy over.
    fn embed(&mut self, source: &S);
    /// The source is gone, or this one is no longer a holder of it.
    fn forget(&mut self, source: &EntityKey);
}

impl TableClient {
    /// Saves a changed entity and every copy of it in its partition, in one transaction: k reads and one write for k
    /// holders, at most 99. A holder that another changes in between is read again; [`Error::Changed`] if the entity
    /// itself was changed. Holders that are not there are skipped. Refuses holders elsewhere: see [`Denormalized`].
    ///
    /// ```no_run
    /// # use tavola_client::patterns::denormal::Embeds;
    /// # async fn example<D: Embeds<E>, E: tavola_client::Entity>(table: tavola_client::TableClient, mut manager: tavola_client::Stored<E>) -> tavola_client::Result<()> {
    /// table.save_embedded::<D, E>(&mut manager).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn save_embedded<H: Embeds<S>, S: Entity>(&self, source: &mut Stored<S>) -> Result<()> {
        let key = source.stored_key().clone();
        let holders = H::holders(source)?;
        if holders.iter().any(|holder| holder.partition != key.partition) {
            return Err(Error::Limit("a holder is in another partition: use Denormalized"));
        }
        let save = source.plan_save()?;
        for attempt in 1..=CHANGED_TRIES_MAX {
            let found = try_join_all(holders.iter().map(|holder| self.get::<H>(holder, None))).await?;
            let mut txn = self.transaction(&key.partition).save(source)?;
            for mut holder in found.into_iter().flatten() {
                holder.embed(source);
                txn = txn.save(&holder)?;
            }
            match txn.commit().await {
                Ok(committed) => {
                    let etag = committed.etags.into_iter().next().flatten();
                    let written = tavola_protocol::table::Written { etag };
                    let (etag, timestamp) = crate::entities::told(&written);
                    source.saved(&save, etag.clone(), timestamp)?;
                    source.etag = etag;
                    return Ok(());
                }
                Err(Error::Transaction { index: 0, cause }) => return Err(*cause),
                Err(Error::Transaction { cause, .. })
                    if matches!(*cause, Error::Changed | Error::NotFound) =>
                {
                    pause(attempt).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Changed)
    }

    /// Inserts an entity and changes its parent in one transaction (a count, a last date), again until nobody came
    /// between. Two requests. [`Error::NotFound`] if there is no parent, [`Error::Taken`] if there is such a child.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// let employee = DynamicEntity::new(("Sales", "empid_000212"));
    /// table
    ///     .insert_child(&employee, ("Sales", "Department"), |department: &mut DynamicEntity| {
    ///         department.put("EmployeeCount", 154);
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert_child<C: Writable, P: Readable + Writable>(
        &self,
        child: &C,
        parent: impl Into<EntityKey>,
        change: impl Fn(&mut P),
    ) -> Result<()> {
        let key = parent.into();
        for attempt in 1..=CHANGED_TRIES_MAX {
            let mut parent = self.get::<P>(&key, None).await?.ok_or(Error::NotFound)?;
            change(&mut parent);
            match self.transaction(&key.partition).insert(child)?.save(&parent)?.commit().await {
                Ok(_) => return Ok(()),
                Err(Error::Transaction { index: 0, cause }) => return Err(*cause),
                Err(Error::Transaction { cause, .. }) if matches!(*cause, Error::Changed) => {
                    pause(attempt).await
                }
                Err(Error::Transaction { cause, .. }) => return Err(*cause),
                Err(error) => return Err(error),
            }
        }
        Err(Error::Changed)
    }
}

/// A table of sources whose copies are held by entities anywhere in the account. Cheap to clone.
///
/// **Atomic**: the source. **Eventual**: the holders. **After a crash**: a worker that serves this table. **Requests** of
/// a save: 4, and two for each holder. **Refuses**: more holders than an intent can name.
///
/// ```no_run
/// # use tavola_client::patterns::denormal::{Denormalized, Embeds};
/// # async fn example<D: Embeds<E>, E: tavola_client::Entity + Clone>(account: tavola_client::Account, mut manager: tavola_client::Stored<E>) -> tavola_client::Result<()> {
/// use tavola_client::eventual::{Intents, Settle};
/// let intents = Intents::new(account.queue("intents"));
/// let managers = Denormalized::<D, E>::new(account.table("Employees"), account.table("Departments"), intents);
/// managers.save(&mut manager, Settle::Wait).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Denormalized<H, S> {
    sources: TableClient,
    holders: TableClient,
    guard: Guard,
    types: PhantomData<fn() -> (H, S)>,
}

impl<H, S> Clone for Denormalized<H, S> {
    fn clone(&self) -> Self {
        let (sources, holders, guard) = (self.sources.clone(), self.holders.clone(), self.guard.clone());
        Self { sources, holders, guard, types: PhantomData }
    }
}

impl<S: Entity + Clone, H: Embeds<S>> Denormalized<H, S> {
    /// Sources in one table, holders in another or the same.
    ///
    /// ```
    /// # use tavola_client::{Account, Entity, eventual::Intents, patterns::denormal::{Denormalized, Embeds}};
    /// # fn example<S: Entity + Clone, H: Embeds<S>>(account: Account) {
    /// let intents = Intents::new(account.queue("intents"));
    /// let managers = Denormalized::<H, S>::new(account.table("Employees"), account.table("Departments"), intents);
    /// # }
    /// ```
    pub fn new(sources: TableClient, holders: TableClient, intents: Intents) -> Self {
        let names = [sources.name(), holders.name()].map(str::to_ascii_lowercase);
        let guard = Guard { intents, kind: format!("tavola-embed/{}/{}/{}", names[0], names[1], S::TYPE) };
        Self { sources, holders, guard, types: PhantomData }
    }

    /// Inserts a source, and embeds it where it belongs.
    ///
    /// ```no_run
    /// # use tavola_client::{Entity, Stored, eventual::Settle, patterns::denormal::Embeds};
    /// # async fn example<S: Entity + Clone, H: Embeds<S>>(managers: tavola_client::patterns::denormal::Denormalized<H, S>, ann: S) -> tavola_client::Result<()> {
    /// managers.insert(&ann, Settle::Wait).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert(&self, source: &S, settle: Settle) -> Result<Stored<S>> {
        let targets = targets(&H::holders(source)?);
        let write = async |options| self.sources.insert(source, Some(options)).await;
        self.guard.write(self, source.key()?, targets, settle, write, known).await
    }

    /// Saves a changed source and every copy of it.
    ///
    /// ```no_run
    /// # use tavola_client::{Entity, Stored, eventual::Settle, patterns::denormal::Embeds};
    /// # async fn example<S: Entity + Clone, H: Embeds<S>>(managers: tavola_client::patterns::denormal::Denormalized<H, S>, mut ann: Stored<S>) -> tavola_client::Result<()> {
    /// managers.save(&mut ann, Settle::Wait).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn save(&self, source: &mut Stored<S>, settle: Settle) -> Result<()> {
        let before = S::read(&source.original())?;
        let mut named = targets(&H::holders(&before)?);
        named.extend(targets(&H::holders(source)?));
        let owner = source.stored_key().clone();
        let write = async |options| {
            self.sources.save(source, Some(options)).await?;
            Ok(source.clone())
        };
        self.guard.write(self, owner, named, settle, write, known).await.map(|_| ())
    }

    /// Deletes a source; its holders forget it.
    ///
    /// ```no_run
    /// # use tavola_client::{Entity, Stored, eventual::Settle, patterns::denormal::Embeds};
    /// # async fn example<S: Entity + Clone, H: Embeds<S>>(managers: tavola_client::patterns::denormal::Denormalized<H, S>, ann: Stored<S>) -> tavola_client::Result<()> {
    /// managers.delete(&ann, Settle::Wait).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, source: &Stored<S>, settle: Settle) -> Result<()> {
        let named = targets(&H::holders(&S::read(&source.original())?)?);
        let owner = source.stored_key().clone();
        let write = async |options| self.sources.delete(source, Some(options)).await;
        self.guard.write(self, owner, named, settle, write, |()| None).await
    }

    async fn change_holder(
        &self,
        key: &EntityKey,
        options: &WriteOptions,
        change: impl Fn(&mut H),
    ) -> Result<()> {
        for attempt in 1..=CHANGED_TRIES_MAX {
            let Some(mut holder) = self.holders.get::<H>(key, None).await? else { return Ok(()) };
            change(&mut holder);
            match self.holders.save(&mut holder, Some(options.clone())).await {
                Err(Error::Changed) => pause(attempt).await,
                Err(Error::NotFound) => return Ok(()),
                saved => return saved,
            }
        }
        Err(Error::Changed)
    }
}

fn known<S: Clone>(stored: &Stored<S>) -> Option<(String, S)> {
    Some((stored.etag.clone(), stored.value.clone()))
}

fn targets(holders: &[EntityKey]) -> BTreeSet<Target> {
    holders.iter().map(|key| Target { of: "holder".to_owned(), key: key.clone() }).collect()
}

impl<S: Entity + Clone, H: Embeds<S>> Derived for Denormalized<H, S> {
    type Source = S;

    async fn read(&self, owner: &EntityKey) -> Result<Option<(String, S)>> {
        let found = self.sources.get::<S>(owner, None).await?;
        Ok(found.map(|stored| (stored.etag.clone(), stored.value)))
    }

    fn wanted(&self, source: &S) -> Result<Vec<Target>> {
        Ok(targets(&H::holders(source)?).into_iter().collect())
    }

    async fn put(&self, target: &Target, source: &S, options: &WriteOptions) -> Result<()> {
        self.change_holder(&target.key, options, |holder| holder.embed(source)).await
    }

    async fn remove(&self, target: &Target, owner: &EntityKey, options: &WriteOptions) -> Result<()> {
        self.change_holder(&target.key, options, |holder| holder.forget(owner)).await
    }
}

impl<S: Entity + Clone, H: Embeds<S>> Settler for Denormalized<H, S> {
    fn kind(&self) -> String {
        self.guard.kind.clone()
    }

    fn settle<'a>(&'a self, body: &'a Value, lease: &'a Lease) -> BoxFuture<'a, Result<After>> {
        Box::pin(self.guard.serve(self, body, lease))
    }
}
