//! Requests that write content: it comes with them as a stream, or is read from another blob.

use http::{HeaderMap, header};
use tavola_model::{
    APPEND_BLOCK_BYTES_MAX, APPEND_BLOCK_BYTES_MAX_OLD, AppendBlock, AppendBlockFromUrl, BLOCK_BYTES_MAX,
    BlobCommand, BlobHeaders, BlobPath, BlobType, BlockId, ClearPages, DateTime, ErrorCode, EtagMatch,
    FromUrl, NewBlob, NewKind, PAGE_BYTES, PUT_BLOB_BYTES_MAX, PUT_PAGES_BYTES_MAX, PutBlob, PutBlobFromUrl,
    PutBlock, PutBlockFromUrl, PutBlockList, PutPages, ServiceError, TransferSums, VersionConditions,
};

use super::decode::BlobRequest;
use super::decode_blob::{copies_tags, is_page_length};
use super::documents::{parse_block_list, read_block_id};
use super::headers::{
    CONTENT_TYPE_DEFAULT, append_conditions, blob_headers, body_sums, flag, given, invalid_header, lease_id,
    missing_header, number, parsed, range_written, sequence_conditions, tags, tier, uploaded_headers,
    write_conditions,
};
use super::source::from_url;
use crate::parameters::{invalid_value, missing};

const BLOB_TYPE: &str = "x-ms-blob-type";

/// How many bytes come: as announced; `None` for a body that comes in chunks.
fn content_length(headers: &HeaderMap, bytes_max: u64) -> Result<Option<u64>, ServiceError> {
    let length = number::<u64>(headers, "content-length")?;
    match length {
        Some(length) if length > bytes_max => {
            Err(ServiceError::new(ErrorCode::RequestBodyTooLarge)
                .with_detail("MaxLimit", bytes_max.to_string()))
        }
        Some(length) => Ok(Some(length)),
        None if headers.contains_key(header::TRANSFER_ENCODING) => Ok(None),
        None => Err(ErrorCode::MissingContentLengthHeader.into()),
    }
}

/// The same of a body that must not be empty.
fn some_content(headers: &HeaderMap, bytes_max: u64) -> Result<Option<u64>, ServiceError> {
    match content_length(headers, bytes_max)? {
        Some(0) => Err(invalid_header("Content-Length", "0")),
        length => Ok(length),
    }
}

fn new_blob(
    kind: BlobType,
    headers: BlobHeaders,
    request: &BlobRequest<'_>,
) -> Result<NewBlob, ServiceError> {
    let (metadata, tags, tier) = (request.metadata()?, tags(request.headers)?, tier(request.headers)?);
    tier.map_or(Ok(()), |tier| tier.check_new(kind))?;
    Ok(NewBlob { headers, metadata, tags, tier })
}

/// Headers of a blob whose content is not the body: those of the body do not count.
fn own_headers(headers: &HeaderMap) -> Result<BlobHeaders, ServiceError> {
    let own = blob_headers(headers)?;
    let content_type = own.content_type.or_else(|| Some(CONTENT_TYPE_DEFAULT.to_owned()));
    Ok(BlobHeaders { content_type, ..own })
}

pub(super) fn put_blob(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let headers = request.headers;
    let blob_type = parsed(headers, BLOB_TYPE, BlobType::parse)?.ok_or_else(|| missing_header(BLOB_TYPE))?;
    let length = content_length(headers, PUT_BLOB_BYTES_MAX)?;
    let kind = match blob_type {
        BlobType::Block => NewKind::Block,
        BlobType::Append => NewKind::Append,
        BlobType::Page => new_page_blob(headers)?,
    };
    if kind != NewKind::Block
        && let Some(length) = length.filter(|length| *length > 0)
    {
        return Err(invalid_header("Content-Length", &length.to_string()));
    }
    let new = new_blob(blob_type, uploaded_headers(headers)?, request)?;
    let (sums, conditions) = (body_sums(headers)?, write_conditions(headers)?);
    Ok(BlobCommand::PutBlob(PutBlob { blob, kind, length, sums, new, conditions }))
}

fn new_page_blob(headers: &HeaderMap) -> Result<NewKind, ServiceError> {
    const LENGTH: &str = "x-ms-blob-content-length";
    let length = number::<u64>(headers, LENGTH)?.ok_or_else(|| missing_header(LENGTH))?;
    if !is_page_length(length) {
        return Err(invalid_header(LENGTH, &length.to_string()));
    }
    let sequence = parsed(headers, "x-ms-blob-sequence-number", |text| {
        text.parse::<u64>().ok().filter(|number| i64::try_from(*number).is_ok())
    })?;
    Ok(NewKind::Page { length, sequence: sequence.unwrap_or(0) })
}

pub(super) fn put_blob_from_url(
    blob: BlobPath,
    request: &BlobRequest<'_>,
) -> Result<BlobCommand, ServiceError> {
    let headers = request.headers;
    let blob_type = parsed(headers, BLOB_TYPE, BlobType::parse)?;
    if blob_type != Some(BlobType::Block) {
        return Err(invalid_header(BLOB_TYPE, given(headers, BLOB_TYPE).unwrap_or_default()));
    }
    let copies = given(headers, "x-ms-copy-source-blob-properties").is_none()
        || flag(headers, "x-ms-copy-source-blob-properties")?;
    let own = if copies { blob_headers(headers)? } else { own_headers(headers)? };
    Ok(BlobCommand::PutBlobFromUrl(Box::new(PutBlobFromUrl {
        blob,
        source: with_md5(from_url(headers, PUT_BLOB_BYTES_MAX)?, tells_md5(request)),
        new: new_blob(BlobType::Block, own, request)?,
        copies_headers: copies,
        copies_tags: copies_tags(request)?,
        conditions: write_conditions(headers)?,
    })))
}

/// Versions before this one are told the MD5 of a block, later ones its CRC64 (recorded: at 2019-02-02 29 answers have
/// the CRC64 and three the MD5).
fn tells_md5(request: &BlobRequest<'_>) -> bool {
    !request.version.is_at_least("2019-02-02")
}

fn with_md5(source: FromUrl, tells_md5: bool) -> FromUrl {
    FromUrl { sums: TransferSums { tells_md5, ..source.sums }, ..source }
}

fn block_id(request: &BlobRequest<'_>) -> Result<BlockId, ServiceError> {
    const NAME: &str = "blockid";
    let text = request.query.get(NAME).ok_or_else(|| missing(NAME))?;
    // A plus sign that a client did not encode arrives as a blank.
    let id = read_block_id(&text.replace(' ', "+"));
    id.ok_or_else(|| invalid_value(NAME, text, "Not a valid base64 string."))
}

pub(super) fn put_block(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let headers = request.headers;
    Ok(BlobCommand::PutBlock(PutBlock {
        blob,
        id: block_id(request)?,
        length: some_content(headers, BLOCK_BYTES_MAX)?,
        sums: TransferSums { tells_md5: tells_md5(request), ..body_sums(headers)? },
        lease: lease_id(headers, "x-ms-lease-id")?,
    }))
}

pub(super) fn put_block_from_url(
    blob: BlobPath,
    request: &BlobRequest<'_>,
) -> Result<BlobCommand, ServiceError> {
    let headers = request.headers;
    Ok(BlobCommand::PutBlockFromUrl(Box::new(PutBlockFromUrl {
        blob,
        id: block_id(request)?,
        source: with_md5(from_url(headers, BLOCK_BYTES_MAX)?, tells_md5(request)),
        lease: lease_id(headers, "x-ms-lease-id")?,
    })))
}

pub(super) fn put_block_list(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let headers = request.headers;
    Ok(BlobCommand::PutBlockList(PutBlockList {
        blob,
        blocks: parse_block_list(request.body)?,
        sums: TransferSums { tells_md5: tells_md5(request), ..body_sums(headers)? },
        text: request.body.clone(),
        new: new_blob(BlobType::Block, own_headers(headers)?, request)?,
        conditions: write_conditions(headers)?,
    }))
}

/// Appending takes an ETag for a time, and refuses one from before the calendar of the service.
fn check_append_etag(conditions: &VersionConditions) -> Result<(), ServiceError> {
    match conditions.if_match {
        Some(EtagMatch::Is(etag)) if etag.0 < DateTime::STORABLE_MIN => Err(ServiceError::out_of_range()),
        _ => Ok(()),
    }
}

pub(super) fn append_block(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let headers = request.headers;
    let conditions = write_conditions(headers)?;
    check_append_etag(&conditions.version)?;
    Ok(BlobCommand::AppendBlock(AppendBlock {
        blob,
        length: some_content(headers, APPEND_BLOCK_BYTES_MAX)?,
        sums: TransferSums { tells_md5: tells_md5(request), ..body_sums(headers)? },
        append: append_conditions(headers)?,
        conditions,
    }))
}

pub(super) fn append_block_from_url(
    blob: BlobPath,
    request: &BlobRequest<'_>,
) -> Result<BlobCommand, ServiceError> {
    let headers = request.headers;
    let bytes_max = match request.version.is_at_least("2022-11-02") {
        true => APPEND_BLOCK_BYTES_MAX,
        false => APPEND_BLOCK_BYTES_MAX_OLD,
    };
    Ok(BlobCommand::AppendBlockFromUrl(Box::new(AppendBlockFromUrl {
        blob,
        source: with_md5(from_url(headers, bytes_max)?, tells_md5(request)),
        append: append_conditions(headers)?,
        conditions: write_conditions(headers)?,
    })))
}

pub(super) fn put_pages(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    const WRITE: &str = "x-ms-page-write";
    let headers = request.headers;
    let write = given(headers, WRITE).ok_or_else(|| missing_header(WRITE))?;
    let range = range_written(headers)?;
    let length = range.length().ok_or(ErrorCode::InvalidPageRange)?;
    if !range.first.is_multiple_of(PAGE_BYTES) || !length.is_multiple_of(PAGE_BYTES) {
        return Err(ErrorCode::InvalidPageRange.into());
    }
    let (sequence, conditions) = (sequence_conditions(headers)?, write_conditions(headers)?);
    match write.to_ascii_lowercase().as_str() {
        "clear" => {
            Ok(BlobCommand::ClearPages(ClearPages { blob, first: range.first, length, sequence, conditions }))
        }
        "update" => {
            let announced = some_content(headers, PUT_PAGES_BYTES_MAX)?;
            if length > PUT_PAGES_BYTES_MAX {
                return Err(ErrorCode::InvalidPageRange.into());
            }
            if let Some(announced) = announced.filter(|announced| *announced != length) {
                return Err(invalid_header("Content-Length", &announced.to_string()));
            }
            let sums = TransferSums { tells_md5: tells_md5(request), ..body_sums(headers)? };
            let first = range.first;
            Ok(BlobCommand::PutPages(PutPages { blob, first, length, sums, sequence, conditions }))
        }
        _ => Err(invalid_header(WRITE, write)),
    }
}
