//! Cleaning up behind a change: rows and contents that nothing names any more.
//!
//! What a record, an earlier state, the stage or a note names is alive; a generation that none of them names is dead for ever,
//! because only what is alive is ever named again. So the rows of dead generations can be removed at any time, and a
//! content that only they named can be dropped after them. A crash before that leaves it to the scrubber.
//!
//! A blob may have more rows than memory holds, so dead ones are removed some at a time. A scan of many rows is not one
//! snapshot on every engine: what names generations is read again behind it, and if it is not what it was before, the scan
//! counts for nothing. A blob that has rows of an unknown kind keeps everything.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::{ContentId, SpaceId};
use tavola_model::BlobTags;

use super::Blobs;
use super::cell::Cell;
use super::change::BlobLocation;
use super::pages::scan_cells;
use super::pieces::decode_pieces;
use super::put::Superseded;
use super::record::{Body, Record};
use super::rows::{
    EARLIER, Earlier, NOTE, PAGES, PIECES, RECORD_ROW, STAGE_ROW, STAGED, Stage, decode_data, split_row,
};
use crate::failure::Failure;

/// Rows that one transaction removes.
const ROWS_A_STEP_MAX: usize = 256;
/// Dead rows that are held at a time.
const DEAD_ROWS_MAX: usize = 16 * 1024;
/// Contents of dead rows that are held at a time, but for those of the last row.
const CONTENTS_MAX: usize = 256 * 1024;
/// How often a scan is made again because the blob was changed meanwhile.
const ATTEMPTS_MAX: usize = 8;

/// What the states, the stage and the notes of a blob name: what else is there is dead.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    generations: HashSet<u64>,
    stage: Option<u64>,
    contents: HashSet<ContentId>,
}

/// Some dead rows of a blob.
#[derive(Default)]
struct DeadRows {
    rows: Vec<Vec<u8>>,
    /// The contents that they name.
    contents: Vec<ContentId>,
    /// Where the next ones may be.
    next: Option<Vec<u8>>,
}

impl Blobs {
    /// Drops what a change has put out of use, behind the answer.
    pub fn clean_up(self: &Arc<Self>, location: BlobLocation, superseded: Superseded, tags_now: &BlobTags) {
        let (blobs, tags_now) = (self.clone(), tags_now.clone());
        tokio::spawn(async move {
            if let Err(error) = blobs.clean(&location, &superseded, &tags_now).await {
                tracing::debug!(%error, "cannot remove superseded rows and contents of a blob; the scrubber will");
            }
        });
    }

    /// Tidies a blob, behind the answer; these contents were named by rows that are removed.
    pub fn tidy_later(
        self: &Arc<Self>,
        location: BlobLocation,
        contents: Vec<ContentId>,
        superseded: Superseded,
    ) {
        let blobs = self.clone();
        tokio::spawn(async move {
            let done = async {
                let mut contents = contents;
                if let Some(record) = &superseded.record {
                    blobs.unindex_tags(&location, &record.tags, &BlobTags::default()).await?;
                    contents.extend(record.body.content());
                }
                blobs.tidy(&location, &contents).await?;
                blobs.fold(&location).await
            };
            if let Err(error) = done.await {
                tracing::debug!(%error, "cannot remove superseded rows and contents of a blob; the scrubber will");
            }
        });
    }

    /// Drops contents that no row names.
    pub async fn drop_contents(&self, space: SpaceId, contents: &[ContentId]) -> Result<(), Failure> {
        Ok(self.contents.drop_contents(space, contents).await?)
    }

    async fn clean(
        &self,
        location: &BlobLocation,
        superseded: &Superseded,
        tags_now: &BlobTags,
    ) -> Result<(), Failure> {
        let Some(old) = &superseded.record else { return self.tidy(location, &[]).await };
        self.unindex_tags(location, &old.tags, tags_now).await?;
        let content = old.body.content();
        let may_be_named = superseded.had_stage || superseded.is_kept || old.is_shared;
        match content {
            Some(content) if !may_be_named => self.drop_contents(location.space, &[content]).await,
            None if !may_be_named && matches!(old.body, Body::Data(_)) => Ok(()),
            content => self.tidy(location, content.as_slice()).await,
        }
    }

    /// Removes the dead rows of a blob, and drops the contents that no other row names: those of dead rows, and these,
    /// which an overwritten row named.
    pub async fn tidy(&self, location: &BlobLocation, overwritten: &[ContentId]) -> Result<(), Failure> {
        let mut contents: HashSet<ContentId> = overwritten.iter().copied().collect();
        let mut from = Some(vec![PIECES]);
        while let Some(start) = from {
            let dead = self.dead_rows(location, &start).await?;
            for rows in dead.rows.chunks(ROWS_A_STEP_MAX) {
                let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
                self.remove_rows(location, &rows).await?;
            }
            contents.extend(dead.contents);
            from = dead.next;
            if from.is_none() || contents.len() >= CONTENTS_MAX {
                let unnamed = self.unreferenced(location, std::mem::take(&mut contents)).await?;
                if !unnamed.is_empty() {
                    self.drop_contents(location.space, &unnamed).await?;
                }
            }
        }
        Ok(())
    }

    /// Those of these contents that no row of their blob names.
    pub async fn unreferenced(
        &self,
        location: &BlobLocation,
        contents: HashSet<ContentId>,
    ) -> Result<Vec<ContentId>, Failure> {
        if contents.is_empty() {
            return Ok(Vec::new());
        }
        let mut before = self.names(location).await?;
        for _ in 0..ATTEMPTS_MAX {
            let mut unnamed = contents.clone();
            self.visit_rows(location, &[], &[], |row, body| {
                for content in contents_in(row, &body)? {
                    unnamed.remove(&content);
                }
                Some(if unnamed.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })
            .await?;
            // Cells may have moved past the scan, to an older generation (`fold.rs`).
            for generation in self.page_generations(location).await? {
                if unnamed.is_empty() {
                    break;
                }
                scan_cells(self.engine.as_ref(), location, generation, 0..u64::MAX, |_, body| {
                    let Some(cell) = Cell::decode(&body) else { return ControlFlow::Break(Err(())) };
                    for content in cell.contents() {
                        unnamed.remove(&content);
                    }
                    ControlFlow::Continue(())
                })
                .await?;
            }
            let after = self.names(location).await?;
            if before == after {
                return Ok(unnamed.into_iter().collect());
            }
            before = after;
        }
        Err(Failure::changed_meanwhile())
    }

    /// The first dead rows from one on.
    async fn dead_rows(&self, location: &BlobLocation, from: &[u8]) -> Result<DeadRows, Failure> {
        let mut before = self.names(location).await?;
        for _ in 0..ATTEMPTS_MAX {
            let mut dead = DeadRows::default();
            self.visit_rows(location, &[], from, |row, body| {
                if !before.is_dead(row) {
                    return Some(ControlFlow::Continue(()));
                }
                if dead.rows.len() >= DEAD_ROWS_MAX || dead.contents.len() >= CONTENTS_MAX {
                    dead.next = Some(row.to_vec());
                    return Some(ControlFlow::Break(()));
                }
                dead.contents.extend(contents_in(row, &body)?);
                dead.rows.push(row.to_vec());
                Some(ControlFlow::Continue(()))
            })
            .await?;
            let after = self.names(location).await?;
            if dead.rows.is_empty() || before == after {
                return Ok(dead);
            }
            before = after;
        }
        Err(Failure::changed_meanwhile())
    }

    async fn names(&self, location: &BlobLocation) -> Result<Names, Failure> {
        let mut names = Names::default();
        self.visit_rows(location, &[], &[], |row, body| {
            if row.first().is_some_and(|kind| *kind >= PIECES) {
                return Some(ControlFlow::Break(()));
            }
            names.add(row, &body)?;
            Some(ControlFlow::Continue(()))
        })
        .await?;
        Ok(names)
    }
}

impl Names {
    /// Adds what a row in front of the rows of generations names. `None` if it does not say what it should, or is of a
    /// newer server and may name what looks dead.
    pub fn add(&mut self, row: &[u8], body: &[u8]) -> Option<()> {
        let record = match *row.first()? {
            _ if row == RECORD_ROW => Record::decode(body)?,
            _ if row == STAGE_ROW => {
                self.stage = Some(Stage::decode(body)?.generation);
                return Some(());
            }
            EARLIER => Earlier::decode(body)?.record,
            NOTE => {
                self.generations.insert(split_row(row)?.1);
                return Some(());
            }
            _ => return None,
        };
        self.generations.extend(record.body.generations());
        self.contents.extend(record.body.content());
        Some(())
    }

    /// Whether a row is of a generation that nothing names. All that names one must have been added.
    pub fn is_dead(&self, row: &[u8]) -> bool {
        match split_row(row) {
            Some((PIECES | PAGES, generation, _)) => !self.generations.contains(&generation),
            Some((STAGED, generation, _)) => self.stage != Some(generation),
            _ => false,
        }
    }
}

/// The contents that a row names; `None` if it does not say what it should, or is of a newer server.
fn contents_in(row: &[u8], body: &[u8]) -> Option<Vec<ContentId>> {
    Some(match *row.first()? {
        _ if row == RECORD_ROW => Record::decode(body)?.body.content().into_iter().collect(),
        EARLIER => Earlier::decode(body)?.record.body.content().into_iter().collect(),
        PIECES => decode_pieces(body)?.iter().filter_map(|piece| piece.data.content()).collect(),
        STAGED => decode_data(body)?.content().into_iter().collect(),
        PAGES => Cell::decode(body)?.contents().collect(),
        NOTE => Vec::new(),
        _ if row == STAGE_ROW => Vec::new(),
        _ => return None,
    })
}
