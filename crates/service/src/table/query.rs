//! Query Entities: one page of what the filter admits.
//!
//! The plan's ranges are read in order, each row is tested where it lies, and the page ends when it is full by
//! number, bytes or time. The continuation names the first row that was not taken. It is only given if there
//! is such a row, because clients count on a page that ends with the data to be the last.

use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_auth::KeyLimit;
use tavola_engine::{Engine, Position, ScanRange, ScannedRow, SpaceId};
use tavola_model::{
    Clock, EntityKey, EntityPage, EntityToken, ErrorCode, Key, KeyBytes, PAGE_BYTES_MAX, PAGE_ITEMS_MAX,
    PAGE_TIME_MS_MAX, PlanReport, QueryEntities, StoredEntity,
};

use super::entities::decode_properties;
use super::matches::Matcher;
use super::plan::plan;
use crate::failure::Failure;
use crate::long_reads::RowsVisited;
use crate::service::AnswerBudget;

/// Rows between two readings of the clock.
const ROWS_PER_TIME_CHECK: usize = 256;
/// Ranges that are read before others have their turn. Seeking is most of the work of a short one.
const RANGES_AT_ONCE: usize = 64;
/// Rows looked at behind a full page for one more that matches, before the continuation names whatever row
/// comes next. A filter that admits nothing more then costs a client one empty page at most.
const LOOKAHEAD_ROWS_MAX: usize = 64;
const TICKS_PER_MS: u64 = 10_000;
/// Stored bytes of a page that are not charged to the budget: small answers are not counted.
const FREE_BYTES: usize = 8 * 1024;
/// Bytes are reserved in steps of this size.
const RESERVE_STEP_BYTES: usize = 64 * 1024;

/// What a page is read from, and within.
pub(crate) struct Reading {
    pub engine: Arc<dyn Engine>,
    pub clock: Arc<dyn Clock>,
    pub space: SpaceId,
    /// The keys that the caller may see.
    pub limit: Option<KeyLimit>,
    /// Memory for the page.
    pub budget: Option<Arc<dyn AnswerBudget>>,
    /// Counts the rows that are visited.
    pub progress: RowsVisited,
    /// A page ends where a partition does, as it may on the real service.
    pub pages_end_with_partitions: bool,
}

/// Reads one page.
pub(crate) async fn query_entities(reading: Reading, query: QueryEntities) -> Result<EntityPage, Failure> {
    let mut plan = plan(query.filter.as_ref());
    if let Some(limit) = &reading.limit {
        plan = plan.within(&limit_range(limit));
    }
    if let Some(token) = &query.from {
        plan = plan.within(&ScanRange { from: token_position(token), before: None });
    }
    let mut page = Page::new(&reading, &query);
    if page.top > 0 {
        for (index, range) in plan.ranges.iter().enumerate() {
            if index % RANGES_AT_ONCE == RANGES_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            page.read(reading.engine.as_ref(), range).await?;
            if page.ended {
                break;
            }
        }
    }
    let report = PlanReport {
        kind: plan.kind,
        ranges: plan.ranges.len(),
        scanned: reading.progress.rows(),
        returned: page.entities.len(),
    };
    Ok(EntityPage { entities: page.entities, next: page.next, plan: report })
}

/// A page while it is filled.
struct Page<'a> {
    reading: &'a Reading,
    deadline: u64,
    space: SpaceId,
    matcher: Option<Matcher<'a>>,
    top: usize,
    entities: Vec<StoredEntity>,
    bytes: usize,
    /// Bytes that are reserved.
    bytes_taken: usize,
    looked_ahead: usize,
    /// The partition of the last row, where pages end with partitions.
    partition: Option<Vec<u8>>,
    next: Option<EntityToken>,
    ended: bool,
    failure: Option<Failure>,
}

impl<'a> Page<'a> {
    fn new(reading: &'a Reading, query: &'a QueryEntities) -> Self {
        Self {
            reading,
            deadline: reading.clock.now().ticks() + PAGE_TIME_MS_MAX * TICKS_PER_MS,
            space: reading.space,
            matcher: query.filter.as_ref().map(Matcher::new),
            top: query.top.unwrap_or(PAGE_ITEMS_MAX).min(PAGE_ITEMS_MAX),
            entities: Vec::new(),
            bytes: 0,
            bytes_taken: FREE_BYTES,
            looked_ahead: 0,
            partition: None,
            next: None,
            ended: false,
            failure: None,
        }
    }

    /// Takes what fits from one range.
    async fn read(&mut self, engine: &dyn Engine, range: &ScanRange) -> Result<(), Failure> {
        if is_point(range) {
            // A seek to one row is cheaper than opening a scan for it.
            let Position { partition, row } = &range.from;
            if let Some(stored) = engine.get(self.space, partition, row).await? {
                let _ = self.visit(ScannedRow { partition, row, version: stored.version, body: stored.body });
            }
        } else {
            let space = self.space;
            let mut visit = |row: ScannedRow<'_>| self.visit(row);
            engine.scan(space, range, &mut visit).await?;
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    fn visit(&mut self, row: ScannedRow<'_>) -> ControlFlow<()> {
        let step = self.take(row);
        let step = step.unwrap_or_else(|error| {
            self.failure = Some(error);
            ControlFlow::Break(())
        });
        self.ended |= step.is_break();
        step
    }

    /// Tests one row and takes it if it matches and fits; otherwise the page ends at it.
    fn take(&mut self, row: ScannedRow<'_>) -> Result<ControlFlow<()>, Failure> {
        self.reading.progress.count();
        let is_late = self.reading.progress.rows().is_multiple_of(ROWS_PER_TIME_CHECK)
            && self.reading.clock.now().ticks() >= self.deadline;
        let is_full = self.entities.len() == self.top;
        self.looked_ahead += usize::from(is_full);
        if is_late || self.looked_ahead > LOOKAHEAD_ROWS_MAX || self.is_beyond_partition(&row) {
            return self.end_at(&row);
        }
        if let Some(matcher) = &mut self.matcher {
            let admitted = matcher.admits(&row);
            if !admitted.ok_or_else(|| Failure::damaged(self.space, "a property that a filter asks for"))? {
                return Ok(ControlFlow::Continue(()));
            }
        }
        let row_bytes = row.partition.len() + row.row.len() + row.body.len();
        let is_too_much = !self.entities.is_empty() && self.bytes + row_bytes > PAGE_BYTES_MAX;
        if is_full || is_too_much {
            return self.end_at(&row);
        }
        if self.bytes + row_bytes > self.bytes_taken && !self.reserve(self.bytes + row_bytes) {
            // A page of nothing would not get its client any further.
            return if self.entities.is_empty() {
                Err(ErrorCode::ServerBusy.into())
            } else {
                self.end_at(&row)
            };
        }
        self.bytes += row_bytes;
        let properties = decode_properties(self.space, &row.body)?;
        let (key, timestamp) = (self.key_of(&row)?, row.version);
        self.entities.push(StoredEntity { key, timestamp, properties });
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the page has rows of an earlier partition and is to end with it.
    fn is_beyond_partition(&mut self, row: &ScannedRow<'_>) -> bool {
        if !self.reading.pages_end_with_partitions {
            return false;
        }
        let last = self.partition.get_or_insert_with(|| row.partition.to_vec());
        last != row.partition
    }

    /// Reserves so many bytes, in steps.
    fn reserve(&mut self, bytes: usize) -> bool {
        let Some(budget) = &self.reading.budget else { return true };
        let wanted = bytes.next_multiple_of(RESERVE_STEP_BYTES);
        let is_taken = budget.take(wanted - self.bytes_taken);
        if is_taken {
            self.bytes_taken = wanted;
        }
        is_taken
    }

    fn end_at(&mut self, row: &ScannedRow<'_>) -> Result<ControlFlow<()>, Failure> {
        let EntityKey { partition, row } = self.key_of(row)?;
        self.next = Some(EntityToken { partition: partition.as_str().into(), row: row.as_str().into() });
        Ok(ControlFlow::Break(()))
    }

    fn key_of(&self, row: &ScannedRow<'_>) -> Result<EntityKey, Failure> {
        match (Key::from_bytes(row.partition), Key::from_bytes(row.row)) {
            (Some(partition), Some(row)) => Ok(EntityKey { partition, row }),
            _ => Err(Failure::damaged(self.space, "the keys of an entity")),
        }
    }
}

fn is_point(range: &ScanRange) -> bool {
    let Position { partition, row } = &range.from;
    range.before.as_ref().is_some_and(|before| {
        before.partition == *partition && before.row.strip_suffix(&[0]) == Some(row.as_slice())
    })
}

fn token_position(token: &EntityToken) -> Position {
    Position {
        partition: KeyBytes::from_text(&token.partition).into_vec(),
        row: KeyBytes::from_text(&token.row).into_vec(),
    }
}

/// The rows a SAS may see. Its bounds are included; without a RowKey a bound takes in its whole partition.
fn limit_range(limit: &KeyLimit) -> ScanRange {
    let bytes = |text: &str| KeyBytes::from_text(text).into_vec();
    let from = match &limit.start {
        Some((partition, row)) => {
            Position::at(&bytes(partition), &row.as_deref().map(bytes).unwrap_or_default())
        }
        None => Position::first(),
    };
    let before = limit.end.as_ref().map(|(partition, row)| match row {
        Some(row) => Position::after(&bytes(partition), &bytes(row)),
        None => Position::partition_end(&bytes(partition)),
    });
    ScanRange { from, before }
}
