//! The heat of one table: columns of minutes, which become coarser as they age.

use std::collections::VecDeque;

use tavola_model::{EdmValue, Filter, Operator, PropertyRef};
use tavola_telemetry::{AccessRecord, Target};

use super::column::Column;
use super::ranges::Ranges;
use crate::shape::conjuncts;

const MINUTE: i64 = 60;
/// For how long each step of columns is kept before it becomes a coarser one: step, seconds.
const STEPS: [(i64, i64); 3] = [(MINUTE, 4 * 3600), (5 * MINUTE, 24 * 3600), (60 * MINUTE, 7 * 24 * 3600)];
/// Operations after which the ranges are looked at, in the middle of a minute too.
const ADJUSTED_EVERY: u32 = 1_000;

/// The heat of one table.
pub(super) struct TableHeat {
    pub ranges: Ranges,
    /// The oldest first; the last is under way.
    pub columns: VecDeque<Column>,
    since_adjusted: u32,
}

impl TableHeat {
    pub fn new() -> Self {
        Self { ranges: Ranges::new(), columns: VecDeque::new(), since_adjusted: 0 }
    }

    /// The begin of the last column.
    pub fn last(&self) -> i64 {
        self.columns.back().map_or(0, |column| column.from)
    }

    pub fn observe(&mut self, record: &AccessRecord) {
        let at = record.received.unix_seconds();
        let minute = at - at.rem_euclid(MINUTE);
        if self.columns.is_empty() || minute > self.last() {
            self.begin(minute);
        }
        self.since_adjusted += 1;
        if self.since_adjusted >= ADJUSTED_EVERY {
            self.adjust();
        }
        self.count(record);
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        let mut total = self.ranges.bytes();
        let mut before = None;
        for column in &self.columns {
            total += column.bytes();
            let is_same = before.is_some_and(|before| std::sync::Arc::ptr_eq(before, &column.ranges));
            if !is_same {
                total += column.ranges.bytes_beside(before.map(|list| &**list));
            }
            before = Some(&column.ranges);
        }
        total
    }

    fn begin(&mut self, minute: i64) {
        self.adjust();
        if let Some(last) = self.columns.back_mut() {
            last.shrink();
            let passed = (minute - last.from) / MINUTE;
            for _ in 0..passed.min(MINUTE * 24) {
                self.ranges.fade();
            }
        }
        self.columns.push_back(Column::new(minute, MINUTE, self.ranges.list.clone()));
        self.coarsen(minute);
    }

    fn adjust(&mut self) {
        self.since_adjusted = 0;
        if !self.ranges.adjust() {
            return;
        }
        if let Some(last) = self.columns.back_mut() {
            *last = last.in_ranges(&self.ranges.list, |range| self.ranges.operations(range));
        }
    }

    fn count(&mut self, record: &AccessRecord) {
        #[allow(clippy::cast_precision_loss, reason = "counts to look at")]
        let number = |count: u64| count as f32;
        let times = record.weight.max(1);
        let operations = number(u64::from(times));
        let parts = match span(&record.target) {
            Span::Key(partition, row) => {
                let index = self.ranges.add((partition, row), operations);
                index..index + 1
            }
            Span::Keys(from, before) => {
                let before = before.as_ref().map(|(partition, row)| (partition.as_str(), *row));
                let parts = self.ranges.list.overlapping(from, before);
                let share = operations / number(parts.len() as u64);
                for index in parts.clone() {
                    self.ranges.add_unknown(index, share);
                }
                parts
            }
        };
        let share = operations / number(parts.len() as u64);
        let Some(column) = self.columns.back_mut() else { return };
        for index in parts {
            let counts = &mut column.cell(index).counts;
            counts.operations += share;
            counts.bytes += number(record.bytes_in + record.bytes_out) * share;
            counts.rows += number(record.rows_scanned) * share;
            counts.latencies.add(record.durations.total, times);
        }
    }

    /// Puts columns together that are old enough, and drops those that are too old.
    fn coarsen(&mut self, now: i64) {
        for [(step, kept), (coarse, _)] in [[STEPS[0], STEPS[1]], [STEPS[1], STEPS[2]]] {
            while let Some(first) = self.columns.iter().position(|column| column.seconds == step) {
                let from = self.columns[first].from - self.columns[first].from.rem_euclid(coarse);
                if from + coarse > now - kept {
                    break;
                }
                let mates =
                    self.columns.iter().skip(first).take_while(|column| column.from < from + coarse).count();
                let ranges = self.columns[first + mates - 1].ranges.clone();
                let mut merged = Column::new(from, coarse, ranges);
                // The last has the finest ranges, so it says how to share out what the others have.
                for column in self.columns.drain(first..first + mates).rev() {
                    merged.absorb(&column, Column::operations);
                }
                merged.shrink();
                self.columns.insert(first, merged);
            }
        }
        while self.columns.front().is_some_and(|column| column.from + column.seconds < now - STEPS[2].1) {
            self.columns.pop_front();
        }
    }
}

/// The keys that a request is about.
enum Span<'a> {
    Key(&'a str, &'a str),
    Keys((&'a str, &'a str), Option<(String, &'a str)>),
}

fn span(target: &Target) -> Span<'_> {
    match target {
        Target::Entity { partition, row, .. } | Target::Batch { partition, row, .. } => {
            Span::Key(partition, row)
        }
        Target::Query(query) => query.filter.as_ref().map_or(Span::Keys(("", ""), None), filter_span),
        Target::Whole => Span::Keys(("", ""), None),
    }
}

/// A span that holds what the filter reads; it may be too large, because only the outermost `and` is looked at.
fn filter_span(filter: &Filter) -> Span<'_> {
    let (mut lower, mut upper, mut row) = ("", None, "");
    for comparison in conjuncts(filter) {
        let EdmValue::String(text) = comparison.literal() else { continue };
        match (&comparison.property, comparison.operator) {
            (PropertyRef::PartitionKey, Operator::Eq) => {
                (lower, upper) = (text, Some(format!("{text}\0")));
            }
            (PropertyRef::PartitionKey, Operator::Ge | Operator::Gt) => lower = lower.max(text),
            (PropertyRef::PartitionKey, Operator::Lt) => upper = upper.or(Some(text.to_owned())),
            (PropertyRef::PartitionKey, Operator::Le) => upper = upper.or(Some(format!("{text}\0"))),
            (PropertyRef::RowKey, Operator::Eq | Operator::Ge | Operator::Gt) => row = text,
            _ => {}
        }
    }
    let is_one_partition = upper.as_deref().is_some_and(|upper| upper.strip_suffix('\0') == Some(lower));
    if is_one_partition && !row.is_empty() {
        Span::Key(lower, row)
    } else {
        Span::Keys((lower, ""), upper.map(|upper| (upper, "")))
    }
}
