//! Two copies of a table in memory: as it is, and with other keys.
//!
//! A copied entity keeps its old keys and Timestamp as properties, so that filters that name them still can.

use std::collections::HashMap;
use std::sync::Arc;

use tavola_auth::{Account, DEVELOPMENT_ACCOUNT};
use tavola_engine::MemoryEngine;
use tavola_model::{
    EdmValue, EntityChange, EntityKey, EntityWrite, Key, PropertiesBuilder, QueryEntities, ServiceError,
    StoredEntity, TableCommand, TableName,
};
use tavola_service::{Service, ServiceSettings};

use super::{KeyProblem, PartitionShare, Side, Sources};
use crate::Template;
use crate::facts::TableReader;
use crate::findings::propose::is_forbidden_in_key;
use crate::traffic::plain_text;

/// Properties of a copy that hold what its entity had.
pub(super) const OLD_PARTITION: &str = "before_PartitionKey";
pub(super) const OLD_ROW: &str = "before_RowKey";
pub(super) const OLD_TIMESTAMP: &str = "before_Timestamp";

/// The proposed keys.
pub(super) struct Templates {
    pub partition: Template,
    pub row: Template,
    pub is_index: bool,
}

/// The copies.
pub(super) struct Copies {
    before: Service,
    after: Service,
    account: Account,
    table: TableName,
    pub entities: u64,
    pub is_whole_table: bool,
    pub collisions: KeyProblem,
    pub without_key: KeyProblem,
    pub sizes_before: CopySizes,
    pub sizes_after: CopySizes,
    /// The new keys of the old ones.
    pub moved: HashMap<(String, String), String>,
}

/// How much a copy holds.
#[derive(Default)]
pub(super) struct CopySizes {
    pub entities: u64,
    pub bytes: u64,
    partitions: HashMap<String, u64>,
}

impl CopySizes {
    fn add(&mut self, key: &EntityKey, entity: &StoredEntity) {
        self.entities += 1;
        self.bytes += entity.properties.entity_bytes(key) as u64;
        *self.partitions.entry(key.partition.as_str().to_owned()).or_default() += 1;
    }

    pub fn fill(&self, side: &mut Side) {
        side.entities = self.entities;
        side.bytes = self.bytes;
        side.partitions = self.partitions.len() as u64;
        side.largest = most(&self.partitions);
    }
}

/// The name that counts most.
pub(super) fn most(counts: &HashMap<String, u64>) -> Option<PartitionShare> {
    let total: u64 = counts.values().sum();
    let (key, count) = counts.iter().max_by(|left, right| left.1.cmp(right.1).then(right.0.cmp(left.0)))?;
    #[allow(clippy::cast_precision_loss, reason = "a share to look at")]
    let share = *count as f64 / total.max(1) as f64;
    Some(PartitionShare { key: key.clone(), count: *count, share })
}

impl Copies {
    pub async fn make(
        service: &Service,
        account: &Account,
        table: &TableName,
        templates: &Templates,
        (entities_max, bytes_max): (u64, u64),
        sources: &Sources,
    ) -> Result<Self, ServiceError> {
        let mut copies = Self {
            before: empty(sources),
            after: empty(sources),
            account: Account::development(),
            table: table.clone(),
            entities: 0,
            is_whole_table: true,
            collisions: KeyProblem::default(),
            without_key: KeyProblem::default(),
            sizes_before: CopySizes::default(),
            sizes_after: CopySizes::default(),
            moved: HashMap::new(),
        };
        assert_eq!(
            copies.account.name().as_str(),
            DEVELOPMENT_ACCOUNT,
            "copies have an account of their own"
        );
        for copy in [&copies.before, &copies.after] {
            let create = TableCommand::CreateTable(table.clone());
            TableReader::new(copy, &copies.account).execute(create).await?;
        }
        let source = TableReader::new(service, account);
        let mut from = None;
        loop {
            let query = QueryEntities { table: table.clone(), filter: None, top: None, from };
            let page = source.page(query).await?;
            for entity in &page.entities {
                copies.add(entity, templates).await?;
            }
            match page.next {
                Some(next) if copies.entities < entities_max && copies.sizes_before.bytes < bytes_max => {
                    from = Some(next);
                }
                next => {
                    copies.is_whole_table = next.is_none();
                    return Ok(copies);
                }
            }
        }
    }

    /// A reader of the copy as it is.
    pub fn before(&self) -> TableReader<'_> {
        TableReader::new(&self.before, &self.account)
    }

    /// A reader of the copy with the proposed keys.
    pub fn after(&self) -> TableReader<'_> {
        TableReader::new(&self.after, &self.account)
    }

    pub fn table(&self) -> &TableName {
        &self.table
    }

    async fn add(&mut self, entity: &StoredEntity, templates: &Templates) -> Result<(), ServiceError> {
        self.entities += 1;
        write(&self.before(), &self.table, &entity.key, entity).await?;
        self.sizes_before.add(&entity.key, entity);
        if templates.is_index {
            self.sizes_after.add(&entity.key, entity);
        }
        let old = (entity.key.partition.as_str().to_owned(), entity.key.row.as_str().to_owned());
        let key = match new_key(entity, templates) {
            Ok(key) => key,
            Err(reason) => {
                self.without_key.add(|| format!("{} / {}: {reason}", old.0, old.1));
                return Ok(());
            }
        };
        let get = tavola_model::GetEntity { table: self.table.clone(), key: key.clone() };
        if self.after().execute(TableCommand::GetEntity(get)).await.is_ok() {
            let (partition, row) = (key.partition.as_str(), key.row.as_str());
            self.collisions.add(|| format!("{} / {} would be {partition} / {row}", old.0, old.1));
            return Ok(());
        }
        write(&self.after(), &self.table, &key, entity).await?;
        self.sizes_after.add(&key, entity);
        self.moved.insert(old, key.partition.as_str().to_owned());
        Ok(())
    }
}

fn empty(sources: &Sources) -> Service {
    let engine = Arc::new(MemoryEngine::new(sources.clock.clone()));
    Service::new(engine, sources.clock.clone(), sources.random.clone(), ServiceSettings::default())
}

async fn write(
    reader: &TableReader<'_>,
    table: &TableName,
    key: &EntityKey,
    entity: &StoredEntity,
) -> Result<(), ServiceError> {
    let mut properties = PropertiesBuilder::new();
    for property in entity.properties.iter() {
        properties.push(property.name, property.value)?;
    }
    // An entity that is full keeps fewer of them; a filter that names them then does not find it.
    for (name, value) in [
        (OLD_PARTITION, EdmValue::String(entity.key.partition.as_str())),
        (OLD_ROW, EdmValue::String(entity.key.row.as_str())),
        (OLD_TIMESTAMP, EdmValue::DateTime(entity.timestamp)),
    ] {
        let _ = properties.push(name, value);
    }
    let change = EntityChange::InsertOrReplace(properties.finish());
    let write = EntityWrite { key: key.clone(), change };
    reader.execute(TableCommand::WriteEntity(table.clone(), write)).await.map(|_| ())
}

fn new_key(entity: &StoredEntity, templates: &Templates) -> Result<EntityKey, String> {
    let value = |name: &str| match name {
        "PartitionKey" => Some(entity.key.partition.as_str().to_owned()),
        "RowKey" => Some(entity.key.row.as_str().to_owned()),
        "Timestamp" => Some(entity.timestamp.to_string()),
        name => entity.properties.get(name).map(plain_text),
    };
    let key = |template: &Template| {
        let text = template.expand(value).map_err(|error| error.to_string())?;
        if text.contains(is_forbidden_in_key) {
            return Err(format!("the key {text} has a character that keys cannot have"));
        }
        Key::parse(&text).map_err(|_| "the key is too long".to_owned())
    };
    Ok(EntityKey { partition: key(&templates.partition)?, row: key(&templates.row)? })
}
