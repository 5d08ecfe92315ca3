//! The bytes of a range of a body that is in rows, which are looked up a few at a time: a body may have more of them, and
//! more bytes in them, than memory.
//!
//! Pages that are written while they are read are read as they are then: what was looked up is looked up again from there.
//! The pieces of a blob that is replaced or deleted are gone, and the read ends with an error: it never goes on with those
//! of another blob.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{ByteSource, ContentStore, Engine, SourceError};
use tavola_model::{BlobMoment, PAGE_BYTES};

use super::Blobs;
use super::cell::{CELL_BYTES, CELL_PAGES};
use super::change::{BlobLocation, record_in, scan_rows};
use super::get::BlobStream;
use super::pages::{CELLS_A_STEP, find_cells};
use super::piece_rows::{PieceRows, removed};
use super::pieces::{Data, Piece, PieceSource};
use super::record::Record;
use super::rows::{EARLIER, Earlier, RECORD_ROW, damaged, earlier_row};
use crate::failure::Failure;

/// Bytes and names of pieces that are held at a time.
const HELD_BYTES_MAX: usize = 256 * 1024;
/// How often pages are looked up again for the next piece, because they were written meanwhile.
const ATTEMPTS_MAX: usize = 8;
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Where the rows of a body are.
pub(crate) enum Rows {
    Pieces {
        rows: PieceRows,
        /// Where the next piece begins.
        at: u64,
    },
    Pages {
        generations: Vec<u64>,
        /// Which state of the blob is read.
        moment: BlobMoment,
    },
}

impl Blobs {
    /// The bytes of a range of a body that is in rows. What is missing at its beginning is an error now.
    pub async fn open_rows(
        &self,
        location: &BlobLocation,
        rows: Rows,
        range: Range<u64>,
    ) -> Result<BlobStream, Failure> {
        let mut source = RangeSource {
            engine: self.engine.clone(),
            contents: self.contents.clone(),
            location: location.clone(),
            rows,
            position: range.start,
            left: range,
            current: None,
        };
        if !source.left.is_empty() {
            source.step().await?;
        }
        Ok(Box::new(source))
    }
}

struct RangeSource {
    engine: Arc<dyn Engine>,
    contents: Arc<dyn ContentStore>,
    location: BlobLocation,
    rows: Rows,
    /// Where the next piece begins.
    position: u64,
    /// What is not looked up yet.
    left: Range<u64>,
    current: Option<PieceSource>,
}

#[async_trait]
impl ByteSource for RangeSource {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        let mut done = self.try_next().await;
        for _ in 1..ATTEMPTS_MAX {
            let is_pages = matches!(self.rows, Rows::Pages { .. });
            if !(is_pages && done.as_ref().is_err_and(Failure::is_content_missing)) {
                break;
            }
            self.current = None;
            self.left.start = self.position;
            done = self.try_next().await;
        }
        done.map_err(|failure| SourceError::Broken(failure.into()))
    }
}

impl RangeSource {
    async fn try_next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(current) = &mut self.current {
                let piece = current.next().await;
                let piece = piece.map_err(|error| Failure::of_source(error).of_stored_source())?;
                if let Some(piece) = piece {
                    self.position += piece.len() as u64;
                    return Ok(Some(piece));
                }
                self.current = None;
            }
            if self.left.is_empty() {
                return Ok(None);
            }
            self.step().await?;
        }
    }

    /// Looks up some rows of what is left.
    async fn step(&mut self) -> Result<(), Failure> {
        let (engine, location, left) = (self.engine.as_ref(), &self.location, &mut self.left);
        let parts = match &mut self.rows {
            Rows::Pieces { rows, at } => pieces(engine, location, rows, at, left).await?,
            Rows::Pages { generations, moment } => {
                let parts = pages(engine, location, generations, left).await?;
                if !is_there(engine, location, *moment, generations).await? {
                    return Err(removed(location));
                }
                parts
            }
        };
        self.current = Some(PieceSource::open(self.contents.clone(), self.location.space, parts).await?);
        Ok(())
    }
}

/// The next pieces that hold something of what is left.
async fn pieces(
    engine: &dyn Engine,
    location: &BlobLocation,
    rows: &mut PieceRows,
    at: &mut u64,
    left: &mut Range<u64>,
) -> Result<VecDeque<(Data, Range<u64>)>, Failure> {
    let (mut parts, mut held) = (VecDeque::new(), 0);
    rows.visit(engine, location, |pieces| {
        for Piece { data, .. } in pieces {
            let end = *at + data.length();
            let (from, to) = (left.start.max(*at), left.end.min(end));
            if from < to {
                held += match &data {
                    Data::Inline(bytes) => bytes.len(),
                    Data::Content(_) => size_of::<Piece>(),
                };
                parts.push_back((data, from - *at..to - *at));
                left.start = to;
            }
            *at = end;
        }
        if left.is_empty() || held >= HELD_BYTES_MAX {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })
    .await?;
    if parts.is_empty() { Err(removed(location)) } else { Ok(parts) }
}

/// The next pages of what is left; those that hold nothing are zeros.
async fn pages(
    engine: &dyn Engine,
    location: &BlobLocation,
    generations: &[u64],
    left: &mut Range<u64>,
) -> Result<VecDeque<(Data, Range<u64>)>, Failure> {
    let first = left.start / CELL_BYTES;
    let cells = first..(first + CELLS_A_STEP).min(left.end.div_ceil(CELL_BYTES));
    let found = find_cells(engine, location, generations, cells.clone()).await?;
    let mut parts = VecDeque::new();
    for cell in cells {
        let pages = found.get(&cell).cloned().unwrap_or_default();
        let mut at = cell * CELL_BYTES;
        for (data, count) in pages.runs(0..CELL_PAGES) {
            let end = at + count * PAGE_BYTES;
            let (from, to) = (left.start.max(at), left.end.min(end));
            if from < to {
                // What is behind `to` comes later, in this step or the next.
                parts.push_back(match data {
                    Some((data, offset)) => (data, offset + from - at..offset + to - at),
                    None => (Data::Inline(Bytes::from_static(&ZEROS)), 0..to - from),
                });
                left.start = to;
            }
            at = end;
        }
    }
    Ok(parts)
}

/// Whether the state that is read is still there. Cells that were removed would be taken for zeros, and those of a snapshot
/// that is deleted give way to later ones (`fold.rs`).
async fn is_there(
    engine: &dyn Engine,
    location: &BlobLocation,
    moment: BlobMoment,
    generations: &[u64],
) -> Result<bool, Failure> {
    // The oldest generation stays for as long as any of them does.
    let is_it = |record: &Record| record.body.generations().last() == generations.last();
    if let BlobMoment::Snapshot(time) | BlobMoment::Version(time) = moment
        && let Some(row) = engine.get(location.space, &location.partition, &earlier_row(time)).await?
    {
        let kept = Earlier::decode(&row.body).ok_or_else(|| damaged(location.space))?;
        return Ok(is_it(&kept.record));
    }
    let row = engine.get(location.space, &location.partition, RECORD_ROW).await?;
    let record = record_in(location, &row)?;
    match moment {
        BlobMoment::Snapshot(_) => Ok(false),
        BlobMoment::Version(time) => {
            Ok(record.is_some_and(|record| record.version == Some(time) && is_it(&record)))
        }
        BlobMoment::Current if record.as_ref().is_some_and(is_it) => Ok(true),
        BlobMoment::Current => {
            // It was replaced or deleted, and may be kept.
            let mut is_kept = false;
            scan_rows(engine, location, &[EARLIER], &[EARLIER], |_, body| {
                is_kept = is_it(&Earlier::decode(&body)?.record);
                Some(if is_kept { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })
            .await?;
            Ok(is_kept)
        }
    }
}
