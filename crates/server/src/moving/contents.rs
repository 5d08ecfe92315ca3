//! Contents of blobs on their way from store to store: a file for each space that has some. `docs/formats.md` has its form.
//!
//! Every checksum has the one before it as its seed, as in the files of rows. A file without an end is unfinished: what is
//! whole of it stays, and writing goes on behind that. Contents never change, so ids, lengths and owners tell whether two
//! stores have the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, bail};
use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{
    ByteSource, Content, ContentCursor, ContentError, ContentId, ContentStore, FoundContent, Owner,
    PIECE_BYTES_MAX, SourceError, SpaceId,
};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

use super::file::damaged;
use super::progress::Progress;
use super::rows::Sum;

const MAGIC: &[u8; 8] = b"TAVCONT\x01";
/// Magic, space, checksum.
const HEADER_LEN: usize = 8 + 16 + 8;
/// Id, length, length of the owner's partition.
const HEAD_LEN: usize = 16 + 8 + 4;
/// Stands for the end in place of an id; its length is the number of contents.
const END: ContentId = ContentId([0xFF; 16]);
/// Contents that are looked at between two visits.
const PAGE: usize = 1000;

/// The name of the file of a space.
pub fn name_of(space: SpaceId) -> String {
    format!("{space}.contents")
}

/// The sum of each space that has contents.
pub async fn sums_of(contents: &dyn ContentStore) -> anyhow::Result<BTreeMap<SpaceId, Sum>> {
    let mut sums = BTreeMap::<SpaceId, Sum>::new();
    let mut visit = |found: &FoundContent| {
        add(sums.entry(found.owner.space).or_default(), found);
        ControlFlow::Continue(())
    };
    contents.visit(None, &mut visit).await.context("cannot list the contents of blobs")?;
    Ok(sums)
}

fn add(sum: &mut Sum, found: &FoundContent) {
    sum.rows += 1;
    sum.bytes += found.content.length;
    sum.checksum = xxh3_64_with_seed(&head_of(&found.content, &found.owner.partition), sum.checksum);
}

fn head_of(content: &Content, partition: &[u8]) -> Vec<u8> {
    let partition_len = u32::try_from(partition.len()).expect("the name of an owner is short");
    let mut head = content.id.0.to_vec();
    head.extend_from_slice(&content.length.to_le_bytes());
    head.extend_from_slice(&partition_len.to_le_bytes());
    head.extend_from_slice(partition);
    head
}

fn header_of(space: SpaceId) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(MAGIC);
    header[8..24].copy_from_slice(&space.0);
    let checksum = xxh3_64(&header[..24]);
    header[24..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Writes the file of a space, or the rest of it.
pub async fn write_space(
    contents: &dyn ContentStore,
    space: SpaceId,
    path: &Path,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let begun = Begun::read(path, space).with_context(cannot)?;
    progress.skip(begun.sum.rows);
    if begun.is_whole {
        return Ok(());
    }
    let mut file =
        File::options().create(true).truncate(false).write(true).open(path).with_context(cannot)?;
    file.set_len(begun.good_len).and_then(|()| file.seek(SeekFrom::End(0))).with_context(cannot)?;
    let mut writer = Writer { file: BufWriter::with_capacity(1 << 20, file), chain: begun.chain };
    if begun.good_len == 0 {
        writer.file.write_all(&header_of(space)).with_context(cannot)?;
    }
    let mut count = begun.sum.rows;
    let mut from = begun.last.map_or(ContentCursor::space_start(space), |id| ContentCursor { space, id });
    loop {
        let page = page_behind(contents, from).await?;
        for found in &page {
            writer.push(contents, found).await.with_context(cannot)?;
            progress.add(1);
            count += 1;
        }
        match page.last() {
            Some(last) => from = last.cursor(),
            None => break,
        }
    }
    writer.finish(count).with_context(cannot)
}

/// Some contents of the cursor's space behind it; none at the end.
async fn page_behind(contents: &dyn ContentStore, from: ContentCursor) -> anyhow::Result<Vec<FoundContent>> {
    let mut page = Vec::new();
    let mut visit = |found: &FoundContent| {
        if found.owner.space != from.space || page.len() >= PAGE {
            return ControlFlow::Break(());
        }
        page.push(found.clone());
        ControlFlow::Continue(())
    };
    contents.visit(Some(from), &mut visit).await.context("cannot list the contents of blobs")?;
    Ok(page)
}

struct Writer {
    file: BufWriter<File>,
    chain: u64,
}

impl Writer {
    async fn push(&mut self, contents: &dyn ContentStore, found: &FoundContent) -> anyhow::Result<()> {
        let Content { id, length } = found.content;
        let mut sum = Xxh3::with_seed(self.chain);
        let head = head_of(&found.content, &found.owner.partition);
        sum.update(&head);
        self.file.write_all(&head)?;
        let mut source = contents
            .read(found.owner.space, &found.content, 0..length)
            .await
            .with_context(|| format!("cannot read content {id}"))?;
        while let Some(piece) = source.next().await.with_context(|| format!("cannot read content {id}"))? {
            sum.update(&piece);
            self.file.write_all(&piece)?;
        }
        self.chain = sum.digest();
        Ok(self.file.write_all(&self.chain.to_le_bytes())?)
    }

    fn finish(mut self, count: u64) -> anyhow::Result<()> {
        let head = head_of(&Content { id: END, length: count }, &[]);
        self.file.write_all(&head)?;
        self.file.write_all(&xxh3_64_with_seed(&head, self.chain).to_le_bytes())?;
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(())
    }
}

/// What is whole of a file.
#[derive(Default)]
struct Begun {
    good_len: u64,
    chain: u64,
    sum: Sum,
    last: Option<ContentId>,
    is_whole: bool,
}

impl Begun {
    fn read(path: &Path, space: SpaceId) -> io::Result<Self> {
        let chain = xxh3_64(&header_of(space)[..24]);
        let mut begun = Self { chain, ..Self::default() };
        let mut reader = match ContentReader::open(path, space) {
            Ok(Some(reader)) => reader,
            Ok(None) => return Ok(begun),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(begun),
            Err(error) => return Err(error),
        };
        begun.good_len = HEADER_LEN as u64;
        loop {
            match reader.next()? {
                Next::Content(found) => {
                    if reader.skip(found.content.length)?.is_some() {
                        return Ok(begun);
                    }
                    add(&mut begun.sum, &found);
                    (begun.good_len, begun.chain) = (reader.at, reader.chain);
                    begun.last = Some(found.content.id);
                }
                Next::End => {
                    begun.is_whole = true;
                    return Ok(begun);
                }
                Next::Spoilt(_) => return Ok(begun),
            }
        }
    }
}

/// What comes next in a file.
enum Next {
    /// A content, whose bytes follow.
    Content(FoundContent),
    /// The end, and nothing behind it.
    End,
    /// Bytes that cannot be trusted, or none at all where there should be some.
    Spoilt(&'static str),
}

/// Reads the file of a space from its beginning.
struct ContentReader {
    file: BufReader<File>,
    space: SpaceId,
    at: u64,
    count: u64,
    /// The checksum of the last content that was read to its end, and the one that is being made.
    chain: u64,
    making: Xxh3,
}

const CUT: &str = "it is cut short";
const SPOILT: &str = "a checksum does not match";

impl ContentReader {
    /// Opens a file; `None` if it does not even begin as the file of this space.
    fn open(path: &Path, space: SpaceId) -> io::Result<Option<Self>> {
        let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
        let mut header = [0; HEADER_LEN];
        if !read_full(&mut file, &mut header)? || header != header_of(space) {
            return Ok(None);
        }
        let chain = xxh3_64(&header[..24]);
        Ok(Some(Self { file, space, at: HEADER_LEN as u64, count: 0, chain, making: Xxh3::new() }))
    }

    /// The next content. Its bytes must be read before the next one is asked for.
    fn next(&mut self) -> io::Result<Next> {
        let mut head = [0; HEAD_LEN];
        if !read_full(&mut self.file, &mut head)? {
            return Ok(Next::Spoilt(CUT));
        }
        let id = ContentId(head[..16].try_into().expect("sixteen bytes"));
        let length = u64::from_le_bytes(head[16..24].try_into().expect("eight bytes"));
        let partition_len = u32::from_le_bytes(head[24..].try_into().expect("four bytes"));
        let partition_len = usize::try_from(partition_len).unwrap_or(usize::MAX);
        if partition_len > Owner::PARTITION_BYTES_MAX {
            return Ok(Next::Spoilt(SPOILT));
        }
        let mut partition = vec![0; partition_len];
        if !read_full(&mut self.file, &mut partition)? {
            return Ok(Next::Spoilt(CUT));
        }
        self.making = Xxh3::with_seed(self.chain);
        self.making.update(&head);
        self.making.update(&partition);
        self.at += (HEAD_LEN + partition_len) as u64;
        if id == END {
            let is_good = self.end_content()?.is_none() && length == self.count && partition.is_empty();
            let is_last = !read_full(&mut self.file, &mut [0])?;
            return Ok(if is_good && is_last { Next::End } else { Next::Spoilt(SPOILT) });
        }
        self.count += 1;
        let owner = Owner { space: self.space, partition };
        Ok(Next::Content(FoundContent { content: Content { id, length }, owner }))
    }

    /// Some bytes of a content of which so many are left.
    fn piece(&mut self, left: u64) -> io::Result<Option<Bytes>> {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES_MAX);
        let mut piece = vec![0; length];
        if !read_full(&mut self.file, &mut piece)? {
            return Ok(None);
        }
        self.making.update(&piece);
        self.at += length as u64;
        Ok(Some(piece.into()))
    }

    /// Checks what is behind the bytes of a content; tells what is wrong.
    fn end_content(&mut self) -> io::Result<Option<&'static str>> {
        let mut checksum = [0; 8];
        if !read_full(&mut self.file, &mut checksum)? {
            return Ok(Some(CUT));
        }
        self.chain = self.making.digest();
        self.at += 8;
        Ok((self.chain.to_le_bytes() != checksum).then_some(SPOILT))
    }

    /// Reads the bytes of a content and forgets them; tells what is wrong.
    fn skip(&mut self, length: u64) -> io::Result<Option<&'static str>> {
        let mut left = length;
        while left > 0 {
            let Some(piece) = self.piece(left)? else { return Ok(Some(CUT)) };
            left -= piece.len() as u64;
        }
        self.end_content()
    }
}

/// The bytes of one content in a file.
struct FileSource<'a> {
    reader: &'a mut ContentReader,
    left: u64,
    /// What became of it, once it is read to its end.
    is_whole: bool,
}

#[async_trait]
impl ByteSource for FileSource<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        let broken = |what: &str| SourceError::Broken(what.into());
        if self.left == 0 {
            if !self.is_whole {
                let wrong = self.reader.end_content().map_err(|error| SourceError::Broken(error.into()))?;
                wrong.map_or(Ok(()), |what| Err(broken(what)))?;
                self.is_whole = true;
            }
            return Ok(None);
        }
        let piece = self.reader.piece(self.left).map_err(|error| SourceError::Broken(error.into()))?;
        let piece = piece.ok_or_else(|| broken(CUT))?;
        self.left -= piece.len() as u64;
        Ok(Some(piece))
    }
}

/// Reads a whole file, and gives its sum if all of it can be trusted.
pub fn check(path: &Path, space: SpaceId, progress: &mut Progress) -> anyhow::Result<Sum> {
    let mut reader = open_whole(path, space)?;
    let mut sum = Sum::default();
    loop {
        match reader.next().with_context(|| format!("cannot read {}", path.display()))? {
            Next::Content(found) => {
                if let Some(what) = reader.skip(found.content.length)? {
                    return Err(damaged(path, what));
                }
                add(&mut sum, &found);
                progress.add(1);
            }
            Next::End => return Ok(sum),
            Next::Spoilt(what) => return Err(damaged(path, what)),
        }
    }
}

fn open_whole(path: &Path, space: SpaceId) -> anyhow::Result<ContentReader> {
    let opened =
        ContentReader::open(path, space).with_context(|| format!("cannot open {}", path.display()))?;
    opened.ok_or_else(|| damaged(path, "it is not the file of this space"))
}

/// Loads the contents of a file that are not there yet.
pub async fn load_space(
    contents: &dyn ContentStore,
    space: SpaceId,
    path: &Path,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let mut reader = open_whole(path, space)?;
    loop {
        let found = match reader.next()? {
            Next::Content(found) => found,
            Next::End => return Ok(()),
            Next::Spoilt(what) => return Err(damaged(path, what)),
        };
        let Content { id, length } = found.content;
        match contents.read(space, &found.content, 0..0).await {
            Ok(_) => {
                progress.skip(1);
                if let Some(what) = reader.skip(length)? {
                    return Err(damaged(path, what));
                }
            }
            Err(ContentError::Missing { .. }) => {
                let mut source = FileSource { reader: &mut reader, left: length, is_whole: false };
                let loaded = contents.load(&found.owner, &found.content, &mut source).await;
                loaded.with_context(|| {
                    format!("cannot write content {id} to the store (run the import again, and it goes on)")
                })?;
                progress.add(1);
            }
            Err(error) => return Err(error).context("cannot read the store"),
        }
    }
}

/// Reads every content of a file back from the store and compares it.
pub async fn compare_space(
    contents: &dyn ContentStore,
    space: SpaceId,
    path: &Path,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let mut reader = open_whole(path, space)?;
    loop {
        let found = match reader.next()? {
            Next::Content(found) => found,
            Next::End => return Ok(()),
            Next::Spoilt(what) => return Err(damaged(path, what)),
        };
        let Content { id, length } = found.content;
        let mut source = FileSource { reader: &mut reader, left: length, is_whole: false };
        let expected =
            digest(&mut source).await.with_context(|| format!("cannot read {}", path.display()))?;
        let mut stored = contents
            .read(space, &found.content, 0..length)
            .await
            .with_context(|| format!("cannot read content {id} back"))?;
        let stored =
            digest(stored.as_mut()).await.with_context(|| format!("cannot read content {id} back"))?;
        if stored != expected {
            bail!("content {id} of space {space} is not what was exported");
        }
        progress.add(1);
    }
}

async fn digest(source: &mut dyn ByteSource) -> Result<(u64, u128), SourceError> {
    let (mut length, mut sum) = (0, Xxh3::new());
    while let Some(piece) = source.next().await? {
        length += piece.len() as u64;
        sum.update(&piece);
    }
    Ok((length, sum.digest128()))
}

/// Fills the buffer; `false` if the file ends before.
fn read_full(file: &mut BufReader<File>, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
