//! The scrubber: what a crash, a lost answer, a client that went away or time has left behind.
//!
//! A scrub does three things, one after the other:
//!
//! 1. It drops the contents of spaces that are gone. A space is made before its first content and never comes back.
//! 2. It reads the rows of every container for blobs that have something old: uncommitted blocks, deleted states that can no
//!    longer be restored, rows that were written in advance and given up, rows that nothing names because a server ended
//!    before it had removed them. It tidies those.
//! 3. It visits every content, reads all of it, so that damage is found while there are copies elsewhere, and asks the
//!    partition that owns it whether a row names it. It drops those that none does, but only when they are a day old:
//!    uploads are held to twelve hours, so by then a row names a content or none ever will.
//!
//! A partition that cannot be read keeps everything. A content that cannot be read, or of which the store cannot tell
//! whose it is, is counted and stays.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tavola_engine::{
    ContentCursor, ContentError, ContentId, FoundContent, Position, ScanRange, ScannedRow, SpaceId,
};
use tavola_model::{BlobName, BlobPath, ContainerName, DateTime, KeyBytes};

use super::Blobs;
use super::change::BlobLocation;
use super::list::NAMES_FROM;
use super::prepare::decode_note;
use super::rows::{EARLIER, Earlier, NOTE, PIECES, STAGE_ROW, Stage, damaged, earlier_row, note_row};
use super::tidy::Names;
use crate::catalog::ResourceKind;
use crate::failure::Failure;

/// How old a content is before it is checked.
const AGE_MIN: Duration = Duration::from_secs(24 * 60 * 60);
/// How long uncommitted blocks are kept after the last one was put
/// (<https://learn.microsoft.com/rest/api/storageservices/put-block>).
const STAGE_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Contents that are asked about in one go.
const CONTENTS_A_STEP: usize = 1000;
/// Blobs that are tidied before the scan of their container goes on.
const BLOBS_A_STEP: usize = 256;
/// Rows that a scrub reads before it pauses.
const ROWS_A_STEP: usize = 4096;

/// How much of the machine a scrub takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubPace {
    /// It pauses nine times as long as it works: a tenth of a core at most.
    Gentle,
    /// It does not pause.
    Full,
}

impl ScrubPace {
    /// Rests after some work that began then.
    async fn rest(self, began: Instant) {
        match self {
            Self::Gentle => tokio::time::sleep(began.elapsed() * 9).await,
            Self::Full => tokio::task::yield_now().await,
        }
    }
}

/// What a scrub has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Contents that were visited.
    pub contents: u64,
    /// Their bytes, all of which were read and verified.
    pub bytes: u64,
    /// Contents that cannot be read as they were written.
    pub damaged: u64,
    /// Contents that no row named, and that were dropped.
    pub dropped: u64,
    /// Blobs of which something old was removed.
    pub tidied: u64,
}

impl Blobs {
    /// Visits everything once.
    pub async fn scrub(&self, pace: ScrubPace) -> Result<ScrubReport, Failure> {
        self.catalog.drop_expired().await?;
        self.drop_of_missing_spaces().await?;
        let mut scrubbed =
            ScrubReport { tidied: self.tidy_containers(pace).await?, ..ScrubReport::default() };
        let before = self.clock.now().ticks().saturating_sub(ticks(AGE_MIN));
        let mut from: Option<ContentCursor> = None;
        loop {
            let mut found: Vec<FoundContent> = Vec::new();
            let mut visit = |content: &FoundContent| {
                found.push(content.clone());
                if found.len() < CONTENTS_A_STEP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let next = match self.contents.visit(from, &mut visit).await {
                Err(ContentError::Damaged { space, id, what }) if is_behind(space, id, from) => {
                    scrubbed.damaged += 1;
                    tracing::error!(%space, content = %id, what, "a content of a blob cannot be read; `tavola verify` reports details");
                    Some(ContentCursor { space, id })
                }
                visited => visited?,
            };
            for content in &found {
                self.read_through(content, pace, &mut scrubbed).await;
            }
            found.retain(|content| content.content.id.born().ticks() < before);
            scrubbed.dropped += self.drop_unnamed(found).await?;
            match next {
                Some(next) => from = Some(next),
                None => return Ok(scrubbed),
            }
        }
    }

    /// Drops the contents of spaces that are gone: their container was deleted, and the server ended before they were
    /// dropped.
    pub async fn drop_of_missing_spaces(&self) -> Result<(), Failure> {
        let mut from: Option<ContentCursor> = None;
        loop {
            let mut found = None;
            let mut visit = |content: &FoundContent| {
                found = Some(content.owner.space);
                ControlFlow::Break(())
            };
            match self.contents.visit(from, &mut visit).await {
                Err(ContentError::Damaged { space, id, .. }) if is_behind(space, id, from) => {
                    found = Some(space);
                }
                visited => drop(visited?),
            }
            let Some(space) = found else { return Ok(()) };
            match self.engine.get(space, &[], &[]).await.map_err(Failure::from) {
                Err(failure) if failure.is_space_missing() => {
                    tracing::info!(%space, "dropping the contents of a deleted container");
                    if let Err(error) = self.contents.drop_space(space).await {
                        tracing::warn!(%space, %error, "cannot drop the contents of a deleted container; the next scrub will");
                    }
                }
                // One that cannot be read keeps its contents.
                Ok(_) | Err(_) => {}
            }
            from = Some(ContentCursor { space, id: ContentId::MAX });
        }
    }

    /// Reads a content to its end, piece by piece.
    async fn read_through(&self, found: &FoundContent, pace: ScrubPace, scrubbed: &mut ScrubReport) {
        let FoundContent { content, owner } = found;
        scrubbed.contents += 1;
        let mut began = Instant::now();
        let broken = match self.contents.read(owner.space, content, 0..content.length).await {
            Ok(mut source) => loop {
                pace.rest(began).await;
                began = Instant::now();
                match source.next().await {
                    Ok(Some(piece)) => scrubbed.bytes += piece.len() as u64,
                    Ok(None) => break None,
                    Err(error) => break Some(error.to_string()),
                }
            },
            // Dropped since the visit.
            Err(ContentError::Missing { .. }) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = broken {
            scrubbed.damaged += 1;
            let (space, content) = (owner.space, content.id);
            tracing::error!(%space, %content, error, "a content of a blob cannot be read; `tavola verify` reports details");
        }
    }

    /// Tidies the blobs of all containers that have something old; gives how many.
    async fn tidy_containers(&self, pace: ScrubPace) -> Result<u64, Failure> {
        let mut tidied = 0;
        for space in self.catalog.spaces(ResourceKind::Container).await? {
            match self.tidy_container(space, pace).await {
                Ok(blobs) => tidied += blobs,
                // Deleted meanwhile.
                Err(failure) if failure.is_space_missing() => {}
                Err(failure) => {
                    tracing::warn!(%space, %failure, "cannot read the rows of a container; the scrubber removes nothing of it");
                }
            }
        }
        Ok(tidied)
    }

    async fn tidy_container(&self, space: SpaceId, pace: ScrubPace) -> Result<u64, Failure> {
        let now = self.clock.now();
        let (mut from, mut tidied) = (Position::partition_start(&[NAMES_FROM]), 0);
        // A step may end among the rows of a blob, so what is known of that blob lasts longer.
        let mut blob = BlobSeen::at(&[]);
        loop {
            let began = Instant::now();
            let (mut old, mut rows, mut next): (Vec<Vec<u8>>, usize, Option<Position>) =
                (Vec::new(), 0, None);
            let mut visit = |row: ScannedRow<'_>| {
                rows += 1;
                if blob.partition != row.partition {
                    blob = BlobSeen::at(row.partition);
                }
                if blob.is_old {
                    return ControlFlow::Continue(());
                }
                if rows >= ROWS_A_STEP || old.len() >= BLOBS_A_STEP {
                    next = Some(Position::at(row.partition, row.row));
                    return ControlFlow::Break(());
                }
                if blob.finds_old(&row, now) {
                    old.push(row.partition.to_vec());
                }
                ControlFlow::Continue(())
            };
            let range = ScanRange { from, before: None };
            self.engine.scan(space, &range, &mut visit).await?;
            for partition in old {
                match self.tidy_old(&location_of(space, partition)?).await {
                    Ok(()) => tidied += 1,
                    Err(failure) if failure.is_space_missing() => return Err(failure),
                    Err(failure) => {
                        tracing::warn!(%space, %failure, "cannot tidy the rows of a blob; the scrubber tries again");
                    }
                }
            }
            pace.rest(began).await;
            match next {
                Some(next) => from = next,
                None => return Ok(tidied),
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
            let location = location_of(space, partition)?;
            let unnamed = match self.tidy_old(&location).await {
                Ok(()) => self.unreferenced(&location, contents.iter().copied().collect()).await,
                Err(failure) => Err(failure),
            };
            let unnamed = match unnamed {
                Ok(unnamed) => unnamed,
                // The container is gone, and all its contents with it.
                Err(failure) if failure.is_space_missing() => contents,
                Err(failure) => {
                    tracing::warn!(%space, %failure, "cannot read the rows of a blob; the scrubber keeps its contents");
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

    /// Removes what has had its time in a partition: uncommitted blocks, deleted states, notes, dead generations.
    async fn tidy_old(&self, location: &BlobLocation) -> Result<(), Failure> {
        let now = self.clock.now();
        self.transact(location, &[STAGE_ROW], |_, rows| {
            let Some(row) = &rows[0] else { return Ok((Vec::new(), ())) };
            let stage = Stage::decode(&row.body).ok_or_else(|| damaged(location.space))?;
            let is_old = is_stage_old(&stage, now);
            Ok((is_old.then_some(tavola_engine::Change::Delete { index: 0 }).into_iter().collect(), ()))
        })
        .await?;
        let mut old: Vec<Vec<u8>> = Vec::new();
        self.visit_earlier(location, |time, earlier| {
            if earlier.deleted.is_some_and(|deleted| deleted.until <= now) {
                old.push(earlier_row(time));
            }
            ControlFlow::Continue(())
        })
        .await?;
        for row in &old {
            self.transact(location, &[row], |_, rows| {
                // It may have been restored in its last moment.
                let earlier = rows[0].as_ref().and_then(|row| Earlier::decode(&row.body));
                let deleted = earlier.and_then(|earlier| earlier.deleted);
                let is_old = deleted.is_some_and(|deleted| deleted.until <= now);
                Ok((is_old.then_some(tavola_engine::Change::Delete { index: 0 }).into_iter().collect(), ()))
            })
            .await?;
        }
        old.clear();
        self.visit_notes(location, |generation, written| {
            if is_note_old(written, now) {
                old.push(note_row(generation));
            }
        })
        .await?;
        for row in &old {
            self.transact(location, &[row], |_, rows| {
                let written = rows[0].as_ref().and_then(|row| decode_note(&row.body));
                let is_old = written.is_some_and(|written| is_note_old(written, now));
                Ok((is_old.then_some(tavola_engine::Change::Delete { index: 0 }).into_iter().collect(), ()))
            })
            .await?;
        }
        self.tidy(location, &[]).await?;
        self.fold(location).await
    }
}

/// Whether a content is behind a place, so that a visit that goes on behind the content goes on.
fn is_behind(space: SpaceId, id: ContentId, from: Option<ContentCursor>) -> bool {
    from.is_none_or(|from| ContentCursor { space, id } > from)
}

/// What a scan has seen of the blob that it is at.
struct BlobSeen {
    partition: Vec<u8>,
    is_old: bool,
    /// What its rows name; `None` once one cannot be read. That is left to whoever reads the blob.
    names: Option<Names>,
}

impl BlobSeen {
    fn at(partition: &[u8]) -> Self {
        Self { partition: partition.to_vec(), is_old: false, names: Some(Names::default()) }
    }

    /// Takes the next row; whether it has had its time, or nothing names it. The scan may be of several moments, so
    /// whoever removes something looks again.
    fn finds_old(&mut self, row: &ScannedRow<'_>, now: DateTime) -> bool {
        let Some(names) = &mut self.names else { return false };
        if row.row.first().is_some_and(|kind| *kind >= PIECES) {
            self.is_old = names.is_dead(row.row);
        } else if names.add(row.row, &row.body).is_none() {
            self.names = None;
        } else {
            self.is_old = is_old(row, now);
        }
        self.is_old
    }
}

/// Whether a row of a blob has had its time.
fn is_old(row: &ScannedRow<'_>, now: DateTime) -> bool {
    if row.row == STAGE_ROW {
        return Stage::decode(&row.body).is_some_and(|stage| is_stage_old(&stage, now));
    }
    if row.row.first() == Some(&NOTE) {
        return decode_note(&row.body).is_some_and(|written| is_note_old(written, now));
    }
    row.row.first() == Some(&EARLIER)
        && Earlier::decode(&row.body)
            .and_then(|earlier| earlier.deleted)
            .is_some_and(|deleted| deleted.until <= now)
}

/// Whether whoever wrote rows in advance has gone away.
fn is_note_old(written: DateTime, now: DateTime) -> bool {
    written.ticks().saturating_add(ticks(AGE_MIN)) < now.ticks()
}

fn is_stage_old(stage: &Stage, now: DateTime) -> bool {
    stage.put.ticks().saturating_add(ticks(STAGE_AGE_MAX)) < now.ticks()
}

fn ticks(time: Duration) -> u64 {
    time.as_secs() * 10_000_000
}

/// A partition of which only the rows are of interest.
pub(crate) fn location_of(space: SpaceId, partition: Vec<u8>) -> Result<BlobLocation, Failure> {
    let name = KeyBytes::to_text(&partition).and_then(|text| BlobName::parse(&text).ok());
    Ok(BlobLocation {
        account: tavola_model::AccountName::parse("scrubber").expect("a valid name"),
        path: BlobPath { container: ContainerName::root(), name: name.ok_or_else(|| damaged(space))? },
        space,
        partition,
    })
}
