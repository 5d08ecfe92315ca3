//! Every maximum of the table service:
//! <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model>
//! and <https://learn.microsoft.com/azure/storage/tables/scalability-targets>. Limits that are ours say so.

/// Custom properties of an entity, beside PartitionKey, RowKey and Timestamp.
pub const ENTITY_PROPERTIES_MAX: usize = 252;
/// Size of an entity by the service's own formula (`Properties::entity_bytes`).
pub const ENTITY_BYTES_MAX: usize = 1024 * 1024;
/// Characters (UTF-16 units) of a property name.
pub const PROPERTY_NAME_UNITS_MAX: usize = 255;
/// Bytes of a binary value; a string may have half as many UTF-16 units.
pub const PROPERTY_VALUE_BYTES_MAX: usize = 64 * 1024;
/// UTF-16 units of a PartitionKey or RowKey (1 KiB).
pub const KEY_UNITS_MAX: usize = 512;
/// Operations of an entity group transaction.
pub const TRANSACTION_OPERATIONS_MAX: usize = 100;
/// Bytes of the body of an entity group transaction.
pub const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of the body of a single table request. An entity of 1 MiB may need more as JSON text: base64,
/// escapes and annotations at most sextuple it (a `\uXXXX` stands for two bytes of the limit).
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Entities or tables on one page.
pub const PAGE_ITEMS_MAX: usize = 1000;
/// Stored bytes after which a page ends early (ours; keeps a page of large entities from filling memory).
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Milliseconds after which a query answers with what it has and a continuation.
pub const PAGE_TIME_MS_MAX: u64 = 5_000;
/// Comparisons in one `$filter`. The documented limit is 15; the real service is not known to enforce it and
/// design-guide queries exceed it, so this bound is ours and only keeps work bounded.
pub const FILTER_COMPARISONS_MAX: usize = 512;
/// Parentheses and `not` nested in a `$filter` (ours).
pub const FILTER_NESTING_MAX: usize = 256;
/// Key ranges that the planner keeps apart before it falls back to a wider one (ours).
pub const PLAN_RANGES_MAX: usize = 1024;
/// Names in a `$select`.
pub const SELECT_NAMES_MAX: usize = 512;
/// JSON nesting accepted before a body is refused (ours; entities are flat).
pub const JSON_NESTING_MAX: usize = 16;
/// Bytes of a `$select` (ours): every entity of a page is answered with every name it lacks.
pub const SELECT_BYTES_MAX: usize = 16 * 1024;
