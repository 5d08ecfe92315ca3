//! How fast contents of blobs are put and read, beside a plain file: `cargo run --release -p tavola-engine-local --example
//! content_rate -- [rounds]`.
//!
//! Each line is measured by turns: writers that `pwrite` into files of their own and `fdatasync` each content, then the same
//! writers that put contents and let a row name each. Look at the ratios; rates differ from minute to minute.

#![allow(clippy::unwrap_used, reason = "a measurement that fails says so by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use clap::Parser;
use tavola_engine::{
    BytesSource, Change, Content, ContentSize, ContentStore, Decision, Engine, Owner, SpaceId,
};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_system::SystemClock;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SPACE: SpaceId = SpaceId([5; 16]);

/// What a line measures.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    bytes: usize,
    writers: usize,
    each: usize,
}

const LOADS: [Load; 5] = [
    Load { name: "16 KiB x 64 writers", bytes: 16 << 10, writers: 64, each: 60 },
    Load { name: "64 KiB x 64 writers", bytes: 64 << 10, writers: 64, each: 40 },
    Load { name: "64 KiB x 1 writer", bytes: 64 << 10, writers: 1, each: 400 },
    Load { name: "4 MiB x 4 writers", bytes: 4 << 20, writers: 4, each: 16 },
    Load { name: "100 MiB x 1 writer", bytes: 100 << 20, writers: 1, each: 2 },
];

/// Measures how fast contents of blobs are put and read, beside a plain file
#[derive(Parser)]
struct Arguments {
    /// Rounds, of which the median is told
    #[arg(default_value_t = 3)]
    rounds: usize,
}

fn main() {
    let Arguments { rounds } = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // Beside the build, because a temporary folder may be in memory.
    let folder = tempfile::tempdir_in("target").unwrap();
    for load in LOADS {
        let (mut puts, mut gets) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let plain = folder.path().join(format!("plain-{round}"));
            std::fs::create_dir(&plain).unwrap();
            let raw_put = runtime.block_on(write_files(&plain, load));
            let raw_get = runtime.block_on(read_files(&plain, load));
            std::fs::remove_dir_all(&plain).unwrap();
            let data = folder.path().join(format!("data-{round}"));
            let (put, get) = runtime.block_on(contents(&data, load));
            std::fs::remove_dir_all(&data).unwrap();
            puts.push((put, put / raw_put));
            gets.push((get, get / raw_get));
        }
        println!("{:<22} put {}   read {}", load.name, told(&mut puts, load), told(&mut gets, load));
    }
}

/// The median rate, and the range of the ratios.
fn told(rates: &mut [(f64, f64)], load: Load) -> String {
    rates.sort_by(|one, other| one.0.total_cmp(&other.0));
    let median = rates[rates.len() / 2].0;
    let ratios = rates.iter().map(|(_, ratio)| *ratio);
    let (low, high) = ratios.fold((f64::MAX, 0f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
    #[expect(clippy::cast_precision_loss, reason = "shown to a person")]
    let mebibytes = median * load.bytes as f64 / f64::from(1 << 20);
    format!("{median:>7.0}/s {mebibytes:>6.0} MiB/s, {low:.2} - {high:.2} of a plain file")
}

fn rate(load: Load, started: Instant) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "shown to a person")]
    let count = (load.writers * load.each) as f64;
    count / started.elapsed().as_secs_f64()
}

async fn write_files(folder: &Path, load: Load) -> f64 {
    let bytes = vec![7u8; load.bytes];
    let started = Instant::now();
    let writers = (0..load.writers).map(|writer| {
        let (path, bytes) = (folder.join(writer.to_string()), bytes.clone());
        tokio::task::spawn_blocking(move || {
            let file = File::create(path).unwrap();
            for number in 0..load.each {
                file.write_all_at(&bytes, (number * bytes.len()) as u64).unwrap();
                file.sync_data().unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    rate(load, started)
}

async fn read_files(folder: &Path, load: Load) -> f64 {
    let started = Instant::now();
    let readers = (0..load.writers).map(|writer| {
        let path = folder.join(writer.to_string());
        tokio::task::spawn_blocking(move || {
            let (file, mut buffer) = (File::open(path).unwrap(), vec![0; 256 << 10]);
            for number in 0..load.each {
                for at in (0..load.bytes).step_by(buffer.len()) {
                    let length = buffer.len().min(load.bytes - at);
                    file.read_exact_at(&mut buffer[..length], (number * load.bytes + at) as u64).unwrap();
                }
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    rate(load, started)
}

async fn contents(folder: &Path, load: Load) -> (f64, f64) {
    let engine = LocalEngine::open(LocalSettings::new(folder), Arc::new(SystemClock)).unwrap();
    engine.create_space(SPACE).await.unwrap();
    let bytes = Bytes::from(vec![7u8; load.bytes]);
    let started = Instant::now();
    let writers =
        (0..load.writers).map(|writer| tokio::spawn(put(engine.clone(), bytes.clone(), writer, load.each)));
    let mut all = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        all.push(writer.await.unwrap());
    }
    let put_rate = rate(load, started);
    let started = Instant::now();
    let readers = all.into_iter().map(|contents| tokio::spawn(read(engine.clone(), contents)));
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    (put_rate, rate(load, started))
}

/// Puts contents, each named by a row: a content is durable with the row that names it.
async fn put(engine: Arc<LocalEngine>, bytes: Bytes, writer: usize, each: usize) -> Vec<Content> {
    let owner = Owner { space: SPACE, partition: writer.to_be_bytes().to_vec() };
    let mut contents = Vec::new();
    for number in 0..each {
        let size = ContentSize::Exactly(bytes.len() as u64);
        let mut source = BytesSource::new([bytes.clone()]);
        let content = engine.contents().put(&owner, size, &mut source).await.unwrap();
        let body = Bytes::copy_from_slice(&content.id.0);
        let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
        engine.transact(SPACE, &owner.partition, &[&number.to_be_bytes()], &mut decide).await.unwrap();
        contents.push(content);
    }
    contents
}

async fn read(engine: Arc<LocalEngine>, contents: Vec<Content>) {
    for content in contents {
        let mut source = engine.contents().read(SPACE, &content, 0..content.length).await.unwrap();
        while source.next().await.unwrap().is_some() {}
    }
}
