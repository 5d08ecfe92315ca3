//! Queries that read much and return little, and those that return more than they need.

use tavola_model::PlanKind;

use super::advice::advise;
use super::{Seen, gains, number, shown, shown_bytes};
use crate::traffic::{PlanMix, ShapeTraffic};
use crate::{Example, Finding, Pattern, Rule, Severity};

/// Queries of a shape before anything is said about it.
const QUERIES_MIN: u64 = 5;
/// Rows read for each row returned, from which a query reads in vain; as the console colours it.
const WASTE_MIN: f64 = 5.0;
const WASTE_BAD: f64 = 1_000.0;
/// Rows that a query reads, from which it counts: of a whole table, of a partition, of a range.
const TABLE_ROWS_MIN: f64 = 20.0;
const PARTITION_ROWS_MIN: f64 = 100.0;
const RANGE_ROWS_MIN: f64 = 200.0;
/// Rows that a scan of a table reads, from which it is more than a note, and from which it is bad.
const TABLE_ROWS_WARNING: f64 = 100.0;
const TABLE_ROWS_BAD: f64 = 1_000.0;
/// A shape that was last seen so long before the last request of the table is over.
const OVER_AFTER_SECONDS: i64 = 24 * 3600;
/// Bytes of an answer for each entity, from which entities are large, and how many a query must return.
const LARGE_ROW_BYTES: f64 = 16.0 * 1024.0;
const LARGE_ROWS_MIN: f64 = 2.0;
const LARGE_QUERIES_MIN: u64 = 20;
/// The same from which one entity is enough.
const VERY_LARGE_ROW_BYTES: f64 = 64.0 * 1024.0;
/// A series: so many entities a query, each of at most so many properties.
const SERIES_ROWS_MIN: f64 = 20.0;
const SERIES_PROPERTIES_MAX: f64 = 2.0;
const SERIES_QUERIES_MIN: u64 = 50;

pub(super) fn findings(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    for (text, shape) in seen.table.shapes.iter() {
        let is_over = seen.table.last - shape.last > OVER_AFTER_SECONDS;
        if !is_over && !shape.is_query {
            found.extend(whole_reads(seen, text, shape));
        }
        if !shape.is_query || is_over || shape.queries() < QUERIES_MIN {
            continue;
        }
        let each = Each::of(shape);
        found.extend(scan(seen, text, shape, &each));
        found.extend(select_all(seen, text, shape, &each));
        found.extend(series(seen, text, shape, &each));
    }
}

/// What one query of a shape does, on average.
struct Each {
    kind: PlanKind,
    scanned: f64,
    returned: f64,
    /// Rows read for one returned.
    waste: f64,
}

impl Each {
    fn of(shape: &ShapeTraffic) -> Self {
        let queries = number(shape.queries());
        let (scanned, returned) = (number(shape.rows_scanned), number(shape.rows_returned));
        Self {
            kind: commonest(&shape.plans),
            scanned: scanned / queries,
            returned: returned / queries,
            waste: scanned / returned.max(1.0),
        }
    }
}

fn commonest(plans: &PlanMix) -> PlanKind {
    let kinds = [
        (plans.point, PlanKind::Point),
        (plans.range, PlanKind::Range),
        (plans.partition_scan, PlanKind::PartitionScan),
        (plans.partition_range, PlanKind::PartitionRange),
        (plans.table_scan, PlanKind::TableScan),
    ];
    kinds.into_iter().max().map_or(PlanKind::Point, |(_, kind)| kind)
}

fn scan(seen: &Seen<'_>, text: &str, shape: &ShapeTraffic, each: &Each) -> Option<Finding> {
    let (rule, rows_min) = match each.kind {
        PlanKind::Point => return None,
        PlanKind::Range | PlanKind::PartitionRange => (Rule::WideRange, RANGE_ROWS_MIN),
        PlanKind::PartitionScan => (Rule::PartitionScan, PARTITION_ROWS_MIN),
        PlanKind::TableScan => (Rule::TableScan, TABLE_ROWS_MIN),
    };
    if each.scanned < rows_min || each.waste < WASTE_MIN {
        return None;
    }
    let severity = match rule {
        Rule::TableScan if each.scanned < TABLE_ROWS_WARNING => Severity::Info,
        Rule::TableScan if each.scanned >= TABLE_ROWS_BAD => Severity::Bad,
        _ if each.waste >= WASTE_BAD => Severity::Bad,
        _ => Severity::Warning,
    };
    let advised = advise(seen, shape, each.returned);
    let mut finding = seen.finding(rule, severity, advised.pattern);
    about_shape(seen, &mut finding, text, shape, each);
    finding.title = format!(
        "{text} scans {} {} to return {}",
        shown(each.scanned),
        plural(each.scanned, "row"),
        shown(each.returned)
    );
    finding.fact = format!(
        "{} queries an hour read {} rows and return {}; {} of 100 rows are not returned. p99 {} ms.",
        shown(finding.requests_per_hour),
        shown(seen.per_hour(shape.rows_scanned)),
        shown(seen.per_hour(shape.rows_returned)),
        shown((100.0 - 100.0 / each.waste).floor()),
        shown(shape.latencies.quantile_ms(0.99)),
    );
    finding.advice = advised.advice;
    finding.price = advised.price;
    finding.keys = advised.keys;
    finding.what_if = advised.proposal;
    finding.gains = advised.gains;
    finding.weight = each.waste;
    Some(finding)
}

fn about_shape(seen: &Seen<'_>, finding: &mut Finding, text: &str, shape: &ShapeTraffic, each: &Each) {
    finding.id = format!("{}/{:08x}", finding.id, xxhash_rust::xxh3::xxh3_64(text.as_bytes()) >> 32);
    finding.shape = Some(text.to_owned());
    finding.plan = Some(each.kind.as_str());
    finding.requests_per_hour = seen.per_hour(shape.queries());
    finding.rows_scanned = shape.rows_scanned;
    finding.rows_returned = shape.rows_returned;
    finding.example = shape.worst.as_ref().map(|worst| Example {
        request: if worst.filter.is_empty() { "(no filter)".to_owned() } else { worst.filter.clone() },
        at: worst.at,
        rows_scanned: worst.rows_scanned,
        rows_returned: worst.rows_returned,
        total_ms: number(worst.total_us) / 1000.0,
    });
}

fn plural(count: f64, word: &str) -> String {
    if (count - 1.0).abs() < 0.05 { word.to_owned() } else { format!("{word}s") }
}

fn select_all(seen: &Seen<'_>, text: &str, shape: &ShapeTraffic, each: &Each) -> Option<Finding> {
    let bytes_each = number(shape.bytes_out) / number(shape.rows_returned.max(1));
    let is_large = bytes_each >= LARGE_ROW_BYTES && each.returned >= LARGE_ROWS_MIN
        || bytes_each >= VERY_LARGE_ROW_BYTES;
    if !shape.selects_all || !is_large || shape.queries() < LARGE_QUERIES_MIN {
        return None;
    }
    let mut finding = seen.finding(Rule::SelectAll, Severity::Warning, Pattern::ServerSideProjection);
    about_shape(seen, &mut finding, text, shape, each);
    finding.title = format!("{text} reads whole entities of {}", shown_bytes(bytes_each));
    finding.fact = format!(
        "{} queries an hour return {} entities each, with all their properties: {} an hour.",
        shown(finding.requests_per_hour),
        shown(each.returned),
        shown_bytes(number(shape.bytes_out) / seen.table.hours()),
    );
    finding.gains = vec![gains::projected(seen, shape.bytes_out, shape.rows_returned)];
    project(&mut finding);
    Some(finding)
}

/// Reads of single large entities with all their properties.
fn whole_reads(seen: &Seen<'_>, text: &str, shape: &ShapeTraffic) -> Option<Finding> {
    let bytes_each = number(shape.whole_bytes) / number(shape.whole_reads.max(1));
    if shape.whole_reads < LARGE_QUERIES_MIN || bytes_each < VERY_LARGE_ROW_BYTES {
        return None;
    }
    let mut finding = seen.finding(Rule::SelectAll, Severity::Warning, Pattern::ServerSideProjection);
    finding.id = format!("{}/{text}", finding.id);
    finding.shape = Some(text.to_owned());
    finding.plan = Some(PlanKind::Point.as_str());
    finding.requests_per_hour = seen.per_hour(shape.whole_reads);
    (finding.rows_scanned, finding.rows_returned) = (shape.whole_reads, shape.whole_reads);
    finding.title = format!("{text} reads whole entities of {}", shown_bytes(bytes_each));
    finding.fact = format!(
        "{} reads an hour return an entity with all its properties: {} an hour.",
        shown(finding.requests_per_hour),
        shown_bytes(number(shape.whole_bytes) / seen.table.hours()),
    );
    finding.gains = vec![gains::projected(seen, shape.whole_bytes, shape.whole_reads)];
    project(&mut finding);
    Some(finding)
}

fn project(finding: &mut Finding) {
    finding.advice =
        "Name the properties that are used with $select; the others stay on the server.".to_owned();
    finding.price =
        "Nothing more is stored. A property that is missing on an entity comes back as null.".to_owned();
}

fn series(seen: &Seen<'_>, text: &str, shape: &ShapeTraffic, each: &Each) -> Option<Finding> {
    let table = seen.table;
    let is_read_together = matches!(each.kind, PlanKind::Range | PlanKind::PartitionScan)
        && each.returned >= SERIES_ROWS_MIN
        && each.waste < 1.5
        && shape.queries() >= SERIES_QUERIES_MIN;
    let properties = number(table.sizes.properties) / number(table.sizes.writes.max(1));
    let is_small = table.sizes.writes > 0 && properties <= SERIES_PROPERTIES_MAX;
    let numbers: u64 = table.numbers.by_prefix.values().map(|numbers| numbers.count).sum();
    let is_series = (table.inserts.time_rows + numbers) * 10 >= table.inserts.inserts.max(1) * 9;
    if !(is_read_together && is_small && is_series) {
        return None;
    }
    let mut finding = seen.finding(Rule::DataSeries, Severity::Info, Pattern::DataSeries);
    about_shape(seen, &mut finding, text, shape, each);
    finding.title = format!(
        "{text} reads {} entities of {} properties together",
        shown(each.returned),
        shown(properties)
    );
    finding.fact = format!(
        "{} queries an hour return {} entities each; every entity holds {} of its own.",
        shown(finding.requests_per_hour),
        shown(each.returned),
        if properties < 1.5 { "one value".to_owned() } else { format!("{} values", shown(properties)) },
    );
    finding.advice =
        "Keep the whole series as properties of one entity, one for each point, and change one point with a \
                      merge; the series is then a single point read."
            .to_owned();
    finding.price =
        "An entity has at most 252 properties; writers of one series meet at its ETag.".to_owned();
    finding.gains = gains::as_series(shape, properties);
    Some(finding)
}
