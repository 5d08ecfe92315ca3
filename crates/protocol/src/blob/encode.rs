//! An outcome or an error of the blob service to the response that carries it.
//!
//! Which headers an answer has at which version is recorded; where recordings of one version differ by account, the
//! headers of a plain account are given.

use http::{HeaderValue, StatusCode};
use tavola_model::{
    BlobCopied, BlobOutcome, BlobWritten, BlockAppended, BlockList, BlockWritten, Changed,
    ContainerProperties, DateTime, ErrorCode, Guid, LeaseDone, PageRanges, PagesWritten, PublicAccess,
    ServiceError,
};

use super::batch::write_batch;
use super::encode_blob::{blob_got, blob_properties};
use super::headers::{write_crc64, write_md5};
use super::write::{block_list, delegation_key, page_ranges, tags};
use super::write_list::{blobs, containers, found};
use crate::answer::{CHALLENGE, Sender, full_message};
use crate::metadata::metadata_headers;
use crate::reply::Reply;
use crate::response::Response;
use crate::status::status;
use crate::version::ApiVersion;
use crate::xml;

/// How the service calls itself.
pub(crate) static SERVER: HeaderValue =
    HeaderValue::from_static("Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0");

/// First version that tells CRC64 sums; before it, MD5 sums of what it now tells only CRC64 of.
const CRC64_VERSION: &str = "2019-02-02";
/// First version that tells versions of blobs.
pub(super) const VERSIONS_VERSION: &str = "2019-10-10";
/// First version that tells whether a container keeps content that cannot be deleted.
pub(super) const IMMUTABLE_VERSION: &str = "2017-11-09";
/// First version that tells of encryption scopes.
pub(super) const SCOPES_VERSION: &str = "2019-02-02";
/// First version that tells whether versions of blobs can be made undeletable.
pub(super) const IMMUTABLE_VERSIONS_VERSION: &str = "2020-08-04";
/// First version recorded that tells of a snapshot and a copy at once that they are encrypted.
const SNAPSHOT_ENCRYPTED_VERSION: &str = "2019-02-02";
const SYNC_COPY_ENCRYPTED_VERSION: &str = "2021-02-12";
/// First version recorded that passes on why the source of a copy was refused.
const SOURCE_TOLD_VERSION: &str = "2019-10-10";

/// Encodes what a blob command gave. `ids` are fresh random guids for the boundary of a batch.
pub(crate) fn encode_outcome(
    reply: &Reply,
    outcome: &BlobOutcome,
    now: DateTime,
    ids: [Guid; 2],
) -> Response {
    match outcome {
        BlobOutcome::ContainersListed(page) => {
            Response::xml(containers(page, &reply.version, &reply.base, &reply.account))
        }
        BlobOutcome::BlobsFound(page) => Response::xml(found(page, &reply.base)),
        BlobOutcome::AccountInformationFetched => Response::empty(StatusCode::OK)
            .with("x-ms-sku-name", "Standard_RAGRS")
            .with("x-ms-account-kind", "StorageV2")
            .with("x-ms-is-hns-enabled", "false"),
        BlobOutcome::UserDelegationKeyIssued(key) => Response::xml(delegation_key(key)),
        BlobOutcome::BatchAnswered(answers) => write_batch(reply, answers, now, ids[0]),
        BlobOutcome::ContainerCreated(at) => changed(StatusCode::CREATED, *at),
        BlobOutcome::ContainerRestored => Response::empty(StatusCode::CREATED),
        BlobOutcome::ContainerDeleted => Response::empty(StatusCode::ACCEPTED),
        BlobOutcome::ContainerPropertiesFetched(properties) => container_properties(reply, properties),
        BlobOutcome::ContainerMetadataFetched(at, metadata)
        | BlobOutcome::BlobMetadataFetched(at, metadata) => {
            let mut response = changed(StatusCode::OK, *at);
            response.metadata = metadata_headers(metadata);
            response
        }
        BlobOutcome::ContainerMetadataSet(at) | BlobOutcome::ContainerAclSet(at) => {
            changed(StatusCode::OK, *at)
        }
        BlobOutcome::ContainerAclFetched { changed: at, identifiers, public_access } => {
            let response = with_changed(Response::xml(xml::write_acl(identifiers)), *at);
            with_public_access(response, *public_access)
        }
        BlobOutcome::ContainerLeased(at, done) | BlobOutcome::BlobLeased(at, done) => leased(*at, *done),
        BlobOutcome::BlobsListed(page) => Response::xml(blobs(page, &reply.version, &reply.base)),

        BlobOutcome::BlobPut(written)
        | BlobOutcome::BlobPutFromUrl(written)
        | BlobOutcome::BlockListPut(written) => blob_written(reply, written),
        BlobOutcome::BlobGot(got) => blob_got(reply, got),
        BlobOutcome::BlobPropertiesFetched(properties) => blob_properties(reply, properties),
        BlobOutcome::BlobPropertiesSet { changed: at, sequence } => {
            let mut response = changed(StatusCode::OK, *at);
            if let Some(sequence) = sequence {
                response.add("x-ms-blob-sequence-number", sequence.to_string());
            }
            response
        }
        BlobOutcome::BlobMetadataSet { changed: at, version } => {
            with_version(encrypted(changed(StatusCode::OK, *at)), reply, *version)
        }
        BlobOutcome::BlobTagsFetched(found) => Response::xml(tags(found)),
        BlobOutcome::BlobTagsSet | BlobOutcome::CopyAborted => Response::empty(StatusCode::NO_CONTENT),
        BlobOutcome::BlobSnapshotTaken { changed: at, snapshot, version } => {
            let mut response = changed(StatusCode::CREATED, *at);
            response.add("x-ms-snapshot", snapshot.to_text_7_digits());
            // A snapshot shares the content of its blob: nothing was encrypted.
            if reply.version.is_at_least(SNAPSHOT_ENCRYPTED_VERSION) {
                response.add("x-ms-request-server-encrypted", "false");
            }
            with_version(response, reply, *version)
        }
        BlobOutcome::BlobDeleted { is_permanent } => Response::empty(StatusCode::ACCEPTED)
            .with("x-ms-delete-type-permanent", if *is_permanent { "true" } else { "false" }),
        BlobOutcome::BlobUndeleted => Response::empty(StatusCode::OK),
        BlobOutcome::BlobCopied(copied) => blob_copied(reply, copied),
        BlobOutcome::BlobTierSet { is_done: true } => Response::empty(StatusCode::OK),
        BlobOutcome::BlobTierSet { is_done: false } => Response::empty(StatusCode::ACCEPTED),

        BlobOutcome::BlockPut(sums) | BlobOutcome::BlockPutFromUrl(sums) => {
            encrypted(with_block_sums(Response::empty(StatusCode::CREATED), reply, sums))
        }
        BlobOutcome::BlockListFetched(list) => block_list_fetched(list),
        BlobOutcome::BlockAppended(appended) => block_appended(reply, appended),
        BlobOutcome::BlobSealed(at) => changed(StatusCode::OK, *at).with("x-ms-blob-sealed", "true"),
        BlobOutcome::PagesPut(written) => encrypted(pages_written(reply, written)),
        BlobOutcome::PagesCleared(written) => pages_written(reply, written),
        BlobOutcome::PageRangesFetched(ranges) => page_ranges_fetched(ranges),
    }
}

/// An answer without a body that tells when something changed.
fn changed(status: StatusCode, at: Changed) -> Response {
    with_changed(Response::empty(status), at)
}

pub(super) fn with_changed(response: Response, at: Changed) -> Response {
    response.with("Last-Modified", at.0.to_rfc1123()).with("ETag", at.etag().quoted())
}

fn encrypted(response: Response) -> Response {
    response.with("x-ms-request-server-encrypted", "true")
}

fn with_version(response: Response, reply: &Reply, version: Option<DateTime>) -> Response {
    match version {
        Some(version) if reply.version.is_at_least(VERSIONS_VERSION) => {
            response.with("x-ms-version-id", version.to_text_7_digits())
        }
        _ => response,
    }
}

fn with_public_access(response: Response, access: PublicAccess) -> Response {
    match access.as_str() {
        Some(text) => response.with("x-ms-blob-public-access", text),
        None => response,
    }
}

fn container_properties(reply: &Reply, properties: &ContainerProperties) -> Response {
    let mut response = changed(StatusCode::OK, properties.changed)
        .with("x-ms-lease-status", properties.lease.state.status())
        .with("x-ms-lease-state", properties.lease.state.as_str());
    if let Some(duration) = properties.lease.duration {
        response.add("x-ms-lease-duration", duration.as_str());
    }
    response = with_public_access(response, properties.public_access);
    let version = &reply.version;
    if version.is_at_least(IMMUTABLE_VERSION) {
        response.add("x-ms-has-immutability-policy", "false");
        response.add("x-ms-has-legal-hold", "false");
    }
    if version.is_at_least(SCOPES_VERSION) {
        response.add("x-ms-default-encryption-scope", "$account-encryption-key");
        response.add("x-ms-deny-encryption-scope-override", "false");
    }
    if version.is_at_least(IMMUTABLE_VERSIONS_VERSION) {
        response.add("x-ms-immutable-storage-with-versioning-enabled", "false");
    }
    response.metadata = metadata_headers(&properties.metadata);
    response
}

fn leased(at: Changed, done: LeaseDone) -> Response {
    let with_id =
        |status, id: tavola_model::LeaseId| changed(status, at).with("x-ms-lease-id", id.to_string());
    match done {
        LeaseDone::Acquired(id) => with_id(StatusCode::CREATED, id),
        LeaseDone::Renewed(id) | LeaseDone::Changed(id) => with_id(StatusCode::OK, id),
        LeaseDone::Released => changed(StatusCode::OK, at),
        LeaseDone::Broken { seconds_left } => {
            changed(StatusCode::ACCEPTED, at).with("x-ms-lease-time", seconds_left.to_string())
        }
    }
}

fn with_sums(mut response: Response, reply: &Reply, md5: Option<[u8; 16]>, crc64: Option<u64>) -> Response {
    if let Some(md5) = md5 {
        response.add("Content-MD5", write_md5(md5));
    }
    if let Some(crc64) = crc64.filter(|_| reply.version.is_at_least(CRC64_VERSION)) {
        response.add("x-ms-content-crc64", write_crc64(crc64));
    }
    response
}

/// One of the sums: the one that the client sent, else CRC64, else MD5 for versions that know no other.
fn with_block_sums(response: Response, reply: &Reply, sums: &BlockWritten) -> Response {
    with_sums(response, reply, sums.md5, sums.crc64)
}

fn blob_written(reply: &Reply, written: &BlobWritten) -> Response {
    let response =
        with_sums(changed(StatusCode::CREATED, written.changed), reply, written.md5, written.crc64);
    with_version(encrypted(response), reply, written.version)
}

fn block_appended(reply: &Reply, appended: &BlockAppended) -> Response {
    let response = with_block_sums(changed(StatusCode::CREATED, appended.changed), reply, &appended.sums)
        .with("x-ms-blob-append-offset", appended.offset.to_string())
        .with("x-ms-blob-committed-block-count", appended.block_count.to_string());
    encrypted(response)
}

fn pages_written(reply: &Reply, written: &PagesWritten) -> Response {
    with_block_sums(changed(StatusCode::CREATED, written.changed), reply, &written.sums)
        .with("x-ms-blob-sequence-number", written.sequence.to_string())
}

fn blob_copied(reply: &Reply, copied: &BlobCopied) -> Response {
    let mut response = changed(StatusCode::ACCEPTED, copied.changed)
        .with("x-ms-copy-id", copied.id.to_string())
        .with("x-ms-copy-status", copied.status.as_str());
    if copied.is_sync {
        response = with_sums(response, reply, copied.md5, copied.crc64);
        if reply.version.is_at_least(SYNC_COPY_ENCRYPTED_VERSION) {
            response = encrypted(response);
        }
    }
    with_version(response, reply, copied.version)
}

fn block_list_fetched(list: &BlockList) -> Response {
    let response = Response::xml(block_list(list));
    match list.blob {
        Some((at, length)) => with_changed(response, at).with("x-ms-blob-content-length", length.to_string()),
        None => response,
    }
}

fn page_ranges_fetched(ranges: &PageRanges) -> Response {
    with_changed(Response::xml(page_ranges(ranges)), ranges.changed)
        .with("x-ms-blob-content-length", ranges.blob_length.to_string())
}

/// Encodes a refusal.
pub(crate) fn encode_error(reply: &Reply, error: &ServiceError, now: DateTime) -> Response {
    let mut response = Response::empty(status(error.code));
    let is_not_modified = response.status == StatusCode::NOT_MODIFIED;
    if !reply.head_only && !is_not_modified {
        response = response.with("Content-Type", "application/xml");
    }
    if reply.version.is_at_least(ApiVersion::ERROR_CODE_HEADER) && !refuses_version(error) {
        response = response.with("x-ms-error-code", error.code.as_str());
    }
    if matches!(error.code, ErrorCode::InvalidAuthenticationInfo | ErrorCode::NoAuthenticationInformation) {
        response = response.with("WWW-Authenticate", CHALLENGE);
    }
    let mut shown = error.clone();
    shown.details.retain(|(name, _)| !ServiceError::HEADERS.contains(name));
    for (name, text) in error.details.iter().filter(|(name, _)| ServiceError::HEADERS.contains(name)) {
        response = response.with(name, text.as_str());
    }
    if is_not_modified {
        return response;
    }
    let body = xml::write_error(&shown, &full_message(message(reply, error), reply, now));
    Response { body: body.into(), ..response }
}

/// The text of a refusal.
fn message<'a>(reply: &Reply, error: &'a ServiceError) -> &'a str {
    match error.code {
        ErrorCode::CopySourceConditionNotMet if !reply.version.is_at_least(SOURCE_TOLD_VERSION) => {
            ServiceError::SOURCE_UNVERIFIED
        }
        // Shorter than that of the other services (recorded).
        ErrorCode::ServerBusy if error.message == error.code.message() => "The server is busy.",
        _ => &error.message,
    }
}

/// The version is refused by whoever stands before the service.
fn refuses_version(error: &ServiceError) -> bool {
    error.code == ErrorCode::InvalidHeaderValue && has_detail(error, "HeaderName", "x-ms-version")
}

fn has_detail(error: &ServiceError, name: &str, text: &str) -> bool {
    error.details.iter().any(|(known, value)| *known == name && value == text)
}

/// Errors that are answered before a service and its version are known.
pub(crate) fn sender_of(error: &ServiceError) -> Sender {
    let is_of_gateway = match error.code {
        ErrorCode::AuthenticationFailed
        | ErrorCode::InvalidAuthenticationInfo
        | ErrorCode::MalformedAuthenticationInfo
        | ErrorCode::InvalidUri
        | ErrorCode::AuthorizationServiceMismatch => true,
        ErrorCode::InvalidHeaderValue => refuses_version(error),
        // An operation on the service as a whole that there is not.
        ErrorCode::InvalidQueryParameterValue => {
            has_detail(error, "QueryParameterName", "comp") && has_detail(error, "QueryParameterValue", "")
        }
        _ => false,
    };
    if is_of_gateway { Sender::Gateway } else { Sender::Service(&SERVER) }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;

    #[test]
    fn old_versions_are_not_told_which_condition_the_source_of_a_copy_refuses() {
        for (version, text) in
            [("2018-11-09", ServiceError::SOURCE_UNVERIFIED), ("2020-04-08", "The condition specified using")]
        {
            let mut headers = HeaderMap::new();
            headers.insert("x-ms-version", version.parse().unwrap());
            let reply = Reply::of(&Method::PUT, &headers, None, "id".into(), false);
            let error = ErrorCode::CopySourceConditionNotMet.into();
            let response = encode_error(&reply, &error, DateTime::MIN);
            let body = String::from_utf8(response.body.to_vec()).unwrap();
            assert_eq!(response.status, StatusCode::PRECONDITION_FAILED);
            assert!(body.contains(&format!("<Message>{text}")), "{version}: {body}");
        }
    }

    #[test]
    fn a_busy_server_says_so_in_the_words_of_the_blob_service() {
        let reply = Reply::of(&Method::GET, &HeaderMap::new(), None, "id".into(), false);
        let text = |error: ServiceError| {
            let response = encode_error(&reply, &error, DateTime::MIN);
            assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
            String::from_utf8(response.body.to_vec()).unwrap()
        };
        assert!(text(ErrorCode::ServerBusy.into()).contains("<Message>The server is busy.\n"));
        let own = ServiceError::with_message(ErrorCode::ServerBusy, "Egress is over the account limit.");
        assert!(text(own).contains("<Message>Egress is over the account limit.\n"));
    }
}
