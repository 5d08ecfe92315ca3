//! Reading a content: whole pieces, each checked before it leaves.
//!
//! What the kernel has in memory is read where it is asked for, into the same few buffers again and again: handing over to
//! another thread would take a good part of the time of a piece. What has to come from the disk is read by the blocking
//! pool, ahead of the piece that is used.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{
    ByteSource, BytesSource, Content, ContentCursor, ContentError, ContentId, PIECE_BYTES_MAX, SourceError,
    SpaceId,
};
use tokio::task::JoinHandle;

use super::extents::Extents;
use super::index::{Index, IndexRow, Region};
use super::readers::{ReaderGuard, Readers};
use super::sums::{SUM_BYTES, SumTable, piece_count};

const PIECE: u64 = PIECE_BYTES_MAX as u64;
/// Pieces that are read by one task: handing over to another thread takes a good part of the time of a piece.
const PIECES_AT_ONCE: u64 = 4;
/// The next pieces are asked for when so few are left.
const PIECES_LEFT_MIN: usize = 2;
/// After so many pieces that were in memory, other work of the thread has its turn.
const PIECES_IN_TURN: u64 = 4;

/// Begins a read. The first piece has been checked when this returns.
pub(crate) async fn read(
    index: &Index,
    extents: &Arc<Extents>,
    readers: &Arc<Readers>,
    space: SpaceId,
    content: &Content,
    range: Range<u64>,
) -> Result<Box<dyn ByteSource>, ContentError> {
    assert!(range.start <= range.end && range.end <= content.length, "the range is within the content");
    let id = content.id;
    // Before the look into the index: what is found there stays until this is dropped.
    let guard = readers.note(ContentCursor { space, id });
    let row = index.get(space, id).map_err(|error| ContentError::of_rows(error, id))?;
    let row = row.ok_or(ContentError::Missing { space, id })?;
    if row.length != content.length {
        return Err(ContentError::Damaged { space, id, what: "it has another length" });
    }
    let mut reading =
        Reading { space, id, row, sums: SumTable::default(), extents: extents.clone(), _guard: guard };
    let next = range.start / PIECE;
    let end = range.end.div_ceil(PIECE);
    if range.is_empty() {
        return Ok(Box::new(BytesSource::default()));
    }
    let in_memory = reading.begin_in_memory(next)?;
    let is_on_disk = in_memory.is_none();
    let (reading, first) = match in_memory {
        Some(first) => (reading, first),
        None => {
            let buffer = reading.buffer(next);
            let begun = tokio::task::spawn_blocking(move || {
                let first = reading.begin(next, buffer)?;
                Ok::<_, ContentError>((reading, first))
            });
            begun.await.map_err(|cause| ContentError::Failed { cause: cause.into() })??
        }
    };
    Ok(Box::new(ContentSource {
        reading: Arc::new(reading),
        range,
        next,
        end,
        ready: VecDeque::from([Ok(first)]),
        ahead: None,
        is_on_disk,
        buffers: Arc::default(),
    }))
}

/// A content that is being read.
struct Reading {
    space: SpaceId,
    id: ContentId,
    row: IndexRow,
    sums: SumTable,
    extents: Arc<Extents>,
    _guard: ReaderGuard,
}

impl Reading {
    /// Memory for a piece, with space for the sums of a content that has only one. It is taken by whoever asks for
    /// the piece and not by the thread that reads it: of threads there may be hundreds, and the allocator keeps for
    /// each what it has once taken, until it takes again.
    fn buffer(&self, number: u64) -> Vec<u8> {
        let is_only = piece_count(self.row.length) == 1;
        Vec::with_capacity(self.piece_bytes(number) + if is_only { self.table_bytes() } else { 0 })
    }

    fn piece_bytes(&self, number: u64) -> usize {
        usize::try_from((self.row.length - number * PIECE).min(PIECE)).expect("at most a piece")
    }

    fn table_bytes(&self) -> usize {
        usize::try_from(piece_count(self.row.length) * SUM_BYTES).unwrap_or(usize::MAX)
    }

    /// Reads the sums and one piece. A content of one piece is read with its sums at once.
    fn begin(&mut self, number: u64, buffer: Vec<u8>) -> Result<Bytes, ContentError> {
        if piece_count(self.row.length) == 1 {
            let bytes = self.read_range(buffer, self.piece_bytes(number) + self.table_bytes(), 0)?;
            return self.only_piece(bytes);
        }
        let table = Vec::with_capacity(self.table_bytes());
        let table = self.read_range(table, self.table_bytes(), self.row.length)?;
        self.set_sums(table)?;
        self.piece(number, buffer)
    }

    /// The same, of what the kernel has in memory; `None` if that is not all of it.
    fn begin_in_memory(&mut self, number: u64) -> Result<Option<Bytes>, ContentError> {
        let read = |length: usize, at| {
            let mut bytes = vec![0; length];
            self.is_read_in_memory(&mut bytes, at).then_some(bytes)
        };
        if piece_count(self.row.length) == 1 {
            let bytes = read(self.piece_bytes(number) + self.table_bytes(), 0);
            return bytes.map(|bytes| self.only_piece(bytes)).transpose();
        }
        let table = read(self.table_bytes(), self.row.length);
        let piece = read(self.piece_bytes(number), number * PIECE);
        let (Some(table), Some(piece)) = (table, piece) else { return Ok(None) };
        self.set_sums(table)?;
        self.check(number, &piece)?;
        Ok(Some(piece.into()))
    }

    /// The piece of a content that has only one, read together with its sums.
    fn only_piece(&mut self, mut bytes: Vec<u8>) -> Result<Bytes, ContentError> {
        let length = self.piece_bytes(0);
        self.set_sums(bytes[length..].to_vec())?;
        bytes.truncate(length);
        self.check(0, &bytes)?;
        Ok(bytes.into())
    }

    fn set_sums(&mut self, table: Vec<u8>) -> Result<(), ContentError> {
        let table = SumTable::decode(table, self.space, self.id, self.row.sum);
        self.sums = table.ok_or_else(|| self.damaged("the sums of its pieces are damaged"))?;
        Ok(())
    }

    /// Reads and checks a piece.
    fn piece(&self, number: u64, buffer: Vec<u8>) -> Result<Bytes, ContentError> {
        let bytes = self.read_range(buffer, self.piece_bytes(number), number * PIECE)?;
        self.check(number, &bytes)?;
        Ok(bytes.into())
    }

    /// Reads and checks a piece that the kernel has in memory; `None` if it has not.
    fn piece_in_memory(&self, number: u64, buffers: &Arc<Buffers>) -> Option<Result<Bytes, ContentError>> {
        let mut buffer = buffers.take(self.piece_bytes(number));
        let is_read = self.is_read_in_memory(&mut buffer.bytes, number * PIECE);
        is_read.then(|| self.check(number, &buffer.bytes).map(|()| Bytes::from_owner(buffer)))
    }

    /// Reads and checks pieces from a number on, one for each buffer, up to the first that is damaged.
    fn pieces(&self, first: u64, buffers: Vec<Vec<u8>>) -> VecDeque<Result<Bytes, ContentError>> {
        let mut pieces = VecDeque::new();
        for (number, buffer) in (first..).zip(buffers) {
            pieces.push_back(self.piece(number, buffer));
            if pieces.back().is_some_and(Result::is_err) {
                break;
            }
        }
        pieces
    }

    fn check(&self, number: u64, bytes: &[u8]) -> Result<(), ContentError> {
        if self.sums.matches(number, bytes) { Ok(()) } else { Err(self.damaged("a piece is damaged")) }
    }

    /// Fills a buffer if the kernel has all of its bytes in memory, and in one region.
    fn is_read_in_memory(&self, buffer: &mut [u8], at: u64) -> bool {
        let Some((region, at)) = region_of(&self.row.regions, at, buffer.len()) else { return false };
        // Whatever is wrong is told by those who read it again from the disk.
        let Ok(extent) = self.extents.file(region.extent) else { return false };
        let length = buffer.len();
        read_in_memory(&extent.file, buffer, region.offset + at).is_ok_and(|read| read == length)
    }

    /// Fills an empty buffer with a capacity of so many bytes.
    fn read_range(&self, buffer: Vec<u8>, length: usize, at: u64) -> Result<Vec<u8>, ContentError> {
        read_range(&self.extents, &self.row.regions, buffer, length, at).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.damaged("its extent is missing"),
            io::ErrorKind::UnexpectedEof => self.damaged("its extent is cut"),
            _ => ContentError::Failed { cause: error.into() },
        })
    }

    fn damaged(&self, what: &'static str) -> ContentError {
        tracing::error!(space = %self.space, content = %self.id, what, "a content of a blob is damaged");
        ContentError::Damaged { space: self.space, id: self.id, what }
    }
}

/// Fills an empty buffer with so many bytes of regions one after the other, from an offset on. Bytes that are in one region
/// are read into memory that nobody has filled with zeros before.
fn read_range(
    extents: &Extents,
    regions: &[Region],
    mut buffer: Vec<u8>,
    length: usize,
    at: u64,
) -> io::Result<Vec<u8>> {
    if let Some((region, start)) = region_of(regions, at, length) {
        let extent = extents.file(region.extent)?;
        return read_exactly(&extent.file, buffer, length, region.offset + start);
    }
    buffer.resize(length, 0);
    read_stored(extents, regions, &mut buffer, at)?;
    Ok(buffer)
}

/// The region that has all of so many bytes from an offset on, and where in it they begin.
fn region_of(regions: &[Region], mut at: u64, length: usize) -> Option<(&Region, u64)> {
    for region in regions {
        if at < region.length {
            return (region.length - at >= length as u64).then_some((region, at));
        }
        at -= region.length;
    }
    None
}

/// Reads what the kernel has in memory. Does not wait for a disk: then it gives fewer bytes, or an error.
#[cfg(target_os = "linux")]
fn read_in_memory(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let slices = &mut [io::IoSliceMut::new(buffer)];
    Ok(rustix::io::preadv2(file, slices, offset, rustix::io::ReadWriteFlags::NOWAIT)?)
}

/// Nobody can tell what the kernel has in memory.
#[cfg(not(target_os = "linux"))]
fn read_in_memory(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

fn read_exactly(file: &File, mut buffer: Vec<u8>, length: usize, offset: u64) -> io::Result<Vec<u8>> {
    assert!(buffer.is_empty() && buffer.capacity() >= length, "the buffer is large enough");
    while buffer.len() < length {
        let at = offset + buffer.len() as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut buffer), at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The memory may be larger than was asked for, and then more was read.
    buffer.truncate(length);
    Ok(buffer)
}

/// Fills a buffer with the bytes of regions one after the other, from an offset on.
pub(crate) fn read_stored(
    extents: &Extents,
    regions: &[Region],
    mut buffer: &mut [u8],
    mut at: u64,
) -> io::Result<()> {
    for region in regions {
        if buffer.is_empty() {
            return Ok(());
        }
        if at >= region.length {
            at -= region.length;
            continue;
        }
        let here = usize::try_from(region.length - at).unwrap_or(usize::MAX).min(buffer.len());
        let (filled, rest) = buffer.split_at_mut(here);
        extents.file(region.extent)?.file.read_exact_at(filled, region.offset + at)?;
        buffer = rest;
        at = 0;
    }
    if buffer.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Memory of pieces that have been sent, for the next ones: it stays in the processor's cache.
#[derive(Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

/// A piece whose memory goes back when it has been sent.
struct Buffer {
    bytes: Vec<u8>,
    home: Arc<Buffers>,
}

impl Buffers {
    /// A buffer of this length, with anything in it.
    fn take(self: &Arc<Self>, length: usize) -> Buffer {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        bytes.resize(length, 0);
        Buffer { bytes, home: self.clone() }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.home.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

/// The bytes of a range, piece by piece.
struct ContentSource {
    reading: Arc<Reading>,
    range: Range<u64>,
    /// The piece to give next, and the one behind the last.
    next: u64,
    end: u64,
    /// Pieces from the next one on.
    ready: VecDeque<Result<Bytes, ContentError>>,
    /// The pieces behind them, on their way.
    ahead: Option<JoinHandle<VecDeque<Result<Bytes, ContentError>>>>,
    /// A piece was not in memory: those behind it are read ahead.
    is_on_disk: bool,
    buffers: Arc<Buffers>,
}

impl ContentSource {
    /// Asks for the pieces behind those that are there.
    fn ask_ahead(&mut self) {
        let first = self.next + self.ready.len() as u64;
        if self.ahead.is_none() && self.ready.len() <= PIECES_LEFT_MIN && first < self.end {
            let numbers = first..self.end.min(first + PIECES_AT_ONCE);
            let buffers = numbers.map(|number| self.reading.buffer(number)).collect();
            let reading = self.reading.clone();
            self.ahead = Some(tokio::task::spawn_blocking(move || reading.pieces(first, buffers)));
        }
    }
}

#[async_trait]
impl ByteSource for ContentSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        if self.next >= self.end {
            return Ok(None);
        }
        if self.ready.is_empty() && !self.is_on_disk {
            if self.next.is_multiple_of(PIECES_IN_TURN) {
                tokio::task::yield_now().await;
            }
            self.ready.extend(self.reading.piece_in_memory(self.next, &self.buffers));
            self.is_on_disk = self.ready.is_empty();
        }
        if self.ready.is_empty() {
            self.ask_ahead();
            if let Some(ahead) = &mut self.ahead {
                let pieces = ahead.await;
                self.ahead = None;
                self.ready = pieces.map_err(|cause| SourceError::Broken(cause.into()))?;
            }
        }
        let piece =
            self.ready.pop_front().ok_or_else(|| SourceError::Broken("there are no pieces".into()))?;
        let piece = piece.map_err(|error| SourceError::Broken(error.into()))?;
        let at = self.next * PIECE;
        self.next += 1;
        if self.is_on_disk {
            self.ask_ahead();
        }
        let within =
            |offset: u64| usize::try_from(offset.clamp(at, at + PIECE) - at).expect("within a piece");
        let end = within(self.range.end).min(piece.len());
        Ok(Some(piece.slice(within(self.range.start)..end)))
    }
}
