//! Page blobs against a plain array of bytes.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tavola_model::{
    BlobCommand, BlobConditions, BlobOutcome, ByteRange, ClearPages, GetPageRanges, NewKind, PutPages,
    SequenceConditions, TransferSums,
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
        conditions: BlobConditions::default(),
    };
    match bench.run(BlobCommand::GetPageRanges(get)).unwrap() {
        BlobOutcome::PageRangesFetched(found) => found.ranges,
        other => panic!("{other:?}"),
    }
}
