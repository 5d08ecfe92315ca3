//! What can be asked of the table service. A command is complete and valid: names, keys, values and filters were
//! checked when it was decoded.

use crate::{
    EntityKey, EntityToken, EtagCondition, Filter, Properties, ServiceError, SignedIdentifier, TableName,
};

/// A decoded request to the table service.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum TableCommand {
    QueryTables(QueryTables),
    GetTable(TableName),
    CreateTable(TableName),
    DeleteTable(TableName),
    GetTableAcl(TableName),
    SetTableAcl(TableName, Vec<SignedIdentifier>),
    QueryEntities(QueryEntities),
    GetEntity(GetEntity),
    WriteEntity(TableName, EntityWrite),
    TransactEntities(EntityGroupTransaction),
    /// A request that is refused for what it holds, but only where its table exists: the service looks for the
    /// table first, and answers `TableNotFound` without having judged the rest.
    ProbeTable(TableName, ServiceError),
}

impl TableCommand {
    /// Whether it changes anything; such a command is refused on the secondary endpoint.
    pub fn writes(&self) -> bool {
        match self {
            Self::CreateTable(_)
            | Self::DeleteTable(_)
            | Self::SetTableAcl(..)
            | Self::WriteEntity(..)
            | Self::TransactEntities(_) => true,
            Self::QueryTables(_)
            | Self::GetTable(_)
            | Self::GetTableAcl(_)
            | Self::QueryEntities(_)
            | Self::GetEntity(_)
            | Self::ProbeTable(..) => false,
        }
    }

    /// Its name in logs and metrics: the service's own word for the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Self::QueryTables(_) => "QueryTables",
            Self::GetTable(_) => "GetTable",
            Self::CreateTable(_) => "CreateTable",
            Self::DeleteTable(_) => "DeleteTable",
            Self::GetTableAcl(_) => "GetTableAcl",
            Self::SetTableAcl(..) => "SetTableAcl",
            Self::QueryEntities(_) => "QueryEntities",
            Self::GetEntity(_) => "GetEntity",
            Self::WriteEntity(_, write) => match write.change {
                EntityChange::Insert(_) => "InsertEntity",
                EntityChange::InsertOrReplace(_) => "InsertOrReplaceEntity",
                EntityChange::InsertOrMerge(_) => "InsertOrMergeEntity",
                EntityChange::Update(..) => "UpdateEntity",
                EntityChange::Merge(..) => "MergeEntity",
                EntityChange::Delete(_) => "DeleteEntity",
            },
            Self::TransactEntities(_) => "EntityGroupTransaction",
            Self::ProbeTable(..) => "RefusedOnTable",
        }
    }

    /// The table it names, if it names one.
    pub fn table(&self) -> Option<&TableName> {
        match self {
            Self::GetTable(table)
            | Self::CreateTable(table)
            | Self::DeleteTable(table)
            | Self::GetTableAcl(table)
            | Self::SetTableAcl(table, _)
            | Self::WriteEntity(table, _)
            | Self::ProbeTable(table, _) => Some(table),
            Self::QueryEntities(query) => Some(&query.table),
            Self::GetEntity(get) => Some(&get.table),
            Self::TransactEntities(transaction) => Some(&transaction.table),
            Self::QueryTables(_) => None,
        }
    }
}

/// Query Tables.
#[derive(Clone, Debug, Default)]
pub struct QueryTables {
    /// Which tables; the only property is `TableName`.
    pub filter: Option<Filter>,
    /// How many at most on this page.
    pub top: Option<usize>,
    /// Where the page begins.
    pub from: Option<TableToken>,
}

/// Where the next page of tables begins: the lower-case name of its first table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableToken {
    /// The folded name.
    pub folded_name: Box<str>,
}

/// Query Entities.
#[derive(Clone, Debug)]
pub struct QueryEntities {
    /// The table.
    pub table: TableName,
    /// Which entities.
    pub filter: Option<Filter>,
    /// How many at most on this page.
    pub top: Option<usize>,
    /// Where the page begins.
    pub from: Option<EntityToken>,
}

/// Get Entity.
#[derive(Clone, Debug)]
pub struct GetEntity {
    /// The table.
    pub table: TableName,
    /// The entity.
    pub key: EntityKey,
}

/// A change of one entity.
#[derive(Clone, Debug)]
pub struct EntityWrite {
    /// The entity.
    pub key: EntityKey,
    /// The change.
    pub change: EntityChange,
}

/// What happens to the entity.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum EntityChange {
    Insert(Properties),
    InsertOrReplace(Properties),
    InsertOrMerge(Properties),
    Update(Properties, EtagCondition),
    Merge(Properties, EtagCondition),
    Delete(EtagCondition),
}

/// An entity group transaction: writes to one partition of one table, each entity at most once, all or nothing.
#[derive(Clone, Debug)]
pub struct EntityGroupTransaction {
    /// The table.
    pub table: TableName,
    /// The writes, at least one.
    pub writes: Vec<EntityWrite>,
}
