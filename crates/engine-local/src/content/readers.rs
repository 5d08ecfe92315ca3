//! Who reads what: the disk space of a dropped content is freed when nobody in this process reads it any more.
//!
//! Invariant: a reader is noted here before it looks into the index. So a content that is found in the index keeps
//! its disk space until its reader is gone, and one whose drop came first is not found.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tavola_engine::ContentCursor;

use super::index::Region;
use super::sweep::SweepList;

/// The readers of all contents.
pub(crate) struct Readers {
    noted: Mutex<HashMap<ContentCursor, Noted>>,
    sweeps: Arc<SweepList>,
}

#[derive(Default)]
struct Noted {
    readers: usize,
    /// Disk space to free when the last reader is gone.
    dropped: Vec<Region>,
}

/// A reader, from before its look into the index until it is done.
pub(crate) struct ReaderGuard {
    content: ContentCursor,
    readers: Arc<Readers>,
}

impl Readers {
    pub(crate) fn new(sweeps: Arc<SweepList>) -> Self {
        Self { noted: Mutex::default(), sweeps }
    }

    /// Notes a reader of a content.
    pub(crate) fn note(self: &Arc<Self>, content: ContentCursor) -> ReaderGuard {
        self.lock().entry(content).or_default().readers += 1;
        ReaderGuard { content, readers: self.clone() }
    }

    /// Frees the disk space of a content whose index row is durably gone, now or when its readers are done.
    pub(crate) fn give_back(&self, content: ContentCursor, regions: Vec<Region>) {
        match self.lock().get_mut(&content) {
            Some(noted) => noted.dropped.extend(regions),
            None => self.sweeps.give_back(regions),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ContentCursor, Noted>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        let mut noted = self.readers.lock();
        let Some(entry) = noted.get_mut(&self.content) else { return };
        entry.readers -= 1;
        if entry.readers == 0 {
            let regions = noted.remove(&self.content).map(|entry| entry.dropped).unwrap_or_default();
            drop(noted);
            self.readers.sweeps.give_back(regions);
        }
    }
}
