//! Writing a content.
//!
//! The pieces go to the blocking pool two by two, together with the writer that knows where they go: handing over takes a
//! good part of the time of one. While they are written the next are taken from the source. A put that is let go drops
//! nothing but its wait: the writer ends on its thread, and its regions are given back there, when nothing is being
//! written any more.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tavola_engine::{
    ByteSource, Content, ContentCursor, ContentError, ContentId, ContentSize, EngineError, Owner, Pieces,
    SpaceId,
};

use super::extents::{ExtentError, ExtentKind, Extents, Reserved, WrittenExtent};
use super::index::{Index, IndexRow};
use super::read::read_stored;
use super::readers::Readers;
use super::sums::{SumTable, check_all, stored_bytes};
use super::sync::{NotSynced, SyncQueue};
use crate::disk::{Announced, DiskGuard};
use crate::settings::{REGION_BYTES_UNKNOWN, UNSYNCED_BYTES_MAX};

/// Pieces that are written by one task.
const PIECES_AT_ONCE: usize = 2;

/// What a put needs.
#[derive(Clone)]
pub(crate) struct PutParts {
    pub(crate) index: Index,
    pub(crate) extents: Arc<Extents>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) disk: Arc<DiskGuard>,
    pub(crate) small: Arc<SyncQueue>,
    pub(crate) large: Arc<SyncQueue>,
}

/// Writes the bytes of a source and queues the row of the index. Gives what to wait for, if the row has to be durable,
/// and the row that was replaced.
pub(crate) async fn put(
    parts: &PutParts,
    id: ContentId,
    owner: &Owner,
    size: ContentSize,
    source: &mut dyn ByteSource,
) -> Result<(Content, super::index::CommitReceiver, Option<IndexRow>), ContentError> {
    let of_rows = |error| ContentError::of_rows(error, id);
    parts.index.shared.queue.admit().map_err(of_rows)?;
    parts.index.make().await.map_err(of_rows)?;
    let mut writer = Writer::new(parts, size).map_err(of_rows)?;
    let mut pieces = Pieces::new(source, size);
    let mut next = some_pieces(&mut pieces).await?;
    while !next.is_empty() {
        // The sums go with the last piece, where it is known to be the last.
        let is_last = pieces.is_complete();
        let permit = match writer.kind {
            // Synced at their end, which is near.
            ExtentKind::Small => None,
            ExtentKind::Large => Some(parts.large.permit(next.iter().map(Bytes::len).sum()).await),
        };
        let writing = tokio::task::spawn_blocking(move || {
            next.iter().try_for_each(|piece| writer.write(piece))?;
            if is_last {
                writer.write_sums()?;
            }
            if let (Some(permit), Some(last)) = (permit, writer.reserved.last()) {
                writer.syncs.ask(&last.extent.extent, permit);
            }
            Ok::<_, ContentError>(writer)
        });
        let (taken, written) = tokio::join!(some_pieces(&mut pieces), writing);
        writer = written.map_err(failed)??;
        next = taken?;
    }
    let length = pieces.taken();
    if writer.written != stored_bytes(length) {
        let writing = tokio::task::spawn_blocking(move || writer.write_sums().map(|()| writer));
        writer = writing.await.map_err(failed)??;
    }
    for extent in writer.extents() {
        writer.syncs.sync(&extent.extent).await.map_err(not_synced)?;
    }
    let (row, reserved) = writer.finish(owner, id, length);
    let (committed, replaced) = parts.index.queue_put(owner.space, id, &row).map_err(of_rows)?;
    reserved.into_iter().for_each(Reserved::keep);
    Ok((Content { id, length }, committed, replaced))
}

/// The next pieces to write at once; none at the end.
async fn some_pieces(pieces: &mut Pieces<'_>) -> Result<Vec<Bytes>, ContentError> {
    let mut some = Vec::new();
    while some.is_empty() || (some.len() < PIECES_AT_ONCE && !pieces.is_complete()) {
        let Some(piece) = pieces.next().await? else { break };
        some.push(piece);
    }
    Ok(some)
}

/// Writes a content again elsewhere, and lets the index name the new place. Its old regions are given back.
pub(crate) fn move_content(
    parts: &PutParts,
    space: SpaceId,
    id: ContentId,
    old: &IndexRow,
) -> Result<(), EngineError> {
    let failed = |error| match error {
        ContentError::Unavailable { reason } => EngineError::Unavailable { reason },
        cause => EngineError::Failed { cause: cause.into() },
    };
    let owner = Owner { space, partition: old.partition.clone() };
    let mut writer = Writer::new(parts, ContentSize::Exactly(old.length))?;
    let mut unsynced = 0;
    let write = |at, piece: &[u8]| {
        if at >= old.length {
            return Ok(());
        }
        writer.write(piece)?;
        unsynced += piece.len();
        if unsynced >= UNSYNCED_BYTES_MAX as usize {
            writer.sync_blocking()?;
            unsynced = 0;
        }
        Ok(())
    };
    let checked = check_all(
        space,
        id,
        (old.length, old.sum),
        |buffer, at| read_stored(&parts.extents, &old.regions, buffer, at).map_err(write_failed),
        write,
    );
    checked.map_err(failed)?.map_err(|what| EngineError::Damaged { space, what })?;
    writer.write_sums().and_then(|()| writer.sync_blocking()).map_err(failed)?;
    let (row, reserved) = writer.finish(&owner, id, old.length);
    assert_eq!(row.sum, old.sum, "a content that is moved keeps its bytes");
    let Some(committed) = parts.index.queue_move(space, id, old, &row)? else { return Ok(()) };
    reserved.into_iter().for_each(Reserved::keep);
    let committed = committed.blocking_recv();
    committed.unwrap_or_else(|cause| Err(EngineError::OutcomeUnknown { cause: cause.into() }))?;
    parts.readers.give_back(ContentCursor { space, id }, old.regions.clone());
    Ok(())
}

impl PutParts {
    fn queue_of(&self, kind: ExtentKind) -> &Arc<SyncQueue> {
        match kind {
            ExtentKind::Small => &self.small,
            ExtentKind::Large => &self.large,
        }
    }
}

/// Knows where the next bytes of a content go.
struct Writer {
    extents: Arc<Extents>,
    syncs: Arc<SyncQueue>,
    disk: Arc<DiskGuard>,
    kind: ExtentKind,
    size: ContentSize,
    /// In the order of the content.
    reserved: Vec<Reserved>,
    reserved_bytes: u64,
    written: u64,
    sums: SumTable,
    /// Disk space that is kept until everything is written.
    announced: Vec<Announced>,
}

impl Writer {
    fn new(parts: &PutParts, size: ContentSize) -> Result<Self, EngineError> {
        let stored = stored_bytes(size.bytes_max());
        let kind = ExtentKind::of(stored);
        let announced = match size {
            ContentSize::Exactly(_) => vec![parts.disk.admit_bytes(stored)?],
            // Asked for each region.
            ContentSize::UpTo(_) => vec![],
        };
        Ok(Self {
            extents: parts.extents.clone(),
            syncs: parts.queue_of(kind).clone(),
            disk: parts.disk.clone(),
            kind,
            size,
            reserved: Vec::new(),
            reserved_bytes: 0,
            written: 0,
            sums: SumTable::default(),
            announced,
        })
    }

    /// Writes the next piece.
    fn write(&mut self, piece: &[u8]) -> Result<(), ContentError> {
        self.sums.add(piece);
        self.write_stored(piece)
    }

    /// Writes the sums behind the last piece.
    fn write_sums(&mut self) -> Result<(), ContentError> {
        let sums = std::mem::take(&mut self.sums);
        let written = self.write_stored(sums.bytes());
        self.sums = sums;
        written
    }

    fn write_stored(&mut self, mut bytes: &[u8]) -> Result<(), ContentError> {
        while !bytes.is_empty() {
            if self.written == self.reserved_bytes {
                self.reserve(bytes.len() as u64)?;
            }
            let last = self.reserved.last().expect("it was reserved just now");
            let left = self.reserved_bytes - self.written;
            let (fitting, rest) =
                bytes.split_at(bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            let at = last.region.offset + last.region.length - left;
            last.extent.extent.file.write_all_at(fitting, at).map_err(write_failed)?;
            self.written += fitting.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), ContentError> {
        let wanted = match self.size {
            ContentSize::Exactly(length) => stored_bytes(length),
            ContentSize::UpTo(length_max) => {
                // Regions end with a block, so that the next one goes on with one.
                let left = stored_bytes(length_max).saturating_sub(self.written);
                let wanted = left.clamp(bytes, REGION_BYTES_UNKNOWN.max(bytes));
                self.announced.push(self.disk.admit_bytes(wanted).map_err(|error| self.of_rows(error))?);
                wanted
            }
        };
        let reserved = self.extents.reserve(self.kind, wanted).map_err(|error| match error {
            ExtentError::File(cause) => write_failed(cause),
            ExtentError::Rows(error) => self.of_rows(error),
        })?;
        self.reserved_bytes += wanted;
        self.reserved.push(reserved);
        Ok(())
    }

    fn of_rows(&self, error: EngineError) -> ContentError {
        ContentError::of_rows(error, ContentId::MIN)
    }

    /// Waits until everything so far is synced, on a thread of its own.
    fn sync_blocking(&self) -> Result<(), ContentError> {
        for extent in self.extents() {
            self.syncs.sync_blocking(&extent.extent).map_err(not_synced)?;
        }
        Ok(())
    }

    /// The extents that hold it, each once.
    fn extents(&self) -> Vec<Arc<WrittenExtent>> {
        let mut extents: Vec<Arc<WrittenExtent>> = Vec::new();
        for reserved in &self.reserved {
            if extents.iter().all(|extent| extent.extent.number != reserved.region.extent) {
                extents.push(reserved.extent.clone());
            }
        }
        extents
    }

    /// The row of the index, and what it keeps.
    fn finish(mut self, owner: &Owner, id: ContentId, length: u64) -> (IndexRow, Vec<Reserved>) {
        let unused = self.reserved_bytes - self.written;
        if let Some(last) = self.reserved.last_mut() {
            last.cut(unused);
        }
        assert_eq!(self.written, stored_bytes(length), "everything was written");
        let row = IndexRow {
            length,
            sum: self.sums.sum(owner.space, id),
            partition: owner.partition.clone(),
            regions: self.reserved.iter().map(|reserved| reserved.region).collect(),
        };
        (row, self.reserved)
    }
}

/// A failure of the disk before anything was kept.
pub(crate) fn write_failed(cause: io::Error) -> ContentError {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ContentError::Full { free_bytes: 0 },
        _ => ContentError::Failed { cause: cause.into() },
    }
}

fn not_synced(_: NotSynced) -> ContentError {
    ContentError::Unavailable { reason: crate::commit::POISONED }
}

fn failed(cause: tokio::task::JoinError) -> ContentError {
    ContentError::Failed { cause: cause.into() }
}
