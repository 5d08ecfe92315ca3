//! Moving data: `tavola export` writes everything a store holds into a folder of plain files, and `tavola import` loads
//! such a folder into a fresh store, of the same kind or another. Versions stay, so Timestamps and ETags do.
//!
//! Both can be killed at any moment and run again: they go on where they were. Both end by reading back what they wrote
//! and comparing it, space by space, with what it came from. `docs/moving.md` tells how to use them, `docs/formats.md`
//! what the files are.

mod contents;
mod export;
mod file;
mod import;
mod manifest;
mod progress;
mod rows;

#[cfg(test)]
mod contents_tests;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use tavola_engine::{ContentStore, Engine, SpaceId};
use tavola_engine_cql::CqlEngine;
use tavola_engine_local::{LocalEngine, LocalSettings, OpenError};
use tavola_model::Clock;
use tavola_system::SystemClock;

use crate::cluster;
use crate::settings::Values;
use manifest::ExportManifest;
use progress::{Progress, ProgressForm};

/// The space in which an import keeps what it needs to go on. It is there from the first step of an import to its last.
const IMPORTING: SpaceId = SpaceId(*b"tavola-importing");

/// Writes everything the store holds into a folder.
pub fn export(values: &Values, out: &Path) -> anyhow::Result<()> {
    if values.word("engine", &["local", "cql"])? == "local" {
        let data_dir = Path::new(values.text("data"));
        let is_empty = std::fs::read_dir(data_dir).map_or(true, |mut entries| entries.next().is_none());
        if is_empty {
            bail!("there is no data folder {}", data_dir.display());
        }
    }
    let manifest = with_store(values, async |engine, contents| {
        export::export(&*engine, &*contents, out, &mut Progress::new(ProgressForm::of_stderr())).await
    })?;
    println!("exported {}", told(&manifest));
    if Path::new(values.text("data")).join("accounts.json").exists() {
        println!(
            "Accounts and their keys are not part of it: copy accounts.json from {}",
            values.text("data")
        );
    }
    Ok(())
}

/// Loads a folder that was exported into a store that is empty.
pub fn import(values: &Values, from: &Path) -> anyhow::Result<()> {
    let manifest = with_store(values, async |engine, contents| {
        import::import(&engine, &*contents, from, &mut Progress::new(ProgressForm::of_stderr())).await
    })?;
    println!("imported {}", told(&manifest));
    Ok(())
}

/// Refuses to serve a store of which an import has brought only a part. A server would take the spaces that the catalog
/// does not name yet for leavings, and drop them.
pub async fn refuse_unfinished(engine: &dyn Engine) -> anyhow::Result<()> {
    if engine.spaces().await.context("cannot list the spaces")?.contains(&IMPORTING) {
        bail!("an import into this store is not finished: run `tavola import` again to resume it");
    }
    Ok(())
}

fn told(manifest: &ExportManifest) -> String {
    let (spaces, rows) = (manifest.spaces.len(), manifest.rows());
    match manifest.content_count() {
        0 => format!("{spaces} tables, queues and catalogs, {rows} rows; all read back and compared"),
        contents => format!(
            "{spaces} tables, queues, containers and catalogs, {rows} rows, {contents} contents of blobs; \
             all read back and compared"
        ),
    }
}

/// Opens the store that the settings name, without a server.
fn with_store<T>(
    values: &Values,
    work: impl AsyncFnOnce(Arc<dyn Engine>, Arc<dyn ContentStore>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    runtime.block_on(async {
        if values.word("engine", &["local", "cql"])? == "cql" {
            let engine = CqlEngine::connect(&cluster::settings(values)?, clock.clone()).await?;
            let contents = cluster::contents(&engine, &clock).await?;
            let done = work(engine.clone(), contents).await;
            engine.close().await;
            return done;
        }
        let data_dir = values.text("data");
        let engine = match LocalEngine::open(LocalSettings::new(data_dir), clock) {
            Err(OpenError::Locked { folder }) => {
                bail!("a server is running on {}: stop it first", folder.display())
            }
            opened => opened?,
        };
        let done = work(engine.clone(), engine.contents()).await;
        engine.close().await;
        done
    })
}
