//! Creating, deleting and listing tables, and their stored access policies.

use std::ops::ControlFlow;

use tavola_model::{
    AccountName, EdmValue, ErrorCode, Filter, FilterNode, Metadata, PAGE_ITEMS_MAX, QueryTables,
    SignedIdentifier, TableName, TablePage, TableToken,
};

use super::Tables;
use super::matches::evaluate;
use crate::catalog::{Created, Resource, ResourceKind, to_its_end};
use crate::failure::Failure;

/// A name no table can have: its path is that of the list of tables. Recorded: creating it is answered with
/// `ResourceNotFound`.
const RESERVED_NAME: &str = "tables";

impl Tables {
    pub async fn create(&self, account: &AccountName, table: &TableName) -> Result<(), Failure> {
        if table.folded() == RESERVED_NAME {
            return Err(ErrorCode::ResourceNotFound.into());
        }
        let (catalog, account, name) = (self.catalog.clone(), account.clone(), table.clone());
        let create = async move {
            let (key, text) = (name.folded(), name.as_str());
            catalog.create(&account, ResourceKind::Table, key, text, Metadata::default()).await
        };
        match to_its_end(create).await? {
            Created::New => Ok(()),
            Created::Existed(_) => Err(ErrorCode::TableAlreadyExists.into()),
        }
    }

    pub async fn delete(&self, account: &AccountName, table: &TableName) -> Result<(), Failure> {
        let (catalog, account, name) = (self.catalog.clone(), account.clone(), table.clone());
        let delay = self.delete_delay;
        let delete = async move {
            let deleted = catalog.delete(&account, ResourceKind::Table, name.folded(), delay).await?;
            deleted.map(drop).ok_or_else(|| ErrorCode::ResourceNotFound.into())
        };
        to_its_end(delete).await
    }

    /// Replaces the stored access policies of a table.
    pub async fn set_acl(
        &self,
        account: &AccountName,
        table: &TableName,
        identifiers: Vec<SignedIdentifier>,
    ) -> Result<(), Failure> {
        let (catalog, account, name) = (self.catalog.clone(), account.clone(), table.clone());
        let change = async move {
            let with_policies = |table: Resource| Resource { identifiers: identifiers.clone(), ..table };
            catalog.update(&account, ResourceKind::Table, name.folded(), with_policies).await
        };
        to_its_end(change).await
    }

    /// One page of the tables whose name the filter admits.
    pub async fn list(&self, account: &AccountName, query: &QueryTables) -> Result<TablePage, Failure> {
        check_table_filter(query.filter.as_ref())?;
        let top = query.top.unwrap_or(PAGE_ITEMS_MAX).min(PAGE_ITEMS_MAX);
        let mut page = TablePage { tables: Vec::new(), next: None };
        if top == 0 {
            return Ok(page);
        }
        let from = query.from.as_ref().map_or("", |token| &token.folded_name);
        let mut failure = None;
        let mut visit = |table: Resource| {
            let name = match table_name(&table) {
                Ok(name) => name,
                Err(damage) => {
                    failure = Some(damage);
                    return ControlFlow::Break(());
                }
            };
            // The real service does not list them either.
            if name.is_metrics() {
                return ControlFlow::Continue(());
            }
            if query.filter.as_ref().is_some_and(|filter| !admits_name(filter, name.folded())) {
                return ControlFlow::Continue(());
            }
            if page.tables.len() == top {
                page.next = Some(TableToken { folded_name: name.folded().into() });
                return ControlFlow::Break(());
            }
            page.tables.push(name);
            ControlFlow::Continue(())
        };
        self.catalog.list(account, ResourceKind::Table, from, &mut visit).await?;
        failure.map_or(Ok(page), Err)
    }
}

/// The name of a table as it was created.
pub(super) fn table_name(table: &Resource) -> Result<TableName, Failure> {
    let metrics = TableName::parse_metrics(&table.name);
    let name = metrics.map_or_else(|| TableName::parse(&table.name), Ok);
    name.map_err(|_| Failure::damaged(table.space, "the name of a table"))
}

/// Tables have one property. The service fails on a filter that names another (a recorded
/// `$filter=TableNameeqAtestAnuas` answers 500).
fn check_table_filter(filter: Option<&Filter>) -> Result<(), Failure> {
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
