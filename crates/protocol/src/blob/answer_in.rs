//! Answers of the blob service to what they tell a client. Lists are in `list_in.rs`.
//!
//! ETags are text here: they are opaque to clients, whichever service gave them. Of an answer with content only the head
//! is read; whoever asked has the content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use tavola_model::{
    BlobHeaders, BlobType, BlockId, CopyStatus, Crc64, DateTime, Guid, LeaseId, LeaseState, ListedBlock, Md5,
};

use super::documents::read_block_id;
use crate::answer_in::{Answer, AnswerError};
use crate::xml::{self, Element};

/// The version of what was read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The ETag, with its quotes.
    pub etag: String,
    /// When it changed last.
    pub last_modified: Option<DateTime>,
}

/// A blob or block that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenBlob {
    /// The version; `None` of a block.
    pub stamp: Option<Stamp>,
    /// The sum of what was sent.
    pub md5: Option<Md5>,
    /// The sum of what was sent.
    pub crc64: Option<Crc64>,
    /// The id of the version, where the account keeps versions.
    pub version_id: Option<String>,
}

/// A block that was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedBlock {
    /// The version and the sums.
    pub written: WrittenBlob,
    /// At which offset.
    pub offset: u64,
    /// Blocks that the blob has now.
    pub block_count: Option<u64>,
}

/// A blob as the head of an answer tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedBlob {
    /// The version.
    pub stamp: Stamp,
    /// Its type.
    pub blob_type: BlobType,
    /// How many bytes the whole blob has.
    pub length: u64,
    /// First and last byte of the range that comes; `None` for all.
    pub range: Option<(u64, u64)>,
    /// Its headers, with the sum of the whole content.
    pub headers: BlobHeaders,
    /// The sum of the range, where it was asked for.
    pub range_md5: Option<Md5>,
    /// The sum of the range, where it was asked for.
    pub range_crc64: Option<Crc64>,
    /// Names in lower case, with their values, by name.
    pub metadata: Vec<(String, String)>,
    /// When it was created.
    pub created: Option<DateTime>,
    /// The state of its lease.
    pub lease_state: Option<LeaseState>,
    /// How far the last copy into it is.
    pub copy_status: Option<CopyStatus>,
    /// Blocks of an append blob.
    pub block_count: Option<u64>,
}

/// A container as the head of an answer tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedContainer {
    /// The version.
    pub stamp: Stamp,
    /// The state of its lease.
    pub lease_state: Option<LeaseState>,
    /// Names in lower case, with their values, by name.
    pub metadata: Vec<(String, String)>,
}

/// The blocks of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundBlocks {
    /// Committed blocks in order.
    pub committed: Vec<ListedBlock>,
    /// Uncommitted blocks.
    pub uncommitted: Vec<ListedBlock>,
}

fn stamp(answer: &Answer<'_>) -> Result<Stamp, AnswerError> {
    let etag = answer.header("etag").ok_or_else(|| answer.unreadable("the answer has no ETag"))?;
    let last_modified = answer.header("last-modified").and_then(DateTime::parse_rfc1123);
    Ok(Stamp { etag: etag.to_owned(), last_modified })
}

fn md5(answer: &Answer<'_>, name: &str) -> Option<Md5> {
    STANDARD.decode(answer.header(name)?.trim()).ok()?.try_into().ok()
}

fn crc64(answer: &Answer<'_>) -> Option<Crc64> {
    let bytes = STANDARD.decode(answer.header("x-ms-content-crc64")?.trim()).ok()?;
    Some(Crc64::from_le_bytes(bytes.try_into().ok()?))
}

fn number(answer: &Answer<'_>, name: &str) -> Option<u64> {
    answer.header(name).and_then(|text| text.trim().parse().ok())
}

fn metadata(answer: &Answer<'_>) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (name, value) in answer.headers {
        if let Some(name) = name.as_str().strip_prefix("x-ms-meta-") {
            let value = String::from_utf8_lossy(value.as_bytes());
            pairs.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    pairs.sort();
    pairs
}

fn lease_state(answer: &Answer<'_>) -> Option<LeaseState> {
    answer.header("x-ms-lease-state").and_then(read_lease_state)
}

pub(super) fn read_lease_state(text: &str) -> Option<LeaseState> {
    use LeaseState::{Available, Breaking, Broken, Expired, Leased};
    [Available, Leased, Expired, Breaking, Broken].into_iter().find(|state| state.as_str() == text)
}

fn read_copy_status(text: &str) -> Option<CopyStatus> {
    use CopyStatus::{Aborted, Failed, Pending, Success};
    [Pending, Success, Aborted, Failed].into_iter().find(|status| status.as_str() == text)
}

/// What Create Container did.
pub fn container_created(answer: &Answer<'_>) -> Result<Stamp, AnswerError> {
    answer.expect(&[StatusCode::CREATED])?;
    stamp(answer)
}

/// Whether Delete Container or Delete Blob succeeded.
pub fn blob_deleted(answer: &Answer<'_>) -> Result<(), AnswerError> {
    answer.expect(&[StatusCode::ACCEPTED])
}

/// What Get Container Properties gave.
pub fn container_fetched(answer: &Answer<'_>) -> Result<FetchedContainer, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    Ok(FetchedContainer {
        stamp: stamp(answer)?,
        lease_state: lease_state(answer),
        metadata: metadata(answer),
    })
}

/// What Set Blob Metadata or Set Container Metadata did.
pub fn metadata_set(answer: &Answer<'_>) -> Result<Stamp, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    stamp(answer)
}

/// What Put Blob or Put Block List did.
pub fn blob_put(answer: &Answer<'_>) -> Result<WrittenBlob, AnswerError> {
    answer.expect(&[StatusCode::CREATED])?;
    Ok(WrittenBlob { stamp: Some(stamp(answer)?), ..written(answer) })
}

/// What Put Block did.
pub fn block_put(answer: &Answer<'_>) -> Result<WrittenBlob, AnswerError> {
    answer.expect(&[StatusCode::CREATED])?;
    Ok(written(answer))
}

fn written(answer: &Answer<'_>) -> WrittenBlob {
    let version_id = answer.header("x-ms-version-id").map(str::to_owned);
    WrittenBlob { stamp: None, md5: md5(answer, "content-md5"), crc64: crc64(answer), version_id }
}

/// What Append Block did.
pub fn block_appended(answer: &Answer<'_>) -> Result<AppendedBlock, AnswerError> {
    let written = blob_put(answer)?;
    let offset = number(answer, "x-ms-blob-append-offset");
    let offset = offset.ok_or_else(|| answer.unreadable("the answer has no offset"))?;
    Ok(AppendedBlock { written, offset, block_count: number(answer, "x-ms-blob-committed-block-count") })
}

/// What the head of an answer to Get Blob or Get Blob Properties tells.
pub fn blob_fetched(answer: &Answer<'_>) -> Result<FetchedBlob, AnswerError> {
    answer.expect(&[StatusCode::OK, StatusCode::PARTIAL_CONTENT])?;
    let is_part = answer.status == StatusCode::PARTIAL_CONTENT;
    let (range, length) = match answer.header("content-range").filter(|_| is_part) {
        Some(text) => {
            let (first, last, length) =
                content_range(text).ok_or_else(|| answer.unreadable("the range cannot be read"))?;
            (Some((first, last)), length)
        }
        None => {
            let length = number(answer, "content-length");
            (None, length.ok_or_else(|| answer.unreadable("the answer has no length"))?)
        }
    };
    let blob_type = answer.header("x-ms-blob-type").and_then(BlobType::parse);
    let text = |name: &str| answer.header(name).map(str::to_owned);
    let whole_md5 = if is_part { "x-ms-blob-content-md5" } else { "content-md5" };
    Ok(FetchedBlob {
        stamp: stamp(answer)?,
        blob_type: blob_type.ok_or_else(|| answer.unreadable("the answer has no type of blob"))?,
        length,
        range,
        headers: BlobHeaders {
            content_type: text("content-type"),
            content_encoding: text("content-encoding"),
            content_language: text("content-language"),
            cache_control: text("cache-control"),
            content_disposition: text("content-disposition"),
            content_md5: md5(answer, whole_md5),
        },
        range_md5: md5(answer, "content-md5").filter(|_| is_part),
        range_crc64: crc64(answer),
        metadata: metadata(answer),
        created: answer.header("x-ms-creation-time").and_then(DateTime::parse_rfc1123),
        lease_state: lease_state(answer),
        copy_status: answer.header("x-ms-copy-status").and_then(read_copy_status),
        block_count: number(answer, "x-ms-blob-committed-block-count"),
    })
}

/// `bytes 0-9/20`.
fn content_range(text: &str) -> Option<(u64, u64, u64)> {
    let (range, length) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, length.parse().ok()?))
}

/// What acquiring, renewing or changing a lease gave.
pub fn lease_held(answer: &Answer<'_>) -> Result<LeaseId, AnswerError> {
    answer.expect(&[StatusCode::OK, StatusCode::CREATED])?;
    let id = answer.header("x-ms-lease-id").and_then(Guid::parse);
    id.map(LeaseId).ok_or_else(|| answer.unreadable("the answer has no id of a lease"))
}

/// Whether a lease was released.
pub fn lease_released(answer: &Answer<'_>) -> Result<(), AnswerError> {
    answer.expect(&[StatusCode::OK])
}

/// How many seconds a broken lease still holds.
pub fn lease_broken(answer: &Answer<'_>) -> Result<u64, AnswerError> {
    answer.expect(&[StatusCode::ACCEPTED])?;
    number(answer, "x-ms-lease-time").ok_or_else(|| answer.unreadable("the answer has no time"))
}

/// The id of a copy, and how far it is.
pub fn copy_started(answer: &Answer<'_>) -> Result<(Guid, CopyStatus), AnswerError> {
    answer.expect(&[StatusCode::ACCEPTED])?;
    let id = answer.header("x-ms-copy-id").and_then(Guid::parse);
    let status = answer.header("x-ms-copy-status").and_then(read_copy_status);
    id.zip(status).ok_or_else(|| answer.unreadable("the answer does not tell of a copy"))
}

/// The time of the snapshot that was taken.
pub fn snapshot_taken(answer: &Answer<'_>) -> Result<DateTime, AnswerError> {
    answer.expect(&[StatusCode::CREATED])?;
    let time = answer.header("x-ms-snapshot").and_then(DateTime::parse);
    time.ok_or_else(|| answer.unreadable("the answer has no time of a snapshot"))
}

/// What Get Block List gave.
pub fn block_list_fetched(answer: &Answer<'_>) -> Result<FoundBlocks, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    let root = xml::read_answer(answer.text()?).filter(|root| root.name == "BlockList");
    let root = root.ok_or_else(|| answer.unreadable("the body is no list of blocks"))?;
    let blocks = |name: &str| -> Option<Vec<ListedBlock>> {
        root.child(name).map_or(Some(Vec::new()), |list| list.children.iter().map(listed_block).collect())
    };
    let lists = blocks("CommittedBlocks").zip(blocks("UncommittedBlocks"));
    let (committed, uncommitted) = lists.ok_or_else(|| answer.unreadable("a block cannot be read"))?;
    Ok(FoundBlocks { committed, uncommitted })
}

fn listed_block(element: &Element) -> Option<ListedBlock> {
    let id: BlockId = read_block_id(element.child_text("Name")?)?;
    Some(ListedBlock { id, length: element.child_text("Size")?.parse().ok()? })
}
