//! Snapshots, versions, soft delete, leases: which state of a blob is there, and who may change it.

use bytes::Bytes;
use tavola_engine::{Change, Decision, SpaceId, StoredRow};
use tavola_model::{
    AccessTier, BlobCommand, BlobConditions, BlobMoment, BlobOutcome, BlobTags, BlobTarget, DateTime,
    DeleteSnapshots, ErrorCode, EtagMatch, Guid, LeaseAction, LeaseBlob, LeaseDuration, LeaseId, Metadata,
    NewKind, RehydratePriority, SetBlobTags, SetBlobTier, SnapshotBlob, TransferSums, VersionConditions,
};
use tavola_service::ServiceSettings;

use crate::bench::{Bench, bytes, delete, get, head, new_blob, path};
use crate::troubled::Stores;

#[test]
fn a_snapshot_stays_what_it_was_until_it_is_deleted() {
    let bench = Bench::new();
    let [first, second] = [bytes(1, 30_000), bytes(2, 30_000)];
    bench.put("b", &first);
    let snapshot = bench.snapshot("b");
    let again = bench.snapshot("b");
    assert_ne!(snapshot, again);
    bench.put("b", &second);
    assert_eq!(bench.content_bytes(), 60_000, "the snapshots keep the old content");
    assert_eq!(bench.read(snapshot.clone(), None).unwrap(), first);
    assert_eq!(bench.get("b").unwrap(), second);
    let refuse = bench.delete(path("b").into(), DeleteSnapshots::Refuse);
    assert_eq!(refuse, Err(ErrorCode::SnapshotsPresent));
    bench.delete(again, DeleteSnapshots::Refuse).unwrap();
    assert_eq!(bench.content_bytes(), 60_000);
    bench.delete(path("b").into(), DeleteSnapshots::Only).unwrap();
    assert_eq!(bench.content_bytes(), 30_000);
    assert_eq!(bench.read(snapshot, None), Err(ErrorCode::BlobNotFound));
    assert_eq!(bench.get("b").unwrap(), second);
    bench.snapshot("b");
    bench.delete(path("b").into(), DeleteSnapshots::Include).unwrap();
    assert_eq!(bench.get("b"), Err(ErrorCode::BlobNotFound));
    assert_eq!(bench.content_bytes(), 0);
}

#[test]
fn with_versions_every_state_that_was_overwritten_or_deleted_can_be_read() {
    let bench = Bench::with(ServiceSettings { blob_versions: true, ..ServiceSettings::default() });
    let states: Vec<Bytes> = (0..3).map(|seed| bytes(seed, 20_000)).collect();
    let mut versions = Vec::new();
    for state in &states {
        let command = BlobCommand::PutBlob(new_blob("b", NewKind::Block, state.len() as u64));
        match bench.run_with(command, state.clone()).unwrap() {
            BlobOutcome::BlobPut(written) => versions.push(written.version.unwrap()),
            other => panic!("{other:?}"),
        }
    }
    let version = |at: usize| BlobTarget { path: path("b"), moment: BlobMoment::Version(versions[at]) };
    for (at, state) in states.iter().enumerate() {
        assert_eq!(bench.read(version(at), None).unwrap(), *state, "{at}");
    }
    let current = bench.delete(version(2), DeleteSnapshots::Refuse);
    assert_eq!(current, Err(ErrorCode::OperationNotAllowedOnRootBlob));
    bench.delete(path("b").into(), DeleteSnapshots::Refuse).unwrap();
    assert_eq!(bench.get("b"), Err(ErrorCode::BlobNotFound));
    assert_eq!(bench.read(version(2), None).unwrap(), states[2]);
    assert_eq!(bench.content_bytes(), 60_000);
    bench.delete(version(0), DeleteSnapshots::Refuse).unwrap();
    assert_eq!(bench.content_bytes(), 40_000);
}

fn lease(action: LeaseAction) -> BlobCommand {
    BlobCommand::LeaseBlob(LeaseBlob { blob: path("b"), action, conditions: BlobConditions::default() })
}

#[test]
fn a_lease_keeps_others_from_writing_until_it_ends_and_does_not_change_the_etag() {
    let bench = Bench::new();
    let body = bytes(1, 10);
    bench.put("b", &body);
    let id = LeaseId(Guid([1; 16]));
    let acquire = LeaseAction::Acquire { duration: LeaseDuration::Seconds(15), proposed: Some(id) };
    let before = properties(&bench).changed;
    bench.run(lease(acquire)).unwrap();
    assert_eq!(properties(&bench).changed, before);
    let put = |lease| {
        let mut command = new_blob("b", NewKind::Block, 10);
        command.conditions.lease = lease;
        bench.run_with(BlobCommand::PutBlob(command), body.clone()).map(|_| ())
    };
    assert_eq!(put(None), Err(ErrorCode::LeaseIdMissing));
    assert_eq!(put(Some(LeaseId(Guid([2; 16])))), Err(ErrorCode::LeaseIdMismatchWithBlobOperation));
    assert_eq!(put(Some(id)), Ok(()));
    assert_eq!(bench.delete(path("b").into(), DeleteSnapshots::Refuse), Err(ErrorCode::LeaseIdMissing));
    bench.clock.pass_seconds(16);
    assert_eq!(put(Some(id)), Err(ErrorCode::LeaseLost));
    assert_eq!(put(None), Ok(()));
    assert_eq!(
        bench.run(lease(LeaseAction::Renew(id))).map(|_| ()),
        Err(ErrorCode::LeaseIdMismatchWithLeaseOperation),
        "the write in between has ended it"
    );
}

#[test]
fn conditions_are_held_against_the_blob_as_it_is() {
    let bench = Bench::new();
    let body = bytes(1, 10);
    let put = |version| {
        let mut command = new_blob("b", NewKind::Block, 10);
        command.conditions.version = version;
        bench.run_with(BlobCommand::PutBlob(command), body.clone()).map(|_| ())
    };
    let none_match = |named| VersionConditions { if_none_match: Some(named), ..VersionConditions::default() };
    let matches = |named| VersionConditions { if_match: Some(named), ..VersionConditions::default() };
    assert_eq!(put(matches(EtagMatch::Any)), Err(ErrorCode::ConditionNotMet));
    assert_eq!(put(none_match(EtagMatch::Any)), Ok(()));
    assert_eq!(put(none_match(EtagMatch::Any)), Err(ErrorCode::BlobAlreadyExists));
    let etag = properties(&bench).changed.etag();
    assert_eq!(put(none_match(EtagMatch::Is(etag))), Err(ErrorCode::ConditionNotMet));
    assert_eq!(put(matches(EtagMatch::Is(etag))), Ok(()));
    assert_eq!(put(matches(EtagMatch::Is(etag))), Err(ErrorCode::ConditionNotMet));
    let etag = properties(&bench).changed.etag();
    let read = |version| {
        let conditions = BlobConditions { version, ..BlobConditions::default() };
        bench.run(head(path("b").into(), conditions)).map(|_| ())
    };
    assert_eq!(read(none_match(EtagMatch::Is(etag))), Err(ErrorCode::NotModified));
    assert_eq!(read(matches(EtagMatch::Foreign)), Err(ErrorCode::ConditionNotMet));
    assert_eq!(read(matches(EtagMatch::Is(etag))), Ok(()));
}

fn properties(bench: &Bench) -> tavola_model::BlobProperties {
    match bench.run(head(path("b").into(), BlobConditions::default())).unwrap() {
        BlobOutcome::BlobPropertiesFetched(properties) => *properties,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_leaves_the_archive_can_be_read_when_it_has_left_it() {
    let bench = Bench::new();
    let body = bytes(1, 100);
    bench.put("b", &body);
    let set = |tier| {
        let set = SetBlobTier {
            target: path("b").into(),
            tier,
            rehydrate: RehydratePriority::High,
            conditions: BlobConditions::default(),
        };
        match bench.run(BlobCommand::SetBlobTier(set)) {
            Ok(BlobOutcome::BlobTierSet { is_done }) => is_done,
            other => panic!("{other:?}"),
        }
    };
    let shown = || {
        let asked = head(path("b").into(), BlobConditions::default());
        let Ok(BlobOutcome::BlobPropertiesFetched(found)) = bench.run(asked) else { panic!() };
        let tier = found.tier.unwrap();
        (tier.tier, tier.rehydrate_to.is_some())
    };
    assert!(set(AccessTier::Archive));
    assert_eq!(bench.get("b"), Err(ErrorCode::BlobArchived));
    assert!(!set(AccessTier::Cool), "it takes a while");
    assert_eq!(shown(), (AccessTier::Archive, true));
    assert_eq!(bench.get("b"), Err(ErrorCode::BlobArchived));
    bench.clock.pass_seconds(61);
    assert_eq!(shown(), (AccessTier::Cool, false));
    assert_eq!(bench.get("b").unwrap(), body);
    assert!(set(AccessTier::Hot), "it is in the archive no more");
}

#[test]
fn tags_whose_body_was_changed_on_its_way_are_not_set() {
    let bench = Bench::new();
    bench.put("b", &bytes(1, 10));
    let set = |sums| {
        let set = SetBlobTags {
            target: path("b").into(),
            tags: BlobTags::parse([("a".to_owned(), "b".to_owned())]).unwrap(),
            sums,
            text: Bytes::from_static(b"<Tags/>"),
            conditions: BlobConditions::default(),
        };
        bench.run(BlobCommand::SetBlobTags(set)).map(drop)
    };
    let none = TransferSums::default();
    assert_eq!(set(TransferSums { md5: Some([0; 16]), ..none }), Err(ErrorCode::Md5Mismatch));
    assert_eq!(set(TransferSums { crc64: Some(7), ..none }), Err(ErrorCode::Crc64Mismatch));
    assert!(properties(&bench).tags.is_empty());
    assert_eq!(set(none), Ok(()));
    assert_eq!(properties(&bench).tags.len(), 1);
}

#[test]
fn a_snapshot_with_metadata_of_its_own_has_an_etag_of_its_own() {
    let bench = Bench::new();
    bench.put("b", &bytes(1, 10));
    let blob = properties(&bench).changed;
    for (pairs, is_own) in [(vec![], false), (vec![("a".to_owned(), "b".to_owned())], true)] {
        let metadata = Metadata::parse(pairs).unwrap();
        let asked = SnapshotBlob { blob: path("b"), metadata, conditions: BlobConditions::default() };
        match bench.run(BlobCommand::SnapshotBlob(asked)).unwrap() {
            BlobOutcome::BlobSnapshotTaken { changed, .. } => assert_eq!(changed != blob, is_own),
            other => panic!("{other:?}"),
        }
        assert_eq!(properties(&bench).changed, blob);
    }
}

#[test]
fn properties_of_a_newer_server_keep_nobody_from_writing_and_deleted_blobs_are_kept() {
    let stores = Stores::new();
    let mut put_row = |_: DateTime, _: &[Option<StoredRow>]| {
        Decision::Apply(vec![Change::Put { index: 0, body: Bytes::from_static(b"\xFF?") }])
    };
    let rows: [&[u8]; 1] = [b"sblob"];
    let set = stores.engine.transact(SpaceId::CATALOG, b"devstoreaccount1", &rows, &mut put_row);
    stores.runtime.block_on(set).unwrap();
    stores.put("b", 30_000);
    stores.put("b", 40_000);
    stores.run(delete(path("b").into(), DeleteSnapshots::Refuse)).unwrap();
    assert_eq!(stores.run(get(path("b").into(), None)).unwrap_err(), ErrorCode::BlobNotFound);
    stores.run(BlobCommand::UndeleteBlob(path("b"))).unwrap();
    assert_eq!(stores.run(get(path("b").into(), None)).unwrap().1.len(), 40_000);
}
