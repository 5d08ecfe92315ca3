//! Reading much at once: many keys, or a whole place in several ranges.
//!
//! A parallel scan knows nothing of the keys. It begins with the whole place; whoever is idle takes the upper half of
//! the range that has the most left, where the middle is guessed from the keys at both ends. A range that turns out to
//! be empty costs one request.

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
use crate::query::{Continuation, Page, Query};
use crate::scope::In;
use crate::table::TableClient;

/// Point reads on their way at once.
const GETS_MAX: usize = 32;

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

    /// Reads a place in several ranges at once, which split where the most is left. Entities come in the order of their
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
        place: In,
        ranges: usize,
    ) -> impl Stream<Item = Result<Stored<R>>> + Send + use<R> {
        scan(self.query(place.clone()), place, ranges, None)
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
        place: In,
        ranges: usize,
        progress: ProgressCallback,
    ) -> impl Stream<Item = Result<Stored<R>>> + Send + use<R> {
        scan(self.query(place.clone()), place, ranges, Some(progress))
    }

    /// The same of bags of properties, those that are pending included.
    pub(crate) fn scan_raw(
        &self,
        place: In,
        ranges: usize,
    ) -> impl Stream<Item = Result<Stored<DynamicEntity>>> + Send + use<> {
        scan(self.query(place.clone()).with_pending(), place, ranges, None)
    }
}

fn scan<R: Readable>(
    query: Query<R>,
    place: In,
    ranges: usize,
    progress: Option<ProgressCallback>,
) -> impl Stream<Item = Result<Stored<R>>> + Send + use<R> {
    let scan = Scan {
        query,
        place,
        ranges: ranges.max(1),
        reading: FuturesUnordered::new(),
        held: Vec::new(),
        ready: VecDeque::new(),
        begun: false,
        failed: false,
        progress,
        come: Progress::default(),
    };
    stream::unfold(scan, |mut scan| async move { scan.next().await.map(|item| (item, scan)) })
}

/// A part of the place, along the key by which it is split: partitions, or rows of the one partition.
///
/// What is asked of the service never changes once it is read, because a token belongs to its query; where the upper
/// half was given away, what lies there is left out here.
#[derive(Clone, Debug)]
struct Range {
    from: Bound<String>,
    to: Bound<String>,
    /// Where this range ends now.
    stop: Option<String>,
    next: Option<Continuation>,
    /// Where it is read now.
    reached: String,
}

type Reading<R> = futures_core::future::BoxFuture<'static, (usize, Result<Page<Stored<R>>>)>;

struct Scan<R> {
    query: Query<R>,
    place: In,
    ranges: usize,
    reading: FuturesUnordered<Reading<R>>,
    /// The ranges; one that is done is `None`.
    held: Vec<Option<Range>>,
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
            let (from, to) = match self.place.only_partition() {
                Some(_) => self.place.row_bounds(),
                None => self.place.partition_bounds(),
            };
            let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
            self.begin(Range { from, to, stop: None, next: None, reached: String::new() });
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
        let by_row = self.place.only_partition().is_some();
        let mut is_over = page.next.is_none();
        for item in page.items {
            let key = item.stored_key();
            let key = if by_row { &key.row } else { &key.partition };
            if range.stop.as_ref().is_some_and(|stop| KeyBytes::from_text(key) >= KeyBytes::from_text(stop)) {
                is_over = true;
                break;
            }
            range.reached.clone_from(key);
            self.ready.push_back(item);
            self.come.entities += 1;
        }
        self.come.requests += 1;
        if let Some(progress) = &self.progress {
            progress(self.come);
        }
        if !is_over {
            range.next = page.next;
            self.split_for_idle(&mut range);
            self.read(index, range);
        }
    }

    /// Gives the upper half of what this range has left to as many idle readers as there are.
    fn split_for_idle(&mut self, range: &mut Range) {
        while self.reading.len() + 1 < self.ranges {
            let end = range.stop.clone().map_or_else(|| range.to.clone(), Bound::Excluded);
            let Some(middle) = middle(&range.reached, &end) else { return };
            range.stop = Some(middle.clone());
            let from = Bound::Included(middle);
            self.begin(Range { from, to: end, stop: None, next: None, reached: String::new() });
        }
    }

    fn begin(&mut self, range: Range) {
        self.held.push(None);
        self.read(self.held.len() - 1, range);
    }

    fn read(&mut self, index: usize, range: Range) {
        let bounds = (range.from.as_ref().map(String::as_str), range.to.as_ref().map(String::as_str));
        let place = match self.place.only_partition() {
            Some(partition) => In::partition(partition).rows(bounds),
            None => In::partitions(bounds).rows(self.place.row_bounds()),
        };
        let query = self.query.clone().with_place(place);
        let next = range.next.clone();
        self.held[index] = Some(range);
        self.reading.push(Box::pin(async move { (index, query.page(next.as_ref()).await) }));
    }
}

/// A key about halfway between what was reached and the end; `None` if there is no room.
fn middle(reached: &str, to: &Bound<String>) -> Option<String> {
    const DIGITS: usize = 6;
    // Keys are mostly printable ASCII: halves are taken in that alphabet, so that they are valid keys.
    let digit = |text: &str, place: usize, beyond: u32| {
        let unit = text.chars().nth(place).map_or(beyond, u32::from);
        unit.clamp(0x20, 0x7E) - 0x20
    };
    let low: Vec<u32> = (0..DIGITS).map(|place| digit(reached, place, 0x20)).collect();
    let high: Vec<u32> = match to {
        Bound::Included(text) | Bound::Excluded(text) => {
            (0..DIGITS).map(|place| digit(text, place, 0x20)).collect()
        }
        Bound::Unbounded => vec![0x5E; DIGITS],
    };
    let base = 0x5Fu64;
    let number = |digits: &[u32]| digits.iter().fold(0u64, |sum, digit| sum * base + u64::from(*digit));
    let (low, high) = (number(&low), number(&high));
    let mut half = low + high.checked_sub(low)? / 2;
    let mut text: Vec<char> = Vec::with_capacity(DIGITS);
    for _ in 0..DIGITS {
        let unit = u32::try_from(half % base).ok()? + 0x20;
        text.push(char::from_u32(unit)?);
        half /= base;
    }
    let middle: String =
        text.iter().rev().collect::<String>().trim_end_matches(' ').replace(['/', '\\', '#', '?'], "0");
    let inside = |text: &str| match to {
        Bound::Included(to) | Bound::Excluded(to) => KeyBytes::from_text(text) < KeyBytes::from_text(to),
        Bound::Unbounded => true,
    };
    (KeyBytes::from_text(&middle) > KeyBytes::from_text(reached) && inside(&middle)).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_lies_between() {
        for (low, high) in
            [("", None), ("a", Some("b")), ("Sales", None), ("0001", Some("9999")), ("p", Some("p\u{7f}"))]
        {
            let to = high.map_or(Bound::Unbounded, |high| Bound::Excluded(high.to_owned()));
            let middle = middle(low, &to).unwrap();
            assert!(
                middle.as_str() > low && high.is_none_or(|high| middle.as_str() < high),
                "{low} {middle} {high:?}"
            );
        }
        assert_eq!(middle("a", &Bound::Excluded("a".to_owned())), None);
        assert_eq!(middle("b", &Bound::Excluded("a".to_owned())), None);
        assert_eq!(middle("\u{e9}", &Bound::Unbounded), None);
    }
}
