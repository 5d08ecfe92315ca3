//! Wide entities: one value in several entities of a partition, written and read as one.
//!
//! An entity has at most 252 properties, 64 KiB a property and 1 MiB in all. A wide one is split at these limits into
//! the parts `row`, `row~01`, `row~02`, … and written by one transaction, so all parts change together. Each part holds
//! the id of its write; a reader that meets parts of two writes reads again, and never joins them.
//!
//! Atomic: the whole. Eventual: nothing. After a crash: nothing to do. Requests: insert and save 1, put 2, get 1 for
//! one part and 2 for more. Refused: more than 100 parts or 4 MiB, which belong into a blob.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use tavola_model::{ENTITY_BYTES_MAX, ENTITY_PROPERTIES_MAX, PROPERTY_VALUE_BYTES_MAX};

use crate::dynamic::DynamicEntity;
use crate::edm::{EdmRef, EdmValue, Guid};
use crate::entities::{CHANGED_TRIES_MAX, pause};
use crate::entity::{KeyParts, Readable, Stored, Writable};
use crate::error::{Error, Result};
use crate::key::EntityKey;
use crate::scope::In;
use crate::table::TableClient;
use crate::transaction::Transaction;
use crate::values::Values;
use crate::write::{Change, Condition, fresh_guid};

/// The id of the write, in every part.
const WRITE: &str = "WideWrite";
/// How many parts there are, in the first.
const PARTS: &str = "WideParts";
/// Which values are cut, in the first: `{"Text":3}`.
const CUT: &str = "WideCut";
/// A transaction has so many operations.
const PARTS_MAX: usize = 100;
/// Times that a reader may meet parts of two writes.
const READS_MAX: u32 = 3;
/// Left free in each part: own properties, keys, and what the size formula counts for them.
const PART_BYTES_MAX: usize = ENTITY_BYTES_MAX - 16 * 1024;
const PART_PROPERTIES_MAX: usize = ENTITY_PROPERTIES_MAX - 4;

const TOO_LARGE: Error =
    Error::Limit("a wide entity has at most 100 parts and 4 MiB: keep the large values in blobs");

/// A wide entity as it was read or written.
///
/// ```no_run
/// # use tavola_client::{DynamicEntity, TableClient};
/// # async fn example(table: TableClient) -> tavola_client::Result<()> {
/// if let Some(mut year) = table.get_wide::<DynamicEntity>(("Sales", "000123_2026")).await? {
///     year.put("Day200", 7);
///     table.save_wide(&mut year).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Wide<T> {
    /// The entity.
    pub value: T,
    /// The tag of its first part, which every write changes.
    pub etag: String,
    /// In how many parts it is stored.
    pub parts: usize,
}

impl<T> Deref for Wide<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Wide<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl TableClient {
    /// Inserts a wide entity: one request. `Taken` if its key is in use.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let text = "long ".repeat(100_000);
    /// let wide = tavola_client::DynamicEntity::new(("Sales", "notes")).with("Text", text);
    /// table.insert_wide(&wide).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert_wide<E: Writable>(&self, entity: &E) -> Result<()> {
        self.write_wide(entity, None).await.map(|_| ())
    }

    /// Writes a wide entity, whatever was there: two requests, and two more for each writer who came between.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let wide = tavola_client::DynamicEntity::new(("Sales", "notes")).with("Text", "x".repeat(1_000_000));
    /// table.put_wide(&wide).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_wide<E: Writable>(&self, entity: &E) -> Result<()> {
        let key = entity.key()?;
        for attempt in 1..=CHANGED_TRIES_MAX {
            let head: Option<Stored<DynamicEntity>> = self.get(&key, None).await?;
            let before = head.map(|head| (head.etag.clone(), parts_of(&head)));
            match self.write_wide(entity, before).await {
                Err(Error::Changed | Error::Taken { .. }) => pause(attempt).await,
                written => return written.map(|_| ()),
            }
        }
        Err(Error::Changed)
    }

    /// Writes a wide entity that was read, on the condition that nobody changed it since: one request.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, TableClient, patterns::wide::Wide};
    /// # async fn example(table: TableClient, mut year: Wide<DynamicEntity>) -> tavola_client::Result<()> {
    /// year.put("Day201", 9);
    /// table.save_wide(&mut year).await
    /// # }
    /// ```
    pub async fn save_wide<E: Writable>(&self, wide: &mut Wide<E>) -> Result<()> {
        let before = Some((wide.etag.clone(), wide.parts));
        (wide.etag, wide.parts) = self.write_wide(&wide.value, before).await?;
        Ok(())
    }

    /// Reads a wide entity: a point read, and a range read only where there are more parts.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, TableClient};
    /// # async fn example(table: TableClient) -> tavola_client::Result<()> {
    /// let notes = table.get_wide::<DynamicEntity>(("Sales", "notes")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_wide<R: Readable>(&self, key: impl Into<EntityKey>) -> Result<Option<Wide<R>>> {
        let key = key.into();
        for _ in 0..READS_MAX {
            let Some(head) = self.get::<DynamicEntity>(&key, None).await? else { return Ok(None) };
            let (etag, parts) = (head.etag.clone(), parts_of(&head));
            let mut rest = Vec::new();
            if parts > 1 {
                let (first, last) = (part_row(&key.row, 1), part_row(&key.row, parts - 1));
                let scope = In::partition(&key.partition).rows(first.as_str()..=last.as_str());
                rest = self.query::<DynamicEntity>(scope).collect().await?;
            }
            let rest = rest.into_iter().map(|part| part.value);
            if let Some(whole) = join(head.value, rest, parts)? {
                return Ok(Some(Wide { value: R::read(&whole.as_source())?, etag, parts }));
            }
        }
        Err(Error::Changed)
    }

    /// Deletes a wide entity, if it is there: two requests.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let was_there = table.delete_wide(("Sales", "notes")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_wide(&self, key: impl Into<EntityKey>) -> Result<bool> {
        let key = key.into();
        for attempt in 1..=CHANGED_TRIES_MAX {
            let Some(head) = self.get::<DynamicEntity>(&key, None).await? else { return Ok(false) };
            let parts = parts_of(&head);
            let mut transaction = self.transaction(&key.partition).delete(&head)?;
            for part in 1..parts {
                transaction =
                    transaction.delete_if_there((key.partition.as_str(), part_row(&key.row, part)))?;
            }
            match transaction.commit().await {
                Ok(_) => return Ok(true),
                Err(error) => match outcome_of(error) {
                    Error::Changed | Error::NotFound => pause(attempt).await,
                    error => return Err(error),
                },
            }
        }
        Err(Error::Changed)
    }

    /// Writes all parts and removes those that are no more; gives the tag of the first and the number of parts.
    async fn write_wide<E: Writable>(
        &self,
        entity: &E,
        before: Option<(String, usize)>,
    ) -> Result<(String, usize)> {
        let mut values = Values::new();
        entity.write(KeyParts::InKey, &mut values)?;
        let key = entity.key()?;
        let parts = split(&values, fresh_guid())?;
        let count = parts.len();
        let old_count = before.as_ref().map_or(0, |(_, parts)| *parts);
        let mut transaction: Transaction = self.transaction(&key.partition);
        for (number, part) in parts.into_iter().enumerate() {
            let properties = part.pack()?;
            let change = match (&before, number) {
                (Some((etag, _)), 0) => Change::Replace(properties, Condition::Etag(etag.clone())),
                (None, 0) => Change::Insert(properties),
                // Nobody but the writer of the first part writes the others.
                _ => Change::InsertOrReplace(properties),
            };
            let part_key = EntityKey { partition: key.partition.clone(), row: part_row(&key.row, number) };
            transaction = transaction.add(&part_key, change).map_err(|error| match error {
                Error::Transaction { .. } => TOO_LARGE,
                error => error,
            })?;
        }
        for number in count..old_count {
            transaction =
                transaction.delete_if_there((key.partition.as_str(), part_row(&key.row, number)))?;
        }
        let committed = transaction.commit().await.map_err(outcome_of)?;
        let etag = committed.etags.into_iter().next().flatten().unwrap_or_default();
        Ok((etag, count))
    }
}

/// What happened to the operation that was refused.
fn outcome_of(error: Error) -> Error {
    match error {
        Error::Transaction { cause, .. } => match *cause {
            outcome @ (Error::Changed | Error::Taken { .. } | Error::NotFound) => outcome,
            cause => cause,
        },
        error => error,
    }
}

fn part_row(row: &str, number: usize) -> String {
    if number == 0 { row.to_owned() } else { format!("{row}~{number:02}") }
}

/// How many parts an entity says it has; one that was not written wide has one.
fn parts_of(head: &DynamicEntity) -> usize {
    let parts = head.get(PARTS).and_then(EdmValue::as_i64).and_then(|parts| usize::try_from(parts).ok());
    parts.unwrap_or(1).clamp(1, PARTS_MAX)
}

/// Splits properties into parts, each within the limits of an entity.
fn split(values: &Values<'_>, write: Guid) -> Result<Vec<Values<'static>>> {
    let mut cut: BTreeMap<String, usize> = BTreeMap::new();
    let mut pieces: Vec<(String, EdmValue)> = Vec::new();
    for (name, value) in values.named() {
        let chunks = cut_value(value);
        if chunks.len() > 1 {
            cut.insert(name.to_owned(), chunks.len());
            for (number, chunk) in chunks.into_iter().enumerate() {
                pieces.push((chunk_name(name, number), chunk));
            }
        } else {
            pieces.push((name.to_owned(), value.into()));
        }
    }
    let mut lists: Vec<Vec<(String, EdmValue)>> = vec![Vec::new()];
    let mut bytes = 0;
    for (name, value) in pieces {
        let size = 8 + 2 * name.encode_utf16().count() + value.borrow().counted_bytes();
        let list = lists.last().expect("there is one from the start");
        if list.len() == PART_PROPERTIES_MAX || (bytes + size > PART_BYTES_MAX && !list.is_empty()) {
            lists.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        lists.last_mut().expect("there is one from the start").push((name, value));
    }
    if lists.len() > PARTS_MAX {
        return Err(TOO_LARGE);
    }
    let count = i32::try_from(lists.len()).expect("at most 100");
    lists[0].push((PARTS.to_owned(), count.into()));
    if !cut.is_empty() {
        let text = serde_json::to_string(&cut).map_err(|error| Error::Invalid(error.to_string()))?;
        lists[0].push((CUT.to_owned(), text.into()));
    }
    for list in &mut lists {
        list.push((WRITE.to_owned(), write.into()));
    }
    Ok(lists.into_iter().map(|list| list.into_iter().collect()).collect())
}

/// The value in chunks that fit a property each; one if it fits as it is.
fn cut_value(value: EdmRef<'_>) -> Vec<EdmValue> {
    match value {
        EdmRef::Binary(bytes) if bytes.len() > PROPERTY_VALUE_BYTES_MAX => {
            bytes.chunks(PROPERTY_VALUE_BYTES_MAX).map(|chunk| EdmValue::Binary(chunk.to_vec())).collect()
        }
        EdmRef::String(text) if text.len() * 2 > PROPERTY_VALUE_BYTES_MAX => {
            let units_max = PROPERTY_VALUE_BYTES_MAX / 2;
            let (mut chunks, mut start, mut units) = (Vec::new(), 0, 0);
            for (at, character) in text.char_indices() {
                if units + character.len_utf16() > units_max {
                    chunks.push(EdmValue::from(&text[start..at]));
                    (start, units) = (at, 0);
                }
                units += character.len_utf16();
            }
            chunks.push(EdmValue::from(&text[start..]));
            chunks
        }
        value => vec![value.into()],
    }
}

fn chunk_name(name: &str, number: usize) -> String {
    format!("{name}__{number:02}")
}

/// Joins parts; `None` if they are not all of one write.
fn join(
    head: DynamicEntity,
    rest: impl Iterator<Item = DynamicEntity>,
    parts: usize,
) -> Result<Option<DynamicEntity>> {
    let DynamicEntity { key, mut properties } = head;
    let write = properties.remove(WRITE);
    properties.remove(PARTS);
    let cut = properties.remove(CUT);
    let mut joined = 1;
    for part in rest {
        // Only own parts count: another entity may stand between them.
        if !(1..parts).any(|number| part.key.row == part_row(&key.row, number)) {
            continue;
        }
        if part.get(WRITE) != write.as_ref() {
            return Ok(None);
        }
        joined += 1;
        properties.extend(part.properties.into_iter().filter(|(name, _)| name != WRITE));
    }
    if joined != parts {
        return Ok(None);
    }
    let unreadable = || Error::Unreadable("a wide entity lacks a part of a value".into());
    if let Some(EdmValue::String(text)) = cut {
        let cut: BTreeMap<String, usize> = serde_json::from_str(&text).map_err(|_| unreadable())?;
        for (name, count) in cut {
            let chunks = (0..count).map(|number| properties.remove(&chunk_name(&name, number)));
            let value = chunks.collect::<Option<Vec<_>>>().and_then(join_chunks).ok_or_else(unreadable)?;
            properties.insert(name, value);
        }
    }
    Ok(Some(DynamicEntity { key, properties }))
}

fn join_chunks(chunks: Vec<EdmValue>) -> Option<EdmValue> {
    let mut chunks = chunks.into_iter();
    let mut whole = chunks.next()?;
    for chunk in chunks {
        match (&mut whole, chunk) {
            (EdmValue::String(whole), EdmValue::String(chunk)) => whole.push_str(&chunk),
            (EdmValue::Binary(whole), EdmValue::Binary(chunk)) => whole.extend_from_slice(&chunk),
            _ => return None,
        }
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts_as_entities(parts: Vec<Values<'static>>) -> Vec<DynamicEntity> {
        let key = |number| EntityKey::from(("p", part_row("r", number)));
        parts.iter().enumerate().map(|(number, part)| DynamicEntity::from_values(key(number), part)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn what_is_split_is_joined_to_the_same(
            small in prop::collection::btree_map("[A-Z][a-z]{1,8}", any::<i64>(), 0..40),
            count in 0usize..700, text_len in 0usize..400_000, bytes_len in 0usize..300_000, wide_character: bool,
        ) {
            let mut whole = DynamicEntity::new(("p", "r"));
            small.into_iter().for_each(|(name, value)| whole.put(&name, value));
            (0..count).for_each(|number| whole.put(&format!("N{number:04}"), 1));
            whole.put("Text_", if wide_character { "\u{1F600}".repeat(text_len / 2) } else { "é".repeat(text_len) });
            whole.put("Bytes_", vec![7u8; bytes_len]);
            let mut values = Values::new();
            whole.write(KeyParts::InKey, &mut values).unwrap();
            let parts = split(&values, Guid([1; 16])).unwrap();
            for part in &parts {
                let key = EntityKey::from(("p", "r")).checked().unwrap();
                let packed = part.pack().unwrap();
                prop_assert!(packed.entity_bytes(&key) <= ENTITY_BYTES_MAX && packed.len() <= ENTITY_PROPERTIES_MAX);
            }
            let mut entities = parts_as_entities(parts).into_iter();
            let head = entities.next().unwrap();
            let count = parts_of(&head);
            prop_assert_eq!(entities.len() + 1, count);
            prop_assert_eq!(join(head, entities, count).unwrap(), Some(whole));
        }
    }

    #[test]
    fn parts_of_two_writes_and_missing_parts_are_never_joined() {
        let whole = |write| {
            let values: Values<'static> =
                (0..600).map(|number| (format!("N{number}"), EdmValue::from(1))).collect();
            parts_as_entities(split(&values, Guid([write; 16])).unwrap())
        };
        let (old, new) = (whole(1), whole(2));
        assert_eq!(old.len(), 3);
        let mixed = [old[1].clone(), new[2].clone()];
        assert_eq!(join(old[0].clone(), mixed.into_iter(), 3).unwrap(), None);
        assert_eq!(join(old[0].clone(), old[1..2].iter().cloned(), 3).unwrap(), None);
        assert!(join(old[0].clone(), old[1..].iter().cloned(), 3).unwrap().is_some());
    }

    #[test]
    fn an_entity_that_was_not_written_wide_reads_as_it_is() {
        let plain = DynamicEntity::new(("p", "r")).with("A", 1);
        assert_eq!(parts_of(&plain), 1);
        assert_eq!(join(plain.clone(), std::iter::empty(), 1).unwrap(), Some(plain));
    }

    #[test]
    fn more_than_a_hundred_parts_are_refused() {
        let values: Values<'static> =
            (0..24_801).map(|number| (format!("N{number}"), EdmValue::from(1))).collect();
        assert!(matches!(split(&values, Guid([1; 16])), Err(Error::Limit(_))));
    }
}
