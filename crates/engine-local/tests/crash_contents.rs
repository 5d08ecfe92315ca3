//! `kill -9` while contents are put, overwritten and dropped: every row names a content that is whole. And uploads that are
//! cut anywhere leave nothing.
//!
//! The test runs itself again as a child that tells each acknowledgement through a pipe, kills it after a random while, and
//! looks at what it left, round after round on the same folder.
//!
//! `TAVOLA_KILLS` says how many rounds to make; without it there are few.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use common::{Chance, bytes_of, open, put, put_content, read_content, rows, small, space};
use tavola_engine::{
    ByteSource, Content, ContentId, ContentSize, ContentStore, Engine, EngineError, Owner, SourceError,
};
use tavola_engine_local::{LocalEngine, verify};

const ROUNDS: u64 = 12;
const TASKS: u64 = 24;
const FOLDER_VARIABLE: &str = "TAVOLA_CONTENT_TEST_FOLDER";
const KILLS_VARIABLE: &str = "TAVOLA_KILLS";
const CUT_UPLOADS: u64 = 10_000;

fn owner() -> Owner {
    Owner { space: space(1), partition: b"p".to_vec() }
}

/// How long a task's content is: mostly short, some of many pieces.
fn length_of(task: u64, number: u64) -> usize {
    let mut chance = Chance(task * 1_000_003 + number + 1);
    chance.draw();
    let most = match number % 9 {
        0 => 3_000_000,
        1 | 2 => 300_000,
        _ => 20_000,
    };
    usize::try_from(chance.below(most)).unwrap()
}

fn seed_of(task: u64, number: u64) -> u64 {
    task << 40 | number
}

#[test]
fn what_rows_name_survives_kill_9() {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        return write_until_killed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let rounds = std::env::var(KILLS_VARIABLE).map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut acknowledged = BTreeMap::new();
    let (mut total, mut round) = (0, 0);
    // On a slow machine a child is killed before it has done anything; then there are more.
    while round < rounds || total < 50 {
        let told = run_and_kill(folder.path(), Duration::from_millis(200 + round * 7919 % 400));
        total += told.len();
        acknowledged.extend(told);
        runtime.block_on(check(folder.path(), &mut acknowledged, round));
        round += 1;
    }
    println!("{round} kills, {total} acknowledgements");
}

fn run_and_kill(folder: &Path, after: Duration) -> Vec<(u64, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "what_rows_name_survives_kill_9"])
        .env(FOLDER_VARIABLE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let parse = |line: String| -> Option<(u64, u64)> {
            // A line that was cut short has no dot, and is not counted.
            let (task, number) = line.strip_suffix('.')?.split_once(' ')?;
            Some((task.parse().ok()?, number.parse().ok()?))
        };
        output.lines().map_while(Result::ok).filter_map(parse).collect()
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

async fn check(folder: &Path, acknowledged: &mut BTreeMap<u64, u64>, round: u64) {
    if !folder.join("FORMAT").exists() && acknowledged.is_empty() {
        return;
    }
    let report = verify(folder).unwrap();
    assert!(report.is_clean(), "round {round}: {report:?}");
    let engine = open(small(folder)).unwrap();
    let named = match rows(&engine, space(1)).await {
        Ok(named) => named,
        Err(EngineError::SpaceMissing { .. }) => return,
        Err(error) => panic!("round {round}: {error}"),
    };
    for (row, body) in named {
        let task = u64::from_be_bytes(row[..].try_into().unwrap());
        let (number, content) = decode(&body);
        let told = acknowledged.get(&task).copied().unwrap_or(0);
        assert!(number >= told, "round {round}, task {task}: {told} was acknowledged, {number} is there");
        let bytes = read_content(&engine, space(1), &content).await.unwrap();
        assert!(
            bytes == bytes_of(seed_of(task, number), bytes.len()),
            "round {round}, task {task}: other bytes"
        );
        assert_eq!(bytes.len(), length_of(task, number));
        acknowledged.insert(task, number);
    }
}

fn encode(number: u64, content: &Content) -> Vec<u8> {
    [&number.to_be_bytes()[..], &content.id.0, &content.length.to_be_bytes()].concat()
}

fn decode(body: &[u8]) -> (u64, Content) {
    let number = |at: usize| u64::from_be_bytes(body[at..at + 8].try_into().unwrap());
    (number(0), Content { id: ContentId(body[8..24].try_into().unwrap()), length: number(24) })
}

fn write_until_killed(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = open(small(folder)).unwrap();
        engine.create_space(space(1)).await.unwrap();
        let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(write(engine.clone(), task))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Overwrites its content again and again: puts the next one, lets its row name it, drops the one before.
async fn write(engine: Arc<LocalEngine>, task: u64) {
    let row = task.to_be_bytes();
    let mut last = rows(&engine, space(1)).await.unwrap().get(&row[..]).map(|body| decode(body));
    loop {
        let number = last.map_or(0, |(number, _)| number) + 1;
        let content = put_content(&engine, &owner(), seed_of(task, number), length_of(task, number)).await;
        put(&engine, space(1), &row, Some(&encode(number, &content))).await.unwrap();
        std::io::stdout().write_all(format!("{task} {number}.\n").as_bytes()).unwrap();
        if let Some((_, old)) = last.replace((number, content)) {
            engine.contents().drop_contents(space(1), &[old.id]).await.unwrap();
        }
    }
}

/// Gives some bytes, then fails or says nothing any more.
struct CutSource {
    bytes: Bytes,
    hangs: bool,
}

#[async_trait]
impl ByteSource for CutSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        let piece = self.bytes.split_to(self.bytes.len().min(64 << 10));
        if !piece.is_empty() {
            return Ok(Some(piece));
        }
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Err(SourceError::Broken("the client is gone".into()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_uploads_cut_anywhere_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(small(folder.path())).unwrap();
    let kept = put_content(&engine, &owner(), 1, 1000).await;
    let mut chance = Chance(4711);
    let all = bytes_of(2, 400_000);
    for number in 0..CUT_UPLOADS {
        let length = 1 + chance.below(400_000);
        let bytes = all.slice(..usize::try_from(chance.below(length)).unwrap());
        let size = if number % 3 == 0 { ContentSize::UpTo(length) } else { ContentSize::Exactly(length) };
        let mut source = CutSource { bytes, hangs: number % 2 == 0 };
        let contents = engine.contents();
        let polls = chance.below(9);
        let outcome = let_go(contents.put(&owner(), size, &mut source), polls).await;
        assert!(!matches!(outcome, Some(Ok(_))), "a cut upload was kept");
    }
    let mut found = Vec::new();
    let mut visit = |content: &tavola_engine::FoundContent| {
        found.push(content.content);
        std::ops::ControlFlow::Continue(())
    };
    engine.contents().visit(None, &mut visit).await.unwrap();
    assert_eq!(found, [kept]);
    // A hang guard, not a measure: what was being written when it was let go is given back a moment later.
    for _ in 0..6000 {
        if engine.contents().usage().unwrap().bytes <= 64 << 10 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let usage = engine.contents().usage().unwrap();
    assert!(usage.bytes <= 64 << 10, "{usage:?}");
    let again = put_content(&engine, &owner(), 3, 1_000_000).await;
    assert_eq!(read_content(&engine, space(1), &again).await.unwrap(), bytes_of(3, 1_000_000));
    assert_eq!(read_content(&engine, space(1), &kept).await.unwrap(), bytes_of(1, 1000));
}

/// Polls a future until it has been pending so many times, or waits for nothing but its source; then lets it go.
async fn let_go<F: Future>(future: F, times: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut pending = 0;
    let polled = std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if pending >= times => Poll::Ready(None),
        Poll::Pending => {
            pending += 1;
            Poll::Pending
        }
    });
    // A source that hangs wakes nobody.
    tokio::time::timeout(Duration::from_millis(2), polled).await.unwrap_or(None)
}
