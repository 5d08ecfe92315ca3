//! Each blob command to the code that knows what it means.

use std::sync::Arc;

use tavola_model::{AccountName, BlobCommand, BlobOutcome, ErrorCode};

use super::Blobs;
use super::get::BlobStream;
use crate::execute::Sent;
use crate::failure::Failure;

/// What a command gave: the outcome, and the bytes that come with it.
type Done = (BlobOutcome, Option<BlobStream>);

impl Blobs {
    /// Does what a command says. What is sent to its client comes beside the outcome.
    pub async fn execute(
        self: &Arc<Self>,
        account: &AccountName,
        command: BlobCommand,
        sent: Sent<'_>,
    ) -> Result<Done, Failure> {
        use BlobCommand as Command;
        use BlobOutcome as Outcome;
        let Sent { upload, overwrites, budget } = sent;
        // What is large is boxed: a read does not carry what an upload or a copy needs.
        let outcome = match command {
            Command::ListContainers(list) => {
                Outcome::ContainersListed(self.list_containers(account, list, budget).await?)
            }
            Command::FindBlobsByTags(find) => {
                Outcome::BlobsFound(Box::new(self.find_blobs(account, find, budget).await?))
            }
            Command::GetAccountInformation(container) => {
                if let Some(container) = &container {
                    self.container(account, container).await?;
                }
                Outcome::AccountInformationFetched
            }
            Command::GetUserDelegationKey(issue) => {
                let key = issue.key.ok_or(ErrorCode::AuthorizationFailure)?;
                Outcome::UserDelegationKeyIssued(Box::new(key))
            }
            // Whoever received it has its parts answered one by one.
            Command::SubmitBatch(_) => return Err(ErrorCode::NotImplemented.into()),

            Command::CreateContainer(create) => {
                Outcome::ContainerCreated(self.create_container(account, create).await?)
            }
            Command::DeleteContainer(delete) => {
                self.delete_container(account, delete).await?;
                Outcome::ContainerDeleted
            }
            Command::RestoreContainer(restore) => {
                self.restore_container(account, restore).await?;
                Outcome::ContainerRestored
            }
            Command::GetContainerProperties(get) => {
                let (_, properties) = self.get_container(account, &get).await?;
                Outcome::ContainerPropertiesFetched(Box::new(properties))
            }
            Command::GetContainerMetadata(get) => {
                let (_, properties) = self.get_container(account, &get).await?;
                Outcome::ContainerMetadataFetched(properties.changed, properties.metadata)
            }
            Command::SetContainerMetadata(set) => {
                Outcome::ContainerMetadataSet(self.set_container_metadata(account, set).await?)
            }
            Command::GetContainerAcl(get) => {
                let (found, properties) = self.get_container(account, &get).await?;
                Outcome::ContainerAclFetched {
                    changed: properties.changed,
                    identifiers: found.identifiers.clone(),
                    public_access: properties.public_access,
                }
            }
            Command::SetContainerAcl(set) => {
                Outcome::ContainerAclSet(self.set_container_acl(account, set).await?)
            }
            Command::LeaseContainer(lease) => {
                let (changed, done) = self.lease_container(account, lease).await?;
                Outcome::ContainerLeased(changed, done)
            }
            Command::ListBlobs(list) => {
                Outcome::BlobsListed(Box::new(self.list_blobs(account, list, budget).await?))
            }

            Command::PutBlob(put) => {
                Outcome::BlobPut(Box::pin(self.put_blob(account, put, upload, overwrites)).await?)
            }
            Command::PutBlobFromUrl(put) => {
                Outcome::BlobPutFromUrl(Box::pin(self.put_blob_from_url(account, *put, overwrites)).await?)
            }
            Command::GetBlob(get) => {
                let (got, content) = self.get_blob(account, get, budget).await?;
                return Ok((Outcome::BlobGot(Box::new(got)), Some(content)));
            }
            Command::GetBlobProperties(get) => {
                let mut properties = self.get_properties(account, &get.target, &get.conditions).await?;
                properties.headers = properties.headers.overridden_by(&get.overrides);
                Outcome::BlobPropertiesFetched(Box::new(properties))
            }
            Command::SetBlobProperties(set) => {
                let (changed, sequence) = Box::pin(self.set_headers(account, set)).await?;
                Outcome::BlobPropertiesSet { changed, sequence }
            }
            Command::GetBlobMetadata(target, conditions) => {
                let properties = self.get_properties(account, &target, &conditions).await?;
                Outcome::BlobMetadataFetched(properties.changed, properties.metadata)
            }
            Command::SetBlobMetadata(set) => {
                let (changed, version) = self.set_metadata(account, set).await?;
                Outcome::BlobMetadataSet { changed, version }
            }
            Command::GetBlobTags(target, conditions) => {
                Outcome::BlobTagsFetched(self.get_properties(account, &target, &conditions).await?.tags)
            }
            Command::SetBlobTags(set) => {
                self.set_tags(account, set).await?;
                Outcome::BlobTagsSet
            }
            Command::LeaseBlob(lease) => {
                let (changed, done) = self.lease_blob(account, lease).await?;
                Outcome::BlobLeased(changed, done)
            }
            Command::SnapshotBlob(snapshot) => {
                let taken = self.take_snapshot(account, snapshot).await?;
                Outcome::BlobSnapshotTaken {
                    changed: taken.changed,
                    snapshot: taken.snapshot,
                    version: taken.version,
                }
            }
            Command::DeleteBlob(delete) => {
                Outcome::BlobDeleted { is_permanent: self.delete_blob(account, delete).await? }
            }
            Command::UndeleteBlob(blob) => {
                self.undelete(account, &blob).await?;
                Outcome::BlobUndeleted
            }
            Command::CopyBlob(copy) => {
                Outcome::BlobCopied(Box::pin(self.copy_blob(account, *copy, overwrites)).await?)
            }
            Command::AbortCopyBlob(abort) => {
                self.abort_copy(account, abort).await?;
                Outcome::CopyAborted
            }
            Command::SetBlobTier(set) => Outcome::BlobTierSet { is_done: self.set_tier(account, set).await? },

            Command::PutBlock(put) => Outcome::BlockPut(self.put_block(account, put, upload).await?),
            Command::PutBlockFromUrl(put) => {
                Outcome::BlockPutFromUrl(Box::pin(self.put_block_from_url(account, *put)).await?)
            }
            Command::PutBlockList(put) => {
                Outcome::BlockListPut(Box::pin(self.put_block_list(account, put, overwrites)).await?)
            }
            Command::GetBlockList(get) => {
                Outcome::BlockListFetched(self.get_block_list(account, get, budget).await?)
            }

            Command::AppendBlock(append) => {
                Outcome::BlockAppended(Box::pin(self.append_block(account, append, upload)).await?)
            }
            Command::AppendBlockFromUrl(append) => {
                Outcome::BlockAppended(Box::pin(self.append_block_from_url(account, *append)).await?)
            }
            Command::SealBlob(seal) => Outcome::BlobSealed(self.seal(account, seal).await?),

            Command::PutPages(put) => {
                Outcome::PagesPut(Box::pin(self.put_pages(account, put, upload)).await?)
            }
            Command::ClearPages(clear) => {
                Outcome::PagesCleared(Box::pin(self.clear_pages(account, clear)).await?)
            }
            Command::GetPageRanges(get) => {
                Outcome::PageRangesFetched(self.get_page_ranges(account, get, budget).await?)
            }
        };
        Ok((outcome, None))
    }
}
