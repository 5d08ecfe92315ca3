//! Page blobs: pages written, cleared and read. `page_ranges.rs` lists them.
//!
//! Pages are kept in cells. A snapshot keeps the generations of cells that there are, and the blob goes on in a fresh
//! one: a cell is that of the first generation that has it, and cells of older generations never change.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{
    ByteSource, BytesSource, Change, ContentId, ContentSize, ContentStore, Engine, Position, ScanRange,
    ScannedRow, SourceError, StoredRow,
};
use tavola_model::{
    AccountName, BlobConditions, BlobKind, BlockWritten, Changed, ClearPages, DateTime, ErrorCode,
    PAGE_BYTES, PutPages, SequenceConditions, ServiceError,
};

use super::Blobs;
use super::cell::{CELL_BYTES, CELL_PAGES, Cell};
use super::change::{BlobLocation, existing_in, put_record};
use super::conditions::{Unmet, check_write};
use super::get::Content;
use super::pieces::{Data, PieceSource};
use super::put::{ATTEMPTS_MAX, settle};
use super::receive::Unnamed;
use super::record::Record;
use super::rows::{PAGES, RECORD_ROW, damaged, page_row, split_row};
use crate::catalog::to_its_end;
use crate::failure::Failure;

/// Cells that are looked up in one go while pages are read: 4 MiB.
pub(crate) const CELLS_A_STEP: u64 = 64;
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Which pages are written, and when.
struct PageWrite {
    first: u64,
    length: u64,
    sequence: SequenceConditions,
    conditions: BlobConditions,
}

struct PagesDone {
    changed: DateTime,
    sequence: u64,
    /// Contents that may not be named any more, and the cells that could.
    replaced: Vec<(ContentId, Range<u64>)>,
}

impl Blobs {
    pub async fn put_pages(
        self: &Arc<Self>,
        account: &AccountName,
        put: PutPages,
        upload: Option<&mut dyn ByteSource>,
    ) -> Result<tavola_model::PagesWritten, Failure> {
        let location = self.location(account, &put.blob).await?;
        let PutPages { first, length, sums, sequence, conditions, .. } = put;
        let write = PageWrite { first, length, sequence, conditions };
        let record = self.record(&location).await?.ok_or(ErrorCode::BlobNotFound)?;
        check(&record, &write, self.clock.now())?;
        let mut empty = BytesSource::default();
        let upload = upload.unwrap_or(&mut empty);
        let (unnamed, counted) =
            self.receive(&location, upload, ContentSize::Exactly(length), &sums, sums.tells_md5).await?;
        let done = self.write_pages(location, write, Some(unnamed)).await?;
        let sums = counted.told(&sums);
        Ok(tavola_model::PagesWritten { changed: Changed(done.changed), sequence: done.sequence, sums })
    }

    pub async fn clear_pages(
        self: &Arc<Self>,
        account: &AccountName,
        clear: ClearPages,
    ) -> Result<tavola_model::PagesWritten, Failure> {
        let location = self.location(account, &clear.blob).await?;
        let ClearPages { first, length, sequence, conditions, .. } = clear;
        let write = PageWrite { first, length, sequence, conditions };
        let done = self.write_pages(location, write, None).await?;
        let sums = BlockWritten { md5: None, crc64: None };
        Ok(tavola_model::PagesWritten { changed: Changed(done.changed), sequence: done.sequence, sums })
    }

    async fn write_pages(
        self: &Arc<Self>,
        location: BlobLocation,
        write: PageWrite,
        unnamed: Option<Unnamed>,
    ) -> Result<PagesDone, Failure> {
        let blobs = self.clone();
        to_its_end(async move {
            let data = unnamed.as_ref().map(Unnamed::data);
            let done = blobs.write_cells(&location, &write, data.as_ref()).await;
            settle(unnamed, &done);
            let done = done?;
            if !done.replaced.is_empty() {
                blobs.drop_replaced(&location, &done.replaced);
            }
            Ok(done)
        })
        .await
    }

    async fn write_cells(
        &self,
        location: &BlobLocation,
        write: &PageWrite,
        data: Option<&Data>,
    ) -> Result<PagesDone, Failure> {
        let end = write.first + write.length;
        let cells: Vec<u64> = (write.first / CELL_BYTES..end.div_ceil(CELL_BYTES)).collect();
        for _ in 0..ATTEMPTS_MAX {
            let known = self.record(location).await?.ok_or(ErrorCode::BlobNotFound)?;
            check(&known, write, self.clock.now())?;
            let generations = known.body.generations().to_vec();
            let (Some(&newest), older) = (generations.first(), generations.get(1..).unwrap_or_default())
            else {
                return Err(ErrorCode::InvalidBlobType.into());
            };
            let span = write.first / CELL_BYTES..end.div_ceil(CELL_BYTES);
            let below = self.cells(location, older, span).await?;
            let names: Vec<Vec<u8>> = cells.iter().map(|cell| page_row(newest, *cell)).collect();
            let mut rows: Vec<&[u8]> = vec![RECORD_ROW];
            rows.extend(names.iter().map(Vec::as_slice));
            let decide = |now: DateTime, rows: &[Option<StoredRow>]| {
                let mut record = existing_in(location, &rows[0])?;
                record.lease = check(&record, write, now)?;
                if record.body.generations() != generations {
                    return Ok((Vec::new(), None));
                }
                let (mut changes, mut replaced) = (Vec::new(), HashMap::new());
                for (at, cell) in cells.iter().enumerate() {
                    let mut pages = match &rows[1 + at] {
                        Some(row) => Cell::decode(&row.body).ok_or_else(|| damaged(location.space))?,
                        None => below.get(cell).cloned().unwrap_or_default(),
                    };
                    let before = pages.placed_contents(*cell);
                    let start = cell * CELL_BYTES;
                    let (from, to) = (write.first.max(start), end.min(start + CELL_BYTES));
                    let part = (from - start) / PAGE_BYTES..(to - start) / PAGE_BYTES;
                    pages.write(part, data.map(|data| (data, from - write.first)));
                    let after: HashSet<ContentId> = pages.contents().collect();
                    replaced.extend(before.into_iter().filter(|(id, _)| !after.contains(id)));
                    changes.push(Change::Put { index: 1 + at, body: pages.encode().into() });
                }
                let BlobKind::Page { sequence } = record.kind else {
                    return Err(ErrorCode::InvalidBlobType.into());
                };
                record.changed = now;
                changes.push(put_record(0, &record));
                let replaced = replaced.into_iter().collect();
                Ok((changes, Some(PagesDone { changed: now, sequence, replaced })))
            };
            if let Some(done) = self.transact(location, &rows, decide).await? {
                return Ok(done);
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }

    /// Clears what lies behind the new end of a blob that is made shorter.
    pub async fn clear_behind(self: &Arc<Self>, location: &BlobLocation, length: u64) -> Result<(), Failure> {
        let Some(record) = self.record(location).await? else { return Ok(()) };
        let (mut at, end) = (length, record.body.length());
        while at < end {
            let step = (end - at).min(CELLS_A_STEP * CELL_BYTES - at % CELL_BYTES);
            let write = PageWrite {
                first: at,
                length: step,
                sequence: SequenceConditions::default(),
                conditions: BlobConditions {
                    lease: record.lease.map(|lease| lease.id()),
                    ..BlobConditions::default()
                },
            };
            self.write_pages(location.clone(), write, None).await?;
            at += step;
        }
        Ok(())
    }

    /// Drops contents that no cell names any more, behind the answer.
    fn drop_replaced(self: &Arc<Self>, location: &BlobLocation, replaced: &[(ContentId, Range<u64>)]) {
        let (blobs, location, replaced) = (self.clone(), location.clone(), replaced.to_vec());
        tokio::spawn(async move {
            for (content, cells) in replaced {
                let done = async {
                    let mut generations: HashSet<u64> = HashSet::new();
                    generations.extend(
                        blobs.record(&location).await?.iter().flat_map(|record| record.body.generations()),
                    );
                    for (_, earlier) in blobs.earlier(&location).await? {
                        generations.extend(earlier.record.body.generations());
                    }
                    for generation in generations {
                        let found = blobs.cells(&location, &[generation], cells.clone()).await?;
                        if found.values().any(|cell| cell.contents().any(|named| named == content)) {
                            return Ok(());
                        }
                    }
                    blobs.drop_contents(location.space, &[content]).await
                };
                if let Err(error) = done.await {
                    tracing::debug!(%error, "cannot drop overwritten pages; the scrubber will");
                }
            }
        });
    }

    /// The cells of a range, each of the first generation that has it.
    pub async fn cells(
        &self,
        location: &BlobLocation,
        generations: &[u64],
        cells: Range<u64>,
    ) -> Result<BTreeMap<u64, Cell>, Failure> {
        find_cells(self.engine.as_ref(), location, generations, cells).await
    }

    pub async fn open_pages(
        &self,
        location: &BlobLocation,
        generations: &[u64],
        range: Range<u64>,
    ) -> Result<Content, Failure> {
        let mut source = PagesSource {
            engine: self.engine.clone(),
            contents: self.contents.clone(),
            location: location.clone(),
            generations: generations.to_vec(),
            left: range,
            current: None,
        };
        source.step().await?;
        Ok(Box::new(source))
    }

    /// Copies all cells of a blob for another one: their rows, their generation, and what they name.
    pub async fn copy_pages(
        &self,
        from: &BlobLocation,
        generations: &[u64],
        to: &BlobLocation,
        so_far: &AtomicU64,
    ) -> Result<(Vec<(Vec<u8>, Bytes)>, u64, Vec<Unnamed>), Failure> {
        let generation = self.fresh_generation();
        let cells = self.cells(from, generations, 0..u64::MAX).await?;
        let (mut copies, mut unnamed): (HashMap<ContentId, Data>, _) = (HashMap::new(), Vec::new());
        for data in cells.values().flat_map(Cell::data) {
            let Some(id) = data.content() else { continue };
            if let Entry::Vacant(copy) = copies.entry(id) {
                let copied = self.copy_data(from, data, to, so_far).await?;
                copy.insert(copied.data());
                unnamed.push(copied);
            }
        }
        let rows = cells.into_iter().filter(|(_, cell)| !cell.is_empty()).map(|(number, cell)| {
            let copy = |data: &Data| data.content().and_then(|id| copies.get(&id)).unwrap_or(data).clone();
            (page_row(generation, number), Bytes::from(cell.map(copy).encode()))
        });
        Ok((rows.collect(), generation, unnamed))
    }
}

/// Checks a write to the pages of a blob; gives its lease afterwards.
fn check(
    record: &Record,
    write: &PageWrite,
    now: DateTime,
) -> Result<Option<crate::lease::Lease>, ServiceError> {
    let lease = check_write(&write.conditions, Some(record), now, |unmet| match unmet {
        Unmet::Exists => ErrorCode::ConditionNotMet,
        other => other.of_write(),
    })?;
    record.refuse_while_copying()?;
    let BlobKind::Page { sequence } = record.kind else { return Err(ErrorCode::InvalidBlobType.into()) };
    let sequence = i64::try_from(sequence).unwrap_or(i64::MAX);
    let SequenceConditions { less_or_equal, less, equal } = write.sequence;
    let is_met = less_or_equal.is_none_or(|number| sequence <= number)
        && less.is_none_or(|number| sequence < number)
        && equal.is_none_or(|number| sequence == number);
    if !is_met {
        return Err(ErrorCode::SequenceNumberConditionNotMet.into());
    }
    if write.first + write.length > record.body.length() {
        return Err(ErrorCode::InvalidPageRange.into());
    }
    Ok(lease)
}

async fn find_cells(
    engine: &dyn Engine,
    location: &BlobLocation,
    generations: &[u64],
    cells: Range<u64>,
) -> Result<BTreeMap<u64, Cell>, Failure> {
    let mut found: BTreeMap<u64, Cell> = BTreeMap::new();
    for generation in generations {
        let range = ScanRange {
            from: Position::at(&location.partition, &page_row(*generation, cells.start)),
            before: Some(Position::at(&location.partition, &page_row(*generation, cells.end))),
        };
        let mut is_damaged = false;
        let mut visit = |row: ScannedRow<'_>| {
            let number = split_row(row.row)
                .filter(|(kind, ..)| *kind == PAGES)
                .and_then(|(_, _, cell)| cell.try_into().ok().map(u64::from_be_bytes));
            match (number, Cell::decode(&row.body)) {
                (Some(number), Some(cell)) => {
                    found.entry(number).or_insert(cell);
                    ControlFlow::Continue(())
                }
                _ => {
                    is_damaged = true;
                    ControlFlow::Break(())
                }
            }
        };
        engine.scan(location.space, &range, &mut visit).await?;
        if is_damaged {
            return Err(damaged(location.space));
        }
    }
    Ok(found)
}

/// The bytes of pages, looked up a few cells at a time.
struct PagesSource {
    engine: Arc<dyn Engine>,
    contents: Arc<dyn ContentStore>,
    location: BlobLocation,
    generations: Vec<u64>,
    left: Range<u64>,
    current: Option<PieceSource>,
}

impl PagesSource {
    async fn step(&mut self) -> Result<(), Failure> {
        if self.left.is_empty() {
            return Ok(());
        }
        let first = self.left.start / CELL_BYTES;
        let cells = first..(first + CELLS_A_STEP).min(self.left.end.div_ceil(CELL_BYTES));
        let found =
            find_cells(self.engine.as_ref(), &self.location, &self.generations, cells.clone()).await?;
        let mut parts = std::collections::VecDeque::new();
        for cell in cells {
            let pages = found.get(&cell).cloned().unwrap_or_default();
            let mut at = cell * CELL_BYTES;
            for (data, count) in pages.runs(0..CELL_PAGES) {
                let end = at + count * PAGE_BYTES;
                let (from, to) = (self.left.start.max(at), self.left.end.min(end));
                if from < to {
                    // What is behind `to` comes later, in this step or the next.
                    parts.push_back(match data {
                        Some((data, offset)) => (data, offset + from - at..offset + to - at),
                        None => (Data::Inline(Bytes::from_static(&ZEROS)), 0..to - from),
                    });
                    self.left.start = to;
                }
                at = end;
            }
        }
        self.current = Some(PieceSource::open(self.contents.clone(), self.location.space, parts).await?);
        Ok(())
    }
}

#[async_trait]
impl ByteSource for PagesSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        loop {
            let Some(current) = &mut self.current else { return Ok(None) };
            if let Some(piece) = current.next().await? {
                return Ok(Some(piece));
            }
            self.current = None;
            self.step().await.map_err(|error| SourceError::Broken(error.into()))?;
        }
    }
}
