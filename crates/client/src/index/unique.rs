//! Uniqueness over partitions: reservations.
//!
//! The entry of a unique index elsewhere is a reservation: it names its owner and the attempt that made it, and nobody
//! ever overwrites another's. The entity holds, for each such index, the id of the attempt whose reservation it has.
//! Order of a write: intent, entity *pending* (or read), reservation, entity activated under its tag.
//!
//! Two rules make it safe. The *fence*: before a reservation of an attempt that came to nothing is taken back, the entity
//! is touched (or removed, if pending), so that the attempt's own write fails if it was only slow. And reservations are
//! read before the entity, never after it.

use serde::{Deserialize, Serialize};
use tavola_model::{Guid, Properties, PropertiesBuilder};

use crate::edm::EdmRef;
use crate::entity::Stored;
use crate::error::{Error, Result};
use crate::index::plan::Plan;
use crate::index::table::{EntityWrite, IndexedTable, entity_properties};
use crate::index::{Definition, INDEX, Indexed};
use crate::key::EntityKey;
use crate::queue::Lease;
use crate::raw::RawEntity;
use crate::table::TableClient;
use crate::write::{Change, Condition, PENDING, Write, fresh_guid};

/// Properties of a reservation.
const ATTEMPT: &str = "_Attempt";
const OWNER_PARTITION: &str = "_OwnerPartition";
const OWNER_ROW: &str = "_OwnerRow";

/// What a unique write may leave behind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reservations {
    /// The id of the attempt.
    attempt: String,
    /// The tag of the entity before the write; none for an insert.
    etag: Option<String>,
    moves: Vec<Move>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Move {
    index: String,
    /// The reservation that is given back: its key and its attempt.
    old: Option<(EntityKey, String)>,
    /// The one that is made.
    new: Option<EntityKey>,
}

/// The property of an entity that holds the attempt of its reservation.
fn stamp_name(index: &str) -> String {
    format!("_Reserved_{index}")
}

impl Reservations {
    /// What a plan reserves and gives back; `None` if nothing.
    pub(crate) fn of<E>(
        plan: &Plan,
        before: Option<&Stored<E>>,
        definitions: &[Definition<E>],
    ) -> Result<Option<Self>> {
        if plan.moved.is_empty() {
            return Ok(None);
        }
        let moves = plan.moved.iter().map(|(index, old, new)| {
            let index = definitions[*index].name;
            let attempt = before.and_then(|stored| match stored.original().get(&stamp_name(index)) {
                Some(EdmRef::Guid(attempt)) => Some(attempt.to_string()),
                _ => None,
            });
            // An entity from before the index was declared has a value and no reservation.
            let old = old.clone().zip(attempt);
            Move { index: index.to_owned(), old, new: new.clone() }
        });
        Ok(Some(Self {
            attempt: fresh_guid().to_string(),
            etag: before.map(|stored| stored.etag.clone()),
            moves: moves.collect(),
        }))
    }

    fn guid(&self) -> Guid {
        Guid::parse(&self.attempt).unwrap_or(Guid([0; 16]))
    }

    /// What the entity holds after the write. A value that went away leaves an attempt without a reservation, which
    /// says as well that the old one is no longer held.
    pub(crate) fn stamps(&self) -> Vec<(String, Guid)> {
        self.moves.iter().map(|one| (stamp_name(&one.index), self.guid())).collect()
    }
}

/// A reservation as it was read.
struct Entry {
    etag: String,
    attempt: Option<Guid>,
    owner: EntityKey,
}

impl Entry {
    fn read(raw: RawEntity) -> Self {
        let text = |name| match raw.properties.get(name) {
            Some(EdmRef::String(text)) => text.to_owned(),
            _ => String::new(),
        };
        let attempt = match raw.properties.get(ATTEMPT) {
            Some(EdmRef::Guid(attempt)) => Some(attempt),
            _ => None,
        };
        let owner = EntityKey { partition: text(OWNER_PARTITION), row: text(OWNER_ROW) };
        Self { etag: raw.etag, attempt, owner }
    }
}

impl<E: Indexed> IndexedTable<E> {
    /// Makes the reservations, behind a pending entity if there is none yet. Gives the tag of the pending entity.
    pub(super) async fn reserve(
        &self,
        write: &EntityWrite<'_, E>,
        reservations: &Reservations,
        owner: &EntityKey,
        lease: &Lease,
    ) -> Result<Option<String>> {
        let mut pending = None;
        let takes = reservations.moves.iter().any(|one| one.new.is_some());
        if let (None, Some(after), true) = (write.before, write.after, takes) {
            let mut stamps = reservations.stamps();
            stamps.push((PENDING.to_owned(), reservations.guid()));
            let properties = entity_properties(after, &stamps)?;
            let insert = Write::new(owner.checked()?, Change::Insert(properties));
            let written = self.table.apply(insert, Some(&self.rules.within(lease)?)).await?;
            pending = Some(written.etag.unwrap_or_default());
        }
        for one in &reservations.moves {
            let Some(key) = &one.new else { continue };
            let definition = self.definition(&one.index)?;
            let entry = reservation(owner, reservations.guid(), definition.name)?;
            let insert = Write::new(key.checked()?, Change::Insert(entry));
            match self.table_of(definition).apply(insert, Some(&self.rules.within(lease)?)).await {
                Err(Error::Taken { .. }) => return Err(Error::Taken { index: Some(definition.name) }),
                told => told.map(|_| ())?,
            }
        }
        Ok(pending)
    }

    /// After a write that took effect: gives the old reservations back. Nobody holds them any more, because the entity
    /// holds another attempt's.
    pub(super) async fn release_old(&self, reservations: &Reservations, lease: &Lease) -> Result<()> {
        for one in &reservations.moves {
            let Some((key, attempt)) = &one.old else { continue };
            let definition = self.definition(&one.index)?;
            let entry = self.entry_of(definition, key, attempt).await?;
            self.release(definition, key, entry, lease).await?;
        }
        Ok(())
    }

    /// Gives back whatever reservations of this write are not held by the entity.
    pub(super) async fn settle_reservations(
        &self,
        reservations: &Reservations,
        owner: &EntityKey,
        lease: &Lease,
    ) -> Result<()> {
        let attempt = Some(EdmRef::Guid(reservations.guid()));
        loop {
            // Reservations first, the entity after them: a reservation that is there was made by a writer whose entity
            // was there before it.
            let mut entries = Vec::new();
            for one in &reservations.moves {
                let definition = self.definition(&one.index)?;
                let new = match &one.new {
                    Some(key) => {
                        self.entry_of(definition, key, &reservations.attempt).await?.map(|entry| (key, entry))
                    }
                    None => None,
                };
                let old = match &one.old {
                    Some((key, attempt)) => {
                        self.entry_of(definition, key, attempt).await?.map(|entry| (key, entry))
                    }
                    None => None,
                };
                entries.push((one, definition, new, old));
            }
            let row = self.table.fetch(&owner.checked()?).await?;
            let held = |row: &RawEntity, index: &str| match row.properties.get(&stamp_name(index)) {
                Some(EdmRef::Guid(attempt)) => Some(attempt.to_string()),
                _ => None,
            };
            let is_pending = |row: &RawEntity| row.properties.get(PENDING).is_some();
            let took_effect = row.as_ref().is_some_and(|row| {
                let all = |one: &Move| held(row, &one.index).as_deref() == Some(&reservations.attempt);
                !is_pending(row) && reservations.moves.iter().any(all)
            });
            if !took_effect && let Some(row) = &row {
                let is_ours = row.properties.get(PENDING) == attempt;
                let is_as_read = reservations.etag.as_deref() == Some(row.etag.as_str()) && self.rules.fence;
                if is_ours || is_as_read {
                    if !self.rules.fence {
                        // The wrong order, which the model shows to be wrong.
                        for (_, definition, new, _) in &mut entries {
                            if let Some((key, entry)) = new.take() {
                                self.release(definition, key, Some(entry), lease).await?;
                            }
                        }
                    }
                    if !self.fence(row, is_ours, lease).await? {
                        continue;
                    }
                }
            }
            for (one, definition, new, old) in entries {
                let now = row.as_ref().filter(|row| !is_pending(row)).and_then(|row| held(row, &one.index));
                if let Some((key, entry)) = new
                    && now.as_deref() != Some(reservations.attempt.as_str())
                {
                    self.release(definition, key, Some(entry), lease).await?;
                }
                if let (Some((key, entry)), Some((_, attempt))) = (old, &one.old)
                    && now.as_deref() != Some(attempt.as_str())
                {
                    self.release(definition, key, Some(entry), lease).await?;
                }
            }
            return Ok(());
        }
    }

    /// Makes the write of a slow attempt fail. Gives whether the entity was still as it was read.
    async fn fence(&self, row: &RawEntity, is_pending: bool, lease: &Lease) -> Result<bool> {
        let condition = Condition::Etag(row.etag.clone());
        let change = if is_pending {
            Change::Delete(condition)
        } else {
            Change::Merge(Properties::empty(), condition)
        };
        match self.table.apply(Write::new(row.key.clone(), change), Some(&self.rules.within(lease)?)).await {
            Ok(_) => Ok(true),
            Err(Error::Changed | Error::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The reservation at a key, if this attempt made it.
    async fn entry_of(
        &self,
        definition: &Definition<E>,
        key: &EntityKey,
        attempt: &str,
    ) -> Result<Option<Entry>> {
        let found = self.table_of(definition).fetch(&key.checked()?).await?.map(Entry::read);
        Ok(found.filter(|entry| entry.attempt.is_some_and(|found| found.to_string() == attempt)))
    }

    async fn release(
        &self,
        definition: &Definition<E>,
        key: &EntityKey,
        entry: Option<Entry>,
        lease: &Lease,
    ) -> Result<()> {
        let Some(entry) = entry else { return Ok(()) };
        let delete = Write::new(key.checked()?, Change::Delete(Condition::Etag(entry.etag)));
        match self.table_of(definition).apply(delete, Some(&self.rules.within(lease)?)).await {
            Ok(_) | Err(Error::Changed | Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Follows a reservation to its entity.
    pub(super) async fn find_reserved(
        &self,
        table: &TableClient,
        definition: &Definition<E>,
        key: &EntityKey,
    ) -> Result<Option<Stored<E>>> {
        let Some(raw) = table.fetch(&key.checked()?).await? else { return Ok(None) };
        let entry = Entry::read(raw);
        let found = self.table.get::<E>(entry.owner, None).await?;
        let holds = |stored: &Stored<E>| {
            let stamp = stored.original().get(&stamp_name(definition.name));
            stamp.is_some() && stamp == entry.attempt.map(EdmRef::Guid)
        };
        Ok(found.filter(holds))
    }

    /// What `verify` asks: is this reservation held by an entity? Gives the owner if not.
    pub(super) fn reservation_owner(raw: RawEntity) -> (EntityKey, Option<Guid>) {
        let entry = Entry::read(raw);
        (entry.owner, entry.attempt)
    }

    /// The reservation that an entity says it has.
    pub(super) fn held_attempt(stored: &Stored<E>, definition: &Definition<E>) -> Option<Guid> {
        match stored.original().get(&stamp_name(definition.name)) {
            Some(EdmRef::Guid(attempt)) => Some(attempt),
            _ => None,
        }
    }

    /// Reserves the value of an entity that has none, from before its index was declared.
    pub(super) async fn reserve_existing(
        &self,
        stored: &Stored<E>,
        definition: &'static Definition<E>,
        key: &EntityKey,
    ) -> Result<()> {
        let reservations = Reservations {
            attempt: fresh_guid().to_string(),
            etag: Some(stored.etag.clone()),
            moves: vec![Move { index: definition.name.to_owned(), old: None, new: Some(key.clone()) }],
        };
        let owner = stored.value.key()?;
        self.reserve_and_stamp(stored, &owner, reservations).await
    }

    /// Gives back the reservations of an attempt that nobody finishes, as its own intent would: the entity is fenced
    /// first, so an attempt that was only slow fails.
    pub(super) async fn release_attempt(
        &self,
        owner: &EntityKey,
        attempt: Guid,
        reserved: Vec<(&'static Definition<E>, EntityKey)>,
    ) -> Result<()> {
        let row = self.table.fetch(&owner.checked()?).await?;
        let moves = reserved.into_iter().map(|(definition, key)| Move {
            index: definition.name.to_owned(),
            old: None,
            new: Some(key),
        });
        let reservations = Reservations {
            attempt: attempt.to_string(),
            etag: row.map(|row| row.etag),
            moves: moves.collect(),
        };
        let mut intent = crate::index::table::IndexIntent {
            owner: owner.clone(),
            targets: Default::default(),
            unique: Some(reservations),
        };
        let lease = self.put_intent(&intent).await?;
        self.finish(&mut intent, &lease, None).await
    }

    async fn reserve_and_stamp(
        &self,
        stored: &Stored<E>,
        owner: &EntityKey,
        reservations: Reservations,
    ) -> Result<()> {
        let intent = crate::index::table::IndexIntent {
            owner: owner.clone(),
            targets: Default::default(),
            unique: Some(reservations.clone()),
        };
        let lease = self.put_intent(&intent).await?;
        let write = EntityWrite {
            before: Some(stored),
            after: Some(&stored.value),
            save: None,
            plan: Plan::default(),
        };
        let reserved = self.reserve(&write, &reservations, owner, &lease).await;
        let stamped = match reserved {
            Ok(_) => {
                let mut builder = PropertiesBuilder::new();
                for (name, stamp) in reservations.stamps() {
                    builder.push(&name, EdmRef::Guid(stamp))?;
                }
                let change = Change::Merge(builder.finish(), Condition::Etag(stored.etag.clone()));
                self.table
                    .apply(Write::new(owner.checked()?, change), Some(&self.rules.within(&lease)?))
                    .await
                    .map(|_| ())
            }
            Err(error) => Err(error),
        };
        self.settle_reservations(&reservations, owner, &lease).await?;
        // What fails here, a worker finds.
        let _ = lease.delete().await;
        stamped
    }
}

fn reservation(owner: &EntityKey, attempt: Guid, index: &str) -> Result<Properties> {
    let mut builder = PropertiesBuilder::new();
    builder.push(INDEX, EdmRef::String(index))?;
    builder.push(ATTEMPT, EdmRef::Guid(attempt))?;
    builder.push(OWNER_PARTITION, EdmRef::String(&owner.partition))?;
    builder.push(OWNER_ROW, EdmRef::String(&owner.row))?;
    Ok(builder.finish())
}
