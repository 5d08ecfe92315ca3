//! Looking at both sides of every index, reporting and repairing every difference, and filling an index of old data.

use std::pin::pin;

use futures_util::stream::{StreamExt, TryStreamExt};

use crate::account::now;
use crate::bulk::{ProgressCallback, Watch};
use crate::dynamic::DynamicEntity;
use crate::edm::EdmRef;
use crate::entity::{KeyParts, Stored};
use crate::error::{Error, Result};
use crate::eventual::Target;
use crate::index::table::{IndexedTable, copy_properties};
use crate::index::{Definition, INDEX, Indexed, Location};
use crate::key::EntityKey;
use crate::resolve::same;
use crate::scope::In;

/// Entities that are looked at at once.
const CONCURRENCY: usize = 16;
/// Ranges of a scan.
const RANGES: usize = 4;

/// What `verify` does with what it finds.
///
/// ```no_run
/// # #[derive(Clone, tavola_client::Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # #[entity(index(by_email, unique, row = "email_{email}"))]
/// # struct Employee { department: String, id: u32, email: String }
/// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
/// use tavola_client::index::VerifyMode;
/// let report = employees.verify(VerifyMode::Repair, None).await?;
/// println!("{report:?}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyMode {
    /// Reports the differences.
    Report,
    /// Reports the differences, and repairs them by the same engine that every write uses. Reservations and pending entities of a
    /// write that nobody finishes go too, once they are older than the lease of an intent.
    Repair,
}

/// What `verify` found. While others write, what is on its way shows as a difference.
///
/// ```
/// use tavola_client::index::Report;
/// let report = Report { entities: 10, orphans: 1, ..Report::default() };
/// assert!(!report.is_clean());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Entities that were looked at.
    pub entities: u64,
    /// Index entries that should be there and are not.
    pub missing: u64,
    /// Copies that are not as their entity is.
    pub stale: u64,
    /// Index entries that no entity asks for.
    pub orphans: u64,
    /// Entities that were never activated.
    pub pending: u64,
}

impl Report {
    /// Nothing was wrong.
    ///
    /// ```
    /// assert!(tavola_client::index::Report::default().is_clean());
    /// ```
    pub fn is_clean(&self) -> bool {
        self.missing + self.stale + self.orphans + self.pending == 0
    }

    fn add(&mut self, other: Self) {
        self.entities += other.entities;
        self.missing += other.missing;
        self.stale += other.stale;
        self.orphans += other.orphans;
        self.pending += other.pending;
    }
}

impl<E: Indexed> IndexedTable<E> {
    /// Scans the table and every index, and compares. About one request for each entity and index, and one for each
    /// entry. `progress` gets the number of entities and entries that were checked, and of all requests, retries included.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{a}", row = "{b}", index(by_c, unique, row = "c_{c}"))]
    /// # struct Employee { a: String, b: String, c: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// use tavola_client::index::VerifyMode;
    /// assert!(employees.verify(VerifyMode::Report, None).await?.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify(&self, mode: VerifyMode, progress: Option<ProgressCallback>) -> Result<Report> {
        let mut report = Report::default();
        let mut watch = Watch::new(progress);
        let this = &self.counted(&watch.requests);
        let looked =
            this.scan(this.table.clone()).map(|entity| async move { this.look(entity?, mode).await });
        let mut looked = pin!(looked.buffer_unordered(CONCURRENCY));
        while let Some(one) = looked.next().await {
            report.add(one?);
            watch.tell();
        }
        for definition in
            E::INDEXES.iter().filter(|definition| matches!(definition.location, Location::Table(_)))
        {
            let entries = this.scan(this.table_of(definition));
            let looked =
                entries.map(|entry| async move { this.look_at_entry(&entry?, definition, mode).await });
            let mut looked = pin!(looked.buffer_unordered(CONCURRENCY));
            while let Some(one) = looked.next().await {
                report.add(one?);
                watch.tell();
            }
        }
        Ok(report)
    }

    /// Writes the entries of one index for every entity: for an index that was declared after the data was there. Can be
    /// run again after a crash. Two values that are the same in a unique index give [`Error::Taken`].
    /// `progress` is told of entities that were looked at, and of all requests, retries included.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{a}", row = "{b}", index(by_c, unique, row = "c_{c}"))]
    /// # struct Employee { a: String, b: String, c: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>) -> tavola_client::Result<()> {
    /// println!("{}", employees.rebuild("by_c", None).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rebuild(&self, index: &str, progress: Option<ProgressCallback>) -> Result<u64> {
        let definition = self.definition(index)?;
        let mut written = 0;
        let mut watch = Watch::new(progress);
        let this = &self.counted(&watch.requests);
        let work = this.scan(this.table.clone()).map(|entity| async move {
            let entity = entity?;
            let Some(stored) = this.primary(&entity)? else { return Ok::<_, Error>(false) };
            let Some(key) = (definition.key)(&stored)? else { return Ok(false) };
            let missing = match this.table_of(definition).fetch(&key.checked()?).await? {
                Some(_) if definition.reserves() => Self::held_attempt(&stored, definition).is_none(),
                found => found.is_none() || this.is_stale(definition, &key, &stored).await?,
            };
            if missing {
                this.write_entry(definition, &stored, &key).await?;
            }
            Ok(missing)
        });
        let mut work = pin!(work.buffer_unordered(CONCURRENCY));
        while let Some(one) = work.try_next().await? {
            written += u64::from(one);
            watch.tell();
        }
        Ok(written)
    }

    fn scan(
        &self,
        table: crate::TableClient,
    ) -> impl futures_core::Stream<Item = Result<Stored<DynamicEntity>>> + Send + use<E> {
        table.scan_raw(In::whole_table(), RANGES)
    }

    /// Looks at something in the table: an entity, a copy, or a stranger.
    async fn look(&self, entity: Stored<DynamicEntity>, mode: VerifyMode) -> Result<Report> {
        if let Some(index) = entity.get(INDEX).and_then(|name| name.as_str()) {
            return match E::INDEXES.iter().find(|definition| definition.name == index) {
                Some(definition) => self.look_at_entry(&entity, definition, mode).await,
                None => Ok(Report::default()),
            };
        }
        if let Some(EdmRef::Guid(attempt)) = entity.original().get(crate::write::PENDING) {
            if mode == VerifyMode::Repair && self.is_abandoned(&entity)? {
                self.release_attempt(entity.stored_key(), attempt, self.reserved_by(&entity)).await?;
            }
            return Ok(Report { pending: 1, ..Report::default() });
        }
        let Some(stored) = self.primary(&entity)? else { return Ok(Report::default()) };
        let mut report = Report { entities: 1, ..Report::default() };
        for definition in E::INDEXES {
            let Some(key) = (definition.key)(&stored)? else { continue };
            let found = self.table_of(definition).fetch(&key.checked()?).await?;
            let one = match found {
                None => Report { missing: 1, ..Report::default() },
                Some(raw) if definition.reserves() => {
                    let (owner, attempt) = Self::reservation_owner(raw);
                    let is_held =
                        owner == *stored.stored_key() && attempt == Self::held_attempt(&stored, definition);
                    Report { missing: u64::from(!is_held), ..Report::default() }
                }
                Some(_) => {
                    let stale = self.is_stale(definition, &key, &stored).await?;
                    Report { stale: u64::from(stale), ..Report::default() }
                }
            };
            if mode == VerifyMode::Repair && !one.is_clean() {
                self.write_entry(definition, &stored, &key).await?;
            }
            report.add(one);
        }
        Ok(report)
    }

    /// The entity, if it is one of this type under its own key.
    fn primary(&self, entity: &Stored<DynamicEntity>) -> Result<Option<Stored<E>>> {
        if entity.get(INDEX).is_some() || entity.get(crate::write::PENDING).is_some() {
            return Ok(None);
        }
        match E::read(&entity.original()) {
            Ok(value) if value.key().is_ok_and(|key| key == *entity.stored_key()) => {
                Ok(Some(entity.clone().map(|_| value)))
            }
            _ => Ok(None),
        }
    }

    async fn is_stale(
        &self,
        definition: &Definition<E>,
        key: &EntityKey,
        stored: &Stored<E>,
    ) -> Result<bool> {
        let wanted = copy_properties(&stored.value, definition.name)?;
        let Some(raw) = self.table_of(definition).fetch(&key.checked()?).await? else { return Ok(true) };
        let equal = |(name, value): (&str, EdmRef<'_>)| {
            raw.properties.get(name).is_some_and(|found| same(found, value))
        };
        let all = wanted.iter().all(|property| equal((property.name, property.value)));
        Ok(!(all && wanted.len() == raw.properties.len()))
    }

    async fn write_entry(
        &self,
        definition: &'static Definition<E>,
        stored: &Stored<E>,
        key: &EntityKey,
    ) -> Result<()> {
        if definition.reserves() {
            return self.reserve_existing(stored, definition, key).await;
        }
        if definition.location == Location::SamePartition {
            let copy = copy_properties(&stored.value, definition.name)?;
            let change = crate::write::Change::InsertOrReplace(copy);
            // The entity's own tag is part of it, so that the copy is of what is there.
            let touch = crate::write::Change::Merge(
                tavola_model::Properties::empty(),
                crate::write::Condition::Etag(stored.etag.clone()),
            );
            let txn = self.table.transaction(stored.stored_key().partition.clone());
            return match txn.add(stored.stored_key(), touch)?.add(key, change)?.commit().await {
                // Whoever changed it wrote the copy.
                Err(Error::Transaction { index: 0, .. }) => Ok(()),
                told => told.map(|_| ()),
            };
        }
        self.repair(stored.stored_key(), [Target { of: definition.name.to_owned(), key: key.clone() }].into())
            .await
    }

    async fn look_at_entry(
        &self,
        entry: &Stored<DynamicEntity>,
        definition: &'static Definition<E>,
        mode: VerifyMode,
    ) -> Result<Report> {
        if definition.reserves() {
            return self.look_at_reservation(entry, definition, mode).await;
        }
        let source = entry.original().with_parts(KeyParts::AsProperties);
        let key = entry.stored_key();
        let owner = E::read(&source).map(|copy| copy.key());
        let is_wanted = match &owner {
            Ok(Ok(owner)) => {
                let entity = self.table.get::<E>(owner, None).await?;
                entity.map(|entity| (definition.key)(&entity)).transpose()?.flatten().as_ref() == Some(key)
            }
            _ => false,
        };
        if is_wanted {
            return Ok(Report::default());
        }
        if mode == VerifyMode::Repair {
            match (&owner, definition.location) {
                (Ok(Ok(owner)), Location::Partition | Location::Table(_)) => {
                    self.repair(owner, [Target { of: definition.name.to_owned(), key: key.clone() }].into())
                        .await?;
                }
                _ => match self.table_of(definition).delete(entry, None).await {
                    Ok(()) | Err(Error::Changed | Error::NotFound) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(Report { orphans: 1, ..Report::default() })
    }

    async fn look_at_reservation(
        &self,
        entry: &Stored<DynamicEntity>,
        definition: &'static Definition<E>,
        mode: VerifyMode,
    ) -> Result<Report> {
        let text = |name| entry.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        let owner = EntityKey { partition: text("_OwnerPartition"), row: text("_OwnerRow") };
        let attempt = match entry.original().get("_Attempt") {
            Some(EdmRef::Guid(attempt)) => Some(attempt),
            _ => None,
        };
        let found = self.table.get::<E>(&owner, None).await?;
        let holds =
            |stored: &Stored<E>| attempt.is_some() && Self::held_attempt(stored, definition) == attempt;
        if found.as_ref().is_some_and(holds) {
            return Ok(Report::default());
        }
        if let (VerifyMode::Repair, Some(attempt)) = (mode, attempt)
            && self.is_abandoned(entry)?
        {
            self.release_attempt(&owner, attempt, vec![(definition, entry.stored_key().clone())]).await?;
        }
        Ok(Report { orphans: 1, ..Report::default() })
    }

    /// Whether a reservation or a pending entity is so old that its own writer has given up: what is younger may be that
    /// of a write on its way, whose intent settles it.
    fn is_abandoned(&self, entry: &Stored<DynamicEntity>) -> Result<bool> {
        let lease = u64::try_from(self.intents()?.lease().as_nanos() / 100).unwrap_or(u64::MAX);
        let written = entry.timestamp.map_or(u64::MAX, |timestamp| timestamp.ticks());
        Ok(written.saturating_add(lease) < now().ticks())
    }

    /// Where a pending entity may have reserved its values.
    fn reserved_by(&self, pending: &Stored<DynamicEntity>) -> Vec<(&'static Definition<E>, EntityKey)> {
        let Ok(value) = E::read(&pending.original()) else { return Vec::new() };
        let reserving = E::INDEXES.iter().filter(|definition| definition.reserves());
        let keys = reserving.filter_map(|definition| Some((definition, (definition.key)(&value).ok()??)));
        keys.collect()
    }
}
