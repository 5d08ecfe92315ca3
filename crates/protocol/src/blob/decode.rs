//! A routed request with its headers and body to the command it asks for: what concerns containers and the service as a
//! whole. What concerns single blobs is in `decode_blob.rs` and `decode_upload.rs`.

use bytes::Bytes;
use http::HeaderMap;
use tavola_model::{
    BlobCommand, BlobPath, Command, ContainerName, CreateContainer, DeleteContainer, ErrorCode, FindBlobs,
    GetContainer, LEASE_BREAK_SECONDS_MAX, LEASE_SECONDS_MAX, LEASE_SECONDS_MIN, LeaseAction, LeaseContainer,
    LeaseDuration, ListBlobs, ListContainers, ListInclude, PublicAccess, Query, RestoreContainer,
    ServiceError, SetContainerAcl, SetContainerMetadata, StorageService,
};

use super::decode_blob as blob;
use super::decode_upload as upload;
use super::documents::parse_key_times;
use super::headers::{
    container_conditions, given, invalid_header, lease_id, missing_header, number, parsed,
    refuse_encryption_scope, refuse_unsupported, time_conditions,
};
use super::marker::{read_cursor, read_find_cursor};
use super::route::BlobRoute;
use super::tag_filter::parse_where;
use crate::metadata::read_metadata;
use crate::parameters::{invalid_value, missing, number as query_number};
use crate::version::ApiVersion;
use crate::{account, xml};

/// Permission letters of a container's stored access policies.
const LETTERS: &str = "racwdxyltmeopif";

/// A request to the blob service whose head has been read.
pub struct BlobRequest<'a> {
    /// The version it asks for.
    pub version: &'a ApiVersion,
    /// The query.
    pub query: &'a Query<'a>,
    /// Headers.
    pub headers: &'a HeaderMap,
    /// Names of metadata headers as the client wrote them; those that are missing are in lower case.
    pub metadata_names: &'a [String],
    /// The whole body, where the route has it read; nothing of one that is streamed.
    pub body: &'a Bytes,
}

impl BlobRequest<'_> {
    pub(super) fn metadata(&self) -> Result<tavola_model::Metadata, ServiceError> {
        read_metadata(self.headers, self.metadata_names)
    }
}

/// Decodes a request into a command.
pub fn decode(route: BlobRoute, request: &BlobRequest<'_>) -> Result<Command, ServiceError> {
    let headers = request.headers;
    let command = match route {
        BlobRoute::Account(route) => {
            let command = account::decode(StorageService::Blob, route, headers, request.body);
            return command.map(Command::Account);
        }
        BlobRoute::ListContainers => BlobCommand::ListContainers(list_containers(request.query)?),
        BlobRoute::FindBlobsByTags(container) => {
            BlobCommand::FindBlobsByTags(find_blobs(container, request.query)?)
        }
        BlobRoute::GetAccountInformation(container) => BlobCommand::GetAccountInformation(container),
        BlobRoute::GetUserDelegationKey => {
            BlobCommand::GetUserDelegationKey(parse_key_times(request.body, request.version)?)
        }
        BlobRoute::SubmitBatch(container) => BlobCommand::SubmitBatch(container),
        BlobRoute::CreateContainer(container) => {
            refuse_encryption_scope(headers)?;
            let (metadata, public_access) = (request.metadata()?, public_access(headers)?);
            BlobCommand::CreateContainer(CreateContainer { container, metadata, public_access })
        }
        BlobRoute::DeleteContainer(container) => {
            let conditions = container_conditions(headers)?;
            BlobCommand::DeleteContainer(DeleteContainer { container, conditions })
        }
        BlobRoute::RestoreContainer(container) => {
            BlobCommand::RestoreContainer(restore_container(container, headers)?)
        }
        BlobRoute::GetContainerProperties(container) => {
            BlobCommand::GetContainerProperties(get_container(container, headers)?)
        }
        BlobRoute::GetContainerMetadata(container) => {
            BlobCommand::GetContainerMetadata(get_container(container, headers)?)
        }
        BlobRoute::SetContainerMetadata(container) => {
            BlobCommand::SetContainerMetadata(SetContainerMetadata {
                container,
                metadata: request.metadata()?,
                conditions: container_conditions(headers)?,
            })
        }
        BlobRoute::GetContainerAcl(container) => {
            BlobCommand::GetContainerAcl(get_container(container, headers)?)
        }
        BlobRoute::SetContainerAcl(container) => BlobCommand::SetContainerAcl(SetContainerAcl {
            container,
            identifiers: xml::parse_acl(request.body, LETTERS)?,
            public_access: public_access(headers)?,
            conditions: container_conditions(headers)?,
        }),
        BlobRoute::LeaseContainer(container) => BlobCommand::LeaseContainer(LeaseContainer {
            container,
            action: lease_action(headers)?,
            conditions: time_conditions(headers)?,
        }),
        BlobRoute::ListBlobs(container) => BlobCommand::ListBlobs(list_blobs(container, request.query)?),

        BlobRoute::PutBlob(path) => of_blob(path, request, upload::put_blob)?,
        BlobRoute::PutBlobFromUrl(path) => of_blob(path, request, upload::put_blob_from_url)?,
        BlobRoute::PutBlock(path) => of_blob(path, request, upload::put_block)?,
        BlobRoute::PutBlockFromUrl(path) => of_blob(path, request, upload::put_block_from_url)?,
        BlobRoute::PutBlockList(path) => of_blob(path, request, upload::put_block_list)?,
        BlobRoute::AppendBlock(path) => of_blob(path, request, upload::append_block)?,
        BlobRoute::AppendBlockFromUrl(path) => of_blob(path, request, upload::append_block_from_url)?,
        BlobRoute::PutPages(path) => of_blob(path, request, upload::put_pages)?,
        BlobRoute::GetBlob(path) => of_blob(path, request, blob::get_blob)?,
        BlobRoute::GetBlobProperties(path) => of_blob(path, request, blob::get_properties)?,
        BlobRoute::GetBlobMetadata(path) => {
            let (target, conditions) = of_blob(path, request, blob::read)?;
            BlobCommand::GetBlobMetadata(target, conditions)
        }
        BlobRoute::GetBlobTags(path) => {
            let (target, conditions) = of_blob(path, request, blob::read)?;
            BlobCommand::GetBlobTags(target, conditions)
        }
        BlobRoute::SetBlobProperties(path) => of_blob(path, request, blob::set_properties)?,
        BlobRoute::SetBlobMetadata(path) => of_blob(path, request, blob::set_metadata)?,
        BlobRoute::SetBlobTags(path) => of_blob(path, request, blob::set_tags)?,
        BlobRoute::LeaseBlob(path) => of_blob(path, request, blob::lease)?,
        BlobRoute::SnapshotBlob(path) => of_blob(path, request, blob::snapshot)?,
        BlobRoute::DeleteBlob(path) => of_blob(path, request, blob::delete)?,
        BlobRoute::UndeleteBlob(path) => {
            of_blob(path, request, |path, _| Ok(BlobCommand::UndeleteBlob(path)))?
        }
        BlobRoute::CopyBlob(path) => of_blob(path, request, blob::copy)?,
        BlobRoute::AbortCopyBlob(path) => of_blob(path, request, blob::abort_copy)?,
        BlobRoute::SetBlobTier(path) => of_blob(path, request, blob::set_tier)?,
        BlobRoute::GetBlockList(path) => of_blob(path, request, blob::get_block_list)?,
        BlobRoute::SealBlob(path) => of_blob(path, request, blob::seal)?,
        BlobRoute::GetPageRanges(path) => of_blob(path, request, blob::get_page_ranges)?,
    };
    Ok(Command::Blob(Box::new(command)))
}

/// Decodes what concerns a single blob, which must not ask for what there is not.
fn of_blob<T>(
    path: BlobPath,
    request: &BlobRequest<'_>,
    decode: impl FnOnce(BlobPath, &BlobRequest<'_>) -> Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    refuse_unsupported(request.headers)?;
    decode(path, request)
}

fn get_container(container: ContainerName, headers: &HeaderMap) -> Result<GetContainer, ServiceError> {
    Ok(GetContainer { container, lease: lease_id(headers, "x-ms-lease-id")? })
}

fn restore_container(
    container: ContainerName,
    headers: &HeaderMap,
) -> Result<RestoreContainer, ServiceError> {
    let required =
        |name: &'static str| given(headers, name).map(str::to_owned).ok_or_else(|| missing_header(name));
    Ok(RestoreContainer {
        container,
        deleted_name: required("x-ms-deleted-container-name")?,
        deleted_version: required("x-ms-deleted-container-version")?,
    })
}

fn public_access(headers: &HeaderMap) -> Result<PublicAccess, ServiceError> {
    let access = parsed(headers, "x-ms-blob-public-access", |text| match text {
        "container" => Some(PublicAccess::Container),
        "blob" => Some(PublicAccess::Blob),
        _ => None,
    })?;
    Ok(access.unwrap_or_default())
}

/// `x-ms-lease-action` and what it takes.
pub(super) fn lease_action(headers: &HeaderMap) -> Result<LeaseAction, ServiceError> {
    const ACTION: &str = "x-ms-lease-action";
    const PROPOSED: &str = "x-ms-proposed-lease-id";
    const ID: &str = "x-ms-lease-id";
    let action = given(headers, ACTION).ok_or_else(|| missing_header(ACTION))?;
    let id = || lease_id(headers, ID)?.ok_or_else(|| missing_header(ID));
    let proposed = lease_id(headers, PROPOSED)?;
    match action.to_ascii_lowercase().as_str() {
        "acquire" => Ok(LeaseAction::Acquire { duration: lease_duration(headers)?, proposed }),
        "renew" => Ok(LeaseAction::Renew(id()?)),
        "change" => {
            Ok(LeaseAction::Change { id: id()?, proposed: proposed.ok_or_else(|| missing_header(PROPOSED))? })
        }
        "release" => Ok(LeaseAction::Release(id()?)),
        "break" => {
            const PERIOD: &str = "x-ms-lease-break-period";
            let period = number::<u8>(headers, PERIOD)?;
            match period {
                Some(seconds) if seconds > LEASE_BREAK_SECONDS_MAX => {
                    Err(invalid_header(PERIOD, &seconds.to_string()))
                }
                period_seconds => Ok(LeaseAction::Break { period_seconds }),
            }
        }
        _ => Err(invalid_header(ACTION, action)),
    }
}

fn lease_duration(headers: &HeaderMap) -> Result<LeaseDuration, ServiceError> {
    const DURATION: &str = "x-ms-lease-duration";
    let duration = parsed(headers, DURATION, |text| match text.parse::<i64>().ok()? {
        -1 => Some(LeaseDuration::Infinite),
        seconds => u8::try_from(seconds)
            .ok()
            .filter(|seconds| (LEASE_SECONDS_MIN..=LEASE_SECONDS_MAX).contains(seconds))
            .map(LeaseDuration::Seconds),
    })?;
    duration.ok_or_else(|| missing_header(DURATION))
}

fn given_parameter(query: &Query<'_>, name: &str) -> Option<String> {
    query.get(name).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The words of `include`.
fn includes<'a>(query: &'a Query<'_>) -> impl Iterator<Item = &'a str> {
    let text = query.get("include").unwrap_or_default();
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// How many a page may have; a client may ask for more than it gets.
fn page_max(query: &Query<'_>) -> Result<Option<u32>, ServiceError> {
    query_number(query, "maxresults", 1, u32::MAX)
}

fn list_containers(query: &Query<'_>) -> Result<ListContainers, ServiceError> {
    let marker = given_parameter(query, "marker");
    let mut list = ListContainers {
        prefix: given_parameter(query, "prefix"),
        from: marker.as_deref().map(container_marker).transpose()?,
        max: page_max(query)?,
        marker,
        ..ListContainers::default()
    };
    for word in includes(query) {
        match word.to_ascii_lowercase().as_str() {
            "metadata" => list.with_metadata = true,
            "deleted" => list.with_deleted = true,
            "system" => list.with_system = true,
            _ => return Err(invalid_value("include", word, "Invalid query parameter value.")),
        }
    }
    Ok(list)
}

/// The name in `/account/name`. Which account it is does not matter: only this one is listed.
fn container_marker(marker: &str) -> Result<String, ServiceError> {
    let rest = marker.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    rest.map(|(_, name)| name.to_owned()).ok_or_else(ServiceError::out_of_range)
}

fn list_blobs(container: ContainerName, query: &Query<'_>) -> Result<ListBlobs, ServiceError> {
    let marker = given_parameter(query, "marker");
    let mut include = ListInclude::default();
    for word in includes(query) {
        let flag = match word.to_ascii_lowercase().as_str() {
            "copy" => &mut include.copy,
            "deleted" => &mut include.deleted,
            "deletedwithversions" => &mut include.deleted_with_versions,
            "immutabilitypolicy" => &mut include.immutability_policy,
            "legalhold" => &mut include.legal_hold,
            "metadata" => &mut include.metadata,
            "permissions" => &mut include.permissions,
            "snapshots" => &mut include.snapshots,
            "tags" => &mut include.tags,
            "uncommittedblobs" => &mut include.uncommitted_blobs,
            "versions" => &mut include.versions,
            _ => return Err(invalid_value("include", word, "Invalid query parameter value.")),
        };
        *flag = true;
    }
    Ok(ListBlobs {
        container,
        prefix: given_parameter(query, "prefix"),
        delimiter: given_parameter(query, "delimiter"),
        from: marker.as_deref().map(read_cursor).transpose()?,
        start_from: given_parameter(query, "startFrom"),
        max: page_max(query)?,
        include,
        marker,
    })
}

fn find_blobs(container: Option<ContainerName>, query: &Query<'_>) -> Result<FindBlobs, ServiceError> {
    let text = given_parameter(query, "where").ok_or_else(|| missing("where"))?;
    let found = parse_where(&text)?;
    if container.is_some() && found.container.is_some() {
        return Err(invalid_value("where", &text, "The container is named by the address."));
    }
    if found.container.is_none() && found.filter.is_none() {
        return Err(ErrorCode::InvalidQueryParameterValue.into());
    }
    Ok(FindBlobs {
        container,
        in_container: found.container,
        filter: found.filter,
        from: given_parameter(query, "marker").as_deref().map(read_find_cursor).transpose()?,
        max: page_max(query)?,
        text,
    })
}
