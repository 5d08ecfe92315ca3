//! A copy of everything, taken while the server runs.
//!
//! The copy is of one moment between two commits, across all spaces, and is a data folder of its own. It gets its
//! format file last, so a copy that was cut short cannot be taken for a whole one.

use std::path::{Path, PathBuf};

use fjall::Readable;
use tavola_engine::EngineError;

use crate::LocalEngine;
use crate::folder::{DataFolder, OpenError, sync_tree};
use crate::queue::SpacesSnapshot;
use crate::settings::LocalSettings;
use crate::store::{Space, Store, failed};

/// What was copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupReport {
    /// Spaces.
    pub spaces: usize,
    /// Rows of all of them.
    pub rows: u64,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The destination is not empty, or cannot be written.
    #[error("backup cannot be written")]
    Destination(#[source] OpenError),
    /// The data cannot be read.
    #[error("data cannot be copied")]
    Source(#[source] EngineError),
}

impl LocalEngine {
    /// Copies everything into `destination`, which must be empty or not exist. Reads and writes go on.
    pub async fn backup(&self, destination: &Path) -> Result<BackupReport, BackupError> {
        let source = self.spaces_snapshot().await.map_err(BackupError::Source)?;
        let destination = destination.to_owned();
        tokio::task::spawn_blocking(move || copy(&source, destination))
            .await
            .unwrap_or_else(|cause| Err(BackupError::Source(EngineError::Failed { cause: cause.into() })))
    }
}

fn copy(source: &SpacesSnapshot, destination: PathBuf) -> Result<BackupReport, BackupError> {
    let folder = DataFolder::create(&destination).map_err(BackupError::Destination)?;
    let store = Store::open(folder, &LocalSettings::new(&destination)).map_err(BackupError::Destination)?;
    let mut report = BackupReport::default();
    for space in &source.spaces {
        report.spaces += 1;
        report.rows += copy_space(source, space, &store).map_err(BackupError::Source)?;
    }
    store.set_last_tick(source.last_tick).map_err(BackupError::Source)?;
    let folder = store.into_folder();
    let sealed = sync_tree(folder.path()).and_then(|()| folder.write_format());
    sealed.map_err(|cause| BackupError::Destination(folder.failed(cause)))?;
    Ok(report)
}

/// Copies the rows of a space as they are stored, once their checksums are seen to match.
fn copy_space(source: &SpacesSnapshot, space: &Space, destination: &Store) -> Result<u64, EngineError> {
    destination.create_space(space.id)?;
    let copied = destination.space(space.id)?;
    let mut rows = 0;
    let mut ingestion = copied.keyspace.start_ingestion().map_err(failed)?;
    for entry in source.snapshot.iter(&space.keyspace) {
        let (key, value) = entry.into_inner().map_err(|error| space.read_failed(error))?;
        space.decode(&key, value.clone().into())?;
        ingestion.write(key, value).map_err(failed)?;
        rows += 1;
    }
    if rows > 0 {
        ingestion.finish().map_err(failed)?;
    }
    Ok(rows)
}
