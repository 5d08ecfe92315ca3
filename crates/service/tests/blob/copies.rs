//! Copies that go on behind their answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tavola_engine::{Change, Content, ContentError, Decision, SourceError, SpaceId, StoredRow};
use tavola_model::{
    AbortCopy, AppendConditions, BlobCommand, BlobConditions, BlobCopied, BlobOutcome, BlobProperties,
    ContainerConditions, ContainerName, CopyId, CopyStatus, CreateContainer, DateTime, DeleteContainer,
    DeleteSnapshots, ErrorCode, Guid, ListContainers, Metadata, NewKind, PublicAccess, RestoreContainer,
    SetBlobMetadata, SnapshotBlob,
};
use tavola_service::{ScrubPace, ServiceSettings};

use crate::bench::{
    append, bytes, container, copy_blob, delete, delete_container, execute, get, head, new_blob, path, put,
};
use crate::troubled::{CopyFailure, Stores};

const LARGE: usize = 300_000;

fn copy(stores: &Stores, from: &str, to: &str) -> Result<BlobCopied, ErrorCode> {
    match stores.run(BlobCommand::CopyBlob(Box::new(copy_blob(from, to))))?.0 {
        BlobOutcome::BlobCopied(copied) => Ok(copied),
        other => panic!("{other:?}"),
    }
}

fn abort(stores: &Stores, name: &str, copy: CopyId) -> Result<(), ErrorCode> {
    stores.run(BlobCommand::AbortCopyBlob(AbortCopy { blob: path(name), copy, lease: None })).map(drop)
}

fn properties(stores: &Stores, name: &str) -> BlobProperties {
    let asked = head(path(name).into(), BlobConditions::default());
    match stores.run(asked).unwrap().0 {
        BlobOutcome::BlobPropertiesFetched(properties) => *properties,
        other => panic!("{other:?}"),
    }
}

fn status(stores: &Stores, name: &str) -> CopyStatus {
    properties(stores, name).copy.unwrap().status
}

fn read(stores: &Stores, name: &str) -> Bytes {
    stores.run(get(path(name).into(), None)).unwrap().1
}

#[test]
fn what_is_small_is_copied_within_the_request_and_what_is_large_behind_it() {
    let stores = Stores::new();
    stores.put("small", 50_000);
    stores.put("large", LARGE);
    assert_eq!(copy(&stores, "small", "copy-of-small").unwrap().status, CopyStatus::Success);
    stores.contents.is_held.store(true, Ordering::SeqCst);
    let copied = copy(&stores, "large", "copy").unwrap();
    assert_eq!(copied.status, CopyStatus::Pending);
    stores.settle();
    let shown = properties(&stores, "copy");
    let pending = shown.copy.clone().unwrap();
    assert_eq!((pending.id, pending.status, pending.total), (copied.id, CopyStatus::Pending, LARGE as u64));
    assert_eq!((shown.length, pending.completed), (0, None));
    // Nobody else writes to it meanwhile, and nobody copies what is not there yet.
    let body = bytes(1, 10);
    let refused = stores.runtime.block_on(execute(&stores.service, put("copy", &body), body.clone()));
    assert_eq!(refused.unwrap_err(), ErrorCode::PendingCopyOperation);
    assert_eq!(copy(&stores, "small", "copy").unwrap_err(), ErrorCode::PendingCopyOperation);
    assert_eq!(copy(&stores, "copy", "third").unwrap_err(), ErrorCode::PendingCopyOperation);
}

#[test]
fn the_progress_of_a_pending_copy_moves_and_its_etag_does_not() {
    let stores = Stores::new();
    stores.put("large", LARGE);
    stores.contents.is_held.store(true, Ordering::SeqCst);
    copy(&stores, "large", "copy").unwrap();
    let first = properties(&stores, "copy");
    assert_eq!(first.copy.unwrap().copied, 0);
    // It is told every second; the bound is a guard against a hang.
    let mut shown = properties(&stores, "copy");
    for _ in 0..6_000 {
        if shown.copy.as_ref().unwrap().copied > 0 {
            break;
        }
        stores.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(10)).await });
        shown = properties(&stores, "copy");
    }
    assert_eq!(shown.changed, first.changed);
    let copy = shown.copy.unwrap();
    assert_eq!((copy.status, copy.copied, copy.total), (CopyStatus::Pending, LARGE as u64 - 1, LARGE as u64));
}

#[test]
fn a_pending_copy_ends_with_all_bytes() {
    let stores = Stores::new();
    stores.put("large", LARGE);
    let copied = copy(&stores, "large", "copy").unwrap();
    assert_eq!(copied.status, CopyStatus::Pending);
    stores.settle();
    let shown = properties(&stores, "copy");
    let ended = shown.copy.unwrap();
    assert_eq!((ended.id, ended.status, ended.copied), (copied.id, CopyStatus::Success, LARGE as u64));
    assert!(ended.completed.is_some());
    assert_eq!(read(&stores, "copy"), read(&stores, "large"));
    assert_eq!(abort(&stores, "copy", copied.id), Err(ErrorCode::NoPendingCopyOperation));
}

#[test]
fn nothing_is_kept_of_a_blob_that_waits_for_the_bytes_of_a_copy() {
    for blob_versions in [false, true] {
        let stores = Stores::with(ServiceSettings { blob_versions, ..ServiceSettings::default() });
        stores.put("large", LARGE);
        stores.contents.copies_left.store(0, Ordering::SeqCst);
        copy(&stores, "large", "copy").unwrap();
        let (metadata, conditions) = (Metadata::default(), BlobConditions::default());
        let snapshot = || {
            let (metadata, conditions) = (metadata.clone(), conditions.clone());
            BlobCommand::SnapshotBlob(SnapshotBlob { blob: path("copy"), metadata, conditions })
        };
        let set_metadata = || {
            let (metadata, conditions) = (metadata.clone(), conditions.clone());
            BlobCommand::SetBlobMetadata(SetBlobMetadata { blob: path("copy"), metadata, conditions })
        };
        assert_eq!(stores.run(snapshot()).unwrap_err(), ErrorCode::PendingCopyOperation);
        // Where this makes a version, the old one would be without bytes.
        let done = stores.run(set_metadata()).map(drop);
        assert_eq!(done, if blob_versions { Err(ErrorCode::PendingCopyOperation) } else { Ok(()) });
        stores.contents.copies_left.store(1, Ordering::SeqCst);
        stores.settle();
        assert_eq!(status(&stores, "copy"), CopyStatus::Success);
        stores.run(snapshot()).unwrap();
        stores.run(set_metadata()).unwrap();
    }
}

#[test]
fn a_copy_that_is_aborted_leaves_an_empty_blob_and_no_bytes() {
    let stores = Stores::new();
    stores.put("large", LARGE);
    stores.contents.is_held.store(true, Ordering::SeqCst);
    let copied = copy(&stores, "large", "copy").unwrap();
    stores.settle();
    assert_eq!(abort(&stores, "copy", Guid([9; 16])), Err(ErrorCode::CopyIdMismatch));
    assert_eq!(abort(&stores, "missing", copied.id), Err(ErrorCode::BlobNotFound));
    abort(&stores, "copy", copied.id).unwrap();
    assert_eq!(status(&stores, "copy"), CopyStatus::Aborted);
    assert_eq!(abort(&stores, "copy", copied.id), Err(ErrorCode::NoPendingCopyOperation));
    assert_eq!(read(&stores, "copy"), Bytes::new());
    // It can be written to again.
    stores.contents.is_held.store(false, Ordering::SeqCst);
    stores.put("copy", 20);
    stores.settle();
    assert_eq!(stores.contents.inner.bytes(), LARGE as u64);
}

#[test]
fn the_next_start_goes_on_with_a_copy_and_knows_what_has_become_of_its_target() {
    let mut stores = Stores::new();
    stores.put("large", LARGE);
    stores.contents.is_held.store(true, Ordering::SeqCst);
    for target in ["kept", "deleted", "late"] {
        assert_eq!(copy(&stores, "large", target).unwrap().status, CopyStatus::Pending);
    }
    stores.settle();
    stores.run(delete(path("deleted").into(), DeleteSnapshots::Refuse)).unwrap();
    stores.restart();
    stores.contents.is_held.store(false, Ordering::SeqCst);
    stores.runtime.block_on(stores.service.resume_blobs()).unwrap();
    stores.settle();
    for target in ["kept", "late"] {
        assert_eq!(status(&stores, target), CopyStatus::Success, "{target}");
        assert_eq!(read(&stores, target), read(&stores, "large"));
    }
    assert_eq!(stores.run(get(path("deleted").into(), None)).unwrap_err(), ErrorCode::BlobNotFound);
    assert_eq!(stores.contents.inner.bytes(), 3 * LARGE as u64);
    // Nothing is left to go on with.
    stores.runtime.block_on(stores.service.resume_blobs()).unwrap();
    stores.settle();
    assert_eq!(stores.contents.inner.bytes(), 3 * LARGE as u64);
}

#[test]
fn an_entry_that_cannot_be_read_keeps_no_other_copy_from_going_on_and_no_contents() {
    let mut stores = Stores::new();
    stores.put("large", LARGE);
    let other = ContainerName::parse("other").unwrap();
    let (metadata, public_access) = (Default::default(), PublicAccess::None);
    let create = CreateContainer { container: other.clone(), metadata, public_access };
    stores.run(BlobCommand::CreateContainer(create)).unwrap();
    let body = bytes(5, LARGE);
    let mut put = new_blob("deleted", NewKind::Block, body.len() as u64);
    put.blob.container = other.clone();
    let put = BlobCommand::PutBlob(put);
    stores.runtime.block_on(execute(&stores.service, put, body)).unwrap();
    stores.contents.is_held.store(true, Ordering::SeqCst);
    assert_eq!(copy(&stores, "large", "copy").unwrap().status, CopyStatus::Pending);
    stores.settle();
    // In front of the entry of the copy: one of a newer server, one that is cut, one whose target is no blob.
    let no_blob = [&[1][..], &[0; 16], &[0; 4]].concat();
    for (number, body) in [b"\xFF?".to_vec(), vec![1], no_blob].into_iter().enumerate() {
        for space in stores.runtime.block_on(stores.engine.spaces()).unwrap() {
            if space != SpaceId::CATALOG {
                let body = Bytes::from(body.clone());
                let mut note = |_: DateTime, _: &[Option<StoredRow>]| {
                    Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }])
                };
                let row = [0, u8::try_from(number).unwrap()];
                let rows: [&[u8]; 1] = [&row];
                let noted = stores.engine.transact(space, &[0, 0], &rows, &mut note);
                stores.runtime.block_on(noted).unwrap();
            }
        }
    }
    // Its contents are left to the next start.
    let delete = DeleteContainer { container: other, conditions: ContainerConditions::default() };
    stores.run(BlobCommand::DeleteContainer(delete)).unwrap();
    stores.restart();
    assert_eq!(stores.contents.inner.bytes(), 2 * LARGE as u64);
    stores.contents.is_held.store(false, Ordering::SeqCst);
    stores.runtime.block_on(stores.service.resume_blobs()).unwrap();
    stores.settle();
    assert_eq!(status(&stores, "copy"), CopyStatus::Success);
    assert_eq!(stores.contents.inner.bytes(), 2 * LARGE as u64, "the copy, and nothing of what was deleted");
}

#[test]
fn a_copy_whose_source_has_changed_fails_and_says_so() {
    let mut stores = Stores::new();
    stores.put("large", LARGE);
    stores.contents.is_held.store(true, Ordering::SeqCst);
    copy(&stores, "large", "copy").unwrap();
    stores.settle();
    stores.restart();
    stores.contents.is_held.store(false, Ordering::SeqCst);
    stores.put("large", LARGE + 1);
    stores.runtime.block_on(stores.service.resume_blobs()).unwrap();
    stores.settle();
    let ended = properties(&stores, "copy").copy.unwrap();
    assert_eq!(ended.status, CopyStatus::Failed);
    assert!(ended.status_description.is_some_and(|text| text.contains("SourceConditionNotMet")));
}

#[test]
fn a_copy_that_takes_days_keeps_what_it_has_copied() {
    let stores = Stores::new();
    let run = |command, body| stores.runtime.block_on(execute(&stores.service, command, body)).unwrap();
    run(BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0)), Bytes::new());
    for seed in 0..4 {
        let body = bytes(seed, 50_000);
        run(append("log", &body, AppendConditions::default()), body.clone());
    }
    stores.contents.copy_seconds.store(13 * 60 * 60, Ordering::SeqCst);
    stores.contents.copies_left.store(3, Ordering::SeqCst);
    assert_eq!(copy(&stores, "log", "copy").unwrap().status, CopyStatus::Pending);
    stores.settle();
    stores.runtime.block_on(stores.service.scrub_contents(ScrubPace::Full)).unwrap();
    stores.contents.copies_left.store(usize::MAX, Ordering::SeqCst);
    stores.settle();
    assert_eq!(status(&stores, "copy"), CopyStatus::Success);
    assert!(read(&stores, "copy") == read(&stores, "log"));
}

#[test]
fn a_target_that_is_deleted_and_had_back_waits_for_no_copy() {
    let stores = Stores::new();
    stores.retain_deleted(3);
    stores.put("large", LARGE);
    stores.contents.is_held.store(true, Ordering::SeqCst);
    copy(&stores, "large", "copy").unwrap();
    stores.settle();
    stores.run(delete(path("copy").into(), DeleteSnapshots::Refuse)).unwrap();
    stores.run(BlobCommand::UndeleteBlob(path("copy"))).unwrap();
    assert_eq!(status(&stores, "copy"), CopyStatus::Aborted);
    stores.put("copy", 20);
}

fn resume_idle(stores: &Stores) {
    stores.runtime.block_on(stores.service.resume_idle_copies()).unwrap();
    stores.settle();
}

#[test]
fn a_copy_that_cannot_succeed_fails_and_can_be_made_again() {
    let failures: [(CopyFailure, &str); 4] = [
        (damaged, "InternalError"),
        (|_| ContentError::Failed { cause: "an I/O error".into() }, "InternalError"),
        (|_| ContentError::Full { free_bytes: 1 }, "ServerBusy"),
        (|content| ContentError::Source(SourceError::Broken(damaged(content).into())), "InternalError"),
    ];
    for (failure, code) in failures {
        let stores = Stores::new();
        stores.put("large", LARGE);
        *stores.contents.copy_failure.lock().unwrap() = Some(failure);
        assert_eq!(copy(&stores, "large", "copy").unwrap().status, CopyStatus::Pending);
        stores.settle();
        let ended = properties(&stores, "copy").copy.unwrap();
        assert_eq!(ended.status, CopyStatus::Failed);
        let description = ended.status_description.unwrap();
        assert!(description.starts_with(code), "{description}");
        *stores.contents.copy_failure.lock().unwrap() = None;
        copy(&stores, "large", "copy").unwrap();
        stores.settle();
        assert_eq!(status(&stores, "copy"), CopyStatus::Success);
    }
}

fn damaged(content: &Content) -> ContentError {
    ContentError::Damaged { space: SpaceId::CATALOG, id: content.id, what: "a piece has another sum" }
}

#[test]
fn a_copy_that_meets_what_may_pass_is_tried_again_while_the_server_runs() {
    let stores = Stores::new();
    stores.put("large", LARGE);
    *stores.contents.copy_failure.lock().unwrap() =
        Some(|_| ContentError::Unavailable { reason: "the store is closing" });
    copy(&stores, "large", "copy").unwrap();
    stores.settle();
    assert_eq!(status(&stores, "copy"), CopyStatus::Pending);
    *stores.contents.copy_failure.lock().unwrap() = None;
    // Somebody else may still be making it.
    stores.clock.pass_seconds(60);
    resume_idle(&stores);
    assert_eq!(status(&stores, "copy"), CopyStatus::Pending);
    stores.clock.pass_seconds(10 * 60);
    resume_idle(&stores);
    assert_eq!(status(&stores, "copy"), CopyStatus::Success);
    assert_eq!(read(&stores, "copy"), read(&stores, "large"));
}

#[test]
fn a_copy_goes_on_when_its_container_is_restored() {
    let retention = Duration::from_secs(7 * 24 * 60 * 60);
    let mut stores =
        Stores::with(ServiceSettings { container_delete_retention: retention, ..ServiceSettings::default() });
    stores.put("large", LARGE);
    stores.contents.is_held.store(true, Ordering::SeqCst);
    copy(&stores, "large", "copy").unwrap();
    stores.settle();
    stores.run(delete_container()).unwrap();
    stores.restart();
    stores.contents.is_held.store(false, Ordering::SeqCst);
    stores.runtime.block_on(stores.service.resume_blobs()).unwrap();
    stores.settle();
    let list = ListContainers { with_deleted: true, ..ListContainers::default() };
    let BlobOutcome::ContainersListed(page) = stores.run(BlobCommand::ListContainers(list)).unwrap().0 else {
        panic!()
    };
    let deleted_version = page.containers[0].1.deleted.as_ref().unwrap().version.clone();
    let deleted_name = container().to_string();
    let restore = RestoreContainer { container: container(), deleted_name, deleted_version };
    stores.run(BlobCommand::RestoreContainer(restore)).unwrap();
    assert_eq!(status(&stores, "copy"), CopyStatus::Pending);
    stores.clock.pass_seconds(10 * 60);
    resume_idle(&stores);
    assert_eq!(status(&stores, "copy"), CopyStatus::Success);
    assert_eq!(read(&stores, "copy"), read(&stores, "large"));
}

#[test]
fn a_copy_that_another_server_makes_is_left_to_it() {
    let stores = Stores::new();
    stores.put("large", LARGE);
    stores.contents.is_held.store(true, Ordering::SeqCst);
    copy(&stores, "large", "copy").unwrap();
    stores.settle();
    let other = stores.other_server();
    stores.contents.is_held.store(false, Ordering::SeqCst);
    stores.clock.pass_seconds(60);
    stores.runtime.block_on(other.resume_idle_copies()).unwrap();
    stores.settle();
    assert_eq!(status(&stores, "copy"), CopyStatus::Pending);
    // It has ended since.
    stores.clock.pass_seconds(10 * 60);
    stores.runtime.block_on(other.resume_idle_copies()).unwrap();
    stores.settle();
    assert_eq!(status(&stores, "copy"), CopyStatus::Success);
}
