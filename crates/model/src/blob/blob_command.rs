//! What can be asked of single blobs.

use crate::{
    AccessTier, AppendConditions, BlobConditions, BlobHeaders, BlobMoment, BlobPath, BlobTags, BlobTarget,
    BlobType, BlockId, BlockSource, ByteRange, CopyId, CopySource, LeaseAction, LeaseId, Md5, Metadata,
    RehydratePriority, SequenceConditions, SourceConditions, TransferSums,
};

/// What a blob is created with, whichever way it comes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewBlob {
    /// Headers for whoever reads it. Its MD5 (`x-ms-blob-content-md5`) is kept as it is sent, and for Put Blob checked.
    pub headers: BlobHeaders,
    /// Metadata.
    pub metadata: Metadata,
    /// Tags.
    pub tags: BlobTags,
    /// `x-ms-access-tier`.
    pub tier: Option<AccessTier>,
}

/// Put Blob. The content comes beside it.
#[derive(Clone, Debug)]
pub struct PutBlob {
    /// Which.
    pub blob: BlobPath,
    /// What is created.
    pub kind: NewKind,
    /// Bytes that come, if the client has said how many; none come unless it is a block blob.
    pub length: Option<u64>,
    /// What the bytes must add up to.
    pub sums: TransferSums,
    /// What it is created with.
    pub new: NewBlob,
    /// When.
    pub conditions: BlobConditions,
}

/// What kind of blob is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKind {
    /// A block blob of the content that comes.
    Block,
    /// An empty append blob.
    Append,
    /// A page blob of so many bytes, all zero.
    Page {
        /// A multiple of 512.
        length: u64,
        /// `x-ms-blob-sequence-number`.
        sequence: u64,
    },
}

impl NewKind {
    /// The type of the blob.
    pub fn blob_type(self) -> BlobType {
        match self {
            Self::Block => BlobType::Block,
            Self::Append => BlobType::Append,
            Self::Page { .. } => BlobType::Page,
        }
    }
}

/// Content that is read from another blob.
#[derive(Clone, Debug)]
pub struct FromUrl {
    /// Where from.
    pub source: CopySource,
    /// Which bytes of it; `None` for all.
    pub range: Option<ByteRange>,
    /// How many bytes may be read.
    pub bytes_max: u64,
    /// What the bytes must add up to (`x-ms-source-content-md5`, `x-ms-source-content-crc64`).
    pub sums: TransferSums,
    /// When.
    pub conditions: SourceConditions,
}

/// Put Blob From URL: a block blob of the content of another blob.
#[derive(Clone, Debug)]
pub struct PutBlobFromUrl {
    /// Which.
    pub blob: BlobPath,
    /// The content.
    pub source: FromUrl,
    /// What it is created with.
    pub new: NewBlob,
    /// Headers that are not given come from the source (`x-ms-copy-source-blob-properties`).
    pub copies_headers: bool,
    /// Tags come from the source (`x-ms-copy-source-tag-option: COPY`).
    pub copies_tags: bool,
    /// When.
    pub conditions: BlobConditions,
}

/// Get Blob.
#[derive(Clone, Debug)]
pub struct GetBlob {
    /// Which.
    pub target: BlobTarget,
    /// Which bytes; `None` for all.
    pub range: Option<ByteRange>,
    /// The sum of the range that is asked for.
    pub range_sum: Option<RangeSum>,
    /// Headers that the answer has instead of the blob's, as a token says.
    pub overrides: BlobHeaders,
    /// When.
    pub conditions: BlobConditions,
}

/// Get Blob Properties.
#[derive(Clone, Debug)]
pub struct GetBlobProperties {
    /// Which.
    pub target: BlobTarget,
    /// Headers that the answer has instead of the blob's, as a token says.
    pub overrides: BlobHeaders,
    /// When.
    pub conditions: BlobConditions,
}

/// A sum of the bytes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RangeSum {
    Md5,
    Crc64,
}

/// Set Blob Properties. Headers that are not given are cleared, unless only a page blob's length or number is set.
#[derive(Clone, Debug)]
pub struct SetBlobHeaders {
    /// Which.
    pub blob: BlobPath,
    /// The headers; `None` if not one of them is given, which leaves them as they are.
    pub headers: Option<BlobHeaders>,
    /// The length of a page blob.
    pub length: Option<u64>,
    /// The sequence number of a page blob.
    pub sequence: Option<SequenceAction>,
    /// When.
    pub conditions: BlobConditions,
}

/// What becomes of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceAction {
    /// The larger of the two.
    Max(u64),
    /// This.
    Update(u64),
    /// One more.
    Increment,
}

/// Set Blob Metadata.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SetBlobMetadata {
    pub blob: BlobPath,
    pub metadata: Metadata,
    pub conditions: BlobConditions,
}

/// Set Blob Tags.
#[derive(Clone, Debug)]
pub struct SetBlobTags {
    /// Which.
    pub target: BlobTarget,
    /// The tags, all of them.
    pub tags: BlobTags,
    /// What the body must add up to.
    pub sums: TransferSums,
    /// The body as it was sent, for its sums.
    pub text: bytes::Bytes,
    /// When.
    pub conditions: BlobConditions,
}

/// Lease Blob.
#[derive(Clone, Debug)]
pub struct LeaseBlob {
    /// Which.
    pub blob: BlobPath,
    /// What is asked of the lease.
    pub action: LeaseAction,
    /// When; the lease is in the action.
    pub conditions: BlobConditions,
}

/// Snapshot Blob.
#[derive(Clone, Debug)]
pub struct SnapshotBlob {
    /// Which.
    pub blob: BlobPath,
    /// The metadata of the snapshot; that of the blob if it is empty.
    pub metadata: Metadata,
    /// When.
    pub conditions: BlobConditions,
}

/// Delete Blob.
#[derive(Clone, Debug)]
pub struct DeleteBlob {
    /// Which.
    pub target: BlobTarget,
    /// What becomes of its snapshots.
    pub snapshots: DeleteSnapshots,
    /// `deletetype=permanent`: a snapshot or version that is deleted already goes for good.
    pub is_permanent: bool,
    /// When.
    pub conditions: BlobConditions,
}

/// What Delete Blob does with snapshots (`x-ms-delete-snapshots`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeleteSnapshots {
    /// There must be none.
    #[default]
    Refuse,
    /// The blob goes with them.
    Include,
    /// They go and the blob stays.
    Only,
}

/// Copy Blob, which may go on after the answer, and Copy Blob From URL, which does not (`x-ms-requires-sync`).
#[derive(Clone, Debug)]
pub struct CopyBlob {
    /// What is written.
    pub blob: BlobPath,
    /// What is copied.
    pub source: CopySource,
    /// The answer comes when the copy is done.
    pub is_sync: bool,
    /// Metadata; that of the source if it is empty.
    pub metadata: Metadata,
    /// Tags.
    pub tags: BlobTags,
    /// Tags come from the source (`x-ms-copy-source-tag-option: COPY`).
    pub copies_tags: bool,
    /// Tier.
    pub tier: Option<AccessTier>,
    /// How soon the copy of an archived blob comes out of the archive.
    pub rehydrate: RehydratePriority,
    /// The copy of an append blob is sealed.
    pub seals: Option<bool>,
    /// What the bytes must add up to, where the answer comes when they are there.
    pub source_md5: Option<Md5>,
    /// When, as to the source.
    pub source_conditions: SourceConditions,
    /// `x-ms-source-lease-id`.
    pub source_lease: Option<LeaseId>,
    /// When, as to what is written.
    pub conditions: BlobConditions,
}

/// Abort Copy Blob.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AbortCopy {
    pub blob: BlobPath,
    pub copy: CopyId,
    pub lease: Option<LeaseId>,
}

/// Set Blob Tier.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SetBlobTier {
    pub target: BlobTarget,
    pub tier: AccessTier,
    pub rehydrate: RehydratePriority,
    pub conditions: BlobConditions,
}

/// Put Block. The content comes beside it.
#[derive(Clone, Debug)]
pub struct PutBlock {
    /// Of which blob.
    pub blob: BlobPath,
    /// Its id.
    pub id: BlockId,
    /// Bytes that come, if the client has said how many.
    pub length: Option<u64>,
    /// What the bytes must add up to.
    pub sums: TransferSums,
    /// `x-ms-lease-id`.
    pub lease: Option<LeaseId>,
}

/// Put Block From URL.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PutBlockFromUrl {
    pub blob: BlobPath,
    pub id: BlockId,
    pub source: FromUrl,
    pub lease: Option<LeaseId>,
}

/// Put Block List.
#[derive(Clone, Debug)]
pub struct PutBlockList {
    /// Of which blob.
    pub blob: BlobPath,
    /// The blocks, in order.
    pub blocks: Vec<(BlockSource, BlockId)>,
    /// What the list itself must add up to; the answer tells what it does add up to.
    pub sums: TransferSums,
    /// The list as it was sent, for its sums.
    pub text: bytes::Bytes,
    /// What the blob is created with.
    pub new: NewBlob,
    /// When.
    pub conditions: BlobConditions,
}

/// Get Block List.
#[derive(Clone, Debug)]
pub struct GetBlockList {
    /// Of which blob.
    pub target: BlobTarget,
    /// Which blocks.
    pub which: BlockListType,
    /// When.
    pub conditions: BlobConditions,
}

/// Which blocks are listed (`blocklisttype`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum BlockListType {
    #[default]
    Committed,
    Uncommitted,
    All,
}

/// Append Block. The content comes beside it.
#[derive(Clone, Debug)]
pub struct AppendBlock {
    /// To which blob.
    pub blob: BlobPath,
    /// Bytes that come, if the client has said how many.
    pub length: Option<u64>,
    /// What the bytes must add up to.
    pub sums: TransferSums,
    /// When, as to its length.
    pub append: AppendConditions,
    /// When.
    pub conditions: BlobConditions,
}

/// Append Block From URL.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AppendBlockFromUrl {
    pub blob: BlobPath,
    pub source: FromUrl,
    pub append: AppendConditions,
    pub conditions: BlobConditions,
}

/// Append Blob Seal.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SealBlob {
    pub blob: BlobPath,
    pub append: AppendConditions,
    pub conditions: BlobConditions,
}

/// Put Page with content, which comes beside it.
#[derive(Clone, Debug)]
pub struct PutPages {
    /// Of which blob.
    pub blob: BlobPath,
    /// Where the bytes go: a multiple of 512.
    pub first: u64,
    /// How many come: a multiple of 512.
    pub length: u64,
    /// What the bytes must add up to.
    pub sums: TransferSums,
    /// When, as to its sequence number.
    pub sequence: SequenceConditions,
    /// When.
    pub conditions: BlobConditions,
}

/// Put Page that clears.
#[derive(Clone, Debug)]
pub struct ClearPages {
    /// Of which blob.
    pub blob: BlobPath,
    /// The first byte: a multiple of 512.
    pub first: u64,
    /// How many: a multiple of 512.
    pub length: u64,
    /// When, as to its sequence number.
    pub sequence: SequenceConditions,
    /// When.
    pub conditions: BlobConditions,
}

/// Get Page Ranges.
#[derive(Clone, Debug)]
pub struct GetPageRanges {
    /// Of which blob.
    pub target: BlobTarget,
    /// Among which bytes; `None` for all.
    pub range: Option<ByteRange>,
    /// Only what differs from this earlier state.
    pub since: Option<BlobMoment>,
    /// The offset at which the page begins.
    pub from: Option<u64>,
    /// How many ranges at most.
    pub max: Option<u32>,
    /// The answer may end with a marker, as it can since version 2020-10-02.
    pub is_paged: bool,
    /// When.
    pub conditions: BlobConditions,
}
