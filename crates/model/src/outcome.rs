//! What a command gave when it succeeded.

use crate::{
    DateTime, EntityKey, EntityToken, Etag, QueueOutcome, ServiceProperties, SignedIdentifier, StoredEntity,
    TableName, TableToken,
};

/// The result of a command.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Outcome {
    TablesQueried(TablePage),
    TableFetched(TableName),
    TableCreated(TableName),
    TableDeleted,
    TableAclFetched(Vec<SignedIdentifier>),
    TableAclSet,
    ServicePropertiesFetched(Box<ServiceProperties>),
    ServicePropertiesSet,
    ServiceStatsFetched(ServiceStats),
    PreflightAllowed(PreflightAllowed),
    EntitiesQueried(EntityPage),
    EntityFetched(StoredEntity),
    EntityWritten(WriteOutcome),
    EntitiesTransacted(Vec<WriteOutcome>),
    Queue(QueueOutcome),
}

/// One page of tables.
#[derive(Clone, Debug)]
pub struct TablePage {
    /// Tables by their lower-case name, each with the case it was created with.
    pub tables: Vec<TableName>,
    /// Where the next page begins.
    pub next: Option<TableToken>,
}

/// One page of entities.
#[derive(Clone, Debug)]
pub struct EntityPage {
    /// Entities by PartitionKey, then RowKey.
    pub entities: Vec<StoredEntity>,
    /// Where the next page begins.
    pub next: Option<EntityToken>,
    /// How the query ran.
    pub plan: PlanReport,
}

/// How a query ran, for whoever designs the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanReport {
    /// The dearest kind of access among the ranges.
    pub kind: PlanKind,
    /// Key ranges that were to be read.
    pub ranges: usize,
    /// Rows read from the store.
    pub scanned: usize,
    /// Entities on the page.
    pub returned: usize,
}

/// Kinds of access, from cheap to dear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanKind {
    /// Single entities by both keys.
    Point,
    /// A range of RowKeys in one partition.
    Range,
    /// A whole partition.
    PartitionScan,
    /// A range of partitions.
    PartitionRange,
    /// The whole table.
    TableScan,
}

impl PlanKind {
    /// Its word in the `x-tavola-plan` header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::Range => "range",
            Self::PartitionScan => "partition-scan",
            Self::PartitionRange => "partition-range",
            Self::TableScan => "table-scan",
        }
    }
}

/// The result of one entity write.
#[derive(Clone, Debug)]
pub enum WriteOutcome {
    /// A plain insert; the whole entity, for a client that wants it back.
    Inserted(StoredEntity),
    /// An update, a merge or an upsert.
    Updated {
        /// Which entity.
        key: EntityKey,
        /// Its new version.
        etag: Etag,
    },
    /// A delete.
    Deleted,
}

/// Geo-replication as the secondary endpoint reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceStats {
    /// Everything written before this time is on the secondary (which here reads the same store).
    pub last_sync: DateTime,
}

/// What a browser may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreflightAllowed {
    /// `*` or the origin that asked.
    pub origin: String,
    /// The method that was asked for.
    pub method: String,
    /// The headers that were asked for.
    pub headers: Vec<String>,
    /// How long to remember this.
    pub max_age_seconds: u32,
}
