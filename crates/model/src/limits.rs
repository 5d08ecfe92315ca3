//! The maxima that all services share; those of one service are in its folder. Limits that are ours say so.

/// Stored access policies of a table, queue or container.
pub const ACL_IDENTIFIERS_MAX: usize = 5;
/// Characters of a stored access policy's id.
pub const ACL_ID_CHARS_MAX: usize = 64;
/// Requests that an account of the real service is built to take in a second; enforced on request only
/// (<https://learn.microsoft.com/azure/storage/common/scalability-targets-standard-account>).
pub const ACCOUNT_REQUESTS_PER_SECOND: u32 = 20_000;
/// Entities of 1 KiB that a partition of the real service is built to take in a second; enforced on request only
/// (<https://learn.microsoft.com/azure/storage/tables/scalability-targets>).
pub const PARTITION_ENTITIES_PER_SECOND: u32 = 2_000;
/// Messages of 1 KiB that a queue of the real service is built to take in a second; enforced on request only
/// (<https://learn.microsoft.com/azure/storage/queues/scalability-targets>).
pub const QUEUE_MESSAGES_PER_SECOND: u32 = 2_000;
/// CORS rules of a service.
pub const CORS_RULES_MAX: usize = 5;
/// Days of a retention policy.
pub const RETENTION_DAYS_MAX: u32 = 365;
/// Bytes of all names and values of a resource's metadata
/// (<https://learn.microsoft.com/rest/api/storageservices/setting-and-retrieving-properties-and-metadata-for-blob-resources>).
pub const METADATA_BYTES_MAX: usize = 8 * 1024;
/// Bytes of a client's own request id; a longer one is not echoed
/// (<https://learn.microsoft.com/rest/api/storageservices/table-service-rest-api-operations>).
pub const CLIENT_REQUEST_ID_BYTES_MAX: usize = 1024;
/// Bytes of a Host header: a name of 253 characters and a port.
pub const HOST_BYTES_MAX: usize = 260;
