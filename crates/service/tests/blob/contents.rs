//! Contents: whatever way they come in, they come out again, and what nothing names is given back.

use bytes::{Bytes, BytesMut};
use tavola_model::{
    AppendConditions, BlobCommand, BlobConditions, BlobHeaders, BlobOutcome, BlobTarget, BlockListType,
    ByteRange, DeleteSnapshots, ErrorCode, GetBlob, GetBlobProperties, GetBlockList, NewKind, TransferSums,
};

use crate::bench::{
    Bench, append, block_id, bytes, commit, delete_container, new_blob, path, put, put_block,
};

/// Around the size that stays in a row, and that of a piece.
const LENGTHS: [usize; 8] = [0, 1, 4096, 4097, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 900_000];

#[test]
fn a_blob_reads_back_whatever_its_size_and_whatever_range() {
    let bench = Bench::new();
    for length in LENGTHS {
        let body = bytes(1, length);
        bench.put("b", &body);
        assert_eq!(bench.get("b").unwrap(), body, "{length}");
        for (first, last) in [(0, 0), (1, 5), (4000, 5000), (length as u64 / 2, u64::MAX)] {
            let range = ByteRange { first, last: Some(last) };
            let expected = match usize::try_from(first) {
                Ok(first) if first < length => {
                    let end = usize::try_from(last).unwrap_or(usize::MAX).min(length - 1);
                    Ok(body.slice(first..=end))
                }
                _ => Err(ErrorCode::InvalidRange),
            };
            assert_eq!(bench.read(path("b").into(), Some(range)), expected, "{length} {first}-{last}");
        }
    }
}

#[test]
fn headers_that_a_token_sets_take_the_place_of_the_blobs() {
    let bench = Bench::new();
    let mut command = new_blob("b", NewKind::Block, 0);
    command.new.headers.content_type = Some("text/plain".into());
    command.new.headers.content_language = Some("de".into());
    bench.run(BlobCommand::PutBlob(command)).unwrap();
    let overrides = BlobHeaders { content_type: Some("text/html".into()), ..BlobHeaders::default() };
    let (target, conditions) = (BlobTarget::from(path("b")), BlobConditions::default());
    let get = GetBlob {
        target: target.clone(),
        range: None,
        range_sum: None,
        overrides: overrides.clone(),
        conditions: conditions.clone(),
    };
    let head = GetBlobProperties { target, overrides, conditions };
    for command in [BlobCommand::GetBlob(get), BlobCommand::GetBlobProperties(head)] {
        let headers = match bench.run(command).unwrap() {
            BlobOutcome::BlobGot(got) => got.properties.headers,
            BlobOutcome::BlobPropertiesFetched(properties) => properties.headers,
            other => panic!("{other:?}"),
        };
        assert_eq!(headers.content_type.as_deref(), Some("text/html"));
        assert_eq!(headers.content_language.as_deref(), Some("de"));
    }
}

#[test]
fn an_overwritten_or_deleted_blob_gives_its_room_back() {
    let bench = Bench::new();
    let body = bytes(2, 50_000);
    bench.put("b", &body);
    bench.put("c", &body);
    assert_eq!(bench.content_bytes(), 100_000);
    bench.put("b", &bytes(3, 10_000));
    assert_eq!(bench.content_bytes(), 60_000);
    bench.delete(path("b").into(), DeleteSnapshots::Refuse).unwrap();
    assert_eq!(bench.content_bytes(), 50_000);
    bench.run(delete_container()).unwrap();
    assert_eq!(bench.content_bytes(), 0);
}

#[test]
fn a_sum_that_does_not_hold_changes_nothing_and_keeps_nothing() {
    let bench = Bench::new();
    bench.put("b", &bytes(1, 10));
    for length in [100, 50_000] {
        let body = bytes(4, length);
        for sums in [
            TransferSums { md5: Some([0; 16]), ..TransferSums::default() },
            TransferSums { crc64: Some(7), ..TransferSums::default() },
        ] {
            let mut command = new_blob("b", NewKind::Block, length as u64);
            command.sums = sums;
            let refused = bench.run_with(BlobCommand::PutBlob(command), body.clone());
            let code = if sums.md5.is_some() { ErrorCode::Md5Mismatch } else { ErrorCode::Crc64Mismatch };
            assert_eq!(refused.map(|_| ()), Err(code));
        }
    }
    assert_eq!(bench.get("b").unwrap(), bytes(1, 10));
    assert_eq!(bench.content_bytes(), 0);
}

#[test]
fn blocks_are_a_blob_when_their_list_is_put_and_not_before() {
    let bench = Bench::new();
    let blocks: Vec<Bytes> = (0..5).map(|seed| bytes(seed, 3_000 * usize::from(seed) + 100)).collect();
    for (block, id) in blocks.iter().zip(["b0", "b1", "b2", "b3", "b4"]) {
        bench.run_with(put_block("b", id, block), block.clone()).unwrap();
    }
    assert_eq!(bench.get("b"), Err(ErrorCode::BlobNotFound));
    assert_eq!(listed(&bench, "b"), ("".to_owned(), "b0 b1 b2 b3 b4 ".to_owned()));
    bench.run(commit("b", &["b3", "b1", "b3"])).unwrap();
    let expected = [&blocks[3], &blocks[1], &blocks[3]];
    assert_eq!(bench.get("b").unwrap(), joined(&expected));
    assert_eq!(listed(&bench, "b"), ("b3 b1 b3 ".to_owned(), "".to_owned()));
    assert_eq!(bench.content_bytes(), blocks[3].len() as u64, "the others are gone or in rows");

    let fresh = bytes(9, 20_000);
    bench.run_with(put_block("b", "b1", &fresh), fresh.clone()).unwrap();
    bench.run(commit("b", &["b1", "b3"])).unwrap();
    assert_eq!(bench.get("b").unwrap(), joined(&[&fresh, &blocks[3]]));
    assert_eq!(bench.run(commit("b", &["b0"])).map(|_| ()), Err(ErrorCode::InvalidBlockList));
    let long = put_block("b", "long", &fresh);
    bench.run_with(put_block("b", "b7", &fresh), fresh.clone()).unwrap();
    assert_eq!(bench.run_with(long, fresh.clone()).map(|_| ()), Err(ErrorCode::InvalidBlobOrBlock));
    bench.run_with(put("b", &fresh), fresh.clone()).unwrap();
    assert_eq!(listed(&bench, "b"), ("".to_owned(), "".to_owned()), "Put Blob ends the stage");
    assert_eq!(bench.content_bytes(), 20_000);
}

#[test]
fn a_list_of_thousands_of_blocks_is_one_blob() {
    let bench = Bench::new();
    let ids: Vec<String> = (0..2_500).map(|number| format!("{number:05}")).collect();
    for id in &ids {
        let block = Bytes::copy_from_slice(id.as_bytes());
        bench.run_with(put_block("b", id, &block), block).unwrap();
    }
    let list: Vec<&str> = ids.iter().map(String::as_str).collect();
    bench.run(commit("b", &list)).unwrap();
    assert_eq!(bench.get("b").unwrap(), ids.concat().as_bytes());
    let range = ByteRange { first: 5_003, last: Some(5_011) };
    assert_eq!(bench.read(path("b").into(), Some(range)).unwrap(), "000100101".as_bytes());
}

#[test]
fn appended_blocks_follow_each_other_and_a_snapshot_keeps_its_end() {
    let bench = Bench::new();
    bench.run(BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0))).unwrap();
    let mut expected = BytesMut::new();
    let mut snapshots: Vec<(BlobTarget, Bytes)> = Vec::new();
    for number in 0..60u8 {
        let length = if number % 7 == 0 { 9_000 } else { 100 * usize::from(number) + 1 };
        let block = bytes(number, length);
        let done = bench.run_with(append("log", &block, AppendConditions::default()), block.clone());
        let Ok(BlobOutcome::BlockAppended(done)) = done else { panic!("{done:?}") };
        assert_eq!((done.offset, done.block_count), (expected.len() as u64, u64::from(number) + 1));
        expected.extend_from_slice(&block);
        if number % 9 == 0 {
            snapshots.push((bench.snapshot("log"), expected.clone().freeze()));
        }
    }
    assert_eq!(bench.get("log").unwrap(), expected);
    for (snapshot, then) in snapshots {
        assert_eq!(bench.read(snapshot, None).unwrap(), then);
    }
    let block = bytes(1, 5);
    let at = |position, length_max| AppendConditions { position, length_max };
    let refused = |conditions| bench.run_with(append("log", &block, conditions), block.clone()).map(|_| ());
    assert_eq!(refused(at(Some(3), None)), Err(ErrorCode::AppendPositionConditionNotMet));
    let length = expected.len() as u64;
    assert_eq!(refused(at(None, Some(length + 4))), Err(ErrorCode::MaxBlobSizeConditionNotMet));
    assert_eq!(refused(at(Some(length), Some(length + 5))), Ok(()));
}

fn listed(bench: &Bench, name: &str) -> (String, String) {
    let get =
        GetBlockList { target: path(name).into(), which: BlockListType::All, conditions: Default::default() };
    match bench.run(BlobCommand::GetBlockList(get)).unwrap() {
        BlobOutcome::BlockListFetched(list) => {
            let ids = |blocks: Option<Vec<tavola_model::ListedBlock>>| {
                blocks
                    .into_iter()
                    .flatten()
                    .map(|block| format!("{} ", String::from_utf8_lossy(block.id.as_bytes())))
                    .collect::<String>()
            };
            assert!(list.committed.iter().flatten().all(|block| block.id != block_id("none")));
            (ids(list.committed), ids(list.uncommitted))
        }
        other => panic!("{other:?}"),
    }
}

fn joined(parts: &[&Bytes]) -> Bytes {
    let mut whole = BytesMut::new();
    for part in parts {
        whole.extend_from_slice(part);
    }
    whole.freeze()
}
