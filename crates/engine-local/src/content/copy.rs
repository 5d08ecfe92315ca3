//! Copying contents into another store, as a backup does: to the same places, and only what the index names.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tavola_engine::EngineError;

use super::LocalContents;
use super::extent::Extent;
use super::extents::folder_in;
use super::index::{INDEX_SPACE, IndexRow, Region, names_of};
use super::read::read_stored;
use super::sums::check_all;
use crate::folder::create_folder;
use crate::row::decode_key;

/// Why a content was not copied.
#[derive(Debug)]
pub(crate) enum CopyError {
    Source(EngineError),
    Destination(io::Error),
}

/// The extents of a copy that is being made.
pub(crate) struct ContentCopy<'a> {
    source: &'a LocalContents,
    folder: PathBuf,
    made: BTreeMap<u64, (Extent, u64)>,
}

impl<'a> ContentCopy<'a> {
    /// Begins with no extents, in the folder of a store that is being made.
    pub(crate) fn begin(source: &'a LocalContents, store: &Path) -> Result<Self, CopyError> {
        let folder = folder_in(store);
        create_folder(&folder).map_err(CopyError::Destination)?;
        Ok(Self { source, folder, made: BTreeMap::new() })
    }

    /// Copies the content of an index row, whose key this is. `sizes` are those of the extents. Gives its length.
    pub(crate) fn copy(
        &mut self,
        key: &[u8],
        body: &[u8],
        sizes: &BTreeMap<u64, u64>,
    ) -> Result<u64, CopyError> {
        let damaged = |what| CopyError::Source(EngineError::Damaged { space: INDEX_SPACE, what });
        let mut scratch = Vec::new();
        let names = decode_key(key, &mut scratch).and_then(|(partition, row)| names_of(partition, row));
        let (names, row) =
            names.zip(IndexRow::decode(body)).ok_or_else(|| damaged("a row of the index is malformed"))?;
        for region in &row.regions {
            if !self.made.contains_key(&region.extent) {
                let size = *sizes.get(&region.extent).ok_or_else(|| damaged("an extent is not named"))?;
                let extent = Extent::create(&self.folder, region.extent, size);
                self.made.insert(region.extent, (extent.map_err(CopyError::Destination)?, size));
            }
        }
        let extents = &self.source.parts().put.extents;
        let read_at = |buffer: &mut [u8], at| {
            read_stored(extents, &row.regions, buffer, at)
                .map_err(|cause| CopyError::Source(EngineError::Failed { cause: cause.into() }))
        };
        let write_at = |at, piece: &[u8]| {
            write_stored(&self.made, &row.regions, piece, at).map_err(CopyError::Destination)
        };
        check_all(names.0, names.1, (row.length, row.sum), read_at, write_at)?
            .map_err(|what| CopyError::Source(EngineError::Damaged { space: names.0, what }))?;
        Ok(row.length)
    }

    /// Makes the extents durable. Gives their numbers and sizes.
    pub(crate) fn finish(self) -> Result<Vec<(u64, u64)>, CopyError> {
        let mut extents = Vec::new();
        for (number, (extent, size)) in self.made {
            extent.file.sync_all().map_err(CopyError::Destination)?;
            extents.push((number, size));
        }
        Ok(extents)
    }
}

/// Writes bytes to regions one after the other, from an offset on.
fn write_stored(
    extents: &BTreeMap<u64, (Extent, u64)>,
    regions: &[Region],
    mut bytes: &[u8],
    mut at: u64,
) -> io::Result<()> {
    for region in regions {
        if at >= region.length {
            at -= region.length;
            continue;
        }
        let here = usize::try_from(region.length - at).unwrap_or(usize::MAX).min(bytes.len());
        let (now, rest) = bytes.split_at(here);
        extents[&region.extent].0.file.write_all_at(now, region.offset + at)?;
        bytes = rest;
        at = 0;
    }
    Ok(())
}
