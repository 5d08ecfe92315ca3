//! `kill -9` at any moment: everything that was acknowledged is there after the next start, and no transaction is
//! torn.
//!
//! The test runs itself again as a child that writes from many tasks and tells each acknowledgement through a
//! pipe, kills it after a random while, and looks at what it left, round after round on the same folder.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tavola_engine::{Change, Decision, Engine, ScanRange, SpaceId, StoredRow};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_model::SystemClock;

const ROUNDS: u64 = 24;
const TASKS: u64 = 48;
const ROWS: u64 = 3;
const FOLDER_VARIABLE: &str = "TAVOLA_CRASH_TEST_FOLDER";

/// Each task has a partition of its own in one of a few spaces and sets all rows of it to the next number.
fn space_of(task: u64) -> SpaceId {
    SpaceId([1 + u8::try_from(task % 3).unwrap(); 16])
}

fn settings(folder: &Path) -> LocalSettings {
    // Small, so that writing out and merging table files is under way when the kill comes.
    LocalSettings { memtable_bytes: 1 << 20, ..LocalSettings::new(folder) }
}

#[test]
fn acknowledged_writes_survive_kill_9_and_no_transaction_is_torn() {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        return write_until_killed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    let mut total = 0;
    for round in 0..ROUNDS {
        let told = run_and_kill(folder.path(), Duration::from_millis(150 + round * 7919 % 400));
        total += told.len();
        acknowledged.extend(told);
        check(folder.path(), &mut acknowledged, round);
    }
    assert!(total > 1000, "the child hardly wrote anything ({total} writes)");
}

/// Starts the child, kills it after a while and gives the last number that each task was acknowledged.
fn run_and_kill(folder: &Path, after: Duration) -> Vec<(u64, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "acknowledged_writes_survive_kill_9_and_no_transaction_is_torn"])
        .env(FOLDER_VARIABLE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let lines = output.lines().map_while(Result::ok);
        let told = lines.filter_map(|line| {
            let (task, number) = line.strip_prefix("ack ")?.strip_suffix('.')?.split_once(' ')?;
            Some((task.parse().ok()?, number.parse().ok()?))
        });
        told.collect()
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn check(folder: &Path, acknowledged: &mut BTreeMap<u64, u64>, round: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let engine = LocalEngine::open(settings(folder), Arc::new(SystemClock)).unwrap();
    for task in 0..TASKS {
        let mut numbers = Vec::new();
        let mut visit = |row: tavola_engine::ScannedRow<'_>| {
            numbers.push((row.version, u64::from_be_bytes(row.body[..8].try_into().unwrap())));
            ControlFlow::Continue(())
        };
        let range = ScanRange::partition(&task.to_be_bytes());
        match runtime.block_on(engine.scan(space_of(task), &range, &mut visit)) {
            Ok(()) => {}
            Err(_) if !acknowledged.contains_key(&task) => continue,
            Err(error) => panic!("round {round}, task {task}: {error}"),
        }
        let number = numbers.first().map_or(0, |(_, number)| *number);
        let is_whole = numbers.is_empty() || numbers.len() as u64 == ROWS;
        assert!(is_whole, "round {round}, task {task}: torn, {numbers:?}");
        assert!(
            numbers.iter().all(|row| *row == numbers[0]),
            "round {round}, task {task}: torn, {numbers:?}"
        );
        let told = acknowledged.get(&task).copied().unwrap_or(0);
        assert!(number >= told, "round {round}, task {task}: {told} was acknowledged, {number} is there");
        // What was seen once is durable too.
        acknowledged.insert(task, number);
    }
}

fn write_until_killed(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let engine = LocalEngine::open(settings(folder), Arc::new(SystemClock)).unwrap();
        let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(write(engine.clone(), task))).collect();
        // Spaces come and go meanwhile.
        loop {
            engine.create_space(SpaceId([0xDD; 16])).await.unwrap();
            tokio::task::yield_now().await;
            engine.drop_space(SpaceId([0xDD; 16])).await.unwrap();
            assert!(tasks.iter().all(|task| !task.is_finished()));
        }
    });
}

async fn write(engine: Arc<LocalEngine>, task: u64) {
    engine.create_space(space_of(task)).await.unwrap();
    let names: Vec<[u8; 8]> = (0..ROWS).map(u64::to_be_bytes).collect();
    let rows: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    loop {
        let mut number = 0;
        let mut decide = |_, found: &[Option<StoredRow>]| {
            let last =
                found[0].as_ref().map_or(0, |row| u64::from_be_bytes(row.body[..8].try_into().unwrap()));
            number = last + 1;
            let mut body = number.to_be_bytes().to_vec();
            body.resize(300, 0xCD);
            let body = Bytes::from(body);
            Decision::Apply((0..found.len()).map(|place| Change::Put { place, body: body.clone() }).collect())
        };
        engine.transact(space_of(task), &task.to_be_bytes(), &rows, &mut decide).await.unwrap();
        // One write to the pipe per line: a line that was cut short is not counted.
        std::io::stdout().write_all(format!("ack {task} {number}.\n").as_bytes()).unwrap();
    }
}
