//! `tavola export`: a store into a folder of files.
//!
//! The store is read twice: once to sum up what it holds, once to write it. Files that come to the same sums hold
//! everything, and show that nothing has changed since an export that was killed had begun.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, bail};
use tavola_engine::{ContentStore, Decision, Engine, ScanRange, ScannedRow, SpaceId};
use tavola_model::DateTime;

use super::IMPORTING;
use super::contents;
use super::file::{self, Opened, RowWriter, name_of};
use super::manifest::ExportManifest;
use super::progress::Progress;
use super::rows::{Sum, encode};

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_LINE: &str = "tavola export, format 1\n";
/// What an otherwise empty folder may hold: what a run that was killed early has left.
const EMPTY_MAY_HOLD: [&str; 2] = [LOCK, "lost+found"];

/// Writes everything the store holds into the folder, or goes on with it.
pub async fn export(
    engine: &dyn Engine,
    contents: &dyn ContentStore,
    folder: &Path,
    progress: &mut Progress,
) -> anyhow::Result<ExportManifest> {
    let _lock = take_folder(folder)?;
    let spaces = spaces_of(engine).await?;
    if spaces.contains(&IMPORTING) {
        bail!("an import into this store is not finished: finish it first");
    }
    progress.begin("counting", None);
    let mut manifest =
        ExportManifest { tick: last_tick(engine).await?, spaces: BTreeMap::new(), contents: BTreeMap::new() };
    for space in spaces {
        let (sum, newest) = sum_of(engine, space, progress).await?;
        manifest.tick = manifest.tick.max(newest);
        manifest.spaces.insert(space, sum);
    }
    // Contents of spaces that are gone are leavings.
    manifest.contents = contents::sums_of(contents).await?;
    manifest.contents.retain(|space, _| manifest.spaces.contains_key(space));
    progress.end();
    progress.begin("writing", Some(manifest.rows() + manifest.content_count()));
    for space in manifest.spaces.keys() {
        write_space(engine, *space, &folder.join(name_of(*space)), progress).await?;
    }
    for space in manifest.contents.keys() {
        contents::write_space(contents, *space, &folder.join(contents::name_of(*space)), progress).await?;
    }
    progress.end();
    progress.begin("reading back", Some(manifest.rows() + manifest.content_count()));
    for (space, sum) in &manifest.spaces {
        let path = folder.join(name_of(*space));
        if file::check(&path, *space, |rows| progress.add(rows))? != *sum {
            return Err(changed(*space, folder));
        }
    }
    for (space, sum) in &manifest.contents {
        if contents::check(&folder.join(contents::name_of(*space)), *space, progress)? != *sum {
            return Err(changed(*space, folder));
        }
    }
    progress.end();
    check_names(folder, &manifest)?;
    manifest.write(folder)?;
    Ok(manifest)
}

/// The spaces of a store, in the order of their ids.
pub async fn spaces_of(engine: &dyn Engine) -> anyhow::Result<Vec<SpaceId>> {
    let mut spaces = engine.spaces().await.context("cannot list the spaces")?;
    spaces.sort();
    Ok(spaces)
}

/// The sum of a space, and its highest version.
pub async fn sum_of(
    engine: &dyn Engine,
    space: SpaceId,
    progress: &mut Progress,
) -> anyhow::Result<(Sum, DateTime)> {
    let (mut sum, mut newest, mut encoded) = (Sum::default(), DateTime::MIN, Vec::new());
    let mut visit = |row: ScannedRow<'_>| {
        encoded.clear();
        encode(&row, &mut encoded);
        sum.add(&encoded);
        newest = newest.max(row.version);
        progress.add(1);
        ControlFlow::Continue(())
    };
    let scanned = engine.scan(space, &ScanRange::all(), &mut visit).await;
    scanned.with_context(|| format!("cannot read space {space}"))?;
    Ok((sum, newest))
}

/// A tick above all that the store has given, as far as it knows.
async fn last_tick(engine: &dyn Engine) -> anyhow::Result<DateTime> {
    let mut last = DateTime::MIN;
    let mut read_tick = |tick, _: &[_]| {
        last = tick;
        Decision::Refuse
    };
    engine.transact(SpaceId::CATALOG, b"", &[], &mut read_tick).await.context("cannot read the catalog")?;
    Ok(last)
}

/// Makes the folder ours, and keeps a second export from it.
fn take_folder(folder: &Path) -> anyhow::Result<File> {
    let cannot = || format!("cannot write into {}", folder.display());
    make_folder(folder).with_context(cannot)?;
    let lock_path = folder.join(LOCK);
    let lock =
        File::options().create(true).truncate(false).write(true).open(lock_path).with_context(cannot)?;
    if lock.try_lock().is_err() {
        bail!("another export into {} is running", folder.display());
    }
    if ExportManifest::is_in(folder) {
        bail!("{} holds a finished export: name another folder", folder.display());
    }
    match fs::read_to_string(folder.join(FORMAT)) {
        Ok(line) if line == FORMAT_LINE => return Ok(lock),
        // Cut short while it was written, which was before anything else.
        Ok(line) if FORMAT_LINE.starts_with(&line) => {}
        Ok(line) => bail!("{} is of another version ({})", folder.display(), line.trim_end()),
        Err(_) => {
            let mut entries = fs::read_dir(folder).with_context(cannot)?;
            let is_known = |name: &std::ffi::OsStr| EMPTY_MAY_HOLD.iter().any(|known| name == *known);
            if entries.any(|entry| !entry.is_ok_and(|entry| is_known(&entry.file_name()))) {
                bail!("{} is neither empty nor an export: name another folder", folder.display());
            }
        }
    }
    let written = File::create(folder.join(FORMAT)).and_then(|mut file| {
        file.write_all(FORMAT_LINE.as_bytes())?;
        file.sync_all()
    });
    written.with_context(cannot)?;
    Ok(lock)
}

/// Makes a folder and those above it, and every new name of one durable.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    let folder = std::path::absolute(folder)?;
    let missing: Vec<&Path> = folder.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    fs::create_dir_all(&folder)?;
    missing.into_iter().filter_map(Path::parent).try_for_each(|parent| File::open(parent)?.sync_all())
}

/// Writes the file of a space, or the rest of it.
async fn write_space(
    engine: &dyn Engine,
    space: SpaceId,
    path: &Path,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let mut writer = match RowWriter::open(path, space)? {
        Opened::Whole(sum) => {
            progress.skip(sum.rows);
            return Ok(());
        }
        Opened::Unfinished(writer) => writer,
    };
    progress.skip(writer.sum.rows);
    let range = ScanRange { from: writer.next.clone(), before: None };
    let mut failure = None;
    let mut visit = |row: ScannedRow<'_>| match writer.push(&row) {
        Ok(()) => {
            progress.add(1);
            ControlFlow::Continue(())
        }
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    };
    let scanned = engine.scan(space, &range, &mut visit).await;
    scanned.with_context(|| format!("cannot read space {space}"))?;
    let finished = failure.map_or_else(|| writer.finish(), Err);
    finished.with_context(|| format!("cannot write {}", path.display()))
}

fn changed(space: SpaceId, folder: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "the store has changed since this export began (space={space}): stop all its servers, remove {} and export again",
        folder.display()
    )
}

/// Whether there is no file of a space that the store does not have any more.
fn check_names(folder: &Path, manifest: &ExportManifest) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let name = entry.context("cannot read the folder")?.file_name();
        let name = name.to_string_lossy();
        let space = name.strip_suffix(".rows").and_then(SpaceId::parse);
        if let Some(space) = space.filter(|space| !manifest.spaces.contains_key(space)) {
            return Err(changed(space, folder));
        }
        let space = name.strip_suffix(".contents").and_then(SpaceId::parse);
        if let Some(space) = space.filter(|space| !manifest.contents.contains_key(space)) {
            return Err(changed(space, folder));
        }
    }
    Ok(())
}
