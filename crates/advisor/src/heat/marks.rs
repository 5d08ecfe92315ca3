//! What to look at in a heat map.
//!
//! *Hot*: a range takes a quarter of all operations, and twice its even share, for ten minutes. *Append*: the busiest
//! range moves on in one direction of the keys. *Batch*: the load comes back at regular intervals, three times or more.

use super::view::Grid;
use super::{HeatColumn, HeatMark, HeatRow, MarkKind};

const HOT_SHARE: f32 = 0.25;
const HOT_SECONDS: i64 = 600;
const APPEND_SHARE: f64 = 0.8;
/// Different ranges that the busiest one must have been in.
const APPEND_RANGES_MIN: usize = 6;
const BATCH_PERIODS: usize = 3;
const BATCH_CORRELATION: f64 = 0.6;
/// Standard deviation over mean, from which a load is not even.
const BATCH_VARIATION: f64 = 0.5;

pub(super) fn marks(grid: &Grid, rows: &[HeatRow], columns: &[HeatColumn]) -> Vec<HeatMark> {
    let totals: Vec<f32> = (0..columns.len())
        .map(|column| (0..rows.len()).map(|row| grid.operations(row, column)).sum())
        .collect();
    let mut marks: Vec<HeatMark> = (0..rows.len()).filter_map(|row| hot(grid, rows, &totals, row)).collect();
    marks.extend(append(grid, rows, &totals));
    marks.extend(batch(grid, rows, &totals));
    marks
}

/// The longest stretch in which the row is hot.
fn hot(grid: &Grid, rows: &[HeatRow], totals: &[f32], row: usize) -> Option<HeatMark> {
    let is_hot = |column: usize| {
        let busy = (0..rows.len()).filter(|row| grid.operations(*row, column) > 0.0).count();
        #[allow(clippy::cast_precision_loss, reason = "few rows")]
        let even = totals[column] / busy.max(1) as f32;
        let own = grid.operations(row, column);
        own > 0.0 && own >= totals[column] * HOT_SHARE && (own >= even * 2.0 || rows.len() == 1)
    };
    let (mut best, mut begin) = (0..0, None);
    for column in 0..=totals.len() {
        if column < totals.len() && is_hot(column) {
            begin.get_or_insert(column);
        } else if let Some(from) = begin.take()
            && column - from > best.len()
        {
            best = from..column;
        }
    }
    let seconds = i64::try_from(best.len()).unwrap_or(0) * grid.step;
    if seconds < HOT_SECONDS {
        return None;
    }
    let own: f32 = best.clone().map(|column| grid.operations(row, column)).sum();
    let all: f32 = totals[best.clone()].iter().sum();
    Some(HeatMark {
        kind: MarkKind::Hot,
        row_from: row,
        row_to: row,
        column_from: best.start,
        column_to: best.end - 1,
        text: format!(
            "{} takes {:.0} % of operations for {} min",
            rows[row].label,
            own / all * 100.0,
            seconds / 60
        ),
    })
}

#[allow(clippy::cast_precision_loss, reason = "few columns")]
fn append(grid: &Grid, rows: &[HeatRow], totals: &[f32]) -> Option<HeatMark> {
    let busiest = |column: usize| {
        (0..rows.len())
            .max_by(|left, right| grid.operations(*left, column).total_cmp(&grid.operations(*right, column)))
    };
    let path: Vec<(usize, usize)> = (0..totals.len())
        .filter(|column| totals[*column] > 0.0)
        .filter_map(|column| Some((column, busiest(column)?)))
        .collect();
    let steps: Vec<_> = path.windows(2).map(|pair| pair[1].1.cmp(&pair[0].1)).collect();
    let count = |wanted| steps.iter().filter(|step| **step == wanted).count();
    let (up, down) = (count(std::cmp::Ordering::Greater), count(std::cmp::Ordering::Less));
    let (ahead, back, word) = if up >= down { (up, down, "end") } else { (down, up, "front") };
    let mut visited: Vec<usize> = path.iter().map(|(_, row)| *row).collect();
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
    Some(HeatMark {
        kind: MarkKind::Append,
        row_from: *visited.first()?,
        row_to: *visited.last()?,
        column_from: path.first()?.0,
        column_to: path.last()?.0,
        text: format!(
            "requests go to the {word} of the keys, through {} ranges one after the other",
            visited.len()
        ),
    })
}

#[allow(clippy::cast_precision_loss, reason = "few columns")]
fn batch(grid: &Grid, rows: &[HeatRow], totals: &[f32]) -> Option<HeatMark> {
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
    let lags = 2..=series.len() / BATCH_PERIODS;
    let peak = lags
        .map(|lag| (lag, correlation(lag)))
        .filter(|(lag, value)| {
            *value >= BATCH_CORRELATION && *value > correlation(lag - 1) && *value >= correlation(lag + 1)
        })
        .max_by(|left, right| left.1.total_cmp(&right.1).then(right.0.cmp(&left.0)))?;
    let minutes = i64::try_from(peak.0).unwrap_or(0) * grid.step / 60;
    Some(HeatMark {
        kind: MarkKind::Batch,
        row_from: 0,
        row_to: rows.len().saturating_sub(1),
        column_from: first,
        column_to: last,
        text: format!("the load comes back every {minutes} min"),
    })
}
