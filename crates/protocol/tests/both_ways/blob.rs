//! Requests and answers of the blob service: what a client asks is what the server understands, and what the server
//! answers is what the client reads.

use bytes::Bytes;
use proptest::prelude::*;
use tavola_model::{
    AccessTier, AppendConditions, BlobCommand, BlobConditions, BlobCopied, BlobCursor, BlobEntry, BlobEtag,
    BlobGot, BlobHeaders, BlobKind, BlobMoment, BlobName, BlobOutcome, BlobPage, BlobPath, BlobProperties,
    BlobTags, BlobTarget, BlobType, BlobWritten, BlockAppended, BlockId, BlockList, BlockListType,
    BlockSource, BlockWritten, ByteRange, Changed, Command, ContainerConditions, ContainerName,
    ContainerPage, ContainerProperties, CopyStatus, DateTime, DeleteSnapshots, ErrorCode, EtagMatch,
    GotRange, Guid, LeaseAction, LeaseDone, LeaseDuration, LeaseId, LeaseShown, LeaseState, ListInclude,
    ListedBlob, ListedBlock, Metadata, NewBlob, NewKind, Outcome, PublicAccess, RangeSum, StorageService,
    TagComparison, TagFilter, TransferSums, VersionConditions,
};
use tavola_protocol::Request;
use tavola_protocol::blob::{self, BlobQuery, ContainerQuery, FoundEntry};

use crate::wire::{Asked, Received, ask};

fn asked(request: &Request) -> Asked {
    ask(StorageService::Blob, request)
}

fn command(request: &Request) -> BlobCommand {
    match asked(request).command {
        Ok(Command::Blob(command)) => *command,
        other => panic!("{request:?}: {other:?}"),
    }
}

fn answered(request: &Request, outcome: BlobOutcome) -> Received {
    asked(request).answer(Ok(Outcome::Blob(Box::new(outcome))))
}

fn container() -> ContainerName {
    ContainerName::parse("con-1").unwrap()
}

fn path(name: &str) -> BlobPath {
    BlobPath { container: container(), name: BlobName::parse(name).unwrap() }
}

fn now() -> DateTime {
    DateTime::parse("2026-01-02T03:04:05.6789012Z").unwrap()
}

fn second() -> DateTime {
    DateTime::parse("2026-01-02T03:04:05Z").unwrap()
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,5}(/[A-Za-z0-9 %+?#&=.~-]{1,8}){0,3}",
        // Names that XML cannot hold, which only versions after ours encode, are left out.
        "[ -~\u{a0}-\u{d7ff}\u{10000}-\u{10ffff}]{1,30}",
    ]
    .prop_filter("a path does not begin with the slash of a container", |name| !name.starts_with('/'))
}

fn any_text() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[!-~]([ -~]{0,10}[!-~])?")
}

fn any_headers() -> impl Strategy<Value = BlobHeaders> {
    (any_text(), any_text(), any_text(), any_text(), any_text(), prop::option::of(any::<[u8; 16]>()))
        .prop_map(
            |(
                content_type,
                content_encoding,
                content_language,
                cache_control,
                content_disposition,
                content_md5,
            )| {
                BlobHeaders {
                    content_type,
                    content_encoding,
                    content_language,
                    cache_control,
                    content_disposition,
                    content_md5,
                }
            },
        )
}

fn any_metadata() -> impl Strategy<Value = Metadata> {
    prop::collection::btree_map("[a-z_][a-z0-9_]{0,6}", "[!-~]([ -~]{0,10}[!-~])?", 0..4)
        .prop_map(|pairs| Metadata::parse(pairs).unwrap())
}

fn any_tags() -> impl Strategy<Value = BlobTags> {
    prop::collection::btree_map("[a-zA-Z0-9 +./:=_-]{1,8}", "[a-zA-Z0-9 +./:=_-]{0,8}", 0..4)
        .prop_map(|pairs| BlobTags::parse(pairs).unwrap())
}

fn any_new() -> impl Strategy<Value = NewBlob> {
    let tier =
        prop::option::of(prop::sample::select(vec![AccessTier::Hot, AccessTier::Cool, AccessTier::Archive]));
    (any_headers(), any_metadata(), any_tags(), tier).prop_map(|(headers, metadata, tags, tier)| NewBlob {
        headers,
        metadata,
        tags,
        tier,
    })
}

fn any_version() -> impl Strategy<Value = BlobEtag> {
    (DateTime::STORABLE_MIN.ticks()..DateTime::MAX.ticks())
        .prop_map(|ticks| BlobEtag(DateTime::from_ticks(ticks).unwrap()))
}

fn any_known_etag() -> impl Strategy<Value = EtagMatch> {
    any_version().prop_map(EtagMatch::Is)
}

fn any_filter() -> impl Strategy<Value = TagFilter> {
    let comparison = prop::sample::select(vec![
        TagComparison::Equal,
        TagComparison::NotEqual,
        TagComparison::Less,
        TagComparison::GreaterOrEqual,
    ]);
    let part = ("[a-zA-Z0-9 ]{1,6}", comparison, "[a-zA-Z0-9 +./:=_-]{0,6}")
        .prop_map(|(name, comparison, value)| TagFilter::Compare { name, comparison, value })
        .boxed();
    let parts = prop::collection::vec(part.clone(), 2..4);
    prop_oneof![part, parts.clone().prop_map(TagFilter::And), parts.prop_map(TagFilter::Or)]
}

/// Conditions of a read, which may be combined.
fn any_conditions() -> impl Strategy<Value = BlobConditions> {
    let etag = || prop::option::of(any_known_etag());
    let several = prop::option::of(prop_oneof![
        any_known_etag(),
        prop::collection::vec(any_version(), 2..4).prop_map(EtagMatch::OneOf)
    ]);
    with_tags_and_lease((several, etag(), any_time(), any_time()).prop_map(
        |(if_match, if_none_match, if_modified_since, if_unmodified_since)| VersionConditions {
            if_match,
            if_none_match,
            if_modified_since,
            if_unmodified_since,
        },
    ))
}

/// Conditions of a write, which has one of the four at most.
fn any_write_conditions() -> impl Strategy<Value = BlobConditions> {
    let none = VersionConditions::default;
    let etag = || prop_oneof![Just(EtagMatch::Any), any_known_etag()];
    with_tags_and_lease(prop_oneof![
        Just(none()),
        etag().prop_map(move |etag| VersionConditions { if_match: Some(etag), ..none() }),
        etag().prop_map(move |etag| VersionConditions { if_none_match: Some(etag), ..none() }),
        any_time().prop_map(move |if_modified_since| VersionConditions { if_modified_since, ..none() }),
        any_time().prop_map(move |if_unmodified_since| VersionConditions { if_unmodified_since, ..none() }),
    ])
}

fn any_time() -> impl Strategy<Value = Option<DateTime>> {
    let second =
        (0u64..250_000_000_000).prop_map(|second| DateTime::from_ticks(second * 10_000_000).unwrap());
    prop::option::of(second)
}

fn with_tags_and_lease(
    version: impl Strategy<Value = VersionConditions>,
) -> impl Strategy<Value = BlobConditions> {
    (version, prop::option::of(any_filter()), prop::option::of(any::<[u8; 16]>())).prop_map(
        |(version, if_tags, lease)| BlobConditions {
            version,
            if_tags,
            lease: lease.map(|id| LeaseId(Guid(id))),
        },
    )
}

fn any_sums() -> impl Strategy<Value = TransferSums> {
    (prop::option::of(any::<[u8; 16]>()), prop::option::of(any::<u64>()))
        .prop_map(|(md5, crc64)| TransferSums { md5, crc64, ..TransferSums::default() })
}

proptest! {
    #[test]
    fn an_upload_is_understood_as_meant(
        name in any_name(), new in any_new(), sums in any_sums(), conditions in any_write_conditions(),
    ) {
        let blob = path(&name);
        let content = Bytes::from_static(b"content");
        let request = blob::put_blob(&blob, NewKind::Block, &new, &sums, &conditions, content.clone()).unwrap();
        let BlobCommand::PutBlob(put) = command(&request) else { panic!("not put") };
        prop_assert_eq!(&put.blob, &blob);
        prop_assert_eq!((put.kind, put.length), (NewKind::Block, Some(7)));
        let mut meant = new.clone();
        meant.headers.content_type.get_or_insert_with(|| "application/octet-stream".to_owned());
        prop_assert_eq!(&put.new, &meant);
        prop_assert_eq!((put.sums.md5, put.sums.crc64), (sums.md5, sums.crc64));
        prop_assert_eq!(&put.conditions, &conditions);

        let id = BlockId::from_bytes(name.as_bytes()).unwrap_or_else(|| BlockId::from_bytes(b"x").unwrap());
        let request = blob::put_block(&blob, &id, &sums, conditions.lease, content.clone()).unwrap();
        let BlobCommand::PutBlock(put) = command(&request) else { panic!("no block") };
        prop_assert_eq!((&put.blob, &put.id, put.lease), (&blob, &id, conditions.lease));

        let blocks = vec![(BlockSource::Latest, id.clone()), (BlockSource::Committed, id)];
        let request = blob::put_block_list(&blob, &blocks, &new, &conditions).unwrap();
        let BlobCommand::PutBlockList(put) = command(&request) else { panic!("no list") };
        prop_assert_eq!((&put.blocks, &put.new, &put.conditions), (&blocks, &meant, &conditions));

        let append = AppendConditions { position: Some(3), length_max: None };
        let request = blob::append_block(&blob, &append, &sums, &conditions, content).unwrap();
        let BlobCommand::AppendBlock(put) = command(&request) else { panic!("no append") };
        prop_assert_eq!((put.append, &put.conditions), (append, &conditions));
    }

    #[test]
    fn a_read_is_understood_as_meant(
        name in any_name(), first in 0u64..1000, length in prop::option::of(1u64..1000), conditions in any_conditions(),
        writing in any_write_conditions(),
    ) {
        for moment in [BlobMoment::Current, BlobMoment::Snapshot(now()), BlobMoment::Version(now())] {
            let target = BlobTarget { path: path(&name), moment };
            let range = ByteRange { first, last: length.map(|length| first + length - 1) };
            let request = blob::get_blob(&target, Some(range), Some(RangeSum::Crc64), &conditions).unwrap();
            let BlobCommand::GetBlob(get) = command(&request) else { panic!("no get") };
            prop_assert_eq!((&get.target, get.range, get.range_sum), (&target, Some(range), Some(RangeSum::Crc64)));
            prop_assert_eq!(&get.conditions, &conditions);
            let request = blob::get_blob_properties(&target, &conditions).unwrap();
            let BlobCommand::GetBlobProperties(get) = command(&request) else { panic!("no head") };
            prop_assert_eq!((&get.target, &get.conditions), (&target, &conditions));
            let request = blob::get_block_list(&target, BlockListType::All, &conditions).unwrap();
            let BlobCommand::GetBlockList(get) = command(&request) else { panic!("no list") };
            prop_assert_eq!((&get.target, get.which), (&target, BlockListType::All));
            let request = blob::delete_blob(&target, DeleteSnapshots::Refuse, &writing).unwrap();
            let BlobCommand::DeleteBlob(delete) = command(&request) else { panic!("no delete") };
            prop_assert_eq!((&delete.target, &delete.conditions), (&target, &writing));
        }
    }

    #[test]
    fn a_list_is_asked_for_and_read_as_meant(
        names in prop::collection::btree_set(any_name(), 0..6), prefix in prop::option::of(any_name()),
        headers in any_headers(), metadata in any_metadata(), next in prop::option::of(any_name()),
    ) {
        let include = ListInclude { metadata: true, snapshots: true, ..ListInclude::default() };
        let query = BlobQuery {
            prefix: prefix.as_deref(), delimiter: Some("/"), start_from: Some("a b"), max: Some(7), include,
            ..BlobQuery::default()
        };
        let request = blob::list_blobs(&container(), &query);
        let BlobCommand::ListBlobs(list) = command(&request) else { panic!("no list") };
        prop_assert_eq!((&list.prefix, list.delimiter.as_deref(), list.max), (&prefix, Some("/"), Some(7)));
        prop_assert_eq!((list.start_from.as_deref(), list.include), (Some("a b"), include));
        let blob = |name: &String| ListedBlob {
            name: BlobName::parse(name).unwrap(),
            snapshot: Some(now()),
            deleted: None,
            has_versions_only: false,
            properties: properties(headers.clone(), metadata.clone()),
            is_uncommitted: false,
        };
        let mut entries: Vec<BlobEntry> =
            names.iter().map(|name| BlobEntry::Blob(Box::new(blob(name)))).collect();
        entries.push(BlobEntry::Prefix("zz/".into()));
        let next = next.map(|name| BlobCursor { name, at: DateTime::MAX });
        let page = BlobPage { asked: list, entries, next: next.clone() };
        let received = answered(&request, BlobOutcome::BlobsListed(Box::new(page)));
        let read = blob::blobs_listed(&received.read()).unwrap();
        prop_assert_eq!(read.entries.len(), names.len() + 1);
        prop_assert_eq!(read.entries.last(), Some(&FoundEntry::Prefix("zz/".into())));
        for (entry, name) in read.entries.iter().zip(&names) {
            let FoundEntry::Blob(found) = entry else { panic!("a prefix") };
            prop_assert_eq!((&found.name, found.length, found.snapshot), (name, 99, Some(now())));
            prop_assert_eq!(&found.headers, &headers);
            let pairs: Vec<(String, String)> =
                metadata.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            prop_assert_eq!(found.metadata.as_ref(), Some(&pairs));
            prop_assert_eq!(found.last_modified, Some(second()));
        }
        // The marker that was read leads to where the page ended.
        let query = BlobQuery { marker: read.next_marker.as_deref(), ..BlobQuery::default() };
        let BlobCommand::ListBlobs(list) = command(&blob::list_blobs(&container(), &query)) else { panic!() };
        prop_assert_eq!(list.from, next);
    }

    #[test]
    fn a_blob_is_read_as_it_was_given(headers in any_headers(), metadata in any_metadata(), part in any::<bool>()) {
        let target = BlobTarget::from(path("a"));
        let request = blob::get_blob(&target, None, None, &BlobConditions::default()).unwrap();
        let properties = properties(headers.clone(), metadata.clone());
        let got = BlobGot {
            properties: properties.clone(),
            range: part.then_some(GotRange { first: 5, length: 10 }),
            range_md5: None,
            range_crc64: part.then_some(7),
        };
        let received = answered(&request, BlobOutcome::BlobGot(Box::new(got)));
        let head = blob::get_blob_properties(&target, &BlobConditions::default()).unwrap();
        let fetched = answered(&head, BlobOutcome::BlobPropertiesFetched(Box::new(properties)));
        for (received, is_part) in [(received, part), (fetched, false)] {
            let read = blob::blob_fetched(&received.read()).unwrap();
            prop_assert_eq!((read.length, read.blob_type), (99, BlobType::Append));
            prop_assert_eq!(read.range, is_part.then_some((5, 14)));
            prop_assert_eq!(read.range_crc64, is_part.then_some(7));
            prop_assert_eq!(&read.headers, &headers);
            let pairs: Vec<(String, String)> =
                metadata.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            prop_assert_eq!(&read.metadata, &pairs);
            prop_assert_eq!(read.stamp.etag, BlobEtag(now()).quoted());
            prop_assert_eq!((read.created, read.lease_state), (Some(second()), Some(LeaseState::Leased)));
        }
    }
}

fn properties(headers: BlobHeaders, metadata: Metadata) -> BlobProperties {
    BlobProperties {
        kind: BlobKind::Append { block_count: 3, is_sealed: true },
        changed: Changed(now()),
        created: now(),
        length: 99,
        headers,
        metadata,
        tags: BlobTags::default(),
        tier: None,
        lease: Some(LeaseShown { state: LeaseState::Leased, duration: Some(LeaseDuration::Infinite) }),
        copy: None,
        version: None,
    }
}

#[test]
fn containers_are_asked_for_and_read_as_meant() {
    let metadata = Metadata::parse([("a".to_owned(), "1".to_owned())]).unwrap();
    let request = blob::create_container(&container(), &metadata, PublicAccess::Blob).unwrap();
    let BlobCommand::CreateContainer(create) = command(&request) else { panic!("no create") };
    assert_eq!((&create.metadata, create.public_access), (&metadata, PublicAccess::Blob));
    let received = answered(&request, BlobOutcome::ContainerCreated(Changed(now())));
    let stamp = blob::container_created(&received.read()).unwrap();
    assert_eq!((stamp.etag, stamp.last_modified), (BlobEtag(now()).quoted(), Some(second())));

    let lease = LeaseId(Guid([7; 16]));
    let conditions = ContainerConditions { lease: Some(lease), ..ContainerConditions::default() };
    let request = blob::delete_container(&container(), &conditions).unwrap();
    let BlobCommand::DeleteContainer(delete) = command(&request) else { panic!("no delete") };
    assert_eq!(delete.conditions, conditions);
    blob::blob_deleted(&answered(&request, BlobOutcome::ContainerDeleted).read()).unwrap();
    let refused = asked(&request).answer(Err(ErrorCode::ContainerNotFound.into()));
    assert!(blob::blob_deleted(&refused.read()).unwrap_err().is(ErrorCode::ContainerNotFound));

    let query =
        ContainerQuery { prefix: Some("c"), max: Some(2), with_metadata: true, ..ContainerQuery::default() };
    let request = blob::list_containers(&query);
    let BlobCommand::ListContainers(list) = command(&request) else { panic!("no list") };
    let properties = ContainerProperties {
        changed: Changed(now()),
        lease: LeaseShown::default(),
        public_access: PublicAccess::None,
        metadata,
        deleted: None,
    };
    let next = Some(ContainerName::parse("next").unwrap());
    let page = ContainerPage { asked: list, containers: vec![(container(), properties.clone())], next };
    let page =
        blob::containers_listed(&answered(&request, BlobOutcome::ContainersListed(page)).read()).unwrap();
    assert_eq!(
        (page.containers[0].name.as_str(), page.next_marker.as_deref()),
        ("con-1", Some("/acct/next"))
    );
    assert_eq!(page.containers[0].metadata, Some(vec![("a".to_owned(), "1".to_owned())]));

    let request = blob::get_container_properties(&container());
    let outcome = BlobOutcome::ContainerPropertiesFetched(Box::new(properties));
    let fetched = blob::container_fetched(&answered(&request, outcome).read()).unwrap();
    assert_eq!((fetched.lease_state, fetched.metadata.len()), (Some(LeaseState::Available), 1));
}

#[test]
fn leases_are_asked_for_and_read_as_meant() {
    let (one, other) = (LeaseId(Guid([1; 16])), LeaseId(Guid([2; 16])));
    let at = Changed(now());
    for (action, done) in [
        (
            LeaseAction::Acquire { duration: LeaseDuration::Infinite, proposed: Some(one) },
            LeaseDone::Acquired(one),
        ),
        (
            LeaseAction::Acquire { duration: LeaseDuration::Seconds(15), proposed: None },
            LeaseDone::Acquired(one),
        ),
        (LeaseAction::Renew(one), LeaseDone::Renewed(one)),
        (LeaseAction::Change { id: other, proposed: one }, LeaseDone::Changed(one)),
    ] {
        let request = blob::lease_blob(&path("a"), &action, &BlobConditions::default()).unwrap();
        let BlobCommand::LeaseBlob(lease) = command(&request) else { panic!("no lease") };
        assert_eq!(lease.action, action);
        let received = answered(&request, BlobOutcome::BlobLeased(at, done));
        assert_eq!(blob::lease_held(&received.read()).unwrap(), one);
    }
    let action = LeaseAction::Break { period_seconds: Some(9) };
    let request = blob::lease_container(&container(), &action).unwrap();
    let BlobCommand::LeaseContainer(lease) = command(&request) else { panic!("no lease") };
    assert_eq!(lease.action, action);
    let received =
        answered(&request, BlobOutcome::ContainerLeased(at, LeaseDone::Broken { seconds_left: 9 }));
    assert_eq!(blob::lease_broken(&received.read()).unwrap(), 9);
    let request = blob::lease_container(&container(), &LeaseAction::Release(one)).unwrap();
    let received = answered(&request, BlobOutcome::ContainerLeased(at, LeaseDone::Released));
    blob::lease_released(&received.read()).unwrap();
}

#[test]
fn writes_and_copies_are_read_as_given() {
    let none = BlobConditions::default();
    let changed = Changed(now());
    let request = blob::put_blob(
        &path("a"),
        NewKind::Append,
        &NewBlob::default(),
        &TransferSums::default(),
        &none,
        Bytes::new(),
    );
    let request = request.unwrap();
    let written = BlobWritten { changed, md5: Some([1; 16]), crc64: Some(2), version: Some(now()) };
    let read = blob::blob_put(&answered(&request, BlobOutcome::BlobPut(written)).read()).unwrap();
    assert_eq!((read.md5, read.crc64), (Some([1; 16]), Some(2)));
    assert_eq!(read.version_id.as_deref(), Some("2026-01-02T03:04:05.6789012Z"));

    let sums = BlockWritten { md5: None, crc64: Some(3) };
    let read = blob::block_put(&answered(&request, BlobOutcome::BlockPut(sums)).read()).unwrap();
    assert_eq!((read.stamp, read.crc64), (None, Some(3)));
    let appended = BlockAppended { changed, offset: 11, block_count: 2, sums };
    let read =
        blob::block_appended(&answered(&request, BlobOutcome::BlockAppended(appended)).read()).unwrap();
    assert_eq!((read.offset, read.block_count, read.written.crc64), (11, Some(2), Some(3)));

    let request =
        blob::copy_blob(&path("b"), "http://h/acct/c/a", true, &Metadata::default(), &none).unwrap();
    let BlobCommand::CopyBlob(copy) = command(&request) else { panic!("no copy") };
    assert_eq!((copy.source.shown.as_str(), copy.is_sync), ("http://h/acct/c/a", true));
    let copied = BlobCopied {
        changed,
        id: Guid([9; 16]),
        status: CopyStatus::Success,
        md5: None,
        crc64: None,
        is_sync: true,
        version: None,
    };
    let read = blob::copy_started(&answered(&request, BlobOutcome::BlobCopied(copied)).read()).unwrap();
    assert_eq!(read, (Guid([9; 16]), CopyStatus::Success));

    let block = ListedBlock { id: BlockId::from_bytes(b"1").unwrap(), length: 5 };
    let list = BlockList { blob: None, committed: Some(vec![block.clone()]), uncommitted: Some(Vec::new()) };
    let request = blob::get_block_list(&path("a").into(), BlockListType::All, &none).unwrap();
    let read =
        blob::block_list_fetched(&answered(&request, BlobOutcome::BlockListFetched(list)).read()).unwrap();
    assert_eq!((read.committed, read.uncommitted), (vec![block], Vec::new()));
}
