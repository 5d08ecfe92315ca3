//! How much goes to one partition, and to one account, against what the service promises for one:
//! <https://learn.microsoft.com/azure/storage/tables/scalability-targets>.
//!
//! Under load only some requests are recorded, each for `weight` of them. One recorded batch then counts for hundreds of
//! entities in its second, whatever the others of that second were. So every count has the variance that sampling gives
//! it, and only what is certain counts: the count less three standard deviations. A second of few records is rarely
//! certain, and a stretch of ten seconds is.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use tavola_telemetry::AccessRecord;

use crate::sketch::HeavyHitters;

/// Entities in a second that the service promises for a partition.
pub(crate) const PARTITION_ENTITIES_PER_SECOND: u64 = 2_000;
/// Requests in a second that the service promises for an account.
pub(crate) const ACCOUNT_REQUESTS_PER_SECOND: u64 = 20_000;

const TOTALS_MAX: usize = 64;
const IN_A_SECOND_MAX: usize = 32;
const PEAKS_MAX: usize = 32;
/// Partitions of one second that can be a peak.
const PEAKS_OF_A_SECOND: usize = 4;

/// Standard deviations that a count is lowered by.
const DEVIATIONS: f64 = 3.0;
/// Seconds that are looked at together.
const STRETCH_SECONDS: i64 = 10;

/// The partitions of a table by their load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PartitionRates {
    pub totals: HeavyHitters<String>,
    pub peaks: BTreeMap<String, Peak>,
    second: i64,
    in_second: HeavyHitters<String>,
    /// The variances of those counts; exact ones have none.
    #[serde(default)]
    variances: HashMap<String, f64>,
}

/// Requests that a record stands for, each with so many entities.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    pub entities: u64,
    pub weight: u64,
}

impl Sampled {
    fn count(self) -> u64 {
        self.entities * self.weight
    }

    /// Of a request that is recorded with the probability of one in `weight`.
    #[allow(clippy::cast_precision_loss, reason = "a variance")]
    fn variance(self) -> f64 {
        let entities = self.entities as f64;
        entities * entities * (self.weight * self.weight.saturating_sub(1)) as f64
    }
}

/// A count, and how far sampling makes it uncertain.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Estimate {
    count: u64,
    variance: f64,
}

impl Estimate {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.variance += other.variance;
    }

    /// What it is at least.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, and not below zero"
    )]
    fn certain(self) -> u64 {
        if self.variance <= 0.0 {
            return self.count;
        }
        (self.count as f64 - DEVIATIONS * self.variance.sqrt()).max(0.0) as u64
    }
}

/// The busiest second of a partition or an account.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Peak {
    /// At least; in one second, or in each of ten on average.
    pub per_second: u64,
    /// Seconds at half of the promise or more.
    pub busy_seconds: u64,
    /// Seconds beyond the promise.
    pub over_seconds: u64,
    /// When it was.
    pub at: i64,
    /// The stretch of time that is under way.
    #[serde(default)]
    stretch: Stretch,
}

/// Some seconds together: what none of them shows for certain, all of them may.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Stretch {
    begin: i64,
    sum: Estimate,
    /// Seconds that seem to be at half of the promise, or beyond it, and are not counted yet.
    busy_seconds: u64,
    over_seconds: u64,
}

impl Default for PartitionRates {
    fn default() -> Self {
        Self {
            totals: HeavyHitters::new(TOTALS_MAX),
            peaks: BTreeMap::new(),
            second: 0,
            in_second: HeavyHitters::new(IN_A_SECOND_MAX),
            variances: HashMap::new(),
        }
    }
}

impl PartitionRates {
    pub fn add(&mut self, at: i64, partition: &str, sampled: Sampled) {
        if at > self.second {
            self.end_second();
            self.second = at;
        }
        self.in_second.add(partition, sampled.count());
        self.totals.add(partition, sampled.count());
        let variance = sampled.variance();
        if variance > 0.0 {
            if self.variances.len() >= 2 * IN_A_SECOND_MAX {
                let kept = self.in_second.top();
                self.variances.retain(|name, _| kept.iter().any(|(kept, _)| *kept == name));
            }
            *self.variances.entry(partition.to_owned()).or_default() += variance;
        }
    }

    /// Peaks with the second that is under way.
    pub fn peaks_until_now(&self) -> BTreeMap<String, Peak> {
        let mut until_now = self.clone();
        until_now.end_second();
        let ended = |(name, mut peak): (String, Peak)| {
            peak.end_stretch(PARTITION_ENTITIES_PER_SECOND);
            (name, peak)
        };
        until_now.peaks.into_iter().map(ended).collect()
    }

    fn end_second(&mut self) {
        for (partition, hitter) in self.in_second.top().into_iter().take(PEAKS_OF_A_SECOND) {
            let variance = self.variances.get(partition).copied().unwrap_or_default();
            let estimate = Estimate { count: hitter.count - hitter.error, variance };
            match self.peaks.get_mut(partition) {
                Some(peak) => peak.observe(estimate, PARTITION_ENTITIES_PER_SECOND, self.second),
                None => {
                    let mut peak = Peak::default();
                    peak.observe(estimate, PARTITION_ENTITIES_PER_SECOND, self.second);
                    self.peaks.insert(partition.clone(), peak);
                }
            }
        }
        while self.peaks.len() > PEAKS_MAX {
            let least = self
                .peaks
                .iter()
                .min_by_key(|(_, peak)| (peak.per_second, peak.stretch.begin, peak.stretch.sum.count))
                .map(|(name, _)| name.clone());
            least.map(|name| self.peaks.remove(&name));
        }
        self.in_second.clear();
        self.variances.clear();
    }
}

impl Peak {
    fn observe(&mut self, estimate: Estimate, promised: u64, at: i64) {
        let begin = at - at.rem_euclid(STRETCH_SECONDS);
        if begin > self.stretch.begin {
            self.end_stretch(promised);
            self.stretch.begin = begin;
        }
        self.stretch.sum.add(estimate);
        let (seeming, certain) = (estimate.count, estimate.certain());
        self.raise(certain, at);
        let is_busy = |count: u64| count * 2 >= promised;
        let is_over = |count: u64| count > promised;
        self.busy_seconds += u64::from(is_busy(certain));
        self.over_seconds += u64::from(is_over(certain));
        self.stretch.busy_seconds += u64::from(is_busy(seeming) && !is_busy(certain));
        self.stretch.over_seconds += u64::from(is_over(seeming) && !is_over(certain));
    }

    /// Counts seconds of the stretch that were not certain alone, if it is certain as a whole.
    fn end_stretch(&mut self, promised: u64) {
        let Stretch { begin, sum, busy_seconds, over_seconds } = std::mem::take(&mut self.stretch);
        let mean = sum.certain() / STRETCH_SECONDS.unsigned_abs();
        self.raise(mean, begin);
        self.busy_seconds += if mean * 2 >= promised { busy_seconds } else { 0 };
        self.over_seconds += if mean > promised { over_seconds } else { 0 };
    }

    fn raise(&mut self, per_second: u64, at: i64) {
        if per_second > self.per_second {
            (self.per_second, self.at) = (per_second, at);
        }
    }
}

/// The rate of one account, over all services.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AccountRate {
    peak: Peak,
    second: i64,
    in_second: u64,
    #[serde(default)]
    variance: f64,
}

impl AccountRate {
    pub fn observe(&mut self, record: &AccessRecord) {
        let at = record.received.unix_seconds();
        if at > self.second {
            self.end_second();
            self.second = at;
        }
        let sampled = Sampled { entities: 1, weight: u64::from(record.weight.max(1)) };
        self.in_second += sampled.count();
        self.variance += sampled.variance();
    }

    /// The peak, with the second that is under way.
    pub fn peak(&self) -> Peak {
        let mut until_now = self.clone();
        until_now.end_second();
        until_now.peak.end_stretch(ACCOUNT_REQUESTS_PER_SECOND);
        until_now.peak
    }

    fn end_second(&mut self) {
        let estimate = Estimate { count: self.in_second, variance: self.variance };
        self.peak.observe(estimate, ACCOUNT_REQUESTS_PER_SECOND, self.second);
        (self.in_second, self.variance) = (0, 0.0);
    }
}
