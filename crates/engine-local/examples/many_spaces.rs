//! What many spaces cost, and how soon the disk of a large dropped one is back.
//!
//! `cargo run --release -p tavola-engine-local --example many_spaces -- --help`

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use tavola_engine::{Change, Decision, Engine, SpaceId};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_system::SystemClock;

/// As in the server: the system's allocator keeps much of what the store gives back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: f64 = 1024.0 * 1024.0;
const BATCH_ROWS: u64 = 100;
/// Clients that make spaces, each one after the other.
const MAKERS: u64 = 8;
const MAKERS_STEP: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Measures what many spaces cost, and how soon the disk space of a large dropped one is back
#[derive(Parser)]
struct Arguments {
    /// Spaces of one row
    #[arg(default_value_t = 10_000)]
    spaces: u64,
    /// Rows of the large space
    #[arg(default_value_t = 1_000_000)]
    rows: u64,
    /// Folder in which a temporary data folder is made
    #[arg(default_value = ".")]
    folder: PathBuf,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), AnyError> {
    let Arguments { spaces, rows, folder } = Arguments::parse();
    let folder = tempfile::tempdir_in(folder)?;
    let data = folder.path().join("data");
    let mut out = std::io::stdout().lock();

    let engine = LocalEngine::open(LocalSettings::new(&data), Arc::new(SystemClock))?;
    let started = Instant::now();
    let makers = (0..MAKERS).map(|maker| {
        let engine = engine.clone();
        tokio::spawn(async move {
            for number in (maker..spaces).step_by(MAKERS_STEP) {
                engine.create_space(space(number)).await?;
                put(&engine, space(number), 0..1).await?;
            }
            Ok::<(), AnyError>(())
        })
    });
    for maker in makers.collect::<Vec<_>>() {
        maker.await??;
    }
    let elapsed = started.elapsed().as_secs_f64();
    let (bytes, files) = usage(&data)?;
    writeln!(
        out,
        "{spaces} spaces of one row: {elapsed:.1} s, {:.0} MiB, {files} files",
        bytes as f64 / MIB
    )?;
    drop(engine);
    let started = Instant::now();
    let engine = LocalEngine::open(LocalSettings::new(&data), Arc::new(SystemClock))?;
    writeln!(out, "opened again: {:.2} s", started.elapsed().as_secs_f64())?;

    let large = space(u64::MAX);
    engine.create_space(large).await?;
    for first in (0..rows).step_by(100) {
        put(&engine, large, first..rows.min(first + BATCH_ROWS)).await?;
    }
    // Flushes and compaction end, so that the server is idle.
    let mut full = usage(&data)?.0;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = usage(&data)?.0;
        if now == full {
            break;
        }
        full = now;
    }
    let started = Instant::now();
    engine.drop_space(large).await?;
    writeln!(out, "drop of {rows} rows: {:.2} ms", started.elapsed().as_secs_f64() * 1e3)?;
    // The journals keep their size; they are used again.
    let journals =
        usage_of(&data, |path| path.extension().is_some_and(|extension| extension == "journal"))?.0;
    let goal = journals + (full - journals) / 20;
    while usage(&data)?.0 > goal && started.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (left, elapsed) = (usage(&data)?.0, started.elapsed().as_secs_f64());
    writeln!(out, "disk: {:.0} MiB, {:.0} MiB after {elapsed:.1} s", full as f64 / MIB, left as f64 / MIB)?;
    engine.close().await;
    Ok(())
}

fn space(number: u64) -> SpaceId {
    SpaceId((u128::from(number) + 1).to_be_bytes())
}

async fn put(engine: &LocalEngine, space: SpaceId, rows: std::ops::Range<u64>) -> Result<(), AnyError> {
    let names: Vec<[u8; 8]> = rows.map(u64::to_be_bytes).collect();
    let rows: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let body = Bytes::from(vec![0x5A; 1000]);
    let mut decide = |_, found: &[_]| {
        Decision::Apply((0..found.len()).map(|index| Change::Put { index, body: body.clone() }).collect())
    };
    engine.transact(space, b"partition", &rows, &mut decide).await?;
    Ok(())
}

/// Bytes on the disk, and files.
fn usage(folder: &Path) -> std::io::Result<(u64, usize)> {
    usage_of(folder, |_| true)
}

fn usage_of(folder: &Path, wanted: impl Fn(&Path) -> bool) -> std::io::Result<(u64, usize)> {
    let (mut bytes, mut files) = (0, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            // A file may be removed meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if wanted(&entry.path()) {
                bytes += metadata.blocks() * 512;
                files += 1;
            }
        }
    }
    Ok((bytes, files))
}
