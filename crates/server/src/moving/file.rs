//! The file of one space: a header, chunks of rows, an end. `docs/formats.md` has its form.
//!
//! Every checksum has the one before it as its seed, so a chunk that is spoilt, missing, doubled or from another file
//! is noticed. A file without an end is unfinished: what is whole of it stays, and writing goes on behind that.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::{Context, bail};
use bytes::{Buf as _, Bytes};
use tavola_engine::{Position, ScannedRow, SpaceId};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::rows::{MovedRow, Sum, encode};

const MAGIC: &[u8; 8] = b"TAVROWS\x01";
/// Magic, space, checksum.
const HEADER_LEN: usize = 8 + 16 + 8;
/// Rows, payload length, checksum.
const CHUNK_HEAD_LEN: usize = 4 + 4 + 8;
/// Rows, bytes, checksum of the sum.
const END_LEN: usize = 8 + 8 + 8;
/// Bytes of rows after which a chunk is closed.
const CHUNK_BYTES: usize = 1024 * 1024;
/// Bytes that a chunk can have: one row may come on top, with keys and a body of a MiB and a bit.
const CHUNK_BYTES_MAX: usize = 16 * CHUNK_BYTES;

/// The name of the file of a space.
pub fn name_of(space: SpaceId) -> String {
    format!("{space}.rows")
}

/// What comes next in a file.
#[derive(Debug)]
pub enum Next {
    /// Some rows.
    Rows(Vec<MovedRow>),
    /// The end, and nothing behind it.
    End,
    /// Bytes that cannot be trusted, or none at all where there should be some.
    Spoilt(&'static str),
}

/// Reads the file of a space from its beginning.
pub struct RowReader {
    file: BufReader<File>,
    chain: u64,
    /// What was read so far.
    pub sum: Sum,
    /// Behind the last chunk that was whole.
    good_len: u64,
    last: Option<Position>,
}

impl RowReader {
    /// Opens a file; `None` if it does not even begin as the file of this space.
    pub fn open(path: &Path, space: SpaceId) -> io::Result<Option<Self>> {
        let mut file = BufReader::with_capacity(CHUNK_BYTES, File::open(path)?);
        let mut header = [0; HEADER_LEN];
        let is_whole = read_full(&mut file, &mut header)?;
        if !is_whole || header != header_of(space) {
            return Ok(None);
        }
        let chain = xxh3_64(&header[..HEADER_LEN - 8]);
        Ok(Some(Self { file, chain, sum: Sum::default(), good_len: HEADER_LEN as u64, last: None }))
    }

    /// The next chunk, checked.
    pub fn next(&mut self) -> io::Result<Next> {
        let mut head = [0; CHUNK_HEAD_LEN];
        if !read_full(&mut self.file, &mut head)? {
            return Ok(Next::Spoilt("it is cut short"));
        }
        let mut fields = &head[..];
        let (rows, len, checksum) = (fields.get_u32_le(), fields.get_u32_le(), fields.get_u64_le());
        let Some(len) = usize::try_from(len).ok().filter(|len| *len <= CHUNK_BYTES_MAX) else {
            return Ok(Next::Spoilt("a chunk is too long"));
        };
        let mut payload = vec![0; len];
        if !read_full(&mut self.file, &mut payload)? {
            return Ok(Next::Spoilt("it is cut short"));
        }
        if chunk_checksum(self.chain, &head[..8], &payload) != checksum {
            return Ok(Next::Spoilt("a checksum does not match"));
        }
        if rows == 0 {
            return self.end(&payload);
        }
        let Some(decoded) = self.decode(rows, &payload.into()) else {
            return Ok(Next::Spoilt("a chunk does not hold the rows it says"));
        };
        self.chain = checksum;
        self.good_len += (CHUNK_HEAD_LEN + len) as u64;
        Ok(Next::Rows(decoded))
    }

    fn decode(&mut self, rows: u32, payload: &Bytes) -> Option<Vec<MovedRow>> {
        let mut rest = payload.clone();
        let mut decoded: Vec<MovedRow> = Vec::new();
        let mut sum = self.sum;
        for _ in 0..rows {
            let begin = payload.len() - rest.len();
            let row = MovedRow::decode(&mut rest)?;
            sum.add(&payload[begin..payload.len() - rest.len()]);
            decoded.push(row);
        }
        let last = decoded.last()?;
        self.last = Some(Position::after(&last.partition, &last.row));
        self.sum = sum;
        rest.is_empty().then_some(decoded)
    }

    fn end(&mut self, payload: &[u8]) -> io::Result<Next> {
        let is_end = payload == encode_sum(&self.sum);
        let has_more = read_full(&mut self.file, &mut [0])?;
        Ok(match (is_end, has_more) {
            (true, false) => Next::End,
            (true, true) => Next::Spoilt("something follows its end"),
            (false, _) => Next::Spoilt("its end does not fit its rows"),
        })
    }
}

/// Reads a whole file again, and gives the sum of its rows.
pub fn check(path: &Path, space: SpaceId, mut seen: impl FnMut(u64)) -> anyhow::Result<Sum> {
    let mut reader = open_whole(path, space)?;
    loop {
        match reader.next().with_context(|| format!("cannot read {}", path.display()))? {
            Next::Rows(rows) => seen(rows.len() as u64),
            Next::End => return Ok(reader.sum),
            Next::Spoilt(what) => return Err(damaged(path, what)),
        }
    }
}

/// Opens a file that must be whole.
pub fn open_whole(path: &Path, space: SpaceId) -> anyhow::Result<RowReader> {
    let opened = RowReader::open(path, space).with_context(|| format!("cannot read {}", path.display()))?;
    opened.ok_or_else(|| damaged(path, "it does not begin as the file of its space"))
}

/// What a file that cannot be trusted is refused with.
pub fn damaged(path: &Path, what: &str) -> anyhow::Error {
    anyhow::anyhow!("{} is damaged: {what}", path.display())
}

/// A file that is being written.
pub struct RowWriter {
    file: File,
    chain: u64,
    /// What was written so far, and what waits for its chunk to be full.
    pub sum: Sum,
    /// Where the next row comes from.
    pub next: Position,
    /// The chunk under way: space for its head, then its rows.
    chunk: Vec<u8>,
    rows: u32,
}

/// A file as it was found.
pub enum Opened {
    /// It has its end.
    Whole(Sum),
    /// It is new, or was left unfinished.
    Unfinished(RowWriter),
}

impl RowWriter {
    /// Makes the file, or goes on behind what is whole of it.
    pub fn open(path: &Path, space: SpaceId) -> anyhow::Result<Opened> {
        let opened = Self::try_open(path, space);
        opened.with_context(|| format!("cannot write {}", path.display()))
    }

    fn try_open(path: &Path, space: SpaceId) -> anyhow::Result<Opened> {
        let mut file = File::options().create(true).truncate(false).write(true).open(path)?;
        let Some(mut reader) = RowReader::open(path, space)? else {
            if file.metadata()?.len() >= HEADER_LEN as u64 {
                bail!("it is damaged: remove the folder and export again");
            }
            let header = header_of(space);
            file.set_len(0)?;
            file.write_all(&header)?;
            let chain = xxh3_64(&header[..HEADER_LEN - 8]);
            return Ok(Opened::Unfinished(Self::new(file, chain, Sum::default(), Position::first())));
        };
        loop {
            match reader.next()? {
                Next::Rows(_) => {}
                Next::End => {
                    // Whoever wrote the end may have been killed before it was on the disk.
                    file.sync_all()?;
                    return Ok(Opened::Whole(reader.sum));
                }
                Next::Spoilt(_) => break,
            }
        }
        file.set_len(reader.good_len)?;
        file.seek(SeekFrom::End(0))?;
        let next = reader.last.unwrap_or_default();
        Ok(Opened::Unfinished(Self::new(file, reader.chain, reader.sum, next)))
    }

    fn new(file: File, chain: u64, sum: Sum, next: Position) -> Self {
        Self { file, chain, sum, next, chunk: vec![0; CHUNK_HEAD_LEN], rows: 0 }
    }

    /// Adds a row.
    pub fn push(&mut self, row: &ScannedRow<'_>) -> io::Result<()> {
        let begin = self.chunk.len();
        encode(row, &mut self.chunk);
        self.sum.add(&self.chunk[begin..]);
        self.rows += 1;
        if self.chunk.len() >= CHUNK_BYTES { self.write_chunk() } else { Ok(()) }
    }

    /// Writes what is left and the end, and makes all of it durable.
    pub fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_chunk()?;
        }
        self.chunk.extend_from_slice(&encode_sum(&self.sum));
        self.write_chunk()?;
        self.file.sync_all()
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        let len = u32::try_from(self.chunk.len() - CHUNK_HEAD_LEN).map_err(io::Error::other)?;
        self.chunk[..4].copy_from_slice(&self.rows.to_le_bytes());
        self.chunk[4..8].copy_from_slice(&len.to_le_bytes());
        let (head, payload) = self.chunk.split_at_mut(CHUNK_HEAD_LEN);
        self.chain = chunk_checksum(self.chain, &head[..8], payload);
        head[8..].copy_from_slice(&self.chain.to_le_bytes());
        self.file.write_all(&self.chunk)?;
        self.chunk.truncate(CHUNK_HEAD_LEN);
        self.rows = 0;
        Ok(())
    }
}

fn header_of(space: SpaceId) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(MAGIC);
    header[8..24].copy_from_slice(&space.0);
    let checksum = xxh3_64(&header[..HEADER_LEN - 8]);
    header[HEADER_LEN - 8..].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn chunk_checksum(chain: u64, head: &[u8], payload: &[u8]) -> u64 {
    let mut checksum = Xxh3::with_seed(chain);
    checksum.update(head);
    checksum.update(payload);
    checksum.digest()
}

fn encode_sum(sum: &Sum) -> [u8; END_LEN] {
    let mut out = [0; END_LEN];
    out[..8].copy_from_slice(&sum.rows.to_le_bytes());
    out[8..16].copy_from_slice(&sum.bytes.to_le_bytes());
    out[16..].copy_from_slice(&sum.checksum.to_le_bytes());
    out
}

/// Fills the buffer; false if the file ends before.
fn read_full(file: &mut BufReader<File>, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
