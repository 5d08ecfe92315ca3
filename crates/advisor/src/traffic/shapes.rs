//! The requests of a table by their shape.
//!
//! There are at most [`SHAPES_MAX`] shapes; when one more comes, the rarest is counted under "other".

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tavola_model::{EdmType, EdmValue, Operator, PropertyRef};
use tavola_odata::write_filter;
use tavola_telemetry::{AccessRecord, QueryTarget, Target};

use super::figures::PlanMix;
use crate::shape::{Shape, conjuncts, cut, partition_of};
use crate::sketch::Latencies;

const SHAPES_MAX: usize = 48;
/// Queries of a shape that are kept for a replay.
const SAMPLES_MAX: usize = 8;
/// Bytes of the text of a filter; longer ones are not kept for a replay and cut in an example.
const FILTER_BYTES_MAX: usize = 512;
/// Comparisons of a shape that are remembered.
const COMPARED_MAX: usize = 8;

/// The shapes of a table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Shapes {
    by_text: BTreeMap<String, ShapeTraffic>,
}

/// The requests of one shape.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ShapeTraffic {
    pub count: u64,
    /// Of these, those that went on where an earlier page ended.
    pub continuations: u64,
    pub rows_scanned: u64,
    pub rows_returned: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
    pub latencies: Latencies,
    pub plans: PlanMix,
    /// Whether it is a query.
    pub is_query: bool,
    /// Whether it asks for all properties.
    pub selects_all: bool,
    /// Reads of one entity with all its properties, and the bytes of their answers.
    #[serde(default)]
    pub whole_reads: u64,
    #[serde(default)]
    pub whole_bytes: u64,
    /// Unix seconds of the last one.
    pub last: i64,
    /// The one that read the most rows.
    pub worst: Option<SampledQuery>,
    pub samples: Vec<SampledQuery>,
    /// What the outermost `and` of the filter compares, with a value that was asked for.
    pub compared: Vec<Compared>,
}

/// One comparison of a shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Compared {
    pub property: String,
    pub operator: String,
    pub value: String,
    pub is_time: bool,
}

/// A query that was really asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SampledQuery {
    /// The filter, empty for all entities.
    pub filter: String,
    pub top: Option<u32>,
    pub at: i64,
    pub rows_scanned: u64,
    pub rows_returned: u64,
    pub total_us: u64,
}

impl Shapes {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ShapeTraffic)> {
        self.by_text.iter().map(|(text, shape)| (text.as_str(), shape))
    }

    pub fn observe(&mut self, record: &AccessRecord) {
        let text = match (&record.target, record.operation) {
            (Target::Query(query), _) => Shape::of_query(query).0,
            (_, Some(operation)) => operation.to_owned(),
            (_, None) => return,
        };
        if !self.by_text.contains_key(&text) && self.by_text.len() >= SHAPES_MAX {
            self.fold_rarest();
        }
        self.by_text.entry(text).or_default().observe(record);
    }

    fn fold_rarest(&mut self) {
        let rarest = self.by_text.iter().filter(|(text, _)| *text != Shape::OTHER);
        let Some(rarest) = rarest.min_by_key(|(_, shape)| shape.count).map(|(text, _)| text.clone()) else {
            return;
        };
        if let Some(shape) = self.by_text.remove(&rarest) {
            self.by_text.entry(Shape::OTHER.to_owned()).or_default().add(&shape);
        }
    }

    pub fn halve(&mut self) {
        for shape in self.by_text.values_mut() {
            shape.halve();
        }
        self.by_text.retain(|_, shape| shape.count > 0);
    }
}

impl ShapeTraffic {
    /// Queries, with those that took several pages counted once.
    pub fn queries(&self) -> u64 {
        self.count.saturating_sub(self.continuations).max(1)
    }

    fn observe(&mut self, record: &AccessRecord) {
        let times = u64::from(record.weight.max(1));
        self.count += times;
        self.rows_scanned += record.rows_scanned * times;
        self.rows_returned += record.rows_returned * times;
        self.bytes_in += record.bytes_in * times;
        self.bytes_out += record.bytes_out * times;
        self.latencies.add(record.durations.total, record.weight.max(1));
        self.last = self.last.max(record.received.unix_seconds());
        if let Some(plan) = record.plan {
            *self.plans.of(plan.kind) += times;
        }
        match &record.target {
            Target::Query(query) => self.observe_query(record, query, times),
            Target::Entity { properties: 0, .. }
                if record.operation == Some("GetEntity") && record.status == 200 =>
            {
                self.whole_reads += times;
                self.whole_bytes += record.bytes_out * times;
            }
            Target::Entity { .. } | Target::Batch { .. } | Target::Whole => {}
        }
    }

    fn observe_query(&mut self, record: &AccessRecord, query: &QueryTarget, times: u64) {
        if !self.is_query {
            self.is_query = true;
            self.selects_all = query.select.is_empty();
            self.compared = query.filter.as_ref().map(compared).unwrap_or_default();
        }
        if query.is_continuation {
            self.continuations += times;
            return;
        }
        let is_worst = self.worst.as_ref().is_none_or(|worst| record.rows_scanned > worst.rows_scanned);
        let place = if self.samples.len() < SAMPLES_MAX {
            Some(self.samples.len())
        } else {
            reservoir_place(self.count, SAMPLES_MAX)
        };
        if !is_worst && place.is_none() {
            return;
        }
        let sample = sampled(record, query);
        if is_worst {
            self.worst = Some(SampledQuery { filter: shortened(&sample.filter), ..sample.clone() });
        }
        if let Some(place) = place
            && sample.filter.len() <= FILTER_BYTES_MAX
        {
            match self.samples.get_mut(place) {
                Some(old) => *old = sample,
                None => self.samples.push(sample),
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.continuations += other.continuations;
        self.rows_scanned += other.rows_scanned;
        self.rows_returned += other.rows_returned;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.whole_reads += other.whole_reads;
        self.whole_bytes += other.whole_bytes;
        self.latencies.merge(&other.latencies);
        self.last = self.last.max(other.last);
    }

    fn halve(&mut self) {
        for counter in [
            &mut self.count,
            &mut self.continuations,
            &mut self.rows_scanned,
            &mut self.rows_returned,
            &mut self.bytes_in,
            &mut self.bytes_out,
            &mut self.whole_reads,
            &mut self.whole_bytes,
        ] {
            *counter /= 2;
        }
        self.plans.halve();
    }
}

fn sampled(record: &AccessRecord, query: &QueryTarget) -> SampledQuery {
    SampledQuery {
        filter: query.filter.as_ref().map(write_filter).unwrap_or_default(),
        top: query.top,
        at: record.received.unix_seconds(),
        rows_scanned: record.rows_scanned,
        rows_returned: record.rows_returned,
        total_us: micros(record.durations.total),
    }
}

fn shortened(filter: &str) -> String {
    let mut filter = filter.to_owned();
    cut(&mut filter, FILTER_BYTES_MAX);
    filter
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn compared(filter: &tavola_model::Filter) -> Vec<Compared> {
    let comparisons = conjuncts(filter).into_iter().take(COMPARED_MAX);
    comparisons
        .map(|comparison| Compared {
            property: comparison.property.name().to_owned(),
            operator: comparison.operator.as_str().to_owned(),
            value: short_value(comparison.literal()),
            is_time: comparison.property == PropertyRef::Timestamp
                || comparison.literal_type() == EdmType::DateTime,
        })
        .collect()
}

/// Bytes of a value that is remembered as an example.
const VALUE_BYTES_MAX: usize = 128;

fn short_value(value: EdmValue<'_>) -> String {
    let mut text = plain_text(value);
    cut(&mut text, VALUE_BYTES_MAX);
    text
}

/// A value as it would stand in a key.
pub(crate) fn plain_text(value: EdmValue<'_>) -> String {
    match value {
        EdmValue::String(text) => text.to_owned(),
        EdmValue::Boolean(flag) => flag.to_string(),
        EdmValue::DateTime(time) => time.to_string(),
        EdmValue::Double(number) => number.to_string(),
        EdmValue::Guid(guid) => guid.to_string(),
        EdmValue::Int32(number) => number.to_string(),
        EdmValue::Int64(number) => number.to_string(),
        EdmValue::Binary(bytes) => bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The partition a query asks for, if it is one.
pub(crate) fn partition_asked(query: &QueryTarget) -> Option<&str> {
    query.filter.as_ref().and_then(partition_of)
}

/// Where the n-th of many goes in a fair sample of `size`, if it does. The same number gives the same place.
pub(crate) fn reservoir_place(n: u64, size: usize) -> Option<usize> {
    let chance = xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()) % n.max(1);
    usize::try_from(chance).ok().filter(|place| *place < size)
}

impl Compared {
    pub fn is_key(&self) -> bool {
        matches!(self.property.as_str(), "PartitionKey" | "RowKey")
    }

    pub fn is_eq(&self) -> bool {
        self.operator == Operator::Eq.as_str()
    }
}
