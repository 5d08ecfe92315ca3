//! Power cuts at any moment of creates, drops, writes, flushes, compaction and reclaiming: everything acknowledged is
//! there, and what was under way is whole or absent.
//!
//! The test runs itself again as a child, stops it at a random moment and copies its folder: that is what a killed
//! process leaves. A power cut leaves less. Of what was not synced any part may be lost, so each copy is spoilt in
//! several ways, but only where the store has not yet relied on it:
//!
//! - a record of the journal that has no mark behind it: any of its sectors, and the mark of the one before;
//! - table files, version files and journals that nothing names: missing, cut, full of zeros or back again.
//!
//! Each writer of the child has a space of its own, and what it does is a function of its number; so the state that a
//! folder should have follows from how many of its steps were acknowledged.
//!
//! `TAVOLA_POWER_CUTS` says how many cuts to make; without it there are few.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Chance, Sparse, copy_tree, files, open, put, rows, small, space};
use rustix::process::{Pid, Signal, kill_process};
use tavola_engine::{Engine, EngineError};
use tavola_engine_local::{LocalEngine, verify};
use xxhash_rust::xxh3::Xxh3;

const FOLDER_VARIABLE: &str = "TAVOLA_POWER_TEST_FOLDER";
const CUTS_VARIABLE: &str = "TAVOLA_POWER_CUTS";
const CUTS: u64 = 48;
const WRITERS: u64 = 12;
const CUTS_OF_AN_IMAGE: u64 = 8;
const IMAGES_OF_A_RUN: u64 = 6;
const SECTOR: usize = 512;
const RECORDS_AT: usize = 4096;
const HEADER_LEN: usize = 36;

#[test]
fn a_power_cut_takes_nothing_that_was_acknowledged() {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        return write_until_killed(Path::new(&folder));
    }
    let cuts = std::env::var(CUTS_VARIABLE).map_or(CUTS, |cuts| cuts.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut chance = Chance(0x5EED + u64::from(std::process::id()));
    let mut seen = Seen::default();
    let mut made = 0;
    while made < cuts {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Run::start(&folder.path().join("data"));
        for _ in 0..IMAGES_OF_A_RUN {
            let image = folder.path().join("image");
            // Mostly short, so that folders stay small and cuts are many; at times long enough for the next journal.
            let millis = if chance.below(16) == 0 { 400 } else { 2 + chance.below(30) };
            run.go_on_for(Duration::from_millis(millis));
            let acknowledged = run.acknowledged();
            copy_tree(&run.folder, &image);
            for _ in 0..CUTS_OF_AN_IMAGE {
                let spoilt = folder.path().join("spoilt");
                copy_tree(&image, &spoilt);
                spoil(&spoilt.join("store"), &mut chance, &mut seen);
                runtime.block_on(check(&spoilt, &acknowledged, made, &mut seen));
                fs::remove_dir_all(&spoilt).unwrap();
                made += 1;
            }
            fs::remove_dir_all(&image).unwrap();
        }
    }
    println!("{made} cuts: {seen:?}");
    assert!(seen.spaces > 0 && seen.rows > 1000 && seen.unnamed_files > 0, "{seen:?}");
}

/// What the cuts met.
#[derive(Debug, Default)]
struct Seen {
    torn_records: u64,
    lost_marks: u64,
    unnamed_files: u64,
    table_files: u64,
    spaces: u64,
    rows: u64,
    dropped: u64,
}

/// A child that writes.
struct Run {
    child: Child,
    folder: PathBuf,
    told: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl Run {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "a_power_cut_takes_nothing_that_was_acknowledged"])
            .env(FOLDER_VARIABLE, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let told = Arc::new(Mutex::new(BTreeMap::new()));
        let heard = told.clone();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // A line that was cut short has no dot, and is not counted.
                let numbers = line.strip_suffix('.').and_then(|line| line.split_once(' '));
                if let Some((writer, step)) = numbers {
                    heard.lock().unwrap().insert(writer.parse().unwrap(), step.parse().unwrap());
                }
            }
        });
        let run = Self { child, folder: folder.to_owned(), told };
        while run.told.lock().unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        run
    }

    /// Lets the child work for a while and stops it, wherever it is.
    fn go_on_for(&mut self, period: Duration) {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::CONT).unwrap();
        std::thread::sleep(period);
        kill_process(id, Signal::STOP).unwrap();
        // A thread in the kernel stops when it leaves it.
        let threads = format!("/proc/{}/task", self.child.id());
        let is_stopped = |thread: fs::DirEntry| {
            let status = fs::read_to_string(thread.path().join("stat")).unwrap();
            status.rsplit(')').next().unwrap().trim_start().starts_with('T')
        };
        while !fs::read_dir(&threads).unwrap().all(|thread| is_stopped(thread.unwrap())) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How many steps of each writer were acknowledged. The child is stopped; what it told before may be heard later, and
    /// is not asked for then.
    fn acknowledged(&self) -> BTreeMap<u64, u64> {
        std::thread::sleep(Duration::from_millis(20));
        self.told.lock().unwrap().clone()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What a writer does next.
#[derive(Clone, Debug)]
enum Step {
    Create,
    Drop,
    Put { row: u8, number: u64, length: usize },
    Delete { row: u8 },
}

/// A writer: its steps, and the state after them. No rows means that there is no space.
struct Writer {
    chance: Chance,
    number: u64,
    rows: Option<BTreeMap<u8, (u64, usize)>>,
}

impl Writer {
    fn new(writer: u64) -> Self {
        Self { chance: Chance(0xABCD + writer * 77), number: 0, rows: None }
    }

    fn next(&mut self) -> Step {
        self.number += 1;
        let Some(rows) = &mut self.rows else {
            self.rows = Some(BTreeMap::new());
            return Step::Create;
        };
        let row = u8::try_from(self.chance.below(60)).unwrap();
        match self.chance.below(200) {
            0 => {
                self.rows = None;
                Step::Drop
            }
            1..=30 => {
                rows.remove(&row);
                Step::Delete { row }
            }
            kind => {
                let length =
                    if kind > 198 { 60_000 } else { 100 + usize::try_from(self.chance.below(3000)).unwrap() };
                rows.insert(row, (self.number, length));
                Step::Put { row, number: self.number, length }
            }
        }
    }

    fn body(number: u64, length: usize) -> Vec<u8> {
        number.to_be_bytes().into_iter().cycle().take(length).collect()
    }
}

fn write_until_killed(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let engine = open(small(folder)).unwrap();
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| tokio::spawn(write(engine.clone(), writer))).collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

async fn write(engine: Arc<LocalEngine>, writer: u64) {
    let mut steps = Writer::new(writer);
    loop {
        let space = space(writer);
        match steps.next() {
            Step::Create => engine.create_space(space).await.unwrap(),
            Step::Drop => engine.drop_space(space).await.unwrap(),
            Step::Put { row, number, length } => {
                put(&engine, space, &[row], Some(&Writer::body(number, length))).await.unwrap();
            }
            Step::Delete { row } => put(&engine, space, &[row], None).await.unwrap(),
        }
        std::io::stdout().write_all(format!("{writer} {}.\n", steps.number).as_bytes()).unwrap();
    }
}

/// A folder holds every writer's state after some number of steps, at least those that were acknowledged.
async fn check(folder: &Path, acknowledged: &BTreeMap<u64, u64>, cut: u64, seen: &mut Seen) {
    // Opening looks at the same things; this reads every byte besides.
    if cut.is_multiple_of(4) {
        let report = verify(folder).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        assert!(report.is_clean(), "cut {cut}: {report:?}");
    }
    let engine = open(small(folder)).unwrap();
    for writer in 0..WRITERS {
        let found = match rows(&engine, space(writer)).await {
            Ok(rows) => Some(rows),
            Err(EngineError::SpaceMissing { .. }) => None,
            Err(error) => panic!("cut {cut}, writer {writer}: {error}"),
        };
        let told = acknowledged.get(&writer).copied().unwrap_or(0);
        let mut expected = Writer::new(writer);
        for _ in 0..told {
            expected.next();
        }
        // The step under way may be there too. More than one may be, if the last acknowledgement was not heard in time.
        let is_as_expected = (0..=STEPS_UNHEARD_MAX).any(|step| {
            if step > 0 {
                expected.next();
            }
            match (&found, &expected.rows) {
                (None, None) => true,
                (Some(found), Some(rows)) => {
                    found.len() == rows.len()
                        && rows.iter().all(|(row, (number, length))| {
                            found.get(&[*row][..]).is_some_and(|body| *body == Writer::body(*number, *length))
                        })
                }
                _ => false,
            }
        });
        assert!(is_as_expected, "cut {cut}, writer {writer}: not the state after {told} steps or the next");
        match found {
            Some(found) => {
                seen.spaces += 1;
                seen.rows += found.len() as u64;
            }
            None => seen.dropped += 1,
        }
    }
}

/// Steps that may have been done and not been heard of when the child was stopped.
const STEPS_UNHEARD_MAX: u64 = 64;

/// Takes away what a power cut could have taken.
fn spoil(store: &Path, chance: &mut Chance, seen: &mut Seen) {
    spoil_journal(store, chance, seen);
    for tree in ["meta", "rows-1", "rows-2", "rows-3", "rows-4"] {
        let tree = store.join(tree);
        let (version, tables) = named_files(&tree);
        seen.table_files += tables.len() as u64;
        for path in files(&tree) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_table = path.parent().unwrap().ends_with("tables");
            let is_named =
                if is_table { tables.contains(&name) } else { name == "current" || name == version };
            if !is_named {
                spoil_unnamed(&path, chance, seen);
            }
        }
        // A file that was removed, but whose removal was not synced.
        if chance.below(3) == 0 {
            let unused =
                tables.iter().filter_map(|table| table.parse::<u64>().ok()).max().unwrap_or(0) + 1000;
            fs::write(tree.join("tables").join(unused.to_string()), b"back again").unwrap();
            fs::write(tree.join(".tmpAbCdEf"), b"half of a file").unwrap();
        }
    }
    for name in ["manifest.new", "999999.journal"] {
        if chance.below(3) == 0 {
            fs::write(store.join(name), b"half of a file").unwrap();
        }
    }
}

fn spoil_unnamed(path: &Path, chance: &mut Chance, seen: &mut Seen) {
    seen.unnamed_files += 1;
    let length = fs::metadata(path).unwrap().len();
    let file = || fs::File::options().write(true).open(path).unwrap();
    match chance.below(4) {
        0 => fs::remove_file(path).unwrap(),
        1 => file().set_len(chance.below(length + 1)).unwrap(),
        2 => {
            file().set_len(0).unwrap();
            file().set_len(length).unwrap();
        }
        _ => {}
    }
}

/// The version file that a tree's `current` names, and the table files that this one names (docs/formats.md).
fn named_files(tree: &Path) -> (String, BTreeSet<String>) {
    let current = fs::read(tree.join("current")).unwrap();
    let version = format!("v{}", u64::from_le_bytes(current[..8].try_into().unwrap()));
    let path = tree.join(&version);
    let archive = sfa::Reader::new(&path).unwrap();
    let section = archive.toc().section(b"tables").unwrap();
    let bytes = fs::read(&path).unwrap();
    let mut rest = &bytes[usize::try_from(section.pos()).unwrap()..];
    let mut take = |length: usize| {
        let (taken, left) = rest.split_at(length);
        rest = left;
        taken.to_vec()
    };
    let mut tables = BTreeSet::new();
    for _ in 0..take(1)[0] {
        for _ in 0..take(1)[0] {
            for _ in 0..u32::from_le_bytes(take(4).try_into().unwrap()) {
                tables.insert(u64::from_le_bytes(take(8).try_into().unwrap()).to_string());
                take(1 + 16 + 8);
            }
        }
    }
    (version, tables)
}

/// Spoils the end of the journal that is written to.
fn spoil_journal(store: &Path, chance: &mut Chance, seen: &mut Seen) {
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "journal");
    let mut journals: Vec<PathBuf> = files(store).into_iter().filter(is_journal).collect();
    journals.sort_by_key(|path| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap());
    let mut ends = journals.iter().map(|path| (path, JournalEnd::read(&Sparse::read(path).content())));
    let Some((path, end)) = ends.rfind(|(_, end)| end.records > 0) else { return };
    let file = fs::File::options().write(true).open(path).unwrap();
    if let Some(mark) = end.mark {
        // The mark itself is not synced.
        if chance.below(2) == 0 {
            seen.lost_marks += 1;
            file.write_all_at(&[0; HEADER_LEN], mark as u64).unwrap();
        }
        return;
    }
    // Nobody was told of a record without a mark. Its sectors reach the disk in any order, or not at all.
    let (start, length) = (end.unsynced, end.length);
    seen.torn_records += 1;
    let kind = chance.below(4);
    let kept = start + usize::try_from(chance.below((length - start) as u64 + 1)).unwrap();
    let mut at = start;
    while at < length {
        let next = ((at / SECTOR + 1) * SECTOR).min(length);
        let is_lost = match kind {
            0 => false,
            1 => at >= kept,
            2 => (at..next).contains(&kept),
            _ => chance.below(3) == 0,
        };
        if is_lost {
            file.write_all_at(&vec![0; next - at], at as u64).unwrap();
        }
        at = next;
    }
}

/// How a journal ends (docs/formats.md).
struct JournalEnd {
    records: u64,
    /// The first byte that may not be synced.
    unsynced: usize,
    mark: Option<usize>,
    length: usize,
}

impl JournalEnd {
    fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let salt = number(24);
        let mut end = Self { records: 0, unsynced: RECORDS_AT, mark: None, length: bytes.len() };
        let mut at = RECORDS_AT;
        while at + HEADER_LEN <= bytes.len() {
            let payload = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            let next = at + HEADER_LEN + payload;
            if next > bytes.len() {
                break;
            }
            let mut checksum = Xxh3::with_seed(salt);
            checksum.update(&bytes[at..at + 28]);
            checksum.update(&bytes[at + HEADER_LEN..next]);
            if checksum.digest() != number(at + 28) {
                break;
            }
            if payload == 0 {
                end.mark = Some(at);
                break;
            }
            end.records += 1;
            // Without a mark behind it, the last good record may be unsynced.
            end.unsynced = at;
            at = next;
        }
        // A part of the next record, which is written over the mark of the last good one: that one is synced.
        if end.mark.is_none() && at < bytes.len() {
            end.unsynced = at;
        }
        end
    }
}
