//! Sources of copies that are replaced, vanish or are damaged while they are read.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use tavola_model::{
    AppendBlockFromUrl, AppendConditions, BlobCommand, BlobConditions, BlobOutcome, CopyBlob,
    DeleteSnapshots, ErrorCode, EtagMatch, FromUrl, NewBlob, NewKind, PutBlobFromUrl, PutBlockFromUrl,
    RangeSum, SourceConditions, TransferSums, VersionConditions,
};

use crate::bench::{block_id, bytes, commit, copy_blob, delete, execute, get, head, new_blob, path, put};
use crate::troubled::Stores;

/// Copied within the request.
const LENGTH: usize = 90_000;

/// Every request that copies the blob `from` to `to`, and the answer if the source is gone.
fn copies(conditions: &SourceConditions) -> Vec<(&'static str, BlobCommand, ErrorCode)> {
    let copy = |is_sync| {
        let source_conditions = conditions.clone();
        BlobCommand::CopyBlob(Box::new(CopyBlob { is_sync, source_conditions, ..copy_blob("from", "to") }))
    };
    let source = || {
        let source = copy_blob("from", "to").source;
        let (sums, conditions) = (TransferSums::default(), conditions.clone());
        FromUrl { source, range: None, bytes_max: u64::MAX, sums, conditions }
    };
    let put_blob = BlobCommand::PutBlobFromUrl(Box::new(PutBlobFromUrl {
        blob: path("to"),
        source: source(),
        new: NewBlob::default(),
        copies_headers: true,
        copies_tags: false,
        conditions: BlobConditions::default(),
    }));
    let put_block = BlobCommand::PutBlockFromUrl(Box::new(PutBlockFromUrl {
        blob: path("to"),
        id: block_id("one"),
        source: source(),
        lease: None,
    }));
    let append = BlobCommand::AppendBlockFromUrl(Box::new(AppendBlockFromUrl {
        blob: path("log"),
        source: source(),
        append: AppendConditions::default(),
        conditions: BlobConditions::default(),
    }));
    vec![
        ("Copy Blob", copy(false), ErrorCode::BlobNotFound),
        ("Copy Blob From URL", copy(true), ErrorCode::CannotVerifyCopySource),
        ("Put Blob From URL", put_blob, ErrorCode::CannotVerifyCopySource),
        ("Put Block From URL", put_block, ErrorCode::CannotVerifyCopySource),
        ("Append Block From URL", append, ErrorCode::CannotVerifyCopySource),
    ]
}

/// With a source, and a log to append to.
fn stores() -> Stores {
    let stores = Stores::new();
    stores.put("from", LENGTH);
    stores.run(BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0))).unwrap();
    stores
}

/// Lets a command be done, with what is cleaned up behind it, just before the next read of a content.
fn before_read(stores: &Stores, command: BlobCommand, body: Bytes) {
    let service = stores.service.clone();
    *stores.contents.before_read.lock().unwrap() = Some(Box::pin(async move {
        execute(&service, command, body).await.unwrap();
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }));
}

#[test]
fn a_source_that_is_replaced_is_copied_as_it_is_now() {
    for (name, command, _) in copies(&SourceConditions::default()) {
        let stores = stores();
        let new = bytes(9, LENGTH + 1);
        before_read(&stores, put("from", &new), new.clone());
        stores.run(command).unwrap_or_else(|code| panic!("{name}: {code:?}"));
        let target = match name {
            "Append Block From URL" => "log",
            "Put Block From URL" => {
                stores.run(commit("to", &["one"])).unwrap();
                "to"
            }
            _ => "to",
        };
        assert!(stores.run(get(path(target).into(), None)).unwrap().1 == new, "{name}");
    }
}

#[test]
fn a_source_that_vanishes_is_told_like_one_that_was_never_there() {
    for (name, command, expected) in copies(&SourceConditions::default()) {
        let stores = stores();
        before_read(&stores, delete(path("from").into(), DeleteSnapshots::Refuse), Bytes::new());
        assert_eq!(stores.run(command).unwrap_err(), expected, "{name}");
    }
}

#[test]
fn a_source_that_is_replaced_has_to_meet_the_conditions_again() {
    for at in 0..copies(&SourceConditions::default()).len() {
        let stores = stores();
        let asked = head(path("from").into(), BlobConditions::default());
        let BlobOutcome::BlobPropertiesFetched(shown) = stores.run(asked).unwrap().0 else { panic!() };
        let if_match = Some(EtagMatch::Is(shown.changed.etag()));
        let version = VersionConditions { if_match, ..VersionConditions::default() };
        let conditions = SourceConditions { version, ..SourceConditions::default() };
        let (name, command, _) = copies(&conditions).swap_remove(at);
        let new = bytes(9, LENGTH);
        before_read(&stores, put("from", &new), new.clone());
        let expected = match name {
            "Copy Blob" => ErrorCode::SourceConditionNotMet,
            _ => ErrorCode::CopySourceConditionNotMet,
        };
        assert_eq!(stores.run(command).unwrap_err(), expected, "{name}");
    }
}

#[test]
fn damage_of_a_source_is_no_mistake_of_the_client() {
    for (name, command, _) in copies(&SourceConditions::default()) {
        let stores = stores();
        stores.contents.breaks_off.store(true, Ordering::SeqCst);
        *stores.contents.copy_failure.lock().unwrap() =
            Some(|content| tavola_engine::ContentError::Damaged {
                space: tavola_engine::SpaceId::CATALOG,
                id: content.id,
                what: "a piece has another sum",
            });
        assert_eq!(stores.run(command).unwrap_err(), ErrorCode::InternalError, "{name}");
    }
    let stores = stores();
    stores.contents.breaks_off.store(true, Ordering::SeqCst);
    let BlobCommand::GetBlob(mut get) = get(path("from").into(), None) else { panic!() };
    get.range_sum = Some(RangeSum::Crc64);
    let refused = stores.run(BlobCommand::GetBlob(get)).unwrap_err();
    assert_eq!(refused, ErrorCode::InternalError, "a range whose sum is told");
}
