//! Key ranges that follow the traffic: busy ones are split, and merged again when there are too many.
//!
//! A range is split when it takes more than 1/64 of the operations of the last hours, or 1/16 of those of the last minute:
//! a key that is new and busy gets a range at once. A split goes between prefixes first, then between partitions; a single
//! partition is split by its RowKeys only if it takes an eighth of all operations.
//! Neighbours are merged only when ranges run out, because a view of the last day is drawn in the ranges of now: those
//! with the fewest operations of the last days first, and those of different prefixes last. There are never more than
//! 256 ranges.

use std::sync::Arc;

use super::load::Load;
use crate::shape::SEPARATORS;

/// Ranges of a table at one time.
pub(super) const RANGES_MAX: usize = 256;
const SPLIT_AT: f32 = 1.0 / 64.0;
/// The part of the operations of the last minute from which a range is split, and how many that are at least.
const MINUTE_SPLIT_AT: f32 = 1.0 / 16.0;
const MINUTE_OPERATIONS_MIN: f32 = 32.0;
/// Ranges from which neighbours are merged, and down to how many.
const MERGE_FROM: usize = 224;
const MERGE_TO: usize = 192;
/// What it costs to merge neighbours of different prefixes, or parts of a partition with others, as a part of all
/// operations.
const APART_PRICE: f32 = 1.0 / 32.0;
/// The part of all operations below which a range forgets its sample of keys.
const IDLE_BELOW: f32 = 1.0 / 256.0;
/// The part of all operations that makes a partition worth splitting by its RowKeys.
const ROWS_SPLIT_AT: f32 = 1.0 / 8.0;
/// Ranges of one partition that are in use.
const PARTS_MAX: usize = 32;
/// The part of all operations below which a partition is one range again.
const ROWS_MERGE_BELOW: f32 = ROWS_SPLIT_AT / 4.0;
/// How much an operation counts a minute later: for a split those of the last hours decide, for a merge those of the last
/// days.
const FADING: f32 = 0.99;
const LASTING_FADING: f32 = 0.9995;
/// Bytes of a key where ranges meet; longer ones are cut, which only moves the boundary down.
const BOUNDARY_BYTES_MAX: usize = 128;

/// A place in the keys of a table. Cheap to clone, because every column has a list of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyPosition {
    pub partition: Arc<str>,
    pub row: Arc<str>,
}

impl KeyPosition {
    pub fn new(partition: &str, row: &str) -> Self {
        Self { partition: cut(partition).into(), row: cut(row).into() }
    }

    pub fn as_pair(&self) -> (&str, &str) {
        (&self.partition, &self.row)
    }

    pub fn heap_bytes(&self) -> usize {
        // An Arc has two counters before its bytes.
        self.partition.len() + self.row.len() + 32
    }
}

pub(super) fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(BOUNDARY_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Where ranges begin, in order; the first begins before every key. Each ends where the next begins.
#[derive(Debug)]
pub(super) struct RangeList {
    pub starts: Vec<KeyPosition>,
}

impl RangeList {
    /// The range that holds a key.
    pub fn locate(&self, key: (&str, &str)) -> usize {
        self.starts.partition_point(|start| start.as_pair() <= key).saturating_sub(1)
    }

    /// The ranges that hold keys from one on and before another.
    pub fn overlapping(&self, from: (&str, &str), before: Option<(&str, &str)>) -> std::ops::Range<usize> {
        let end = before.map_or(self.starts.len(), |before| {
            self.starts.partition_point(|start| start.as_pair() < before)
        });
        let begin = self.locate(from);
        begin..end.max(begin + 1)
    }

    /// For each range, the ranges of another list that it overlaps. Both are walked once.
    pub fn onto(&self, other: &Self) -> Vec<std::ops::Range<usize>> {
        let mut begin = 0;
        let mut targets = Vec::with_capacity(self.starts.len());
        for (index, start) in self.starts.iter().enumerate() {
            while other.starts.get(begin + 1).is_some_and(|next| next <= start) {
                begin += 1;
            }
            let mut end = begin + 1;
            if let Some(before) = self.starts.get(index + 1) {
                while other.starts.get(end).is_some_and(|next| next < before) {
                    end += 1;
                }
            } else {
                end = other.starts.len();
            }
            targets.push(begin..end);
        }
        targets
    }

    /// Memory that it takes beside another that it shares keys with.
    pub fn bytes_beside(&self, other: Option<&Self>) -> usize {
        let shared: std::collections::HashSet<_> = other
            .into_iter()
            .flat_map(|other| &other.starts)
            .map(|key| Arc::as_ptr(&key.partition))
            .collect();
        let own = self.starts.iter().filter(|key| !shared.contains(&Arc::as_ptr(&key.partition)));
        own.map(KeyPosition::heap_bytes).sum::<usize>() + self.starts.capacity() * size_of::<KeyPosition>()
    }
}

/// The ranges of now, with what is needed to split and merge them.
pub(super) struct Ranges {
    pub list: Arc<RangeList>,
    loads: Vec<Load>,
    draws: u64,
}

impl Ranges {
    pub fn new() -> Self {
        let list = Arc::new(RangeList { starts: vec![KeyPosition::new("", "")] });
        Self { list, loads: vec![Load::default()], draws: 0 }
    }

    /// Counts operations on one key, and gives its range.
    pub fn add(&mut self, key: (&str, &str), operations: f32) -> usize {
        let index = self.list.locate(key);
        self.draws += 1;
        self.loads[index].add(key, operations, self.draws);
        index
    }

    /// Counts operations on keys that are not known one by one.
    pub fn add_unknown(&mut self, index: usize, operations: f32) {
        self.loads[index].operations += operations;
        self.loads[index].lasting += operations;
    }

    /// The lowest PartitionKey of a range that was asked for, as far as it is known.
    pub fn lowest(&self, index: usize) -> Option<&str> {
        self.loads[index].lowest.as_deref()
    }

    /// Operations of the last hours in a range.
    pub fn operations(&self, index: usize) -> f32 {
        self.loads[index].operations
    }

    /// How many different keys a range was asked for, about.
    pub fn keys(&self, index: usize) -> u64 {
        self.loads[index].keys()
    }

    /// A minute has passed.
    pub fn fade(&mut self) {
        for load in &mut self.loads {
            load.operations *= FADING;
            load.lasting *= LASTING_FADING;
            load.latest = 0.0;
        }
    }

    /// Splits and merges; true if the list is another one now.
    pub fn adjust(&mut self) -> bool {
        let total: f32 = self.loads.iter().map(|load| load.operations).sum();
        let is_idle = |load: &&mut Load| load.operations < total * IDLE_BELOW && load.latest <= 0.0;
        self.loads.iter_mut().filter(is_idle).for_each(Load::forget_sample);
        let united = self.unite_partitions(total);
        let merged = self.merge();
        let split = self.split(total);
        united || merged || split
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.loads.iter().map(Load::bytes).sum()
    }

    /// Makes one range of each partition that was split by its RowKeys and is not busy any more.
    fn unite_partitions(&mut self, total: f32) -> bool {
        let mut starts = self.list.starts.clone();
        let mut begin = 0;
        while begin < starts.len() {
            let parts =
                starts[begin..].iter().take_while(|start| start.partition == starts[begin].partition).count();
            let operations: f32 = self.loads[begin..begin + parts].iter().map(|load| load.operations).sum();
            if parts > 1 && operations < total * ROWS_MERGE_BELOW {
                starts.drain(begin + 1..begin + parts);
                for upper in self.loads.drain(begin + 1..begin + parts).collect::<Vec<_>>() {
                    self.loads[begin].absorb(upper);
                }
                begin += 1;
            } else {
                begin += parts;
            }
        }
        let is_changed = starts.len() != self.list.starts.len();
        if is_changed {
            self.list = Arc::new(RangeList { starts });
        }
        is_changed
    }

    /// Merges neighbours if there are too many ranges: the cheapest first.
    fn merge(&mut self) -> bool {
        if self.loads.len() < MERGE_FROM {
            return false;
        }
        let total: f32 = self.loads.iter().map(|load| load.lasting).sum();
        let mut starts = self.list.starts.clone();
        while self.loads.len() > MERGE_TO {
            let price = |index: usize| {
                let apart = if is_apart(&starts, index) { total * APART_PRICE } else { 0.0 };
                self.loads[index].lasting + self.loads[index + 1].lasting + apart
            };
            let pairs = 0..self.loads.len() - 1;
            let Some(cheapest) = pairs.min_by(|left, right| price(*left).total_cmp(&price(*right))) else {
                break;
            };
            let upper = self.loads.remove(cheapest + 1);
            self.loads[cheapest].absorb(upper);
            starts.remove(cheapest + 1);
        }
        self.list = Arc::new(RangeList { starts });
        true
    }

    fn split(&mut self, total: f32) -> bool {
        let minute: f32 = self.loads.iter().map(|load| load.latest).sum();
        let is_busy = |load: &Load| {
            let is_new = load.latest > minute * MINUTE_SPLIT_AT && load.latest >= MINUTE_OPERATIONS_MIN;
            load.operations > total * SPLIT_AT || is_new
        };
        let mut busy: Vec<usize> =
            (0..self.loads.len()).filter(|index| is_busy(&self.loads[*index])).collect();
        busy.sort_by(|left, right| self.loads[*right].operations.total_cmp(&self.loads[*left].operations));
        let ranges_left = RANGES_MAX - self.loads.len();
        let mut cuts: Vec<(usize, KeyPosition)> = busy
            .into_iter()
            .flat_map(|index| self.boundaries(index, total).into_iter().map(move |key| (index, key)))
            .take(ranges_left)
            .collect();
        if cuts.is_empty() {
            return false;
        }
        cuts.sort();
        let mut starts = self.list.starts.clone();
        for (index, boundary) in cuts.into_iter().rev() {
            let upper = self.loads[index].split_off(&boundary);
            starts.insert(index + 1, boundary);
            self.loads.insert(index + 1, upper);
        }
        self.list = Arc::new(RangeList { starts });
        true
    }

    /// Where to split a range; nowhere if all its operations are on one key.
    fn boundaries(&self, index: usize, total: f32) -> Vec<KeyPosition> {
        let (start, end) = (&self.list.starts[index], self.list.starts.get(index + 1));
        let mut sample = self.loads[index].sample.clone();
        sample.sort();
        let (Some(first), Some(last)) = (sample.first(), sample.last()) else { return Vec::new() };
        let by_prefix = |key: &KeyPosition| KeyPosition::new(prefix(&key.partition), "");
        let by_partition =
            |key: &KeyPosition| KeyPosition { partition: key.partition.clone(), row: "".into() };
        let mut boundaries = if prefix(&first.partition) != prefix(&last.partition) {
            nearest_change(&sample, by_prefix).into_iter().collect()
        } else if first.partition != last.partition {
            nearest_change(&sample, by_partition).into_iter().collect()
        } else {
            self.boundaries_of_partition(index, total, &sample)
        };
        boundaries.retain(|boundary| boundary > start && end.is_none_or(|end| boundary < end));
        boundaries
    }

    /// A partition is first set apart from its neighbours, and then split by its RowKeys.
    fn boundaries_of_partition(&self, index: usize, total: f32, sample: &[KeyPosition]) -> Vec<KeyPosition> {
        let Some(partition) = sample.first().map(|key| &key.partition) else { return Vec::new() };
        let begin = KeyPosition { partition: partition.clone(), row: "".into() };
        let behind = KeyPosition { partition: format!("{partition}\0").into(), row: "".into() };
        let is_begun = self.list.starts[index] >= begin;
        let is_ended = self.list.starts.get(index + 1).is_some_and(|end| *end <= behind);
        if !is_begun || !is_ended {
            return vec![begin, behind];
        }
        let parts = self.list.overlapping(begin.as_pair(), Some(behind.as_pair()));
        let operations: f32 = self.loads[parts.clone()].iter().map(|load| load.operations).sum();
        let in_use = self.loads[parts].iter().filter(|load| load.operations >= total * IDLE_BELOW).count();
        if operations < total * ROWS_SPLIT_AT || in_use >= PARTS_MAX {
            return Vec::new();
        }
        nearest_change(sample, KeyPosition::clone).into_iter().collect()
    }
}

/// Whether a range and the next should not become one: they have different prefixes, or a partition that was split by its
/// RowKeys begins or ends between them.
fn is_apart(starts: &[KeyPosition], index: usize) -> bool {
    let (lower, upper) = (&starts[index], &starts[index + 1]);
    let is_split = starts.get(index + 2).is_some_and(|next| next.partition == upper.partition);
    let is_boundary = lower.partition != upper.partition && (!lower.row.is_empty() || is_split);
    is_boundary || prefix(&lower.partition) != prefix(&upper.partition)
}

/// Among sorted keys, the place nearest to the middle where what `of` gives changes.
fn nearest_change(sample: &[KeyPosition], of: impl Fn(&KeyPosition) -> KeyPosition) -> Option<KeyPosition> {
    let middle = sample.len() / 2;
    let changes = (1..sample.len()).filter(|index| of(&sample[*index]) != of(&sample[index - 1]));
    changes.min_by_key(|index| index.abs_diff(middle)).map(|index| of(&sample[index]))
}

/// The part of a PartitionKey up to its first separator, with it; all of it if it has none.
pub(super) fn prefix(partition: &str) -> &str {
    partition.find(SEPARATORS).map_or(partition, |end| &partition[..=end])
}
