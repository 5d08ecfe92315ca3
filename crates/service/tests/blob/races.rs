//! Requests that meet: what one has read is changed by another before it writes, or while it is being sent.

use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use tavola_auth::Permitted;
use tavola_engine::SourceError;
use tavola_model::{
    AccountName, AppendConditions, BlobCommand, BlobConditions, Command, DeleteSnapshots, ErrorCode, NewKind,
    PutPages, SequenceConditions, TransferSums,
};
use tavola_service::ServiceSettings;

use crate::bench::{append, bytes, commit, copy_blob, delete, execute, get, new_blob, path, put_block};
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

/// Reads the first piece of a blob, lets it be deleted by so many transactions, and reads on.
fn read_while_deleted(
    watched: &Watched,
    name: &str,
    transactions: usize,
) -> (Result<(), SourceError>, Bytes) {
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let command = Command::Blob(Box::new(get(path(name).into(), None)));
    let permitted = Permitted::unchecked_for_test(account, command, None);
    let runtime = &watched.bench.runtime;
    let executed = runtime.block_on(watched.bench.service.execute_with(permitted, None, None)).unwrap();
    let mut download = executed.download.unwrap();
    let mut read = BytesMut::new();
    read.extend_from_slice(&runtime.block_on(download.next()).unwrap().unwrap());
    watched.engine.left.store(transactions, Ordering::SeqCst);
    watched.bench.run(delete(path(name).into(), DeleteSnapshots::Refuse)).unwrap();
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
    let (ended, read) = read_while_deleted(&watched, "disk", usize::MAX);
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
    let (ended, read) = read_while_deleted(&watched, "log", 2);
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
