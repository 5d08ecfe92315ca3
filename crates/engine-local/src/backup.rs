//! A copy of everything, taken while the server runs.
//!
//! The copy is of one moment between two commits, across all spaces, and is a data folder of its own. Its store gets
//! its name last, so a copy that was cut short cannot be taken for a whole one.
//!
//! Contents of blobs are copied as the index of that moment names them, each to the same place of an extent of the same
//! number, once its sums are seen to match. Nothing that is dropped meanwhile goes before the copy is done.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lsm_tree::Guard;
use tavola_engine::EngineError;

use crate::catalog::{META_TREE, SLOT_LEN, slot_of};
use crate::commit_queue::SpacesSnapshot;
use crate::content::{ContentCopy, CopyError, INDEX_SPACE};
use crate::create::NewStore;
use crate::folder::{DataFolder, Holding, OpenError};
use crate::{LocalContents, LocalEngine};

/// What was copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupReport {
    /// Spaces.
    pub spaces: usize,
    /// Rows of all of them.
    pub rows: u64,
    /// Contents of blobs.
    pub contents: u64,
    /// Bytes of these.
    pub content_bytes: u64,
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
        let contents = self.contents();
        let hold = contents.hold();
        let source = self.spaces_snapshot().await.map_err(BackupError::Source)?;
        let destination = destination.to_owned();
        tokio::task::spawn_blocking(move || {
            let _hold = hold;
            copy(source, &contents, destination)
        })
        .await
        .unwrap_or_else(|cause| Err(BackupError::Source(EngineError::Failed { cause: cause.into() })))
    }
}

fn copy(
    source: SpacesSnapshot,
    contents: &LocalContents,
    destination: PathBuf,
) -> Result<BackupReport, BackupError> {
    let folder = DataFolder::create(&destination).map_err(BackupError::Destination)?;
    let mut copied =
        Err(BackupError::Source(EngineError::Unavailable { reason: "the backup was not begun" }));
    let named = folder.make_store(|path| {
        copied = copy_rows(source, contents, path, &folder);
        match &copied {
            Ok(BackupReport { contents: 0, .. }) => Ok(((), Holding::Rows)),
            Ok(_) => Ok(((), Holding::Contents)),
            Err(_) => Err(folder.damaged("the backup was not finished")),
        }
    });
    let report = copied?;
    named.map_err(BackupError::Destination)?;
    Ok(report)
}

/// Copies the rows as they are stored, once their checksums are seen to match. Rows of dropped spaces are left out.
fn copy_rows(
    source: SpacesSnapshot,
    contents: &LocalContents,
    path: &Path,
    folder: &DataFolder,
) -> Result<BackupReport, BackupError> {
    let failed = |error: lsm_tree::Error| BackupError::Destination(folder.failed(error));
    let store = NewStore::begin(path).map_err(failed)?;
    let mut report = BackupReport::default();
    let mut extents = ContentCopy::begin(contents, path).map_err(|error| copy_failed(error, folder))?;
    let mut spaces: Vec<_> = source.spaces.iter().collect();
    spaces.sort_by_key(|space| space.slot);
    for space in &spaces {
        store.add_space(space.id, space.slot).map_err(failed)?;
    }
    let by_slot: HashMap<u64, _> = spaces.iter().map(|space| (space.slot, *space)).collect();
    for (tree, rows) in source.rows.into_iter().enumerate().filter(|(tree, _)| *tree != META_TREE) {
        let mut space = None;
        for row in rows {
            let (key, value) = match row.into_inner() {
                Ok(row) => row,
                Err(error) => return Err(BackupError::Source(EngineError::Failed { cause: error.into() })),
            };
            let slot = slot_of(&key);
            if space.is_none_or(|(last, _)| Some(last) != slot) {
                space = slot.and_then(|slot| by_slot.get(&slot).map(|space| (slot, *space)));
            }
            if let Some((_, space)) = space {
                let row =
                    space.decode(&key[SLOT_LEN..], value.clone().into()).map_err(BackupError::Source)?;
                if space.id == INDEX_SPACE {
                    let copied = extents.copy(&key[SLOT_LEN..], &row.body, &source.extents);
                    report.content_bytes += copied.map_err(|error| copy_failed(error, folder))?;
                    report.contents += 1;
                } else {
                    report.rows += 1;
                }
                store.put(tree, key, value).map_err(failed)?;
            }
        }
    }
    for (extent, size) in extents.finish().map_err(|error| copy_failed(error, folder))? {
        store.add_extent(extent, size).map_err(failed)?;
    }
    store.finish(source.last_tick).map_err(failed)?;
    report.spaces = spaces.iter().filter(|space| space.id != INDEX_SPACE).count();
    Ok(report)
}

fn copy_failed(error: CopyError, folder: &DataFolder) -> BackupError {
    match error {
        CopyError::Source(error) => BackupError::Source(error),
        CopyError::Destination(cause) => BackupError::Destination(folder.failed(cause)),
    }
}
