//! Spaces that come and go, and many of them: what they cost does not add up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{disk_bytes, files, open, put, rows, small, space};
use tavola_engine::{Engine, EngineError};
use tavola_engine_local::{LocalSettings, verify};

const MIB: u64 = 1 << 20;
/// A guard against a hang, not a measure.
const PATIENCE: Duration = Duration::from_secs(120);
const CHILD_VARIABLE: &str = "TAVOLA_CHURN_TEST_FOLDER";

/// What a store takes.
#[derive(Debug)]
struct Cost {
    disk: u64,
    files: usize,
    descriptors: usize,
    memory: u64,
}

fn cost(folder: &Path) -> Cost {
    Cost {
        disk: disk_bytes(folder),
        files: files(folder).len(),
        descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
        memory: status_bytes("VmRSS:"),
    }
}

fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// In a process of its own, because descriptors and memory are a process's, and one that may open only 256 files.
#[test]
fn spaces_that_come_and_go_leave_nothing_behind() {
    if let Some(folder) = std::env::var_os(CHILD_VARIABLE) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(come_and_go(Path::new(&folder)));
    }
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let status = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 256 && exec \"$0\" --exact --nocapture spaces_that_come_and_go_leave_nothing_behind",
        ])
        .arg(program)
        .env(CHILD_VARIABLE, folder.path())
        .status()
        .unwrap();
    assert!(status.success());
}

async fn come_and_go(folder: &Path) {
    let engine = open(LocalSettings::new(folder)).unwrap();
    let mut after_100 = None;
    for number in 0..2000 {
        engine.create_space(space(number)).await.unwrap();
        put(&engine, space(number), b"row", Some(&[7; 1000])).await.unwrap();
        engine.drop_space(space(number)).await.unwrap();
        if number == 99 {
            after_100 = Some(cost(folder));
        }
    }
    let (before, after) = (after_100.unwrap(), cost(folder));
    println!("after 100: {before:?}, after 2,000: {after:?}");
    // The journal has grown by what was written since, up to its size.
    assert!(after.disk <= before.disk + 40 * MIB, "{after:?}");
    assert!(after.files <= before.files + 16, "{after:?}");
    assert!(after.descriptors <= before.descriptors + 16, "{after:?}");
    assert!(after.memory <= before.memory + 40 * MIB, "{after:?}");
    assert_eq!(engine.spaces().await.unwrap().len(), 1);
    drop(engine);
    let report = verify(folder).unwrap();
    assert_eq!((report.spaces, report.rows, report.is_clean()), (1, 0, true));
}

/// Once, 1,500 tables with one row each and a busy one made a folder that could not be opened again, and memory that
/// grew with every write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_spaces_and_a_busy_one_stay_within_the_bounds_and_open_again() {
    let folder = tempfile::tempdir().unwrap();
    let settings = small(folder.path());
    let memory_bytes = settings.memory_bytes;
    let engine = open(settings).unwrap();
    for first in (0..1500).step_by(100) {
        let made = (first..first + 100).map(|number| {
            let engine = engine.clone();
            tokio::spawn(async move {
                engine.create_space(space(number)).await.unwrap();
                put(&engine, space(number), b"row", Some(&[1; 500])).await.unwrap();
            })
        });
        for task in made.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }
    // More than all journals that may be kept.
    const WRITES: u64 = 320;
    let (mut unflushed_max, mut memory_max) = (0, 0);
    for number in 0..WRITES {
        put(&engine, space(3), &number.to_be_bytes(), Some(&vec![3; 1 << 20])).await.unwrap();
        let read = engine.get(space(number * 4), b"p", b"row").await.unwrap();
        assert!(read.is_some());
        unflushed_max = unflushed_max.max(engine.unflushed_bytes());
        memory_max = memory_max.max(engine.memory_bytes());
    }
    // A commit is at most 8 MiB, unless a single write is larger.
    assert!(unflushed_max <= memory_bytes / 2 + 8 * MIB, "{unflushed_max}");
    assert!(memory_max <= memory_bytes + 8 * MIB, "{memory_max}");
    let journals = files(folder.path()).iter().filter(|path| path.extension().is_some()).count();
    assert!(journals <= 10, "{journals} journals");
    drop(engine);
    let engine = open(small(folder.path())).unwrap();
    assert_eq!(rows(&engine, space(3)).await.unwrap().len() as u64, WRITES + 1);
    for number in (0..1500).step_by(7) {
        assert!(engine.get(space(number), b"p", b"row").await.unwrap().is_some());
    }
    // All of the large space was read, which is many times the memory there is for blocks.
    let cached = engine.memory_bytes() - engine.unflushed_bytes();
    assert!(cached <= memory_bytes / 2, "{cached}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_of_a_dropped_space_comes_back_while_nobody_writes() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(small(folder.path())).unwrap();
    // Two spaces of the same tree, whose rows are in the same files.
    let (kept, dropped) = (space(1), space(2));
    engine.create_space(kept).await.unwrap();
    for number in 100..103 {
        engine.create_space(space(number)).await.unwrap();
    }
    engine.create_space(dropped).await.unwrap();
    for number in 0..3000u32 {
        put(&engine, dropped, &number.to_be_bytes(), Some(&[5; 3000])).await.unwrap();
        if number % 10 == 0 {
            put(&engine, kept, &number.to_be_bytes(), Some(&[6; 100])).await.unwrap();
        }
    }
    let tables = |folder: &Path| {
        let all = files(folder)
            .into_iter()
            .filter(|path| path.parent().is_some_and(|parent| parent.ends_with("tables")));
        all.map(|path| fs::metadata(path).map_or(0, |data| data.len())).sum::<u64>()
    };
    until("rows are flushed", || tables(folder.path()) > 6 * MIB).await;
    engine.drop_space(dropped).await.unwrap();
    assert!(matches!(engine.get(dropped, b"p", b"x").await, Err(EngineError::SpaceMissing { .. })));
    until("the disk comes back", || tables(folder.path()) < MIB / 2).await;
    assert_eq!(rows(&engine, kept).await.unwrap().len(), 300);
    drop(engine);
    let engine = open(small(folder.path())).unwrap();
    assert_eq!(rows(&engine, kept).await.unwrap().len(), 300);
    assert!(verify(folder.path()).is_err(), "it is in use");
    drop(engine);
    assert!(verify(folder.path()).unwrap().is_clean());
}
