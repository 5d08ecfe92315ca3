//! A window of a heat map, drawn in the ranges of today.

use std::sync::Arc;

use super::column::{Column, Counts};
use super::marks::marks;
use super::ranges::{KeyPosition, Ranges, prefix};
use super::recorded::Recorded;
use super::table::TableHeat;
use super::{HeatCell, HeatColumn, HeatKey, HeatMetric, HeatQuery, HeatRow, HeatView};

/// Steps of columns by the length of the window: up to so many seconds, this step.
const STEPS: [(i64, i64); 2] = [(4 * 3600, 60), (24 * 3600, 300)];
const LONGEST_STEP: i64 = 3600;
/// What a view has at most, whatever is asked for.
const ROWS_MAX: usize = 256;
const COLUMNS_MAX: usize = 1024;
/// Rows of one partition among others.
const PARTS_MAX: usize = 4;
/// The part of all operations from which a partition with a range of its own keeps it, and what it costs to merge what
/// should stay apart.
const APART_FROM: f32 = 1.0 / 8.0;
const APART_PRICE: f32 = 1.0 / 16.0;
/// The part of all operations up to which a range was hardly asked.
const IDLE_BELOW: f32 = 1.0 / 10_000.0;

/// The cells of a view before one metric is taken.
pub(super) struct Grid {
    pub columns: usize,
    pub step: i64,
    /// Whether durations are drawn too; they take most of the time.
    has_latencies: bool,
    cells: Vec<Counts>,
    estimated: Vec<bool>,
}

impl Grid {
    fn new(rows: usize, columns: usize, step: i64) -> Self {
        let size = rows * columns;
        Self {
            columns,
            step,
            has_latencies: false,
            cells: vec![Counts::default(); size],
            estimated: vec![false; size],
        }
    }

    pub fn operations(&self, row: usize, column: usize) -> f32 {
        self.cells[row * self.columns + column].operations
    }
}

pub(super) fn view(table: Option<&TableHeat>, recorded: &Recorded, query: &HeatQuery) -> HeatView {
    let columns = columns(recorded, query);
    let Some(table) = table else { return HeatView { columns, ..HeatView::default() } };
    let window = Window::of(query, &columns);
    let list = &table.ranges.list;
    let bounds = list.overlapping(window.from(), window.before());
    let shown: Vec<Shown<'_>> = shown(table, &window);
    let loads = loads(&shown, bounds.clone());
    let groups = merge_down(&table.ranges, bounds, loads, rows_max(query.rows_max));
    let rows: Vec<HeatRow> = groups.iter().map(|group| row(table, group.clone(), &window)).collect();
    let mut row_of = vec![None; list.starts.len()];
    for (row, group) in groups.iter().enumerate() {
        for range in group.clone() {
            row_of[range] = Some(row);
        }
    }
    let step = columns.first().map_or(60, |column| column.to - column.from);
    let mut grid = Grid::new(rows.len(), columns.len(), step);
    grid.has_latencies = query.metric == HeatMetric::Latency;
    for shown in &shown {
        draw(&mut grid, shown, &row_of, &columns);
    }
    let marks = marks(&grid, &rows, &columns);
    let cells = cells(&grid, query.metric);
    let value_max = cells.iter().map(|cell| cell.value).fold(0.0, f64::max);
    HeatView { columns, rows, cells, value_max, marks }
}

/// A stored column, and where its ranges lie among those of today.
struct Shown<'a> {
    column: &'a Column,
    onto: Arc<Vec<std::ops::Range<usize>>>,
}

/// The columns of the window. Neighbours mostly have the same ranges, so where these lie is worked out once.
fn shown<'a>(table: &'a TableHeat, window: &Window) -> Vec<Shown<'a>> {
    let mut shown: Vec<Shown<'a>> = Vec::new();
    for column in table.columns.iter().filter(|column| window.holds(column)) {
        let onto = match shown.last() {
            Some(last) if Arc::ptr_eq(&last.column.ranges, &column.ranges) => last.onto.clone(),
            _ => Arc::new(column.ranges.onto(&table.ranges.list)),
        };
        shown.push(Shown { column, onto });
    }
    shown
}

fn rows_max(asked: usize) -> usize {
    asked.clamp(1, ROWS_MAX)
}

/// The window in time and keys.
struct Window {
    from: i64,
    to: i64,
    key_from: KeyPosition,
    key_to: Option<KeyPosition>,
}

impl Window {
    fn of(query: &HeatQuery, columns: &[HeatColumn]) -> Self {
        let key = |key: &HeatKey| KeyPosition::new(&key.partition, &key.row);
        Self {
            from: columns.first().map_or(0, |column| column.from),
            to: columns.last().map_or(0, |column| column.to),
            key_from: query.key_from.as_ref().map_or_else(|| KeyPosition::new("", ""), key),
            key_to: query.key_to.as_ref().map(key),
        }
    }

    fn from(&self) -> (&str, &str) {
        self.key_from.as_pair()
    }

    fn before(&self) -> Option<(&str, &str)> {
        self.key_to.as_ref().map(KeyPosition::as_pair)
    }

    fn holds(&self, column: &Column) -> bool {
        column.from < self.to && column.from + column.seconds > self.from
    }
}

fn columns(recorded: &Recorded, query: &HeatQuery) -> Vec<HeatColumn> {
    let (from, to) = (query.from.unix_seconds(), query.to.unix_seconds());
    let length = (to - from).max(1);
    let shown = i64::try_from(query.columns_max.clamp(1, COLUMNS_MAX)).unwrap_or(1);
    let mut step = STEPS.iter().find(|(up_to, _)| length <= *up_to).map_or(LONGEST_STEP, |(_, step)| *step);
    while (length + step - 1) / step > shown {
        step *= 2;
    }
    // A window that does not begin with a column touches one more than its length takes. If that is too many, the part of
    // a column at its begin is left out, because coarser columns would lose more.
    let end = (to + step - 1).div_euclid(step) * step;
    let count = ((end - from.div_euclid(step) * step) / step).clamp(1, shown);
    let first = end - count * step;
    let begins = (0..count).map(|index| first + index * step);
    begins
        .map(|from| HeatColumn { from, to: from + step, has_data: recorded.overlaps(from, from + step) })
        .collect()
}

/// Operations of the window in each range of today.
fn loads(shown: &[Shown<'_>], bounds: std::ops::Range<usize>) -> Vec<f32> {
    let mut loads = vec![0.0; bounds.len()];
    for Shown { column, onto } in shown {
        for cell in &column.cells {
            let targets = onto[usize::from(cell.range)].clone();
            #[allow(clippy::cast_precision_loss, reason = "at most 256")]
            let share = cell.counts.operations / targets.len() as f32;
            for target in targets.filter(|target| bounds.contains(target)) {
                loads[target - bounds.start] += share;
            }
        }
    }
    loads
}

/// A row under way: ranges that are merged.
struct Merged {
    ranges: std::ops::Range<usize>,
    load: f32,
    /// Whether any key in it was ever asked for.
    is_known: bool,
    prefix: String,
    /// The partition that it is a part of, or all of.
    partition: Option<Arc<str>>,
}

impl Merged {
    fn absorb(&mut self, upper: Self) {
        self.ranges.end = upper.ranges.end;
        self.load += upper.load;
        self.is_known |= upper.is_known;
        if self.partition != upper.partition {
            self.partition = None;
        }
    }
}

/// Merges neighbours that were hardly asked, and then others until few enough are left: those with the least load first.
/// Those of different prefixes go last, and so does a busy partition that has ranges of its own. Such a partition keeps a
/// few rows only, unless nothing else is shown.
fn merge_down(
    ranges: &Ranges,
    bounds: std::ops::Range<usize>,
    loads: Vec<f32>,
    rows_max: usize,
) -> Vec<std::ops::Range<usize>> {
    let total: f32 = loads.iter().sum();
    let mut rows = merge_partitions(unmerged(ranges, bounds, loads), total);
    let mut index = 1;
    while index < rows.len() {
        let (lower, upper) = (&rows[index - 1], &rows[index]);
        let is_apart = lower.prefix != upper.prefix || lower.partition != upper.partition;
        let is_idle = lower.load.max(upper.load) <= total * IDLE_BELOW;
        let is_gap = !lower.is_known || !upper.is_known;
        if !is_apart && (is_idle || is_gap) {
            let upper = rows.remove(index);
            rows[index - 1].absorb(upper);
        } else {
            index += 1;
        }
    }
    let all = 0..rows.len();
    merge_cheapest(&mut rows, all, rows_max, total);
    rows.into_iter().map(|row| row.ranges).collect()
}

fn unmerged(ranges: &Ranges, bounds: std::ops::Range<usize>, loads: Vec<f32>) -> Vec<Merged> {
    let starts = &ranges.list.starts;
    let rows = bounds.zip(loads).map(|(range, load)| {
        let start = &starts[range];
        let is_one = starts.get(range + 1).is_some_and(|end| {
            end.partition == start.partition || end.partition.strip_suffix('\0') == Some(&*start.partition)
        });
        Merged {
            ranges: range..range + 1,
            load,
            is_known: ranges.keys(range) > 0,
            prefix: prefix(&start.partition).to_owned(),
            partition: is_one.then(|| start.partition.clone()),
        }
    });
    rows.collect()
}

/// A partition that takes a good part of the load keeps a few rows; any other one is a row that need not stay apart.
fn merge_partitions(mut rows: Vec<Merged>, total: f32) -> Vec<Merged> {
    let is_mixed = rows.iter().any(|row| row.partition != rows[0].partition);
    let mut begin = 0;
    while begin < rows.len() {
        let is_same = |row: &&Merged| row.partition == rows[begin].partition;
        let end = begin + rows[begin..].iter().take_while(is_same).count();
        if rows[begin].partition.is_none() || !is_mixed {
            begin = end;
            continue;
        }
        let load: f32 = rows[begin..end].iter().map(|row| row.load).sum();
        let is_busy = load >= total * APART_FROM;
        let end = merge_cheapest(&mut rows, begin..end, if is_busy { PARTS_MAX } else { 1 }, total);
        if !is_busy {
            rows[begin].partition = None;
        }
        begin = end;
    }
    rows
}

/// Merges the cheapest neighbours among some rows until so many are left; gives the end of what is left.
fn merge_cheapest(
    rows: &mut Vec<Merged>,
    mut among: std::ops::Range<usize>,
    rows_max: usize,
    total: f32,
) -> usize {
    let price = |left: &Merged, right: &Merged| {
        let is_apart = left.prefix != right.prefix || left.partition != right.partition;
        let apart = if is_apart { total * APART_PRICE } else { 0.0 };
        apart + left.load + right.load
    };
    while among.len() > rows_max {
        let pairs = among.start..among.end - 1;
        let prices = pairs.map(|index| (index, price(&rows[index], &rows[index + 1])));
        let Some((cheapest, _)) = prices.min_by(|left, right| left.1.total_cmp(&right.1)) else { break };
        let upper = rows.remove(cheapest + 1);
        rows[cheapest].absorb(upper);
        among.end -= 1;
    }
    among.end
}

fn row(table: &TableHeat, group: std::ops::Range<usize>, window: &Window) -> HeatRow {
    let starts = &table.ranges.list.starts;
    let from = starts[group.start].clone().max(window.key_from.clone());
    let end = starts.get(group.end).cloned();
    let to = match (end, window.key_to.clone()) {
        (Some(end), Some(bound)) => Some(end.min(bound)),
        (end, bound) => end.or(bound),
    };
    // A range from inside of a partition to inside, or to the end, of the same one.
    let is_one_partition = to.as_ref().is_some_and(|to| {
        to.partition == from.partition || to.partition.strip_suffix('\0') == Some(&*from.partition)
    });
    // A range often begins at a place that is no key. The first key that was asked for says more.
    let lowest = group.clone().find_map(|range| table.ranges.lowest(range));
    let named = lowest.filter(|lowest| **lowest > *from.partition).unwrap_or(&from.partition);
    let is_part = is_one_partition
        && (!from.row.is_empty() || to.as_ref().is_some_and(|to| to.partition == from.partition));
    let label = if is_part {
        let part = starts[..group.start].iter().filter(|key| key.partition == from.partition).count() + 1;
        format!("{} / {part}", from.partition)
    } else if named.is_empty() {
        "(first)".to_owned()
    } else if is_one_partition {
        from.partition.to_string()
    } else {
        // The end of one partition is where the next range begins.
        named.trim_end_matches('\0').to_owned() + "…"
    };
    let key = |key: &KeyPosition| HeatKey { partition: key.partition.to_string(), row: key.row.to_string() };
    HeatRow {
        label,
        from: key(&from),
        to: to.as_ref().map(key),
        keys: group.map(|range| table.ranges.keys(range)).sum(),
        group: prefix(named).to_owned(),
        is_part,
    }
}

/// Adds a stored column to those of the view. What is coarser than they are, in time or in keys, is shared out.
fn draw(grid: &mut Grid, shown: &Shown<'_>, row_of: &[Option<usize>], columns: &[HeatColumn]) {
    let Some(first) = columns.first() else { return };
    let (step, column) = (grid.step, shown.column);
    let begin = (column.from - first.from).div_euclid(step);
    let end = (column.from + column.seconds - first.from + step - 1).div_euclid(step);
    let parts = usize::try_from(end - begin).unwrap_or(1).max(1);
    let visible = begin.max(0)..end.min(i64::try_from(columns.len()).unwrap_or(0));
    for cell in &column.cells {
        let targets = &shown.onto[usize::from(cell.range)];
        #[allow(clippy::cast_precision_loss, reason = "few parts")]
        let share = 1.0 / (parts * targets.len()) as f32;
        // Parts of a range that are in one row are not told apart there.
        for (row, ranges) in rows_of(targets.clone(), row_of) {
            let is_estimated = cell.estimated || parts > 1 || ranges < targets.len();
            #[allow(clippy::cast_precision_loss, reason = "at most 256")]
            let share = share * ranges as f32;
            for part in visible.clone() {
                let Ok(part) = usize::try_from(part) else { continue };
                let place = row * grid.columns + part;
                if grid.has_latencies {
                    grid.cells[place].add(&cell.counts, share);
                } else {
                    grid.cells[place].add_numbers(&cell.counts, share);
                }
                grid.estimated[place] |= is_estimated;
            }
        }
    }
}

/// The rows that some ranges are in, each with how many of them.
fn rows_of(ranges: std::ops::Range<usize>, row_of: &[Option<usize>]) -> Vec<(usize, usize)> {
    let mut rows: Vec<(usize, usize)> = Vec::new();
    for row in ranges.filter_map(|range| row_of[range]) {
        match rows.last_mut() {
            Some(last) if last.0 == row => last.1 += 1,
            _ => rows.push((row, 1)),
        }
    }
    rows
}

fn cells(grid: &Grid, metric: HeatMetric) -> Vec<HeatCell> {
    let mut cells = Vec::new();
    for (place, counts) in grid.cells.iter().enumerate() {
        let value = match metric {
            HeatMetric::Operations => f64::from(counts.operations),
            HeatMetric::Bytes => f64::from(counts.bytes),
            HeatMetric::Latency => counts.latencies.quantile_ms(0.99),
            HeatMetric::RowsScanned => f64::from(counts.rows),
        };
        if value > 0.0 {
            let number = |index: usize| u16::try_from(index).unwrap_or(u16::MAX);
            cells.push(HeatCell {
                row: number(place / grid.columns),
                column: number(place % grid.columns),
                value: (value * 100.0).round() / 100.0,
                estimated: grid.estimated[place],
            });
        }
    }
    cells
}
