//! Blobs of many rows, and what their requests cost: no transaction and no look at rows is larger than it must be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use tavola_auth::Permitted;
use tavola_model::{
    AccountCommand, AccountName, AppendBlockFromUrl, AppendConditions, BLOCK_BYTES_MAX, BlobCommand,
    BlobConditions, BlobEntry, BlobHeaders, BlobOutcome, BlobTags, BlobTarget, BlockListType, ByteRange,
    Command, CopyBlob, CopySource, DeleteRetention, DeleteSnapshots, ErrorCode, FindBlobs, FromUrl, GetBlob,
    GetBlockList, ListBlobs, ListInclude, NewKind, Outcome, PutBlockFromUrl, RangeSum, RehydratePriority,
    ServicePropertiesPatch, SetBlobTags, SourceConditions, StorageService, TagComparison, TagFilter,
    TransferSums, VersionConditions,
};
use tavola_service::AnswerBudget;

use crate::bench::{append, block_id, bytes, commit, container, execute, new_blob, path, put_block};
use crate::watched::Watched;

const MIB: usize = 1024 * 1024;

/// An append blob whose bytes are all in its rows.
fn long_log(watched: &Watched, name: &str, blocks: usize) -> Bytes {
    watched.bench.run(BlobCommand::PutBlob(new_blob(name, NewKind::Append, 0))).unwrap();
    let mut whole = BytesMut::new();
    for block in 0..blocks {
        let body = bytes(block.to_le_bytes()[0], 4096);
        watched.bench.run_with(append(name, &body, AppendConditions::default()), body.clone()).unwrap();
        whole.extend_from_slice(&body);
    }
    whole.freeze()
}

#[test]
fn a_range_of_a_long_log_is_read_a_few_rows_at_a_time() {
    let watched = Watched::new();
    let whole = long_log(&watched, "log", 1000);
    let (read, asked) = watched.asked_by(|| {
        watched.bench.read(path("log").into(), Some(ByteRange { first: 5, last: Some(5) })).unwrap()
    });
    assert_eq!(read, whole[5..6]);
    assert!(asked.bytes_scanned < 64 * 1024, "{asked:?}");
    let (read, asked) = watched.asked_by(|| watched.bench.get("log").unwrap());
    assert!(read == whole);
    assert!(asked.scans > 8, "{asked:?}");
    let range = ByteRange { first: 2_000_000, last: Some(3_000_000) };
    assert!(watched.bench.read(path("log").into(), Some(range)).unwrap() == whole[2_000_000..=3_000_000]);
    let snapshot = watched.bench.snapshot("log");
    let more = bytes(7, 100);
    watched.bench.run_with(append("log", &more, AppendConditions::default()), more).unwrap();
    assert!(watched.bench.read(snapshot, None).unwrap() == whole);
}

#[test]
fn the_end_of_a_long_log_is_read_from_its_end_also_while_it_grows() {
    let watched = Watched::new();
    watched.bench.run(BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0))).unwrap();
    let mut whole = BytesMut::new();
    let add = |whole: &mut BytesMut, length: usize| {
        let body = bytes(whole.len().to_le_bytes()[1], length);
        watched.bench.run_with(append("log", &body, AppendConditions::default()), body.clone()).unwrap();
        whole.extend_from_slice(&body);
    };
    // Some blocks are contents, and share their row with others.
    for number in 0..1000 {
        add(&mut whole, if number % 50 == 0 { 9_000 } else { 3_000 + number });
    }
    let read = |target: BlobTarget, first: usize, last: usize| {
        let range = ByteRange { first: first as u64, last: Some(last as u64) };
        watched.bench.read(target, Some(range)).unwrap()
    };
    let length = whole.len();
    let (tail, asked) = watched.asked_by(|| read(path("log").into(), length - 10, length - 1));
    assert_eq!(tail, whole[length - 10..]);
    assert!(asked.bytes_scanned < MIB, "{asked:?}");
    let snapshot = watched.bench.snapshot("log");
    for more in [0, 1, 1, 20_000, 1] {
        if more > 0 {
            add(&mut whole, more);
        }
        for first in (0..length).step_by(length / 37).chain([length - 1]) {
            let last = length.min(first + 20_000) - 1;
            for target in [path("log").into(), snapshot.clone()] {
                assert!(read(target, first, last) == whole[first..=last], "{first} of {length}");
            }
        }
    }
    // Somebody appends between the look at the record and that at the rows.
    let service = watched.bench.service.clone();
    let body = bytes(7, 100);
    *watched.engine.before_scan.lock().unwrap() = Some(Box::pin(async move {
        execute(&service, append("log", &body, AppendConditions::default()), body).await.unwrap();
    }));
    let length = whole.len();
    assert_eq!(read(path("log").into(), length - 10, length - 1), whole[length - 10..]);
    assert!(watched.engine.before_scan.lock().unwrap().is_none());
}

#[test]
fn many_small_blocks_are_committed_by_a_small_transaction() {
    let watched = Watched::new();
    let ids: Vec<String> = (0..1500).map(|number| format!("{number:05}")).collect();
    let mut whole = BytesMut::new();
    for (at, id) in ids.iter().enumerate() {
        let body = bytes(at.to_le_bytes()[0], 4096);
        whole.extend_from_slice(&body);
        watched.bench.run_with(put_block("b", id, &body), body).unwrap();
    }
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (done, asked) = watched.asked(commit("b", &names));
    done.unwrap();
    assert!(asked.bytes_max < 2 * MIB, "{asked:?}");
    assert!(watched.bench.get("b").unwrap() == whole);
    // A block that stands in a list many times.
    let body = bytes(3, 4096);
    watched.bench.run_with(put_block("b", "again", &body), body.clone()).unwrap();
    let (done, asked) = watched.asked(commit("b", &["again"; 3000]));
    done.unwrap();
    assert!(asked.bytes_max < MIB, "{asked:?}");
    assert!(watched.bench.get("b").unwrap() == body.repeat(3000));
    assert_eq!(
        watched.bench.content_bytes(),
        4096,
        "what the list left out is gone, and equal blocks are one"
    );
    // What stays in rows does not add up over commits.
    for round in 0..8_u8 {
        for at in 0..200_u8 {
            let id = format!("{round:02}{at:03}");
            let body = bytes(at.wrapping_mul(8) ^ round, 4096);
            watched.bench.run_with(put_block("c", &id, &body), body).unwrap();
        }
        let all = (0..=round).flat_map(|round| (0..200).map(move |at| format!("{round:02}{at:03}")));
        let all: Vec<String> = all.collect();
        let names: Vec<&str> = all.iter().map(String::as_str).collect();
        let (done, asked) = watched.asked(commit("c", &names));
        done.unwrap();
        assert!(asked.bytes_max < 3 * MIB / 2, "{asked:?}");
    }
    watched.bench.delete(path("b").into(), DeleteSnapshots::Refuse).unwrap();
    watched.bench.delete(path("c").into(), DeleteSnapshots::Refuse).unwrap();
    assert_eq!(watched.bench.content_bytes(), 0);
}

#[test]
fn a_list_of_blocks_tells_all_of_them_or_that_memory_is_short() {
    let watched = Watched::new();
    for number in 0..500 {
        let body = bytes(1, 100);
        watched.bench.run_with(put_block("b", &format!("{number:03}"), &body), body).unwrap();
    }
    watched.bench.run(commit("b", &["001", "002"])).unwrap();
    for number in 0..300 {
        let body = bytes(2, 200);
        watched.bench.run_with(put_block("b", &format!("{number:03}"), &body), body).unwrap();
    }
    let get = || {
        BlobCommand::GetBlockList(GetBlockList {
            target: path("b").into(),
            which: BlockListType::All,
            conditions: BlobConditions::default(),
        })
    };
    let Ok(BlobOutcome::BlockListFetched(list)) = watched.bench.run(get()) else { panic!() };
    let committed = list.committed.unwrap();
    assert_eq!(
        committed.iter().map(|block| block.id.clone()).collect::<Vec<_>>(),
        ["001", "002"].map(block_id)
    );
    let uncommitted = list.uncommitted.unwrap();
    assert_eq!(uncommitted.len(), 300);
    assert!(uncommitted.iter().all(|block| block.length == 200));
    assert_eq!(run_within(&watched, get(), 0).unwrap_err(), ErrorCode::ServerBusy);
    run_within(&watched, get(), MIB).unwrap();
}

/// Runs a command with so many bytes of memory for its answer.
fn run_within(watched: &Watched, command: BlobCommand, bytes: usize) -> Result<BlobOutcome, ErrorCode> {
    struct Budget(AtomicUsize);
    impl AnswerBudget for Budget {
        fn take(&self, bytes: usize) -> bool {
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(bytes)).is_ok()
        }
    }
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let permitted = Permitted::unchecked_for_test(account, Command::Blob(Box::new(command)), None);
    let budget: Arc<dyn AnswerBudget> = Arc::new(Budget(AtomicUsize::new(bytes)));
    let done =
        watched.bench.runtime.block_on(watched.bench.service.execute_with(permitted, Some(budget), None));
    match done.map_err(|error| error.code)?.outcome {
        Outcome::Blob(outcome) => Ok(*outcome),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_range_whose_sum_is_told_takes_memory_first() {
    let watched = Watched::new();
    watched.bench.put("b", &bytes(1, 100_000));
    let get = |sum| {
        BlobCommand::GetBlob(GetBlob {
            target: path("b").into(),
            range: Some(ByteRange { first: 0, last: Some(89_999) }),
            range_sum: sum,
            overrides: BlobHeaders::default(),
            conditions: BlobConditions::default(),
        })
    };
    assert_eq!(run_within(&watched, get(Some(RangeSum::Md5)), 50_000).unwrap_err(), ErrorCode::ServerBusy);
    run_within(&watched, get(Some(RangeSum::Md5)), 200_000).unwrap();
    run_within(&watched, get(None), 0).unwrap();
}

fn list(include: ListInclude, max: u32) -> ListBlobs {
    ListBlobs {
        container: container(),
        prefix: None,
        delimiter: None,
        from: None,
        start_from: None,
        max: Some(max),
        include,
        marker: None,
    }
}

#[test]
fn a_list_passes_over_snapshots_that_are_not_asked_for_and_goes_on_amid_those_that_are() {
    const SNAPSHOTS: usize = 300;
    let watched = Watched::new();
    for name in ["a", "b"] {
        watched.bench.put(name, &bytes(1, 1000));
        (0..SNAPSHOTS).for_each(|_| drop(watched.bench.snapshot(name)));
    }
    let (done, asked) = watched.asked(BlobCommand::ListBlobs(list(ListInclude::default(), 5000)));
    let BlobOutcome::BlobsListed(page) = done.unwrap() else { panic!() };
    assert_eq!(page.entries.len(), 2);
    assert!(asked.rows_scanned < 40, "{asked:?}");
    let include = ListInclude { snapshots: true, ..ListInclude::default() };
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let asked_for = ListBlobs { from: from.take(), ..list(include, 70) };
        let (done, asked) = watched.asked(BlobCommand::ListBlobs(asked_for));
        let BlobOutcome::BlobsListed(page) = done.unwrap() else { panic!() };
        assert!(asked.rows_scanned <= SNAPSHOTS + 80, "{asked:?}");
        for entry in page.entries {
            let BlobEntry::Blob(blob) = entry else { panic!() };
            found.push((blob.name.to_string(), blob.snapshot));
        }
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 2 * (SNAPSHOTS + 1));
    let mut ordered = found.clone();
    ordered.sort_by_key(|(name, snapshot)| (name.clone(), snapshot.is_none(), *snapshot));
    ordered.dedup();
    assert_eq!(found, ordered);
}

#[test]
fn a_blob_with_very_many_snapshots_is_deleted_and_had_back() {
    const SNAPSHOTS: usize = 700;
    let watched = Watched::new();
    let body = bytes(1, 5000);
    for keeps_deleted in [false, true] {
        if keeps_deleted {
            keep_deleted(&watched);
        }
        watched.bench.put("b", &body);
        (0..SNAPSHOTS).for_each(|_| drop(watched.bench.snapshot("b")));
        let (done, asked) = watched.asked_by(|| {
            watched.bench.delete(path("b").into(), DeleteSnapshots::Only).unwrap();
            (0..SNAPSHOTS).for_each(|_| drop(watched.bench.snapshot("b")));
            watched.bench.delete(path("b").into(), DeleteSnapshots::Include)
        });
        done.unwrap();
        watched.settle();
        assert!(asked.rows_max <= 300, "{asked:?}");
        assert_eq!(watched.bench.get("b"), Err(ErrorCode::BlobNotFound));
    }
    let (done, asked) = watched.asked(BlobCommand::UndeleteBlob(path("b")));
    done.unwrap();
    assert!(asked.rows_max <= 300, "{asked:?}");
    assert_eq!(watched.bench.get("b").unwrap(), body);
    let include = ListInclude { snapshots: true, ..ListInclude::default() };
    let BlobOutcome::BlobsListed(page) =
        watched.bench.run(BlobCommand::ListBlobs(list(include, 5000))).unwrap()
    else {
        panic!()
    };
    assert_eq!(page.entries.len(), 2 * SNAPSHOTS + 1);
    let refused = watched.bench.delete(path("b").into(), DeleteSnapshots::Refuse);
    assert_eq!(refused, Err(ErrorCode::SnapshotsPresent));
}

/// Lets the account keep what is deleted.
fn keep_deleted(watched: &Watched) {
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let patch = ServicePropertiesPatch {
        delete_retention: Some(DeleteRetention { days: Some(3), ..DeleteRetention::default() }),
        ..ServicePropertiesPatch::default()
    };
    let set = Command::Account(AccountCommand::SetServiceProperties(Box::new(patch)));
    let permitted = Permitted::unchecked_for_test(account, set, None).at_service(StorageService::Blob);
    watched.bench.runtime.block_on(watched.bench.service.execute(permitted)).unwrap();
}

fn source(name: &str) -> CopySource {
    let account = AccountName::parse("devstoreaccount1").unwrap();
    CopySource {
        shown: format!("http://127.0.0.1/devstoreaccount1/box/{name}"),
        host: "127.0.0.1".to_owned(),
        path: format!("/devstoreaccount1/box/{name}"),
        query: Default::default(),
        target: Some((account, path(name).into())),
        authorization: None,
        is_secure: false,
    }
}

fn copy(from: &str, to: &str, is_sync: bool, version: VersionConditions) -> BlobCommand {
    BlobCommand::CopyBlob(Box::new(CopyBlob {
        blob: path(to),
        source: source(from),
        metadata: Default::default(),
        tags: Default::default(),
        copies_tags: false,
        tier: None,
        rehydrate: RehydratePriority::Standard,
        seals: None,
        is_sync,
        source_md5: None,
        source_lease: None,
        source_conditions: Default::default(),
        conditions: BlobConditions { version, ..BlobConditions::default() },
    }))
}

#[test]
fn a_blob_of_many_rows_is_copied_in_steps_and_is_the_old_one_or_the_new_one() {
    let watched = Watched::new();
    let log = long_log(&watched, "log", 800);
    let old = long_log(&watched, "to", 3);
    let rows = watched.rows_of("to").len();
    // The server stops after so many transactions.
    for left in [0, 1, 2, 3] {
        watched.engine.left.store(left, Ordering::SeqCst);
        let (done, _) = watched.asked(copy("log", "to", false, VersionConditions::default()));
        watched.settle();
        watched.engine.left.store(usize::MAX, Ordering::SeqCst);
        assert!(done.is_err(), "{left}");
        assert_eq!(watched.bench.get("to").unwrap(), old, "{left}");
    }
    watched.bench.clock.pass_seconds(2 * 24 * 60 * 60);
    watched
        .bench
        .runtime
        .block_on(watched.bench.service.scrub_contents(tavola_service::ScrubPace::Full))
        .unwrap();
    assert_eq!(watched.rows_of("to").len(), rows, "what was given up is gone");
    let (done, asked) = watched.asked(copy("log", "to", false, VersionConditions::default()));
    done.unwrap();
    assert!(asked.bytes_max < 3 * MIB / 2, "{asked:?}");
    assert!(watched.bench.get("to").unwrap() == log);
    // It goes on as the source would.
    let more = bytes(7, 100);
    watched.bench.run_with(append("to", &more, AppendConditions::default()), more.clone()).unwrap();
    assert!(watched.bench.get("to").unwrap() == [log, more].concat());
    assert_eq!(watched.bench.content_bytes(), 0);
}

#[test]
fn sources_that_are_too_long_are_refused_before_they_are_read() {
    let watched = Watched::new();
    let kind = |length| NewKind::Page { length, sequence: 0 };
    watched.bench.run(BlobCommand::PutBlob(new_blob("disk", kind(8 << 40), 0))).unwrap();
    watched.bench.run(BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0))).unwrap();
    let from_url = |bytes_max| FromUrl {
        source: source("disk"),
        range: None,
        bytes_max,
        sums: TransferSums::default(),
        conditions: SourceConditions::default(),
    };
    let append = BlobCommand::AppendBlockFromUrl(Box::new(AppendBlockFromUrl {
        blob: path("log"),
        source: from_url(4 << 20),
        append: AppendConditions::default(),
        conditions: BlobConditions::default(),
    }));
    assert_eq!(watched.bench.run(append).unwrap_err(), ErrorCode::RequestBodyTooLarge);
    let block = BlobCommand::PutBlockFromUrl(Box::new(PutBlockFromUrl {
        blob: path("b"),
        id: block_id("1"),
        source: from_url(BLOCK_BYTES_MAX),
        lease: None,
    }));
    assert_eq!(watched.bench.run(block).unwrap_err(), ErrorCode::RequestBodyTooLarge);
    let copied = watched.bench.run(copy("disk", "b", true, VersionConditions::default()));
    assert_eq!(copied.unwrap_err(), ErrorCode::CopySourceConflict);
}

#[test]
fn a_page_of_found_blobs_begins_where_the_one_before_ended() {
    const BLOBS: usize = 60;
    let watched = Watched::new();
    for number in 0..BLOBS {
        let name = format!("blob-{number:02}");
        watched.bench.put(&name, &bytes(1, 3));
        let pairs =
            [("colour".to_owned(), "blue".to_owned()), ("size".to_owned(), format!("{}", number % 7))];
        let set = SetBlobTags {
            target: path(&name).into(),
            tags: BlobTags::parse(pairs).unwrap(),
            sums: TransferSums::default(),
            text: Bytes::new(),
            conditions: BlobConditions::default(),
        };
        watched.bench.run(BlobCommand::SetBlobTags(set)).unwrap();
    }
    let compare = |name: &str, comparison, value: &str| TagFilter::Compare {
        name: name.to_owned(),
        comparison,
        value: value.to_owned(),
    };
    let filters = [
        compare("colour", TagComparison::Equal, "blue"),
        compare("size", TagComparison::GreaterOrEqual, "0"),
        TagFilter::Or(vec![
            compare("colour", TagComparison::Equal, "blue"),
            compare("size", TagComparison::Equal, "1"),
        ]),
    ];
    for filter in filters {
        let (mut names, mut from) = (Vec::new(), None);
        loop {
            let find = BlobCommand::FindBlobsByTags(FindBlobs {
                container: None,
                in_container: None,
                filter: Some(filter.clone()),
                text: String::new(),
                from: from.take(),
                max: Some(20),
            });
            let is_last = names.len() >= 40;
            let (done, asked) = watched.asked(find);
            let BlobOutcome::BlobsFound(page) = done.unwrap() else { panic!() };
            names.extend(page.blobs.iter().map(|blob| blob.name.to_string()));
            from = page.next;
            if is_last {
                // The container, and the entries that are left: twenty blobs, and those of their other tags.
                assert!(asked.rows_scanned <= 1 + 20 + BLOBS, "{filter:?}: {asked:?}");
            }
            if from.is_none() {
                break;
            }
        }
        assert_eq!(names.len(), BLOBS, "{filter:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), BLOBS, "{filter:?}");
    }
}
