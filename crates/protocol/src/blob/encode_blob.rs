//! The headers of a blob: the answers of Get Blob and Get Blob Properties.

use http::StatusCode;
use tavola_model::{BlobGot, BlobHeaders, BlobKind, BlobProperties, CopyShown, TierShown};

use super::encode::{VERSIONS_VERSION, with_changed};
use super::headers::{write_crc64, write_md5};
use crate::metadata::metadata_headers;
use crate::reply::Reply;
use crate::response::Response;

/// First version that tells when a blob was created.
pub(super) const CREATED_VERSION: &str = "2017-11-09";
/// First version that tells tiers.
pub(super) const TIERS_VERSION: &str = "2017-04-17";
/// First version that tells tags and seals.
pub(super) const TAGS_VERSION: &str = "2019-12-12";

/// The answer of Get Blob; the content comes beside it.
pub(super) fn blob_got(reply: &Reply, got: &BlobGot) -> Response {
    let properties = &got.properties;
    let md5 = properties.headers.content_md5;
    let mut response = match got.range {
        None => {
            let mut response = with_headers(Response::empty(StatusCode::OK), &properties.headers);
            if let Some(md5) = md5 {
                response.add("Content-MD5", write_md5(md5));
            }
            response
        }
        Some(range) => {
            let last = range.first + range.length - 1;
            let shown = format!("bytes {}-{last}/{}", range.first, properties.length);
            let response = Response::empty(StatusCode::PARTIAL_CONTENT);
            let mut response = with_headers(response, &properties.headers).with("Content-Range", shown);
            if let Some(md5) = got.range_md5 {
                response.add("Content-MD5", write_md5(md5));
            }
            if let Some(crc64) = got.range_crc64 {
                response.add("x-ms-content-crc64", write_crc64(crc64));
            }
            if let Some(md5) = md5 {
                response.add("x-ms-blob-content-md5", write_md5(md5));
            }
            response
        }
    };
    response = with_common(response, reply, properties);
    response.content_length = Some(got.length());
    response
}

/// The answer of Get Blob Properties.
pub(super) fn blob_properties(reply: &Reply, properties: &BlobProperties) -> Response {
    let mut response = with_headers(Response::empty(StatusCode::OK), &properties.headers);
    if let Some(md5) = properties.headers.content_md5 {
        response.add("Content-MD5", write_md5(md5));
    }
    response = with_common(response, reply, properties);
    if let Some(tier) = properties.tier.as_ref().filter(|_| reply.version.is_at_least(TIERS_VERSION)) {
        response = with_tier(response, tier);
    }
    response.content_length = Some(properties.length);
    response
}

/// The headers that the blob keeps.
fn with_headers(mut response: Response, headers: &BlobHeaders) -> Response {
    for (name, text) in [
        ("Content-Type", &headers.content_type),
        ("Content-Encoding", &headers.content_encoding),
        ("Content-Language", &headers.content_language),
        ("Cache-Control", &headers.cache_control),
        ("Content-Disposition", &headers.content_disposition),
    ] {
        if let Some(text) = text {
            response.add(name, text.as_str());
        }
    }
    response
}

/// The version that tells the number of tags of every blob (recorded: all 58 answers of it have it, all with 0).
const COUNTED_TAGS_VERSION: &str = "2018-11-09";

fn with_common(response: Response, reply: &Reply, properties: &BlobProperties) -> Response {
    let version = &reply.version;
    let mut response = with_changed(response, properties.changed);
    response.add_static("Accept-Ranges", "bytes");
    let tells_tags = version.is_at_least(TAGS_VERSION) && !properties.tags.is_empty();
    if tells_tags || version.as_str() == COUNTED_TAGS_VERSION {
        response.add("x-ms-tag-count", properties.tags.len().to_string());
    }
    if let Some(shown) = properties.version.filter(|_| version.is_at_least(VERSIONS_VERSION)) {
        response.add("x-ms-version-id", shown.id.to_text_7_digits());
        if shown.is_current {
            response.add_static("x-ms-is-current-version", "true");
        }
    }
    if version.is_at_least(CREATED_VERSION) {
        response.add("x-ms-creation-time", properties.created.to_rfc1123());
    }
    if let Some(lease) = properties.lease {
        response.add_static("x-ms-lease-status", lease.state.status());
        response.add_static("x-ms-lease-state", lease.state.as_str());
        if let Some(duration) = lease.duration {
            response.add_static("x-ms-lease-duration", duration.as_str());
        }
    }
    response.add_static("x-ms-blob-type", properties.kind.blob_type().as_str());
    match properties.kind {
        BlobKind::Block => {}
        BlobKind::Append { block_count, is_sealed } => {
            response.add("x-ms-blob-committed-block-count", block_count.to_string());
            if is_sealed && version.is_at_least(TAGS_VERSION) {
                response.add_static("x-ms-blob-sealed", "true");
            }
        }
        BlobKind::Page { sequence } => response.add("x-ms-blob-sequence-number", sequence.to_string()),
    }
    if let Some(copy) = &properties.copy {
        response = with_copy(response, copy);
    }
    response.add_static("x-ms-server-encrypted", "true");
    response.metadata = metadata_headers(&properties.metadata);
    response
}

fn with_copy(mut response: Response, copy: &CopyShown) -> Response {
    response.add("x-ms-copy-id", copy.id.to_string());
    response.add("x-ms-copy-source", copy.source.as_str());
    response.add("x-ms-copy-status", copy.status.as_str());
    if let Some(description) = &copy.status_description {
        response.add("x-ms-copy-status-description", description.as_str());
    }
    response.add("x-ms-copy-progress", format!("{}/{}", copy.copied, copy.total));
    if let Some(completed) = copy.completed {
        response.add("x-ms-copy-completion-time", completed.to_rfc1123());
    }
    response
}

fn with_tier(mut response: Response, shown: &TierShown) -> Response {
    response.add("x-ms-access-tier", shown.tier.as_str());
    if shown.is_inferred {
        response.add("x-ms-access-tier-inferred", "true");
    }
    if let Some((_, priority)) = shown.rehydrate_to {
        response.add("x-ms-archive-status", archive_status(shown).unwrap_or_default());
        response.add("x-ms-rehydrate-priority", priority.as_str());
    }
    if let Some(at) = shown.changed {
        response.add("x-ms-access-tier-change-time", at.to_rfc1123());
    }
    response
}

/// `rehydrate-pending-to-hot`.
pub(super) fn archive_status(shown: &TierShown) -> Option<String> {
    let (tier, _) = shown.rehydrate_to?;
    Some(format!("rehydrate-pending-to-{}", tier.as_str().to_ascii_lowercase()))
}
