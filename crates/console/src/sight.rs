//! What the tables hold, as far as a bounded look tells: how many entities and partitions, how large, which properties
//! of which types.
//!
//! A look reads a table from its start through the service, a page at a time, up to so many entities; one table at a
//! time, and not again for a while, which is longer the more there is to read. A table that has more says so. Pages are shown what the last look found.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tavola_advisor::{SampleEntity, TableFact};
use tavola_auth::{Account, Caller};
use tavola_frontend::{OwnedPartition, PartitionHash};
use tavola_model::{
    AccountName, Clock, Command, EdmValue, Outcome, QueryEntities, ServiceError, StorageService,
    StoredEntity, TableCommand, TableName, TableOutcome,
};
use tavola_service::Service;
use tokio::sync::Semaphore;

/// Entities of one look.
const ENTITIES_MAX: usize = 20_000;
/// Entities of which the properties are noted.
const NOTED_MAX: usize = 2_000;
/// Entities that are kept for the advisor, and the bytes of their keys and values: the larger they are, the fewer.
const SAMPLES_MAX: usize = 256;
const SAMPLES_BYTES_MAX: usize = 128 * 1024;
/// Partitions that are kept, as numbers of eight bytes.
const PARTITIONS_MAX: usize = 1_000;
/// Characters of a value that are kept with them.
const SAMPLE_CHARS_MAX: usize = 100;
/// Properties that are noted.
const PROPERTIES_MAX: usize = 400;
/// Tables that are remembered.
const TABLES_MAX: usize = 2_000;
/// How old a look at a small table may be.
const AGE_MAX: Duration = Duration::from_secs(20);
/// How much older a look may be for each entity that it has read: the more it reads, the less often it is done.
const AGE_PER_ENTITY: Duration = Duration::from_millis(30);

/// What a look found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    entities: usize,
    bytes: usize,
    partitions: usize,
    /// The first of them.
    partition_hashes: Vec<PartitionHash>,
    /// Whether that is the whole table.
    is_whole: bool,
    noted: usize,
    /// Some entities from everywhere in the table, for the advisor.
    samples: Vec<SampleEntity>,
    /// For each property, how many of the noted entities have it, by type.
    properties: BTreeMap<Box<str>, BTreeMap<&'static str, usize>>,
}

impl Sight {
    /// As the advisor takes it.
    pub fn fact(&self, account: &AccountName, table: &TableName) -> TableFact {
        TableFact {
            account: account.as_str().to_owned(),
            table: table.as_str().to_owned(),
            entities: self.entities as u64,
            bytes: self.bytes as u64,
            is_exact: self.is_whole,
            samples: self.samples.clone(),
        }
    }

    /// Bytes that were counted.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Whether the whole table was counted.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The partitions that were found, or the first of them.
    pub fn partition_hashes(&self) -> impl Iterator<Item = PartitionHash> {
        self.partition_hashes.iter().copied()
    }

    /// Whether those are all that the table has.
    pub fn has_every_partition(&self) -> bool {
        self.is_whole && self.partition_hashes.len() == self.partitions
    }

    /// The counts alone.
    pub fn show_counts(&self) -> Value {
        json!({
            "entities": self.entities,
            "bytes": self.bytes,
            "partitions": self.partitions,
            "isWhole": self.is_whole,
        })
    }

    /// As the pages take it.
    pub fn show(&self) -> Value {
        let properties: Vec<Value> = self
            .properties
            .iter()
            .map(|(name, types)| json!({ "name": name, "types": types, "of": self.noted }))
            .collect();
        json!({
            "entities": self.entities,
            "bytes": self.bytes,
            "partitions": self.partitions,
            "isWhole": self.is_whole,
            "properties": properties,
        })
    }
}

type TableKey = (AccountName, Box<str>);

/// The last look at each table.
pub(crate) struct Sights {
    service: Service,
    clock: Arc<dyn Clock>,
    state: Mutex<HashMap<TableKey, Seen>>,
    turn: Arc<Semaphore>,
}

#[derive(Clone, Default)]
struct Seen {
    at: Duration,
    is_looking: bool,
    sight: Option<Arc<Sight>>,
}

impl Seen {
    /// How old it may be.
    fn age_max(&self) -> Duration {
        let entities = self.sight.as_ref().map_or(0, |sight| sight.entities);
        AGE_MAX + AGE_PER_ENTITY * u32::try_from(entities).unwrap_or(u32::MAX)
    }
}

impl Sights {
    pub fn new(service: Service, clock: Arc<dyn Clock>) -> Self {
        Self { service, clock, state: Mutex::default(), turn: Arc::new(Semaphore::new(1)) }
    }

    /// What the last look found, if there was one.
    pub fn last(&self, account: &AccountName, table: &TableName) -> Option<Arc<Sight>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.get(&(account.clone(), table.folded().into()))?.sight.clone()
    }

    /// Whether the last look is too old, and nobody is about to look.
    fn is_due(&self, key: &TableKey) -> bool {
        let now = self.clock.monotonic();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.len() >= TABLES_MAX && !state.contains_key(key) {
            state.retain(|_, seen| now.saturating_sub(seen.at) < seen.age_max());
        }
        let seen = state.entry(key.clone()).or_default();
        let is_old = seen.sight.is_none() || now.saturating_sub(seen.at) >= seen.age_max();
        let is_due = !seen.is_looking && is_old;
        seen.is_looking |= is_due;
        is_due
    }

    /// Looks at a table if the last look is old.
    pub async fn look(&self, account: &Account, table: &TableName) {
        let key: TableKey = (account.name().clone(), table.folded().into());
        if !self.is_due(&key) {
            return;
        }
        let sight = match self.turn.acquire().await {
            Ok(_turn) => self.read(account, table).await.ok(),
            Err(_) => None,
        };
        let at = self.clock.monotonic();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match sight {
            Some(sight) => {
                state.insert(key, Seen { at, is_looking: false, sight: Some(Arc::new(sight)) });
            }
            // The table may be gone.
            None => {
                state.remove(&key);
            }
        }
    }

    async fn read(&self, account: &Account, table: &TableName) -> Result<Sight, ServiceError> {
        let caller = Caller::owner(account, StorageService::Table);
        let mut sight = Sight::default();
        let mut samples = Reservoir::default();
        let mut from = None;
        let mut last_partition = None;
        loop {
            let query = QueryEntities { table: table.clone(), filter: None, top: None, from };
            let command = Command::Table(TableCommand::QueryEntities(query));
            let permitted = tavola_auth::authorize(&caller, None, command, self.clock.now())?;
            let Outcome::Table(TableOutcome::EntitiesQueried(page)) = self.service.execute(permitted).await?
            else {
                return Ok(sight);
            };
            for entity in &page.entities {
                sight.entities += 1;
                sight.bytes += entity.properties.entity_bytes(&entity.key);
                if last_partition.as_ref() != Some(&entity.key.partition) {
                    sight.partitions += 1;
                    if sight.partition_hashes.len() < PARTITIONS_MAX {
                        let partition = OwnedPartition::Entities { table, partition: &entity.key.partition };
                        sight.partition_hashes.push(PartitionHash::of(account.name(), partition));
                    }
                    last_partition = Some(entity.key.partition.clone());
                }
                samples.offer(|| sample(entity));
                if sight.noted < NOTED_MAX {
                    sight.noted += 1;
                    for property in entity.properties.iter() {
                        let is_known = sight.properties.contains_key(property.name);
                        if is_known || sight.properties.len() < PROPERTIES_MAX {
                            let types = sight.properties.entry(property.name.into()).or_default();
                            *types.entry(type_name(property.value)).or_default() += 1;
                        }
                    }
                }
            }
            from = page.next;
            sight.is_whole = from.is_none();
            if sight.is_whole || sight.entities >= ENTITIES_MAX {
                sight.samples = samples.kept;
                return Ok(sight);
            }
        }
    }
}

/// Entities of which every one of a table has the same chance to be kept. Proposals are shown with one that fits a real
/// request, so the samples must not all be of the first partition.
struct Reservoir {
    kept: Vec<SampleEntity>,
    bytes: usize,
    size_max: usize,
    offered: u64,
}

impl Default for Reservoir {
    fn default() -> Self {
        Self { kept: Vec::new(), bytes: 0, size_max: SAMPLES_MAX, offered: 0 }
    }
}

impl Reservoir {
    /// Keeps one more, or one in place of another, or neither.
    fn offer(&mut self, make: impl FnOnce() -> SampleEntity) {
        self.offered += 1;
        if self.kept.len() < self.size_max {
            self.keep(make());
            return;
        }
        let place = usize::try_from(mixed(self.offered) % self.offered).unwrap_or(usize::MAX);
        if place < self.size_max {
            let old = self.kept.swap_remove(place);
            self.bytes -= sample_bytes(&old);
            self.keep(make());
        }
    }

    fn keep(&mut self, entity: SampleEntity) {
        self.bytes += sample_bytes(&entity);
        self.kept.push(entity);
        // Whatever is left still had the same chance.
        while self.bytes > SAMPLES_BYTES_MAX && self.kept.len() > 1 {
            let place = mixed(self.offered ^ self.bytes as u64) % self.kept.len() as u64;
            let old = self.kept.swap_remove(usize::try_from(place).unwrap_or(0));
            self.bytes -= sample_bytes(&old);
            self.size_max = self.kept.len();
        }
    }
}

fn sample_bytes(entity: &SampleEntity) -> usize {
    let properties: usize = entity.properties.iter().map(|(name, value)| name.len() + value.len()).sum();
    entity.partition.len() + entity.row.len() + properties
}

/// A number that looks like chance, and is the same each time (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// An entity with its values as text.
fn sample(entity: &StoredEntity) -> SampleEntity {
    let properties = entity.properties.iter().map(|property| {
        let text = match property.value {
            EdmValue::Binary(_) => String::new(),
            EdmValue::Boolean(value) => value.to_string(),
            EdmValue::DateTime(value) => value.to_text_7_digits(),
            EdmValue::Double(value) => value.to_string(),
            EdmValue::Guid(value) => value.to_string(),
            EdmValue::Int32(value) => value.to_string(),
            EdmValue::Int64(value) => value.to_string(),
            EdmValue::String(value) => value.chars().take(SAMPLE_CHARS_MAX).collect(),
        };
        (property.name.to_owned(), text)
    });
    SampleEntity {
        partition: entity.key.partition.as_str().to_owned(),
        row: entity.key.row.as_str().to_owned(),
        properties: properties.collect(),
    }
}

/// `Int32` and the like.
fn type_name(value: EdmValue<'_>) -> &'static str {
    let name = value.edm_type().as_str();
    name.strip_prefix("Edm.").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(number: usize, value_bytes: usize) -> SampleEntity {
        SampleEntity {
            partition: format!("p{}", number * 10 / 5000),
            row: number.to_string(),
            properties: vec![("Value".to_owned(), "x".repeat(value_bytes))],
        }
    }

    #[test]
    fn samples_come_from_every_part_of_a_table() {
        let mut samples = Reservoir::default();
        (0..5000).for_each(|number| samples.offer(|| entity(number, 10)));
        assert_eq!(samples.kept.len(), SAMPLES_MAX);
        for tenth in 0..10 {
            let count = samples.kept.iter().filter(|entity| entity.partition == format!("p{tenth}")).count();
            assert!((8..=60).contains(&count), "{count} of p{tenth}");
        }
    }

    #[test]
    fn large_samples_are_fewer() {
        let mut samples = Reservoir::default();
        (0..5000).for_each(|number| samples.offer(|| entity(number, 4000)));
        assert!(samples.bytes <= SAMPLES_BYTES_MAX);
        assert_eq!(samples.bytes, samples.kept.iter().map(sample_bytes).sum::<usize>());
        assert!((16..40).contains(&samples.kept.len()), "{}", samples.kept.len());
        let late = samples.kept.iter().filter(|entity| entity.partition.as_str() >= "p5").count();
        assert!(late > 4, "{late} of the second half");
    }
}
