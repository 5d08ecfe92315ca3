//! Each command to the code that knows what it means.

use tavola_auth::KeyLimit;
use tavola_model::{
    AccountCommand, AccountName, AccountOutcome, Command, EntityGroupTransaction, EntityKey, EntityWrite,
    ErrorCode, GetEntity, Outcome, QueryEntities, ServiceError, ServiceStats, StorageService, TableCommand,
    TableName, TableOutcome,
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
            Command::Account(command) => {
                self.execute_account(account, service, command).await.map(Outcome::Account)
            }
            Command::Table(command) => self.execute_table(account, command, limit).await.map(Outcome::Table),
            Command::Queue(command) => self.queues.execute(account, command).await.map(Outcome::Queue),
        }
    }

    async fn execute_account(
        &self,
        account: &AccountName,
        service: StorageService,
        command: AccountCommand,
    ) -> Result<AccountOutcome, ServiceError> {
        match command {
            AccountCommand::GetServiceProperties => {
                let settings = self.fetch_service_properties(account, service).await?;
                Ok(AccountOutcome::ServicePropertiesFetched(Box::new(settings)))
            }
            AccountCommand::SetServiceProperties(patch) => {
                self.catalog.set_service_properties(account, service, *patch).await?;
                Ok(AccountOutcome::ServicePropertiesSet)
            }
            // The secondary endpoint reads the same store, so it is never behind.
            AccountCommand::GetServiceStats => {
                Ok(AccountOutcome::ServiceStatsFetched(ServiceStats { last_sync: self.clock.now() }))
            }
            AccountCommand::PreflightRequest(preflight) => {
                let rules = self.cors_rules(account, service).await?;
                cors::answer_preflight(&rules, preflight).map(AccountOutcome::PreflightAllowed)
            }
        }
    }

    async fn execute_table(
        &self,
        account: &AccountName,
        command: TableCommand,
        limit: Option<&KeyLimit>,
    ) -> Result<TableOutcome, ServiceError> {
        match command {
            TableCommand::QueryTables(query) => {
                self.catalog.query_tables(account, &query).await.map(TableOutcome::TablesQueried)
            }
            TableCommand::GetTable(table) => {
                let found = self.catalog.find(account, &table).await?.ok_or(ErrorCode::ResourceNotFound)?;
                Ok(TableOutcome::TableFetched(found.name.clone()))
            }
            TableCommand::CreateTable(table) => {
                self.catalog.create_table(account, &table).await?;
                Ok(TableOutcome::TableCreated(table))
            }
            TableCommand::DeleteTable(table) => {
                self.catalog.delete_table(account, &table).await?;
                Ok(TableOutcome::TableDeleted)
            }
            TableCommand::GetTableAcl(table) => {
                let found = self.catalog.find_existing(account, &table).await?;
                Ok(TableOutcome::TableAclFetched(found.identifiers.clone()))
            }
            TableCommand::SetTableAcl(table, identifiers) => {
                self.catalog.set_acl(account, &table, identifiers).await?;
                Ok(TableOutcome::TableAclSet)
            }
            TableCommand::QueryEntities(query) => self.query(account, query, limit).await,
            TableCommand::GetEntity(get) => self.get(account, &get, limit).await,
            TableCommand::WriteEntity(table, write) => self.write(account, &table, write, limit).await,
            TableCommand::TransactEntities(transaction) => self.transact(account, transaction, limit).await,
            TableCommand::ProbeTable(table, refusal) => {
                self.catalog.find_existing(account, &table).await?;
                Err(refusal)
            }
        }
    }

    async fn query(
        &self,
        account: &AccountName,
        query: QueryEntities,
        limit: Option<&KeyLimit>,
    ) -> Result<TableOutcome, ServiceError> {
        let table = self.catalog.find_existing(account, &query.table).await?;
        let progress = Progress::default();
        let (engine, clock) = (self.engine.clone(), self.clock.clone());
        let read = query_entities(engine, clock, table.space, query, limit.cloned(), progress.clone());
        self.long_reads.run(progress, read).await.map(TableOutcome::EntitiesQueried)
    }

    async fn get(
        &self,
        account: &AccountName,
        get: &GetEntity,
        limit: Option<&KeyLimit>,
    ) -> Result<TableOutcome, ServiceError> {
        let table = self.catalog.find_existing(account, &get.table).await?;
        if !is_inside(limit, &get.key) {
            return Err(ErrorCode::ResourceNotFound.into());
        }
        fetch_entity(self.engine.as_ref(), table.space, &get.key).await.map(TableOutcome::EntityFetched)
    }

    async fn write(
        &self,
        account: &AccountName,
        table: &TableName,
        write: EntityWrite,
        limit: Option<&KeyLimit>,
    ) -> Result<TableOutcome, ServiceError> {
        let table = self.catalog.find_existing(account, table).await?;
        if !is_inside(limit, &write.key) {
            return Err(ErrorCode::AuthorizationFailure.into());
        }
        write_entity(self.engine.as_ref(), table.space, write).await.map(TableOutcome::EntityWritten)
    }

    async fn transact(
        &self,
        account: &AccountName,
        transaction: EntityGroupTransaction,
        limit: Option<&KeyLimit>,
    ) -> Result<TableOutcome, ServiceError> {
        let found = self.catalog.find_existing(account, &transaction.table).await;
        let table = found.map_err(missing_at_first)?;
        let outside = transaction.writes.iter().position(|write| !is_inside(limit, &write.key));
        if let Some(index) = outside {
            return Err(ServiceError::new(ErrorCode::AuthorizationFailure).at_operation(index));
        }
        let outcomes = transact_entities(self.engine.as_ref(), table.space, transaction.writes).await;
        outcomes.map(TableOutcome::EntitiesTransacted).map_err(missing_at_first)
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
