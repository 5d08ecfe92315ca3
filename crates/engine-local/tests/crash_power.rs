//! A power cut during a commit: any part of the last, unacknowledged batch may have reached the disk, in any
//! order. Everything acknowledged before is there, and the last transaction is whole or absent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tavola_engine::{Change, Decision, Engine, ScanRange, SpaceId};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_model::SystemClock;

const SPACE: SpaceId = SpaceId([9; 16]);
const ROWS_BEFORE: u8 = 40;
const ROWS_LAST: u8 = 30;
const CUTS: u64 = 80;
const SECTOR: u64 = 512;

#[test]
fn a_power_cut_during_a_commit_takes_nothing_that_was_acknowledged() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let origin = folder.path().join("origin");
    let (synced_end, journal) = runtime.block_on(write_origin(&origin));
    let written_end = end_of(&journal);
    assert!(written_end > synced_end);

    let mut chance = Chance(0x5EED);
    let (mut whole, mut absent) = (0, 0);
    for cut in 0..CUTS {
        let image = folder.path().join("image");
        copy_tree(&origin, &image);
        spoil(
            &image.join("store").join(journal.file_name().unwrap()),
            synced_end..written_end,
            cut,
            &mut chance,
        );
        match runtime.block_on(rows_after(&image)) {
            (ROWS_BEFORE, 0) => absent += 1,
            (ROWS_BEFORE, ROWS_LAST) => whole += 1,
            (before, last) => panic!("cut {cut}: {before} acknowledged rows, {last} of the last transaction"),
        }
        fs::remove_dir_all(image).unwrap();
    }
    assert!(whole > 0 && absent > 0, "the cuts were not varied (whole={whole}, absent={absent})");
}

/// Writes acknowledged rows, then one large transaction. Gives the end of the journal between the two.
async fn write_origin(origin: &Path) -> (u64, PathBuf) {
    let engine = LocalEngine::open(LocalSettings::new(origin), Arc::new(SystemClock)).unwrap();
    engine.create_space(SPACE).await.unwrap();
    for number in 0..ROWS_BEFORE {
        put(&engine, b"before", &[number]..=&[number]).await;
    }
    let store = fs::read_dir(origin.join("store")).unwrap().map(|entry| entry.unwrap().path());
    let journal =
        store.filter(|path| path.extension().is_some_and(|extension| extension == "journal")).min().unwrap();
    let synced_end = end_of(&journal);
    put(&engine, b"last", &[0]..=&[ROWS_LAST - 1]).await;
    (synced_end, journal)
}

async fn put(engine: &LocalEngine, partition: &[u8], rows: std::ops::RangeInclusive<&[u8; 1]>) {
    let names: Vec<[u8; 1]> = (rows.start()[0]..=rows.end()[0]).map(|name| [name]).collect();
    let rows: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let body = Bytes::from(vec![0xAB; 700]);
    let mut decide = |_, found: &[_]| {
        Decision::Apply((0..found.len()).map(|place| Change::Put { place, body: body.clone() }).collect())
    };
    engine.transact(SPACE, partition, &rows, &mut decide).await.unwrap();
}

/// How many rows of either partition a folder has.
async fn rows_after(image: &Path) -> (u8, u8) {
    let engine = LocalEngine::open(LocalSettings::new(image), Arc::new(SystemClock)).unwrap();
    let mut counts = (0, 0);
    let mut visit = |row: tavola_engine::ScannedRow<'_>| {
        match row.partition {
            b"before" => counts.0 += 1,
            _ => counts.1 += 1,
        }
        ControlFlow::Continue(())
    };
    engine.scan(SPACE, &ScanRange::all(), &mut visit).await.unwrap();
    counts
}

/// The file ends where its trailing zeros begin.
fn end_of(journal: &Path) -> u64 {
    content(&fs::read(journal).unwrap()).len() as u64
}

/// Leaves of the unsynced bytes what a power cut might: all, a beginning, or all but some sectors.
fn spoil(journal: &Path, unsynced: std::ops::Range<u64>, cut: u64, chance: &mut Chance) {
    let file = fs::File::options().write(true).open(journal).unwrap();
    let within = unsynced.start + chance.draw() % (unsynced.end - unsynced.start);
    match cut % 5 {
        0 if cut < 10 => {}
        // The size of a journal is synced when it is made.
        0..=2 => {
            file.set_len(within).unwrap();
            file.set_len(32 << 20).unwrap();
        }
        kind => {
            // One lost sector leaves most of the batch readable; several leave hardly any of it.
            let lost_one_in = if kind == 3 { 4 } else { u64::MAX };
            let mut at = unsynced.start;
            while at < unsynced.end {
                let next = ((at / SECTOR + 1) * SECTOR).min(unsynced.end);
                if (at..next).contains(&within) || chance.draw().is_multiple_of(lost_one_in) {
                    file.write_all_at(&vec![0; usize::try_from(next - at).unwrap()], at).unwrap();
                }
                at = next;
            }
        }
    }
}

struct Chance(u64);

impl Chance {
    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            copy_sparse(&entry.path(), &target);
        }
    }
}

/// A journal is made with 64 MiB of zeros, which need not be written again for every image.
fn copy_sparse(from: &Path, to: &Path) {
    let bytes = fs::read(from).unwrap();
    fs::write(to, content(&bytes)).unwrap();
    fs::File::options().write(true).open(to).unwrap().set_len(bytes.len() as u64).unwrap();
}

/// The bytes without the zeros at their end.
fn content(bytes: &[u8]) -> &[u8] {
    const ZEROS: [u8; 4096] = [0; 4096];
    let blocks =
        bytes.chunks(4096).rposition(|block| *block != ZEROS[..block.len()]).map_or(0, |last| last + 1);
    let bytes = &bytes[..bytes.len().min(blocks * 4096)];
    &bytes[..bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)]
}
