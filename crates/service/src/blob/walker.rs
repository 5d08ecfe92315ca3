//! The walker: what a crash, a lost answer or a client that went away has left behind.
//!
//! It visits every content, asks the partition that owns it whether a row names it, and drops those that none does. A
//! content is looked at only when it is a day old: uploads are held to twelve hours, so by then a row names it or none
//! ever will. A partition that cannot be read keeps everything.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use tavola_engine::{ContentCursor, ContentId, FoundContent, SpaceId};
use tavola_model::{BlobName, BlobPath, ContainerName, KeyBytes};

use super::Blobs;
use super::change::Place;
use super::rows::{STAGE_ROW, Stage, damaged};
use crate::failure::Failure;

/// How old a content is before it is looked at.
const AGE_MIN: Duration = Duration::from_secs(24 * 60 * 60);
/// How long uncommitted blocks are kept after the last one was put
/// (<https://learn.microsoft.com/rest/api/storageservices/put-block>).
const STAGE_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Contents that are asked about in one go.
const CONTENTS_A_STEP: usize = 1000;

/// What a walk has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Contents that were visited.
    pub contents: u64,
    /// Contents that no row named, and that were dropped.
    pub dropped: u64,
}

impl Blobs {
    /// Visits every content once.
    pub async fn walk(&self) -> Result<Walked, Failure> {
        self.walk_older(AGE_MIN).await
    }

    pub async fn walk_older(&self, age_min: Duration) -> Result<Walked, Failure> {
        let before = self.clock.now().ticks().saturating_sub(ticks(age_min));
        let mut walked = Walked::default();
        let mut from: Option<ContentCursor> = None;
        loop {
            let mut found: Vec<FoundContent> = Vec::new();
            let mut visit = |content: &FoundContent| {
                found.push(content.clone());
                if found.len() < CONTENTS_A_STEP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let next = self.contents.visit(from, &mut visit).await?;
            walked.contents += found.len() as u64;
            found.retain(|content| content.content.id.born().ticks() < before);
            walked.dropped += self.drop_unnamed(found).await?;
            match next {
                Some(next) => from = Some(next),
                None => return Ok(walked),
            }
        }
    }

    /// Drops those contents that their partition does not name.
    async fn drop_unnamed(&self, found: Vec<FoundContent>) -> Result<u64, Failure> {
        let mut by_owner: HashMap<(SpaceId, Vec<u8>), Vec<ContentId>> = HashMap::new();
        for FoundContent { content, owner } in found {
            by_owner.entry((owner.space, owner.partition)).or_default().push(content.id);
        }
        let mut dropped = 0;
        for ((space, partition), contents) in by_owner {
            let place = place_of(space, partition)?;
            let alive = match self.tidy_old(&place).await {
                Ok(()) => self.named(&place).await.map(|named| named.alive),
                Err(failure) => Err(failure),
            };
            let unnamed: Vec<ContentId> = match alive {
                Ok(alive) => contents.into_iter().filter(|id| !alive.contains(id)).collect(),
                // The container is gone, and all its contents with it.
                Err(failure) if failure.is_space_missing() => contents,
                Err(failure) => {
                    tracing::warn!(%space, %failure, "the rows of a blob cannot be read; its contents are kept");
                    continue;
                }
            };
            if !unnamed.is_empty() {
                self.drop_contents(space, &unnamed).await?;
                dropped += unnamed.len() as u64;
            }
        }
        Ok(dropped)
    }

    /// Removes what has had its time in a partition: uncommitted blocks, deleted states, dead generations.
    async fn tidy_old(&self, place: &Place) -> Result<(), Failure> {
        let now = self.clock.now();
        self.transact(place, &[STAGE_ROW], |_, rows| {
            let Some(row) = &rows[0] else { return Ok((Vec::new(), ())) };
            let stage = Stage::decode(&row.body).ok_or_else(|| damaged(place.space))?;
            let is_old = stage.put.ticks().saturating_add(ticks(STAGE_AGE_MAX)) < now.ticks();
            Ok((is_old.then_some(tavola_engine::Change::Delete { index: 0 }).into_iter().collect(), ()))
        })
        .await?;
        for (row, earlier) in self.earlier(place).await? {
            if earlier.deleted.is_some_and(|deleted| deleted.until <= now) {
                self.transact(place, &[&row], |_, rows| {
                    let is_there = rows[0].is_some();
                    let delete = tavola_engine::Change::Delete { index: 0 };
                    Ok((is_there.then_some(delete).into_iter().collect(), ()))
                })
                .await?;
            }
        }
        self.tidy(place, &[]).await
    }
}

fn ticks(time: Duration) -> u64 {
    time.as_secs() * 10_000_000
}

/// A partition of which only the rows are of interest.
fn place_of(space: SpaceId, partition: Vec<u8>) -> Result<Place, Failure> {
    let name = KeyBytes::to_text(&partition).and_then(|text| BlobName::parse(&text).ok());
    Ok(Place {
        account: tavola_model::AccountName::parse("walker").expect("a valid name"),
        path: BlobPath { container: ContainerName::root(), name: name.ok_or_else(|| damaged(space))? },
        space,
        partition,
    })
}
