//! Checking contents with the server stopped: every region that the index names is where it should be, no two share a byte,
//! and every piece has its sum.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tavola_engine::{Content, ContentCursor, ContentId, SpaceId};

use super::extent::{HEADER_BYTES, path_of};
use super::extents::{blocks_of, folder_in};
use super::index::{IndexRow, Region, names_of};
use super::sums::check_all;

/// What the index names, and what was found of it.
pub(crate) struct ContentCheck {
    folder: PathBuf,
    /// The extents that the catalog names, and their sizes.
    sizes: BTreeMap<u64, u64>,
    files: HashMap<u64, File>,
    /// Every region, by extent and offset, and how long it is.
    taken: BTreeMap<(u64, u64), u64>,
    /// Every content and its length.
    lengths: HashMap<ContentCursor, u64>,
    pub(crate) bytes: u64,
}

impl ContentCheck {
    pub(crate) fn new(store: &Path, sizes: BTreeMap<u64, u64>) -> Self {
        Self {
            folder: folder_in(store),
            sizes,
            files: HashMap::new(),
            taken: BTreeMap::new(),
            lengths: HashMap::new(),
            bytes: 0,
        }
    }

    /// How many contents the index names.
    pub(crate) fn count(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// Checks the content of an index row. Gives its space and what is wrong with it, if anything.
    pub(crate) fn check(
        &mut self,
        partition: &[u8],
        row: &[u8],
        body: &[u8],
    ) -> io::Result<Result<(), (SpaceId, String)>> {
        let named = names_of(partition, row).zip(IndexRow::decode(body));
        let Some(((space, id), row)) = named else {
            return Ok(Err((super::INDEX_SPACE, "a row of the index of contents is malformed".to_owned())));
        };
        self.lengths.insert(ContentCursor { space, id }, row.length);
        self.bytes += row.length;
        for region in &row.regions {
            if let Err(what) = self.take(region) {
                return Ok(Err((space, format!("content {id}: {what}"))));
            }
        }
        match self.check_bytes(space, id, &row) {
            Ok(Ok(())) => Ok(Ok(())),
            Ok(Err(what)) => Ok(Err((space, format!("content {id}: {what}")))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(Err((space, format!("content {id}: its extent is cut"))))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the index has a content that a row names, with that length.
    pub(crate) fn has(&self, space: SpaceId, content: &Content) -> Result<(), String> {
        match self.lengths.get(&ContentCursor { space, id: content.id }) {
            Some(length) if *length == content.length => Ok(()),
            Some(_) => Err(format!("content {} has another length than its row says", content.id)),
            None => Err(format!("content {} is missing", content.id)),
        }
    }

    /// Notes a region, if it lies within its extent and apart from all others.
    fn take(&mut self, region: &Region) -> Result<(), &'static str> {
        let size = *self.sizes.get(&region.extent).ok_or("its extent is not in the catalog")?;
        let end = region.offset.checked_add(blocks_of(region)).ok_or("its region is out of range")?;
        if region.offset < HEADER_BYTES || end > size {
            return Err("its region is out of range");
        }
        let place = (region.extent, region.offset);
        let before = self.taken.range(..=place).next_back();
        let after = self.taken.range(place..).next();
        let is_shared = before.is_some_and(|((extent, offset), length)| {
            *extent == region.extent && offset + length > region.offset
        }) || after
            .is_some_and(|((extent, offset), _)| *extent == region.extent && *offset < end);
        if is_shared {
            return Err("its region is another content's too");
        }
        self.taken.insert(place, blocks_of(region));
        Ok(())
    }

    fn check_bytes(
        &mut self,
        space: SpaceId,
        id: ContentId,
        row: &IndexRow,
    ) -> io::Result<Result<(), &'static str>> {
        if row.regions.iter().any(|region| !self.files.contains_key(&region.extent)) {
            // Only those of one content: contents of an extent mostly come one after the other.
            self.files.clear();
            for region in &row.regions {
                self.files.insert(region.extent, File::open(path_of(&self.folder, region.extent))?);
            }
        }
        let files = &self.files;
        let read_at = |mut buffer: &mut [u8], mut at: u64| -> io::Result<()> {
            for region in &row.regions {
                if at >= region.length {
                    at -= region.length;
                    continue;
                }
                let here = usize::try_from(region.length - at).unwrap_or(usize::MAX).min(buffer.len());
                let (filled, rest) = buffer.split_at_mut(here);
                files[&region.extent].read_exact_at(filled, region.offset + at)?;
                buffer = rest;
                at = 0;
            }
            Ok(())
        };
        check_all(space, id, (row.length, row.sum), read_at, |_, _| Ok(()))
    }
}
