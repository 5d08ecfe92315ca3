//! What can be asked of containers and of the service as a whole.

use crate::{
    ContainerConditions, ContainerName, DateTime, LeaseAction, LeaseId, Metadata, PublicAccess,
    SignedIdentifier, TagFilter, VersionConditions,
};

/// List Containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListContainers {
    /// What names begin with.
    pub prefix: Option<String>,
    /// The name at which the page begins.
    pub from: Option<String>,
    /// How many at most on this page.
    pub max: Option<u32>,
    /// Each with its metadata.
    pub with_metadata: bool,
    /// Deleted ones that can be restored too.
    pub with_deleted: bool,
    /// Those of the service's own making too.
    pub with_system: bool,
    /// The marker as it was sent, which the answer repeats.
    pub marker: Option<String>,
}

/// Create Container.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct CreateContainer {
    pub container: ContainerName,
    pub metadata: Metadata,
    pub public_access: PublicAccess,
}

/// Delete Container.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DeleteContainer {
    pub container: ContainerName,
    pub conditions: ContainerConditions,
}

/// Restore Container: the deleted one comes back under a name.
#[derive(Clone, Debug)]
pub struct RestoreContainer {
    /// The name that it gets.
    pub container: ContainerName,
    /// The name that it had.
    pub deleted_name: String,
    /// Which of those that had it.
    pub deleted_version: String,
}

/// Get Container Properties, Metadata or ACL.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GetContainer {
    pub container: ContainerName,
    pub lease: Option<LeaseId>,
}

/// Set Container Metadata.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SetContainerMetadata {
    pub container: ContainerName,
    pub metadata: Metadata,
    pub conditions: ContainerConditions,
}

/// Set Container ACL.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SetContainerAcl {
    pub container: ContainerName,
    pub identifiers: Vec<SignedIdentifier>,
    pub public_access: PublicAccess,
    pub conditions: ContainerConditions,
}

/// Lease Container.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LeaseContainer {
    pub container: ContainerName,
    pub action: LeaseAction,
    pub conditions: VersionConditions,
}

/// List Blobs.
#[derive(Clone, Debug)]
pub struct ListBlobs {
    /// Where.
    pub container: ContainerName,
    /// What names begin with.
    pub prefix: Option<String>,
    /// What ends a common prefix; the answer then has prefixes for blobs that go on behind it.
    pub delimiter: Option<String>,
    /// Where the page begins.
    pub from: Option<BlobCursor>,
    /// The name at which the list begins (`startFrom`).
    pub start_from: Option<String>,
    /// How many at most on this page, prefixes included.
    pub max: Option<u32>,
    /// What else is listed.
    pub include: ListInclude,
    /// The marker as it was sent, which the answer repeats.
    pub marker: Option<String>,
}

/// A place in a list of blobs: the state of this time of the blob of this name. Snapshots and versions come before the
/// blob itself, which is listed as of the end of time. A name that ends in the delimiter can be a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobCursor {
    /// The name; not always one of a blob.
    pub name: String,
    /// Of the state; [`DateTime::MAX`] for the blob itself.
    pub at: DateTime,
}

/// What a list of blobs has beside the blobs (`include=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub struct ListInclude {
    pub copy: bool,
    pub deleted: bool,
    /// Blobs that are deleted but have versions.
    pub deleted_with_versions: bool,
    pub immutability_policy: bool,
    pub legal_hold: bool,
    pub metadata: bool,
    pub permissions: bool,
    pub snapshots: bool,
    pub tags: bool,
    pub uncommitted_blobs: bool,
    pub versions: bool,
}

/// Find Blobs by Tags.
#[derive(Clone, Debug)]
pub struct FindBlobs {
    /// Only here; `None` for all containers, unless the condition names one.
    pub container: Option<ContainerName>,
    /// The container that the condition names (`@container`), and the text of it, if any.
    pub in_container: Option<String>,
    /// The tags that a blob must have.
    pub filter: Option<TagFilter>,
    /// The condition as it was sent, which the answer repeats.
    pub text: String,
    /// Where the page begins.
    pub from: Option<FindCursor>,
    /// How many at most on this page.
    pub max: Option<u32>,
}

/// A place in the answer of Find Blobs by Tags: blobs by container, the tag that they are found by, and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FindCursor {
    pub container: String,
    pub tag: String,
    pub value: String,
    pub name: String,
}

/// Get User Delegation Key.
#[derive(Clone, Debug)]
pub struct IssueDelegationKey {
    /// From when it is good; from now on if the client does not say.
    pub start: Option<DateTime>,
    /// Until when.
    pub expiry: DateTime,
    /// The version that the request asks for, which the key names.
    pub version: String,
    /// The key, which authorization puts in: it knows who asks and has the secret.
    pub key: Option<DelegationKey>,
}

/// A key with which the bearer of a token can sign tokens of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct DelegationKey {
    /// Who asked (`oid`).
    pub object_id: String,
    /// Of which tenant (`tid`).
    pub tenant_id: String,
    /// Good from.
    pub start: DateTime,
    /// Good until.
    pub expiry: DateTime,
    /// The service it is for: `b`.
    pub service: char,
    /// The version of the form of tokens.
    pub version: String,
    /// The key, in base64: a secret.
    pub value: String,
}

impl std::fmt::Debug for DelegationKey {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DelegationKey").field("object_id", &self.object_id).finish_non_exhaustive()
    }
}
