//! Requests of a client that upload content. The content may be in the request, or be sent beside it by a client that
//! streams; then its length goes into `Content-Length`, which whoever sends the request adds.

use bytes::Bytes;
use http::Method;
use percent_encoding::utf8_percent_encode;
use tavola_model::{
    AppendConditions, BlobConditions, BlobPath, BlockId, BlockSource, LeaseId, NewBlob, NewKind,
    ServiceError, TransferSums,
};

use super::conditions_out::{with_append_conditions, with_blob_conditions, with_sums};
use super::documents::write_block_id;
use super::headers::write_md5;
use super::request_out::blob_path;
use crate::request::{Request, UNRESERVED};

const OCTETS: &str = "application/octet-stream";

/// Put Blob.
pub fn put_blob(
    path: &BlobPath,
    kind: NewKind,
    new: &NewBlob,
    sums: &TransferSums,
    conditions: &BlobConditions,
    content: Bytes,
) -> Result<Request, ServiceError> {
    let request =
        Request::new(Method::PUT, blob_path(path)).with_text("x-ms-blob-type", kind.blob_type().as_str())?;
    let mut request = with_new_blob(request, new)?.with_body(OCTETS, content);
    if let NewKind::Page { length, sequence } = kind {
        request = request
            .with_text("x-ms-blob-content-length", &length.to_string())?
            .with_text("x-ms-blob-sequence-number", &sequence.to_string())?;
    }
    with_blob_conditions(with_sums(request, sums)?, conditions)
}

fn with_new_blob(request: Request, new: &NewBlob) -> Result<Request, ServiceError> {
    let headers = &new.headers;
    request
        .with_optional_text("x-ms-blob-content-type", headers.content_type.as_deref())?
        .with_optional_text("x-ms-blob-content-encoding", headers.content_encoding.as_deref())?
        .with_optional_text("x-ms-blob-content-language", headers.content_language.as_deref())?
        .with_optional_text("x-ms-blob-cache-control", headers.cache_control.as_deref())?
        .with_optional_text("x-ms-blob-content-disposition", headers.content_disposition.as_deref())?
        .with_optional_text("x-ms-blob-content-md5", headers.content_md5.map(write_md5))?
        .with_optional_text("x-ms-access-tier", new.tier.map(|tier| tier.as_str()))?
        .with_optional_text("x-ms-tags", write_tags(new))?
        .with_metadata(&new.metadata)
}

fn write_tags(new: &NewBlob) -> Option<String> {
    let encode = |text: &str| utf8_percent_encode(text, UNRESERVED).to_string();
    let pairs: Vec<String> =
        new.tags.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    (!pairs.is_empty()).then(|| pairs.join("&"))
}

/// Put Block.
pub fn put_block(
    path: &BlobPath,
    id: &BlockId,
    sums: &TransferSums,
    lease: Option<LeaseId>,
    content: Bytes,
) -> Result<Request, ServiceError> {
    let request = Request::new(Method::PUT, blob_path(path))
        .with_parameter("comp", "block")
        .with_parameter("blockid", &write_block_id(id))
        .with_body(OCTETS, content);
    with_sums(request, sums)?.with_optional_text("x-ms-lease-id", lease.map(|id| id.to_string()))
}

/// Put Block List.
pub fn put_block_list(
    path: &BlobPath,
    blocks: &[(BlockSource, BlockId)],
    new: &NewBlob,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    let mut body = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
    for (place, id) in blocks {
        let name = match place {
            BlockSource::Committed => "Committed",
            BlockSource::Uncommitted => "Uncommitted",
            BlockSource::Latest => "Latest",
        };
        body.push_str(&format!("<{name}>{}</{name}>", write_block_id(id)));
    }
    body.push_str("</BlockList>");
    let request = Request::new(Method::PUT, blob_path(path)).with_parameter("comp", "blocklist");
    with_blob_conditions(with_new_blob(request, new)?.with_body("application/xml", body), conditions)
}

/// Append Block.
pub fn append_block(
    path: &BlobPath,
    append: &AppendConditions,
    sums: &TransferSums,
    conditions: &BlobConditions,
    content: Bytes,
) -> Result<Request, ServiceError> {
    let request = Request::new(Method::PUT, blob_path(path))
        .with_parameter("comp", "appendblock")
        .with_body(OCTETS, content);
    let request = with_append_conditions(with_sums(request, sums)?, append)?;
    with_blob_conditions(request, conditions)
}
