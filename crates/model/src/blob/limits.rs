//! Every maximum of the blob service. Limits that are ours say so.

const MIB: u64 = 1024 * 1024;

/// Bytes of the content of one Put Blob
/// (<https://learn.microsoft.com/azure/storage/blobs/scalability-targets>); the same page has the next ones.
pub const PUT_BLOB_BYTES_MAX: u64 = 5000 * MIB;
/// Bytes of one block.
pub const BLOCK_BYTES_MAX: u64 = 4000 * MIB;
/// Blocks of a blob.
pub const BLOCKS_MAX: usize = 50_000;
/// Uncommitted blocks of a blob.
pub const UNCOMMITTED_BLOCKS_MAX: u64 = 100_000;
/// Bytes of a block id before it is encoded.
pub const BLOCK_ID_BYTES_MAX: usize = 64;
/// Bytes of a blob that Copy Blob From URL copies
/// (<https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url>).
pub const SYNC_COPY_BYTES_MAX: u64 = 256 * MIB;
/// Bytes of one Append Block (100 MiB since version 2022-11-02).
pub const APPEND_BLOCK_BYTES_MAX: u64 = 100 * MIB;
/// Bytes of one Append Block before that version
/// (<https://learn.microsoft.com/rest/api/storageservices/append-block-from-url>).
pub const APPEND_BLOCK_BYTES_MAX_OLD: u64 = 4 * MIB;
/// Blocks of an append blob.
pub const APPEND_BLOCKS_MAX: u64 = 50_000;
/// Bytes of a page.
pub const PAGE_BYTES: u64 = 512;
/// Bytes of one Put Page.
pub const PUT_PAGES_BYTES_MAX: u64 = 4 * MIB;
/// Bytes of a page blob.
pub const PAGE_BLOB_BYTES_MAX: u64 = 8 * 1024 * 1024 * MIB;
/// Ranges of pages in one answer
/// (<https://learn.microsoft.com/rest/api/storageservices/get-page-ranges>).
pub const PAGE_RANGES_MAX: u32 = 10_000;
/// Bytes of a range whose sum is asked for
/// (<https://learn.microsoft.com/rest/api/storageservices/get-blob>).
pub const RANGE_SUM_BYTES_MAX: u64 = 4 * MIB;
/// Blobs or containers on one page of a list
/// (<https://learn.microsoft.com/rest/api/storageservices/list-blobs>).
pub const BLOBS_PAGE_MAX: u32 = 5000;
/// Bytes of an XML document that a client sends (ours): 50,000 block ids are 5.3 MB.
pub const BLOB_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a batch
/// (<https://learn.microsoft.com/rest/api/storageservices/blob-batch>); the same page has the next.
pub const BLOB_BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Requests of a batch.
pub const BLOB_BATCH_PARTS_MAX: usize = 256;
/// Seconds that a lease lasts at least, unless for ever
/// (<https://learn.microsoft.com/rest/api/storageservices/lease-blob>); the same page has the next two.
pub const LEASE_SECONDS_MIN: u8 = 15;
/// Seconds that a lease lasts at most, unless for ever.
pub const LEASE_SECONDS_MAX: u8 = 60;
/// Seconds that a break can take.
pub const LEASE_BREAK_SECONDS_MAX: u8 = 60;
/// Parts of a condition on tags, and how deep they nest (ours).
pub const TAG_FILTER_PARTS_MAX: usize = 100;
/// Bytes of the address of a copy's source
/// (<https://learn.microsoft.com/rest/api/storageservices/copy-blob>).
pub const COPY_SOURCE_BYTES_MAX: usize = 2 * 1024;
/// Days for which a user delegation key is good
/// (<https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key>).
pub const USER_DELEGATION_DAYS_MAX: u64 = 7;
