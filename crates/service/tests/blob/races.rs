//! Requests that meet: what one has read is changed by another before it writes, or while it is being sent.

use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use tavola_auth::Permitted;
use tavola_engine::SourceError;
use tavola_model::{
    AccountName, AppendConditions, BlobCommand, BlobConditions, BlobMoment, BlobOutcome, BlobProperties,
    BlobTags, BlobTarget, Command, CopyStatus, DeleteSnapshots, ErrorCode, Metadata, NewKind, PutPages,
    SequenceConditions, SetBlobTags, SnapshotBlob, TransferSums,
};
use tavola_service::{ScrubPace, ServiceSettings};
use tokio::sync::oneshot;

use crate::bench::{
    append, bytes, commit, copy_blob, delete, execute, get, head, new_blob, path, put_block, put_pages,
};
use crate::watched::Watched;

const CELL: u64 = 64 * 1024;

#[test]
fn a_block_that_is_sent_again_while_its_list_is_committed_takes_nothing_from_the_blob() {
    let watched = Watched::new();
    let (first, again) = (bytes(1, 10_000), bytes(2, 10_000));
    watched.bench.run_with(put_block("b", "A", &first), first.clone()).unwrap();
    let (service, engine) = (watched.bench.service.clone(), watched.engine.clone());
    *watched.engine.before.lock().unwrap() = Some(Box::pin(async move {
        // The rows of the old list are still there: nobody has removed them yet.
        engine.left.store(1, Ordering::SeqCst);
        execute(&service, commit("b", &["A"]), Bytes::new()).await.unwrap();
        engine.left.store(usize::MAX, Ordering::SeqCst);
    }));
    watched.bench.run_with(put_block("b", "A", &again), again.clone()).unwrap();
    watched.settle();
    assert_eq!(watched.bench.get("b").unwrap(), first);
    // The block is one of a new list.
    watched.bench.run(commit("b", &["A"])).unwrap();
    watched.settle();
    assert_eq!(watched.bench.get("b").unwrap(), again);
}

/// Reads the first piece of a state of a blob, lets it be deleted by so many transactions, and reads on.
fn read_while_deleted(
    watched: &Watched,
    target: impl Into<BlobTarget>,
    transactions: usize,
) -> (Result<(), SourceError>, Bytes) {
    let target = target.into();
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let command = Command::Blob(Box::new(get(target.clone(), None)));
    let permitted = Permitted::unchecked_for_test(account, command, None);
    let runtime = &watched.bench.runtime;
    let executed = runtime.block_on(watched.bench.service.execute_with(permitted, None, None)).unwrap();
    let mut download = executed.download.unwrap();
    let mut read = BytesMut::new();
    read.extend_from_slice(&runtime.block_on(download.next()).unwrap().unwrap());
    watched.engine.left.store(transactions, Ordering::SeqCst);
    watched.bench.run(delete(target, DeleteSnapshots::Refuse)).unwrap();
    watched.settle();
    watched.engine.left.store(usize::MAX, Ordering::SeqCst);
    let rest = runtime.block_on(async {
        while let Some(piece) = download.next().await? {
            read.extend_from_slice(&piece);
        }
        Ok(())
    });
    (rest, read.freeze())
}

/// A page blob of so many cells, each with one page that is in its row.
fn sparse_disk(watched: &Watched, cells: u64) {
    let kind = NewKind::Page { length: cells * CELL, sequence: 0 };
    watched.bench.run(BlobCommand::PutBlob(new_blob("disk", kind, 0))).unwrap();
    for cell in 0..cells {
        watched.bench.run_with(put_page(cell * CELL), bytes(1, 512)).unwrap();
    }
}

fn put_page(first: u64) -> BlobCommand {
    BlobCommand::PutPages(PutPages {
        blob: path("disk"),
        first,
        length: 512,
        sums: TransferSums::default(),
        sequence: SequenceConditions::default(),
        conditions: BlobConditions::default(),
    })
}

#[test]
fn a_page_blob_that_is_deleted_while_it_is_read_is_cut_and_not_filled_with_zeros() {
    let watched = Watched::new();
    sparse_disk(&watched, 400);
    let whole = watched.bench.get("disk").unwrap();
    let (ended, read) = read_while_deleted(&watched, path("disk"), usize::MAX);
    assert!(ended.is_err(), "{} bytes were read", read.len());
    assert!(read == whole[..read.len()]);
}

#[test]
fn a_snapshot_that_is_deleted_while_it_is_read_does_not_go_on_as_a_later_one() {
    let watched = Watched::new();
    sparse_disk(&watched, 400);
    let first = watched.bench.snapshot("disk");
    for cell in 0..400 {
        watched.bench.run_with(put_page(cell * CELL), bytes(2, 512)).unwrap();
    }
    watched.bench.snapshot("disk");
    watched.bench.run_with(put_page(0), bytes(3, 512)).unwrap();
    let whole = watched.bench.read(first.clone(), None).unwrap();
    let (ended, read) = read_while_deleted(&watched, first, usize::MAX);
    assert!(ended.is_err(), "{} bytes were read", read.len());
    assert!(read == whole[..read.len()]);
}

#[test]
fn a_long_log_that_is_deleted_while_it_is_read_is_cut_and_none_of_it_is_left_out() {
    let watched = Watched::new();
    watched.bench.run(BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0))).unwrap();
    let mut whole = BytesMut::new();
    for number in 0..1_600_usize {
        let body = bytes(number.to_le_bytes()[0], 4096);
        watched.bench.run_with(append("log", &body, AppendConditions::default()), body.clone()).unwrap();
        whole.extend_from_slice(&body);
    }
    // The first rows are gone and the last ones are not.
    let (ended, read) = read_while_deleted(&watched, path("log"), 2);
    assert!(ended.is_err(), "{} bytes were read", read.len());
    assert!(read == whole[..read.len()]);
}

#[test]
fn a_page_blob_that_is_written_while_it_is_copied_is_not_copied_in_part() {
    const LAST: u64 = 1_499;
    let watched = Watched::with(ServiceSettings { copy_bytes_max: u64::MAX, ..ServiceSettings::default() });
    sparse_disk(&watched, LAST + 1);
    // The first page is written before the last one, while the copy is between them.
    let service = watched.bench.service.clone();
    *watched.engine.before.lock().unwrap() = Some(Box::pin(async move {
        for cell in [0, LAST] {
            execute(&service, put_page(cell * CELL), bytes(2, 512)).await.unwrap();
        }
    }));
    let copied = watched.bench.run(BlobCommand::CopyBlob(Box::new(copy_blob("disk", "copy"))));
    watched.settle();
    assert_eq!(copied.unwrap_err(), ErrorCode::SourceConditionNotMet);
    assert_eq!(watched.bench.get("copy").unwrap_err(), ErrorCode::BlobNotFound);
    // Nobody writes any more.
    watched.bench.run(BlobCommand::CopyBlob(Box::new(copy_blob("disk", "copy")))).unwrap();
    assert!(watched.bench.get("copy").unwrap() == watched.bench.get("disk").unwrap());
}

fn properties(watched: &Watched, target: BlobTarget) -> BlobProperties {
    match watched.bench.run(head(target, BlobConditions::default())).unwrap() {
        BlobOutcome::BlobPropertiesFetched(properties) => *properties,
        other => panic!("{other:?}"),
    }
}

/// Copies `log` to `copy` until a transaction is done, so many before it; then the client goes away.
fn copy_without_answer(watched: &Watched, transactions_before: usize) -> oneshot::Sender<()> {
    let (reach, reached) = oneshot::channel();
    let (release, released) = oneshot::channel();
    let mut event: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        reach.send(()).unwrap();
        let _ = released.await;
    });
    for _ in 0..transactions_before {
        let engine = watched.engine.clone();
        event = Box::pin(async move { *engine.after.lock().unwrap() = Some(event) });
    }
    *watched.engine.after.lock().unwrap() = Some(event);
    watched.bench.runtime.block_on(async {
        let command = BlobCommand::CopyBlob(Box::new(copy_blob("log", "copy")));
        tokio::select! {
            done = execute(&watched.bench.service, command, Bytes::new()) => panic!("{done:?}"),
            done = reached => done.unwrap(),
        }
    });
    release
}

#[test]
fn a_copy_whose_client_goes_away_leaves_no_row_without_its_content() {
    let watched = Watched::with(ServiceSettings { copy_bytes_max: u64::MAX, ..ServiceSettings::default() });
    watched.bench.run(BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0))).unwrap();
    for length in std::iter::once(9_000).chain([4096; 300]) {
        let body = bytes(1, length);
        watched.bench.run_with(append("log", &body, AppendConditions::default()), body).unwrap();
    }
    let release = copy_without_answer(&watched, 0);
    // Nothing can be removed of what was written: the server ends.
    watched.engine.left.store(0, Ordering::SeqCst);
    let _ = release.send(());
    watched.settle();
    assert!(!watched.rows_of("copy").is_empty());
    assert_eq!(watched.bench.contents.bytes(), 18_000);
    watched.engine.left.store(usize::MAX, Ordering::SeqCst);
    watched.bench.clock.pass_seconds(2 * 24 * 60 * 60);
    watched.bench.runtime.block_on(watched.bench.service.scrub_contents(ScrubPace::Full)).unwrap();
    assert_eq!((watched.rows_of("copy").len(), watched.bench.contents.bytes()), (0, 9_000));
}

#[test]
fn a_pending_copy_goes_on_though_its_client_has_gone_before_the_answer() {
    let watched = Watched::with(ServiceSettings { copy_bytes_max: 1000, ..ServiceSettings::default() });
    watched.bench.put("log", &bytes(1, 9_000));
    // Its entry comes before its target.
    let release = copy_without_answer(&watched, 1);
    let _ = release.send(());
    watched.settle();
    assert_eq!(properties(&watched, path("copy").into()).copy.unwrap().status, CopyStatus::Success);
    assert_eq!(watched.bench.get("copy").unwrap(), bytes(1, 9_000));
}

#[test]
fn tags_that_are_set_while_a_snapshot_is_deleted_come_back_with_it() {
    let watched = Watched::new();
    watched.bench.retain_deleted(3);
    watched.bench.put("b", &bytes(1, 10));
    let snapshot = watched.bench.snapshot("b");
    let tags = BlobTags::parse([("colour".to_owned(), "blue".to_owned())]).unwrap();
    let set = SetBlobTags {
        target: snapshot.clone(),
        tags: tags.clone(),
        sums: TransferSums::default(),
        text: Bytes::new(),
        conditions: BlobConditions::default(),
    };
    let service = watched.bench.service.clone();
    *watched.engine.before.lock().unwrap() = Some(Box::pin(async move {
        execute(&service, BlobCommand::SetBlobTags(set), Bytes::new()).await.unwrap();
    }));
    watched.bench.delete(path("b").into(), DeleteSnapshots::Include).unwrap();
    watched.bench.run(BlobCommand::UndeleteBlob(path("b"))).unwrap();
    assert_eq!(properties(&watched, snapshot).tags, tags);
}

#[test]
fn a_snapshot_that_takes_the_place_of_another_one_is_deleted_with_the_blob() {
    let watched = Watched::new();
    watched.bench.put("b", &bytes(1, 10));
    let first = watched.bench.snapshot("b");
    let service = watched.bench.service.clone();
    let (tell, told) = oneshot::channel();
    *watched.engine.before.lock().unwrap() = Some(Box::pin(async move {
        execute(&service, delete(first, DeleteSnapshots::Refuse), Bytes::new()).await.unwrap();
        let (metadata, conditions) = (Metadata::default(), BlobConditions::default());
        let take = BlobCommand::SnapshotBlob(SnapshotBlob { blob: path("b"), metadata, conditions });
        tell.send(execute(&service, take, Bytes::new()).await.unwrap().0).unwrap();
    }));
    watched.bench.delete(path("b").into(), DeleteSnapshots::Include).unwrap();
    let Ok(BlobOutcome::BlobSnapshotTaken { snapshot, .. }) = watched.bench.runtime.block_on(told) else {
        panic!()
    };
    let second = BlobTarget { path: path("b"), moment: BlobMoment::Snapshot(snapshot) };
    assert_eq!(watched.bench.read(second, None), Err(ErrorCode::BlobNotFound));
    assert_eq!(watched.rows_of("b"), []);
}

#[test]
fn a_block_that_is_put_while_rows_are_tidied_is_kept_where_a_scan_is_not_one_snapshot() {
    let watched = Watched::new();
    for id in ["A", "B", "C", "D"] {
        let body = bytes(1, 10_000);
        watched.bench.run_with(put_block("b", id, &body), body).unwrap();
    }
    let late = bytes(2, 10_000);
    let (service, body) = (watched.bench.service.clone(), late.clone());
    *watched.engine.between.lock().unwrap() = Some(Box::pin(async move {
        execute(&service, put_block("b", "E", &body), body.clone()).await.unwrap();
    }));
    watched.engine.snapshot_rows.store(1, Ordering::SeqCst);
    let command = BlobCommand::PutBlob(new_blob("b", NewKind::Block, 10));
    watched.bench.run_with(command, bytes(3, 10)).unwrap();
    watched.settle();
    watched.engine.snapshot_rows.store(usize::MAX, Ordering::SeqCst);
    assert!(watched.engine.between.lock().unwrap().is_none());
    watched.bench.run(commit("b", &["E"])).unwrap();
    assert_eq!(watched.bench.get("b").unwrap(), late);
    watched.settle();
    assert_eq!(watched.bench.contents.bytes(), 10_000);
}

#[test]
fn pages_that_are_written_while_they_are_read_do_not_cut_the_answer() {
    let watched = Watched::new();
    let bench = &watched.bench;
    let length = 4 * CELL;
    bench.run(BlobCommand::PutBlob(new_blob("disk", NewKind::Page { length, sequence: 0 }, 0))).unwrap();
    let cell = |seed| bytes(seed, usize::try_from(CELL).unwrap());
    let write =
        |at: u64, seed| bench.run_with(put_pages("disk", at * CELL, &cell(seed)), cell(seed)).unwrap();
    (0..4).for_each(|at| drop(write(at, at.to_le_bytes()[0])));
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let command = Command::Blob(Box::new(get(path("disk").into(), None)));
    let permitted = Permitted::unchecked_for_test(account, command, None);
    let executed = bench.runtime.block_on(bench.service.execute_with(permitted, None, None)).unwrap();
    let mut download = executed.download.unwrap();
    let mut read = BytesMut::new();
    read.extend_from_slice(&bench.runtime.block_on(download.next()).unwrap().unwrap());
    write(2, 7);
    watched.settle();
    while let Some(piece) = bench.runtime.block_on(download.next()).unwrap() {
        read.extend_from_slice(&piece);
    }
    assert!(read == [cell(0), cell(1), cell(7), cell(3)].concat());
}
