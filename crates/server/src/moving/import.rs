//! `tavola import`: a folder of files into a store that is empty.
//!
//! All files are checked before the store is touched. While it goes on, the store has one space more, which says of
//! which export this is the import and how far it is; no server serves such a store. The catalog comes last, so nobody
//! finds a table or a queue before all of it is there.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use tavola_engine::{
    Change, ContentStore, Decision, Engine, EngineError, LoadedRow, ScanRange, SpaceId, StoredRow, Transacted,
};
use tavola_model::DateTime;
use tokio::task::JoinSet;

use super::IMPORTING;
use super::contents;
use super::export::{spaces_of, sum_of};
use super::file::{self, Next, damaged, name_of, open_whole};
use super::manifest::ExportManifest;
use super::progress::Progress;
use super::rows::MovedRow;

/// The partition of the space that an import keeps for itself.
const IMPORT: &[u8] = b"import";
/// The row that names the export.
const EXPORT_ROW: &[u8] = b"export";
/// How often it is kept how far the import is.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// Rows and bytes of one load, and loads and bytes of them under way at once.
const LOAD_ROWS_MAX: usize = 200;
const LOAD_BYTES_MAX: usize = 256 * 1024;
const UNDER_WAY_MAX: usize = 128;
const UNDER_WAY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How often a load is tried, and how long it waits the first time.
const TRIES_MAX: u32 = 6;
const WAIT_MIN: Duration = Duration::from_millis(100);

/// Loads the folder into the store, or goes on with it.
pub async fn import(
    engine: &Arc<dyn Engine>,
    contents: &dyn ContentStore,
    folder: &Path,
    progress: &mut Progress,
) -> anyhow::Result<ExportManifest> {
    let manifest = ExportManifest::read(folder)?;
    let _lock = ExportManifest::lock(folder)?;
    check_files(folder, &manifest, progress)?;
    begin(&**engine, contents, &manifest).await?;
    progress.begin("loading", Some(manifest.rows() + manifest.content_count()));
    // Before the rows that name them.
    for space in manifest.contents.keys() {
        contents::load_space(contents, *space, &folder.join(contents::name_of(*space)), progress).await?;
    }
    let catalog_last = manifest.spaces.keys().filter(|space| **space != SpaceId::CATALOG);
    for space in catalog_last.chain([&SpaceId::CATALOG]) {
        load_space(engine, *space, &folder.join(name_of(*space)), manifest.tick, progress).await?;
    }
    progress.end();
    compare(&**engine, &manifest, progress).await?;
    compare_contents(contents, folder, &manifest, progress).await?;
    engine.drop_space(IMPORTING).await.context("cannot end the import: run it again")?;
    Ok(manifest)
}

/// Whether every file is whole and is the one that the manifest means.
fn check_files(folder: &Path, manifest: &ExportManifest, progress: &mut Progress) -> anyhow::Result<()> {
    progress.begin("checking", Some(manifest.rows() + manifest.content_count()));
    if !manifest.spaces.contains_key(&SpaceId::CATALOG) {
        bail!("{} has no catalog", folder.display());
    }
    for (space, sum) in &manifest.spaces {
        let path = folder.join(name_of(*space));
        if file::check(&path, *space, |rows| progress.add(rows))? != *sum {
            return Err(damaged(&path, "it is not the one that the manifest names"));
        }
    }
    for (space, sum) in &manifest.contents {
        let path = folder.join(contents::name_of(*space));
        if contents::check(&path, *space, progress)? != *sum {
            return Err(damaged(&path, "it is not the one that the manifest names"));
        }
    }
    progress.end();
    Ok(())
}

/// Marks a store that is empty as the target of this import. One that is marked so already is taken as it is.
pub(super) async fn begin(
    engine: &dyn Engine,
    contents: &dyn ContentStore,
    manifest: &ExportManifest,
) -> anyhow::Result<()> {
    let spaces = spaces_of(engine).await?;
    let checksum = Bytes::copy_from_slice(&manifest.checksum().to_be_bytes());
    if spaces.contains(&IMPORTING) {
        let marked = engine.get(IMPORTING, IMPORT, EXPORT_ROW).await.context("cannot read the store")?;
        match marked {
            Some(row) if row.body == checksum => return Ok(()),
            Some(_) => bail!("an import of another folder into this store is not finished"),
            None => {}
        }
    }
    let has_others = spaces.iter().any(|space| *space != SpaceId::CATALOG && *space != IMPORTING);
    let has_contents = !contents::sums_of(contents).await?.is_empty();
    if has_others || has_contents || !is_empty(engine, SpaceId::CATALOG).await? {
        bail!("the store is not empty: import into a new data folder, or a new keyspace of the cluster");
    }
    engine.create_space(IMPORTING).await.context("cannot write to the store")?;
    put(engine, EXPORT_ROW, checksum).await
}

async fn is_empty(engine: &dyn Engine, space: SpaceId) -> anyhow::Result<bool> {
    let mut is_empty = true;
    let mut visit = |_: tavola_engine::ScannedRow<'_>| {
        is_empty = false;
        ControlFlow::Break(())
    };
    engine.scan(space, &ScanRange::all(), &mut visit).await.context("cannot read the store")?;
    Ok(is_empty)
}

/// Keeps a row in the space of the import.
async fn put(engine: &dyn Engine, row: &[u8], body: Bytes) -> anyhow::Result<()> {
    let mut decide =
        |_, _: &[Option<StoredRow>]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
    match engine
        .transact(IMPORTING, IMPORT, &[row], &mut decide)
        .await
        .context("cannot write to the store")?
    {
        Transacted::Applied(_) => Ok(()),
        Transacted::Refused => unreachable!("a put does not refuse"),
    }
}

/// Chunks of a space that are loaded already.
async fn chunks_done(engine: &dyn Engine, space: SpaceId) -> anyhow::Result<u64> {
    let row = engine.get(IMPORTING, IMPORT, &space.0).await.context("cannot read the store")?;
    let count = row.map(|row| row.body[..].try_into().map(u64::from_be_bytes));
    count.unwrap_or(Ok(0)).context("the progress of the import is damaged")
}

async fn load_space(
    engine: &Arc<dyn Engine>,
    space: SpaceId,
    path: &Path,
    tick: DateTime,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    engine.create_space(space).await.with_context(|| format!("cannot make space {space}"))?;
    let done = chunks_done(&**engine, space).await?;
    let mut reader = open_whole(path, space)?;
    let mut loads = Loads { engine: engine.clone(), space, tick, under_way: JoinSet::new(), bytes: 0 };
    let (mut chunks, mut kept) = (0u64, Instant::now());
    loop {
        let rows = match reader.next().with_context(|| format!("cannot read {}", path.display()))? {
            Next::Rows(rows) => rows,
            Next::End => break,
            Next::Spoilt(what) => return Err(damaged(path, what)),
        };
        chunks += 1;
        if chunks <= done {
            progress.skip(rows.len() as u64);
            continue;
        }
        let count = rows.len() as u64;
        for load in into_loads(rows) {
            loads.start(load).await?;
        }
        progress.add(count);
        if kept.elapsed() > KEEP_EVERY {
            loads.wait().await?;
            put(&**engine, &space.0, Bytes::copy_from_slice(&chunks.to_be_bytes())).await?;
            kept = Instant::now();
        }
    }
    loads.wait().await?;
    put(&**engine, &space.0, Bytes::copy_from_slice(&chunks.to_be_bytes())).await
}

/// Rows of one partition that are loaded together.
struct Load {
    partition: Bytes,
    rows: Vec<LoadedRow>,
    bytes: usize,
}

/// The rows of a chunk, by partition and not too many at once.
fn into_loads(rows: Vec<MovedRow>) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    for MovedRow { partition, row, stored } in rows {
        let bytes = row.len() + stored.body.len();
        let loaded = LoadedRow { row, stored };
        match loads.last_mut() {
            Some(load)
                if load.partition == partition
                    && load.rows.len() < LOAD_ROWS_MAX
                    && load.bytes + bytes <= LOAD_BYTES_MAX =>
            {
                load.rows.push(loaded);
                load.bytes += bytes;
            }
            _ => loads.push(Load { partition, rows: vec![loaded], bytes }),
        }
    }
    loads
}

/// Loads of one space that are under way.
struct Loads {
    engine: Arc<dyn Engine>,
    space: SpaceId,
    tick: DateTime,
    under_way: JoinSet<Result<usize, EngineError>>,
    bytes: usize,
}

impl Loads {
    /// Starts a load, as soon as few enough are under way.
    async fn start(&mut self, load: Load) -> anyhow::Result<()> {
        while self.under_way.len() >= UNDER_WAY_MAX || self.bytes >= UNDER_WAY_BYTES_MAX {
            self.wait_for_one().await?;
        }
        self.bytes += load.bytes;
        let (engine, space, tick) = (self.engine.clone(), self.space, self.tick);
        self.under_way.spawn(async move {
            try_load(&*engine, space, tick, &load).await?;
            Ok(load.bytes)
        });
        Ok(())
    }

    /// Waits for all.
    async fn wait(&mut self) -> anyhow::Result<()> {
        while !self.under_way.is_empty() {
            self.wait_for_one().await?;
        }
        Ok(())
    }

    async fn wait_for_one(&mut self) -> anyhow::Result<()> {
        if let Some(ended) = self.under_way.join_next().await {
            let loaded = ended.context("a load task has stopped")?;
            self.bytes -= loaded.context("cannot write to the store (run the import again to resume)")?;
        }
        Ok(())
    }
}

/// Loads, several times if need be: loading the same again changes nothing.
async fn try_load(
    engine: &dyn Engine,
    space: SpaceId,
    tick: DateTime,
    load: &Load,
) -> Result<(), EngineError> {
    let mut wait = WAIT_MIN;
    for _ in 1..TRIES_MAX {
        match engine.load(space, &load.partition, tick, &load.rows).await {
            Err(
                EngineError::Conflict { .. }
                | EngineError::OutcomeUnknown { .. }
                | EngineError::Unavailable { .. },
            ) => tokio::time::sleep(wait).await,
            ended => return ended,
        }
        wait *= 2;
    }
    engine.load(space, &load.partition, tick, &load.rows).await
}

/// Reads the store back and compares it with the manifest.
async fn compare(
    engine: &dyn Engine,
    manifest: &ExportManifest,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    progress.begin("reading back", Some(manifest.rows()));
    let mut spaces = spaces_of(engine).await?;
    spaces.retain(|space| *space != IMPORTING);
    if !spaces.iter().eq(manifest.spaces.keys()) {
        bail!("the store has other spaces than the export: somebody else has written to it");
    }
    for (space, expected) in &manifest.spaces {
        let (found, _) = sum_of(engine, *space, progress).await?;
        if found != *expected {
            bail!(
                "space {space} is not what was exported (rows={}, expected={}): somebody else has written to the store",
                found.rows,
                expected.rows
            );
        }
    }
    progress.end();
    Ok(())
}

/// Reads the contents of blobs back and compares them with the files.
async fn compare_contents(
    contents: &dyn ContentStore,
    folder: &Path,
    manifest: &ExportManifest,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    if manifest.contents.is_empty() {
        return Ok(());
    }
    progress.begin("reading back", Some(manifest.content_count()));
    if contents::sums_of(contents).await? != manifest.contents {
        bail!("the store has other contents of blobs than the export: somebody else has written to it");
    }
    for space in manifest.contents.keys() {
        contents::compare_space(contents, *space, &folder.join(contents::name_of(*space)), progress).await?;
    }
    progress.end();
    Ok(())
}
