//! What a blob command gave when it succeeded.
//!
//! Content that is downloaded is not in the outcome; it comes beside it, as uploads do.

use crate::{
    AccessTier, BlobCursor, BlobEtag, BlobHeaders, BlobName, BlobTags, BlobType, BlockId, ContainerName,
    CopyId, CopyShown, CopyStatus, Crc64, DateTime, DelegationKey, FindBlobs, FindCursor, LeaseDone,
    LeaseShown, ListBlobs, ListContainers, Md5, Metadata, PublicAccess, ServiceError, SignedIdentifier,
    TierShown,
};

/// The result of a blob command.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BlobOutcome {
    ContainersListed(ContainerPage),
    BlobsFound(Box<FoundPage>),
    AccountInformationFetched,
    UserDelegationKeyIssued(Box<DelegationKey>),
    BatchAnswered(Vec<BatchAnswer>),

    ContainerCreated(Changed),
    ContainerDeleted,
    ContainerRestored,
    ContainerPropertiesFetched(Box<ContainerProperties>),
    ContainerMetadataFetched(Changed, Metadata),
    ContainerMetadataSet(Changed),
    ContainerAclFetched {
        changed: Changed,
        identifiers: Vec<SignedIdentifier>,
        public_access: PublicAccess,
    },
    ContainerAclSet(Changed),
    ContainerLeased(Changed, LeaseDone),
    BlobsListed(Box<BlobPage>),

    BlobPut(BlobWritten),
    BlobPutFromUrl(BlobWritten),
    BlobGot(Box<BlobGot>),
    BlobPropertiesFetched(Box<BlobProperties>),
    BlobPropertiesSet {
        changed: Changed,
        sequence: Option<u64>,
    },
    BlobMetadataFetched(Changed, Metadata),
    BlobMetadataSet {
        changed: Changed,
        version: Option<DateTime>,
    },
    BlobTagsFetched(BlobTags),
    BlobTagsSet,
    BlobLeased(Changed, LeaseDone),
    BlobSnapshotTaken {
        changed: Changed,
        snapshot: DateTime,
        version: Option<DateTime>,
    },
    /// Whether it is gone for good, not only put aside.
    BlobDeleted {
        is_permanent: bool,
    },
    BlobUndeleted,
    BlobCopied(BlobCopied),
    CopyAborted,
    /// Whether it is done already; it is not where the blob is on its way out of the archive.
    BlobTierSet {
        is_done: bool,
    },

    BlockPut(BlockWritten),
    BlockPutFromUrl(BlockWritten),
    BlockListPut(BlobWritten),
    BlockListFetched(BlockList),

    BlockAppended(BlockAppended),
    BlobSealed(Changed),

    PagesPut(PagesWritten),
    PagesCleared(PagesWritten),
    PageRangesFetched(PageRanges),
}

/// When something changed last, which is its ETag and its Last-Modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed(pub DateTime);

impl Changed {
    /// The ETag.
    pub fn etag(self) -> BlobEtag {
        BlobEtag(self.0)
    }
}

/// A container as its properties show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ContainerProperties {
    pub changed: Changed,
    pub lease: LeaseShown,
    pub public_access: PublicAccess,
    pub metadata: Metadata,
    /// When it was deleted, under which version, and for how many days it can be restored.
    pub deleted: Option<DeletedContainer>,
}

/// A container that can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DeletedContainer {
    pub version: String,
    pub at: DateTime,
    pub days_left: u32,
}

/// One page of containers.
#[derive(Clone, Debug)]
pub struct ContainerPage {
    /// What was asked for, which the answer repeats.
    pub asked: ListContainers,
    /// The containers, by name.
    pub containers: Vec<(ContainerName, ContainerProperties)>,
    /// The name at which the next page begins.
    pub next: Option<ContainerName>,
}

/// A blob as its properties show it.
#[derive(Clone, Debug, PartialEq)]
pub struct BlobProperties {
    /// What it is.
    pub kind: BlobKind,
    /// When it changed last.
    pub changed: Changed,
    /// When it was created.
    pub created: DateTime,
    /// How many bytes it has.
    pub length: u64,
    /// Its headers, or those that a token sets instead.
    pub headers: BlobHeaders,
    /// Its metadata.
    pub metadata: Metadata,
    /// Its tags; answers tell how many.
    pub tags: BlobTags,
    /// Its tier, where it has one.
    pub tier: Option<TierShown>,
    /// Its lease; snapshots and versions have none.
    pub lease: Option<LeaseShown>,
    /// The last copy into it.
    pub copy: Option<CopyShown>,
    /// Its version, where the account keeps versions.
    pub version: Option<BlobVersion>,
}

/// The type of a blob and what only blobs of that type have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobKind {
    /// A block blob.
    Block,
    /// An append blob.
    Append {
        /// Blocks that were appended.
        block_count: u64,
        /// Nothing more can be appended.
        is_sealed: bool,
    },
    /// A page blob.
    Page {
        /// Its sequence number.
        sequence: u64,
    },
}

impl BlobKind {
    /// The type.
    pub fn blob_type(self) -> BlobType {
        match self {
            Self::Block => BlobType::Block,
            Self::Append { .. } => BlobType::Append,
            Self::Page { .. } => BlobType::Page,
        }
    }
}

/// Which version of a blob is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobVersion {
    /// Its id.
    pub id: DateTime,
    /// It is the one that is read if no version is named.
    pub is_current: bool,
}

/// Get Blob: what is told before the content, which comes beside it.
#[derive(Clone, Debug)]
pub struct BlobGot {
    /// Of the whole blob.
    pub properties: BlobProperties,
    /// Which bytes come; `None` for all, where no range was asked for.
    pub range: Option<GotRange>,
    /// The sum of the range, where it was asked for.
    pub range_md5: Option<Md5>,
    /// The sum of the range, where it was asked for.
    pub range_crc64: Option<Crc64>,
}

impl BlobGot {
    /// Bytes that come.
    pub fn length(&self) -> u64 {
        self.range.map_or(self.properties.length, |range| range.length)
    }
}

/// The bytes that Get Blob answers with: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GotRange {
    pub first: u64,
    pub length: u64,
}

/// A blob that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobWritten {
    /// When.
    pub changed: Changed,
    /// The sum of what was sent, where the answer has it.
    pub md5: Option<Md5>,
    /// The sum of what was sent, where the answer has it.
    pub crc64: Option<Crc64>,
    /// The new version, where the account keeps versions.
    pub version: Option<DateTime>,
}

/// A block that was written: one of the sums is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockWritten {
    /// Where the client sent one.
    pub md5: Option<Md5>,
    /// Otherwise.
    pub crc64: Option<Crc64>,
}

/// A block that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAppended {
    /// When.
    pub changed: Changed,
    /// At which offset.
    pub offset: u64,
    /// Blocks that the blob has now.
    pub block_count: u64,
    /// Its sums.
    pub sums: BlockWritten,
}

/// Pages that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesWritten {
    /// When.
    pub changed: Changed,
    /// The sequence number.
    pub sequence: u64,
    /// Their sums; none where they were cleared.
    pub sums: BlockWritten,
}

/// A copy that was started or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobCopied {
    /// When.
    pub changed: Changed,
    /// Its id.
    pub id: CopyId,
    /// How far it is.
    pub status: CopyStatus,
    /// The sums of the content, told of copies that were made at once.
    pub md5: Option<Md5>,
    /// The sums of the content, told of copies that were made at once.
    pub crc64: Option<Crc64>,
    /// The answer came when the copy was made.
    pub is_sync: bool,
    /// The new version, where the account keeps versions.
    pub version: Option<DateTime>,
}

/// The blocks of a blob.
#[derive(Clone, Debug)]
pub struct BlockList {
    /// When the blob changed, and its length; `None` if nothing of it is committed.
    pub blob: Option<(Changed, u64)>,
    /// Committed blocks in order, if they were asked for.
    pub committed: Option<Vec<ListedBlock>>,
    /// Uncommitted blocks by id, if they were asked for.
    pub uncommitted: Option<Vec<ListedBlock>>,
}

/// A block in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ListedBlock {
    pub id: BlockId,
    pub length: u64,
}

/// The pages of a page blob that hold something.
#[derive(Clone, Debug)]
pub struct PageRanges {
    /// When the blob changed.
    pub changed: Changed,
    /// How many bytes it has.
    pub blob_length: u64,
    /// First and last byte of each range, in order.
    pub ranges: Vec<PageRange>,
    /// The offset at which the next page begins.
    pub next: Option<u64>,
    /// Ranges on this page at most, if the client said so.
    pub max: Option<u32>,
}

/// A range of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PageRange {
    pub first: u64,
    pub last: u64,
    pub is_clear: bool,
}

/// One page of blobs.
#[derive(Clone, Debug)]
pub struct BlobPage {
    /// What was asked for, which the answer repeats.
    pub asked: ListBlobs,
    /// Blobs and prefixes, by name.
    pub entries: Vec<BlobEntry>,
    /// Where the next page begins.
    pub next: Option<BlobCursor>,
}

/// One entry of a list of blobs.
#[derive(Clone, Debug)]
pub enum BlobEntry {
    /// A state of a blob.
    Blob(Box<ListedBlob>),
    /// What several names begin with, delimiter included.
    Prefix(String),
}

/// A state of a blob in a list.
#[derive(Clone, Debug)]
pub struct ListedBlob {
    /// Its name.
    pub name: BlobName,
    /// It is a snapshot of this time.
    pub snapshot: Option<DateTime>,
    /// It is deleted, but can be had back.
    pub deleted: Option<DeletedBlob>,
    /// Nothing but versions of it is left.
    pub has_versions_only: bool,
    /// Its properties; of a blob of which nothing is committed, those of an empty one.
    pub properties: BlobProperties,
    /// Nothing of it is committed.
    pub is_uncommitted: bool,
}

/// Until when a deleted blob can be had back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DeletedBlob {
    pub at: DateTime,
    pub days_left: u32,
}

/// One page of the answer of Find Blobs by Tags.
#[derive(Clone, Debug)]
pub struct FoundPage {
    /// What was asked for, which the answer repeats.
    pub asked: FindBlobs,
    /// The blobs, by container and name, each with the tags that the condition names.
    pub blobs: Vec<FoundBlob>,
    /// Where the next page begins.
    pub next: Option<FindCursor>,
}

/// A blob found by its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FoundBlob {
    pub container: ContainerName,
    pub name: BlobName,
    pub tags: BlobTags,
}

/// The answer to one request of a batch.
#[derive(Clone, Debug)]
pub struct BatchAnswer {
    /// Its number in the batch, as the client gave it (`Content-ID`).
    pub content_id: Option<String>,
    /// The client's own id of it, echoed.
    pub client_request_id: Option<String>,
    /// Our id of it.
    pub request_id: String,
    /// What became of it.
    pub result: Result<BatchDone, ServiceError>,
}

/// What a request of a batch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchDone {
    /// A blob was deleted.
    Deleted {
        /// It is gone for good.
        is_permanent: bool,
    },
    /// A tier was set.
    TierSet {
        /// It is set already.
        is_done: bool,
    },
}

/// The tier that blobs of an account have of which nobody has set one.
pub const TIER_DEFAULT: AccessTier = AccessTier::Hot;
