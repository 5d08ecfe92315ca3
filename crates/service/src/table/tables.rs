//! Creating, deleting and listing tables, and their stored access policies.

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::{Change, Decision, EngineError, Position, ScanRange, SpaceId, StoredRow, Transacted};
use tavola_model::{
    AccountName, DateTime, EdmValue, ErrorCode, Filter, FilterNode, PAGE_ITEMS_MAX, QueryTables,
    RandomSource, ServiceError, SignedIdentifier, TableName, TablePage, TableToken,
};

use super::catalog::{Catalog, TABLE_ROW, TableState, account_partition, decode_table, table_row};
use super::matches::evaluate;
use super::record::Table;
use crate::failure::from_engine;

/// A name no table can have: its path is that of the list of tables. Recorded: creating it is answered with
/// `ResourceNotFound`.
const RESERVED_NAME: &str = "tables";

impl Catalog {
    /// Makes a space, then the row that names it: a crash between leaves a space that `start` drops.
    pub async fn create_table(
        self: &Arc<Self>,
        account: &AccountName,
        table: &TableName,
    ) -> Result<(), ServiceError> {
        let (catalog, account, name) = (self.clone(), account.clone(), table.clone());
        to_its_end(async move { catalog.create(&account, &name).await }).await
    }

    /// Removes the row, then the space: from the first step on the table is gone.
    pub async fn delete_table(
        self: &Arc<Self>,
        account: &AccountName,
        table: &TableName,
    ) -> Result<(), ServiceError> {
        let (catalog, account, name) = (self.clone(), account.clone(), table.clone());
        to_its_end(async move { catalog.delete(&account, &name).await }).await
    }

    /// Replaces the stored access policies of a table.
    pub async fn set_acl(
        self: &Arc<Self>,
        account: &AccountName,
        table: &TableName,
        identifiers: Vec<SignedIdentifier>,
    ) -> Result<(), ServiceError> {
        let (catalog, account, name) = (self.clone(), account.clone(), table.clone());
        let change = async move {
            catalog
                .change_table(&account, &name, |stored| match stored {
                    Some((table, TableState::Exists)) => {
                        Ok(Some(Table { identifiers: identifiers.clone(), ..table }))
                    }
                    Some((_, TableState::BeingDeleted)) => Err(ErrorCode::TableBeingDeleted.into()),
                    Some((_, TableState::Gone)) | None => Err(ErrorCode::TableNotFound.into()),
                })
                .await
        };
        to_its_end(change).await
    }

    /// One page of the tables whose name the filter admits.
    pub async fn query_tables(
        &self,
        account: &AccountName,
        query: &QueryTables,
    ) -> Result<TablePage, ServiceError> {
        check_table_filter(query.filter.as_ref())?;
        let top = query.top.unwrap_or(PAGE_ITEMS_MAX).min(PAGE_ITEMS_MAX);
        let mut page = TablePage { tables: Vec::new(), next: None };
        if top == 0 {
            return Ok(page);
        }
        let partition = account_partition(account);
        let first = query.from.as_ref().map_or("", |token| &token.folded_name);
        let range = ScanRange {
            from: Position::at(partition, &table_row(first)),
            before: Some(Position::at(partition, &[TABLE_ROW + 1])),
        };
        let mut unreadable = None;
        let mut visit = |row: tavola_engine::ScannedRow<'_>| {
            let table = match decode_table(&row.body) {
                Ok(table) => table,
                Err(error) => {
                    unreadable = Some(error);
                    return ControlFlow::Break(());
                }
            };
            let admitted =
                query.filter.as_ref().is_none_or(|filter| admits_name(filter, table.name.folded()));
            if !admitted || self.state_of(&table) != TableState::Exists {
                return ControlFlow::Continue(());
            }
            if page.tables.len() == top {
                page.next = Some(TableToken { folded_name: table.name.folded().into() });
                return ControlFlow::Break(());
            }
            page.tables.push(table.name);
            ControlFlow::Continue(())
        };
        self.engine.scan(SpaceId::CATALOG, &range, &mut visit).await.map_err(from_engine)?;
        unreadable.map_or(Ok(page), Err)
    }

    async fn create(&self, account: &AccountName, name: &TableName) -> Result<(), ServiceError> {
        if name.folded() == RESERVED_NAME {
            return Err(ErrorCode::ResourceNotFound.into());
        }
        if self.find(account, name).await?.is_some() {
            return Err(ErrorCode::TableAlreadyExists.into());
        }
        let now = self.clock.now();
        let space = fresh_space(now, self.random.as_ref());
        self.engine.create_space(space).await.map_err(from_engine)?;
        let created =
            Table { name: name.clone(), space, created: now, deleted_until: None, identifiers: Vec::new() };
        let kept = self
            .change_table(account, name, |stored| match stored {
                Some((_, TableState::Exists)) => Err(ErrorCode::TableAlreadyExists.into()),
                Some((_, TableState::BeingDeleted)) => Err(ErrorCode::TableBeingDeleted.into()),
                Some((_, TableState::Gone)) | None => Ok(Some(created.clone())),
            })
            .await;
        // If nobody knows whether the row was kept, the space must stay: the row may name it.
        if let Err(error) = &kept
            && error.code != ErrorCode::OperationTimedOut
        {
            self.drop_space(space).await;
        }
        kept
    }

    async fn delete(&self, account: &AccountName, name: &TableName) -> Result<(), ServiceError> {
        let delay = self.settings.table_delete_delay;
        let kept_for = self.settings.name_kept_for(delay);
        let deleted_until =
            if kept_for.is_zero() { None } else { self.clock.now().plus_seconds(kept_for.as_secs()) };
        let mut space = None;
        self.change_table(account, name, |stored| match stored {
            Some((table, TableState::Exists)) => {
                space = Some(table.space);
                Ok(deleted_until.map(|until| Table { deleted_until: Some(until), ..table }))
            }
            Some((_, TableState::BeingDeleted)) => Err(ErrorCode::TableBeingDeleted.into()),
            Some((_, TableState::Gone)) | None => Err(ErrorCode::ResourceNotFound.into()),
        })
        .await?;
        let Some(space) = space else { return Ok(()) };
        let dropped = self.drop_space(space).await;
        if dropped && delay.is_zero() && !kept_for.is_zero() {
            self.free_name(account, name, space).await;
        }
        Ok(())
    }

    /// Removes the row of a deleted table that nobody remembers any more. If that fails, the name is free when its time
    /// is over.
    async fn free_name(&self, account: &AccountName, name: &TableName, space: SpaceId) {
        let freed = self.change_table(account, name, |stored| match stored {
            Some((table, TableState::BeingDeleted | TableState::Gone)) if table.space == space => Ok(None),
            _ => Err(ErrorCode::ResourceNotFound.into()),
        });
        if let Err(error) = freed.await {
            tracing::debug!(%error, "name of a deleted table is left to its time");
        }
    }

    /// Replaces the row of a table by what `decide` makes of it; `None` removes the row.
    async fn change_table(
        &self,
        account: &AccountName,
        name: &TableName,
        mut decide: impl FnMut(Option<(Table, TableState)>) -> Result<Option<Table>, ServiceError> + Send,
    ) -> Result<(), ServiceError> {
        let mut refusal = None;
        let mut decide_row = |_, rows: &[Option<StoredRow>]| {
            let stored = rows[0].as_ref().map(|row| decode_table(&row.body)).transpose();
            let with_state = stored.map(|table| table.map(|table| (self.state_of(&table), table)));
            match with_state.and_then(|stored| decide(stored.map(|(state, table)| (table, state)))) {
                Ok(Some(table)) => {
                    Decision::Apply(vec![Change::Put { place: 0, body: table.encode().into() }])
                }
                Ok(None) => Decision::Apply(vec![Change::Delete { place: 0 }]),
                Err(error) => {
                    refusal = Some(error);
                    Decision::Refuse
                }
            }
        };
        let row = table_row(name.folded());
        let done = self
            .engine
            .transact(SpaceId::CATALOG, account_partition(account), &[&row], &mut decide_row)
            .await;
        // Whatever came of it, the next reader looks again.
        self.cache.forget_table(account, name.folded());
        match done.map_err(from_engine)? {
            Transacted::Applied(_) => Ok(()),
            Transacted::Refused => Err(refusal.expect("a decide that refuses says why")),
        }
    }

    /// Drops a space that no row names, and says whether that is done. If not, the rows take up room until the next
    /// start, no more.
    async fn drop_space(&self, space: SpaceId) -> bool {
        let dropped = self.engine.drop_space(space).await;
        if let Err(error) = &dropped {
            let error: &EngineError = error;
            tracing::warn!(%space, %error, "space is left for the next start to drop");
        }
        dropped.is_ok()
    }
}

/// An id no space has had: the time, then random bits.
pub(crate) fn fresh_space(now: DateTime, random: &dyn RandomSource) -> SpaceId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&now.ticks().to_be_bytes());
    id[8..].copy_from_slice(&random.bytes());
    SpaceId(id)
}

/// Runs a change as a task of its own, so that it ends even if nobody waits for it any more.
pub(crate) async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ServiceError> {
    match tokio::spawn(change).await {
        Ok(done) => done,
        Err(stopped) => Err(ServiceError::new(ErrorCode::OperationTimedOut).caused_by(stopped)),
    }
}

/// Tables have one property. The service fails on a filter that names another (a recorded
/// `$filter=TableNameeqAtestAnuas` answers 500).
fn check_table_filter(filter: Option<&Filter>) -> Result<(), ServiceError> {
    let names_another = |node: &FilterNode| match node {
        FilterNode::Compare(comparison) => comparison.property.name() != "TableName",
        FilterNode::Constant(_) | FilterNode::And(..) | FilterNode::Or(..) | FilterNode::Not(_) => false,
    };
    if filter.is_some_and(|filter| filter.nodes().iter().any(names_another)) {
        return Err(ErrorCode::InternalError.into());
    }
    Ok(())
}

/// Names compare without case, so both sides are folded.
fn admits_name(filter: &Filter, folded_name: &str) -> bool {
    evaluate(filter.nodes(), &mut Vec::new(), |_, comparison| {
        let value = EdmValue::String(folded_name);
        match comparison.literal() {
            EdmValue::String(text) => {
                let folded_text = text.to_ascii_lowercase();
                tavola_odata::holds(value, comparison.operator, EdmValue::String(&folded_text))
            }
            other => tavola_odata::holds(value, comparison.operator, other),
        }
    })
}
