//! Showing contents: day by day of each space, the shards of a day put together in the order of ids.

use std::ops::ControlFlow;

use futures_util::future::try_join_all;
use tavola_engine::{
    ContentCursor, ContentError, ContentId, ContentStore, FoundContent, SpaceId, VisitContent,
};
use tavola_model::DateTime;

use super::statements::{ContentEntry, SHARDS, day_of};
use super::{CqlContents, Inner, read_failed};
use crate::commit::Patience;
use crate::store::StatementError;

/// Days that are asked for at once.
const DAYS_PAGE: i32 = 256;
/// Contents that are asked for at once, of each shard.
const ENTRIES_PAGE: i32 = 64;
/// Contents that are dropped between two looks.
const DROPPED_AT_ONCE: usize = 256;
/// How old an entry without a length is before it is shown: longer than any put takes. Half a day.
const PUT_TICKS_MAX: u64 = 12 * 3600 * 10_000_000;
/// A day without contents is unlisted after so many days.
const EMPTY_DAYS_KEPT: i32 = 2;

pub(super) async fn visit(
    inner: &Inner,
    from: Option<ContentCursor>,
    visit: &mut VisitContent<'_>,
) -> Result<Option<ContentCursor>, ContentError> {
    let (statements, session) = (inner.statements().await?, &inner.core.store.session);
    let mut behind = from;
    let mut next_day = from.map_or((SpaceId([0; 16]), i32::MIN), |from| (from.space, day_of(from.id)));
    loop {
        let read = || statements.read_days(session, next_day, DAYS_PAGE);
        let days = inner.core.patiently(&mut Patience::new(), read).await.map_err(read_failed)?;
        for (space, day) in &days {
            let start =
                behind.filter(|behind| behind.space == *space).map_or(ContentId::MIN, |behind| behind.id);
            let stopped = visit_day(inner, (*space, *day), start, visit).await?;
            if stopped.is_some() {
                return Ok(stopped);
            }
        }
        match days.last() {
            Some((space, day)) if days.len() == usize::try_from(DAYS_PAGE).unwrap_or(0) => {
                next_day = (*space, day.saturating_add(1));
                behind = behind.filter(|behind| behind.space == *space);
            }
            _ => return Ok(None),
        }
    }
}

/// Shows the contents of a day behind an id. Gives where the visitor stopped, if it did.
async fn visit_day(
    inner: &Inner,
    day: (SpaceId, i32),
    mut behind: ContentId,
    visit: &mut VisitContent<'_>,
) -> Result<Option<ContentCursor>, ContentError> {
    let (statements, session) = (inner.statements().await?, &inner.core.store.session);
    let now = inner.core.clock.now();
    let mut is_empty = behind == ContentId::MIN;
    loop {
        let read = || {
            try_join_all((0..SHARDS).map(|shard| async move {
                statements.read_entries(session, day, shard, behind, ENTRIES_PAGE).await
            }))
        };
        let shards: Vec<Vec<ContentEntry>> = inner
            .core
            .patiently::<_, _>(&mut Patience::new(), read)
            .await
            .map_err(|trouble: StatementError| read_failed(trouble))?;
        // A shard with a full page may have more behind its last; nothing above that is in order yet.
        let is_full = |shard: &&Vec<ContentEntry>| shard.len() == usize::try_from(ENTRIES_PAGE).unwrap_or(0);
        let last = shards.iter().filter(is_full).filter_map(|shard| shard.last()).map(|entry| entry.id).min();
        let mut entries: Vec<ContentEntry> = shards.into_iter().flatten().collect();
        entries.sort_by_key(|entry| entry.id);
        is_empty &= entries.is_empty();
        for entry in entries {
            if last.is_some_and(|last| entry.id > last) {
                break;
            }
            behind = entry.id;
            if entry.length.is_none() && !is_old(entry.id, now) {
                continue;
            }
            let found = entry.found(day.0);
            if visit(&found).is_break() {
                return Ok(Some(found.cursor()));
            }
        }
        if last.is_none() {
            break;
        }
    }
    if is_empty && day.1.saturating_add(EMPTY_DAYS_KEPT) < today(now) {
        let unlist = || statements.unlist_day(session, day.0, day.1);
        inner.core.patiently(&mut Patience::new(), unlist).await.map_err(read_failed)?;
    }
    Ok(None)
}

fn is_old(id: ContentId, now: DateTime) -> bool {
    id.born().ticks().saturating_add(PUT_TICKS_MAX) < now.ticks()
}

fn today(now: DateTime) -> i32 {
    let mut id = ContentId::MIN;
    id.0[..8].copy_from_slice(&now.ticks().to_be_bytes());
    day_of(id)
}

/// Drops all contents of a space that are shown.
pub(super) async fn drop_space(contents: &CqlContents, space: SpaceId) -> Result<(), ContentError> {
    loop {
        let mut some = Vec::new();
        let mut take = |found: &FoundContent| {
            if found.owner.space != space || some.len() >= DROPPED_AT_ONCE {
                return ControlFlow::Break(());
            }
            some.push(found.content.id);
            ControlFlow::Continue(())
        };
        visit(&contents.inner, Some(ContentCursor::space_start(space)), &mut take).await?;
        if some.is_empty() {
            return Ok(());
        }
        contents.drop_contents(space, &some).await?;
    }
}
