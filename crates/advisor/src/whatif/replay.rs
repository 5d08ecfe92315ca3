//! The recorded requests, on both copies.

use std::collections::HashMap;

use tavola_model::{
    Comparison, EdmValue, Filter, FilterBuilder, FilterNode, Operator, PlanKind, PropertyRef, QueryEntities,
    ServiceError,
};
use tavola_odata::{parse_filter, write_filter};
use tavola_service::plan;

use super::copy::{Copies, Templates, most};
use super::translate::{on_copy, translate};
use super::{PartitionShare, ShapeChange, Side};
use crate::facts::TableReader;
use crate::traffic::{PointSample, TableTraffic};

/// Rows that are read for the samples of one shape; the remaining samples are left out.
const SHAPE_ROWS_MAX: usize = 2_000_000;
/// Pages of one query.
const PAGES_MAX: usize = 10_000;
/// Requests by key that are replayed one by one.
const POINTS_MAX: usize = 64;

/// What the replay gave.
#[derive(Default)]
pub(super) struct Replayed {
    pub replayed: u64,
    pub recorded: u64,
    pub before: Side,
    pub after: Side,
    pub shapes: Vec<ShapeChange>,
}

/// What one query did.
#[derive(Clone, Copy)]
struct Ran {
    kind: PlanKind,
    scanned: usize,
    returned: usize,
}

pub(super) async fn replay(
    copies: &Copies,
    templates: &Templates,
    recorded: &TableTraffic,
) -> Result<Replayed, ServiceError> {
    let mut replayed = Replayed::default();
    for (text, shape) in recorded.shapes.iter().filter(|(_, shape)| !shape.samples.is_empty()) {
        let filters: Vec<(Option<Filter>, Option<u32>)> = shape
            .samples
            .iter()
            .filter_map(|sample| Some((parse_filter(&sample.filter).ok()?, sample.top)))
            .collect();
        replayed.add_shape(copies, templates, text, shape.queries(), &filters).await?;
    }
    let reads: Vec<&PointSample> = recorded.points.iter().filter(|point| !point.is_write).collect();
    let gets =
        recorded.shapes.iter().find(|(text, _)| *text == "GetEntity").map_or(0, |(_, shape)| shape.count);
    let points: Vec<_> =
        reads.iter().take(POINTS_MAX).map(|point| (Some(point_filter(point)), None)).collect();
    if !points.is_empty() {
        replayed.add_shape(copies, templates, "GetEntity", gets, &points).await?;
    }
    replayed.shapes.sort_by(|left, right| reads_of(right).total_cmp(&reads_of(left)));
    copies.sizes_before.fill(&mut replayed.before);
    copies.sizes_after.fill(&mut replayed.after);
    (replayed.before.hottest, replayed.after.hottest) = hottest(copies, templates, recorded.points.iter());
    (replayed.before.hottest_lately, replayed.after.hottest_lately) =
        hottest(copies, templates, recorded.latest.iter());
    Ok(replayed)
}

fn reads_of(shape: &ShapeChange) -> f64 {
    number(shape.recorded) * shape.scanned_before
}

impl Replayed {
    async fn add_shape(
        &mut self,
        copies: &Copies,
        templates: &Templates,
        text: &str,
        recorded: u64,
        filters: &[(Option<Filter>, Option<u32>)],
    ) -> Result<(), ServiceError> {
        let mut change =
            ShapeChange { shape: text.to_owned(), recorded, is_same_result: true, ..ShapeChange::default() };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut rows = 0;
        for (filter, top) in filters {
            if rows > SHAPE_ROWS_MAX {
                break;
            }
            let plain = on_copy(filter.as_ref());
            let ran_before = run(&copies.before(), copies, plain.clone(), *top).await?;
            let translated = translate(filter.as_ref(), templates);
            let is_mended = translated.as_ref().is_some_and(|translated| translated.is_mended);
            let translated = translated.map(|translated| translated.filter);
            // A query that an index does not help is asked of the table as before.
            let (new, old) = (plan(translated.as_ref()).kind, plan(filter.as_ref()).kind);
            // One range can be shorter than another; an index that lacks some of the entities is no help then.
            let is_narrower = |ran: Ran| {
                ran.scanned < ran_before.scanned && (new < old || ran.returned == ran_before.returned)
            };
            change.example_after = shown(translated.as_ref());
            let mut ran_after = ran_before;
            if !templates.is_index || new < old || (new == old && new == PlanKind::Range) {
                ran_after = run(&copies.after(), copies, translated, *top).await?;
            }
            if templates.is_index && !is_narrower(ran_after) {
                change.example_after = shown(filter.as_ref());
                ran_after = ran_before;
            }
            change.example_before = shown(filter.as_ref());
            change.is_same_result &= ran_before.returned == ran_after.returned;
            change.is_order_mended |= is_mended && !templates.is_index;
            rows += ran_before.scanned + ran_after.scanned;
            before.push(ran_before);
            after.push(ran_after);
        }
        let returned = |ran: &[Ran]| {
            let sum: usize = ran.iter().map(|ran| ran.returned).sum();
            number(sum as u64) / number(ran.len().max(1) as u64)
        };
        (change.returned_before, change.returned_after) = (returned(&before), returned(&after));
        self.replayed += before.len() as u64;
        self.recorded += recorded;
        (change.plan_before, change.scanned_before) = self.before.add(&before, recorded);
        (change.plan_after, change.scanned_after) = self.after.add(&after, recorded);
        self.shapes.push(change);
        Ok(())
    }
}

impl Side {
    /// Counts samples for the requests they stand for; gives the most expensive plan, and rows read by one.
    fn add(&mut self, ran: &[Ran], recorded: u64) -> (&'static str, f64) {
        let Some(kind) = ran.iter().map(|ran| ran.kind).max() else { return ("", 0.0) };
        let samples = ran.len() as u64;
        let each = number(recorded) / number(samples);
        let scanned: usize = ran.iter().map(|ran| ran.scanned).sum();
        let returned: usize = ran.iter().map(|ran| ran.returned).sum();
        for (index, ran) in ran.iter().enumerate() {
            // The samples share the recorded requests, and the first ones what does not divide.
            let index = index as u64;
            *self.plans.of(ran.kind) += recorded / samples + u64::from(index < recorded % samples);
        }
        self.rows_scanned += number(scanned as u64) * each;
        self.rows_returned += number(returned as u64) * each;
        (kind.as_str(), number(scanned as u64) / number(samples))
    }
}

/// Runs a query to its last page, or to the end of the first one if it asks for so many entities only.
async fn run(
    reader: &TableReader<'_>,
    copies: &Copies,
    filter: Option<Filter>,
    top: Option<u32>,
) -> Result<Ran, ServiceError> {
    let mut ran = Ran { kind: PlanKind::Point, scanned: 0, returned: 0 };
    let mut from = None;
    for _ in 0..PAGES_MAX {
        let top = top.and_then(|top| usize::try_from(top).ok());
        let query = QueryEntities { table: copies.table().clone(), filter: filter.clone(), top, from };
        let page = reader.page(query).await?;
        ran.kind = ran.kind.max(page.plan.kind);
        ran.scanned += page.plan.scanned;
        ran.returned += page.plan.returned;
        match page.next {
            Some(next) if top.is_none() || ran.returned == 0 => from = Some(next),
            _ => break,
        }
    }
    Ok(ran)
}

fn point_filter(point: &PointSample) -> Filter {
    let mut builder = FilterBuilder::new();
    let mut compare = |property, value: &str| {
        builder.add(FilterNode::Compare(Comparison::new(property, Operator::Eq, EdmValue::String(value))))
    };
    let partition = compare(PropertyRef::PartitionKey, &point.partition);
    let row = compare(PropertyRef::RowKey, &point.row);
    builder.add(FilterNode::And(partition, row));
    builder.finish()
}

fn shown(filter: Option<&Filter>) -> String {
    filter.map(write_filter).unwrap_or_default()
}

/// The busiest partition of the sampled requests by key. An index is written to with every write.
fn hottest<'a>(
    copies: &Copies,
    templates: &Templates,
    points: impl Iterator<Item = &'a PointSample>,
) -> (Option<PartitionShare>, Option<PartitionShare>) {
    let (mut before, mut after) = (HashMap::<String, u64>::new(), HashMap::<String, u64>::new());
    for point in points {
        *before.entry(point.partition.clone()).or_default() += 1;
        let moved = copies.moved.get(&(point.partition.clone(), point.row.clone()));
        match moved {
            Some(partition) if templates.is_index => {
                *after.entry(point.partition.clone()).or_default() += 1;
                if point.is_write {
                    *after.entry(partition.clone()).or_default() += 1;
                }
            }
            Some(partition) => *after.entry(partition.clone()).or_default() += 1,
            // It is not in the copy; where it would be is not known.
            None if templates.is_index => *after.entry(point.partition.clone()).or_default() += 1,
            None => {}
        }
    }
    (most(&before), most(&after))
}

#[allow(clippy::cast_precision_loss, reason = "counts to compare")]
fn number(count: u64) -> f64 {
    count as f64
}
