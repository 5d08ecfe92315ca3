//! What can be asked of the blob service.
//!
//! A command holds no content. Where content is uploaded, the command says how long it is if the client does, and
//! whoever executes it is given the bytes beside it.

use crate::{
    AbortCopy, AppendBlock, AppendBlockFromUrl, BlobConditions, BlobPath, BlobTarget, ClearPages,
    ContainerName, CopyBlob, CreateContainer, DeleteBlob, DeleteContainer, FindBlobs, GetBlob,
    GetBlobProperties, GetBlockList, GetContainer, GetPageRanges, IssueDelegationKey, LeaseBlob,
    LeaseContainer, ListBlobs, ListContainers, PutBlob, PutBlobFromUrl, PutBlock, PutBlockFromUrl,
    PutBlockList, PutPages, RestoreContainer, SealBlob, SetBlobHeaders, SetBlobMetadata, SetBlobTags,
    SetBlobTier, SetContainerAcl, SetContainerMetadata, SnapshotBlob,
};

/// A request to the blob service, understood.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum BlobCommand {
    ListContainers(ListContainers),
    FindBlobsByTags(FindBlobs),
    GetAccountInformation(Option<ContainerName>),
    GetUserDelegationKey(IssueDelegationKey),
    /// Its parts are requests of their own, each with its own credentials: whoever received it has them answered one by
    /// one. Sent for the whole account or for one container, which all parts are then in.
    SubmitBatch(Option<ContainerName>),

    CreateContainer(CreateContainer),
    DeleteContainer(DeleteContainer),
    RestoreContainer(RestoreContainer),
    GetContainerProperties(GetContainer),
    GetContainerMetadata(GetContainer),
    SetContainerMetadata(SetContainerMetadata),
    GetContainerAcl(GetContainer),
    SetContainerAcl(SetContainerAcl),
    LeaseContainer(LeaseContainer),
    ListBlobs(ListBlobs),

    PutBlob(PutBlob),
    PutBlobFromUrl(Box<PutBlobFromUrl>),
    GetBlob(GetBlob),
    GetBlobProperties(GetBlobProperties),
    SetBlobProperties(SetBlobHeaders),
    GetBlobMetadata(BlobTarget, BlobConditions),
    SetBlobMetadata(SetBlobMetadata),
    GetBlobTags(BlobTarget, BlobConditions),
    SetBlobTags(SetBlobTags),
    LeaseBlob(LeaseBlob),
    SnapshotBlob(SnapshotBlob),
    DeleteBlob(DeleteBlob),
    UndeleteBlob(BlobPath),
    CopyBlob(Box<CopyBlob>),
    AbortCopyBlob(AbortCopy),
    SetBlobTier(SetBlobTier),

    PutBlock(PutBlock),
    PutBlockFromUrl(Box<PutBlockFromUrl>),
    PutBlockList(PutBlockList),
    GetBlockList(GetBlockList),

    AppendBlock(AppendBlock),
    AppendBlockFromUrl(Box<AppendBlockFromUrl>),
    SealBlob(SealBlob),

    PutPages(PutPages),
    ClearPages(ClearPages),
    GetPageRanges(GetPageRanges),
}

impl BlobCommand {
    /// Whether it changes anything; such a command is refused on the secondary endpoint.
    pub fn writes(&self) -> bool {
        match self {
            Self::ListContainers(_)
            | Self::FindBlobsByTags(_)
            | Self::GetAccountInformation(_)
            | Self::GetUserDelegationKey(_)
            | Self::GetContainerProperties(_)
            | Self::GetContainerMetadata(_)
            | Self::GetContainerAcl(_)
            | Self::ListBlobs(_)
            | Self::GetBlob(_)
            | Self::GetBlobProperties(_)
            | Self::GetBlobMetadata(..)
            | Self::GetBlobTags(..)
            | Self::GetBlockList(_)
            | Self::GetPageRanges(_) => false,
            Self::SubmitBatch(_)
            | Self::CreateContainer(_)
            | Self::DeleteContainer(_)
            | Self::RestoreContainer(_)
            | Self::SetContainerMetadata(_)
            | Self::SetContainerAcl(_)
            | Self::LeaseContainer(_)
            | Self::PutBlob(_)
            | Self::PutBlobFromUrl(_)
            | Self::SetBlobProperties(_)
            | Self::SetBlobMetadata(_)
            | Self::SetBlobTags(_)
            | Self::LeaseBlob(_)
            | Self::SnapshotBlob(_)
            | Self::DeleteBlob(_)
            | Self::UndeleteBlob(_)
            | Self::CopyBlob(_)
            | Self::AbortCopyBlob(_)
            | Self::SetBlobTier(_)
            | Self::PutBlock(_)
            | Self::PutBlockFromUrl(_)
            | Self::PutBlockList(_)
            | Self::AppendBlock(_)
            | Self::AppendBlockFromUrl(_)
            | Self::SealBlob(_)
            | Self::PutPages(_)
            | Self::ClearPages(_) => true,
        }
    }

    /// Its name in logs and metrics: the service's own word for the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ListContainers(_) => "ListContainers",
            Self::FindBlobsByTags(_) => "FindBlobsByTags",
            Self::GetAccountInformation(_) => "GetAccountInformation",
            Self::GetUserDelegationKey(_) => "GetUserDelegationKey",
            Self::SubmitBatch(_) => "BlobBatch",
            Self::CreateContainer(_) => "CreateContainer",
            Self::DeleteContainer(_) => "DeleteContainer",
            Self::RestoreContainer(_) => "RestoreContainer",
            Self::GetContainerProperties(_) => "GetContainerProperties",
            Self::GetContainerMetadata(_) => "GetContainerMetadata",
            Self::SetContainerMetadata(_) => "SetContainerMetadata",
            Self::GetContainerAcl(_) => "GetContainerACL",
            Self::SetContainerAcl(_) => "SetContainerACL",
            Self::LeaseContainer(_) => "LeaseContainer",
            Self::ListBlobs(_) => "ListBlobs",
            Self::PutBlob(_) => "PutBlob",
            Self::PutBlobFromUrl(_) => "PutBlobFromURL",
            Self::GetBlob(_) => "GetBlob",
            Self::GetBlobProperties(_) => "GetBlobProperties",
            Self::SetBlobProperties(_) => "SetBlobProperties",
            Self::GetBlobMetadata(..) => "GetBlobMetadata",
            Self::SetBlobMetadata(_) => "SetBlobMetadata",
            Self::GetBlobTags(..) => "GetBlobTags",
            Self::SetBlobTags(_) => "SetBlobTags",
            Self::LeaseBlob(_) => "LeaseBlob",
            Self::SnapshotBlob(_) => "SnapshotBlob",
            Self::DeleteBlob(_) => "DeleteBlob",
            Self::UndeleteBlob(_) => "UndeleteBlob",
            Self::CopyBlob(_) => "CopyBlob",
            Self::AbortCopyBlob(_) => "AbortCopyBlob",
            Self::SetBlobTier(_) => "SetBlobTier",
            Self::PutBlock(_) => "PutBlock",
            Self::PutBlockFromUrl(_) => "PutBlockFromURL",
            Self::PutBlockList(_) => "PutBlockList",
            Self::GetBlockList(_) => "GetBlockList",
            Self::AppendBlock(_) => "AppendBlock",
            Self::AppendBlockFromUrl(_) => "AppendBlockFromURL",
            Self::SealBlob(_) => "SealBlob",
            Self::PutPages(_) => "PutPage",
            Self::ClearPages(_) => "ClearPage",
            Self::GetPageRanges(_) => "GetPageRanges",
        }
    }

    /// The container it names, if it names one.
    pub fn container(&self) -> Option<&ContainerName> {
        match self {
            Self::ListContainers(_) | Self::GetUserDelegationKey(_) => None,
            Self::FindBlobsByTags(find) => find.container.as_ref(),
            Self::GetAccountInformation(container) | Self::SubmitBatch(container) => container.as_ref(),
            Self::CreateContainer(create) => Some(&create.container),
            Self::DeleteContainer(delete) => Some(&delete.container),
            Self::RestoreContainer(restore) => Some(&restore.container),
            Self::GetContainerProperties(get)
            | Self::GetContainerMetadata(get)
            | Self::GetContainerAcl(get) => Some(&get.container),
            Self::SetContainerMetadata(set) => Some(&set.container),
            Self::SetContainerAcl(set) => Some(&set.container),
            Self::LeaseContainer(lease) => Some(&lease.container),
            Self::ListBlobs(list) => Some(&list.container),
            _ => self.blob().map(|blob| &blob.container),
        }
    }

    /// The blob it names, if it names one.
    pub fn blob(&self) -> Option<&BlobPath> {
        match self {
            Self::ListContainers(_)
            | Self::FindBlobsByTags(_)
            | Self::GetAccountInformation(_)
            | Self::GetUserDelegationKey(_)
            | Self::SubmitBatch(_)
            | Self::CreateContainer(_)
            | Self::DeleteContainer(_)
            | Self::RestoreContainer(_)
            | Self::GetContainerProperties(_)
            | Self::GetContainerMetadata(_)
            | Self::SetContainerMetadata(_)
            | Self::GetContainerAcl(_)
            | Self::SetContainerAcl(_)
            | Self::LeaseContainer(_)
            | Self::ListBlobs(_) => None,
            Self::PutBlob(put) => Some(&put.blob),
            Self::PutBlobFromUrl(put) => Some(&put.blob),
            Self::GetBlob(get) => Some(&get.target.path),
            Self::GetBlobProperties(get) => Some(&get.target.path),
            Self::GetBlobMetadata(target, _) | Self::GetBlobTags(target, _) => Some(&target.path),
            Self::SetBlobProperties(set) => Some(&set.blob),
            Self::SetBlobMetadata(set) => Some(&set.blob),
            Self::SetBlobTags(set) => Some(&set.target.path),
            Self::LeaseBlob(lease) => Some(&lease.blob),
            Self::SnapshotBlob(snapshot) => Some(&snapshot.blob),
            Self::DeleteBlob(delete) => Some(&delete.target.path),
            Self::UndeleteBlob(blob) => Some(blob),
            Self::CopyBlob(copy) => Some(&copy.blob),
            Self::AbortCopyBlob(abort) => Some(&abort.blob),
            Self::SetBlobTier(set) => Some(&set.target.path),
            Self::PutBlock(put) => Some(&put.blob),
            Self::PutBlockFromUrl(put) => Some(&put.blob),
            Self::PutBlockList(put) => Some(&put.blob),
            Self::GetBlockList(get) => Some(&get.target.path),
            Self::AppendBlock(append) => Some(&append.blob),
            Self::AppendBlockFromUrl(append) => Some(&append.blob),
            Self::SealBlob(seal) => Some(&seal.blob),
            Self::PutPages(put) => Some(&put.blob),
            Self::ClearPages(clear) => Some(&clear.blob),
            Self::GetPageRanges(get) => Some(&get.target.path),
        }
    }

    /// Which state of the blob it names is meant, where it names one.
    pub fn target(&self) -> Option<&BlobTarget> {
        match self {
            Self::GetBlob(get) => Some(&get.target),
            Self::GetBlobProperties(get) => Some(&get.target),
            Self::GetBlobMetadata(target, _) | Self::GetBlobTags(target, _) => Some(target),
            Self::SetBlobTags(set) => Some(&set.target),
            Self::DeleteBlob(delete) => Some(&delete.target),
            Self::SetBlobTier(set) => Some(&set.target),
            Self::GetBlockList(get) => Some(&get.target),
            Self::GetPageRanges(get) => Some(&get.target),
            _ => None,
        }
    }

    /// How the content comes that the client uploads with it; `None` if it takes none.
    pub fn upload(&self) -> Option<Upload> {
        let (length, bytes_max) = match self {
            Self::PutBlob(put) => (put.length, super::PUT_BLOB_BYTES_MAX),
            Self::PutBlock(put) => (put.length, super::BLOCK_BYTES_MAX),
            Self::AppendBlock(append) => (append.length, super::APPEND_BLOCK_BYTES_MAX),
            Self::PutPages(put) => (Some(put.length), super::PUT_PAGES_BYTES_MAX),
            _ => return None,
        };
        Some(Upload { length, bytes_max })
    }

    /// The source of a copy, which must be readable for the caller too.
    pub fn source(&self) -> Option<&crate::CopySource> {
        match self {
            Self::PutBlobFromUrl(put) => Some(&put.source.source),
            Self::CopyBlob(copy) => Some(&copy.source),
            Self::PutBlockFromUrl(put) => Some(&put.source.source),
            Self::AppendBlockFromUrl(append) => Some(&append.source.source),
            _ => None,
        }
    }
}

/// The content that comes with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Bytes, if the client has said how many.
    pub length: Option<u64>,
    /// Bytes at most.
    pub bytes_max: u64,
}
