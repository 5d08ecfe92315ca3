//! Every maximum of the services, in one place.
//!
//! Table limits: <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model>
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
/// Stored access policies of a table.
pub const ACL_IDENTIFIERS_MAX: usize = 5;
/// Characters of a stored access policy's id.
pub const ACL_ID_CHARS_MAX: usize = 64;
/// CORS rules of a service.
pub const CORS_RULES_MAX: usize = 5;
/// Days of a retention policy.
pub const RETENTION_DAYS_MAX: u32 = 365;
/// Bytes of the text of a message
/// (<https://learn.microsoft.com/rest/api/storageservices/put-message>); the same page has the next two.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Seconds that a message can be hidden at once.
pub const MESSAGE_HIDDEN_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// Seconds that a message lives if its client does not say; before version 2017-07-29 also the most it can say.
pub const MESSAGE_LIFE_SECONDS_DEFAULT: u32 = 7 * 24 * 60 * 60;
/// Seconds that a message is hidden after a get that does not say.
pub const MESSAGE_HIDDEN_SECONDS_DEFAULT: u32 = 30;
/// Messages of one get or peek
/// (<https://learn.microsoft.com/rest/api/storageservices/get-messages>).
pub const MESSAGES_MAX: u32 = 32;
/// Queues on one page
/// (<https://learn.microsoft.com/rest/api/storageservices/list-queues1>).
pub const QUEUES_PAGE_MAX: u32 = 5000;
/// Bytes of all names and values of a queue's metadata
/// (<https://learn.microsoft.com/rest/api/storageservices/setting-and-retrieving-properties-and-metadata-for-blob-resources>).
pub const METADATA_BYTES_MAX: usize = 8 * 1024;
/// JSON nesting accepted before a body is refused (ours; entities are flat).
pub const JSON_NESTING_MAX: usize = 16;
/// Bytes of a client's own request id; a longer one is not echoed
/// (<https://learn.microsoft.com/rest/api/storageservices/table-service-rest-api-operations>).
pub const CLIENT_REQUEST_ID_BYTES_MAX: usize = 1024;
/// Bytes of a Host header: a name of 253 characters and a port.
pub const HOST_BYTES_MAX: usize = 260;
/// Bytes of a `$select` (ours): every entity of a page is answered with every name it lacks.
pub const SELECT_BYTES_MAX: usize = 16 * 1024;
