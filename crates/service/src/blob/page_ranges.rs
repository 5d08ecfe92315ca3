//! Which pages of a page blob hold something, or differ from those of a snapshot.
//!
//! A page differs if it was written or cleared since the snapshot: that is told by the content that holds it, which never
//! changes. Pages whose bytes are in the row itself are told by these bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tavola_model::{
    AccountName, BlobMoment, BlobTarget, Changed, ErrorCode, GetPageRanges, PAGE_BYTES, PAGE_RANGES_MAX,
    PageRange, PageRanges,
};

use super::Blobs;
use super::cell::{CELL_BYTES, CELL_PAGES, Cell};
use super::change::BlobLocation;
use super::get::resolve_range;
use super::pieces::Data;
use super::record::Body;
use super::reservation::AnswerReservation;
use crate::failure::Failure;
use crate::service::AnswerBudget;

/// What a range takes, in memory and in the answer.
const RANGE_BYTES: usize = 128;

/// What is said of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Page {
    Unsaid,
    Written,
    Cleared,
}

impl Blobs {
    pub async fn get_page_ranges(
        &self,
        account: &AccountName,
        get: GetPageRanges,
        budget: Option<Arc<dyn AnswerBudget>>,
    ) -> Result<PageRanges, Failure> {
        let location = self.location(account, &get.target.path).await?;
        let record = self.read_state(&location, &get.target, &get.conditions).await?;
        let Body::Pages { generations, length } = &record.body else {
            return Err(ErrorCode::InvalidBlobType.into());
        };
        let earlier = match get.since {
            None => None,
            Some(since) => Some(self.earlier_pages(&location, since, &get.target).await?),
        };
        let (mut at, end) = match get.range {
            None => (0, *length),
            Some(range) => {
                let range = resolve_range(range, *length)?;
                (
                    range.first / PAGE_BYTES * PAGE_BYTES,
                    (range.first + range.length).next_multiple_of(PAGE_BYTES),
                )
            }
        };
        at = at.max(get.from.unwrap_or(0));
        let max = if get.is_paged { PAGE_RANGES_MAX } else { u32::MAX };
        let mut found = FoundRanges {
            ranges: Vec::new(),
            max: get.max.map_or(max, |asked| asked.min(max)) as usize,
            is_paged: get.is_paged,
            reservation: AnswerReservation::new(budget),
        };
        let (mut cell_at, end_cell, mut next) = (at / CELL_BYTES, end.div_ceil(CELL_BYTES), None);
        'steps: while cell_at < end_cell {
            let (mut cells, mut behind) = self.next_cells(&location, generations, cell_at..end_cell).await?;
            let before = match &earlier {
                None => None,
                Some((generations, length)) => {
                    let (mut before, next) = self.next_cells(&location, generations, cell_at..behind).await?;
                    // What lies behind the end of the earlier state was not seen.
                    for (cell, pages) in &mut before {
                        pages.cut(length.saturating_sub(cell * CELL_BYTES) / PAGE_BYTES);
                    }
                    behind = next;
                    Some(before)
                }
            };
            let numbers: BTreeSet<u64> =
                cells.keys().chain(before.iter().flat_map(BTreeMap::keys)).copied().collect();
            for cell in numbers.into_iter().take_while(|cell| *cell < behind) {
                let now = cells.remove(&cell);
                let said = pages(now.as_ref(), before.as_ref().map(|before| before.get(&cell)));
                let start = cell * CELL_BYTES;
                let (from, to) = (at.max(start), end.min(start + CELL_BYTES));
                for page in (from - start) / PAGE_BYTES..(to - start).div_ceil(PAGE_BYTES) {
                    let first = start + page * PAGE_BYTES;
                    let is_clear = match said[usize::try_from(page).expect("a cell is small")] {
                        Page::Unsaid => continue,
                        Page::Written => false,
                        Page::Cleared => true,
                    };
                    if !found.add(first, is_clear)? {
                        next = Some(first);
                        break 'steps;
                    }
                }
            }
            cell_at = behind;
        }
        let ranges = found.ranges;
        Ok(PageRanges { changed: Changed(record.changed), blob_length: *length, ranges, next, max: get.max })
    }

    /// The generations of pages of a snapshot that another state is held against, and its length.
    async fn earlier_pages(
        &self,
        location: &BlobLocation,
        since: BlobMoment,
        target: &BlobTarget,
    ) -> Result<(Vec<u64>, u64), Failure> {
        if let (BlobMoment::Snapshot(since), BlobMoment::Snapshot(shown)) = (since, target.moment)
            && since > shown
        {
            return Err(ErrorCode::PreviousSnapshotCannotBeNewer.into());
        }
        let previous = BlobTarget { path: target.path.clone(), moment: since };
        match self.find_state(location, &previous).await?.map(|record| record.body) {
            Some(Body::Pages { generations, length }) => Ok((generations, length)),
            Some(Body::Data(_) | Body::Pieces { .. }) | None => {
                Err(ErrorCode::PreviousSnapshotNotFound.into())
            }
        }
    }
}

/// The ranges of an answer, as far as they are known.
struct FoundRanges {
    ranges: Vec<PageRange>,
    max: usize,
    is_paged: bool,
    reservation: AnswerReservation,
}

impl FoundRanges {
    /// Adds a page; false if the answer cannot take one more range, and can end with a marker.
    fn add(&mut self, first: u64, is_clear: bool) -> Result<bool, ErrorCode> {
        let last = first + PAGE_BYTES - 1;
        let adjoins = |range: &&mut PageRange| range.last + 1 == first && range.is_clear == is_clear;
        if let Some(range) = self.ranges.last_mut().filter(adjoins) {
            range.last = last;
            return Ok(true);
        }
        if self.ranges.len() >= self.max {
            return Ok(false);
        }
        if !self.reservation.take(RANGE_BYTES) {
            let can_end = self.is_paged && !self.ranges.is_empty();
            return if can_end { Ok(false) } else { Err(ErrorCode::ServerBusy) };
        }
        self.ranges.push(PageRange { first, last, is_clear });
        Ok(true)
    }
}

/// Where the bytes of a page are: in these data, from this offset; `None` for a page of zeros.
type Held = Option<(Data, u64)>;

/// What is said of each page of a cell. Held against an earlier cell if `before` is given.
fn pages(now: Option<&Cell>, before: Option<Option<&Cell>>) -> Vec<Page> {
    let held = |cell: Option<&Cell>| -> Vec<Held> {
        let nothing = Cell::default();
        let mut pages = Vec::new();
        for (data, count) in cell.unwrap_or(&nothing).runs(0..CELL_PAGES) {
            let page = |at: u64| data.as_ref().map(|(data, offset)| (data.clone(), offset + at * PAGE_BYTES));
            pages.extend((0..count).map(page));
        }
        pages
    };
    let now = held(now);
    let Some(before) = before else {
        let said = |page: &Option<_>| if page.is_some() { Page::Written } else { Page::Unsaid };
        return now.iter().map(said).collect();
    };
    let said = |(now, before): (&Held, &Held)| match (now, before) {
        (None, None) => Page::Unsaid,
        (None, Some(_)) => Page::Cleared,
        (Some(now), Some(before)) if is_same(now, before) => Page::Unsaid,
        (Some(_), _) => Page::Written,
    };
    now.iter().zip(&held(before)).map(said).collect()
}

/// Whether two pages are held by the same bytes.
fn is_same((now, at): &(Data, u64), (before, at_before): &(Data, u64)) -> bool {
    match (now, before) {
        (Data::Content(now), Data::Content(before)) => (now.id, at) == (before.id, at_before),
        (Data::Inline(now), Data::Inline(before)) => {
            let page = |bytes: &bytes::Bytes, at: u64| {
                let at = usize::try_from(at).expect("a row is small");
                let end = bytes.len().min(at + usize::try_from(PAGE_BYTES).expect("a page is small"));
                bytes.slice(at.min(end)..end)
            };
            page(now, *at) == page(before, *at_before)
        }
        (Data::Content(_), Data::Inline(_)) | (Data::Inline(_), Data::Content(_)) => false,
    }
}
