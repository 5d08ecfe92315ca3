//! How much goes to one partition, and to one account, against what the service promises for one:
//! <https://learn.microsoft.com/azure/storage/tables/scalability-targets>.

use std::collections::BTreeMap;

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

/// The partitions of a table by their load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PartitionRates {
    pub totals: HeavyHitters<String>,
    pub peaks: BTreeMap<String, Peak>,
    second: i64,
    in_second: HeavyHitters<String>,
}

/// The busiest second of a partition or an account.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Peak {
    pub per_second: u64,
    /// Seconds at half of the promise or more.
    pub busy_seconds: u64,
    /// Seconds beyond the promise.
    pub over_seconds: u64,
    /// When it was.
    pub at: i64,
}

impl Default for PartitionRates {
    fn default() -> Self {
        Self {
            totals: HeavyHitters::new(TOTALS_MAX),
            peaks: BTreeMap::new(),
            second: 0,
            in_second: HeavyHitters::new(IN_A_SECOND_MAX),
        }
    }
}

impl PartitionRates {
    pub fn add(&mut self, at: i64, partition: &str, entities: u64) {
        if at > self.second {
            self.end_second();
            self.second = at;
        }
        self.in_second.add(partition, entities);
        self.totals.add(partition, entities);
    }

    /// Peaks with the second that is under way.
    pub fn peaks_until_now(&self) -> BTreeMap<String, Peak> {
        let mut until_now = self.clone();
        until_now.end_second();
        until_now.peaks
    }

    fn end_second(&mut self) {
        for (partition, hitter) in self.in_second.top().into_iter().take(PEAKS_OF_A_SECOND) {
            let count = hitter.count - hitter.error;
            match self.peaks.get_mut(partition) {
                Some(peak) => peak.observe(count, PARTITION_ENTITIES_PER_SECOND, self.second),
                None => {
                    let mut peak = Peak::default();
                    peak.observe(count, PARTITION_ENTITIES_PER_SECOND, self.second);
                    self.peaks.insert(partition.clone(), peak);
                }
            }
        }
        while self.peaks.len() > PEAKS_MAX {
            let least =
                self.peaks.iter().min_by_key(|(_, peak)| peak.per_second).map(|(name, _)| name.clone());
            least.map(|name| self.peaks.remove(&name));
        }
        self.in_second.clear();
    }
}

impl Peak {
    fn observe(&mut self, count: u64, promised: u64, at: i64) {
        if count > self.per_second {
            (self.per_second, self.at) = (count, at);
        }
        self.busy_seconds += u64::from(count * 2 >= promised);
        self.over_seconds += u64::from(count > promised);
    }
}

/// The rate of one account, over all services.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AccountRate {
    peak: Peak,
    second: i64,
    in_second: u64,
}

impl AccountRate {
    pub fn observe(&mut self, record: &AccessRecord) {
        let at = record.received.unix_seconds();
        if at > self.second {
            *self = Self { peak: self.peak(), second: at, in_second: 0 };
        }
        self.in_second += u64::from(record.weight.max(1));
    }

    /// The peak, with the second that is under way.
    pub fn peak(&self) -> Peak {
        let mut peak = self.peak.clone();
        peak.observe(self.in_second, ACCOUNT_REQUESTS_PER_SECOND, self.second);
        peak
    }
}
