//! Key ranges that follow the traffic: busy ones are split, idle ones merged.
//!
//! A range is split when it takes more than 1/64 of the operations, and neighbours are merged when together they take
//! less than 1/256. A split goes between prefixes first, then between partitions; a single partition is split by its
//! RowKeys only if it takes an eighth of all operations. There are never more than 256 ranges.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::shape::SEPARATORS;

/// Ranges of a table at one time.
pub(super) const RANGES_MAX: usize = 256;
const SPLIT_AT: f32 = 1.0 / 64.0;
const MERGE_BELOW: f32 = 1.0 / 256.0;
/// The part of all operations that makes a partition worth splitting by its RowKeys.
const ROWS_SPLIT_AT: f32 = 1.0 / 8.0;
/// How much an operation counts a minute later: those of the last hours decide.
const FADING: f32 = 0.99;
/// Keys that a range remembers, to know its median.
const SAMPLE_MAX: usize = 24;
/// Smallest hashes that a range remembers, to know how many keys it has.
const HASHES_MAX: usize = 32;
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

    fn heap_bytes(&self) -> usize {
        // An Arc has two counters before its bytes.
        self.partition.len() + self.row.len() + 32
    }
}

fn cut(text: &str) -> &str {
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

#[derive(Default)]
struct Load {
    operations: f32,
    sample: Vec<KeyPosition>,
    seen: u32,
    /// The smallest hashes of its keys, sorted.
    hashes: Vec<u64>,
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
    }

    /// How many different keys a range was asked for, about.
    pub fn keys(&self, index: usize) -> u64 {
        self.loads[index].keys()
    }

    /// A minute has passed.
    pub fn fade(&mut self) {
        for load in &mut self.loads {
            load.operations *= FADING;
        }
    }

    /// Splits and merges; true if the list is another one now.
    pub fn adjust(&mut self) -> bool {
        let total: f32 = self.loads.iter().map(|load| load.operations).sum();
        let merged = self.merge(total);
        let split = self.split(total);
        merged || split
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        let samples =
            self.loads.iter().flat_map(|load| &load.sample).map(KeyPosition::heap_bytes).sum::<usize>();
        let load = SAMPLE_MAX * size_of::<KeyPosition>() + HASHES_MAX * size_of::<u64>() + size_of::<Load>();
        samples + self.loads.len() * load
    }

    fn merge(&mut self, total: f32) -> bool {
        let mut starts: Vec<KeyPosition> = Vec::with_capacity(self.loads.len());
        let mut loads: Vec<Load> = Vec::with_capacity(self.loads.len());
        for (start, load) in self.list.starts.iter().zip(self.loads.drain(..)) {
            match loads.last_mut() {
                Some(last) if last.operations + load.operations < total * MERGE_BELOW => last.absorb(load),
                _ => {
                    starts.push(start.clone());
                    loads.push(load);
                }
            }
        }
        self.loads = loads;
        let is_changed = starts.len() != self.list.starts.len();
        if is_changed {
            self.list = Arc::new(RangeList { starts });
        }
        is_changed
    }

    fn split(&mut self, total: f32) -> bool {
        let mut busy: Vec<usize> =
            (0..self.loads.len()).filter(|index| self.loads[*index].operations > total * SPLIT_AT).collect();
        busy.sort_by(|left, right| self.loads[*right].operations.total_cmp(&self.loads[*left].operations));
        let ranges_left = RANGES_MAX - self.loads.len();
        let mut cuts: Vec<(usize, KeyPosition)> = busy
            .into_iter()
            .filter_map(|index| Some((index, self.boundary(index, total)?)))
            .take(ranges_left)
            .collect();
        if cuts.is_empty() {
            return false;
        }
        cuts.sort_by_key(|(index, _)| *index);
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
    fn boundary(&self, index: usize, total: f32) -> Option<KeyPosition> {
        let (start, end) = (&self.list.starts[index], self.list.starts.get(index + 1));
        let mut sample = self.loads[index].sample.clone();
        sample.sort();
        let (first, last) = (sample.first()?.clone(), sample.last()?.clone());
        let by_prefix = |key: &KeyPosition| KeyPosition::new(prefix(&key.partition), "");
        let by_partition =
            |key: &KeyPosition| KeyPosition { partition: key.partition.clone(), row: "".into() };
        let boundary = if prefix(&first.partition) != prefix(&last.partition) {
            nearest_change(&sample, by_prefix)
        } else if first.partition != last.partition {
            nearest_change(&sample, by_partition)
        } else {
            self.boundary_in_partition(index, total, &sample)
        };
        boundary.filter(|boundary| boundary > start && end.is_none_or(|end| boundary < end))
    }

    /// A partition is first set apart from its neighbours, and then split by its RowKeys.
    fn boundary_in_partition(&self, index: usize, total: f32, sample: &[KeyPosition]) -> Option<KeyPosition> {
        let partition = &sample.first()?.partition;
        let begin = KeyPosition { partition: partition.clone(), row: "".into() };
        let behind = KeyPosition { partition: format!("{partition}\0").into(), row: "".into() };
        if self.list.starts[index] < begin {
            return Some(begin);
        }
        if self.list.starts.get(index + 1).is_none_or(|end| *end > behind) {
            return Some(behind);
        }
        let parts = self.list.overlapping(begin.as_pair(), Some(behind.as_pair()));
        let operations: f32 = self.loads[parts].iter().map(|load| load.operations).sum();
        if operations < total * ROWS_SPLIT_AT {
            return None;
        }
        nearest_change(sample, KeyPosition::clone)
    }
}

impl Load {
    fn add(&mut self, key: (&str, &str), operations: f32, draw: u64) {
        self.operations += operations;
        self.seen = self.seen.saturating_add(1);
        let hash = xxh3_64(key.0.as_bytes()) ^ xxh3_64(key.1.as_bytes()).rotate_left(1);
        self.note_hash(hash);
        if self.sample.len() < SAMPLE_MAX {
            self.sample.push(KeyPosition::new(key.0, key.1));
            return;
        }
        // Keys that came lately are likelier to be in the sample: the traffic moves.
        let among = u64::from(self.seen.min(1024));
        let place = xxh3_64(&draw.to_le_bytes()) % among;
        if let Some(old) = usize::try_from(place).ok().and_then(|place| self.sample.get_mut(place)) {
            *old = KeyPosition::new(key.0, key.1);
        }
    }

    fn note_hash(&mut self, hash: u64) {
        if self.hashes.len() >= HASHES_MAX && self.hashes.last().is_some_and(|largest| hash >= *largest) {
            return;
        }
        if let Err(place) = self.hashes.binary_search(&hash) {
            self.hashes.insert(place, hash);
            self.hashes.truncate(HASHES_MAX);
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    fn keys(&self) -> u64 {
        match self.hashes.last() {
            Some(largest) if self.hashes.len() == HASHES_MAX => {
                ((HASHES_MAX - 1) as f64 / (*largest as f64 / u64::MAX as f64)) as u64
            }
            _ => self.hashes.len() as u64,
        }
    }

    fn absorb(&mut self, other: Self) {
        self.operations += other.operations;
        self.seen = self.seen.saturating_add(other.seen);
        for hash in other.hashes {
            self.note_hash(hash);
        }
        self.sample.extend(other.sample);
        if self.sample.len() > SAMPLE_MAX {
            // Every other one, so that both parts stay in it.
            let mut is_kept = false;
            self.sample.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.sample.truncate(SAMPLE_MAX);
        }
    }

    /// The part from a key on.
    #[allow(clippy::cast_precision_loss, reason = "few keys")]
    fn split_off(&mut self, boundary: &KeyPosition) -> Self {
        let sample = std::mem::take(&mut self.sample);
        let (upper, lower): (Vec<_>, Vec<_>) = sample.into_iter().partition(|key| key >= boundary);
        let share = upper.len() as f32 / (upper.len() + lower.len()).max(1) as f32;
        let part = |sample: Vec<KeyPosition>, share: f32| {
            let mut load = Self { operations: self.operations * share, ..Self::default() };
            for key in &sample {
                load.note_hash(
                    xxh3_64(key.partition.as_bytes()) ^ xxh3_64(key.row.as_bytes()).rotate_left(1),
                );
            }
            load.seen = u32::try_from(sample.len()).unwrap_or(0);
            load.sample = sample;
            load
        };
        let (upper, lower) = (part(upper, share), part(lower, 1.0 - share));
        *self = lower;
        upper
    }
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
