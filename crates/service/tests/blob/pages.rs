//! Page blobs against a plain array of bytes.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tavola_model::{
    BlobCommand, BlobConditions, BlobMoment, BlobOutcome, BlobTarget, ByteRange, ClearPages, DateTime,
    ErrorCode, GetPageRanges, NewKind, PutPages, SequenceConditions, SetBlobHeaders, TransferSums,
};

use crate::bench::{Bench, bytes, new_blob, path};

const LENGTH: u64 = 300 * 1024;
const PAGE: u64 = 512;

#[derive(Clone, Debug)]
enum Step {
    Put { first: u64, pages: u64, seed: u8 },
    Clear { first: u64, pages: u64 },
    Snapshot,
}

fn any_step() -> impl Strategy<Value = Step> {
    let pages = LENGTH / PAGE;
    prop_oneof![
        4 => (0..pages, 1..pages / 2, 1..255u8)
            .prop_map(|(first, pages, seed)| Step::Put { first, pages, seed }),
        2 => (0..pages, 1..pages / 2).prop_map(|(first, pages)| Step::Clear { first, pages }),
        1 => Just(Step::Snapshot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn pages_read_back_as_they_were_written_and_snapshots_as_they_were(
        steps in prop::collection::vec(any_step(), 1..20),
    ) {
        let bench = Bench::new();
        let kind = NewKind::Page { length: LENGTH, sequence: 0 };
        bench.run(BlobCommand::PutBlob(new_blob("disk", kind, 0))).unwrap();
        let mut model = BytesMut::zeroed(usize::try_from(LENGTH).unwrap());
        let mut snapshots: Vec<(tavola_model::BlobTarget, Bytes)> = Vec::new();
        for step in steps {
            let cut = |first: u64, pages: u64| (first * PAGE, pages.min(LENGTH / PAGE - first) * PAGE);
            match step {
                Step::Put { first, pages, seed } => {
                    let (first, length) = cut(first, pages);
                    let body = bytes(seed, usize::try_from(length).unwrap());
                    let put = PutPages {
                        blob: path("disk"),
                        first,
                        length,
                        sums: TransferSums::default(),
                        sequence: SequenceConditions::default(),
                        conditions: BlobConditions::default(),
                    };
                    bench.run_with(BlobCommand::PutPages(put), body.clone()).unwrap();
                    let at = usize::try_from(first).unwrap();
                    model[at..at + body.len()].copy_from_slice(&body);
                }
                Step::Clear { first, pages } => {
                    let (first, length) = cut(first, pages);
                    let clear = ClearPages {
                        blob: path("disk"),
                        first,
                        length,
                        sequence: SequenceConditions::default(),
                        conditions: BlobConditions::default(),
                    };
                    bench.run(BlobCommand::ClearPages(clear)).unwrap();
                    let at = usize::try_from(first).unwrap();
                    model[at..at + usize::try_from(length).unwrap()].fill(0);
                }
                Step::Snapshot => snapshots.push((bench.snapshot("disk"), model.clone().freeze())),
            }
        }
        prop_assert_eq!(&bench.get("disk").unwrap(), &model);
        for (snapshot, then) in snapshots {
            prop_assert_eq!(&bench.read(snapshot, None).unwrap(), &then);
        }
        let range = ByteRange { first: 65_000, last: Some(132_000) };
        prop_assert_eq!(&bench.read(path("disk").into(), Some(range)).unwrap()[..], &model[65_000..=132_000]);
        for range in ranges(&bench) {
            let at = |place: u64| usize::try_from(place).unwrap();
            model[at(range.first)..=at(range.last)].fill(0);
        }
        prop_assert!(model.iter().all(|byte| *byte == 0), "what is not zero is in a range");
    }
}

fn ranges(bench: &Bench) -> Vec<tavola_model::PageRange> {
    let get = GetPageRanges {
        target: path("disk").into(),
        range: None,
        since: None,
        from: None,
        max: None,
        is_paged: true,
        conditions: BlobConditions::default(),
    };
    match bench.run(BlobCommand::GetPageRanges(get)).unwrap() {
        BlobOutcome::PageRangesFetched(found) => found.ranges,
        other => panic!("{other:?}"),
    }
}

fn put_pages(bench: &Bench, first: u64, pages: u64, seed: u8) {
    let length = pages * PAGE;
    let put = PutPages {
        blob: path("disk"),
        first: first * PAGE,
        length,
        sums: TransferSums::default(),
        sequence: SequenceConditions::default(),
        conditions: BlobConditions::default(),
    };
    bench.run_with(BlobCommand::PutPages(put), bytes(seed, usize::try_from(length).unwrap())).unwrap();
}

fn clear_pages(bench: &Bench, first: u64, pages: u64) {
    let clear = ClearPages {
        blob: path("disk"),
        first: first * PAGE,
        length: pages * PAGE,
        sequence: SequenceConditions::default(),
        conditions: BlobConditions::default(),
    };
    bench.run(BlobCommand::ClearPages(clear)).unwrap();
}

/// The pages of a state that differ from those of a snapshot: first, last, and whether they were cleared.
fn differences(
    bench: &Bench,
    target: BlobTarget,
    since: BlobMoment,
    max: Option<u32>,
) -> Result<Vec<(u64, u64, bool)>, ErrorCode> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let get = GetPageRanges {
            target: target.clone(),
            range: None,
            since: Some(since),
            from: from.take(),
            max,
            is_paged: true,
            conditions: BlobConditions::default(),
        };
        let BlobOutcome::PageRangesFetched(page) = bench.run(BlobCommand::GetPageRanges(get))? else {
            panic!()
        };
        assert!(page.ranges.len() <= max.map_or(usize::MAX, |max| max as usize));
        found.extend(page.ranges.iter().map(|range| {
            assert!(range.first % PAGE == 0 && (range.last + 1) % PAGE == 0);
            (range.first / PAGE, range.last / PAGE, range.is_clear)
        }));
        from = page.next;
        if from.is_none() {
            return Ok(found);
        }
    }
}

#[test]
fn pages_that_were_written_or_cleared_since_a_snapshot_are_told_and_no_others() {
    let bench = Bench::new();
    let kind = NewKind::Page { length: LENGTH, sequence: 0 };
    bench.run(BlobCommand::PutBlob(new_blob("disk", kind, 0))).unwrap();
    put_pages(&bench, 0, 4, 1);
    put_pages(&bench, 100, 200, 2);
    let first = bench.snapshot("disk");
    assert_eq!(differences(&bench, path("disk").into(), first.moment, None), Ok(vec![]));
    // Within a cell, across cells, from little and from much; cleared where something was and where nothing was.
    put_pages(&bench, 2, 1, 3);
    clear_pages(&bench, 0, 1);
    clear_pages(&bench, 50, 10);
    put_pages(&bench, 250, 100, 4);
    let second = bench.snapshot("disk");
    put_pages(&bench, 400, 2, 5);
    clear_pages(&bench, 2, 2);
    let expected = vec![(0, 0, true), (2, 3, true), (250, 349, false), (400, 401, false)];
    assert_eq!(differences(&bench, path("disk").into(), first.moment, None), Ok(expected.clone()));
    assert_eq!(differences(&bench, path("disk").into(), first.moment, Some(1)), Ok(expected));
    let between = vec![(0, 0, true), (2, 2, false), (250, 349, false)];
    assert_eq!(differences(&bench, second.clone(), first.moment, None), Ok(between));
    assert_eq!(
        differences(&bench, path("disk").into(), second.moment, None),
        Ok(vec![(2, 3, true), (400, 401, false)])
    );
    assert_eq!(
        differences(&bench, first, second.moment, None),
        Err(ErrorCode::PreviousSnapshotCannotBeNewer)
    );
    let missing = BlobMoment::Snapshot(DateTime::parse("2020-01-01").unwrap());
    assert_eq!(
        differences(&bench, path("disk").into(), missing, None),
        Err(ErrorCode::PreviousSnapshotNotFound)
    );
}

#[test]
fn only_a_page_blob_that_is_there_can_be_resized() {
    let bench = Bench::new();
    bench.run(BlobCommand::PutBlob(new_blob("text", NewKind::Block, 0))).unwrap();
    let resize = |name: &str| {
        let (headers, sequence, conditions) = (None, None, BlobConditions::default());
        let set = SetBlobHeaders { blob: path(name), headers, length: Some(1024), sequence, conditions };
        bench.run(BlobCommand::SetBlobProperties(set)).map(|_| ())
    };
    assert_eq!(resize("text"), Err(ErrorCode::InvalidBlobType));
    assert_eq!(resize("missing"), Err(ErrorCode::BlobNotFound));
}
