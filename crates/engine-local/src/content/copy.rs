//! Copying contents into another store, as a backup does: to the same places, and only what the index names.
//!
//! A store may have more extents than files can be open, so only some of those that are made are open at a time.

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
use crate::settings::COPIED_EXTENTS_OPEN_MAX;

/// Why a content was not copied.
#[derive(Debug)]
pub(crate) enum CopyError {
    Source(EngineError),
    Destination(io::Error),
}

/// The contents of a copy that is being made.
pub(crate) struct ContentCopy<'a> {
    source: &'a LocalContents,
    made: MadeExtents,
}

/// The extents of a copy.
struct MadeExtents {
    folder: PathBuf,
    /// All of them, with their sizes.
    sizes: BTreeMap<u64, u64>,
    /// Those that are open, the one that was used last at the end.
    open: Vec<Extent>,
    open_max: usize,
}

impl<'a> ContentCopy<'a> {
    /// Begins with no extents, in the folder of a store that is being made.
    pub(crate) fn begin(source: &'a LocalContents, store: &Path) -> Result<Self, CopyError> {
        let folder = folder_in(store);
        create_folder(&folder).map_err(CopyError::Destination)?;
        Ok(Self { source, made: MadeExtents::new(folder, COPIED_EXTENTS_OPEN_MAX) })
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
        if !row.regions.iter().all(|region| sizes.contains_key(&region.extent)) {
            return Err(damaged("an extent is not named"));
        }
        let extents = &self.source.parts().put.extents;
        let read_at = |buffer: &mut [u8], at| {
            read_stored(extents, &row.regions, buffer, at)
                .map_err(|cause| CopyError::Source(EngineError::Failed { cause: cause.into() }))
        };
        let made = &mut self.made;
        let write_at = |at, piece: &[u8]| {
            write_stored(made, sizes, &row.regions, piece, at).map_err(CopyError::Destination)
        };
        check_all(names.0, names.1, (row.length, row.sum), read_at, write_at)?
            .map_err(|what| CopyError::Source(EngineError::Damaged { space: names.0, what }))?;
        Ok(row.length)
    }

    /// Makes the extents durable. Gives their numbers and sizes.
    pub(crate) fn finish(self) -> Result<Vec<(u64, u64)>, CopyError> {
        let sizes = self.made.finish().map_err(CopyError::Destination)?;
        Ok(sizes.into_iter().collect())
    }
}

impl MadeExtents {
    fn new(folder: PathBuf, open_max: usize) -> Self {
        assert!(open_max > 0, "the extent that is written to is open");
        Self { folder, sizes: BTreeMap::new(), open: Vec::new(), open_max }
    }

    /// An extent to write to, which is made if it is not there. One that is closed for it is durable.
    fn extent(&mut self, number: u64, size: u64) -> io::Result<&Extent> {
        let extent = match self.open.iter().position(|extent| extent.number == number) {
            Some(at) => self.open.remove(at),
            None => {
                if self.open.len() >= self.open_max {
                    self.open.remove(0).file.sync_all()?;
                }
                match self.sizes.insert(number, size) {
                    None => Extent::create(&self.folder, number, size)?,
                    Some(_) => Extent::open(&self.folder, number)?,
                }
            }
        };
        self.open.push(extent);
        Ok(&self.open[self.open.len() - 1])
    }

    /// Makes the rest durable. Gives all sizes.
    fn finish(self) -> io::Result<BTreeMap<u64, u64>> {
        for extent in self.open {
            extent.file.sync_all()?;
        }
        Ok(self.sizes)
    }
}

/// Writes bytes to regions one after the other, from an offset on.
fn write_stored(
    made: &mut MadeExtents,
    sizes: &BTreeMap<u64, u64>,
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
        let extent = made.extent(region.extent, sizes[&region.extent])?;
        extent.file.write_all_at(now, region.offset + at)?;
        bytes = rest;
        at = 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::extent::{HEADER_BYTES, inspect};

    const SIZE: u64 = 4 * HEADER_BYTES;

    #[test]
    fn few_extents_are_open_at_a_time_and_all_have_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut made = MadeExtents::new(folder.path().to_owned(), 2);
        let sizes: BTreeMap<u64, u64> = (1..=5).map(|number| (number, SIZE)).collect();
        for round in 0..3_u8 {
            for extent in 1..=5 {
                let offset = HEADER_BYTES + u64::from(round) * 4;
                let region = Region { extent, offset, length: 4 };
                write_stored(&mut made, &sizes, &[region], &[round + 1; 4], 0).unwrap();
                assert!(made.open.len() <= 2);
            }
        }
        assert_eq!(made.finish().unwrap(), sizes);
        for number in 1..=5 {
            assert_eq!(inspect(folder.path(), number, SIZE).unwrap(), Ok(()));
            let mut found = [0; 13];
            let extent = Extent::open(folder.path(), number).unwrap();
            extent.file.read_exact_at(&mut found, HEADER_BYTES).unwrap();
            assert_eq!(found, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0]);
        }
    }
}
