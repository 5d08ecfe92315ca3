//! Reading the rows of pieces, a few at a time: a body may have more of them, and more bytes in them, than memory.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{ByteSource, ContentError, ContentId, ContentStore, Engine, SourceError};
use tavola_model::ErrorCode;

use super::Blobs;
use super::change::{BlobLocation, scan_rows};
use super::get::BlobStream;
use super::pieces::{Data, Piece, PieceSource, decode_pieces};
use super::record::Body;
use super::rows::{PIECES, generation_prefix, pieces_row};
use crate::failure::Failure;

/// Bytes and names of pieces that are held at a time.
const HELD_BYTES_MAX: usize = 256 * 1024;

impl Blobs {
    /// The bytes of a range of a body that is in pieces.
    pub async fn open_pieces(
        &self,
        location: &BlobLocation,
        generation: u64,
        count: u32,
        range: Range<u64>,
    ) -> Result<BlobStream, Failure> {
        let mut source = PieceRowsSource {
            engine: self.engine.clone(),
            contents: self.contents.clone(),
            location: location.clone(),
            rows: PieceRows { generation, next: 0, left: count },
            at: 0,
            left: range,
            current: None,
        };
        source.step().await?;
        Ok(Box::new(source))
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

/// The bytes of pieces, whose rows are looked up a few at a time.
struct PieceRowsSource {
    engine: Arc<dyn Engine>,
    contents: Arc<dyn ContentStore>,
    location: BlobLocation,
    rows: PieceRows,
    /// Where the next piece begins.
    at: u64,
    left: Range<u64>,
    current: Option<PieceSource>,
}

impl PieceRowsSource {
    async fn step(&mut self) -> Result<(), Failure> {
        if self.left.is_empty() {
            return Ok(());
        }
        let (mut parts, mut held) = (VecDeque::new(), 0);
        let (at, left) = (&mut self.at, &mut self.left);
        self.rows
            .visit(self.engine.as_ref(), &self.location, |pieces| {
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
        if parts.is_empty() {
            return Err(removed(&self.location));
        }
        self.current = Some(PieceSource::open(self.contents.clone(), self.location.space, parts).await?);
        Ok(())
    }
}

#[async_trait]
impl ByteSource for PieceRowsSource {
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
