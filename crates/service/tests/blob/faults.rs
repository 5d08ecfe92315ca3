//! On stores that refuse, lose requests, lose answers and break off: a blob is the old one or the new one, an error that
//! says that nothing happened is true, and one scrub later nothing is left that no row names.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tavola_engine::{
    ContentFaultSettings, ContentStore, Engine, FaultContents, FaultEngine, FaultSettings, MemoryContents,
    MemoryEngine,
};
use tavola_model::{AppendConditions, BlobCommand, BlobTags, DeleteSnapshots, ErrorCode, NewKind};
use tavola_service::{ScrubPace, Service, ServiceSettings};
use tavola_system::SystemRandom;

use crate::bench::{
    append, bytes, clock, commit, create_container, delete, execute, get, new_blob, path, put, put_block,
};

const SEEDS: u64 = 30;
const STEPS: u64 = 80;

#[test]
fn a_blob_is_the_old_one_or_the_new_one_and_nothing_unnamed_is_left_after_a_scrub() {
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(seed));
    }
}

async fn run(seed: u64) {
    let clock = clock();
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new(clock.clone()));
    let contents = Arc::new(MemoryContents::new(clock.clone()));
    let service = |engine: Arc<dyn Engine>, contents: Arc<dyn ContentStore>| {
        let random = Arc::new(SystemRandom);
        Service::new(engine, clock.clone(), random, ServiceSettings::default()).with_contents(contents)
    };
    let clean = service(engine.clone(), contents.clone());
    // Delays would need a timer and change nothing for one caller.
    let faulty = service(
        Arc::new(FaultEngine::new(engine, FaultSettings { delayed: 0, ..FaultSettings::with_seed(seed) })),
        Arc::new(FaultContents::new(contents.clone(), ContentFaultSettings::with_seed(seed))),
    );
    execute(&clean, create_container(), Bytes::new()).await.unwrap();
    let mut known: HashMap<String, Option<Bytes>> = HashMap::new();
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for step in 0..STEPS {
        let name = ["a", "b", "log"][usize::try_from(next(3)).unwrap()];
        let body = bytes(step.to_le_bytes()[0], usize::try_from(next(12_000)).unwrap() + 1);
        let before = known.get(name).cloned().flatten();
        let (mut command, after): (BlobCommand, Option<Bytes>) = match (name, next(4)) {
            ("log", 0) => (BlobCommand::PutBlob(new_blob("log", NewKind::Append, 0)), Some(Bytes::new())),
            ("log", _) if before.is_some() => {
                let joined = [before.clone().unwrap(), body.clone()].concat();
                (append("log", &body, AppendConditions::default()), Some(joined.into()))
            }
            (name, 0) => (delete(path(name).into(), DeleteSnapshots::Refuse), None),
            ("a" | "b", 1) => {
                if execute(&faulty, put_block(name, "block", &body), body.clone()).await.is_err() {
                    continue;
                }
                (commit(name, &["block"]), Some(body.clone()))
            }
            (name, _) => (put(name, &body), Some(body.clone())),
        };
        if step % 2 == 0 {
            add_tags(&mut command, step);
        }
        let sent = match &command {
            BlobCommand::PutBlob(put) if put.kind == NewKind::Append => Bytes::new(),
            _ => body,
        };
        let answer = execute(&faulty, command.clone(), sent).await;
        let found = match execute(&clean, get(path(name).into(), None), Bytes::new()).await {
            Ok((_, found)) => Some(found),
            Err(ErrorCode::BlobNotFound) => None,
            Err(code) => panic!("seed {seed}, step {step}: a blob cannot be read ({code:?})"),
        };
        match answer {
            Ok(_) => assert_eq!(found, after, "seed {seed}, step {step}: {command:?}"),
            Err(ErrorCode::OperationTimedOut) => {
                assert!(found == before || found == after, "seed {seed}, step {step}: {command:?}");
            }
            Err(code) => assert_eq!(found, before, "seed {seed}, step {step}: {command:?} said {code:?}"),
        }
        known.insert(name.to_owned(), found);
    }
    settle().await;
    clock.pass_seconds(8 * 24 * 60 * 60);
    clean.scrub_contents(ScrubPace::Full).await.unwrap();
    settle().await;
    for (name, expected) in &known {
        if let Some(expected) = expected {
            let (_, found) = execute(&clean, get(path(name).into(), None), Bytes::new()).await.unwrap();
            assert_eq!(found, *expected, "seed {seed}: a scrub keeps what is named");
        }
    }
    for name in known.keys() {
        let _ = execute(&clean, delete(path(name).into(), DeleteSnapshots::Refuse), Bytes::new()).await;
    }
    settle().await;
    assert_eq!(contents.bytes(), 0, "seed {seed}: contents are left that no blob names");
}

/// Tags are in an index of their own, which is written before and after the blob.
fn add_tags(command: &mut BlobCommand, step: u64) {
    let tags = BlobTags::parse([("step".to_owned(), step.to_string())]).unwrap();
    match command {
        BlobCommand::PutBlob(put) => put.new.tags = tags,
        BlobCommand::PutBlockList(put) => put.new.tags = tags,
        _ => {}
    }
}

/// Lets what is done behind answers come to its end.
async fn settle() {
    for _ in 0..2_000 {
        tokio::task::yield_now().await;
    }
}
