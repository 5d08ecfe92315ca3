//! Cleaning up behind a change: rows and contents that nothing names any more.
//!
//! What a record, an earlier state, the stage or a note names is alive; a generation that none of them names is dead for ever,
//! because only what is alive is ever named again. So the rows of dead generations can be removed at any time, and a
//! content that only they named can be dropped after them. A crash before that leaves it to the scrubber.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::{ContentId, SpaceId};
use tavola_model::BlobTags;

use super::Blobs;
use super::cell::Cell;
use super::change::BlobLocation;
use super::pieces::{Data, decode_pieces};
use super::put::Superseded;
use super::record::{Body, Record};
use super::rows::{
    EARLIER, Earlier, NOTE, PAGES, PIECES, RECORD_ROW, STAGE_ROW, STAGED, Stage, decode_data, split_row,
};
use crate::failure::Failure;

/// Rows that one transaction removes.
const ROWS_A_STEP_MAX: usize = 256;

/// What the rows of a blob name.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Contents that a living row names.
    pub alive: HashSet<ContentId>,
    /// Contents that only dead rows name.
    pub dead: HashSet<ContentId>,
    /// Rows of dead generations.
    pub dead_rows: Vec<Vec<u8>>,
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
                    if let Body::Data(data) = &record.body {
                        contents.extend(data.content());
                    }
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
        let content = match &old.body {
            Body::Data(data) => data.content(),
            Body::Pieces { .. } | Body::Pages { .. } => None,
        };
        let may_be_named = superseded.had_stage || superseded.is_kept || old.is_shared;
        match content {
            Some(content) if !may_be_named => self.drop_contents(location.space, &[content]).await,
            None if !may_be_named && matches!(old.body, Body::Data(_)) => Ok(()),
            content => self.tidy(location, content.as_slice()).await,
        }
    }

    /// Removes the dead rows of a blob, and drops the contents that no living row names: those of dead rows, and
    /// these, which an overwritten row named.
    pub async fn tidy(&self, location: &BlobLocation, overwritten: &[ContentId]) -> Result<(), Failure> {
        let mut named = self.named(location).await?;
        named.dead.extend(overwritten);
        for rows in named.dead_rows.chunks(ROWS_A_STEP_MAX) {
            let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            self.remove_rows(location, &rows).await?;
        }
        let dead: Vec<ContentId> = named.dead.difference(&named.alive).copied().collect();
        if !dead.is_empty() {
            self.drop_contents(location.space, &dead).await?;
        }
        Ok(())
    }

    /// What the rows of a blob name, as of one moment.
    pub async fn named(&self, location: &BlobLocation) -> Result<Named, Failure> {
        let (mut generations, mut stage, mut named) = (HashSet::new(), None, Named::default());
        // What names a generation comes before its rows, so none of them has to be kept.
        self.visit_rows(location, &[], &[], |row, body| {
            if row == RECORD_ROW {
                note(&Record::decode(&body)?, &mut generations, &mut named.alive);
                return Some(ControlFlow::Continue(()));
            }
            if row == STAGE_ROW {
                stage = Some(Stage::decode(&body)?.generation);
                return Some(ControlFlow::Continue(()));
            }
            let Some((kind, generation, _)) = split_row(row) else { return Some(ControlFlow::Continue(())) };
            let (is_alive, contents): (bool, Vec<ContentId>) = match kind {
                EARLIER => {
                    note(&Earlier::decode(&body)?.record, &mut generations, &mut named.alive);
                    return Some(ControlFlow::Continue(()));
                }
                NOTE => {
                    generations.insert(generation);
                    return Some(ControlFlow::Continue(()));
                }
                PIECES => {
                    let pieces = decode_pieces(&body)?;
                    let contents = pieces.iter().filter_map(|piece| piece.data.content()).collect();
                    (generations.contains(&generation), contents)
                }
                STAGED => {
                    let data = decode_data(&body)?;
                    (stage == Some(generation), data.content().into_iter().collect())
                }
                PAGES => {
                    let cell = Cell::decode(&body)?;
                    (generations.contains(&generation), cell.contents().collect())
                }
                _ => return Some(ControlFlow::Continue(())),
            };
            if is_alive {
                named.alive.extend(contents);
            } else {
                named.dead.extend(contents);
                named.dead_rows.push(row.to_vec());
            }
            Some(ControlFlow::Continue(()))
        })
        .await?;
        Ok(named)
    }
}

fn note(record: &Record, generations: &mut HashSet<u64>, alive: &mut HashSet<ContentId>) {
    generations.extend(record.body.generations());
    if let Body::Data(data) = &record.body {
        alive.extend(Data::content(data));
    }
}
