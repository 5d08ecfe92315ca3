//! Which pages of a page blob hold something, or differ from those of a snapshot.
//!
//! A page differs if it was written or cleared since the snapshot: that is told by the content that holds it, which never
//! changes. Pages whose bytes are in the row itself are told by these bytes.

use tavola_model::{
    AccountName, BlobMoment, BlobTarget, Changed, ErrorCode, GetPageRanges, PAGE_BYTES, PageRange, PageRanges,
};

use super::Blobs;
use super::cell::{CELL_BYTES, CELL_PAGES, Cell};
use super::change::BlobLocation;
use super::get::resolve_range;
use super::pages::CELLS_A_STEP;
use super::pieces::Data;
use super::record::Body;
use crate::failure::Failure;

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
        let max = get.max.map_or(usize::MAX, |max| max as usize);
        let (mut ranges, mut next) = (Vec::<PageRange>::new(), None);
        'steps: while at < end {
            let step = at / CELL_BYTES..(at / CELL_BYTES + CELLS_A_STEP).min(end.div_ceil(CELL_BYTES));
            let cells = self.cells(&location, generations, step.clone()).await?;
            let before = match &earlier {
                None => None,
                Some(generations) => Some(self.cells(&location, generations, step.clone()).await?),
            };
            for cell in step.clone() {
                let earlier_cell = before.as_ref().map(|before| before.get(&cell));
                if cells.get(&cell).or(earlier_cell.flatten()).is_none() {
                    continue;
                }
                let start = cell * CELL_BYTES;
                let (from, to) = (at.max(start), end.min(start + CELL_BYTES));
                let said = pages(cells.get(&cell), earlier_cell);
                let shown = (from - start) / PAGE_BYTES..(to - start).div_ceil(PAGE_BYTES);
                for page in shown {
                    let first = start + page * PAGE_BYTES;
                    let last = first + PAGE_BYTES - 1;
                    let is_clear = match said[usize::try_from(page).expect("a cell is small")] {
                        Page::Unsaid => continue,
                        Page::Written => false,
                        Page::Cleared => true,
                    };
                    let is_full = ranges.len() >= max;
                    match ranges.last_mut() {
                        Some(range) if range.last + 1 == first && range.is_clear == is_clear => {
                            range.last = last;
                        }
                        _ if is_full => {
                            next = Some(first);
                            break 'steps;
                        }
                        _ => ranges.push(PageRange { first, last, is_clear }),
                    }
                }
            }
            at = step.end * CELL_BYTES;
        }
        Ok(PageRanges { changed: Changed(record.changed), blob_length: *length, ranges, next, max: get.max })
    }

    /// The generations of pages of a snapshot that another state is held against.
    async fn earlier_pages(
        &self,
        location: &BlobLocation,
        since: BlobMoment,
        target: &BlobTarget,
    ) -> Result<Vec<u64>, Failure> {
        if let (BlobMoment::Snapshot(since), BlobMoment::Snapshot(shown)) = (since, target.moment)
            && since > shown
        {
            return Err(ErrorCode::PreviousSnapshotCannotBeNewer.into());
        }
        let previous = BlobTarget { path: target.path.clone(), moment: since };
        match self.find_state(location, &previous).await?.map(|record| record.body) {
            Some(Body::Pages { generations, .. }) => Ok(generations),
            Some(Body::Data(_) | Body::Pieces { .. }) | None => {
                Err(ErrorCode::PreviousSnapshotNotFound.into())
            }
        }
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
