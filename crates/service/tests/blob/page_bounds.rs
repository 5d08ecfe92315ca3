//! Page blobs that are large and sparse, and what their requests cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tavola_model::{
    BlobCommand, BlobConditions, BlobMoment, BlobOutcome, BlobTarget, ByteRange, ClearPages, DeleteSnapshots,
    ErrorCode, EtagMatch, GetPageRanges, Metadata, NewKind, SequenceConditions, SetBlobHeaders,
    SetBlobMetadata, VersionConditions,
};
use tavola_service::{Service, ServiceSettings};

use crate::bench::{Bench, bytes, execute, head, new_blob, path, put_pages};
use crate::watched::{Watched, WatchedEngine};

const PAGE: u64 = 512;
const CELL: u64 = 128 * PAGE;
const EIGHT_TEBIBYTES: u64 = 8 << 40;

fn create(bench: &Bench, length: u64) {
    bench.run(BlobCommand::PutBlob(new_blob("disk", NewKind::Page { length, sequence: 0 }, 0))).unwrap();
}

fn clear(first: u64, length: u64) -> BlobCommand {
    let (sequence, conditions) = (SequenceConditions::default(), BlobConditions::default());
    BlobCommand::ClearPages(ClearPages { blob: path("disk"), first, length, sequence, conditions })
}

fn put(bench: &Bench, first: u64, body: &Bytes) {
    bench.run_with(put_pages("disk", first, body), body.clone()).unwrap();
}

fn resize(length: u64, version: VersionConditions) -> BlobCommand {
    let conditions = BlobConditions { version, ..BlobConditions::default() };
    let (headers, sequence) = (None, None);
    BlobCommand::SetBlobProperties(SetBlobHeaders {
        blob: path("disk"),
        headers,
        length: Some(length),
        sequence,
        conditions,
    })
}

fn ranges(from: Option<u64>, max: Option<u32>) -> BlobCommand {
    BlobCommand::GetPageRanges(GetPageRanges {
        target: path("disk").into(),
        range: None,
        since: None,
        from,
        max,
        is_paged: true,
        conditions: BlobConditions::default(),
    })
}

fn read(bench: &Bench, first: u64, length: u64) -> Bytes {
    let range = ByteRange { first, last: Some(first + length - 1) };
    bench.read(path("disk").into(), Some(range)).unwrap()
}

#[test]
fn a_clear_of_more_than_there_is_is_refused_before_anything_is_looked_up() {
    let watched = Watched::new();
    let most = u64::MAX / PAGE * PAGE;
    let (missing, _) = watched.asked(clear(0, most));
    assert_eq!(missing.unwrap_err(), ErrorCode::BlobNotFound);
    create(&watched.bench, EIGHT_TEBIBYTES);
    for (first, length) in [(0, most), (most, PAGE), (PAGE, most), (0, EIGHT_TEBIBYTES + PAGE)] {
        let (refused, asked) = watched.asked(clear(first, length));
        assert_eq!(refused.unwrap_err(), ErrorCode::InvalidPageRange, "{first} {length}");
        assert_eq!((asked.transactions, asked.scans), (0, 0), "{first} {length}");
    }
}

#[test]
fn a_clear_costs_what_is_there_and_leaves_no_rows() {
    let watched = Watched::new();
    create(&watched.bench, EIGHT_TEBIBYTES);
    for first in [0, 3 << 40, EIGHT_TEBIBYTES - 4 * PAGE] {
        put(&watched.bench, first, &bytes(1, 2048));
    }
    let (done, asked) = watched.asked(clear(0, EIGHT_TEBIBYTES));
    done.unwrap();
    assert_eq!((asked.transactions, asked.rows_max), (1, 4), "{asked:?}");
    assert_eq!(read(&watched.bench, 3 << 40, 2048), vec![0; 2048]);
    assert_eq!(watched.rows_of("disk").len(), 1, "only the record is left");
    let (done, asked) = watched.asked(clear(0, EIGHT_TEBIBYTES));
    done.unwrap();
    assert!(asked.scans <= 2, "{asked:?}");
}

/// A blob of which every cell holds one page.
fn many_cells(watched: &Watched, cells: u64) -> Bytes {
    create(&watched.bench, cells * CELL);
    let mut model = BytesMut::zeroed(usize::try_from(cells * CELL).unwrap());
    for cell in 0..cells {
        let body = bytes(cell.to_le_bytes()[0] | 1, 512);
        put(&watched.bench, cell * CELL, &body);
        let at = usize::try_from(cell * CELL).unwrap();
        model[at..at + 512].copy_from_slice(&body);
    }
    model.freeze()
}

#[test]
fn a_large_clear_is_done_in_steps_that_nobody_sees() {
    const CELLS: u64 = 1200;
    /// Two of 512 cells, and one of the rest with the record.
    const STEPS: usize = 3;
    /// The rows that say that others are written in advance.
    const NOTE: u8 = 35;
    let watched = Watched::new();
    let before = many_cells(&watched, CELLS);
    let snapshot = watched.bench.snapshot("disk");
    put(&watched.bench, CELL + PAGE, &bytes(9, 8192));
    let mut old = BytesMut::from(&before[..]);
    old[66_048..66_048 + 8192].copy_from_slice(&bytes(9, 8192));
    let (first, length) = (CELL + 4 * PAGE, (CELLS - 2) * CELL);
    let mut new = old.clone();
    new[usize::try_from(first).unwrap()..usize::try_from(first + length).unwrap()].fill(0);
    let notes = || watched.rows_of("disk").iter().filter(|(row, _)| row[0] == NOTE).count();
    // The server stops after so many transactions: all steps but the last one change nothing that is seen.
    for left in 0..STEPS {
        watched.engine.left.store(left, Ordering::SeqCst);
        let (done, asked) = watched.asked(clear(first, length));
        watched.settle();
        watched.engine.left.store(usize::MAX, Ordering::SeqCst);
        assert_eq!(done.unwrap_err(), ErrorCode::ServerBusy, "{left}");
        assert_eq!(asked.transactions, left);
        assert!(watched.bench.get("disk").unwrap() == old, "{left}");
        assert!(watched.bench.read(snapshot.clone(), None).unwrap() == before, "{left}");
    }
    assert_eq!(notes(), STEPS - 1, "one of each clear that has written something");
    watched.engine.left.store(STEPS, Ordering::SeqCst);
    let (done, asked) = watched.asked(clear(first, length));
    watched.engine.left.store(usize::MAX, Ordering::SeqCst);
    done.unwrap();
    assert!(asked.rows_max <= 600, "{asked:?}");
    assert_eq!(notes(), STEPS - 1, "its own is gone");
    assert!(watched.bench.get("disk").unwrap() == new);
    assert!(watched.bench.read(snapshot.clone(), None).unwrap() == before);
    watched.settle();
    assert!(watched.bench.get("disk").unwrap() == new);
    assert!(watched.bench.read(snapshot, None).unwrap() == before);
    watched.bench.delete(path("disk").into(), DeleteSnapshots::Only).unwrap();
    watched.settle();
    assert!(watched.bench.get("disk").unwrap() == new);
    // What was given up goes when it is old, and what no snapshot needs goes at once.
    watched.bench.clock.pass_seconds(2 * 24 * 60 * 60);
    watched
        .bench
        .runtime
        .block_on(watched.bench.service.scrub_contents(tavola_service::ScrubPace::Full))
        .unwrap();
    watched.settle();
    assert!(watched.bench.get("disk").unwrap() == new);
    assert_eq!(notes(), 0);
    assert!(watched.rows_of("disk").len() < 10, "{}", watched.rows_of("disk").len());
    watched.bench.delete(path("disk").into(), DeleteSnapshots::Refuse).unwrap();
    assert_eq!(watched.bench.content_bytes(), 0);
    assert_eq!(watched.rows_of("disk").len(), 0);
}

/// Lets somebody else write to the first page of the blob before every transaction.
fn write_all_the_time(engine: &Arc<WatchedEngine>, service: Service, seed: Arc<AtomicU8>) {
    let again = engine.clone();
    let write = Box::pin(async move {
        let body = bytes(seed.fetch_add(1, Ordering::SeqCst) + 1, 512);
        execute(&service, put_pages("disk", 0, &body), body).await.unwrap();
        write_all_the_time(&again, service, seed);
    });
    *engine.before.lock().unwrap() = Some(write);
}

#[test]
fn a_large_clear_is_done_though_others_write_all_the_time_and_takes_nothing_from_them() {
    const CELLS: u64 = 1100;
    let watched = Watched::new();
    let before = many_cells(&watched, CELLS);
    let seed = Arc::new(AtomicU8::new(0));
    write_all_the_time(&watched.engine, watched.bench.service.clone(), seed.clone());
    // The first and the last cell are cleared in part.
    let done = watched.bench.run(clear(PAGE, CELLS * CELL - 2 * PAGE));
    *watched.engine.before.lock().unwrap() = None;
    done.unwrap();
    let mut expected = BytesMut::zeroed(before.len());
    expected[..512].copy_from_slice(&bytes(seed.load(Ordering::SeqCst), 512));
    assert!(watched.bench.get("disk").unwrap() == expected);
    watched.settle();
    assert!(watched.bench.get("disk").unwrap() == expected);
}

#[test]
fn a_blob_of_more_rows_than_are_held_at_a_time_is_removed_with_what_they_share() {
    /// Above the number of dead rows that are held.
    const CELLS: u64 = 17_000;
    let watched = Watched::new();
    create(&watched.bench, CELLS * CELL);
    // One content is in cells around that number.
    let shared = bytes(2, 4 << 20);
    for cell in (0..16_350).chain(16_420..CELLS) {
        put(&watched.bench, cell * CELL, &bytes(1, 512));
    }
    put(&watched.bench, 16_350 * CELL, &shared);
    assert_eq!(watched.bench.content_bytes(), 4 << 20);
    watched.bench.delete(path("disk").into(), DeleteSnapshots::Refuse).unwrap();
    watched.settle();
    assert_eq!((watched.rows_of("disk").len(), watched.bench.content_bytes()), (0, 0));
}

#[test]
fn a_blob_becomes_shorter_by_its_record_and_grows_with_zeros() {
    let watched = Watched::new();
    let bench = &watched.bench;
    create(bench, 10 * PAGE);
    put(bench, 0, &bytes(1, 5120));
    let properties = head(path("disk").into(), BlobConditions::default());
    let Ok(BlobOutcome::BlobPropertiesFetched(found)) = bench.run(properties) else { panic!() };
    let is = |etag| VersionConditions { if_match: Some(etag), ..VersionConditions::default() };
    let refused = bench.run(resize(PAGE, is(EtagMatch::Foreign)));
    assert_eq!(refused.unwrap_err(), ErrorCode::ConditionNotMet);
    assert_eq!(bench.get("disk").unwrap(), bytes(1, 5120), "a refusal changes nothing");
    bench.run(resize(PAGE, is(EtagMatch::Is(found.changed.etag())))).unwrap();
    assert_eq!(bench.get("disk").unwrap(), bytes(1, 5120)[..512]);
    bench.run(resize(10 * PAGE, VersionConditions::default())).unwrap();
    let grown = bench.get("disk").unwrap();
    assert_eq!((&grown[..512], &grown[512..]), (&bytes(1, 5120)[..512], &[0; 4608][..]));
}

#[test]
fn a_sparse_blob_is_resized_at_the_cost_of_what_is_there() {
    let watched = Watched::new();
    create(&watched.bench, EIGHT_TEBIBYTES);
    for first in [0, 1 << 40, EIGHT_TEBIBYTES - 8192] {
        put(&watched.bench, first, &bytes(1, 8192));
    }
    for length in [4096, EIGHT_TEBIBYTES, 0, EIGHT_TEBIBYTES] {
        let ((), asked) = watched.asked_by(|| {
            watched.bench.run(resize(length, VersionConditions::default())).unwrap();
            watched.settle();
        });
        assert!(asked.transactions <= 3 && asked.scans <= 20, "{length}: {asked:?}");
    }
    assert_eq!(read(&watched.bench, 1 << 40, 8192), vec![0; 8192]);
    assert_eq!(watched.bench.content_bytes(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Put { first: u64, pages: u64, seed: u8 },
    Clear { first: u64, pages: u64 },
    Resize { pages: u64 },
    SetMetadata,
    Snapshot,
    DeleteSnapshot { at: usize },
    DeleteSnapshots,
    Settle,
}

const PAGES_MAX: u64 = 700;

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..PAGES_MAX, 1..40u64, 1..255u8)
            .prop_map(|(first, pages, seed)| Step::Put { first, pages, seed }),
        2 => (0..PAGES_MAX, 1..PAGES_MAX).prop_map(|(first, pages)| Step::Clear { first, pages }),
        3 => (0..PAGES_MAX).prop_map(|pages| Step::Resize { pages }),
        1 => Just(Step::SetMetadata),
        3 => Just(Step::Snapshot),
        2 => (0..30usize).prop_map(|at| Step::DeleteSnapshot { at }),
        1 => Just(Step::DeleteSnapshots),
        2 => Just(Step::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_resized_blob_reads_as_a_plain_array_does(
        steps in prop::collection::vec(any_step(), 1..40),
        with_versions in any::<bool>(),
    ) {
        let settings = ServiceSettings { blob_versions: with_versions, ..ServiceSettings::default() };
        let watched = Watched::with(settings);
        let bench = &watched.bench;
        create(bench, PAGES_MAX * PAGE);
        let at = |place: u64| usize::try_from(place).unwrap();
        let mut model = vec![0; at(PAGES_MAX * PAGE)];
        let (mut snapshots, mut versions) = (Vec::new(), Vec::new());
        for step in steps {
            let length = model.len() as u64 / PAGE;
            let cut = |first: u64, pages: u64| (first.min(length) * PAGE, pages.min(length - first.min(length)) * PAGE);
            match step {
                Step::Put { first, pages, seed } => {
                    let (first, length) = cut(first, pages);
                    if length > 0 {
                        let body = bytes(seed, at(length));
                        put(bench, first, &body);
                        model[at(first)..at(first + length)].copy_from_slice(&body);
                    }
                }
                Step::Clear { first, pages } => {
                    let (first, length) = cut(first, pages);
                    if length > 0 {
                        bench.run(clear(first, length)).unwrap();
                        model[at(first)..at(first + length)].fill(0);
                    }
                }
                Step::Resize { pages } => {
                    bench.run(resize(pages * PAGE, VersionConditions::default())).unwrap();
                    model.resize(at(pages * PAGE), 0);
                }
                Step::SetMetadata => {
                    versions.extend(current_version(bench).map(|version| (version, model.clone())));
                    let (metadata, conditions) = (Metadata::default(), BlobConditions::default());
                    let set = SetBlobMetadata { blob: path("disk"), metadata, conditions };
                    bench.run(BlobCommand::SetBlobMetadata(set)).unwrap();
                }
                Step::Snapshot => {
                    versions.extend(current_version(bench).map(|version| (version, model.clone())));
                    snapshots.push((bench.snapshot("disk"), model.clone()));
                }
                Step::DeleteSnapshot { at } => {
                    if at < snapshots.len() {
                        bench.delete(snapshots.remove(at).0, DeleteSnapshots::Refuse).unwrap();
                    }
                }
                Step::DeleteSnapshots => {
                    bench.delete(path("disk").into(), DeleteSnapshots::Only).unwrap();
                    snapshots.clear();
                }
                Step::Settle => watched.settle(),
            }
        }
        versions.extend(current_version(bench).map(|version| (version, model.clone())));
        for _ in 0..2 {
            prop_assert!(bench.get("disk").unwrap() == model);
            for (state, then) in snapshots.iter().chain(&versions) {
                prop_assert!(bench.read(state.clone(), None).unwrap() == *then);
            }
            watched.settle();
        }
        let BlobOutcome::PageRangesFetched(found) = bench.run(ranges(None, None)).unwrap() else { panic!() };
        for range in found.ranges {
            model[at(range.first)..=at(range.last)].fill(0);
        }
        prop_assert!(model.iter().all(|byte| *byte == 0), "what is not zero is in a range");
        bench.delete(path("disk").into(), DeleteSnapshots::Include).unwrap();
        watched.settle();
        // One after the other: what is left of them reads as before.
        while let Some((version, then)) = versions.pop() {
            prop_assert!(bench.read(version.clone(), None).unwrap() == then);
            bench.delete(version, DeleteSnapshots::Refuse).unwrap();
            watched.settle();
        }
        prop_assert_eq!(bench.content_bytes(), 0);
        prop_assert_eq!(watched.rows_of("disk").len(), 0);
    }
}

/// The version that the blob is now, where versions are kept.
fn current_version(bench: &Bench) -> Option<BlobTarget> {
    match bench.run(head(path("disk").into(), BlobConditions::default())).unwrap() {
        BlobOutcome::BlobPropertiesFetched(found) => {
            let moment = BlobMoment::Version(found.version?.id);
            Some(BlobTarget { path: path("disk"), moment })
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_list_of_generations_grows_only_with_what_snapshots_need() {
    let watched = Watched::new();
    create(&watched.bench, 4 * CELL);
    let record = || watched.rows_of("disk")[0].1.len();
    put(&watched.bench, 0, &bytes(1, 512));
    let first = watched.bench.snapshot("disk");
    let one = record();
    let second = watched.bench.snapshot("disk");
    assert_eq!(record(), one, "nothing was written between the two");
    put(&watched.bench, 0, &bytes(2, 512));
    assert_eq!(read(&watched.bench, 0, 512), bytes(2, 512));
    for snapshot in [&first, &second] {
        assert_eq!(watched.bench.read(snapshot.clone(), None).unwrap()[..512], bytes(1, 512));
    }
    for seed in 3..20 {
        watched.bench.snapshot("disk");
        put(&watched.bench, u64::from(seed % 4) * CELL, &bytes(seed, 512));
    }
    let before = watched.bench.get("disk").unwrap();
    assert!(record() > one);
    watched.bench.delete(path("disk").into(), DeleteSnapshots::Only).unwrap();
    watched.settle();
    assert!(record() <= one, "{} {one}", record());
    assert_eq!(watched.bench.get("disk").unwrap(), before);
}

#[test]
fn ranges_cost_what_is_there() {
    let watched = Watched::new();
    create(&watched.bench, EIGHT_TEBIBYTES);
    for first in [0, 1 << 40, EIGHT_TEBIBYTES - 512] {
        put(&watched.bench, first, &bytes(1, 512));
    }
    let (done, asked) = watched.asked(ranges(None, None));
    let BlobOutcome::PageRangesFetched(found) = done.unwrap() else { panic!() };
    assert_eq!(found.ranges.len(), 3);
    assert!(asked.scans <= 3, "{asked:?}");
}
