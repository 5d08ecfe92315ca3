//! Each table command to the code that knows what it means.

use std::sync::Arc;

use tavola_auth::KeyLimit;
use tavola_model::{
    AccountName, EntityGroupTransaction, EntityKey, EntityWrite, ErrorCode, GetEntity, QueryEntities,
    ServiceError, TableCommand, TableName, TableOutcome,
};

use super::Tables;
use super::entities::{fetch_entity, write_entity};
use super::query::{Reading, query_entities};
use super::tables::table_name;
use super::transaction::transact_entities;
use crate::catalog::{Resource, ResourceKind};
use crate::failure::Failure;
use crate::long_reads::RowsVisited;
use crate::service::AnswerBudget;

impl Tables {
    pub async fn execute(
        &self,
        account: &AccountName,
        command: TableCommand,
        limit: Option<&KeyLimit>,
        budget: Option<Arc<dyn AnswerBudget>>,
    ) -> Result<TableOutcome, Failure> {
        // What is large and rare is boxed, so that reads and writes of entities do not carry it.
        match command {
            TableCommand::QueryTables(query) => {
                Box::pin(self.list(account, &query)).await.map(TableOutcome::TablesQueried)
            }
            TableCommand::GetTable(table) => {
                let found = self.catalog.find(account, ResourceKind::Table, table.folded()).await?;
                let found = found.ok_or(ErrorCode::ResourceNotFound)?;
                Ok(TableOutcome::TableFetched(table_name(&found)?))
            }
            TableCommand::CreateTable(table) => {
                Box::pin(self.create(account, &table)).await?;
                Ok(TableOutcome::TableCreated(table))
            }
            TableCommand::DeleteTable(table) => {
                Box::pin(self.delete(account, &table)).await?;
                Ok(TableOutcome::TableDeleted)
            }
            TableCommand::GetTableAcl(table) => {
                Ok(TableOutcome::TableAclFetched(self.find(account, &table).await?.identifiers.clone()))
            }
            TableCommand::SetTableAcl(table, identifiers) => {
                Box::pin(self.set_acl(account, &table, identifiers)).await?;
                Ok(TableOutcome::TableAclSet)
            }
            TableCommand::QueryEntities(query) => Box::pin(self.query(account, query, limit, budget)).await,
            TableCommand::GetEntity(get) => self.get(account, &get, limit).await,
            TableCommand::WriteEntity(table, write) => self.write(account, &table, write, limit).await,
            TableCommand::TransactEntities(transaction) => self.transact(account, transaction, limit).await,
            TableCommand::ProbeTable(table, refusal) => {
                self.find(account, &table).await?;
                Err(refusal.into())
            }
        }
    }

    async fn query(
        &self,
        account: &AccountName,
        query: QueryEntities,
        limit: Option<&KeyLimit>,
        budget: Option<Arc<dyn AnswerBudget>>,
    ) -> Result<TableOutcome, Failure> {
        let table = self.find(account, &query.table).await?;
        let progress = RowsVisited::default();
        let reading = Reading {
            engine: self.engine.clone(),
            clock: self.clock.clone(),
            space: table.space,
            limit: limit.cloned(),
            budget,
            progress: progress.clone(),
            pages_end_with_partitions: self.pages_end_with_partitions,
        };
        let read = Box::pin(query_entities(reading, query));
        self.long_reads.run(progress, read).await.map(TableOutcome::EntitiesQueried)
    }

    async fn get(
        &self,
        account: &AccountName,
        get: &GetEntity,
        limit: Option<&KeyLimit>,
    ) -> Result<TableOutcome, Failure> {
        let table = self.find(account, &get.table).await?;
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
    ) -> Result<TableOutcome, Failure> {
        let table = self.find(account, table).await?;
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
    ) -> Result<TableOutcome, Failure> {
        // The service finds out about the table when it reads the first operation of a transaction, and says so.
        let table =
            self.find(account, &transaction.table).await.map_err(|failure| failure.at_operation(0))?;
        let outside = transaction.writes.iter().position(|write| !is_inside(limit, &write.key));
        if let Some(index) = outside {
            return Err(ServiceError::new(ErrorCode::AuthorizationFailure).at_operation(index).into());
        }
        let outcomes = transact_entities(self.engine.as_ref(), table.space, transaction.writes).await;
        outcomes.map(TableOutcome::EntitiesTransacted).map_err(|failure| match failure {
            missing if missing.is_space_missing() => {
                ServiceError::new(ErrorCode::TableNotFound).at_operation(0).caused_by(missing).into()
            }
            other => other,
        })
    }

    async fn find(&self, account: &AccountName, table: &TableName) -> Result<Arc<Resource>, Failure> {
        self.catalog.find_existing(account, ResourceKind::Table, table.folded()).await
    }
}

fn is_inside(limit: Option<&KeyLimit>, key: &EntityKey) -> bool {
    limit.is_none_or(|limit| limit.contains(key))
}
