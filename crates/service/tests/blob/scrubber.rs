//! The scrubber, and what is done behind answers: removing what has had its time, finding damage, dropping containers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tavola_auth::Permitted;
use tavola_engine::{
    BytesSource, Change, Content, ContentCursor, ContentSize, ContentStore, Decision, Owner, SpaceId,
    StoredRow,
};
use tavola_model::{
    AccountName, AppendConditions, BlobCommand, BlobEntry, BlobOutcome, Command, DateTime, DeleteSnapshots,
    ErrorCode, ListBlobs, ListInclude, NewKind, Outcome,
};
use tavola_service::{AnswerBudget, ScrubPace};

use crate::bench::{
    Bench, append, bytes, commit, container, create_container, delete, delete_container, execute, get,
    new_blob, path, put_block, put_pages,
};
use crate::troubled::Stores;
use crate::watched::Watched;

const DAY: u64 = 24 * 60 * 60;

fn scrub(bench: &Bench) -> tavola_service::ScrubReport {
    bench.runtime.block_on(bench.service.scrub_contents(ScrubPace::Full)).unwrap()
}

fn listed(bench: &Bench, include: ListInclude) -> Vec<String> {
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
    let name = |entry: BlobEntry| match entry {
        BlobEntry::Blob(blob) => blob.name.to_string(),
        BlobEntry::Prefix(prefix) => prefix,
    };
    page.entries.into_iter().map(name).collect()
}

#[test]
fn uncommitted_blocks_go_a_week_after_the_last_one_was_put_also_those_in_rows() {
    let bench = Bench::new();
    let uncommitted = ListInclude { uncommitted_blobs: true, ..ListInclude::default() };
    for (name, length) in [("little", 10), ("much", 100_000)] {
        let block = bytes(1, length);
        bench.run_with(put_block(name, "block", &block), block.clone()).unwrap();
    }
    bench.clock.pass_seconds(6 * DAY);
    assert_eq!(scrub(&bench).tidied, 0);
    assert_eq!(listed(&bench, uncommitted), ["little", "much"]);
    bench.clock.pass_seconds(2 * DAY);
    assert_eq!(scrub(&bench).tidied, 2);
    assert_eq!(listed(&bench, uncommitted), Vec::<String>::new());
    assert_eq!(bench.content_bytes(), 0);
}

#[test]
fn a_blob_with_rows_of_a_newer_server_keeps_everything_and_no_other_one_does() {
    for kind in [37, 70] {
        let stores = Stores::new();
        let block = bytes(1, 100_000);
        for name in ["newer", "other"] {
            let put = put_block(name, "block", &block);
            stores.runtime.block_on(execute(&stores.service, put, block.clone())).unwrap();
        }
        for space in stores.runtime.block_on(stores.engine.spaces()).unwrap() {
            let mut put = |_: DateTime, _: &[Option<StoredRow>]| {
                Decision::Apply(vec![Change::Put { index: 0, body: Bytes::from_static(b"?") }])
            };
            let row = [kind; 9];
            let rows: [&[u8]; 1] = [&row];
            if space != SpaceId::CATALOG {
                stores.runtime.block_on(stores.engine.transact(space, b"newer", &rows, &mut put)).unwrap();
            }
        }
        stores.clock.pass_seconds(8 * DAY);
        stores.runtime.block_on(stores.service.scrub_contents(ScrubPace::Full)).unwrap();
        assert_eq!(stores.contents.inner.bytes(), 100_000, "{kind}");
    }
}

#[test]
fn rows_that_nothing_names_go_also_where_the_blob_has_no_contents() {
    // The server ends behind one transaction, with which a change is done and nothing is removed.
    let check = |name: &str, write: &dyn Fn(&Bench), change: BlobCommand, left: usize| {
        let watched = Watched::new();
        // So that what the scan has found of the blob before it is not taken for its own.
        watched.bench.put("a", &bytes(1, 10));
        write(&watched.bench);
        watched.engine.left.store(1, Ordering::SeqCst);
        watched.bench.run(change).unwrap();
        watched.settle();
        watched.engine.left.store(usize::MAX, Ordering::SeqCst);
        assert!(watched.rows_of(name).len() > left, "{name}: nothing was left behind");
        assert_eq!(scrub(&watched.bench).tidied, 1, "{name}");
        assert_eq!(watched.rows_of(name).len(), left, "{name}");
        assert_eq!(scrub(&watched.bench).tidied, 0, "{name}");
    };
    let (line, page) = (bytes(1, 100), bytes(2, 512));
    let write_log = |bench: &Bench| {
        bench.run(BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0))).unwrap();
        bench.run_with(append("log", &line, AppendConditions::default()), line.clone()).unwrap();
    };
    let delete_blob = |name| delete(path(name).into(), DeleteSnapshots::Refuse);
    check("log", &write_log, delete_blob("log"), 0);
    check("log", &write_log, BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0)), 1);
    let write_disk = |bench: &Bench| {
        let kind = NewKind::Page { length: 1024, sequence: 0 };
        bench.run(BlobCommand::PutBlob(new_blob("disk", kind, 0))).unwrap();
        bench.run_with(put_pages("disk", 0, &page), page.clone()).unwrap();
    };
    check("disk", &write_disk, delete_blob("disk"), 0);
    let write_blocks = |bench: &Bench| {
        bench.run_with(put_block("blocks", "one", &line), line.clone()).unwrap();
    };
    check("blocks", &write_blocks, commit("blocks", &["one"]), 2);
}

#[test]
fn a_blob_whose_rows_are_read_in_two_steps_has_nothing_to_tidy() {
    let bench = Bench::new();
    // A step ends before its 4,096th row: between the record of the log and the row of its bytes.
    for number in 0..4094 {
        bench.put(&format!("blob-{number:04}"), &bytes(1, 10));
    }
    let line = bytes(1, 100);
    bench.run(BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0))).unwrap();
    bench.run_with(append("log", &line, AppendConditions::default()), line.clone()).unwrap();
    assert_eq!(scrub(&bench).tidied, 0);
}

#[test]
fn what_was_deleted_softly_goes_when_its_time_is_over() {
    let bench = Bench::new();
    bench.retain_deleted(3);
    for (name, length) in [("little", 10), ("much", 100_000)] {
        bench.put(name, &bytes(1, length));
        bench.delete(path(name).into(), DeleteSnapshots::Refuse).unwrap();
    }
    let deleted = ListInclude { deleted: true, ..ListInclude::default() };
    bench.clock.pass_seconds(2 * DAY);
    assert_eq!(scrub(&bench).tidied, 0);
    assert_eq!(listed(&bench, deleted), ["little", "much"]);
    bench.clock.pass_seconds(2 * DAY);
    assert_eq!(scrub(&bench).tidied, 2);
    assert_eq!(bench.content_bytes(), 0);
}

#[test]
fn a_scrub_reads_every_byte_and_counts_what_is_damaged() {
    let stores = Stores::new();
    stores.put("small", 100);
    stores.put("first", 300_000);
    stores.put("second", 700_000);
    let scrub = || stores.runtime.block_on(stores.service.scrub_contents(ScrubPace::Full)).unwrap();
    let scrubbed = scrub();
    assert_eq!((scrubbed.contents, scrubbed.bytes, scrubbed.damaged), (2, 1_000_000, 0), "{scrubbed:?}");
    stores.contents.is_damaged.store(true, Ordering::SeqCst);
    let scrubbed = scrub();
    assert_eq!((scrubbed.contents, scrubbed.damaged, scrubbed.dropped), (2, 2, 0), "{scrubbed:?}");
}

#[test]
fn a_content_that_tells_nothing_is_counted_and_stays_and_ends_no_scrub() {
    for malformed in 0..3 {
        let stores = Stores::new();
        let spaces = stores.runtime.block_on(stores.engine.spaces()).unwrap();
        let space = spaces.into_iter().find(|space| *space != SpaceId::CATALOG).unwrap();
        // No row names them.
        let owner = Owner { space, partition: b"blob".to_vec() };
        let contents = [10, 11, 12].map(|length| {
            let put = async {
                let mut source = BytesSource::new([bytes(1, length)]);
                stores.contents.put(&owner, ContentSize::Exactly(length as u64), &mut source).await.unwrap()
            };
            stores.runtime.block_on(put)
        });
        let Content { id, length } = contents[malformed];
        *stores.contents.malformed.lock().unwrap() = Some(ContentCursor { space, id });
        stores.clock.pass_seconds(2 * DAY);
        let scrubbed = stores.runtime.block_on(stores.service.scrub_contents(ScrubPace::Full)).unwrap();
        assert_eq!((scrubbed.contents, scrubbed.damaged, scrubbed.dropped), (2, 1, 2), "{malformed}");
        assert_eq!(stores.contents.inner.bytes(), length, "{malformed}");
    }
}

#[test]
fn a_deleted_container_is_told_so_while_its_contents_are_still_dropped() {
    let stores = Stores::new();
    stores.put("blob", 300_000);
    stores.contents.is_held.store(true, Ordering::SeqCst);
    let run = |command| stores.runtime.block_on(execute(&stores.service, command, Bytes::new()));
    run(delete_container()).unwrap();
    assert_eq!(stores.contents.inner.bytes(), 300_000, "nothing is dropped yet");
    assert_eq!(run(get(path("blob").into(), None)).unwrap_err(), ErrorCode::ContainerNotFound);
    // The server ends here. The next one finds contents of a space that is gone, however young they are.
    stores.contents.is_held.store(false, Ordering::SeqCst);
    run(create_container()).unwrap();
    stores.put("new", 200_000);
    stores.runtime.block_on(stores.service.resume_blobs()).unwrap();
    assert_eq!(stores.contents.inner.bytes(), 200_000);
    assert_eq!(run(get(path("new").into(), None)).unwrap().1.len(), 200_000);
}

#[test]
fn a_list_ends_with_a_marker_where_there_is_no_more_memory() {
    let bench = Bench::new();
    for number in 0..300 {
        bench.put(&format!("blob-{number:03}"), &bytes(1, 10));
    }
    let (mut names, mut from, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let asked = ListBlobs {
            container: container(),
            prefix: None,
            delimiter: None,
            from: from.take(),
            start_from: None,
            max: None,
            include: ListInclude::default(),
            marker: None,
        };
        let page = page_within(&bench, asked, 100_000).unwrap();
        pages += 1;
        for entry in page.entries {
            let BlobEntry::Blob(blob) = entry else { panic!() };
            assert!(names.insert(blob.name.to_string()), "{} came twice", blob.name);
        }
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(names.len(), 300);
    assert!(pages > 2, "{pages} pages");
}

/// A page that has so many bytes of memory beside what needs none.
fn page_within(bench: &Bench, asked: ListBlobs, bytes: usize) -> Result<tavola_model::BlobPage, ErrorCode> {
    struct Budget(AtomicUsize);
    impl AnswerBudget for Budget {
        fn take(&self, bytes: usize) -> bool {
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(bytes)).is_ok()
        }
    }
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let command = Command::Blob(Box::new(BlobCommand::ListBlobs(asked)));
    let permitted = Permitted::unchecked_for_test(account, command, None);
    let budget: Arc<dyn AnswerBudget> = Arc::new(Budget(AtomicUsize::new(bytes)));
    let done = bench.runtime.block_on(bench.service.execute_within(permitted, Some(budget)));
    match done.map_err(|error| error.code)? {
        Outcome::Blob(outcome) => match *outcome {
            BlobOutcome::BlobsListed(page) => Ok(*page),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}
