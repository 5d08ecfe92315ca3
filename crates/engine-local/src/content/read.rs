//! Reading a content: whole pieces, each checked before it leaves, some ahead of the one that is used.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{
    ByteSource, Content, ContentCursor, ContentError, ContentId, PIECE_BYTES_MAX, SourceError, SpaceId,
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
        return Ok(Box::new(ContentSource {
            reading: Arc::new(reading),
            range,
            next: 0,
            end: 0,
            ahead: None,
            ready: VecDeque::new(),
        }));
    }
    let buffer = reading.buffer(next);
    let begun = tokio::task::spawn_blocking(move || {
        let first = reading.begin(next, buffer)?;
        Ok::<_, ContentError>((reading, first))
    });
    let (reading, first) = begun.await.map_err(|cause| ContentError::Failed { cause: cause.into() })??;
    Ok(Box::new(ContentSource {
        reading: Arc::new(reading),
        range,
        next,
        end,
        ahead: None,
        ready: VecDeque::from([Ok(first)]),
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
    /// Memory for a piece, with room for the sums of a content that has but one. It is taken by whoever asks for the piece
    /// and not by the thread that reads it: of threads there may be hundreds, and the allocator keeps for each what it
    /// has once taken, until it takes again.
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
            let length = self.piece_bytes(number);
            let mut bytes = self.read_range(buffer, length + self.table_bytes(), 0)?;
            self.set_sums(bytes[length..].to_vec())?;
            bytes.truncate(length);
            return self.check(number, bytes);
        }
        let table = Vec::with_capacity(self.table_bytes());
        let table = self.read_range(table, self.table_bytes(), self.row.length)?;
        self.set_sums(table)?;
        self.piece(number, buffer)
    }

    fn set_sums(&mut self, table: Vec<u8>) -> Result<(), ContentError> {
        let table = SumTable::decode(table, self.space, self.id, self.row.sum);
        self.sums = table.ok_or_else(|| self.damaged("the sums of its pieces are damaged"))?;
        Ok(())
    }

    /// Reads and checks a piece.
    fn piece(&self, number: u64, buffer: Vec<u8>) -> Result<Bytes, ContentError> {
        let bytes = self.read_range(buffer, self.piece_bytes(number), number * PIECE)?;
        self.check(number, bytes)
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

    fn check(&self, number: u64, bytes: Vec<u8>) -> Result<Bytes, ContentError> {
        if !self.sums.matches(number, &bytes) {
            return Err(self.damaged("a piece is damaged"));
        }
        Ok(bytes.into())
    }

    /// Fills an empty buffer that has room for so many bytes.
    fn read_range(&self, buffer: Vec<u8>, length: usize, at: u64) -> Result<Vec<u8>, ContentError> {
        read_range(&self.extents, &self.row.regions, buffer, length, at).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.damaged("its extent is missing"),
            io::ErrorKind::UnexpectedEof => self.damaged("its extent is cut"),
            _ => ContentError::Failed { cause: error.into() },
        })
    }

    fn damaged(&self, what: &'static str) -> ContentError {
        tracing::error!(space = %self.space, content = %self.id, what, "a content is damaged");
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
    let mut start = at;
    for region in regions {
        if start < region.length {
            if region.length - start >= length as u64 {
                let extent = extents.file(region.extent)?;
                return read_exactly(&extent.file, buffer, length, region.offset + start);
            }
            break;
        }
        start -= region.length;
    }
    buffer.resize(length, 0);
    read_stored(extents, regions, &mut buffer, at)?;
    Ok(buffer)
}

fn read_exactly(file: &File, mut buffer: Vec<u8>, length: usize, offset: u64) -> io::Result<Vec<u8>> {
    assert!(buffer.is_empty() && buffer.capacity() >= length, "the buffer has room");
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
        self.ask_ahead();
        let within =
            |offset: u64| usize::try_from(offset.clamp(at, at + PIECE) - at).expect("within a piece");
        let end = within(self.range.end).min(piece.len());
        Ok(Some(piece.slice(within(self.range.start)..end)))
    }
}
