//! What each operation of the blob service needs of a token
//! (<https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-directory-container-or-blob>,
//! <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#account-sas-permissions-by-operation>).

use tavola_model::{
    BlobCommand, BlobConditions, BlobMoment, ContainerName, DeleteBlob, ErrorCode, LeaseAction, PublicAccess,
    TagFilter,
};

use super::{Letters, Need};
use crate::sas::BlobScope;

/// What a token for a container or a blob must say.
#[derive(Clone, Debug)]
pub(crate) struct BlobNeed<'a> {
    /// The container.
    pub container: &'a ContainerName,
    /// The blob and which state of it; `None` if it is about the container.
    pub blob: Option<(&'a str, BlobMoment)>,
    /// Letters of which one is enough.
    pub letters: &'static str,
}

impl BlobNeed<'_> {
    /// Whether a token for this is about what is needed.
    pub fn is_of(&self, resource: &str, scope: BlobScope) -> bool {
        let container = self.container.as_str();
        let is_blob = |name: &str| {
            let rest = resource.strip_prefix(container).and_then(|rest| rest.strip_prefix('/'));
            rest == Some(name)
        };
        match (scope, self.blob) {
            (BlobScope::Container, _) => resource == container,
            (_, None) => false,
            (BlobScope::Blob { with_snapshots }, Some((name, of))) => {
                is_blob(name) && (of == BlobMoment::Current || with_snapshots)
            }
            // The time that the request names is the one that is signed: both come from one parameter.
            (BlobScope::Snapshot, Some((name, of))) => is_blob(name) && matches!(of, BlobMoment::Snapshot(_)),
            (BlobScope::Version, Some((name, of))) => is_blob(name) && matches!(of, BlobMoment::Version(_)),
        }
    }
}

pub(super) fn need(command: &BlobCommand) -> Need<'_> {
    let need = by_operation(command);
    let needs_tags = writes_tags(command) || tag_condition(command).is_some();
    Need { all_of: if needs_tags { "t" } else { "" }, ..need }
}

fn by_operation(command: &BlobCommand) -> Need<'_> {
    match command {
        BlobCommand::ListContainers(_) => Need::account('s', "l"),
        BlobCommand::FindBlobsByTags(find) => match &find.container {
            None => Need::account('o', "f"),
            Some(container) => of_container(('o', "f"), container, "f"),
        },
        // Whoever holds any token may know what kind of account it is for; the parts of a batch are asked one by one.
        BlobCommand::GetAccountInformation(_) | BlobCommand::SubmitBatch(_) => {
            Need { is_for_any_token: true, ..Need::base() }
        }
        BlobCommand::GetUserDelegationKey(_) => Need { issues_key: true, ..Need::base() },
        BlobCommand::CreateContainer(_) => Need::account('c', "cw"),
        BlobCommand::DeleteContainer(_) => Need::account('c', "d"),
        BlobCommand::RestoreContainer(_) => Need::account('c', "w"),
        BlobCommand::GetContainerProperties(_) | BlobCommand::GetContainerMetadata(_) => {
            Need::account('c', "r")
        }
        BlobCommand::SetContainerMetadata(_) => Need::account('c', "w"),
        BlobCommand::GetContainerAcl(_) | BlobCommand::SetContainerAcl(_) => {
            Need::owner_alone(ErrorCode::AuthorizationFailure)
        }
        BlobCommand::LeaseContainer(lease) => Need::account('c', lease_letters(&lease.action)),
        BlobCommand::ListBlobs(list) => of_container(('c', "l"), &list.container, "l"),

        BlobCommand::PutBlob(_)
        | BlobCommand::PutBlobFromUrl(_)
        | BlobCommand::CopyBlob(_)
        | BlobCommand::PutBlockList(_) => Need { replaces: true, ..of_blob(command, "cw") },
        BlobCommand::PutBlock(_) | BlobCommand::PutBlockFromUrl(_) | BlobCommand::SnapshotBlob(_) => {
            of_blob(command, "cw")
        }
        BlobCommand::GetBlob(_)
        | BlobCommand::GetBlobProperties(_)
        | BlobCommand::GetBlobMetadata(..)
        | BlobCommand::GetBlockList(_)
        | BlobCommand::GetPageRanges(_) => of_blob(command, "r"),
        BlobCommand::GetBlobTags(..) | BlobCommand::SetBlobTags(_) => of_blob(command, "t"),
        BlobCommand::SetBlobProperties(_)
        | BlobCommand::SetBlobMetadata(_)
        | BlobCommand::UndeleteBlob(_)
        | BlobCommand::AbortCopyBlob(_)
        | BlobCommand::SetBlobTier(_)
        | BlobCommand::SealBlob(_)
        | BlobCommand::PutPages(_)
        | BlobCommand::ClearPages(_) => of_blob(command, "w"),
        BlobCommand::LeaseBlob(lease) => of_blob(command, lease_letters(&lease.action)),
        BlobCommand::DeleteBlob(delete) => of_blob(command, delete_letters(delete)),
        BlobCommand::AppendBlock(_) | BlobCommand::AppendBlockFromUrl(_) => of_blob(command, "aw"),
    }
}

/// Whoever may delete may break a lease that is in the way.
fn lease_letters(action: &LeaseAction) -> &'static str {
    if matches!(action, LeaseAction::Break { .. }) { "wd" } else { "w" }
}

fn delete_letters(delete: &DeleteBlob) -> &'static str {
    match delete.target.moment {
        _ if delete.is_permanent => "y",
        BlobMoment::Version(_) => "x",
        BlobMoment::Current | BlobMoment::Snapshot(_) => "d",
    }
}

fn of_container<'a>(
    (resource_type, account_letters): (char, &'static str),
    container: &'a ContainerName,
    letters: &'static str,
) -> Need<'a> {
    Need {
        account_sas: Some((resource_type, Letters::AnyOf(account_letters))),
        blob: Some(BlobNeed { container, blob: None, letters }),
        ..Need::base()
    }
}

fn of_blob<'a>(command: &'a BlobCommand, letters: &'static str) -> Need<'a> {
    let moment = command.target().map(|target| target.moment).unwrap_or_default();
    let blob = command.blob().map(|path| BlobNeed {
        container: &path.container,
        blob: Some((path.name.as_str(), moment)),
        letters,
    });
    Need { account_sas: Some(('o', Letters::AnyOf(letters))), blob, ..Need::base() }
}

/// Whether tags are set along with something else.
fn writes_tags(command: &BlobCommand) -> bool {
    match command {
        BlobCommand::PutBlob(put) => !put.new.tags.is_empty(),
        BlobCommand::PutBlobFromUrl(put) => !put.new.tags.is_empty() || put.copies_tags,
        BlobCommand::PutBlockList(put) => !put.new.tags.is_empty(),
        BlobCommand::CopyBlob(copy) => !copy.tags.is_empty() || copy.copies_tags,
        _ => false,
    }
}

/// The condition on tags: asking for them tells of them.
fn tag_condition(command: &BlobCommand) -> Option<&TagFilter> {
    let conditions: &BlobConditions = match command {
        BlobCommand::PutBlob(put) => &put.conditions,
        BlobCommand::PutBlobFromUrl(put) => &put.conditions,
        BlobCommand::GetBlob(get) => &get.conditions,
        BlobCommand::GetBlobProperties(get) => &get.conditions,
        BlobCommand::GetBlobMetadata(_, conditions) | BlobCommand::GetBlobTags(_, conditions) => conditions,
        BlobCommand::SetBlobProperties(set) => &set.conditions,
        BlobCommand::SetBlobMetadata(set) => &set.conditions,
        BlobCommand::SetBlobTags(set) => &set.conditions,
        BlobCommand::LeaseBlob(lease) => &lease.conditions,
        BlobCommand::SnapshotBlob(snapshot) => &snapshot.conditions,
        BlobCommand::DeleteBlob(delete) => &delete.conditions,
        BlobCommand::CopyBlob(copy) => &copy.conditions,
        BlobCommand::SetBlobTier(set) => &set.conditions,
        BlobCommand::PutBlockList(put) => &put.conditions,
        BlobCommand::GetBlockList(get) => &get.conditions,
        BlobCommand::AppendBlock(append) => &append.conditions,
        BlobCommand::AppendBlockFromUrl(append) => &append.conditions,
        BlobCommand::SealBlob(seal) => &seal.conditions,
        BlobCommand::PutPages(put) => &put.conditions,
        BlobCommand::ClearPages(clear) => &clear.conditions,
        BlobCommand::GetPageRanges(get) => &get.conditions,
        BlobCommand::ListContainers(_)
        | BlobCommand::FindBlobsByTags(_)
        | BlobCommand::GetAccountInformation(_)
        | BlobCommand::GetUserDelegationKey(_)
        | BlobCommand::SubmitBatch(_)
        | BlobCommand::CreateContainer(_)
        | BlobCommand::DeleteContainer(_)
        | BlobCommand::RestoreContainer(_)
        | BlobCommand::GetContainerProperties(_)
        | BlobCommand::GetContainerMetadata(_)
        | BlobCommand::SetContainerMetadata(_)
        | BlobCommand::GetContainerAcl(_)
        | BlobCommand::SetContainerAcl(_)
        | BlobCommand::LeaseContainer(_)
        | BlobCommand::ListBlobs(_)
        | BlobCommand::UndeleteBlob(_)
        | BlobCommand::AbortCopyBlob(_)
        | BlobCommand::PutBlock(_)
        | BlobCommand::PutBlockFromUrl(_) => return None,
    };
    conditions.if_tags.as_ref()
}

/// How public a container must be for someone without credentials; `None` if it is never enough.
pub(crate) fn public_access(command: &BlobCommand) -> Option<(&ContainerName, PublicAccess)> {
    match command {
        BlobCommand::GetBlob(_)
        | BlobCommand::GetBlobProperties(_)
        | BlobCommand::GetBlobMetadata(..)
        | BlobCommand::GetBlockList(_)
        | BlobCommand::GetPageRanges(_)
            if tag_condition(command).is_none() =>
        {
            command.container().map(|container| (container, PublicAccess::Blob))
        }
        BlobCommand::GetContainerProperties(_)
        | BlobCommand::GetContainerMetadata(_)
        | BlobCommand::ListBlobs(_) => {
            command.container().map(|container| (container, PublicAccess::Container))
        }
        _ => None,
    }
}
