//! `tavola verify` and `tavola backup`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use tavola_engine_local::{BackupReport, LocalEngine, LocalSettings};
use tavola_service::BlobContents;
use tavola_system::SystemClock;

use crate::control;

/// Makes an empty data folder where there is nothing yet.
pub fn make_folder(data_dir: &Path) -> anyhow::Result<()> {
    let is_new = std::fs::read_dir(data_dir).map_or(true, |mut entries| entries.next().is_none());
    if is_new {
        drop(LocalEngine::open(LocalSettings::new(data_dir), Arc::new(SystemClock))?);
    }
    Ok(())
}

/// Checks every stored row of a folder.
pub fn verify(data_dir: &Path) -> anyhow::Result<()> {
    if !data_dir.exists() {
        bail!("there is no data folder {}", data_dir.display());
    }
    let report = tavola_engine_local::verify_naming(data_dir, &mut BlobContents::default())?;
    println!("{} tables and catalogs, {} rows, {} bytes checked", report.spaces, report.rows, report.bytes);
    if report.contents > 0 {
        let (contents, bytes) = (report.contents, report.content_bytes);
        println!(
            "{contents} contents of blobs, {bytes} bytes checked; named {} times",
            report.contents_named
        );
    }
    for problem in &report.problems {
        println!("damaged: space {}: {}", problem.space, problem.what);
    }
    if report.is_clean() {
        Ok(())
    } else {
        bail!("{} problems in {}", report.problem_count, data_dir.display())
    }
}

/// Copies a folder, through its server if one is running.
pub fn backup(data_dir: &Path, destination: &Path) -> anyhow::Result<()> {
    if !data_dir.exists() {
        bail!("there is no data folder {}", data_dir.display());
    }
    let destination =
        std::path::absolute(destination).context("cannot resolve the path of the destination")?;
    let line = format!("backup {}", destination.display());
    if line.contains('\n') {
        bail!("the destination has a line break in its name");
    }
    let report = match control::ask(data_dir, &line)? {
        Some(report) => report,
        None => backup_offline(data_dir, &destination)?,
    };
    println!("{report}");
    Ok(())
}

/// What a finished backup says of itself.
pub fn report_line(report: &BackupReport) -> String {
    let rows = format!("{} tables and catalogs, {} rows copied", report.spaces, report.rows);
    match report.contents {
        0 => rows,
        contents => format!("{rows}, {contents} contents of blobs ({} bytes)", report.content_bytes),
    }
}

fn backup_offline(data_dir: &Path, destination: &Path) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let engine = LocalEngine::open(LocalSettings::new(data_dir), Arc::new(SystemClock))?;
        let report = engine.backup(destination).await?;
        engine.close().await;
        Ok(report_line(&report))
    })
}
