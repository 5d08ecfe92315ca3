//! The nouns of the blob service.

mod blob_command;
mod command;
mod conditions;
mod container_command;
mod content;
mod copy;
mod etag;
mod limits;
mod name;
mod outcome;
mod tags;

pub use blob_command::{
    AbortCopy, AppendBlock, AppendBlockFromUrl, BlockListType, ClearPages, CopyBlob, DeleteBlob,
    DeleteSnapshots, FromUrl, GetBlob, GetBlobProperties, GetBlockList, GetPageRanges, LeaseBlob, NewBlob,
    NewKind, PutBlob, PutBlobFromUrl, PutBlock, PutBlockFromUrl, PutBlockList, PutPages, RangeSum, SealBlob,
    SequenceAction, SetBlobHeaders, SetBlobMetadata, SetBlobTags, SetBlobTier, SnapshotBlob,
};
pub use command::{BlobCommand, Upload};
pub use conditions::{
    AppendConditions, BlobConditions, ContainerConditions, SequenceConditions, SourceConditions,
    VersionConditions,
};
pub use container_command::{
    BlobCursor, CreateContainer, DelegationKey, DeleteContainer, FindBlobs, FindCursor, GetContainer,
    IssueDelegationKey, LeaseContainer, ListBlobs, ListContainers, ListInclude, RestoreContainer,
    SetContainerAcl, SetContainerMetadata,
};
pub use content::{
    AccessTier, BlobHeaders, BlobType, BlockId, BlockSource, ByteRange, Crc64, Md5, RehydratePriority,
    TierShown, TransferSums,
};
pub use copy::{CopyId, CopyShown, CopySource, CopyStatus};
pub use etag::{BlobEtag, EtagMatch};
pub use limits::*;
pub use name::{BlobMoment, BlobName, BlobPath, BlobTarget, ContainerName};
pub use outcome::*;
pub use tags::{BlobTags, TAG_NAME_CHARS_MAX, TAG_VALUE_CHARS_MAX, TAGS_MAX, TagComparison, TagFilter};
