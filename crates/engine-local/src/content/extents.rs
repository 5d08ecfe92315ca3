//! The extents of a store: those that are open for writing, and the files that are open for reading.
//!
//! Two extents are open at a time, one for small contents and one for the others, so that a small put never waits until
//! the pages of a large one are written. A content over half an extent gets one to itself. A large content goes where one
//! was freed a moment ago, if it fits there. Every run of the server opens fresh extents: nothing is ever written to those
//! of a former run.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tavola_engine::{EngineError, TickClock};
use tokio::sync::oneshot;

use super::extent::{Extent, HEADER_BYTES};
use super::free_list::{FreeList, TakenRegion};
use super::index::Region;
use super::sweep::SweepList;
use crate::catalog::ExtentChange;
use crate::commit_queue::{CommitQueue, Task};
use crate::settings::{EXTENT_BYTES, EXTENT_FILES_OPEN_MAX, SMALL_CONTENT_BYTES_MAX};

/// Regions begin at multiples of this, the block of a file system: disk space is freed in whole blocks.
pub(crate) const ALIGNMENT: u64 = 4096;

/// Which extent a content goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtentKind {
    Small,
    Large,
}

impl ExtentKind {
    /// For a content that takes so many bytes.
    pub(crate) fn of(stored_bytes: u64) -> Self {
        if stored_bytes <= SMALL_CONTENT_BYTES_MAX { Self::Small } else { Self::Large }
    }
}

/// All extents.
pub(crate) struct Extents {
    pub(crate) folder: PathBuf,
    queue: Arc<CommitQueue>,
    ticks: Arc<TickClock>,
    sweeps: Arc<SweepList>,
    pub(crate) free: FreeList,
    open: [Mutex<Option<OpenExtent>>; 2],
    /// The extents of this run that may still be written to.
    written: Mutex<HashMap<u64, Weak<WrittenExtent>>>,
    /// Files that are open for reading and for freeing disk space.
    files: Mutex<BTreeMap<u64, Arc<Extent>>>,
}

struct OpenExtent {
    extent: Arc<WrittenExtent>,
    next_offset: u64,
}

/// An extent that is open for writing, or has regions that are being written.
pub(crate) struct WrittenExtent {
    pub(crate) extent: Arc<Extent>,
    sweeps: Arc<SweepList>,
}

/// The last writer is gone; if everything in it has been dropped meanwhile, nobody else would notice.
impl Drop for WrittenExtent {
    fn drop(&mut self) {
        self.sweeps.look_at(self.extent.number);
    }
}

/// A region that is being written. It is given back unless it is kept.
pub(crate) struct Reserved {
    pub(crate) extent: Arc<WrittenExtent>,
    pub(crate) region: Region,
    /// Its disk space is taken already, also where nothing was written to it yet.
    is_reused: bool,
    is_kept: bool,
}

impl Reserved {
    /// Leaves out the last bytes, which were not needed.
    pub(crate) fn cut(&mut self, unused: u64) {
        let blocks = blocks_of(&self.region);
        self.region.length -= unused;
        let Region { extent, offset, .. } = self.region;
        let kept = blocks_of(&self.region);
        if self.is_reused && kept < blocks {
            let rest = Region { extent, offset: offset + kept, length: blocks - kept };
            self.extent.sweeps.give_back(vec![rest]);
        }
    }

    /// Lets the region stay.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.is_kept {
            self.extent.sweeps.give_back(vec![self.region]);
        }
    }
}

impl Extents {
    pub(crate) fn new(
        folder: PathBuf,
        queue: Arc<CommitQueue>,
        ticks: Arc<TickClock>,
        sweeps: Arc<SweepList>,
    ) -> Self {
        Self {
            folder,
            queue,
            ticks,
            sweeps,
            free: FreeList::default(),
            open: Default::default(),
            written: Mutex::default(),
            files: Mutex::default(),
        }
    }

    /// Reserves a region for so many bytes. May make a file, so it is called where that may block.
    pub(crate) fn reserve(&self, kind: ExtentKind, bytes: u64) -> Result<Reserved, ExtentError> {
        if kind == ExtentKind::Large
            && let Some(taken) = self.free.take(bytes)
        {
            self.sweeps.give_back(taken.rest.into_iter().collect());
            let TakenRegion { extent, region, .. } = taken;
            return Ok(Reserved { extent, region, is_reused: true, is_kept: false });
        }
        let aligned = bytes.next_multiple_of(ALIGNMENT);
        if aligned > EXTENT_BYTES / 2 {
            let extent = self.make(HEADER_BYTES + aligned)?;
            return Ok(reserved(extent, HEADER_BYTES, bytes));
        }
        let place = match kind {
            ExtentKind::Small => 0,
            ExtentKind::Large => 1,
        };
        let mut open = lock(&self.open[place]);
        let has_space = |open: &OpenExtent| open.next_offset + aligned <= EXTENT_BYTES;
        if !open.as_ref().is_some_and(has_space) {
            *open = None;
            *open = Some(OpenExtent { extent: self.make(EXTENT_BYTES)?, next_offset: HEADER_BYTES });
        }
        let open = open.as_mut().expect("it was opened just now");
        let offset = open.next_offset;
        open.next_offset += aligned;
        Ok(reserved(open.extent.clone(), offset, bytes))
    }

    /// The file of an extent.
    pub(crate) fn file(&self, number: u64) -> io::Result<Arc<Extent>> {
        if let Some(file) = lock(&self.files).get(&number) {
            return Ok(file.clone());
        }
        let file = Arc::new(Extent::open(&self.folder, number)?);
        self.remember(file.clone());
        Ok(file)
    }

    /// An extent of this run, which may be written to from now on.
    pub(crate) fn write_again(&self, number: u64) -> io::Result<Arc<WrittenExtent>> {
        let extent = self.file(number)?;
        let mut all_written = lock(&self.written);
        if let Some(written) = all_written.get(&number).and_then(Weak::upgrade) {
            return Ok(written);
        }
        let written = Arc::new(WrittenExtent { extent, sweeps: self.sweeps.clone() });
        all_written.insert(number, Arc::downgrade(&written));
        Ok(written)
    }

    /// Whether an extent may still be written to.
    pub(crate) fn is_written(&self, number: u64) -> bool {
        lock(&self.written).get(&number).is_some_and(|extent| extent.strong_count() > 0)
    }

    /// Seals the extents that are open; the next put opens others.
    pub(crate) fn seal(&self) {
        for open in &self.open {
            lock(open).take();
        }
    }

    /// Closes the file of an extent that is removed.
    pub(crate) fn forget(&self, number: u64) {
        lock(&self.files).remove(&number);
    }

    /// Makes an extent and has it noted in the catalog, in front of all rows that will name it.
    fn make(&self, size: u64) -> Result<Arc<WrittenExtent>, ExtentError> {
        let number = self.ticks.next().ticks();
        let extent = Extent::create(&self.folder, number, size).map_err(ExtentError::File)?;
        let (answer, _) = oneshot::channel();
        let change = ExtentChange::Made { extent: number, size };
        self.queue.push(Task::ChangeExtent(change, answer)).map_err(ExtentError::Rows)?;
        let extent = Arc::new(extent);
        self.remember(extent.clone());
        let written = Arc::new(WrittenExtent { extent, sweeps: self.sweeps.clone() });
        let mut all_written = lock(&self.written);
        all_written.retain(|_, extent| extent.strong_count() > 0);
        all_written.insert(number, Arc::downgrade(&written));
        Ok(written)
    }

    fn remember(&self, extent: Arc<Extent>) {
        let mut files = lock(&self.files);
        while files.len() >= EXTENT_FILES_OPEN_MAX {
            files.pop_first();
        }
        files.insert(extent.number, extent);
    }
}

/// Why there is no region.
#[derive(Debug)]
pub(crate) enum ExtentError {
    File(io::Error),
    Rows(EngineError),
}

fn reserved(extent: Arc<WrittenExtent>, offset: u64, bytes: u64) -> Reserved {
    let region = Region { extent: extent.extent.number, offset, length: bytes };
    Reserved { extent, region, is_reused: false, is_kept: false }
}

/// Bytes on disk that a region of this length takes at most.
pub(crate) fn blocks_of(region: &Region) -> u64 {
    region.length.next_multiple_of(ALIGNMENT)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the extents of a store are.
pub(crate) fn folder_in(store: &Path) -> PathBuf {
    store.join("content")
}
