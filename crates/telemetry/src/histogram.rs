//! A histogram that many threads add to without waiting for each other.
//!
//! Whole numbers go in; the unit is the caller's. Buckets are counted one by one and summed when they are read, so a
//! reading may lack what is being added just then, but never shows a bucket that is larger than the count. Written by hand
//! because the histogram of `prometheus-client` takes a lock for every value.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets at most, the last one without a bound included.
pub const BUCKETS_MAX: usize = 18;

/// Counts of values by size.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    buckets: [AtomicU64; BUCKETS_MAX],
    sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramReading {
    /// The largest value of each bucket, ascending; one more bucket follows that has none.
    pub bounds: &'static [u64],
    /// Values in each bucket, not cumulative; one more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// An empty histogram with these bounds, ascending.
    pub const fn new(bounds: &'static [u64]) -> Self {
        assert!(bounds.len() < BUCKETS_MAX, "the last bucket has no bound");
        Self { bounds, buckets: [const { AtomicU64::new(0) }; BUCKETS_MAX], sum: AtomicU64::new(0) }
    }

    /// Adds a value.
    pub fn add(&self, value: u64) {
        self.add_by(value, |counter, number| {
            counter.fetch_add(number, Ordering::Relaxed);
        });
    }

    /// Adds a value with `add_to`, which adds to a counter.
    pub(crate) fn add_by(&self, value: u64, add_to: impl Fn(&AtomicU64, u64)) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        add_to(&self.buckets[bucket], 1);
        add_to(&self.sum, value);
    }

    /// What it holds now.
    pub fn read(&self) -> HistogramReading {
        let buckets = &self.buckets[..=self.bounds.len()];
        HistogramReading {
            bounds: self.bounds,
            counts: buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

impl HistogramReading {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds what another one with the same bounds holds.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.bounds, other.bounds, "histograms of one family have the same bounds");
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::new(&[1, 10, 100]);
        [0, 1, 2, 10, 11, 100, 101, 5000].into_iter().for_each(|value| histogram.add(value));
        let mut reading = histogram.read();
        assert_eq!((reading.counts.as_slice(), reading.sum), (&[2, 2, 2, 2][..], 5225));
        reading.merge(&histogram.read());
        assert_eq!((reading.count(), reading.sum), (16, 10_450));
    }
}
