//! Regions that were given back and can be written to again.
//!
//! Whoever replaces large blobs frees about as much as is written. If the disk space is freed and other space is taken, the
//! file system changes its metadata twice and the disk is told of both, and commits of rows wait for that. Bytes that are
//! written over cost neither. So large regions stay here for a moment before their disk space is freed.
//!
//! Invariant: an extent that has a region here counts as one that is written to, so it is not removed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::extents::{ALIGNMENT, WrittenExtent};
use super::index::Region;
use crate::settings::{FREE_BYTES_MAX, FREE_REGION_BYTES_MIN, FREE_REGIONS_MAX};

/// The free regions of all extents, oldest first.
#[derive(Default)]
pub(crate) struct FreeList(Mutex<VecDeque<FreeRegion>>);

/// A region that no content has. Its length is one of whole blocks.
pub(crate) struct FreeRegion {
    pub(crate) extent: Arc<WrittenExtent>,
    pub(crate) region: Region,
    pub(crate) since: Instant,
}

/// A region that was taken, and what is left of the one it is from, if that is too small to be kept.
pub(crate) struct TakenRegion {
    pub(crate) extent: Arc<WrittenExtent>,
    pub(crate) region: Region,
    pub(crate) rest: Option<Region>,
}

impl FreeList {
    /// Keeps a region. Gives the oldest ones that are too many now, or the region itself if it is too large.
    pub(crate) fn keep(&self, free: FreeRegion) -> Vec<FreeRegion> {
        if free.region.length > FREE_BYTES_MAX {
            return vec![free];
        }
        let mut list = self.lock();
        list.push_back(free);
        let mut bytes: u64 = list.iter().map(|free| free.region.length).sum();
        let mut too_many = Vec::new();
        while (bytes > FREE_BYTES_MAX || list.len() > FREE_REGIONS_MAX)
            && let Some(oldest) = list.pop_front()
        {
            bytes -= oldest.region.length;
            too_many.push(oldest);
        }
        too_many
    }

    /// Takes a region for so many bytes out of the smallest one that has them.
    pub(crate) fn take(&self, bytes: u64) -> Option<TakenRegion> {
        let aligned = bytes.next_multiple_of(ALIGNMENT);
        let mut list = self.lock();
        let fitting = list.iter().enumerate().filter(|(_, free)| free.region.length >= aligned);
        let (index, _) = fitting.min_by_key(|(_, free)| free.region.length)?;
        let free = list.remove(index)?;
        let Region { extent, offset, length } = free.region;
        let region = Region { extent, offset, length: bytes };
        let rest = Region { extent, offset: offset + aligned, length: length - aligned };
        if rest.length >= FREE_REGION_BYTES_MIN {
            list.insert(index, FreeRegion { extent: free.extent.clone(), region: rest, since: free.since });
            return Some(TakenRegion { extent: free.extent, region, rest: None });
        }
        Some(TakenRegion { extent: free.extent, region, rest: (rest.length > 0).then_some(rest) })
    }

    /// Takes out what has been here for so long.
    pub(crate) fn take_older(&self, age: Duration) -> Vec<FreeRegion> {
        let mut list = self.lock();
        let old = list.iter().take_while(|free| free.since.elapsed() >= age).count();
        list.drain(..old).collect()
    }

    /// Since when the oldest one has been here.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.lock().front().map(|free| free.since)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<FreeRegion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
