//! What to look at in a heat map.
//!
//! *Hot*: a range, or all parts of one partition together, takes a quarter of all operations, and clearly more than its
//! even share, for ten minutes; a while in which it takes half of that does not end it. *Append*: the busiest range of a
//! prefix, or the busiest prefix, moves on in one direction of the keys. *Batch*: the load of a prefix comes back at
//! regular intervals, three times or more.

use std::ops::Range;

use super::view::Grid;
use super::{HeatColumn, HeatMark, HeatPoint, HeatRow, MarkKind};

const HOT_SHARE: f32 = 0.25;
/// The share at which a range that is hot stays hot: a batch job beside it does not end it.
const STILL_HOT_SHARE: f32 = HOT_SHARE / 2.0;
const HOT_SECONDS: i64 = 600;
/// The part of a hot stretch on the line of an append, from which the line says it all.
const ON_LINE_SHARE: f32 = 0.5;
/// How far above its even share a hot range is: a few partitions with the same load are not hot.
const HOT_OVER_EVEN: f32 = 1.5;
const APPEND_SHARE: f64 = 0.8;
/// Different ranges that the busiest one must have been in.
const APPEND_RANGES_MIN: usize = 6;
const BATCH_PERIODS: usize = 3;
const BATCH_CORRELATION: f64 = 0.6;
/// Standard errors of the correlation of noise, which is 1/√n over n columns, that a peak must reach.
const BATCH_ERRORS: f64 = 3.0;
const BATCH_CORRELATION_MAX: f64 = 0.95;
/// Standard deviation over mean, from which a load is not even.
const BATCH_VARIATION: f64 = 0.5;
/// The part of all operations that a prefix must have for its intervals to be of interest.
const BATCH_LOAD: f32 = 0.02;

pub(super) fn marks(grid: &Grid, rows: &[HeatRow], columns: &[HeatColumn]) -> Vec<HeatMark> {
    let has_data: Vec<bool> = columns.iter().map(|column| column.has_data).collect();
    let columns = columns.len();
    let appends = appends(grid, rows, columns);
    let mut marks = hots(grid, rows, &has_data, &appends);
    marks.extend(appends);
    marks.extend(batches(grid, rows, columns));
    marks
}

/// Rows that are looked at as one, and their operations by column.
struct Unit {
    rows: Range<usize>,
    operations: Vec<f32>,
}

impl Unit {
    fn new(grid: &Grid, columns: usize, rows: Range<usize>) -> Self {
        let sum = |column| rows.clone().map(|row| grid.operations(row, column)).sum();
        Self { operations: (0..columns).map(sum).collect(), rows }
    }
}

/// Neighbours that `is_same` puts together, as units.
fn units(
    grid: &Grid,
    rows: &[HeatRow],
    columns: usize,
    is_same: impl Fn(&HeatRow, &HeatRow) -> bool,
) -> Vec<Unit> {
    let (mut found, mut begin) = (Vec::new(), 0);
    for end in 1..=rows.len() {
        if end == rows.len() || !is_same(&rows[end - 1], &rows[end]) {
            found.push(Unit::new(grid, columns, begin..end));
            begin = end;
        }
    }
    found
}

/// Hot partitions and ranges. A partition that was split by its RowKeys is judged as a whole.
fn hots(grid: &Grid, rows: &[HeatRow], has_data: &[bool], appends: &[HeatMark]) -> Vec<HeatMark> {
    let columns = has_data.len();
    let is_one_partition = |left: &HeatRow, right: &HeatRow| {
        left.is_part && right.is_part && left.from.partition == right.from.partition
    };
    let units = units(grid, rows, columns, is_one_partition);
    let totals = Unit::new(grid, columns, 0..rows.len()).operations;
    let spread = Spread { units: &units, totals: &totals, has_data };
    units.iter().filter_map(|unit| hot(grid, rows, &spread, unit, appends)).collect()
}

/// What a unit is compared with.
struct Spread<'a> {
    units: &'a [Unit],
    totals: &'a [f32],
    has_data: &'a [bool],
}

/// The longest stretch in which a unit is hot.
fn hot(
    grid: &Grid,
    rows: &[HeatRow],
    spread: &Spread<'_>,
    unit: &Unit,
    appends: &[HeatMark],
) -> Option<HeatMark> {
    let Spread { units, totals, has_data } = spread;
    // Where the load moves on along the keys, each range is hot for its turn, and the line says more. A line inside of
    // one partition leaves that partition hot.
    let is_on_line = |column: &usize| {
        appends
            .iter()
            .filter(|append| append.row_from < unit.rows.start || append.row_to >= unit.rows.end)
            .any(|append| {
                append.path.iter().any(|point| point.column == *column && unit.rows.contains(&point.row))
            })
    };
    let is_hot = |column: usize| {
        let busy = units.iter().filter(|unit| unit.operations[column] > 0.0).count();
        #[allow(clippy::cast_precision_loss, reason = "few rows")]
        let even = totals[column] / busy.max(1) as f32;
        let own = unit.operations[column];
        let is_more = own >= even * HOT_OVER_EVEN || units.len() == 1;
        own > 0.0 && own >= totals[column] * HOT_SHARE && is_more
    };
    // A restart does not end it.
    let is_still_hot = |column: usize| {
        let own = unit.operations[column];
        !has_data[column] || own > 0.0 && own >= totals[column] * STILL_HOT_SHARE
    };
    let best = longest(totals.len(), is_hot, is_still_hot);
    let hot = best.clone().filter(|column| is_hot(*column)).count();
    let seconds = i64::try_from(hot).unwrap_or(0) * grid.step;
    #[allow(clippy::cast_precision_loss, reason = "few columns")]
    let is_line = best.clone().filter(is_on_line).count() as f32 >= best.len() as f32 * ON_LINE_SHARE;
    if seconds < HOT_SECONDS || is_line {
        return None;
    }
    let minutes = i64::try_from(best.len()).unwrap_or(0) * grid.step / 60;
    let own: f32 = unit.operations[best.clone()].iter().sum();
    let all: f32 = totals[best.clone()].iter().sum();
    let first = &rows[unit.rows.start];
    let name = if first.is_part { &first.from.partition } else { &first.label };
    Some(HeatMark {
        kind: MarkKind::Hot,
        row_from: unit.rows.start,
        row_to: unit.rows.end - 1,
        column_from: best.start,
        column_to: best.end - 1,
        path: Vec::new(),
        text: format!("{name} takes {:.0} % of operations for {} min", own / all * 100.0, minutes),
    })
}

/// The longest stretch of columns that begins and ends with one that `is_in`, and goes on while `goes_on`.
fn longest(columns: usize, is_in: impl Fn(usize) -> bool, goes_on: impl Fn(usize) -> bool) -> Range<usize> {
    let (mut best, mut current) = (0..0, None::<Range<usize>>);
    for column in 0..columns {
        if is_in(column) {
            current = Some(current.map_or(column, |current| current.start)..column + 1);
        } else if !goes_on(column) {
            current = None;
        }
        if let Some(current) = &current
            && current.len() > best.len()
        {
            best = current.clone();
        }
    }
    best
}

/// Lines through the ranges of each prefix, and one through the prefixes. Keys without a separator are prefixes of their
/// own.
fn appends(grid: &Grid, rows: &[HeatRow], columns: usize) -> Vec<HeatMark> {
    let prefixes = units(grid, rows, columns, |left, right| left.group == right.group);
    let inside =
        prefixes.iter().filter(|prefix| prefix.rows.len() >= APPEND_RANGES_MIN).filter_map(|prefix| {
            let ranges: Vec<Unit> =
                prefix.rows.clone().map(|row| Unit::new(grid, columns, row..row + 1)).collect();
            append(&ranges, columns)
        });
    let mut marks: Vec<HeatMark> = inside.collect();
    marks.extend(append(&prefixes, columns));
    marks
}

/// The line that the busiest unit draws, if it moves on in one direction.
fn append(units: &[Unit], columns: usize) -> Option<HeatMark> {
    line(units, columns, End::Last).or_else(|| line(units, columns, End::First))
}

/// Where new keys go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

impl End {
    fn as_str(self) -> &'static str {
        match self {
            Self::First => "front",
            Self::Last => "end",
        }
    }

    /// The busiest unit of a column. The range at the end is split after its keys have come, so what went to it then is
    /// shared by all ranges that it became; the one that was meant is the nearest of those with a good share.
    fn busiest(self, units: &[Unit], column: usize) -> Option<usize> {
        let most = units.iter().map(|unit| unit.operations[column]).fold(0.0, f32::max);
        let is_busy = |unit: &Unit| most > 0.0 && unit.operations[column] * 2.0 >= most;
        match self {
            Self::Last => units.iter().position(is_busy),
            Self::First => units.iter().rposition(is_busy),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "few columns")]
fn line(units: &[Unit], columns: usize, end: End) -> Option<HeatMark> {
    let path: Vec<(usize, usize)> =
        (0..columns).filter_map(|column| Some((column, end.busiest(units, column)?))).collect();
    let steps: Vec<_> = path.windows(2).map(|pair| pair[1].1.cmp(&pair[0].1)).collect();
    let count = |wanted| steps.iter().filter(|step| **step == wanted).count();
    let (up, down) = (count(std::cmp::Ordering::Greater), count(std::cmp::Ordering::Less));
    let (ahead, back) = if end == End::Last { (up, down) } else { (down, up) };
    let mut visited: Vec<usize> = path.iter().map(|(_, unit)| *unit).collect();
    visited.sort_unstable();
    visited.dedup();
    // A range lasts for several columns, so staying is not going back.
    let is_moving = visited.len() >= APPEND_RANGES_MIN
        && ahead as f64 >= (ahead + back) as f64 * APPEND_SHARE
        && (steps.len() - back) as f64 >= steps.len() as f64 * APPEND_SHARE
        && ahead + 1 >= APPEND_RANGES_MIN;
    if !is_moving {
        return None;
    }
    // The line goes through the middle of a prefix of several rows.
    let point = |(column, unit): &(usize, usize)| {
        let rows = &units[*unit].rows;
        HeatPoint { row: rows.start + (rows.len() - 1) / 2, column: *column }
    };
    Some(HeatMark {
        kind: MarkKind::Append,
        row_from: units[*visited.first()?].rows.start,
        row_to: units[*visited.last()?].rows.end - 1,
        column_from: path.first()?.0,
        column_to: path.last()?.0,
        path: path.iter().map(point).collect(),
        text: format!(
            "requests go to the {} of the keys, through {} ranges one after the other",
            end.as_str(),
            visited.len()
        ),
    })
}

/// Prefixes whose load comes back. Neighbours with the same interval share a mark; if no prefix shows it alone, all keys
/// together may.
fn batches(grid: &Grid, rows: &[HeatRow], columns: usize) -> Vec<HeatMark> {
    // Prefixes of one range are too small to look at one by one.
    let is_single = |at: usize| {
        let has_group = |other: Option<&HeatRow>| other.is_some_and(|other| other.group == rows[at].group);
        !has_group(at.checked_sub(1).and_then(|before| rows.get(before))) && !has_group(rows.get(at + 1))
    };
    let singles: Vec<bool> = (0..rows.len()).map(is_single).collect();
    let mut sections: Vec<Range<usize>> = Vec::new();
    for row in 0..rows.len() {
        match sections.last_mut() {
            Some(last)
                if (singles[row] && singles[last.start]) || rows[last.start].group == rows[row].group =>
            {
                last.end = row + 1;
            }
            _ => sections.push(row..row + 1),
        }
    }
    let all = Unit::new(grid, columns, 0..rows.len());
    let total: f32 = all.operations.iter().sum();
    let mut found: Vec<(Range<usize>, Batch)> = Vec::new();
    for rows in sections {
        let unit = Unit::new(grid, columns, rows.clone());
        if unit.operations.iter().sum::<f32>() < total * BATCH_LOAD {
            continue;
        }
        let Some(batch) = batch(&unit.operations) else { continue };
        match found.last_mut() {
            Some((last, before)) if last.end == rows.start && before.lag == batch.lag => {
                last.end = rows.end;
                before.columns =
                    before.columns.start.min(batch.columns.start)..before.columns.end.max(batch.columns.end);
            }
            _ => found.push((rows, batch)),
        }
    }
    if found.is_empty() {
        found.extend(batch(&all.operations).map(|batch| (all.rows.clone(), batch)));
    }
    found.into_iter().map(|(rows, batch)| batch.mark(grid, rows)).collect()
}

/// A load that comes back.
struct Batch {
    /// Columns from one time to the next.
    lag: usize,
    columns: Range<usize>,
}

impl Batch {
    fn mark(self, grid: &Grid, rows: Range<usize>) -> HeatMark {
        let minutes = i64::try_from(self.lag).unwrap_or(0) * grid.step / 60;
        HeatMark {
            kind: MarkKind::Batch,
            row_from: rows.start,
            row_to: rows.end - 1,
            column_from: self.columns.start,
            column_to: self.columns.end - 1,
            path: Vec::new(),
            text: format!("the load comes back every {minutes} min"),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "few columns")]
fn batch(totals: &[f32]) -> Option<Batch> {
    let first = totals.iter().position(|total| *total > 0.0)?;
    let last = totals.iter().rposition(|total| *total > 0.0)?;
    let series: Vec<f64> = totals[first..=last].iter().map(|total| f64::from(*total)).collect();
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let variance = centred.iter().map(|value| value * value).sum::<f64>() / series.len() as f64;
    if mean <= 0.0 || variance.sqrt() / mean < BATCH_VARIATION {
        return None;
    }
    let correlation = |lag: usize| {
        let pairs = centred.len() - lag;
        centred[lag..].iter().zip(&centred).map(|(left, right)| left * right).sum::<f64>()
            / pairs as f64
            / variance
    };
    let noise = BATCH_ERRORS / (series.len() as f64).sqrt();
    let least = noise.clamp(BATCH_CORRELATION, BATCH_CORRELATION_MAX);
    let lags = 2..=series.len() / BATCH_PERIODS;
    let peak = lags
        .map(|lag| (lag, correlation(lag)))
        .filter(|(lag, value)| {
            *value >= least && *value > correlation(lag - 1) && *value >= correlation(lag + 1)
        })
        .max_by(|left, right| left.1.total_cmp(&right.1).then(right.0.cmp(&left.0)))?;
    Some(Batch { lag: peak.0, columns: first..last + 1 })
}
