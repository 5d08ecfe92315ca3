//! One stretch of time of the heat map: what went to each range.

use std::sync::Arc;

use super::ranges::RangeList;
use crate::sketch::Latencies;

/// What went to the ranges of one list in one stretch of time.
pub(super) struct Column {
    /// Unix seconds.
    pub from: i64,
    pub seconds: i64,
    pub ranges: Arc<RangeList>,
    /// By range; ranges that were not asked have none.
    pub cells: Vec<ColumnCell>,
}

/// What went to one range.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnCell {
    pub range: u16,
    /// Whether it was shared out from a coarser range.
    pub estimated: bool,
    pub counts: Counts,
}

/// What is counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub operations: f32,
    pub bytes: f32,
    pub rows: f32,
    pub latencies: Latencies,
}

impl Counts {
    /// Adds a share of another. Durations are not shared out: their quantiles are those of the whole.
    pub fn add(&mut self, other: &Self, share: f32) {
        self.add_numbers(other, share);
        self.latencies.merge(&other.latencies);
    }

    /// The same without durations.
    pub fn add_numbers(&mut self, other: &Self, share: f32) {
        self.operations += other.operations * share;
        self.bytes += other.bytes * share;
        self.rows += other.rows * share;
    }
}

impl Column {
    pub fn new(from: i64, seconds: i64, ranges: Arc<RangeList>) -> Self {
        Self { from, seconds, ranges, cells: Vec::new() }
    }

    /// What went to a range, to be added to.
    pub fn cell(&mut self, range: usize) -> &mut ColumnCell {
        let range = u16::try_from(range).unwrap_or(u16::MAX);
        let place = match self.cells.binary_search_by_key(&range, |cell| cell.range) {
            Ok(place) => place,
            Err(place) => {
                self.cells.insert(place, ColumnCell { range, ..ColumnCell::default() });
                place
            }
        };
        &mut self.cells[place]
    }

    /// Adds another stretch of time, in the ranges of this one. What went to a range that is several here is shared among
    /// them by `weight`, or evenly if they have none.
    pub fn absorb(&mut self, other: &Self, weight: impl Fn(&Self, usize) -> f32) {
        let is_same = Arc::ptr_eq(&self.ranges, &other.ranges);
        let onto = if is_same { Vec::new() } else { other.ranges.onto(&self.ranges) };
        for cell in &other.cells {
            let range = usize::from(cell.range);
            let targets = onto.get(range).cloned().unwrap_or(range..range + 1);
            if targets.len() == 1 {
                let own = self.cell(targets.start);
                own.counts.add(&cell.counts, 1.0);
                own.estimated |= cell.estimated;
                continue;
            }
            let weights: Vec<f32> = targets.clone().map(|target| weight(self, target)).collect();
            let total: f32 = weights.iter().sum();
            #[allow(clippy::cast_precision_loss, reason = "at most 256")]
            let even = 1.0 / targets.len() as f32;
            for (target, weight) in targets.zip(weights) {
                let share = if total > 0.0 { weight / total } else { even };
                if share > 0.0 {
                    let own = self.cell(target);
                    own.counts.add(&cell.counts, share);
                    own.estimated = true;
                }
            }
        }
    }

    /// The same in other ranges, by the weights of these.
    pub fn in_ranges(&self, ranges: &Arc<RangeList>, weight: impl Fn(usize) -> f32) -> Self {
        let mut column = Self::new(self.from, self.seconds, ranges.clone());
        column.absorb(self, |_, range| weight(range));
        column
    }

    /// Operations that went to a range.
    pub fn operations(&self, range: usize) -> f32 {
        let found = self.cells.binary_search_by_key(&range, |cell| usize::from(cell.range));
        found.map_or(0.0, |place| self.cells[place].counts.operations)
    }

    /// Memory that its cells take.
    pub fn bytes(&self) -> usize {
        let latencies: usize = self.cells.iter().map(|cell| cell.counts.latencies.heap_bytes()).sum();
        latencies + self.cells.capacity() * size_of::<ColumnCell>() + size_of::<Self>()
    }

    /// Gives back memory that is not used.
    pub fn shrink(&mut self) {
        self.cells.shrink_to_fit();
        for cell in &mut self.cells {
            cell.counts.latencies.shrink();
        }
    }
}
