//! Reading much at once: many keys, or a whole scope in several ranges.
//!
//! A parallel scan knows nothing of the keys. It begins with the whole scope, and learns from the keys that it reads.
//! While the end of the keys is unknown, idle readers begin far ahead, each four times as far as the one before; then
//! whoever is idle takes the upper half of the range that has the most left. A range that turns out to be empty costs one
//! request.

use std::collections::VecDeque;
use std::ops::Bound;

use futures_core::Stream;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tavola_model::KeyBytes;

use crate::bulk::{Progress, ProgressCallback};
use crate::dynamic::DynamicEntity;
use crate::entity::{Readable, Stored};
use crate::error::Result;
use crate::key::EntityKey;
use crate::key_space::KeySpace;
use crate::query::{Continuation, Page, Query};
use crate::scope::In;
use crate::table::TableClient;

/// Point reads on their way at once.
const GETS_MAX: usize = 32;
/// How many times as far ahead each reader begins as the one before it.
const STEP: u128 = 4;

impl TableClient {
    /// Many point reads, 32 at a time, in the order asked: an `or` of keys without its table scan.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// let keys = vec![("Sales", "000001").into(), ("Marketing", "000002").into()];
    /// for found in table.get_many::<DynamicEntity>(keys).await?.into_iter().flatten() {
    ///     println!("{}", found.key.row);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_many<R: Readable>(&self, keys: Vec<EntityKey>) -> Result<Vec<Option<Stored<R>>>> {
        let mut reads = stream::iter(keys).map(|key| self.get::<R>(key, None)).buffered(GETS_MAX);
        let mut found = Vec::new();
        while let Some(one) = reads.next().await {
            found.push(one?);
        }
        Ok(found)
    }

    /// Reads a scope in several ranges at once, which split where the most is left. Entities come in the order of their
    /// keys within a range only.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use futures_util::TryStreamExt;
    /// use tavola_client::{DynamicEntity, In};
    /// let mut all = std::pin::pin!(table.scan_parallel::<DynamicEntity>(In::whole_table(), 8));
    /// while let Some(entity) = all.try_next().await? {
    ///     println!("{}", entity.key.row);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan_parallel<R: Readable>(
        &self,
        scope: In,
        ranges: usize,
    ) -> impl Stream<Item = Result<Stored<R>>> + Send + use<R> {
        scan(self.query(scope.clone()), scope, ranges, None)
    }

    /// The same, and tells after every page how many entities came and how many requests were made.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use std::sync::Arc;
    /// use futures_util::TryStreamExt;
    /// use tavola_client::{DynamicEntity, In, ProgressCallback};
    /// let progress: ProgressCallback = Arc::new(|progress| println!("{} entities", progress.entities));
    /// let all = table.scan_parallel_with_progress::<DynamicEntity>(In::whole_table(), 8, progress);
    /// println!("{}", all.try_collect::<Vec<_>>().await?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan_parallel_with_progress<R: Readable>(
        &self,
        scope: In,
        ranges: usize,
        progress: ProgressCallback,
    ) -> impl Stream<Item = Result<Stored<R>>> + Send + use<R> {
        scan(self.query(scope.clone()), scope, ranges, Some(progress))
    }

    /// The same of bags of properties, those that are pending included.
    pub(crate) fn scan_raw(
        &self,
        scope: In,
        ranges: usize,
    ) -> impl Stream<Item = Result<Stored<DynamicEntity>>> + Send + use<> {
        scan(self.query(scope.clone()).with_pending(), scope, ranges, None)
    }
}

fn scan<R: Readable>(
    query: Query<R>,
    scope: In,
    ranges: usize,
    progress: Option<ProgressCallback>,
) -> impl Stream<Item = Result<Stored<R>>> + Send + use<R> {
    let scan = Scan {
        query,
        scope,
        ranges: ranges.max(1),
        reading: FuturesUnordered::new(),
        held: Vec::new(),
        keys: KeySpace::default(),
        ready: VecDeque::new(),
        begun: false,
        failed: false,
        progress,
        come: Progress::default(),
    };
    stream::unfold(scan, |mut scan| async move { scan.next().await.map(|item| (item, scan)) })
}

/// A part of the scope, along the key by which it is split: partitions, or rows of the one partition.
///
/// A token belongs to its query. So where the upper half of a range was given away while a page of it was on its way,
/// what the page has of it is left out, and the range is asked for again from there: first what is left of the partition
/// that the page ended in, then the partitions behind it. Going on by the token would read a page too many.
#[derive(Clone, Debug)]
struct Range {
    from: Bound<String>,
    to: Bound<String>,
    /// Where this range ends, if that is not yet part of what is asked.
    stop: Option<String>,
    /// What is read before the range itself: a partition, behind this row.
    rest: Option<(String, String)>,
    next: Option<Continuation>,
    /// The first and the last key that were read, once there are any.
    read: Option<(String, String)>,
    /// Pages with entities.
    pages: u128,
}

impl Range {
    fn new(from: Bound<String>, to: Bound<String>) -> Self {
        Self { from, to, stop: None, rest: None, next: None, read: None, pages: 0 }
    }

    /// The key before which it ends, about; `None` if it is open.
    fn end(&self) -> Option<&str> {
        match (&self.stop, &self.to) {
            (Some(stop), _) => Some(stop),
            (None, Bound::Included(to) | Bound::Excluded(to)) => Some(to),
            (None, Bound::Unbounded) => None,
        }
    }

    /// How far apart the keys of its pages are, about.
    fn page_width(&self, keys: &KeySpace) -> Option<u128> {
        let (first, last) = self.read.as_ref()?;
        let width = keys.number(last).saturating_sub(keys.number(first)) / self.pages.max(1);
        Some(width.max(1))
    }

    /// How far it has to go, if that is known and more than what comes next.
    fn left(&self, keys: &KeySpace) -> Option<u128> {
        let (_, last) = self.read.as_ref()?;
        let left = keys.number(self.end()?).checked_sub(keys.number(last))?;
        (left > 2 * self.page_width(keys)?).then_some(left)
    }
}

type Reading<R> = futures_core::future::BoxFuture<'static, (usize, Result<Page<Stored<R>>>)>;

struct Scan<R> {
    query: Query<R>,
    scope: In,
    ranges: usize,
    reading: FuturesUnordered<Reading<R>>,
    /// The ranges; one that is done is `None`.
    held: Vec<Option<Range>>,
    keys: KeySpace,
    ready: VecDeque<Stored<R>>,
    begun: bool,
    failed: bool,
    progress: Option<ProgressCallback>,
    come: Progress,
}

impl<R: Readable> Scan<R> {
    async fn next(&mut self) -> Option<Result<Stored<R>>> {
        if !self.begun {
            self.begun = true;
            let (from, to) = match self.scope.only_partition() {
                Some(_) => self.scope.row_bounds(),
                None => self.scope.partition_bounds(),
            };
            let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
            self.begin(Range::new(from, to));
        }
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.failed {
                return None;
            }
            let (index, page) = self.reading.next().await?;
            match page {
                Ok(page) => self.took(index, page),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }

    fn took(&mut self, index: usize, page: Page<Stored<R>>) {
        let Some(mut range) = self.held[index].take() else { return };
        let by_row = self.scope.only_partition().is_some();
        let mut is_over = page.next.is_none();
        let stop = range.stop.as_deref().map(KeyBytes::from_text);
        let (mut first, mut last) = (None, None);
        let reached = page.items.last().map(|item| item.stored_key().clone());
        for item in page.items {
            let key = item.stored_key();
            let key = if by_row { &key.row } else { &key.partition };
            // The keys of a page are mostly of few partitions.
            if last.as_ref() != Some(key) {
                if stop.as_ref().is_some_and(|stop| KeyBytes::from_text(key) >= *stop) {
                    is_over = true;
                    break;
                }
                self.keys.see(key);
                first.get_or_insert_with(|| key.clone());
                last = Some(key.clone());
            }
            self.ready.push_back(item);
            self.come.entities += 1;
        }
        self.come.requests += 1;
        if let Some(progress) = &self.progress {
            progress(self.come);
        }
        if let (Some(first), Some(last)) = (first, last) {
            let first = range.read.take().map_or(first, |(first, _)| first);
            range.read = Some((first, last));
            range.pages += 1;
        }
        if range.rest.is_some() && is_over {
            is_over = false;
            (range.rest, range.next) = (None, None);
        } else if let (Some(reached), Some(stop), false) = (reached, range.stop.clone(), is_over) {
            range.to = Bound::Excluded(stop);
            (range.stop, range.next) = (None, None);
            if by_row {
                range.from = Bound::Excluded(reached.row);
            } else {
                range.from = Bound::Excluded(reached.partition.clone());
                range.rest = Some((reached.partition, reached.row));
            }
        } else {
            range.next = page.next;
        }
        if !is_over {
            self.read(index, range);
        }
        while self.reading.len() < self.ranges && self.split() {}
    }

    /// Gives a part of what some range has left to idle readers; false if there is nothing to give.
    fn split(&mut self) -> bool {
        if let Some(open) = self.held.iter().position(|range| {
            range.as_ref().is_some_and(|range| range.end().is_none() && range.read.is_some())
        }) && self.step_ahead(open)
        {
            return true;
        }
        let left = |range: &Option<Range>| range.as_ref().and_then(|range| range.left(&self.keys));
        let ranges = self.held.iter().enumerate();
        let largest = ranges.filter_map(|(index, range)| Some((left(range)?, index))).max();
        let range = largest.and_then(|(_, index)| self.held[index].as_mut());
        let Some((range, last)) = range.and_then(|range| range.read.clone().map(|(_, last)| (range, last)))
        else {
            return false;
        };
        let Some(middle) = self.keys.middle(&last, range.end()) else { return false };
        let end = range.stop.clone().map_or_else(|| range.to.clone(), Bound::Excluded);
        range.stop = Some(middle.clone());
        self.begin(Range::new(Bound::Included(middle), end));
        true
    }

    /// Ends an open range not far ahead and gives what lies behind to idle readers, the last of which has the open end.
    fn step_ahead(&mut self, open: usize) -> bool {
        let idle = self.ranges.saturating_sub(self.reading.len());
        let Some(range) = self.held[open].as_mut() else { return false };
        let (Some((_, last)), Some(width)) = (&range.read, range.page_width(&self.keys)) else {
            return false;
        };
        let (mut steps, mut distance) = (Vec::new(), width);
        for _ in 0..idle {
            distance = distance.saturating_mul(STEP);
            let number = self.keys.number(last).saturating_add(distance);
            let before = steps.last().unwrap_or(last);
            let Some(step) = self.keys.between(before, number, None) else { break };
            steps.push(step);
        }
        let Some(nearest) = steps.first() else { return false };
        range.stop = Some(nearest.clone());
        let ends = steps.iter().skip(1).cloned().map(Bound::Excluded).chain([range.to.clone()]);
        let ranges: Vec<Range> =
            steps.iter().cloned().zip(ends).map(|(from, to)| Range::new(Bound::Included(from), to)).collect();
        ranges.into_iter().for_each(|range| self.begin(range));
        true
    }

    fn begin(&mut self, range: Range) {
        self.held.push(None);
        self.read(self.held.len() - 1, range);
    }

    fn read(&mut self, index: usize, range: Range) {
        let bounds = (range.from.as_ref().map(String::as_str), range.to.as_ref().map(String::as_str));
        let scope = match (&range.rest, self.scope.only_partition()) {
            (Some((partition, row)), _) => {
                In::partition(partition).rows((Bound::Excluded(row.as_str()), self.scope.row_bounds().1))
            }
            (None, Some(partition)) => In::partition(partition).rows(bounds),
            (None, None) => In::partitions(bounds).rows(self.scope.row_bounds()),
        };
        let query = self.query.clone().with_scope(scope);
        let next = range.next.clone();
        self.held[index] = Some(range);
        self.reading.push(Box::pin(async move { (index, query.page(next.as_ref()).await) }));
    }
}
