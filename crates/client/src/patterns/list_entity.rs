//! Lists of keys in entities: one entity while it holds the whole list, several parts once the list outgrows it.
//!
//! The members of a list are ordered by their keys. A list that outgrew its entity has a directory in its place, which
//! says from which member on each part holds them. A part is split, or removed once it is empty, in one transaction with
//! the directory; any other change touches the one part alone. Rule: a part knows how often it was split, and the
//! directory knows it too, so whoever read the directory before a split and the part after it reads again.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tavola_model::{PROPERTY_VALUE_BYTES_MAX, Properties, PropertiesBuilder};

use crate::dynamic::DynamicEntity;
use crate::edm::EdmRef;
use crate::entities::{CHANGED_TRIES_MAX, pause};
use crate::entity::Stored;
use crate::error::{Error, Result};
use crate::key::EntityKey;
use crate::options::WriteOptions;
use crate::table::TableClient;
use crate::write::{Change, Condition, Write};

/// The properties of a list or of a part: `Keys00`, `Keys01`, …, each a JSON text.
const KEYS: &str = "Keys";
/// UTF-16 units of one property. Few in the tests of this file, so that lists have many parts.
const UNITS_MAX: usize = if cfg!(test) { 40 } else { PROPERTY_VALUE_BYTES_MAX / 2 - 64 };
/// How many of them an entity has: it has at most 1 MiB.
const KEYS_MAX: usize = if cfg!(test) { 2 } else { 15 };
/// UTF-16 units of a directory.
const DIRECTORY_UNITS_MAX: usize = PROPERTY_VALUE_BYTES_MAX / 2;
/// The directory of a list with parts, a JSON text.
const DIRECTORY: &str = "Directory";
/// How often a part was split.
const SPLITS: &str = "Splits";
/// Parts that are read at once.
const READS_MAX: usize = 32;

/// A list as it was read.
pub(super) struct List {
    pub(super) key: EntityKey,
    /// `None` if there is none.
    pub(super) etag: Option<String>,
    pub(super) members: BTreeSet<EntityKey>,
}

/// Where the members of a list are once it has parts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Directory {
    /// The number of the next part: none is used twice.
    next: u32,
    /// By their first members.
    parts: Vec<Part>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Part {
    /// It holds members from here to where the next one begins; the first one from the beginning.
    from: EntityKey,
    number: u32,
    splits: i32,
}

/// The entity that holds a member of a list, or would hold it.
pub(super) struct Leaf {
    list: EntityKey,
    /// The partition whose members are named by their row alone.
    partition: String,
    /// The directory with its tag, and which of its parts this is; `None` for a list in one entity.
    inside: Option<(Directory, String, usize)>,
    etag: Option<String>,
    members: BTreeSet<EntityKey>,
}

impl Leaf {
    /// Reads the entity that holds this member: one request, or two for a list with parts. `Changed` if it was split in
    /// between.
    pub(super) async fn read(
        table: &TableClient,
        list: EntityKey,
        partition: &str,
        member: &EntityKey,
    ) -> Result<Self> {
        let partition = partition.to_owned();
        let Some(head) = table.get::<DynamicEntity>(&list, None).await? else {
            return Ok(Self { list, partition, inside: None, etag: None, members: BTreeSet::new() });
        };
        let Some(directory) = directory_of(&head)? else {
            let members = members_of(&head, &partition)?;
            return Ok(Self { list, partition, inside: None, etag: Some(head.etag), members });
        };
        let after = directory.parts.partition_point(|part| part.from <= *member);
        let index = after.saturating_sub(1);
        let part = directory.parts.get(index).ok_or_else(damaged)?;
        let found = read_part(table, &list, part).await?;
        let members = members_of(&found, &partition)?;
        let inside = Some((directory, head.etag, index));
        Ok(Self { list, partition, inside, etag: Some(found.etag), members })
    }

    /// Makes an entity be a member, or not; false if it was so.
    pub(super) fn set(&mut self, member: &EntityKey, is_wanted: bool) -> bool {
        if is_wanted { self.members.insert(member.clone()) } else { self.members.remove(member) }
    }

    /// The writes that make the list so, to be made in one transaction: an entity without members goes away, one with
    /// too many is split.
    pub(super) fn changes(&self) -> Result<Vec<(EntityKey, Change)>> {
        if self.members.is_empty() {
            return self.removal();
        }
        let splits = self.inside.as_ref().and_then(|(directory, _, index)| directory.parts.get(*index));
        let splits = splits.map(|part| part.splits);
        let Some(properties) = pack(&self.members, &self.partition, splits)? else { return self.split() };
        let change = match self.etag.clone() {
            None => Change::Insert(properties),
            Some(etag) => Change::Replace(properties, Condition::Etag(etag)),
        };
        Ok(vec![(self.key(), change)])
    }

    /// The key of the entity itself.
    fn key(&self) -> EntityKey {
        let part = self.inside.as_ref().and_then(|(directory, _, index)| directory.parts.get(*index));
        part.map_or_else(|| self.list.clone(), |part| part_key(&self.list, part.number))
    }

    fn removal(&self) -> Result<Vec<(EntityKey, Change)>> {
        let Some(etag) = self.etag.clone() else { return Ok(Vec::new()) };
        let mut changes = vec![(self.key(), Change::Delete(Condition::Etag(etag)))];
        if let Some((directory, etag, index)) = &self.inside {
            let mut directory = directory.clone();
            directory.parts.remove(*index);
            let condition = Condition::Etag(etag.clone());
            changes.push((
                self.list.clone(),
                match directory.parts.first_mut() {
                    None => Change::Delete(condition),
                    Some(first) => {
                        first.from = EntityKey::default();
                        Change::Replace(directory.pack()?, condition)
                    }
                },
            ));
        }
        Ok(changes)
    }

    /// The lower half stays in a part, the upper half becomes one.
    fn split(&self) -> Result<Vec<(EntityKey, Change)>> {
        let middle = self.members.iter().nth(self.members.len() / 2).ok_or_else(damaged)?;
        let upper = self.members.range(middle.clone()..).cloned().collect::<BTreeSet<_>>();
        let lower = self.members.range(..middle.clone()).cloned().collect::<BTreeSet<_>>();
        let half = |members: &BTreeSet<EntityKey>, splits| {
            let packed = pack(members, &self.partition, Some(splits))?;
            packed.ok_or(Error::Limit("half of a list of keys is too large for an entity"))
        };
        let condition = |etag: &Option<String>| {
            let etag = etag.clone().ok_or(Error::Limit("a list of one key is too large for an entity"))?;
            Ok::<_, Error>(Condition::Etag(etag))
        };
        let mut changes = Vec::new();
        let (mut directory, head) = match &self.inside {
            None => {
                let first = Part { from: EntityKey::default(), number: 0, splits: 0 };
                changes.push((part_key(&self.list, 0), Change::Insert(half(&lower, 0)?)));
                (Directory { next: 1, parts: vec![first] }, condition(&self.etag)?)
            }
            Some((directory, etag, index)) => {
                let mut directory = directory.clone();
                let part = directory.parts.get_mut(*index).ok_or_else(damaged)?;
                part.splits += 1;
                let lower = half(&lower, part.splits)?;
                changes.push((self.key(), Change::Replace(lower, condition(&self.etag)?)));
                (directory, Condition::Etag(etag.clone()))
            }
        };
        let new = Part { from: middle.clone(), number: directory.next, splits: 0 };
        changes.push((part_key(&self.list, new.number), Change::Insert(half(&upper, 0)?)));
        let after = directory.parts.partition_point(|part| part.from <= *middle);
        directory.parts.insert(after, new);
        directory.next += 1;
        changes.push((self.list.clone(), Change::Replace(directory.pack()?, head)));
        Ok(changes)
    }
}

impl Directory {
    fn pack(&self) -> Result<Properties> {
        let text = serde_json::to_string(self).map_err(|error| Error::Step(error.to_string()))?;
        if text.encode_utf16().count() > DIRECTORY_UNITS_MAX {
            return Err(Error::Limit(
                "a list of keys has too many parts: use an index with one entity for each member",
            ));
        }
        let mut builder = PropertiesBuilder::new();
        builder.push(DIRECTORY, EdmRef::String(&text))?;
        Ok(builder.finish())
    }
}

/// Reads a whole list: one request, and one for each part.
pub(super) async fn read_list(table: &TableClient, key: EntityKey, partition: &str) -> Result<List> {
    for attempt in 1..=CHANGED_TRIES_MAX {
        let Some(head) = table.get::<DynamicEntity>(&key, None).await? else {
            return Ok(List { key, etag: None, members: BTreeSet::new() });
        };
        let Some(directory) = directory_of(&head)? else {
            let members = members_of(&head, partition)?;
            return Ok(List { key, etag: Some(head.etag), members });
        };
        let list = &key;
        let parts =
            stream::iter(directory.parts).map(|part| async move { read_part(table, list, &part).await });
        match parts.buffered(READS_MAX).try_collect::<Vec<_>>().await {
            Ok(parts) => {
                let members = parts.iter().map(|part| members_of(part, partition));
                let members = members.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
                return Ok(List { key, etag: Some(head.etag), members });
            }
            Err(Error::Changed) => pause(attempt).await,
            Err(error) => return Err(error),
        }
    }
    Err(Error::Changed)
}

/// Whether an entity is a list with this prefix, or a part of one.
pub(super) fn is_list(entity: &Stored<DynamicEntity>, prefix: &str) -> bool {
    let row = &entity.stored_key().row;
    let (is_head, is_part) =
        (row.starts_with(prefix), row.strip_prefix('~').is_some_and(|row| row.starts_with(prefix)));
    let has = |name: &str| entity.get(name).is_some();
    is_head && has(DIRECTORY) || (is_head || is_part) && has(&keys_name(0))
}

/// A list, or a part of it, that a scan found, under the key of the list.
pub(super) fn as_list(found: &Stored<DynamicEntity>, partition: &str) -> Result<List> {
    let mut key = found.stored_key().clone();
    if found.get(SPLITS).is_some()
        && let Some((row, _)) = key.row.strip_prefix('~').and_then(|row| row.rsplit_once('~'))
    {
        key.row = row.to_owned();
    }
    Ok(List { key, etag: Some(found.etag.clone()), members: members_of(found, partition)? })
}

/// Makes an entity be a member of a list, or not, whatever it was.
pub(super) async fn set_member(
    table: &TableClient,
    key: EntityKey,
    partition: &str,
    member: &EntityKey,
    is_wanted: bool,
    options: &WriteOptions,
) -> Result<()> {
    for attempt in 1..=CHANGED_TRIES_MAX {
        let written = async {
            let mut leaf = Leaf::read(table, key.clone(), partition, member).await?;
            let changes = if leaf.set(member, is_wanted) { leaf.changes()? } else { Vec::new() };
            if let [(key, change)] = changes.as_slice() {
                let write = Write::new(key.checked()?, change.clone());
                return table.apply(write, Some(options)).await.map(|_| ());
            }
            let mut txn = table.transaction(key.partition.clone()).with_options(options.clone());
            for (key, change) in changes {
                txn = txn.add(&key, change)?;
            }
            txn.commit().await.map(|_| ())
        };
        match written.await {
            Err(error) if is_conflict(&error) => pause(attempt).await,
            told => return told,
        }
    }
    Err(Error::Changed)
}

/// Whether another changed the list meanwhile, so that reading it again helps.
pub(super) fn is_conflict(error: &Error) -> bool {
    match error {
        Error::Changed | Error::Taken { .. } | Error::NotFound => true,
        Error::Transaction { cause, .. } => is_conflict(cause),
        _ => false,
    }
}

/// Reads a part; `Changed` if it is not as the directory says.
async fn read_part(table: &TableClient, list: &EntityKey, part: &Part) -> Result<Stored<DynamicEntity>> {
    let found = table.get::<DynamicEntity>(part_key(list, part.number), None).await?;
    let is_right =
        |found: &Stored<DynamicEntity>| found.original().get(SPLITS) == Some(EdmRef::Int32(part.splits));
    found.filter(is_right).ok_or(Error::Changed)
}

/// No list has such a key: lists begin with their prefix.
fn part_key(list: &EntityKey, number: u32) -> EntityKey {
    EntityKey { partition: list.partition.clone(), row: format!("~{}~{number:06}", list.row) }
}

fn directory_of(head: &DynamicEntity) -> Result<Option<Directory>> {
    let text = head.get(DIRECTORY).and_then(|text| text.as_str());
    text.map(|text| serde_json::from_str(text).map_err(|_| damaged())).transpose()
}

fn damaged() -> Error {
    Error::Unreadable("a list of keys is damaged".to_owned())
}

/// Members as texts, each of which fits into a property; `None` if they are too many for an entity. Members of the
/// list's own partition have one key.
fn pack(members: &BTreeSet<EntityKey>, partition: &str, splits: Option<i32>) -> Result<Option<Properties>> {
    let (mut texts, mut text) = (Vec::new(), String::new());
    let mut units = 0;
    for member in members {
        let one = if member.partition == partition {
            serde_json::to_string(&member.row)
        } else {
            serde_json::to_string(&(&member.partition, &member.row))
        };
        let one = one.map_err(|error| Error::Step(error.to_string()))?;
        let size = one.encode_utf16().count() + 1;
        if units + size > UNITS_MAX {
            texts.push(std::mem::take(&mut text));
            units = 0;
        }
        text.push(if text.is_empty() { '[' } else { ',' });
        text.push_str(&one);
        units += size;
    }
    texts.push(text);
    if texts.len() > KEYS_MAX {
        return Ok(None);
    }
    let mut builder = PropertiesBuilder::new();
    for (number, text) in texts.iter().enumerate() {
        builder.push(&keys_name(number), EdmRef::String(&format!("{text}]")))?;
    }
    if let Some(splits) = splits {
        builder.push(SPLITS, EdmRef::Int32(splits))?;
    }
    Ok(Some(builder.finish()))
}

fn keys_name(number: usize) -> String {
    format!("{KEYS}{number:02}")
}

/// A member as it is stored: its row, or both keys.
#[derive(Deserialize)]
#[serde(untagged)]
enum Member {
    Row(String),
    Both(String, String),
}

fn members_of(list: &DynamicEntity, partition: &str) -> Result<BTreeSet<EntityKey>> {
    let mut members = BTreeSet::new();
    for number in 0..KEYS_MAX {
        let Some(text) = list.get(&keys_name(number)).and_then(|text| text.as_str()) else { break };
        let read: Vec<Member> = serde_json::from_str(text).map_err(|_| damaged())?;
        members.extend(read.into_iter().map(|member| match member {
            Member::Row(row) => EntityKey { partition: partition.to_owned(), row },
            Member::Both(partition, row) => EntityKey { partition, row },
        }));
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;
    use futures_core::future::BoxFuture;
    use futures_util::future::join_all;

    use super::*;
    use crate::In;
    use crate::eventual::converge::{World, account};
    use crate::transport::{Transport, TransportError};

    /// Answers after a while that a seed decides, so that writers come between each other.
    struct Late(Arc<dyn Transport>, std::sync::Mutex<fastrand::Rng>);

    impl Transport for Late {
        fn send(
            &self,
            request: http::Request<Bytes>,
        ) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
            let wait = self.1.lock().unwrap().u64(..20);
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                self.0.send(request).await
            })
        }
    }

    const KEY: (&str, &str) = ("p", "list");

    /// Adds and removes members of its own at random; gives those that are left.
    async fn change(table: TableClient, writer: u64, seed: u64) -> BTreeSet<EntityKey> {
        let mut chance = fastrand::Rng::with_seed(seed * 100 + writer);
        let mut own = BTreeSet::new();
        for turn in 0..60 {
            let member = EntityKey::from(("p", format!("{:02}-{writer}", chance.u64(..30))));
            // Few are left at the end, so that parts go away too.
            let is_wanted = chance.u64(..60) > turn;
            let options = WriteOptions::default();
            match set_member(&table, KEY.into(), "p", &member, is_wanted, &options).await {
                Ok(()) if is_wanted => drop(own.insert(member)),
                Ok(()) => drop(own.remove(&member)),
                // Sixteen conflicts in a row: nothing was done.
                Err(Error::Changed) => {}
                Err(error) => panic!("{error}"),
            }
            // Whatever others do, a reader finds what this writer has.
            let list = read_list(&table, KEY.into(), "p").await;
            let found = list.map(|list| list.members).unwrap_or_else(|error| panic!("{error}"));
            let found: BTreeSet<_> =
                found.into_iter().filter(|member| member.row.ends_with(&format!("-{writer}"))).collect();
            assert_eq!(found, own, "seed {seed}");
        }
        own
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_in_parts_is_what_its_writers_made_it() {
        let mut parts_max = 0;
        for seed in 0..20 {
            let world = Arc::new(World::new());
            let account = account(&world, None);
            let late = Late(account.shared.transport.clone(), fastrand::Rng::with_seed(seed).into());
            let table = account.with_transport(late).table("Lists");
            table.create().await.unwrap();
            let writers = join_all((0..3).map(|writer| change(table.clone(), writer, seed)));
            let watch = async {
                loop {
                    let head = table.get::<DynamicEntity>(KEY, None).await.unwrap();
                    let directory = head.and_then(|head| directory_of(&head).unwrap());
                    parts_max = parts_max.max(directory.map_or(0, |directory| directory.parts.len()));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            let (writers, watch) = (std::pin::pin!(writers), std::pin::pin!(watch));
            let expected: BTreeSet<EntityKey> = match futures_util::future::select(writers, watch).await {
                futures_util::future::Either::Left((owned, _)) => owned.into_iter().flatten().collect(),
                futures_util::future::Either::Right(_) => unreachable!("it watches for ever"),
            };
            let list = read_list(&table, KEY.into(), "p").await.unwrap();
            assert_eq!(list.members, expected, "seed {seed}");
            for member in &expected {
                set_member(&table, KEY.into(), "p", member, false, &WriteOptions::default()).await.unwrap();
            }
            let left = table.query::<DynamicEntity>(In::whole_table()).collect().await.unwrap();
            assert!(left.is_empty(), "seed {seed}: {}", left.len());
        }
        assert!(parts_max >= 4, "{parts_max}");
    }
}
