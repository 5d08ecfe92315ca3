//! Reading the rows of pieces, a few at a time: a body may have more of them, and more bytes in them, than memory.

use std::ops::ControlFlow;

use tavola_engine::{ContentError, ContentId, Engine};
use tavola_model::ErrorCode;

use super::Blobs;
use super::change::{BlobLocation, scan_rows};
use super::pieces::{Piece, decode_pieces};
use super::record::Body;
use super::rows::{PIECES, generation_prefix, pieces_row};
use crate::failure::Failure;

/// Rows that a body must have before one of them is looked for from the end.
const ROWS_MANY: u32 = 32;
/// Rows that are looked at first, from the end.
const LAST_ROWS: u32 = 16;

impl Blobs {
    /// The rows of a body from one on that begins at an offset or before it, and where that one begins. A row does not say
    /// where it begins, but how long it is: what is near the end is found from there.
    pub async fn pieces_from(
        &self,
        location: &BlobLocation,
        body: &Body,
        offset: u64,
    ) -> Result<(PieceRows, u64), Failure> {
        let Body::Pieces { generation, rows, count, length } = *body else {
            return Err(ErrorCode::InvalidBlobType.into());
        };
        let all = (PieceRows { generation, next: 0, left: count }, 0);
        if rows < ROWS_MANY || offset <= length / 2 {
            return Ok(all);
        }
        let (mut end, mut step, mut at, mut left) = (rows, LAST_ROWS, length, 0);
        while end > 0 {
            let first = end.saturating_sub(step);
            let (mut found, mut pieces_found, mut bytes_found) = (0, 0, 0);
            let mut last_rows = PieceRows { generation, next: first, left: u32::MAX };
            last_rows
                .visit(self.engine.as_ref(), location, |pieces| {
                    found += 1;
                    pieces_found += u32::try_from(pieces.len()).unwrap_or(u32::MAX);
                    bytes_found += pieces.iter().map(|piece| piece.data.length()).sum::<u64>();
                    if first + found < end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })
                .await?;
            // The last row of a snapshot may have grown since, and that of the blob just now.
            let is_last = end == rows;
            if first + found < end || is_last && !self.is_body(location, body).await? {
                return Ok(all);
            }
            (at, left) = (at.saturating_sub(bytes_found), left + pieces_found);
            if at <= offset {
                return Ok((PieceRows { generation, next: first, left }, at));
            }
            (end, step) = (first, step.saturating_mul(2));
        }
        Ok(all)
    }

    /// Whether this is the body of a blob as it is now.
    async fn is_body(&self, location: &BlobLocation, body: &Body) -> Result<bool, Failure> {
        Ok(self.record(location).await?.is_some_and(|record| record.body == *body))
    }

    /// Visits the pieces of a body in order. What a piece holds is not kept beyond its visit.
    pub async fn visit_pieces(
        &self,
        location: &BlobLocation,
        body: &Body,
        mut each: impl FnMut(Piece) + Send,
    ) -> Result<(), Failure> {
        let (generation, count) = match body {
            Body::Data(data) => {
                each(Piece { block: None, data: data.clone() });
                return Ok(());
            }
            Body::Pages { .. } => return Err(ErrorCode::InvalidBlobType.into()),
            Body::Pieces { generation, count, .. } => (*generation, *count),
        };
        let mut rows = PieceRows { generation, next: 0, left: count };
        rows.visit(self.engine.as_ref(), location, |pieces| {
            pieces.into_iter().for_each(&mut each);
            ControlFlow::Continue(())
        })
        .await?;
        if rows.left > 0 { Err(removed(location)) } else { Ok(()) }
    }
}

/// The rows of pieces that are still to be read.
pub(crate) struct PieceRows {
    pub generation: u64,
    /// The number of the next row.
    pub next: u32,
    /// Pieces that are still to come.
    pub left: u32,
}

impl PieceRows {
    /// Visits the pieces of row after row, until the visitor breaks or all have been seen.
    pub async fn visit(
        &mut self,
        engine: &dyn Engine,
        location: &BlobLocation,
        mut each: impl FnMut(Vec<Piece>) -> ControlFlow<()> + Send,
    ) -> Result<(), Failure> {
        if self.left == 0 {
            return Ok(());
        }
        let prefix = generation_prefix(PIECES, self.generation);
        let from = pieces_row(self.generation, self.next);
        let mut is_removed = false;
        scan_rows(engine, location, &prefix, &from, |row, body| {
            // Rows of a generation that nothing names any more are removed from the front.
            if row != pieces_row(self.generation, self.next) {
                is_removed = true;
                return Some(ControlFlow::Break(()));
            }
            let mut pieces = decode_pieces(&body)?;
            self.next += 1;
            // Later pieces belong to the blob as it is now, if this is a snapshot.
            pieces.truncate(self.left as usize);
            self.left -= u32::try_from(pieces.len()).ok()?;
            let flow = each(pieces);
            Some(if self.left == 0 { ControlFlow::Break(()) } else { flow })
        })
        .await?;
        if is_removed { Err(removed(location)) } else { Ok(()) }
    }
}

/// The generation was removed since the record was read.
pub(crate) fn removed(location: &BlobLocation) -> Failure {
    Failure::Content(ContentError::Missing { space: location.space, id: ContentId::MIN })
}
