//! `kill -9` at any moment: everything that was acknowledged is there after the next start, and no transaction is
//! torn.
//!
//! The test runs itself again as a child that writes from many tasks and tells each acknowledgement through a
//! pipe, kills it after a random while, and looks at what it left, round after round on the same folder.
//!
//! `TAVOLA_KILLS` says how many rounds to make; without it there are few.

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
use tavola_system::SystemClock;

const ROUNDS: u64 = 24;
const TASKS: u64 = 48;
const ROWS: u64 = 3;
const FOLDER_VARIABLE: &str = "TAVOLA_CRASH_TEST_FOLDER";
const KILLS_VARIABLE: &str = "TAVOLA_KILLS";

/// Each task has a partition of its own in one of a few spaces and sets all rows of it to the next number.
fn space_of(task: u64) -> SpaceId {
    SpaceId([1 + u8::try_from(task % 3).unwrap(); 16])
}

fn settings(folder: &Path) -> LocalSettings {
    // Small, so that flushes and compaction are under way when the kill comes.
    LocalSettings { memory_bytes: 8 << 20, memtable_bytes: 256 << 10, ..LocalSettings::new(folder) }
}

#[test]
fn acknowledged_writes_survive_kill_9_and_no_transaction_is_torn() {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        return write_until_killed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    let mut spaces = Vec::new();
    let mut total = 0;
    let rounds = std::env::var(KILLS_VARIABLE).map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let told = run_and_kill(folder.path(), Duration::from_millis(150 + round * 7919 % 400));
        total += told.len();
        for acknowledgement in told {
            match acknowledgement {
                Told::Number(task, number) => drop(acknowledged.insert(task, number)),
                Told::Space(space) => spaces.push(space),
            }
        }
        check(folder.path(), &mut acknowledged, &spaces, round);
    }
    println!("{rounds} kills, {total} acknowledgements, {} spaces", spaces.len());
    assert!(!spaces.is_empty(), "the child made no spaces");
    assert!(total > 1000, "the child hardly wrote anything ({total} writes)");
}

/// What the child was acknowledged.
enum Told {
    /// A task's number.
    Number(u64, u64),
    /// A new space.
    Space(SpaceId),
}

impl Told {
    fn parse(line: &str) -> Option<Self> {
        let (what, value) = line.strip_suffix('.')?.split_once(' ')?;
        match what {
            "space" => SpaceId::parse(value).map(Told::Space),
            task => Some(Told::Number(task.parse().ok()?, value.parse().ok()?)),
        }
    }

    /// One write to the pipe per line: a line that was cut short is not counted.
    fn tell(what: impl std::fmt::Display, value: impl std::fmt::Display) {
        std::io::stdout().write_all(format!("{what} {value}.\n").as_bytes()).unwrap();
    }
}

/// Starts the child, kills it after a while and gives what it was acknowledged.
fn run_and_kill(folder: &Path, after: Duration) -> Vec<Told> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "acknowledged_writes_survive_kill_9_and_no_transaction_is_torn"])
        .env(FOLDER_VARIABLE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        output.lines().map_while(Result::ok).filter_map(|line| Told::parse(&line)).collect()
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn check(folder: &Path, acknowledged: &mut BTreeMap<u64, u64>, spaces: &[SpaceId], round: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let engine = LocalEngine::open(settings(folder), Arc::new(SystemClock)).unwrap();
    let existing = runtime.block_on(engine.spaces()).unwrap();
    for space in spaces {
        assert!(existing.contains(space), "round {round}: space {space} is gone");
    }
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
        // Spaces come and go meanwhile; few are kept.
        for count in 0u64.. {
            engine.create_space(SpaceId([0xDD; 16])).await.unwrap();
            put(&engine, SpaceId([0xDD; 16])).await;
            engine.drop_space(SpaceId([0xDD; 16])).await.unwrap();
            if count % 8 == 0 {
                let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
                let space = SpaceId(since_epoch.as_nanos().to_be_bytes());
                engine.create_space(space).await.unwrap();
                Told::tell("space", space);
            }
            assert!(tasks.iter().all(|task| !task.is_finished()));
        }
    });
}

async fn put(engine: &LocalEngine, space: SpaceId) {
    let body = Bytes::from(vec![0xEE; 2000]);
    let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
    engine.transact(space, b"p", &[b"r"], &mut decide).await.unwrap();
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
            Decision::Apply(
                (0..found.len()).map(|place| Change::Put { index: place, body: body.clone() }).collect(),
            )
        };
        engine.transact(space_of(task), &task.to_be_bytes(), &rows, &mut decide).await.unwrap();
        Told::tell(task, number);
    }
}
