//! Free space on the disk.
//!
//! Writes are refused before the disk is full, because a store that cannot write its journal or its table files
//! stops altogether. What has been let in is always written: the reserve is larger than all that can wait. Deletes are
//! let in below the reserve too, because they free space.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tavola_engine::EngineError;

use crate::settings::{DISK_CHECK_BYTES, DISK_CHECK_MS, DISK_FLOOR_BYTES};

/// Knows whether the disk has space left.
pub(crate) struct DiskGuard {
    path: PathBuf,
    reserve_bytes: u64,
    is_low: AtomicBool,
    checked_at: AtomicU64,
    written_since: AtomicU64,
    started: Instant,
    /// Bytes of contents that are being written.
    announced: AtomicU64,
}

/// Disk space that is kept for bytes on their way.
pub(crate) struct Announced {
    bytes: u64,
    guard: Arc<DiskGuard>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.guard.announced.fetch_sub(self.bytes, Ordering::AcqRel);
        self.guard.note_written(self.bytes);
    }
}

impl DiskGuard {
    pub(crate) fn new(path: PathBuf, reserve_bytes: u64) -> Self {
        let guard = Self {
            path,
            reserve_bytes,
            is_low: AtomicBool::new(false),
            checked_at: AtomicU64::new(0),
            written_since: AtomicU64::new(0),
            started: Instant::now(),
            announced: AtomicU64::new(0),
        };
        guard.check();
        guard
    }

    /// `Ok` if the disk has space for a write. While it has not, every call looks again.
    pub(crate) fn admit(&self) -> Result<(), EngineError> {
        if !self.is_low.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.check() {
            Some(free_bytes) if free_bytes < self.reserve_bytes => Err(EngineError::Full { free_bytes }),
            _ => Ok(()),
        }
    }

    /// `Ok` if the disk has space for so many bytes beside those that others have announced. It is kept until the answer
    /// is dropped, by when the bytes are on the disk or given up.
    pub(crate) fn admit_bytes(self: &Arc<Self>, bytes: u64) -> Result<Announced, EngineError> {
        self.admit()?;
        let announced = self.announced.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let announcement = Announced { bytes, guard: self.clone() };
        if announced < DISK_CHECK_BYTES {
            // Less than what may be written between two looks.
            return Ok(announcement);
        }
        match self.check() {
            Some(free_bytes) if free_bytes < self.reserve_bytes.saturating_add(announced) => {
                Err(EngineError::Full { free_bytes })
            }
            _ => Ok(announcement),
        }
    }

    /// `Ok` if the disk has space for a write that deletes more than it adds.
    pub(crate) fn admit_delete(&self) -> Result<(), EngineError> {
        if !self.is_low.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.check() {
            Some(free_bytes) if free_bytes < self.reserve_bytes.min(DISK_FLOOR_BYTES) => {
                Err(EngineError::Full { free_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Free bytes, if the file system tells.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.check()
    }

    /// Free bytes below which writes are refused.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// Whether so many bytes can be written, beside those that are announced, without coming near the reserve.
    pub(crate) fn has_space_for(&self, bytes: u64) -> bool {
        let kept = self.reserve_bytes.saturating_add(self.announced.load(Ordering::Acquire));
        self.check().is_none_or(|free_bytes| free_bytes >= kept.saturating_add(bytes))
    }

    /// Tells that so many bytes are about to be written; looks again after enough of them or enough time.
    pub(crate) fn note_written(&self, bytes: u64) {
        let written = self.written_since.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let checked_at = Duration::from_millis(self.checked_at.load(Ordering::Relaxed));
        let is_due = self.started.elapsed() >= checked_at + Duration::from_millis(DISK_CHECK_MS);
        if is_due || written >= DISK_CHECK_BYTES {
            self.check();
        }
    }

    /// Asks the file system. If it does not answer, the last answer stands; the write itself will tell.
    fn check(&self) -> Option<u64> {
        let status = rustix::fs::statvfs(&self.path).ok()?;
        let free_bytes = status.f_bavail.saturating_mul(status.f_frsize);
        self.is_low.store(free_bytes < self.reserve_bytes, Ordering::Relaxed);
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.checked_at.store(now_ms, Ordering::Relaxed);
        self.written_since.store(0, Ordering::Relaxed);
        Some(free_bytes)
    }
}
