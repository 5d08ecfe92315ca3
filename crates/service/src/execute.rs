//! Each command to the place that knows what it means.

use tavola_auth::{KeyLimit, StorageService};
use tavola_model::{
    AccountName, Command, EntityGroupTransaction, EntityKey, EntityWrite, ErrorCode, GetEntity, Outcome,
    QueryEntities, ServiceError, ServiceStats, TableName,
};

use crate::cors;
use crate::long_reads::Progress;
use crate::service::Service;
use crate::table::{fetch_entity, query_entities, transact_entities, write_entity};

impl Service {
    pub(crate) async fn execute_command(
        &self,
        account: &AccountName,
        service: StorageService,
        command: Command,
        limit: Option<&KeyLimit>,
    ) -> Result<Outcome, ServiceError> {
        match command {
            Command::QueryTables(query) => {
                self.catalog.query_tables(account, &query).await.map(Outcome::TablesQueried)
            }
            Command::GetTable(table) => {
                let found = self.catalog.find(account, &table).await?.ok_or(ErrorCode::ResourceNotFound)?;
                Ok(Outcome::TableFetched(found.name.clone()))
            }
            Command::CreateTable(table) => {
                self.catalog.create_table(account, &table).await?;
                Ok(Outcome::TableCreated(table))
            }
            Command::DeleteTable(table) => {
                self.catalog.delete_table(account, &table).await?;
                Ok(Outcome::TableDeleted)
            }
            Command::GetTableAcl(table) => {
                let found = self.catalog.find_existing(account, &table).await?;
                Ok(Outcome::TableAclFetched(found.identifiers.clone()))
            }
            Command::SetTableAcl(table, identifiers) => {
                self.catalog.set_acl(account, &table, identifiers).await?;
                Ok(Outcome::TableAclSet)
            }
            Command::GetServiceProperties => {
                let settings = self.fetch_service_properties(account, service).await?;
                Ok(Outcome::ServicePropertiesFetched(Box::new(settings)))
            }
            Command::SetServiceProperties(patch) => {
                self.catalog.set_service_properties(account, service, *patch).await?;
                Ok(Outcome::ServicePropertiesSet)
            }
            // The secondary endpoint reads the same store, so it is never behind.
            Command::GetServiceStats => {
                Ok(Outcome::ServiceStatsFetched(ServiceStats { last_sync: self.clock.now() }))
            }
            Command::PreflightRequest(preflight) => {
                let rules = self.cors_rules(account, service).await?;
                cors::answer_preflight(&rules, preflight).map(Outcome::PreflightAllowed)
            }
            Command::QueryEntities(query) => self.query(account, query, limit).await,
            Command::GetEntity(get) => self.get(account, &get, limit).await,
            Command::WriteEntity(table, write) => self.write(account, &table, write, limit).await,
            Command::TransactEntities(transaction) => self.transact(account, transaction, limit).await,
            Command::ProbeTable(table, refusal) => {
                self.catalog.find_existing(account, &table).await?;
                Err(refusal)
            }
            Command::Queue(command) => self.queues.execute(account, command).await.map(Outcome::Queue),
        }
    }

    async fn query(
        &self,
        account: &AccountName,
        query: QueryEntities,
        limit: Option<&KeyLimit>,
    ) -> Result<Outcome, ServiceError> {
        let table = self.catalog.find_existing(account, &query.table).await?;
        let progress = Progress::default();
        let (engine, clock) = (self.engine.clone(), self.clock.clone());
        let read = query_entities(engine, clock, table.space, query, limit.cloned(), progress.clone());
        self.long_reads.run(progress, read).await.map(Outcome::EntitiesQueried)
    }

    async fn get(
        &self,
        account: &AccountName,
        get: &GetEntity,
        limit: Option<&KeyLimit>,
    ) -> Result<Outcome, ServiceError> {
        let table = self.catalog.find_existing(account, &get.table).await?;
        if !is_inside(limit, &get.key) {
            return Err(ErrorCode::ResourceNotFound.into());
        }
        fetch_entity(self.engine.as_ref(), table.space, &get.key).await.map(Outcome::EntityFetched)
    }

    async fn write(
        &self,
        account: &AccountName,
        table: &TableName,
        write: EntityWrite,
        limit: Option<&KeyLimit>,
    ) -> Result<Outcome, ServiceError> {
        let table = self.catalog.find_existing(account, table).await?;
        if !is_inside(limit, &write.key) {
            return Err(ErrorCode::AuthorizationFailure.into());
        }
        write_entity(self.engine.as_ref(), table.space, write).await.map(Outcome::EntityWritten)
    }

    async fn transact(
        &self,
        account: &AccountName,
        transaction: EntityGroupTransaction,
        limit: Option<&KeyLimit>,
    ) -> Result<Outcome, ServiceError> {
        let found = self.catalog.find_existing(account, &transaction.table).await;
        let table = found.map_err(missing_at_first)?;
        let outside = transaction.writes.iter().position(|write| !is_inside(limit, &write.key));
        if let Some(index) = outside {
            return Err(ServiceError::new(ErrorCode::AuthorizationFailure).at_operation(index));
        }
        let outcomes = transact_entities(self.engine.as_ref(), table.space, transaction.writes).await;
        outcomes.map(Outcome::EntitiesTransacted).map_err(missing_at_first)
    }
}

fn is_inside(limit: Option<&KeyLimit>, key: &EntityKey) -> bool {
    limit.is_none_or(|limit| limit.contains(key))
}

/// The service finds out about the table when it reads the first operation of a transaction, and says so.
fn missing_at_first(error: ServiceError) -> ServiceError {
    match error.code {
        ErrorCode::TableNotFound | ErrorCode::TableBeingDeleted => error.at_operation(0),
        _ => error,
    }
}
