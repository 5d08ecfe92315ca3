//! The traffic of one table.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tavola_model::{ErrorCode, PlanKind};
use tavola_telemetry::{AccessRecord, Target};

use super::figures::{PlanMix, TableFigures, TableMinute};
use super::keys::{InsertOrder, NumberKeys, RowOrder};
use super::partitions::{PartitionRates, Sampled};
use super::shapes::{Shapes, partition_asked, reservoir_place};
use super::writes::{Conflicts, WriteSizes, Writes};
use crate::shape::cut;

/// Requests by key that are kept for a replay.
const POINTS_MAX: usize = 128;
const LATEST_MAX: usize = 64;
/// Bytes of a key in any list; longer ones are cut.
pub(crate) const KEY_BYTES_MAX: usize = 256;
/// After so long all counts are halved, so that what is over fades.
const HALVED_AFTER_SECONDS: i64 = 7 * 24 * 3600;

/// The traffic of one table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableTraffic {
    pub account: String,
    pub table: String,
    /// Unix seconds of the first and the last request.
    pub first: i64,
    pub last: i64,
    pub requests: u64,
    pub throttled: u64,
    pub plans: PlanMix,
    pub shapes: Shapes,
    pub partitions: PartitionRates,
    pub inserts: InsertOrder,
    pub deletes: RowOrder,
    pub numbers: NumberKeys,
    pub sizes: WriteSizes,
    pub writes: Writes,
    pub conflicts: Conflicts,
    pub points: Vec<PointSample>,
    points_seen: u64,
    /// The last requests by key, the newest last: where the traffic is at one moment.
    pub latest: VecDeque<PointSample>,
    #[serde(skip)]
    minute: TableMinute,
}

/// A request by key, for a replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PointSample {
    pub partition: String,
    pub row: String,
    pub is_write: bool,
}

/// The parts of time that rates are taken over are not shorter than this.
const OBSERVED_SECONDS_MIN: i64 = 60;

impl TableTraffic {
    pub fn new(account: &str, table: &str) -> Self {
        Self {
            account: account.to_owned(),
            table: table.to_owned(),
            first: i64::MAX,
            last: 0,
            requests: 0,
            throttled: 0,
            plans: PlanMix::default(),
            shapes: Shapes::default(),
            partitions: PartitionRates::default(),
            inserts: InsertOrder::default(),
            deletes: RowOrder::default(),
            numbers: NumberKeys::default(),
            sizes: WriteSizes::default(),
            writes: Writes::default(),
            conflicts: Conflicts::default(),
            points: Vec::new(),
            points_seen: 0,
            latest: VecDeque::new(),
            minute: TableMinute::default(),
        }
    }

    /// Hours between the first and the last request.
    pub fn hours(&self) -> f64 {
        let seconds = (self.last - self.first).max(OBSERVED_SECONDS_MIN);
        f64::from(i32::try_from(seconds).unwrap_or(i32::MAX)) / 3600.0
    }

    pub fn observe(&mut self, record: &AccessRecord) {
        let at = record.received.unix_seconds();
        let times = u64::from(record.weight.max(1));
        self.first = self.first.min(at);
        self.last = self.last.max(at);
        self.requests += times;
        self.throttled += if record.throttled { times } else { 0 };
        self.minute.observe(record);
        self.plans.observe(record);
        self.shapes.observe(record);
        self.conflicts.observe(record);
        self.sizes.observe(record);
        if (200..300).contains(&record.status) {
            self.observe_keys(record, at, times);
        }
        if self.last - self.first > HALVED_AFTER_SECONDS {
            self.halve();
        }
    }

    /// What was asked for and given. Requests that failed say nothing about the keys of the table.
    fn observe_keys(&mut self, record: &AccessRecord, at: i64, times: u64) {
        self.writes.observe(record);
        match &record.target {
            Target::Entity { partition, row, .. } => {
                let (partition, row) = (short(partition), short(row));
                self.partitions.add(at, &partition, Sampled { entities: 1, weight: times });
                let is_write = record.operation != Some("GetEntity");
                match record.operation {
                    Some("InsertEntity" | "InsertOrReplaceEntity" | "InsertOrMergeEntity") => {
                        self.inserts.observe(&partition, &row, times);
                        self.numbers.observe(&row, times);
                    }
                    Some("DeleteEntity") => self.deletes.observe(&partition, &row, times),
                    _ => {}
                }
                self.keep_point(PointSample { partition, row, is_write });
            }
            Target::Batch { partition, row, operations, inserts, numbers, .. } => {
                let (partition, row) = (short(partition), short(row));
                let entities = u64::from(*operations);
                self.partitions.add(at, &partition, Sampled { entities, weight: times });
                if *inserts > 0 {
                    // The first RowKey stands for those of all.
                    let all = u64::from(*inserts) * times;
                    self.inserts.observe(&partition, &row, all);
                    // And those with the fewest and the most digits for all that end in a number.
                    if let Some((fewest, most)) = numbers {
                        self.numbers.observe(&short(fewest), all - all / 2);
                        self.numbers.observe(&short(most), all / 2);
                    } else {
                        self.numbers.keys += all;
                    }
                }
                self.keep_point(PointSample { partition, row, is_write: true });
            }
            Target::Query(query) => {
                if let Some(partition) = partition_asked(query) {
                    let entities = record.rows_returned.max(1);
                    self.partitions.add(at, &short(partition), Sampled { entities, weight: times });
                }
            }
            Target::Whole => {}
        }
    }

    fn keep_point(&mut self, sample: PointSample) {
        self.points_seen += 1;
        self.latest.push_back(sample.clone());
        if self.latest.len() > LATEST_MAX {
            self.latest.pop_front();
        }
        if self.points.len() < POINTS_MAX {
            self.points.push(sample);
        } else if let Some(place) = reservoir_place(self.points_seen, POINTS_MAX) {
            self.points[place] = sample;
        }
    }

    fn halve(&mut self) {
        self.first = i64::midpoint(self.first, self.last);
        self.requests /= 2;
        self.throttled /= 2;
        self.plans.halve();
        self.shapes.halve();
        self.inserts.halve();
        self.deletes.halve();
        self.numbers.halve();
        self.sizes.halve();
        self.writes.halve();
        self.conflicts = Conflicts::default();
        self.partitions = PartitionRates::default();
    }

    pub fn figures(&self, now: i64) -> TableFigures {
        let (requests_per_second, rows_scanned_per_second) = self.minute.rates(now);
        TableFigures {
            account: self.account.clone(),
            table: self.table.clone(),
            requests_per_second,
            rows_scanned_per_second,
            p99_ms: self.minute.p99_ms(now),
            plans: self.plans,
        }
    }
}

impl PlanMix {
    fn observe(&mut self, record: &AccessRecord) {
        let times = u64::from(record.weight.max(1));
        let counter = match (record.plan.map(|plan| plan.kind), record.operation) {
            (Some(kind), _) => self.of(kind),
            (None, Some("GetEntity")) => &mut self.point,
            (None, Some("QueryEntities")) => return,
            (None, _) => &mut self.write,
        };
        *counter += times;
    }

    /// The counter of a kind of access.
    pub(crate) fn of(&mut self, kind: PlanKind) -> &mut u64 {
        match kind {
            PlanKind::Point => &mut self.point,
            PlanKind::Range => &mut self.range,
            PlanKind::PartitionScan => &mut self.partition_scan,
            PlanKind::PartitionRange => &mut self.partition_range,
            PlanKind::TableScan => &mut self.table_scan,
        }
    }

    pub(crate) fn halve(&mut self) {
        for counter in [
            &mut self.point,
            &mut self.range,
            &mut self.partition_scan,
            &mut self.partition_range,
            &mut self.table_scan,
            &mut self.write,
        ] {
            *counter /= 2;
        }
    }
}

/// A key, cut to what lists keep.
pub(crate) fn short(key: &str) -> String {
    let mut key = key.to_owned();
    cut(&mut key, KEY_BYTES_MAX);
    key
}

/// Whether a write was refused because the condition on its version did not hold.
pub(crate) fn is_conflict(record: &AccessRecord) -> bool {
    record.status == 412 || record.code == Some(ErrorCode::UpdateConditionNotSatisfied)
}
