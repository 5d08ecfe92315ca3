//! Versions: which changes make one, under which id it is found, and what is told of it.

use bytes::Bytes;
use tavola_model::{
    AppendConditions, BlobCommand, BlobConditions, BlobEntry, BlobMoment, BlobOutcome, BlobProperties,
    BlobTarget, BlobWritten, DateTime, DeleteSnapshots, ErrorCode, LeaseShown, ListBlobs, ListInclude,
    ListedBlob, Metadata, NewKind, PutPages, SequenceConditions, ServiceError, SetBlobMetadata, SnapshotBlob,
    TransferSums,
};
use tavola_service::ServiceSettings;

use crate::bench::{
    Bench, append, bytes, commit, container, copy_blob, delete, head, new_blob, path, put_block,
};

const MILLISECOND_TICKS: u64 = 10_000;

fn bench() -> Bench {
    Bench::with(ServiceSettings { blob_versions: true, ..ServiceSettings::default() })
}

fn version(id: DateTime) -> BlobTarget {
    BlobTarget { path: path("b"), moment: BlobMoment::Version(id) }
}

fn put(bench: &Bench, body: &Bytes) -> BlobWritten {
    let command = BlobCommand::PutBlob(new_blob("b", NewKind::Block, body.len() as u64));
    match bench.run_with(command, body.clone()).unwrap() {
        BlobOutcome::BlobPut(written) => written,
        other => panic!("{other:?}"),
    }
}

fn set_metadata(bench: &Bench, value: &str) -> DateTime {
    let metadata = Metadata::parse([("colour".to_owned(), value.to_owned())]).unwrap();
    let set = SetBlobMetadata { blob: path("b"), metadata, conditions: BlobConditions::default() };
    match bench.run(BlobCommand::SetBlobMetadata(set)).unwrap() {
        BlobOutcome::BlobMetadataSet { version, .. } => version.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn snapshot(bench: &Bench) -> (DateTime, DateTime) {
    let (metadata, conditions) = (Metadata::default(), BlobConditions::default());
    let asked = SnapshotBlob { blob: path("b"), metadata, conditions };
    match bench.run(BlobCommand::SnapshotBlob(asked)).unwrap() {
        BlobOutcome::BlobSnapshotTaken { snapshot, version, .. } => (snapshot, version.unwrap()),
        other => panic!("{other:?}"),
    }
}

fn properties(bench: &Bench, target: BlobTarget) -> BlobProperties {
    match bench.run(head(target, BlobConditions::default())).unwrap() {
        BlobOutcome::BlobPropertiesFetched(properties) => *properties,
        other => panic!("{other:?}"),
    }
}

fn listed(bench: &Bench, include: ListInclude) -> Vec<ListedBlob> {
    let asked = ListBlobs {
        container: container(),
        prefix: None,
        delimiter: None,
        from: None,
        start_from: None,
        max: None,
        include,
        marker: None,
    };
    let Ok(BlobOutcome::BlobsListed(page)) = bench.run(BlobCommand::ListBlobs(asked)) else { panic!() };
    let blob = |entry| match entry {
        BlobEntry::Blob(blob) => *blob,
        BlobEntry::Prefix(prefix) => panic!("{prefix}"),
    };
    page.entries.into_iter().map(blob).collect()
}

/// The ids of all versions that a list has, in its order.
fn versions(bench: &Bench) -> Vec<DateTime> {
    let include = ListInclude { versions: true, ..ListInclude::default() };
    listed(bench, include).iter().filter_map(|blob| Some(blob.properties.version?.id)).collect()
}

fn delete_told(bench: &Bench, target: BlobTarget, snapshots: DeleteSnapshots) -> bool {
    match bench.run(delete(target, snapshots)).unwrap() {
        BlobOutcome::BlobDeleted { is_permanent } => is_permanent,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_version_is_found_under_its_id_though_it_was_changed_since() {
    let bench = bench();
    let body = bytes(1, 100);
    let created = match bench.run(BlobCommand::PutBlob(new_blob("b", NewKind::Append, 0))).unwrap() {
        BlobOutcome::BlobPut(written) => written.version.unwrap(),
        other => panic!("{other:?}"),
    };
    // Appending changes the ETag and makes no version.
    bench.run_with(append("b", &body, AppendConditions::default()), body.clone()).unwrap();
    assert_ne!(properties(&bench, path("b").into()).changed.0, created);
    let second = put(&bench, &bytes(2, 50)).version.unwrap();
    assert_eq!(versions(&bench), [created, second]);
    assert_eq!(bench.read(version(created), None).unwrap(), body);
    bench.delete(path("b").into(), DeleteSnapshots::Refuse).unwrap();
    assert_eq!(versions(&bench), [created, second]);
    assert_eq!(bench.read(version(second), None).unwrap(), bytes(2, 50));
}

#[test]
fn setting_metadata_makes_a_version_and_the_old_one_keeps_its_own() {
    let bench = bench();
    let first = put(&bench, &bytes(1, 50_000)).version.unwrap();
    let second = set_metadata(&bench, "red");
    let third = set_metadata(&bench, "blue");
    assert_eq!(versions(&bench), [first, second, third]);
    let colour =
        |id| properties(&bench, version(id)).metadata.iter().next().map(|(_, value)| value.to_owned());
    assert_eq!([first, second, third].map(colour), [None, Some("red".into()), Some("blue".into())]);
    for id in [first, second, third] {
        assert_eq!(bench.read(version(id), None).unwrap(), bytes(1, 50_000));
    }
    assert_eq!(bench.content_bytes(), 50_000, "they share their content");
    for id in [first, second] {
        bench.delete(version(id), DeleteSnapshots::Refuse).unwrap();
    }
    assert_eq!(bench.content_bytes(), 50_000);
    assert_eq!(bench.get("b").unwrap(), bytes(1, 50_000));
}

#[test]
fn pages_written_after_metadata_was_set_are_not_in_the_old_version() {
    let bench = bench();
    let page = NewKind::Page { length: 1024, sequence: 0 };
    bench.run(BlobCommand::PutBlob(new_blob("b", page, 0))).unwrap();
    let write = |seed| {
        let put = PutPages {
            blob: path("b"),
            first: 0,
            length: 512,
            sums: TransferSums::default(),
            sequence: SequenceConditions::default(),
            conditions: BlobConditions::default(),
        };
        bench.run_with(BlobCommand::PutPages(put), bytes(seed, 512)).unwrap();
    };
    write(1);
    let first = versions(&bench)[0];
    set_metadata(&bench, "red");
    write(2);
    assert_eq!(bench.read(version(first), None).unwrap()[..512], bytes(1, 512));
    assert_eq!(bench.get("b").unwrap()[..512], bytes(2, 512));
}

#[test]
fn a_snapshot_makes_a_version_a_millisecond_later() {
    let bench = bench();
    let first = put(&bench, &bytes(1, 50_000)).version.unwrap();
    let etag = properties(&bench, path("b").into()).changed;
    let (at, second) = snapshot(&bench);
    assert_eq!(second.ticks(), at.ticks() + MILLISECOND_TICKS);
    assert_eq!(properties(&bench, path("b").into()).changed, etag);
    // Both follow within the millisecond, and are later nevertheless.
    let (again, third) = snapshot(&bench);
    assert!(again > second);
    let fourth = put(&bench, &bytes(2, 10)).version.unwrap();
    assert!(fourth > third);
    assert_eq!(versions(&bench), [first, second, third, fourth]);
    for id in [first, second, third] {
        assert_eq!(bench.read(version(id), None).unwrap(), bytes(1, 50_000));
    }
    for at in [at, again] {
        let target = BlobTarget { path: path("b"), moment: BlobMoment::Snapshot(at) };
        assert_eq!(bench.read(target, None).unwrap(), bytes(1, 50_000));
    }
    assert_eq!(bench.content_bytes(), 50_000);
}

#[test]
fn a_version_has_no_lease_even_if_it_is_the_current_one() {
    let bench = bench();
    let first = put(&bench, &bytes(1, 10)).version.unwrap();
    let shown = properties(&bench, version(first));
    assert_eq!((shown.lease, shown.version.unwrap().is_current), (None, true));
    assert_eq!(properties(&bench, path("b").into()).lease, Some(LeaseShown::default()));
}

#[test]
fn a_blob_of_which_versions_are_left_is_listed_empty_and_without_a_version() {
    let bench = bench();
    put(&bench, &bytes(1, 10));
    bench.delete(path("b").into(), DeleteSnapshots::Refuse).unwrap();
    let include = ListInclude { deleted_with_versions: true, ..ListInclude::default() };
    let found = listed(&bench, include);
    assert_eq!(found.len(), 1);
    assert!(found[0].has_versions_only);
    let shown = &found[0].properties;
    assert_eq!((shown.length, shown.version, shown.lease), (0, None, Some(LeaseShown::default())));
}

#[test]
fn a_deleted_version_is_told_as_such_and_comes_back_with_its_blob() {
    let bench = bench();
    bench.retain_deleted(3);
    let first = put(&bench, &bytes(1, 10)).version.unwrap();
    put(&bench, &bytes(2, 10));
    assert!(!delete_told(&bench, version(first), DeleteSnapshots::Refuse));
    let refusal = bench.refused(head(version(first), BlobConditions::default()));
    assert_eq!(refusal.code, ErrorCode::BlobNotFound);
    assert_eq!(refusal.details, [(ServiceError::SOFT_DELETED, "true".to_owned())]);
    bench.run(BlobCommand::UndeleteBlob(path("b"))).unwrap();
    assert_eq!(bench.read(version(first), None).unwrap(), bytes(1, 10));
    assert_eq!(bench.get("b").unwrap(), bytes(2, 10));
}

#[test]
fn snapshots_are_deleted_for_good_unless_the_account_keeps_what_is_deleted() {
    for (days, is_permanent) in [(None, true), (Some(3), false)] {
        let bench = bench();
        if let Some(days) = days {
            bench.retain_deleted(days);
        }
        put(&bench, &bytes(1, 10));
        snapshot(&bench);
        assert_eq!(delete_told(&bench, path("b").into(), DeleteSnapshots::Only), is_permanent, "{days:?}");
        assert!(!delete_told(&bench, path("b").into(), DeleteSnapshots::Refuse), "it is a version now");
    }
}

#[test]
fn an_uploaded_version_is_created_when_it_comes_and_a_copy_with_what_was_there() {
    for is_kept in [true, false] {
        let bench = Bench::with(ServiceSettings { blob_versions: is_kept, ..ServiceSettings::default() });
        let created = || properties(&bench, path("b").into()).created;
        bench.put("other", &bytes(3, 10));
        bench.put("b", &bytes(1, 10));
        let first = created();
        bench.put("b", &bytes(2, 10));
        let second = created();
        assert_eq!(second != first, is_kept);
        bench.run_with(put_block("b", "1", &bytes(2, 10)), bytes(2, 10)).unwrap();
        bench.run(commit("b", &["1"])).unwrap();
        let third = created();
        assert_eq!(third != second, is_kept);
        bench.run(BlobCommand::CopyBlob(Box::new(copy_blob("other", "b")))).unwrap();
        assert_eq!(created(), third);
    }
}

/// A version whose time is ahead of the clock, of a blob that is deleted by now.
fn version_ahead(bench: &Bench, body: &Bytes) -> DateTime {
    put(bench, body);
    let (_, ahead) = snapshot(bench);
    bench.delete(path("b").into(), DeleteSnapshots::Include).unwrap();
    ahead
}

#[test]
fn a_version_never_takes_the_row_of_another_one() {
    type Keep = fn(&Bench);
    let ways: [Keep; 4] = [
        |bench| {
            put(bench, &bytes(9, 10));
        },
        |bench| {
            set_metadata(bench, "red");
        },
        |bench| {
            snapshot(bench);
        },
        |bench| bench.delete(path("b").into(), DeleteSnapshots::Refuse).unwrap(),
    ];
    for (way, keep) in ways.into_iter().enumerate() {
        let bench = bench();
        let bodies = [bytes(1, 10), bytes(2, 20)];
        let ahead = version_ahead(&bench, &bodies[0]);
        let again = || {
            bench.content_bytes();
            let version = put(&bench, &bodies[1]).version.unwrap();
            bench.content_bytes();
            if version != ahead {
                bench.delete(path("b").into(), DeleteSnapshots::Refuse).unwrap();
            }
            version
        };
        // A blob is put at the very tick of the version that is ahead.
        let [first, second] = [again(), again()];
        let step = second.ticks() - first.ticks();
        bench.clock.pass_ticks(ahead.ticks() - second.ticks() - step);
        assert_eq!(again(), ahead);
        keep(&bench);
        assert_eq!(bench.read(version(ahead), None).unwrap(), bodies[0], "{way}");
        let beside = version(DateTime::from_ticks(ahead.ticks() + 1).unwrap());
        assert_eq!(bench.read(beside, None).unwrap(), bodies[1], "{way}");
    }
}

#[test]
fn snapshots_that_came_back_before_their_blob_are_not_left_behind_by_it() {
    let bench = bench();
    bench.retain_deleted(3);
    put(&bench, &bytes(1, 10));
    let (at, _) = snapshot(&bench);
    bench.delete(path("b").into(), DeleteSnapshots::Include).unwrap();
    bench.run(BlobCommand::UndeleteBlob(path("b"))).unwrap();
    put(&bench, &bytes(2, 10));
    let refused = bench.delete(path("b").into(), DeleteSnapshots::Refuse);
    assert_eq!(refused, Err(ErrorCode::SnapshotsPresent));
    bench.delete(path("b").into(), DeleteSnapshots::Include).unwrap();
    let snapshot = BlobTarget { path: path("b"), moment: BlobMoment::Snapshot(at) };
    assert_eq!(bench.read(snapshot, None), Err(ErrorCode::BlobNotFound));
}

#[test]
fn a_blob_of_which_versions_are_left_is_listed_wherever_a_page_ends() {
    let bench = bench();
    bench.put("a", &bytes(1, 10));
    bench.retain_deleted(3);
    put(&bench, &bytes(1, 10));
    let (_, second) = snapshot(&bench);
    bench.delete(path("b").into(), DeleteSnapshots::Include).unwrap();
    bench.run(BlobCommand::UndeleteBlob(path("b"))).unwrap();
    bench.retain_nothing();
    bench.delete(version(second), DeleteSnapshots::Refuse).unwrap();
    // A version, then a snapshot, and no blob.
    let include = ListInclude { snapshots: true, deleted_with_versions: true, ..ListInclude::default() };
    for max in [1, 2, 3] {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let asked = ListBlobs {
                container: container(),
                prefix: None,
                delimiter: None,
                from: from.take(),
                start_from: None,
                max: Some(max),
                include,
                marker: None,
            };
            let Ok(BlobOutcome::BlobsListed(page)) = bench.run(BlobCommand::ListBlobs(asked)) else {
                panic!()
            };
            for entry in page.entries {
                let BlobEntry::Blob(blob) = entry else { panic!() };
                found.push((blob.name.to_string(), blob.snapshot.is_some(), blob.has_versions_only));
            }
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let expected = [("a", false, false), ("b", true, false), ("b", false, true)];
        assert_eq!(found, expected.map(|(name, is, has)| (name.to_owned(), is, has)), "{max}");
    }
}
