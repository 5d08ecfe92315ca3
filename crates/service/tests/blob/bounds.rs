//! Blobs of many rows, and what their requests cost: no transaction and no look at rows is larger than it must be.

use bytes::{Bytes, BytesMut};
use tavola_model::{AppendConditions, BlobCommand, ByteRange, NewKind};

use crate::bench::{append, bytes, new_blob, path};
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
