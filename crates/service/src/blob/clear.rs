//! Clearing pages, and what lies behind the length of a page blob.
//!
//! Only cells that are there are touched, so clearing costs what is cleared and not how far it reaches: a range may be as
//! long as the blob (<https://learn.microsoft.com/rest/api/storageservices/put-page>). A few cells are changed in one
//! transaction. Many are hidden by a generation that holds nothing in their place: it is written in steps (`prepare.rs`)
//! while nobody sees it, and one transaction puts it before the others. The first and the last one may be cleared in part;
//! that transaction writes them, so what others write to the rest of them is kept.
//!
//! A cell that is first written while others are looked up is left out, as if it were written after the clear. A clear
//! starts again then, but not for ever: where others write all the time, that is better than no clear.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::Change;
use tavola_model::{
    AccountName, BlobKind, BlockWritten, Changed, ClearPages, DateTime, ErrorCode, PAGE_BYTES, PagesWritten,
};

use super::Blobs;
use super::cell::{CELL_BYTES, Cell};
use super::change::{BlobLocation, existing_in, put_record};
use super::pages::{CELLS_A_STEP, CellsEdit, Found, PageWrite, PagesDone, check, scan_cells, span};
use super::prepare::{Preparation, STEP_BYTES_MAX, STEP_ROWS_MAX};
use super::put::ATTEMPTS_MAX;
use super::record::{Body, Record};
use super::rows::{RECORD_ROW, damaged, page_row};
use crate::catalog::to_its_end;
use crate::failure::Failure;

impl Blobs {
    pub async fn clear_pages(
        self: &Arc<Self>,
        account: &AccountName,
        clear: ClearPages,
    ) -> Result<PagesWritten, Failure> {
        let location = self.location(account, &clear.blob).await?;
        let ClearPages { first, length, sequence, conditions, .. } = clear;
        let write = PageWrite { first, length, sequence, conditions };
        let blobs = self.clone();
        let done = to_its_end(async move { blobs.clear_range(&location, &write).await }).await?;
        let sums = BlockWritten { md5: None, crc64: None };
        Ok(PagesWritten { changed: Changed(done.changed), sequence: done.sequence, sums })
    }

    async fn clear_range(
        self: &Arc<Self>,
        location: &BlobLocation,
        write: &PageWrite,
    ) -> Result<PagesDone, Failure> {
        for attempt in 0..ATTEMPTS_MAX {
            let known = self.record(location).await?.ok_or(ErrorCode::BlobNotFound)?;
            check(&known, write, self.clock.now())?;
            let as_of = (attempt < ATTEMPTS_MAX / 2).then_some(known.changed);
            let span = span(write.first..write.first + write.length);
            let done = if span.end - span.start <= CELLS_A_STEP {
                let cells = span.collect();
                self.edit_cells(location, &CellsEdit { write, data: None, cells, as_of: None }).await?
            } else {
                match self.few_cells(location, known.body.generations(), span).await? {
                    Some(cells) => {
                        self.edit_cells(location, &CellsEdit { write, data: None, cells, as_of }).await?
                    }
                    None => self.hide_cells(location, write, &known, as_of).await?,
                }
            };
            if let Some(done) = done {
                self.drop_replaced(location, &done.replaced);
                return Ok(done);
            }
        }
        Err(Failure::changed_meanwhile())
    }

    /// The cells of a range that there are, if one transaction can change them.
    async fn few_cells(
        &self,
        location: &BlobLocation,
        generations: &[u64],
        cells: std::ops::Range<u64>,
    ) -> Result<Option<Vec<u64>>, Failure> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        for generation in generations {
            scan_cells(self.engine.as_ref(), location, *generation, cells.clone(), |number, body| {
                found.push(number);
                bytes += body.len();
                if found.len() > STEP_ROWS_MAX || bytes > STEP_BYTES_MAX {
                    return ControlFlow::Break(Ok(()));
                }
                ControlFlow::Continue(())
            })
            .await?;
            if found.len() > STEP_ROWS_MAX || bytes > STEP_BYTES_MAX {
                return Ok(None);
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(Some(found))
    }

    /// Clears a range by a generation of cells that hold nothing. `None` if the blob has changed since it was to be as it is
    /// known, or its generations have.
    async fn hide_cells(
        self: &Arc<Self>,
        location: &BlobLocation,
        write: &PageWrite,
        known: &Record,
        as_of: Option<DateTime>,
    ) -> Result<Option<PagesDone>, Failure> {
        let generations = known.body.generations();
        let range = write.first..write.first + write.length;
        let cells = span(range.clone());
        // Cells that are cleared in part.
        let edges: Vec<u64> = [(range.start, cells.start), (range.end, cells.end - 1)]
            .into_iter()
            .filter(|(end, _)| end % CELL_BYTES > 0)
            .map(|(_, cell)| cell)
            .collect();
        let mut rows = Preparation::new(self, location);
        let mut at = cells.start;
        while at < cells.end {
            let (found, next) = self.next_cells(location, generations, at..cells.end).await?;
            let found =
                found.into_iter().filter(|(number, cell)| !edges.contains(number) && !cell.is_empty());
            for (number, _) in found {
                let row = page_row(rows.generation, number);
                rows.add(row, Cell::default().encode().into(), []).await?;
            }
            at = next;
        }
        let (newest, generation) = (self.fresh_generation(), rows.generation);
        let (further, _) = rows.finish();
        let (before, below) = self.below(location, generations, &edges).await?;
        let edge_rows = edges.iter().flat_map(|cell| [page_row(before, *cell), page_row(generation, *cell)]);
        let edge_rows: Vec<Vec<u8>> = edge_rows.collect();
        let mut names: Vec<&[u8]> = vec![RECORD_ROW];
        names.extend(further.names());
        names.extend(edge_rows.iter().map(Vec::as_slice));
        let decide = |now: DateTime, rows: &[Option<tavola_engine::StoredRow>]| {
            let mut record = existing_in(location, &rows[0])?;
            record.lease = check(&record, write, now)?;
            let (BlobKind::Page { sequence }, Body::Pages { generations, length }) =
                (record.kind, &mut record.body)
            else {
                return Err(ErrorCode::InvalidBlobType.into());
            };
            let is_stale = as_of.is_some_and(|as_of| record.changed != as_of);
            if is_stale || generations != known.body.generations() {
                return Err(Failure::changed_meanwhile());
            }
            let mut changes = further.changes(1, rows)?;
            for (at, number) in edges.iter().enumerate() {
                let index = 1 + further.count() + 2 * at;
                let own = rows[index].as_ref().map(|row| Cell::decode(&row.body));
                let own = own.map(|cell| cell.ok_or_else(|| damaged(location.space))).transpose()?;
                let whole = own.or_else(|| below.get(number).cloned()).unwrap_or_default();
                let mut cell = whole.clone();
                let start = number * CELL_BYTES;
                // What lies behind the length may be cleared and dropped meanwhile.
                cell.cut(length.saturating_sub(start) / PAGE_BYTES);
                let (from, to) = (range.start.max(start), range.end.min(start + CELL_BYTES));
                cell.write((from - start) / PAGE_BYTES..(to - start) / PAGE_BYTES, None);
                if cell != whole {
                    changes.push(Change::Put { index: index + 1, body: cell.encode().into() });
                }
            }
            // What is hidden is joined with what hides it (`fold.rs`), which leaves the newest generation alone.
            generations.splice(0..0, [newest, generation]);
            record.changed = now;
            changes.push(put_record(0, &record));
            Ok((changes, PagesDone { changed: now, sequence, replaced: Vec::new() }))
        };
        let done = self.transact(location, &names, decide).await;
        further.settle(&done);
        match done {
            Ok(done) => {
                self.fold_later(location);
                Ok(Some(done))
            }
            Err(failure) if failure.is_conflict() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Clears what cells hold behind the length of a blob, which nobody sees. Gives the record that it was done for; the
    /// blob may grow if it is still that one.
    pub async fn clear_behind(self: &Arc<Self>, location: &BlobLocation) -> Result<Option<Record>, Failure> {
        'again: for _ in 0..ATTEMPTS_MAX {
            let Some(known) = self.record(location).await? else { return Ok(None) };
            let Body::Pages { generations, length } = &known.body else { return Ok(Some(known)) };
            let mut at = length / CELL_BYTES;
            while at < u64::MAX {
                let (found, next) = self.next_cells(location, generations, at..u64::MAX).await?;
                let holds_more = |number: u64, cell: &Cell| {
                    let mut cut = cell.clone();
                    cut.cut(length.saturating_sub(number * CELL_BYTES) / PAGE_BYTES);
                    cut != *cell
                };
                let found = found.into_iter().filter(|(number, cell)| holds_more(*number, cell));
                let cells: Vec<u64> = found.map(|(number, _)| number).collect();
                for cells in cells.chunks(STEP_ROWS_MAX) {
                    if !self.clear_cells_behind(location, &known, cells).await? {
                        continue 'again;
                    }
                }
                at = next;
            }
            return Ok(Some(known));
        }
        Err(Failure::changed_meanwhile())
    }

    /// The same behind the answer: it gives disk space back.
    pub fn clear_behind_later(self: &Arc<Self>, location: &BlobLocation) {
        let (blobs, location) = (self.clone(), location.clone());
        tokio::spawn(async move {
            if let Err(error) = blobs.clear_behind(&location).await {
                tracing::debug!(%error, "pages behind the end of a blob are left until it grows or goes");
            }
        });
    }

    /// Clears what these cells hold behind the length of a blob; false if it is not the blob that was known.
    async fn clear_cells_behind(
        self: &Arc<Self>,
        location: &BlobLocation,
        known: &Record,
        cells: &[u64],
    ) -> Result<bool, Failure> {
        let (newest, below) = self.below(location, known.body.generations(), cells).await?;
        let names: Vec<Vec<u8>> = cells.iter().map(|cell| page_row(newest, *cell)).collect();
        let mut rows: Vec<&[u8]> = vec![RECORD_ROW];
        rows.extend(names.iter().map(Vec::as_slice));
        let replaced = self
            .transact(location, &rows, |_, rows| {
                let record = existing_in(location, &rows[0])?;
                if record.body != known.body {
                    return Ok((Vec::new(), None));
                }
                let range = record.body.length()..u64::MAX;
                let (mut changes, mut replaced) = (Vec::new(), HashMap::new());
                for (at, cell) in cells.iter().enumerate() {
                    let (index, row, below) = (1 + at, rows[1 + at].as_ref(), below.get(cell));
                    let found = Found { index, cell: *cell, row, below };
                    changes.extend(found.edit(location, &range, None, &mut replaced)?);
                }
                Ok((changes, Some(replaced)))
            })
            .await?;
        let Some(replaced) = replaced else { return Ok(false) };
        self.drop_replaced(location, &replaced.into_iter().collect::<Vec<_>>());
        Ok(true)
    }
}
