//! What can be asked of the services; `queue_command.rs` has the queue service's part. A command is complete and valid: names, keys, values and
//! filters were checked when it was decoded.

use crate::{
    EntityKey, EntityToken, EtagCondition, Filter, Properties, QueueCommand, QueueName, ServiceError,
    ServicePropertiesPatch, SignedIdentifier, TableName,
};

/// A request, understood.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum Command {
    QueryTables(QueryTables),
    GetTable(TableName),
    CreateTable(TableName),
    DeleteTable(TableName),
    GetTableAcl(TableName),
    SetTableAcl(TableName, Vec<SignedIdentifier>),
    GetServiceProperties,
    SetServiceProperties(Box<ServicePropertiesPatch>),
    GetServiceStats,
    PreflightRequest(Preflight),
    QueryEntities(QueryEntities),
    GetEntity(GetEntity),
    WriteEntity(TableName, EntityWrite),
    TransactEntities(EntityGroupTransaction),
    /// A request that is refused for what it holds, but only where its table exists: the service looks for the
    /// table first, and answers `TableNotFound` without having judged the rest.
    ProbeTable(TableName, ServiceError),
    Queue(QueueCommand),
}

impl Command {
    /// Whether it changes anything; such a command is refused on the secondary endpoint.
    pub fn writes(&self) -> bool {
        match self {
            Command::CreateTable(_)
            | Command::DeleteTable(_)
            | Command::SetTableAcl(..)
            | Command::SetServiceProperties(_)
            | Command::WriteEntity(..)
            | Command::TransactEntities(_) => true,
            Command::QueryTables(_)
            | Command::GetTable(_)
            | Command::GetTableAcl(_)
            | Command::GetServiceProperties
            | Command::GetServiceStats
            | Command::PreflightRequest(_)
            | Command::QueryEntities(_)
            | Command::GetEntity(_)
            | Command::ProbeTable(..) => false,
            Command::Queue(command) => command.writes(),
        }
    }
}

impl Command {
    /// Its name in logs and metrics: the service's own word for the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Command::QueryTables(_) => "QueryTables",
            Command::GetTable(_) => "GetTable",
            Command::CreateTable(_) => "CreateTable",
            Command::DeleteTable(_) => "DeleteTable",
            Command::GetTableAcl(_) => "GetTableAcl",
            Command::SetTableAcl(..) => "SetTableAcl",
            Command::GetServiceProperties => "GetServiceProperties",
            Command::SetServiceProperties(_) => "SetServiceProperties",
            Command::GetServiceStats => "GetServiceStats",
            Command::PreflightRequest(_) => "PreflightRequest",
            Command::QueryEntities(_) => "QueryEntities",
            Command::GetEntity(_) => "GetEntity",
            Command::WriteEntity(_, write) => match write.change {
                EntityChange::Insert(_) => "InsertEntity",
                EntityChange::InsertOrReplace(_) => "InsertOrReplaceEntity",
                EntityChange::InsertOrMerge(_) => "InsertOrMergeEntity",
                EntityChange::Update(..) => "UpdateEntity",
                EntityChange::Merge(..) => "MergeEntity",
                EntityChange::Delete(_) => "DeleteEntity",
            },
            Command::TransactEntities(_) => "EntityGroupTransaction",
            Command::ProbeTable(..) => "RefusedOnTable",
            Command::Queue(command) => command.name(),
        }
    }

    /// The table or queue it names, if it names one.
    pub fn resource(&self) -> Option<&str> {
        let queue = if let Command::Queue(command) = self { command.queue() } else { None };
        queue.map(QueueName::as_str).or_else(|| self.table().map(TableName::as_str))
    }

    /// The table it names, if it names one.
    pub fn table(&self) -> Option<&TableName> {
        match self {
            Command::GetTable(table)
            | Command::CreateTable(table)
            | Command::DeleteTable(table)
            | Command::GetTableAcl(table)
            | Command::SetTableAcl(table, _)
            | Command::WriteEntity(table, _)
            | Command::ProbeTable(table, _) => Some(table),
            Command::QueryEntities(query) => Some(&query.table),
            Command::GetEntity(get) => Some(&get.table),
            Command::TransactEntities(transaction) => Some(&transaction.table),
            Command::QueryTables(_)
            | Command::GetServiceProperties
            | Command::SetServiceProperties(_)
            | Command::GetServiceStats
            | Command::PreflightRequest(_)
            | Command::Queue(_) => None,
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

/// What a browser asks before it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preflight {
    /// `Origin`.
    pub origin: String,
    /// `Access-Control-Request-Method`.
    pub method: String,
    /// `Access-Control-Request-Headers`, split.
    pub headers: Vec<String>,
}
