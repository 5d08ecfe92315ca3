//! What is stored in the tables, as far as the advisor needs it: sizes and a few entities.
//!
//! The traffic says what is asked; only the table says what it holds. Whoever asks for findings gathers this first.

use serde::Serialize;
use tavola_auth::{Account, Caller, authorize};
use tavola_model::{
    Command, DateTime, EntityPage, ErrorCode, Outcome, QueryEntities, QueryTables, ServiceError,
    StorageService, StoredEntity, TableCommand, TableName, TableOutcome,
};
use tavola_service::Service;

use crate::shape::cut;
use crate::table_size;
use crate::traffic::{plain_text, reservoir_place};

/// What is known of some tables.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableFacts {
    /// One for each table.
    pub tables: Vec<TableFact>,
}

impl TableFacts {
    /// What is known of one table.
    pub fn of(&self, account: &str, table: &str) -> Option<&TableFact> {
        self.tables.iter().find(|fact| fact.account == account && fact.table.eq_ignore_ascii_case(table))
    }
}

/// What is known of one table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableFact {
    /// Its account.
    pub account: String,
    /// Its name.
    pub table: String,
    /// How many entities it holds.
    pub entities: u64,
    /// Their bytes by the service's own formula.
    pub bytes: u64,
    /// Whether all of the table was counted. If not, the two are estimates, or counts of a part.
    pub is_exact: bool,
    /// Some of its entities.
    pub samples: Vec<SampleEntity>,
}

/// An entity, with its values as text.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SampleEntity {
    /// Its PartitionKey.
    pub partition: String,
    /// Its RowKey.
    pub row: String,
    /// Its other properties.
    pub properties: Vec<(String, String)>,
}

/// Entities that are kept of a table.
const SAMPLES_MAX: usize = 64;
/// Tables whose size is counted.
const COUNTED_TABLES_MAX: usize = 256;
/// Bytes of a value in a sample; longer ones are cut.
const VALUE_BYTES_MAX: usize = 128;

/// Reads facts of every table of some accounts: samples from the first `entities_max` entities of each, and sizes, which
/// are estimated for a table that has more.
pub async fn gather(
    service: &Service,
    accounts: &[Account],
    entities_max: u64,
) -> Result<TableFacts, ServiceError> {
    let mut facts = TableFacts::default();
    for account in accounts {
        let reader = TableReader::new(service, account);
        for table in reader.tables().await? {
            let look =
                if facts.tables.len() < COUNTED_TABLES_MAX { Look::Up(entities_max) } else { Look::Page };
            match reader.fact(&table, look).await {
                Ok(fact) => facts.tables.push(fact),
                // It was deleted meanwhile.
                Err(error) if error.code == ErrorCode::TableNotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(facts)
}

/// How much of a table is read.
#[derive(Clone, Copy)]
enum Look {
    /// So many entities, and of more an estimate.
    Up(u64),
    /// Of very many tables, the rest is looked at for one page only.
    Page,
}

/// Reads tables as the holder of their account.
pub(crate) struct TableReader<'a> {
    service: &'a Service,
    account: &'a Account,
}

impl<'a> TableReader<'a> {
    pub fn new(service: &'a Service, account: &'a Account) -> Self {
        Self { service, account }
    }

    /// Executes a command.
    pub async fn execute(&self, command: TableCommand) -> Result<TableOutcome, ServiceError> {
        let caller = Caller::owner(self.account, StorageService::Table);
        let permitted = authorize(&caller, None, Command::Table(command), DateTime::MIN)?;
        match self.service.execute(permitted).await? {
            Outcome::Table(outcome) => Ok(outcome),
            _ => Err(ErrorCode::InternalError.into()),
        }
    }

    /// One page of a query.
    pub async fn page(&self, query: QueryEntities) -> Result<EntityPage, ServiceError> {
        match self.execute(TableCommand::QueryEntities(query)).await? {
            TableOutcome::EntitiesQueried(page) => Ok(page),
            _ => Err(ErrorCode::InternalError.into()),
        }
    }

    async fn tables(&self) -> Result<Vec<TableName>, ServiceError> {
        let (mut tables, mut from) = (Vec::new(), None);
        loop {
            let query = QueryTables { filter: None, top: None, from };
            let TableOutcome::TablesQueried(page) = self.execute(TableCommand::QueryTables(query)).await?
            else {
                return Err(ErrorCode::InternalError.into());
            };
            tables.extend(page.tables);
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(tables),
            }
        }
    }

    async fn fact(&self, table: &TableName, look: Look) -> Result<TableFact, ServiceError> {
        let mut fact = TableFact {
            account: self.account.name().as_str().to_owned(),
            table: table.as_str().to_owned(),
            ..TableFact::default()
        };
        let mut from = None;
        loop {
            let query = QueryEntities { table: table.clone(), filter: None, top: None, from };
            let page = self.page(query).await?;
            for entity in &page.entities {
                fact.entities += 1;
                fact.bytes += entity.properties.entity_bytes(&entity.key) as u64;
                if fact.samples.len() < SAMPLES_MAX {
                    fact.samples.push(sample(entity));
                } else if let Some(place) = reservoir_place(fact.entities, SAMPLES_MAX) {
                    fact.samples[place] = sample(entity);
                }
            }
            match (page.next, look) {
                (Some(next), Look::Up(entities_max)) if fact.entities < entities_max => from = Some(next),
                (Some(_), Look::Page) => return Ok(fact),
                (Some(_), Look::Up(_)) => {
                    let size = table_size::estimate(self, table).await?;
                    fact.entities = fact.entities.max(whole(size.entities));
                    fact.bytes = fact.bytes.max(whole(size.bytes));
                    return Ok(fact);
                }
                (None, _) => {
                    fact.is_exact = true;
                    return Ok(fact);
                }
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate, and not below zero")]
fn whole(estimate: f64) -> u64 {
    estimate as u64
}

fn sample(entity: &StoredEntity) -> SampleEntity {
    let properties = entity.properties.iter().map(|property| {
        let mut value = plain_text(property.value);
        cut(&mut value, VALUE_BYTES_MAX);
        (property.name.to_owned(), value)
    });
    SampleEntity {
        partition: entity.key.partition.as_str().to_owned(),
        row: entity.key.row.as_str().to_owned(),
        properties: properties.collect(),
    }
}
