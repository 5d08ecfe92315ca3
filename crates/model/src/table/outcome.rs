//! What a table command gave when it succeeded.

use crate::{EntityKey, EntityToken, Etag, SignedIdentifier, StoredEntity, TableName, TableToken};

/// The result of a table command.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TableOutcome {
    TablesQueried(TablePage),
    TableFetched(TableName),
    TableCreated(TableName),
    TableDeleted,
    TableAclFetched(Vec<SignedIdentifier>),
    TableAclSet,
    EntitiesQueried(EntityPage),
    EntityFetched(StoredEntity),
    EntityWritten(WriteOutcome),
    EntitiesTransacted(Vec<WriteOutcome>),
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
    /// The most expensive kind of access among the ranges.
    pub kind: PlanKind,
    /// Key ranges that were to be read.
    pub ranges: usize,
    /// Rows read from the store.
    pub scanned: usize,
    /// Entities on the page.
    pub returned: usize,
}

/// Kinds of access, from cheap to expensive.
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
