//! What several tests of the engine use: rows, folders and their sizes.

#![allow(dead_code, reason = "each test uses a part")]

pub mod reopened;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{SeekFrom, seek};
use tavola_engine::{
    BytesSource, Change, Content, ContentError, ContentSize, ContentStore, Decision, Engine, EngineError,
    Owner, ScanRange, SourceError, SpaceId,
};
use tavola_engine_local::{LocalEngine, LocalSettings, OpenError};
use tavola_system::SystemClock;

/// Small memtables, so that little data makes flushes and compaction.
pub fn small(folder: &Path) -> LocalSettings {
    LocalSettings { memory_bytes: 2 << 20, memtable_bytes: 64 << 10, ..LocalSettings::new(folder) }
}

pub fn open(settings: LocalSettings) -> Result<Arc<LocalEngine>, OpenError> {
    LocalEngine::open(settings, Arc::new(SystemClock))
}

pub fn space(number: u64) -> SpaceId {
    let mut id = [0x77; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    SpaceId(id)
}

/// Writes one row, or deletes it.
pub async fn put(
    engine: &LocalEngine,
    space: SpaceId,
    row: &[u8],
    body: Option<&[u8]>,
) -> Result<(), EngineError> {
    let body = body.map(Bytes::copy_from_slice);
    let mut decide = |_, _: &[_]| {
        Decision::Apply(vec![match &body {
            Some(body) => Change::Put { index: 0, body: body.clone() },
            None => Change::Delete { index: 0 },
        }])
    };
    engine.transact(space, b"p", &[row], &mut decide).await.map(|_| ())
}

/// All rows of a space.
pub async fn rows(engine: &LocalEngine, space: SpaceId) -> Result<BTreeMap<Vec<u8>, Bytes>, EngineError> {
    let mut rows = BTreeMap::new();
    let mut visit = |row: tavola_engine::ScannedRow<'_>| {
        rows.insert(row.row.to_vec(), row.body);
        ControlFlow::Continue(())
    };
    engine.scan(space, &ScanRange::all(), &mut visit).await?;
    Ok(rows)
}

/// All files below a folder.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.filter_map(Result::ok) {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => found.push(entry.path()),
                Err(_) => {}
            }
        }
    }
    found.sort();
    found
}

/// Bytes that the files of a folder take on the disk.
pub fn disk_bytes(root: &Path) -> u64 {
    files(root).iter().filter_map(|path| fs::metadata(path).ok()).map(|data| data.blocks() * 512).sum()
}

/// Copies a folder, which may be in use; files with holes keep them. What vanishes meanwhile is of a space that was dropped.
pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let Some(entries) = unless_gone(fs::read_dir(from)) else { return };
    for entry in entries.filter_map(unless_gone) {
        let target = to.join(entry.file_name());
        if unless_gone(entry.file_type()).is_some_and(|file_type| file_type.is_dir()) {
            copy_tree(&entry.path(), &target);
        } else {
            copy_sparse(&entry.path(), &target);
        }
    }
}

fn unless_gone<T>(result: std::io::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("cannot copy: {error}"),
    }
}

fn copy_sparse(from: &Path, to: &Path) {
    if unless_gone(fs::metadata(from)).is_none() {
        return;
    }
    let source = Sparse::read(from);
    let file = fs::File::create(to).unwrap();
    source.parts.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
    file.set_len(source.length).unwrap();
}

/// What a file holds, without its holes: a journal is mostly one.
#[derive(PartialEq, Eq)]
pub struct Sparse {
    pub length: u64,
    pub parts: Vec<(u64, Vec<u8>)>,
}

impl Sparse {
    pub fn read(path: &Path) -> Self {
        let Ok(file) = fs::File::open(path) else { return Self { length: 0, parts: Vec::new() } };
        let length = file.metadata().unwrap().len();
        let mut parts = Vec::new();
        let mut at = 0;
        while let Ok(start) = seek(&file, SeekFrom::Data(at)) {
            let end = seek(&file, SeekFrom::Hole(start)).unwrap();
            let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
            file.read_exact_at(&mut bytes, start).unwrap();
            parts.push((start, bytes));
            at = end;
        }
        Self { length, parts }
    }

    /// The bytes up to the zeros at their end.
    pub fn content(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, part) in &self.parts {
            bytes.resize(usize::try_from(*at).unwrap(), 0);
            bytes.extend_from_slice(part);
        }
        let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(length);
        bytes
    }
}

/// Chance that is the same in every run.
pub struct Chance(pub u64);

impl Chance {
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }
}

/// Bytes that follow from a number.
pub fn bytes_of(seed: u64, length: usize) -> Bytes {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&chance.draw().to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

/// Puts a content whose bytes follow from a number.
pub async fn put_content(engine: &LocalEngine, owner: &Owner, seed: u64, length: usize) -> Content {
    let mut source = BytesSource::new([bytes_of(seed, length)]);
    engine.contents().put(owner, ContentSize::Exactly(length as u64), &mut source).await.unwrap()
}

/// All bytes of a content.
pub async fn read_content(
    engine: &LocalEngine,
    space: SpaceId,
    content: &Content,
) -> Result<Vec<u8>, ContentError> {
    let mut source = engine.contents().read(space, content, 0..content.length).await?;
    let mut bytes = Vec::new();
    loop {
        match source.next().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => return Ok(bytes),
            Err(SourceError::Broken(cause)) => match cause.downcast::<ContentError>() {
                Ok(error) => return Err(*error),
                Err(cause) => panic!("{cause}"),
            },
            Err(error) => panic!("{error}"),
        }
    }
}
