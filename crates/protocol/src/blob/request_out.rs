//! Requests of a client to the blob service: containers, lists, reads, leases, copies. What uploads content is in
//! `upload_out.rs`.

use http::Method;
use tavola_model::{
    BlobConditions, BlobMoment, BlobPath, BlobTarget, BlockListType, ByteRange, ContainerConditions,
    ContainerName, DeleteSnapshots, LeaseAction, LeaseDuration, ListInclude, Metadata, PublicAccess,
    RangeSum, ServiceError,
};

use super::conditions_out::{with_blob_conditions, with_container_conditions};
use crate::request::{Request, push_encoded};

/// What List Containers is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContainerQuery<'a> {
    /// What names begin with.
    pub prefix: Option<&'a str>,
    /// Where the page begins, as the page before said.
    pub marker: Option<&'a str>,
    /// How many at most on this page, up to 5,000.
    pub max: Option<u32>,
    /// Each with its metadata.
    pub with_metadata: bool,
}

/// What List Blobs is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlobQuery<'a> {
    /// What names begin with.
    pub prefix: Option<&'a str>,
    /// What ends a common prefix.
    pub delimiter: Option<&'a str>,
    /// Where the page begins, as the page before said.
    pub marker: Option<&'a str>,
    /// The name at which the list begins.
    pub start_from: Option<&'a str>,
    /// How many at most on this page, up to 5,000.
    pub max: Option<u32>,
    /// What else is listed.
    pub include: ListInclude,
}

pub(super) fn container_path(container: &ContainerName) -> String {
    format!("/{container}")
}

/// Segments are encoded, the slashes between them are not.
pub(super) fn blob_path(blob: &BlobPath) -> String {
    let mut path = container_path(&blob.container);
    for segment in blob.name.as_str().split('/') {
        path.push('/');
        push_encoded(segment, &mut path);
    }
    path
}

fn container(method: Method, container: &ContainerName) -> Request {
    Request::new(method, container_path(container)).with_parameter("restype", "container")
}

pub(super) fn blob(method: Method, target: &BlobTarget) -> Request {
    let request = Request::new(method, blob_path(&target.path));
    match target.moment {
        BlobMoment::Current => request,
        BlobMoment::Snapshot(time) => request.with_parameter("snapshot", &time.to_text_7_digits()),
        BlobMoment::Version(time) => request.with_parameter("versionid", &time.to_text_7_digits()),
    }
}

/// List Containers.
pub fn list_containers(query: &ContainerQuery<'_>) -> Request {
    let max = query.max.map(|max| max.to_string());
    Request::new(Method::GET, "/")
        .with_parameter("comp", "list")
        .with_optional("prefix", query.prefix)
        .with_optional("marker", query.marker)
        .with_optional("maxresults", max.as_deref())
        .with_optional("include", query.with_metadata.then_some("metadata"))
}

/// Create Container.
pub fn create_container(
    name: &ContainerName,
    metadata: &Metadata,
    public_access: PublicAccess,
) -> Result<Request, ServiceError> {
    let request = container(Method::PUT, name).with_metadata(metadata)?;
    request.with_optional_text("x-ms-blob-public-access", public_access.as_str())
}

/// Delete Container.
pub fn delete_container(
    name: &ContainerName,
    conditions: &ContainerConditions,
) -> Result<Request, ServiceError> {
    with_container_conditions(container(Method::DELETE, name), conditions)
}

/// Get Container Properties.
pub fn get_container_properties(name: &ContainerName) -> Request {
    container(Method::GET, name)
}

/// Set Container Metadata, which replaces all of it.
pub fn set_container_metadata(
    name: &ContainerName,
    metadata: &Metadata,
    conditions: &ContainerConditions,
) -> Result<Request, ServiceError> {
    let request = container(Method::PUT, name).with_parameter("comp", "metadata").with_metadata(metadata)?;
    with_container_conditions(request, conditions)
}

/// Lease Container.
pub fn lease_container(name: &ContainerName, action: &LeaseAction) -> Result<Request, ServiceError> {
    with_lease_action(container(Method::PUT, name).with_parameter("comp", "lease"), action)
}

/// List Blobs.
pub fn list_blobs(name: &ContainerName, query: &BlobQuery<'_>) -> Request {
    let max = query.max.map(|max| max.to_string());
    let include = includes(&query.include);
    container(Method::GET, name)
        .with_parameter("comp", "list")
        .with_optional("prefix", query.prefix)
        .with_optional("delimiter", query.delimiter)
        .with_optional("marker", query.marker)
        .with_optional("startFrom", query.start_from)
        .with_optional("maxresults", max.as_deref())
        .with_optional("include", Some(include.as_str()).filter(|include| !include.is_empty()))
}

fn includes(include: &ListInclude) -> String {
    let words = [
        (include.copy, "copy"),
        (include.deleted, "deleted"),
        (include.deleted_with_versions, "deletedwithversions"),
        (include.immutability_policy, "immutabilitypolicy"),
        (include.legal_hold, "legalhold"),
        (include.metadata, "metadata"),
        (include.permissions, "permissions"),
        (include.snapshots, "snapshots"),
        (include.tags, "tags"),
        (include.uncommitted_blobs, "uncommittedblobs"),
        (include.versions, "versions"),
    ];
    let words: Vec<&str> = words.iter().filter(|(is_asked, _)| *is_asked).map(|(_, word)| *word).collect();
    words.join(",")
}

/// Get Blob: all of it, or a range, with the sum of the range.
pub fn get_blob(
    target: &BlobTarget,
    range: Option<ByteRange>,
    range_sum: Option<RangeSum>,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    let range = range.map(|range| match range.last {
        Some(last) => format!("bytes={}-{last}", range.first),
        None => format!("bytes={}-", range.first),
    });
    let mut request = blob(Method::GET, target).with_optional_text("x-ms-range", range)?;
    if let Some(sum) = range_sum {
        request = request.with_static(
            match sum {
                RangeSum::Md5 => "x-ms-range-get-content-md5",
                RangeSum::Crc64 => "x-ms-range-get-content-crc64",
            },
            "true",
        );
    }
    with_blob_conditions(request, conditions)
}

/// Get Blob Properties.
pub fn get_blob_properties(
    target: &BlobTarget,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    with_blob_conditions(blob(Method::HEAD, target), conditions)
}

/// Set Blob Metadata, which replaces all of it.
pub fn set_blob_metadata(
    path: &BlobPath,
    metadata: &Metadata,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    let request = Request::new(Method::PUT, blob_path(path)).with_parameter("comp", "metadata");
    with_blob_conditions(request.with_metadata(metadata)?, conditions)
}

/// Delete Blob.
pub fn delete_blob(
    target: &BlobTarget,
    snapshots: DeleteSnapshots,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    let mut request = blob(Method::DELETE, target);
    match snapshots {
        DeleteSnapshots::Refuse => {}
        DeleteSnapshots::Include => request = request.with_static("x-ms-delete-snapshots", "include"),
        DeleteSnapshots::Only => request = request.with_static("x-ms-delete-snapshots", "only"),
    }
    with_blob_conditions(request, conditions)
}

/// Snapshot Blob.
pub fn snapshot_blob(
    path: &BlobPath,
    metadata: &Metadata,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    let request = Request::new(Method::PUT, blob_path(path)).with_parameter("comp", "snapshot");
    with_blob_conditions(request.with_metadata(metadata)?, conditions)
}

/// Lease Blob.
pub fn lease_blob(
    path: &BlobPath,
    action: &LeaseAction,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    let request = Request::new(Method::PUT, blob_path(path)).with_parameter("comp", "lease");
    let others = BlobConditions { lease: None, ..conditions.clone() };
    with_lease_action(with_blob_conditions(request, &others)?, action)
}

fn with_lease_action(request: Request, action: &LeaseAction) -> Result<Request, ServiceError> {
    const ACTION: &str = "x-ms-lease-action";
    const ID: &str = "x-ms-lease-id";
    const PROPOSED: &str = "x-ms-proposed-lease-id";
    match action {
        LeaseAction::Acquire { duration, proposed } => {
            let duration = match duration {
                LeaseDuration::Infinite => "-1".to_owned(),
                LeaseDuration::Seconds(seconds) => seconds.to_string(),
            };
            request
                .with_static(ACTION, "acquire")
                .with_text("x-ms-lease-duration", &duration)?
                .with_optional_text(PROPOSED, proposed.map(|id| id.to_string()))
        }
        LeaseAction::Renew(id) => request.with_static(ACTION, "renew").with_text(ID, &id.to_string()),
        LeaseAction::Change { id, proposed } => request
            .with_static(ACTION, "change")
            .with_text(ID, &id.to_string())?
            .with_text(PROPOSED, &proposed.to_string()),
        LeaseAction::Release(id) => request.with_static(ACTION, "release").with_text(ID, &id.to_string()),
        LeaseAction::Break { period_seconds } => {
            let period = period_seconds.map(|seconds| seconds.to_string());
            request.with_static(ACTION, "break").with_optional_text("x-ms-lease-break-period", period)
        }
    }
}

/// Copy Blob; `source` is the address of the blob, with a token if it needs one. With `is_sync` the answer comes when the
/// copy is made.
pub fn copy_blob(
    path: &BlobPath,
    source: &str,
    is_sync: bool,
    metadata: &Metadata,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    let request = Request::new(Method::PUT, blob_path(path)).with_text("x-ms-copy-source", source)?;
    let request = if is_sync { request.with_static("x-ms-requires-sync", "true") } else { request };
    with_blob_conditions(request.with_metadata(metadata)?, conditions)
}

/// Get Block List.
pub fn get_block_list(
    target: &BlobTarget,
    which: BlockListType,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    let which = match which {
        BlockListType::Committed => "committed",
        BlockListType::Uncommitted => "uncommitted",
        BlockListType::All => "all",
    };
    let request = blob(Method::GET, target).with_parameter("comp", "blocklist");
    with_blob_conditions(request.with_parameter("blocklisttype", which), conditions)
}
