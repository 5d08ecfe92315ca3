//! Stores with something in them, the `tavola` program, and what a store holds.

#![allow(dead_code, reason = "each test uses some of it")]

pub mod served;

use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tavola_engine::{Change, Decision, Engine, ScanRange, ScannedRow, SpaceId, Transacted};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_model::DateTime;
use tavola_system::SystemClock;
use tokio::runtime::Runtime;

/// The rows of all spaces: space, partition, row, version, body.
pub type Contents = Vec<(SpaceId, Vec<u8>, Vec<u8>, DateTime, Bytes)>;

/// The program with these arguments, and nothing of the surroundings.
pub fn tavola<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tavola"));
    command.env_clear().current_dir(std::env::temp_dir()).args(arguments).stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

/// Runs it to its end, which must be good.
#[track_caller]
pub fn succeed(command: Command) -> String {
    let Output { status, stdout, stderr } = run(command);
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// Runs it to its end, which must be bad, and gives what it says.
#[track_caller]
pub fn fail(command: Command) -> String {
    let Output { status, stdout, stderr } = run(command);
    assert!(!status.success(), "{}", String::from_utf8_lossy(&stdout));
    String::from_utf8(stderr).unwrap()
}

/// Runs a command again and again, killed after these times, and at last to its end. Gives how often it was killed.
#[track_caller]
pub fn run_killed(command: impl Fn() -> Command, times: impl IntoIterator<Item = Duration>) -> usize {
    let mut kills = 0;
    for time in times.into_iter().map(Some).chain([None]) {
        let mut child = command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let Some(time) = time {
            std::thread::sleep(time);
            child.kill().unwrap();
        }
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        if status.code().is_none() {
            kills += 1;
            continue;
        }
        let said = String::from_utf8(stderr).unwrap();
        // Killed after its last step, it has nothing to go on with.
        let was_done = said.contains("holds a finished export") || said.contains("the store is not empty");
        assert!(status.success() || (kills > 0 && was_done), "{said}");
        break;
    }
    kills
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Fills a data folder: a catalog and some spaces, with rows that were written, replaced and deleted.
pub fn fill(data_dir: &Path, seed: u64, transactions: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let spaces: Vec<SpaceId> =
        [SpaceId::CATALOG].into_iter().chain((1..5u8).map(|number| SpaceId([number; 16]))).collect();
    on_store(data_dir, async |engine| {
        for space in &spaces {
            engine.create_space(*space).await.unwrap();
        }
        for _ in 0..transactions {
            let space = *random.choice(&spaces).unwrap();
            let partition = vec![0, random.u8(..20)];
            let names: Vec<Vec<u8>> = (0..100).map(|_| random.u16(..2000).to_be_bytes().to_vec()).collect();
            let mut names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
            names.sort();
            names.dedup();
            let changes: Vec<Change> = (0..names.len())
                .map(|index| match random.u8(..8) {
                    0 => Change::Delete { index },
                    _ => Change::Put { index, body: vec![random.u8(..); random.usize(..600)].into() },
                })
                .collect();
            let mut decide = |_, _: &[_]| Decision::Apply(changes.clone());
            let done = engine.transact(space, &partition, &names, &mut decide).await.unwrap();
            assert!(matches!(done, Transacted::Applied(_)));
        }
    });
}

/// Everything that a data folder holds.
pub fn contents(data_dir: &Path) -> Contents {
    on_store(data_dir, async |engine| {
        let mut contents = Contents::new();
        let mut spaces = engine.spaces().await.unwrap();
        spaces.sort();
        for space in spaces {
            let mut visit = |row: ScannedRow<'_>| {
                contents.push((space, row.partition.to_vec(), row.row.to_vec(), row.version, row.body));
                ControlFlow::Continue(())
            };
            engine.scan(space, &ScanRange::all(), &mut visit).await.unwrap();
        }
        contents
    })
}

fn on_store<T>(data_dir: &Path, work: impl AsyncFnOnce(Arc<LocalEngine>) -> T) -> T {
    Runtime::new().unwrap().block_on(async {
        let engine = LocalEngine::open(LocalSettings::new(data_dir), Arc::new(SystemClock)).unwrap();
        let done = work(engine.clone()).await;
        engine.close().await;
        done
    })
}

/// A keyspace of its own on the cluster of the tests, as arguments.
pub fn cluster_arguments(name: &str) -> [String; 4] {
    let nodes = std::env::var("TAVOLA_CQL_NODES").expect("TAVOLA_CQL_NODES names the cluster");
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let keyspace = format!("{name}_{}", since.as_millis());
    ["--cql-nodes", &nodes, "--cql-keyspace", &keyspace].map(str::to_owned)
}

/// A file of the certificates that the node of the tests was started with.
pub fn certificate(whose: &str, file: &str) -> String {
    let folder = std::env::var("TAVOLA_CQL_CERTIFICATES").expect("TAVOLA_CQL_CERTIFICATES names the folder");
    Path::new(&folder).join(whose).join(file).to_str().expect("the path is text").to_owned()
}
