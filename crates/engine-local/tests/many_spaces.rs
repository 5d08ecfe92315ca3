//! Very many spaces. Alone in its program, because what a process writes is counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;

use common::{disk_bytes, files, open, put, space};
use tavola_engine::Engine;
use tavola_engine_local::LocalSettings;

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_spaces_of_one_row_are_few_files_and_little_disk() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(LocalSettings::new(folder.path())).unwrap();
    let mut written = Vec::new();
    for first in (0..10_000).step_by(100) {
        // Beside each other, as a server does, so that they share syncs.
        let before = status_io_written();
        let made = (first..first + 100).map(|number| {
            let engine = engine.clone();
            tokio::spawn(async move {
                engine.create_space(space(number)).await.unwrap();
                put(&engine, space(number), b"row", Some(&number.to_be_bytes())).await.unwrap();
            })
        });
        for task in made.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        written.push(status_io_written() - before);
    }
    assert!(files(folder.path()).len() <= 64);
    assert!(disk_bytes(folder.path()) <= 200 * MIB);
    // A create costs the same at ten and at ten thousand: what is written, not how long it takes.
    let (early, late) = (median(&written[1..30]), median(&written[70..]));
    assert!(late <= early * 2, "early={early}, late={late}");
    drop(engine);
    let engine = open(LocalSettings::new(folder.path())).unwrap();
    assert_eq!(engine.spaces().await.unwrap().len(), 10_001);
    for number in (0..10_000).step_by(97) {
        let row = engine.get(space(number), b"p", b"row").await.unwrap().unwrap();
        assert_eq!(row.body, number.to_be_bytes()[..]);
    }
}

/// Bytes that this process has handed to the system.
fn status_io_written() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
