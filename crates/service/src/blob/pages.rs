//! Page blobs: pages written and read. `clear.rs` clears them, `page_ranges.rs` lists them, `fold.rs` joins generations.
//!
//! Pages are kept in cells. A snapshot keeps the generations of cells that there are, and the blob goes on in a fresh
//! one: a cell is that of the first generation that has it, and cells of older generations hold for the snapshot what
//! they held. What cells hold behind the length of the blob is not seen, and cleared before the blob grows.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use tavola_engine::{
    ByteSource, BytesSource, Change, ContentId, ContentSize, Engine, Position, ScanRange, ScannedRow,
    StoredRow,
};
use tavola_model::{
    AccountName, BlobConditions, BlobKind, Changed, DateTime, ErrorCode, PAGE_BYTES, PutPages,
    SequenceConditions, ServiceError,
};

use super::Blobs;
use super::cell::{CELL_BYTES, Cell};
use super::change::{BlobLocation, existing_in, put_record};
use super::conditions::{Unmet, check_write};
use super::pieces::Data;
use super::prepare::Preparation;
use super::put::{ATTEMPTS_MAX, settle};
use super::receive::Unnamed;
use super::record::Record;
use super::rows::{EARLIER, Earlier, NOTE, PAGES, RECORD_ROW, STAGE_ROW, damaged, page_row, split_row};
use crate::catalog::to_its_end;
use crate::failure::Failure;

/// Cells that are looked up in one go while pages are read: 4 MiB.
pub(crate) const CELLS_A_STEP: u64 = 64;
/// Cells of a generation that are looked at in one go where few are expected, and their bytes.
const CELLS_A_LOOK_MAX: usize = 1024;
const BYTES_A_LOOK_MAX: usize = 1024 * 1024;

/// Which pages are written, and when.
pub(super) struct PageWrite {
    pub first: u64,
    pub length: u64,
    pub sequence: SequenceConditions,
    pub conditions: BlobConditions,
}

pub(super) struct PagesDone {
    pub changed: DateTime,
    pub sequence: u64,
    /// Contents that may not be named any more, and the cells that could.
    pub replaced: Vec<(ContentId, Range<u64>)>,
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
        let done = self.write_pages(location, write, unnamed).await?;
        let sums = counted.told(&sums);
        Ok(tavola_model::PagesWritten { changed: Changed(done.changed), sequence: done.sequence, sums })
    }

    async fn write_pages(
        self: &Arc<Self>,
        location: BlobLocation,
        write: PageWrite,
        unnamed: Unnamed,
    ) -> Result<PagesDone, Failure> {
        let blobs = self.clone();
        to_its_end(async move {
            let data = unnamed.data();
            let span = span(write.first..write.first + write.length);
            let mut done = Err(Failure::changed_meanwhile());
            for _ in 0..ATTEMPTS_MAX {
                let edit = CellsEdit {
                    write: &write,
                    data: Some(&data),
                    cells: span.clone().collect(),
                    as_of: None,
                };
                done = match blobs.edit_cells(&location, &edit).await {
                    Ok(None) => continue,
                    Ok(Some(done)) => Ok(done),
                    Err(error) => Err(error),
                };
                break;
            }
            settle([unnamed], &done);
            let done = done?;
            blobs.drop_replaced(&location, &done.replaced);
            Ok(done)
        })
        .await
    }

    /// Writes or clears pages of these cells in one transaction. `None` if somebody else was faster.
    pub(super) async fn edit_cells(
        &self,
        location: &BlobLocation,
        edit: &CellsEdit<'_>,
    ) -> Result<Option<PagesDone>, Failure> {
        let CellsEdit { write, data, cells, as_of } = edit;
        let known = self.record(location).await?.ok_or(ErrorCode::BlobNotFound)?;
        check(&known, write, self.clock.now())?;
        let generations = known.body.generations().to_vec();
        let (newest, below) = self.below(location, &generations, cells).await?;
        let names: Vec<Vec<u8>> = cells.iter().map(|cell| page_row(newest, *cell)).collect();
        let mut rows: Vec<&[u8]> = vec![RECORD_ROW];
        rows.extend(names.iter().map(Vec::as_slice));
        let range = write.first..write.first + write.length;
        self.transact(location, &rows, |now, rows| {
            let mut record = existing_in(location, &rows[0])?;
            record.lease = check(&record, write, now)?;
            let is_stale = as_of.is_some_and(|as_of| record.changed != as_of);
            if is_stale || record.body.generations() != generations {
                return Ok((Vec::new(), None));
            }
            let (mut changes, mut replaced) = (Vec::new(), HashMap::new());
            for (at, cell) in cells.iter().enumerate() {
                let found =
                    Found { index: 1 + at, cell: *cell, row: rows[1 + at].as_ref(), below: below.get(cell) };
                let put = data.map(|data| (data, write.first));
                changes.extend(found.edit(location, &range, put, &mut replaced)?);
            }
            let BlobKind::Page { sequence } = record.kind else {
                return Err(ErrorCode::InvalidBlobType.into());
            };
            record.changed = now;
            changes.push(put_record(0, &record));
            let replaced = replaced.into_iter().collect();
            Ok((changes, Some(PagesDone { changed: now, sequence, replaced })))
        })
        .await
    }

    /// The generation that is written to, and these cells as older ones have them.
    pub(super) async fn below(
        &self,
        location: &BlobLocation,
        generations: &[u64],
        cells: &[u64],
    ) -> Result<(u64, BTreeMap<u64, Cell>), Failure> {
        let Some((newest, older)) = generations.split_first() else {
            return Err(ErrorCode::InvalidBlobType.into());
        };
        let mut below = BTreeMap::new();
        // Cells that follow each other are looked up by one scan.
        for run in cells.chunk_by(|one, next| one + 1 == *next).filter(|_| !older.is_empty()) {
            if let (Some(first), Some(last)) = (run.first(), run.last()) {
                below.extend(self.cells(location, older, *first..last + 1).await?);
            }
        }
        Ok((*newest, below))
    }

    /// Drops contents that no cell names any more, behind the answer.
    pub(super) fn drop_replaced(
        self: &Arc<Self>,
        location: &BlobLocation,
        replaced: &[(ContentId, Range<u64>)],
    ) {
        if replaced.is_empty() {
            return;
        }
        let (blobs, location, replaced) = (self.clone(), location.clone(), replaced.to_vec());
        tokio::spawn(async move {
            for (content, cells) in replaced {
                if let Err(error) = blobs.drop_if_replaced(&location, content, cells).await {
                    tracing::debug!(%error, "cannot drop overwritten pages; the scrubber will");
                }
            }
        });
    }

    /// Drops a content unless one of these cells names it, which are all that could.
    pub(super) async fn drop_if_replaced(
        &self,
        location: &BlobLocation,
        content: ContentId,
        cells: Range<u64>,
    ) -> Result<(), Failure> {
        for generation in self.page_generations(location).await? {
            let found = self.cells(location, &[generation], cells.clone()).await?;
            if found.values().any(|cell| cell.contents().any(|named| named == content)) {
                return Ok(());
            }
        }
        self.drop_contents(location.space, &[content]).await
    }

    /// The generations of pages that rows of a blob name, as of one moment, newer ones before older ones. Cells move only
    /// from newer to older generations (`fold.rs`), so whoever looks through them in this order misses none.
    pub(super) async fn page_generations(&self, location: &BlobLocation) -> Result<Vec<u64>, Failure> {
        let mut states: Vec<Vec<u64>> = Vec::new();
        self.visit_rows(location, &[], &[], |row, body| {
            if row == RECORD_ROW {
                states.push(Record::decode(&body)?.body.generations().to_vec());
            } else if row.first() == Some(&EARLIER) {
                // Behind the record, the newest first.
                let at = states.len().min(1);
                states.insert(at, Earlier::decode(&body)?.record.body.generations().to_vec());
            } else if row.first() == Some(&NOTE) {
                states.push(vec![split_row(row)?.1]);
            } else if row != STAGE_ROW {
                return Some(ControlFlow::Break(()));
            }
            Some(ControlFlow::Continue(()))
        })
        .await?;
        let mut seen = HashSet::new();
        Ok(states.into_iter().flatten().filter(|generation| seen.insert(*generation)).collect())
    }

    /// Whether a state of a blob is still there and nobody has written to its pages since it was read.
    async fn has_pages_of(&self, location: &BlobLocation, state: &Record) -> Result<bool, Failure> {
        let is_it = |other: &Record| {
            let newest = |record: &Record| record.body.generations().first().copied();
            other.changed == state.changed && newest(other) == newest(state)
        };
        if self.record(location).await?.as_ref().is_some_and(is_it) {
            return Ok(true);
        }
        let mut is_found = false;
        self.visit_earlier(location, |_, earlier| {
            is_found = is_it(&earlier.record);
            if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .await?;
        Ok(is_found)
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

    /// The first cells of a range that there are, each of the first generation that has it, and where to go on. So a range
    /// costs what is in it, however long it is.
    pub async fn next_cells(
        &self,
        location: &BlobLocation,
        generations: &[u64],
        cells: Range<u64>,
    ) -> Result<(BTreeMap<u64, Cell>, u64), Failure> {
        let mut found = BTreeMap::new();
        let mut end = cells.end;
        for generation in generations {
            let (mut rows, mut bytes, mut last) = (0, 0, None);
            scan_cells(self.engine.as_ref(), location, *generation, cells.start..end, |number, body| {
                let Some(cell) = Cell::decode(&body) else { return ControlFlow::Break(Err(())) };
                rows += 1;
                bytes += body.len();
                found.entry(number).or_insert(cell);
                if rows < CELLS_A_LOOK_MAX && bytes < BYTES_A_LOOK_MAX {
                    return ControlFlow::Continue(());
                }
                last = Some(number);
                ControlFlow::Break(Ok(()))
            })
            .await?;
            // Behind the last one not all generations are known.
            end = last.map_or(end, |last| last + 1);
        }
        found.retain(|number, _| *number < end);
        Ok((found, end))
    }

    /// Copies the cells of a blob for another one, as rows of a generation that its record is to name.
    pub async fn copy_pages(
        self: &Arc<Self>,
        from: &BlobLocation,
        source: &Record,
        to: &BlobLocation,
        so_far: &AtomicU64,
    ) -> Result<Preparation, Failure> {
        let body = &source.body;
        let mut rows = Preparation::new(self, to);
        let mut copies: HashMap<ContentId, Copied> = HashMap::new();
        let (mut at, end) = (0, body.length().div_ceil(CELL_BYTES));
        while at < end {
            let (cells, next) = self.next_cells(from, body.generations(), at..end).await?;
            for (number, mut cell) in cells {
                cell.cut(body.length().saturating_sub(number * CELL_BYTES) / PAGE_BYTES);
                let mut unnamed = Vec::new();
                for (content, pages) in cell.placed_contents(number) {
                    if let Entry::Vacant(entry) = copies.entry(content) {
                        let data = cell.data().find(|data| data.content() == Some(content));
                        let data = data.expect("it was found in this cell");
                        let copied = self.copy_data(from, data, to, so_far).await?;
                        entry.insert(Copied { data: copied.data(), last_cell: pages.end });
                        unnamed.push(copied);
                    }
                }
                if !cell.is_empty() {
                    let copy = |data: &Data| {
                        let copied = data.content().and_then(|id| copies.get(&id));
                        copied.map_or_else(|| data.clone(), |copied| copied.data.clone())
                    };
                    let body = cell.map(copy).encode();
                    rows.add(page_row(rows.generation, number), body.into(), unnamed).await?;
                }
                // A content lies in cells that follow each other, so those behind are not named again.
                copies.retain(|_, copied| copied.last_cell > number + 1);
            }
            at = next;
        }
        // Its cells were read one after the other: what was written or removed meanwhile may be there in part.
        if !self.has_pages_of(from, source).await? {
            return Err(ErrorCode::SourceConditionNotMet.into());
        }
        Ok(rows)
    }
}

/// A content that was copied, and the cell behind the last one that may name it.
struct Copied {
    data: Data,
    last_cell: u64,
}

/// Pages to write or clear, and the cells that this touches.
pub(super) struct CellsEdit<'a> {
    pub write: &'a PageWrite,
    /// What is written; nothing if pages are cleared.
    pub data: Option<&'a Data>,
    pub cells: Vec<u64>,
    /// The blob must not have changed since.
    pub as_of: Option<DateTime>,
}

/// A cell as a transaction finds it.
pub(super) struct Found<'a> {
    /// Which of the rows of the transaction it is.
    pub index: usize,
    pub cell: u64,
    pub row: Option<&'a StoredRow>,
    /// The cell as older generations have it.
    pub below: Option<&'a Cell>,
}

impl Found<'_> {
    /// Writes or clears the part of the cell that lies in a range of the blob; `put` are the bytes, and where in the blob
    /// they begin. Notes the contents that the cell does not name any more. Nothing is written where nothing changes, and
    /// no row is kept for a cell that holds nothing and hides nothing.
    pub fn edit(
        &self,
        location: &BlobLocation,
        range: &Range<u64>,
        put: Option<(&Data, u64)>,
        replaced: &mut HashMap<ContentId, Range<u64>>,
    ) -> Result<Option<Change>, Failure> {
        let own = match self.row {
            Some(row) => Some(Cell::decode(&row.body).ok_or_else(|| damaged(location.space))?),
            None => None,
        };
        let before = own.as_ref().or(self.below).cloned().unwrap_or_default();
        let start = self.cell * CELL_BYTES;
        let (from, to) = (range.start.max(start), range.end.min(start + CELL_BYTES));
        let mut after = before.clone();
        let part = (from - start) / PAGE_BYTES..(to - start) / PAGE_BYTES;
        after.write(part, put.map(|(data, first)| (data, from - first)));
        if after == before {
            return Ok(None);
        }
        let named: HashSet<ContentId> = after.contents().collect();
        let gone = before.placed_contents(self.cell).into_iter().filter(|(id, _)| !named.contains(id));
        replaced.extend(gone);
        let hides = self.below.is_some_and(|below| !below.is_empty());
        Ok(match own {
            Some(_) if after.is_empty() && !hides => Some(Change::Delete { index: self.index }),
            None if after.is_empty() && !hides => None,
            _ => Some(Change::Put { index: self.index, body: after.encode().into() }),
        })
    }
}

/// The cells that a range of a blob touches.
pub(super) fn span(range: Range<u64>) -> Range<u64> {
    range.start / CELL_BYTES..range.end.div_ceil(CELL_BYTES)
}

/// Checks a write to the pages of a blob; gives its lease afterwards.
pub(super) fn check(
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
    let end = write.first.checked_add(write.length);
    if end.is_none_or(|end| end > record.body.length()) {
        return Err(ErrorCode::InvalidPageRange.into());
    }
    Ok(lease)
}

pub(super) async fn find_cells(
    engine: &dyn Engine,
    location: &BlobLocation,
    generations: &[u64],
    cells: Range<u64>,
) -> Result<BTreeMap<u64, Cell>, Failure> {
    let mut found: BTreeMap<u64, Cell> = BTreeMap::new();
    for generation in generations {
        scan_cells(engine, location, *generation, cells.clone(), |number, body| match Cell::decode(&body) {
            Some(cell) => {
                found.entry(number).or_insert(cell);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(Err(())),
        })
        .await?;
    }
    Ok(found)
}

/// Visits the cells of a generation that there are, until the visitor breaks; with an error if one is damaged.
pub(super) async fn scan_cells(
    engine: &dyn Engine,
    location: &BlobLocation,
    generation: u64,
    cells: Range<u64>,
    mut each: impl FnMut(u64, Bytes) -> ControlFlow<Result<(), ()>> + Send,
) -> Result<(), Failure> {
    let range = ScanRange {
        from: Position::at(&location.partition, &page_row(generation, cells.start)),
        before: Some(Position::at(&location.partition, &page_row(generation, cells.end))),
    };
    let mut is_damaged = false;
    let mut visit = |row: ScannedRow<'_>| {
        let number = split_row(row.row)
            .filter(|(kind, ..)| *kind == PAGES)
            .and_then(|(_, _, cell)| cell.try_into().ok().map(u64::from_be_bytes));
        let flow = number.map_or(ControlFlow::Break(Err(())), |number| each(number, row.body));
        flow.map_break(|ended| is_damaged = ended.is_err())
    };
    engine.scan(location.space, &range, &mut visit).await?;
    if is_damaged { Err(damaged(location.space)) } else { Ok(()) }
}
