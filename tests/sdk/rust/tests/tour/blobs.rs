//! Blobs: block, append and page blobs, ranges, conditions, leases, snapshots, copies, tags and tiers.

use std::collections::HashMap;
use std::num::NonZero;

use azure_core::http::{Etag, RequestContent, XmlFormat};
use azure_storage_blob::models::{
    AccessTier, AppendBlobClientAppendBlockOptions, AppendBlobClientAppendBlockResultHeaders,
    BlobClientAcquireLeaseOptions, BlobClientBreakLeaseOptions, BlobClientBreakLeaseResultHeaders,
    BlobClientCreateSnapshotResultHeaders, BlobClientDeleteOptions, BlobClientDownloadOptions,
    BlobClientGetPropertiesOptions, BlobClientGetPropertiesResultHeaders, BlobClientSetMetadataOptions,
    BlobClientSetPropertiesOptions, BlobClientStartCopyFromUrlResultHeaders, BlobTags, BlobType,
    BlockBlobClientStageBlockFromUrlOptions, BlockBlobClientStageBlockOptions, BlockBlobClientUploadOptions,
    BlockListType, BlockLookupList, CopyStatus, DeleteSnapshotsOptionType, LeaseDuration, LeaseState,
    PageBlobClientSetSequenceNumberResultHeaders, PageBlobClientUploadPagesOptions, SequenceNumberActionType,
};
use futures::TryStreamExt;
use tavola_sdk_tour::blobs::{content, new_container, pattern, put, read, refused, service, text_of};
use tavola_sdk_tour::{SCENARIOS, covers, unique_name};

const FIRST: &str = "11111111-1111-1111-1111-111111111111";
const SECOND: &str = "22222222-2222-2222-2222-222222222222";

fn metadata(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn latest(ids: &[&str]) -> RequestContent<BlockLookupList, XmlFormat> {
    let latest = ids.iter().map(|id| id.as_bytes().to_vec()).collect();
    BlockLookupList { latest: Some(latest), ..Default::default() }.try_into().unwrap()
}

fn number(name: &str) -> usize {
    usize::try_from(SCENARIOS[name].as_u64().unwrap()).unwrap()
}

#[tokio::test]
async fn a_small_blob_comes_back() {
    let _covers = covers(&["blob-upload", "blob-delete", "blob-headers", "blob-metadata"]);
    let (container, _) = new_container().await;
    let blob = container.blob_client("folder/small.txt");
    let options = BlockBlobClientUploadOptions {
        blob_content_type: Some("text/css".into()),
        blob_content_encoding: Some("gzip".into()),
        blob_content_language: Some("de".into()),
        blob_content_disposition: Some("inline".into()),
        blob_cache_control: Some("no-cache".into()),
        metadata: Some(metadata(&[("one", "1"), ("two", "2")])),
        ..Default::default()
    };
    let made = blob.upload(content("hello"), Some(options)).await.unwrap();
    assert_eq!(text_of(&blob).await, "hello");
    let found = blob.get_properties(None).await.unwrap();
    assert_eq!(found.etag().unwrap(), made.etag);
    assert_eq!(found.blob_type().unwrap(), Some(BlobType::BlockBlob));
    assert_eq!(
        [found.content_type(), found.content_encoding(), found.content_language(), found.cache_control()]
            .map(|one| one.unwrap().unwrap()),
        ["text/css", "gzip", "de", "no-cache"]
    );
    assert_eq!(found.metadata().unwrap(), metadata(&[("one", "1"), ("two", "2")]));
    assert_eq!(found.content_md5().unwrap().unwrap().len(), 16);
    blob.set_metadata(&metadata(&[("three", "3")]), None).await.unwrap();
    let options =
        BlobClientSetPropertiesOptions { blob_content_language: Some("fr".into()), ..Default::default() };
    blob.set_properties(Some(options)).await.unwrap();
    let found = blob.get_properties(None).await.unwrap();
    assert_eq!(found.content_language().unwrap().as_deref(), Some("fr"));
    assert_eq!(found.cache_control().unwrap(), None);
    assert_eq!(found.metadata().unwrap(), metadata(&[("three", "3")]));
    blob.delete(None).await.unwrap();
    assert!(!blob.exists().await.unwrap());
    refused(blob.delete(None).await, 404, "BlobNotFound");
    refused(read(&blob).await, 404, "BlobNotFound");
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn a_large_blob_goes_up_and_down_in_parallel() {
    let _covers = covers(&["blob-parallel"]);
    let (container, _) = new_container().await;
    let data = pattern(number("blob_large_bytes"));
    let (parallel, block) = (NonZero::new(4), NonZero::new(number("blob_block_bytes")));
    let blob = container.blob_client("large");
    let options = BlockBlobClientUploadOptions {
        parallel,
        partition_size: block.map(|size| size.try_into().unwrap()),
        ..Default::default()
    };
    blob.upload(content(data.clone()), Some(options)).await.unwrap();
    let list = blob.block_blob_client().get_block_list(BlockListType::Committed, None).await.unwrap();
    assert_eq!(list.into_model().unwrap().committed_blocks.unwrap().len(), 10);
    let options = BlobClientDownloadOptions { parallel, partition_size: block, ..Default::default() };
    let found = blob.download(Some(options)).await.unwrap().body.collect().await.unwrap();
    assert!(found == data);
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn blocks_become_the_blob_that_their_list_says() {
    let _covers = covers(&["blob-blocks"]);
    let (container, _) = new_container().await;
    let blob = container.blob_client("blocks");
    let blocks = blob.block_blob_client();
    for word in ["b0", "b1", "b2"] {
        blocks.stage_block(word.as_bytes(), 2, content(word), None).await.unwrap();
    }
    let list = blocks.get_block_list(BlockListType::All, None).await.unwrap().into_model().unwrap();
    assert_eq!(list.uncommitted_blocks.unwrap().len(), 3);
    refused(blob.get_properties(None).await, 404, "BlobNotFound");
    blocks.commit_block_list(latest(&["b2", "b0"]), None).await.unwrap();
    assert_eq!(text_of(&blob).await, "b2b0");
    blocks.stage_block(b"b9", 3, content("new"), None).await.unwrap();
    blocks.commit_block_list(latest(&["b0", "b9", "b0"]), None).await.unwrap();
    assert_eq!(text_of(&blob).await, "b0newb0");
    refused(blocks.commit_block_list(latest(&["b0", "b1"]), None).await, 400, "InvalidBlockList");
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn ranges_come_with_their_sums() {
    let _covers = covers(&["blob-range", "blob-md5"]);
    let (container, _) = new_container().await;
    let data = pattern(3000);
    let blob = container.blob_client("ranges");
    blob.upload(content(data.clone()), None).await.unwrap();
    let options = BlobClientDownloadOptions {
        range: Some((1000..2000_u64).into()),
        range_get_content_md5: Some(true),
        ..Default::default()
    };
    let found = blob.download(Some(options)).await.unwrap();
    assert_eq!(found.headers.get_optional_string(&"content-range".into()).unwrap(), "bytes 1000-1999/3000");
    assert!(found.headers.get_optional_string(&"content-md5".into()).is_some());
    assert!(found.body.collect().await.unwrap() == data[1000..2000]);
    let options = BlobClientDownloadOptions { range: Some((3000..3001_u64).into()), ..Default::default() };
    refused(blob.download(Some(options)).await, 416, "InvalidRange");
    let options = BlockBlobClientStageBlockOptions {
        transactional_content_md5: Some(vec![0; 16]),
        ..Default::default()
    };
    let staged = blob.block_blob_client().stage_block(b"1", 4, content("data"), Some(options)).await;
    refused(staged, 400, "Md5Mismatch");
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn conditions_are_kept() {
    let _covers = covers(&["blob-conditions"]);
    let (container, _) = new_container().await;
    let blob = put(&container, "conditions", "one").await;
    let any = BlockBlobClientUploadOptions { if_none_match: Some(Etag::from("*")), ..Default::default() };
    refused(blob.upload(content("two"), Some(any)).await, 409, "BlobAlreadyExists");
    let stale = blob.get_properties(None).await.unwrap().etag().unwrap();
    let options = BlockBlobClientUploadOptions { if_match: stale.clone(), ..Default::default() };
    let fresh = blob.upload(content("two"), Some(options.clone())).await.unwrap().etag;
    refused(blob.upload(content("three"), Some(options)).await, 412, "ConditionNotMet");
    let options = BlobClientSetMetadataOptions { if_match: stale.clone(), ..Default::default() };
    refused(blob.set_metadata(&HashMap::new(), Some(options)).await, 412, "ConditionNotMet");
    let options = BlobClientDeleteOptions { if_match: stale.clone(), ..Default::default() };
    refused(blob.delete(Some(options)).await, 412, "ConditionNotMet");
    let options = BlobClientDownloadOptions { if_match: stale, ..Default::default() };
    refused(blob.download(Some(options)).await, 412, "ConditionNotMet");
    let options = BlobClientDownloadOptions { if_none_match: fresh.clone(), ..Default::default() };
    refused(blob.download(Some(options)).await, 304, "ConditionNotMet");
    let options = BlobClientGetPropertiesOptions { if_none_match: fresh, ..Default::default() };
    refused(blob.get_properties(Some(options)).await, 304, "ConditionNotMet");
    assert_eq!(text_of(&blob).await, "two");
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn a_lease_keeps_others_from_writing() {
    let _covers = covers(&["blob-lease"]);
    let (container, _) = new_container().await;
    let blob = put(&container, "leased", "one").await;
    let propose = |id: &str| {
        Some(BlobClientAcquireLeaseOptions { proposed_lease_id: Some(id.to_owned()), ..Default::default() })
    };
    let holding =
        |id: &str| Some(BlobClientSetMetadataOptions { lease_id: Some(id.to_owned()), ..Default::default() });
    blob.acquire_lease(15, propose(FIRST)).await.unwrap();
    let found = blob.get_properties(None).await.unwrap();
    assert_eq!(found.lease_state().unwrap(), Some(LeaseState::Leased));
    assert_eq!(found.duration().unwrap(), Some(LeaseDuration::Fixed));
    refused(blob.acquire_lease(15, propose(SECOND)).await, 409, "LeaseAlreadyPresent");
    refused(blob.renew_lease(SECOND.into(), None).await, 409, "LeaseIdMismatchWithLeaseOperation");
    refused(blob.upload(content("two"), None).await, 412, "LeaseIdMissing");
    let written = blob.set_metadata(&HashMap::new(), holding(SECOND)).await;
    refused(written, 412, "LeaseIdMismatchWithBlobOperation");
    blob.set_metadata(&HashMap::new(), holding(FIRST)).await.unwrap();
    blob.renew_lease(FIRST.into(), None).await.unwrap();
    blob.change_lease(FIRST.into(), SECOND.into(), None).await.unwrap();
    let options = BlobClientBreakLeaseOptions { break_period: Some(0), ..Default::default() };
    assert_eq!(blob.break_lease(Some(options)).await.unwrap().lease_time().unwrap(), Some(0));
    let found = blob.get_properties(None).await.unwrap();
    assert_eq!(found.lease_state().unwrap(), Some(LeaseState::Broken));
    blob.acquire_lease(-1, propose(SECOND)).await.unwrap();
    blob.release_lease(SECOND.into(), None).await.unwrap();
    refused(blob.acquire_lease(14, None).await, 400, "InvalidHeaderValue");
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn snapshots_keep_what_was() {
    let _covers = covers(&["blob-snapshot"]);
    let (container, _) = new_container().await;
    let blob = put(&container, "snapshots", "one").await;
    let snapshot = blob.create_snapshot(None).await.unwrap().snapshot().unwrap().unwrap();
    put(&container, "snapshots", "two").await;
    let frozen = blob.with_snapshot(&snapshot).unwrap();
    assert_eq!((text_of(&frozen).await, text_of(&blob).await), ("one".to_owned(), "two".to_owned()));
    refused(blob.delete(None).await, 409, "SnapshotsPresent");
    let options = |kind| Some(BlobClientDeleteOptions { delete_snapshots: Some(kind), ..Default::default() });
    blob.delete(options(DeleteSnapshotsOptionType::Only)).await.unwrap();
    refused(frozen.get_properties(None).await, 404, "BlobNotFound");
    blob.create_snapshot(None).await.unwrap();
    blob.delete(options(DeleteSnapshotsOptionType::Include)).await.unwrap();
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn append_blobs_grow_until_they_are_sealed() {
    let _covers = covers(&["blob-append", "blob-seal", "blob-types"]);
    let (container, _) = new_container().await;
    let blob = container.blob_client("log");
    let log = blob.append_blob_client();
    log.create(None).await.unwrap();
    let at = |append_position, max_size| {
        Some(AppendBlobClientAppendBlockOptions { append_position, max_size, ..Default::default() })
    };
    let first = log.append_block(content("one\n"), 4, None).await.unwrap();
    assert_eq!(first.blob_append_offset().unwrap().as_deref(), Some("0"));
    let second = log.append_block(content("two\n"), 4, at(Some(4), Some(8))).await.unwrap();
    assert_eq!(second.blob_committed_block_count().unwrap(), Some(2));
    let late = log.append_block(content("x"), 1, at(Some(4), None)).await;
    refused(late, 412, "AppendPositionConditionNotMet");
    refused(log.append_block(content("x"), 1, at(None, Some(8))).await, 412, "MaxBlobSizeConditionNotMet");
    assert_eq!(text_of(&blob).await, "one\ntwo\n");
    let staged = blob.block_blob_client().stage_block(b"1", 1, content("x"), None).await;
    refused(staged, 409, "InvalidBlobType");
    log.seal(None).await.unwrap();
    refused(log.append_block(content("x"), 1, None).await, 409, "BlobIsSealed");
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn pages_are_written_cleared_listed_and_cut_off() {
    let _covers = covers(&["blob-pages"]);
    let (container, _) = new_container().await;
    let blob = container.blob_client("disk");
    let disk = blob.page_blob_client();
    disk.create(8192, None).await.unwrap();
    let mut pages = pattern(2048);
    disk.upload_pages(content(pages.clone()), 2048, (512..2560_u64).into(), None).await.unwrap();
    disk.clear_pages((1024..1536_u64).into(), None).await.unwrap();
    pages[512..1024].fill(0);
    let expected = [vec![0; 512], pages, vec![0; 8192 - 2560]].concat();
    assert!(read(&blob).await.unwrap() == expected);
    let lists: Vec<_> = disk.list_page_ranges(None).unwrap().try_collect().await.unwrap();
    let mut ranges = Vec::new();
    for list in lists {
        let found = list.into_model().unwrap().page_ranges;
        ranges.extend(found.into_iter().map(|one| (one.start.unwrap(), one.end.unwrap())));
    }
    assert_eq!(ranges, [(512, 1023), (1536, 2559)]);
    disk.resize(1024, None).await.unwrap();
    assert_eq!(read(&blob).await.unwrap().len(), 1024);
    let beyond = disk.upload_pages(content([0; 512]), 512, (1024..1536_u64).into(), None).await;
    refused(beyond, 416, "InvalidPageRange");
    let options =
        PageBlobClientUploadPagesOptions { if_sequence_number_less_than: Some(0), ..Default::default() };
    let late = disk.upload_pages(content([0; 512]), 512, (0..512_u64).into(), Some(options)).await;
    refused(late, 412, "SequenceNumberConditionNotMet");
    let number = disk.set_sequence_number(SequenceNumberActionType::Increment, None).await.unwrap();
    assert_eq!(number.blob_sequence_number().unwrap(), Some(1));
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn blobs_are_copied_within_the_account() {
    let _covers = covers(&["blob-copy", "blob-from-url"]);
    let (container, _) = new_container().await;
    let data = pattern(300_000);
    let source = container.blob_client("source");
    source.upload(content(data.clone()), None).await.unwrap();
    source.set_metadata(&metadata(&[("a", "1")]), None).await.unwrap();
    let url = source.url().to_string();
    let copied = container.blob_client("copied");
    let started = copied.start_copy_from_url(url.clone(), None).await.unwrap();
    assert_eq!(started.copy_status().unwrap(), Some(CopyStatus::Success));
    let id = started.copy_id().unwrap().unwrap();
    let found = copied.get_properties(None).await.unwrap();
    assert_eq!(found.copy_progress().unwrap().as_deref(), Some("300000/300000"));
    assert_eq!(found.metadata().unwrap(), metadata(&[("a", "1")]));
    refused(copied.abort_copy(&id, None).await, 409, "NoPendingCopyOperation");
    let uploaded = container.blob_client("put");
    uploaded.block_blob_client().upload_blob_from_url(url.clone(), None).await.unwrap();
    let staged = container.blob_client("staged");
    let options = BlockBlobClientStageBlockFromUrlOptions {
        source_range: Some((100..1100_u64).into()),
        ..Default::default()
    };
    staged.block_blob_client().stage_block_from_url(b"1", 0, url, Some(options)).await.unwrap();
    staged.block_blob_client().commit_block_list(latest(&["1"]), None).await.unwrap();
    assert!(read(&copied).await.unwrap() == data);
    assert!(read(&uploaded).await.unwrap() == data);
    assert!(read(&staged).await.unwrap() == data[100..1100]);
    container.delete(None).await.unwrap();
}

#[tokio::test]
async fn tags_and_tiers_are_kept() {
    let _covers = covers(&["blob-tags", "blob-tier"]);
    let (container, name) = new_container().await;
    let run = unique_name("run");
    let blob = container.blob_client("tagged");
    let options = BlockBlobClientUploadOptions { tier: Some(AccessTier::Cool), ..Default::default() };
    blob.upload(content("x"), Some(options)).await.unwrap();
    let tags = metadata(&[("run", run.as_str()), ("colour", "red")]);
    blob.set_tags(BlobTags::from(tags.clone()).try_into().unwrap(), None).await.unwrap();
    let found: HashMap<String, String> = blob.get_tags(None).await.unwrap().into_model().unwrap().into();
    assert_eq!(found, tags);
    let query = format!("\"run\"='{run}' AND \"colour\"='red'");
    let hits: Vec<_> = service().find_blobs_by_tags(&query, None).unwrap().try_collect().await.unwrap();
    let hits: Vec<_> = hits.iter().map(|one| (one.container_name.as_deref(), one.name.as_deref())).collect();
    assert_eq!(hits, [(Some(name.as_str()), Some("tagged"))]);
    let options =
        BlobClientSetMetadataOptions { if_tags: Some("\"colour\"='green'".to_owned()), ..Default::default() };
    refused(blob.set_metadata(&HashMap::new(), Some(options)).await, 412, "ConditionNotMet");
    assert_eq!(blob.get_properties(None).await.unwrap().access_tier().unwrap().as_deref(), Some("Cool"));
    blob.set_tier(AccessTier::Archive, None).await.unwrap();
    refused(read(&blob).await, 409, "BlobArchived");
    container.delete(None).await.unwrap();
}
