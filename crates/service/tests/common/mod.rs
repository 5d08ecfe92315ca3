//! A service on the reference engine with a clock that only moves when told, and short ways to ask it.
#![allow(dead_code, reason = "each test file uses its part")]

mod clock;
pub mod hooks;

use std::sync::Arc;

use tavola_auth::{KeyLimit, Permitted};
use tavola_engine::{Engine, MemoryEngine};
use tavola_model::{
    AccountName, Command, EdmValue, EntityChange, EntityGroupTransaction, EntityKey, EntityPage, EntityToken,
    EntityWrite, ErrorCode, GetEntity, Key, Outcome, Properties, PropertiesBuilder, QueryEntities,
    ServiceError, StoredEntity, TableCommand, TableName, TableOutcome, WriteOutcome,
};
use tavola_service::{Service, ServiceSettings};
use tavola_system::SystemRandom;

pub use clock::HeldClock;

pub struct Bench {
    pub service: Service,
    pub engine: Arc<MemoryEngine>,
    pub clock: Arc<HeldClock>,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    pub fn new() -> Self {
        Self::with_settings(ServiceSettings::default())
    }

    pub fn with_settings(settings: ServiceSettings) -> Self {
        let clock = HeldClock::new();
        let engine = Arc::new(MemoryEngine::new(clock.clone()));
        let service = Service::new(engine.clone(), clock.clone(), Arc::new(SystemRandom), settings);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { service, engine, clock, runtime }
    }

    /// With an empty table `People`.
    pub fn with_table() -> Self {
        let bench = Self::new();
        bench.run(Command::Table(TableCommand::CreateTable(table("People")))).unwrap();
        bench
    }

    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn run(&self, command: Command) -> Result<Outcome, ServiceError> {
        self.run_within(command, None)
    }

    pub fn run_within(&self, command: Command, limit: Option<KeyLimit>) -> Result<Outcome, ServiceError> {
        self.wait(self.service.execute(Permitted::unchecked_for_test(account(), command, limit)))
    }

    pub fn write(&self, key: &str, change: EntityChange) -> Result<WriteOutcome, ErrorCode> {
        let write = EntityWrite { key: entity_key(key), change };
        match self.run(Command::Table(TableCommand::WriteEntity(table("People"), write))) {
            Ok(Outcome::Table(TableOutcome::EntityWritten(outcome))) => Ok(outcome),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.code),
        }
    }

    /// Applies all, or gives the failing index and code.
    pub fn transact(
        &self,
        writes: Vec<(&str, EntityChange)>,
    ) -> Result<Vec<WriteOutcome>, (Option<usize>, ErrorCode)> {
        let writes =
            writes.into_iter().map(|(key, change)| EntityWrite { key: entity_key(key), change }).collect();
        let transaction = EntityGroupTransaction { table: table("People"), writes };
        match self.run(Command::Table(TableCommand::TransactEntities(transaction))) {
            Ok(Outcome::Table(TableOutcome::EntitiesTransacted(outcomes))) => Ok(outcomes),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err((error.index, error.code)),
        }
    }

    pub fn get(&self, key: &str) -> Result<StoredEntity, ErrorCode> {
        let get = GetEntity { table: table("People"), key: entity_key(key) };
        match self.run(Command::Table(TableCommand::GetEntity(get))) {
            Ok(Outcome::Table(TableOutcome::EntityFetched(entity))) => Ok(entity),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.code),
        }
    }

    pub fn query(&self, filter: &str, top: Option<usize>, from: Option<EntityToken>) -> EntityPage {
        self.query_within(filter, top, from, None)
    }

    pub fn query_within(
        &self,
        filter: &str,
        top: Option<usize>,
        from: Option<EntityToken>,
        limit: Option<KeyLimit>,
    ) -> EntityPage {
        let filter = tavola_odata::parse_filter(filter).unwrap();
        let query = QueryEntities { table: table("People"), filter, top, from };
        match self.run_within(Command::Table(TableCommand::QueryEntities(query)), limit) {
            Ok(Outcome::Table(TableOutcome::EntitiesQueried(page))) => page,
            other => panic!("{other:?}"),
        }
    }

    pub fn spaces(&self) -> usize {
        self.wait(self.engine.spaces()).unwrap().len()
    }
}

pub fn account() -> AccountName {
    AccountName::parse("devstoreaccount1").unwrap()
}

pub fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

/// `p/r`.
pub fn entity_key(text: &str) -> EntityKey {
    let (partition, row) = text.split_once('/').unwrap();
    EntityKey { partition: Key::parse(partition).unwrap(), row: Key::parse(row).unwrap() }
}

/// `a=1 b=x`: numbers are Int32, the rest are strings.
pub fn properties(text: &str) -> Properties {
    let mut builder = PropertiesBuilder::new();
    for property in text.split_whitespace() {
        let (name, value) = property.split_once('=').unwrap();
        let value = value.parse().map(EdmValue::Int32).unwrap_or(EdmValue::String(value));
        builder.push(name, value).unwrap();
    }
    builder.finish()
}

/// The opposite of `properties`.
pub fn show_properties(properties: &Properties) -> String {
    let show = |property: tavola_model::Property<'_>| match property.value {
        EdmValue::Int32(number) => format!("{}={number}", property.name),
        EdmValue::String(text) => format!("{}={text}", property.name),
        other => panic!("{other:?}"),
    };
    properties.iter().map(show).collect::<Vec<_>>().join(" ")
}

/// The keys of a page, as `p/r p/r`.
pub fn show_keys(page: &EntityPage) -> String {
    let show =
        |entity: &StoredEntity| format!("{}/{}", entity.key.partition.as_str(), entity.key.row.as_str());
    page.entities.iter().map(show).collect::<Vec<_>>().join(" ")
}
