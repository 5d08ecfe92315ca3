//! Queries that read much and return little, and those that return more than they need.

use tavola_model::PlanKind;

use super::propose::{NUMBER_WIDTH, key_lines, query_line, row_bounds, value_of};
use super::{Seen, gains, number, shown, shown_bytes};
use crate::traffic::{Compared, PlanMix, ShapeTraffic};
use crate::{Example, Finding, Pattern, Proposal, Rule, Severity, Template};

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
/// Entities that a lookup returns, up to which the property counts as one that identifies.
const UNIQUE_MAX: f64 = 2.0;
/// Different values up to which a property alone cannot spread entities over partitions, and the buckets that help then.
const FEW_VALUES: usize = 2;
const FEW_VALUES_BUCKETS: usize = 8;
/// How what stands in another partition follows a write.
const IN_OTHER_PARTITIONS: &str = " The two are in different partitions, so the second follows the first through a queue \
                                   (eventually consistent transactions pattern).";
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
    let advised = advise(seen, shape, each);
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

struct Advice {
    pattern: Pattern,
    advice: String,
    price: String,
    proposal: Option<Proposal>,
    keys: Vec<crate::KeySample>,
    gains: Vec<crate::Gain>,
}

/// The pattern for a query, from what its filter compares.
fn advise(seen: &Seen<'_>, shape: &ShapeTraffic, each: &Each) -> Advice {
    let compared = &shape.compared;
    let equal: Vec<&Compared> = compared.iter().filter(|c| !c.is_key() && c.is_eq() && !c.is_time).collect();
    let between: Vec<&Compared> = compared.iter().filter(|c| !c.is_key() && !c.is_eq()).collect();
    let time = compared.iter().find(|c| !c.is_key() && c.is_time);
    let in_partition = compared.iter().any(|c| c.property == "PartitionKey" && c.is_eq());
    let by_row = compared.iter().any(|c| c.property == "RowKey" && c.is_eq());
    match (&equal[..], time) {
        ([], _) if by_row && !in_partition => by_row_key(seen, shape),
        ([], Some(time)) if in_partition => log_tail(seen, shape, &time.property),
        ([], Some(time)) => log_data(seen, shape, &time.property),
        ([], None) => match between.first() {
            Some(compared) => sorted_index(seen, shape, compared, in_partition),
            None => unknown(shape),
        },
        ([one], _) => index(seen, shape, one, each, in_partition),
        (several, _) => compound(seen, shape, several, in_partition),
    }
}

/// The proposal as the lines of keys, and the query that uses it with the values that were asked for.
fn with_keys(
    seen: &Seen<'_>,
    shape: &ShapeTraffic,
    pattern: Pattern,
    proposal: Proposal,
    advice: String,
    price: String,
) -> Advice {
    let asked: Vec<(String, String)> = shape
        .compared
        .iter()
        .filter(|compared| compared.is_eq() || !compared.is_key())
        .map(|compared| (compared.property.clone(), compared.value.clone()))
        .collect();
    let sample = seen.sample_for(&asked, Some(&proposal));
    let mut keys = key_lines(&sample, &proposal);
    let known = |name: &str| {
        let is_asked = shape.compared.iter().any(|c| c.property == name && c.is_eq());
        is_asked.then(|| value_of(&sample, name)).flatten()
    };
    let templates = (Template::parse(&proposal.partition), Template::parse(&proposal.row));
    if let (Ok(partition), Ok(row)) = templates {
        let (partition, is_whole) = partition.expand_known(known);
        if is_whole && keys.len() > 1 {
            keys.push(query_line(&partition, &row_bounds(&row.start(known), &shape.compared)));
        }
    }
    Advice { pattern, advice, price, proposal: Some(proposal), keys, gains: Vec::new() }
}

fn extra_rows(seen: &Seen<'_>) -> String {
    let writes = " and one more write for each change of an entity";
    match seen.fact.filter(|fact| fact.entities > 0) {
        Some(fact) => format!(
            "{}{} more entities{writes}.",
            if fact.is_exact { "" } else { "About " },
            shown(number(fact.entities))
        ),
        None => format!("One more entity for each that is stored{writes}."),
    }
}

/// One property is compared for equality: a second entity with the property in its key.
fn index(
    seen: &Seen<'_>,
    shape: &ShapeTraffic,
    compared: &Compared,
    each: &Each,
    in_partition: bool,
) -> Advice {
    let name = &compared.property;
    let is_unique = each.returned <= UNIQUE_MAX;
    let (pattern, place) = match (is_unique, in_partition) {
        (true, true) => (Pattern::IntraPartitionIndex, "in the same partition"),
        (true, false) => (Pattern::InterPartitionIndex, "in a partition of its own"),
        (false, true) => (Pattern::IndexEntities, "in the same partition"),
        (false, false) => (Pattern::IndexEntities, "in a partition for each value"),
    };
    let (proposal, together) = if in_partition {
        let row = format!("{name}_{{{name}}}_{{RowKey}}");
        let proposal = Proposal { partition: "{PartitionKey}".to_owned(), row, is_index: true };
        (proposal, " Both are written in one transaction, so they never disagree.")
    } else {
        let partition = format!("{name}_{{{name}}}");
        let proposal = Proposal { partition, row: "{PartitionKey}_{RowKey}".to_owned(), is_index: true };
        (proposal, IN_OTHER_PARTITIONS)
    };
    let lists = match is_unique {
        true => "",
        false => " A copy that holds the keys alone is smaller, and costs one point read for each hit.",
    };
    let advice = format!("Store a second copy of the entity {place}, keyed by {name}.{lists}{together}");
    with_keys(seen, shape, pattern, proposal, advice, extra_rows(seen))
}

/// Several properties are compared: one key made of them. The one with the most different values comes first, because
/// outside of a partition it becomes the PartitionKey and must spread the entities.
fn compound(seen: &Seen<'_>, shape: &ShapeTraffic, equal: &[&Compared], in_partition: bool) -> Advice {
    let mut equal: Vec<(usize, &Compared)> =
        equal.iter().map(|compared| (seen.distinct(compared), *compared)).collect();
    // Those that are not known to differ stay in the order of the filter.
    equal.sort_by_key(|(distinct, _)| std::cmp::Reverse(*distinct));
    let places = |equal: &[(usize, &Compared)]| -> String {
        equal.iter().map(|(_, compared)| format!("{{{}}}_", compared.property)).collect()
    };
    let advice = "Put the properties that are asked for together into one key, the one with the most different values \
                  first; the query becomes a range of RowKeys."
        .to_owned();
    let (proposal, together) = match &equal[..] {
        equal if in_partition => {
            let row = format!("{}{{RowKey}}", places(equal));
            (Proposal { partition: "{PartitionKey}".to_owned(), row, is_index: true }, "")
        }
        [(distinct, first), rest @ ..] if *distinct > FEW_VALUES => {
            let partition = format!("{{{}}}", first.property);
            let row = format!("{}{{PartitionKey}}_{{RowKey}}", places(rest));
            (Proposal { partition, row, is_index: true }, IN_OTHER_PARTITIONS)
        }
        // Two values, or four, would be giant partitions.
        few => {
            let partition = format!("{}{{RowKey:mod{FEW_VALUES_BUCKETS}}}", places(few));
            let row = "{PartitionKey}_{RowKey}".to_owned();
            (Proposal { partition, row, is_index: true }, IN_OTHER_PARTITIONS)
        }
    };
    with_keys(seen, shape, Pattern::CompoundKey, proposal, advice + together, extra_rows(seen))
}

/// A property is compared by size: index entities that sort by it.
fn sorted_index(seen: &Seen<'_>, shape: &ShapeTraffic, compared: &Compared, in_partition: bool) -> Advice {
    let name = &compared.property;
    let is_number = compared.value.parse::<i64>().is_ok();
    let value = if is_number { format!("{{{name}:0{NUMBER_WIDTH}}}") } else { format!("{{{name}}}") };
    let partition = if in_partition { "{PartitionKey}".to_owned() } else { format!("{name}_index") };
    let row = if in_partition {
        format!("{name}_{value}_{{RowKey}}")
    } else {
        format!("{value}_{{PartitionKey}}_{{RowKey}}")
    };
    let proposal = Proposal { partition, row, is_index: true };
    let padded = if is_number { ", padded with zeros so that numbers sort" } else { "" };
    let advice = format!(
        "Store a second copy whose RowKey begins with {name}{padded}; the query becomes a range of RowKeys."
    );
    let (pattern, together, one) = if in_partition {
        (Pattern::IntraPartitionIndex, "", "")
    } else {
        let one = " All of the index is one partition; spread it if it takes many writes.";
        (Pattern::IndexEntities, IN_OTHER_PARTITIONS, one)
    };
    let price = extra_rows(seen) + one;
    with_keys(seen, shape, pattern, proposal, advice + together, price)
}

fn by_row_key(seen: &Seen<'_>, shape: &ShapeTraffic) -> Advice {
    let proposal = Proposal {
        partition: "RowKey_{RowKey}".to_owned(),
        row: "{PartitionKey}".to_owned(),
        is_index: true,
    };
    let advice = "A RowKey is found only together with its PartitionKey. Store a second copy whose PartitionKey is the \
                  RowKey, or ask with both keys."
        .to_owned()
        + IN_OTHER_PARTITIONS;
    with_keys(seen, shape, Pattern::InterPartitionIndex, proposal, advice, extra_rows(seen))
}

fn log_tail(seen: &Seen<'_>, shape: &ShapeTraffic, time: &str) -> Advice {
    let proposal = Proposal {
        partition: "{PartitionKey}".to_owned(),
        row: format!("{{{time}:reverse}}_{{RowKey}}"),
        is_index: false,
    };
    let advice = format!(
        "Begin the RowKey with {time} counted down, so that the newest entities come first; the latest ones are a short \
         range at the front."
    );
    let price =
        "The keys of all entities change. Reading in the old order becomes reading backwards.".to_owned();
    with_keys(seen, shape, Pattern::LogTail, proposal, advice, price)
}

fn log_data(seen: &Seen<'_>, shape: &ShapeTraffic, time: &str) -> Advice {
    Advice {
        pattern: Pattern::LogData,
        advice: "Queries ask for a span of time over all partitions. Write such data to blobs named by the hour, or keep \
                 one table for each day and ask only those of the span."
            .to_owned(),
        price: "Lookups of single entries by key move to the place where they are kept.".to_owned(),
        proposal: None,
        keys: Vec::new(),
        gains: vec![gains::by_days(seen, shape, time)],
    }
}

fn unknown(shape: &ShapeTraffic) -> Advice {
    Advice {
        pattern: Pattern::IndexEntities,
        advice: "No part of the filter that every answer must meet names a key. Split the query into one for each \
                 alternative, and give each an index entity."
            .to_owned(),
        price: "One more entity for each alternative that is asked for.".to_owned(),
        proposal: None,
        keys: Vec::new(),
        gains: vec![gains::by_alternatives(shape)],
    }
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
