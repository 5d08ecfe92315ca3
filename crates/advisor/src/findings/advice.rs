//! The pattern of the guide for a query that reads in vain, with keys made of the table's own properties and values.

use tavola_model::{Comparison, DateTime, Operator};

use super::propose::{NUMBER_WIDTH, key_lines, query_line, range_line, row_bounds, value_of};
use super::{Seen, gains, number, shown};
use crate::shape::alternatives;
use crate::traffic::{Compared, ShapeTraffic, plain_text};
use crate::{Gain, KeySample, Pattern, Proposal, Template};

/// Entities that a lookup returns, up to which the property counts as one that identifies.
const UNIQUE_MAX: f64 = 2.0;
/// Different values up to which a property alone cannot spread entities over partitions, and the buckets that help then.
const FEW_VALUES: usize = 2;
const FEW_VALUES_BUCKETS: usize = 8;
/// Alternatives of a filter that keys are shown for.
const ALTERNATIVES_MAX: usize = 4;
/// Seconds of a span of time up to which hours are better than days.
const SHORT_SPAN_SECONDS: i64 = 6 * 3600;
/// How what stands in another partition follows a write.
const IN_OTHER_PARTITIONS: &str = " The two are in different partitions, so the second follows the first through a queue \
                                   (eventually consistent transactions pattern).";

/// What to do about a query.
pub(super) struct Advice {
    pub pattern: Pattern,
    pub advice: String,
    pub price: String,
    pub proposal: Option<Proposal>,
    pub keys: Vec<KeySample>,
    pub gains: Vec<Gain>,
}

/// The pattern for a query, from what its filter compares and how many entities it returns.
pub(super) fn advise(seen: &Seen<'_>, shape: &ShapeTraffic, returned: f64) -> Advice {
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
            None => unknown(seen, shape, in_partition),
        },
        ([one], _) => index(seen, shape, one, returned <= UNIQUE_MAX, in_partition),
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
    is_unique: bool,
    in_partition: bool,
) -> Advice {
    let name = &compared.property;
    let (pattern, place) = match (is_unique, in_partition) {
        (true, true) => (Pattern::IntraPartitionIndex, "in the same partition"),
        (true, false) => (Pattern::InterPartitionIndex, "in a partition of its own"),
        (false, true) => (Pattern::IndexEntities, "in the same partition"),
        (false, false) => (Pattern::IndexEntities, "in a partition for each value"),
    };
    let together = match in_partition {
        true => " Both are written in one transaction, so they never disagree.",
        false => IN_OTHER_PARTITIONS,
    };
    let proposal = index_proposal(name, in_partition);
    let lists = match is_unique {
        true => "",
        false => " A copy that holds the keys alone is smaller, and costs one point read for each hit.",
    };
    let advice = format!("Store a second copy of the entity {place}, keyed by {name}.{lists}{together}");
    with_keys(seen, shape, pattern, proposal, advice, extra_rows(seen))
}

/// Copies of entities, keyed by one property.
fn index_proposal(name: &str, in_partition: bool) -> Proposal {
    if in_partition {
        let row = format!("{name}_{{{name}}}_{{RowKey}}");
        Proposal { partition: "{PartitionKey}".to_owned(), row, is_index: true }
    } else {
        let partition = format!("{name}_{{{name}}}");
        Proposal { partition, row: "{PartitionKey}_{RowKey}".to_owned(), is_index: true }
    }
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

/// A span of time over all partitions: copies by day, or by hour where the spans are short.
fn log_data(seen: &Seen<'_>, shape: &ShapeTraffic, time: &str) -> Advice {
    let form = if is_short_span(shape, time) { "hour" } else { "day" };
    let proposal = Proposal {
        partition: format!("{{{time}:{form}}}"),
        row: "{PartitionKey}_{RowKey}".to_owned(),
        is_index: true,
    };
    let advice = format!(
        "Queries ask for a span of time over all partitions. Write such data to blobs named by the {form}, or keep one table \
         for each {form} and ask only those of the span. Where it must stay in one table, store a second copy whose \
         PartitionKey is the {form}.{IN_OTHER_PARTITIONS}"
    );
    let price = format!(
        "{} All writes of one {form} meet at one partition. Blobs and tables of their own cost no second copy; lookups of \
         single entries by key move to the place where they are kept.",
        extra_rows(seen)
    );
    let mut advised = with_keys(seen, shape, Pattern::LogData, proposal, advice, price);
    let template = advised.proposal.as_ref().and_then(|proposal| Template::parse(&proposal.partition).ok());
    if let Some(template) = template.filter(|_| advised.keys.len() > 1) {
        let bounds = row_bounds(&template.start(|_| None), &shape.compared);
        advised.keys.push(range_line(&bounds));
    }
    advised.gains = vec![gains::by_days(seen, shape, time)];
    advised
}

/// Whether queries ask for a few hours.
fn is_short_span(shape: &ShapeTraffic, time: &str) -> bool {
    let bound = |operators: [&str; 2]| {
        let is_bound = |c: &&Compared| c.property == time && operators.contains(&c.operator.as_str());
        shape.compared.iter().find(is_bound).and_then(|compared| DateTime::parse(&compared.value))
    };
    match (bound(["ge", "gt"]), bound(["le", "lt"])) {
        (Some(from), Some(to)) => to.unix_seconds() - from.unix_seconds() <= SHORT_SPAN_SECONDS,
        _ => false,
    }
}

/// No comparison that all answers must meet names a property: an index for each alternative.
fn unknown(seen: &Seen<'_>, shape: &ShapeTraffic, in_partition: bool) -> Advice {
    let filter =
        shape.worst.as_ref().and_then(|worst| tavola_odata::parse_filter(&worst.filter).ok().flatten());
    let alternatives = filter.as_ref().map(alternatives).unwrap_or_default();
    let mut keys = Vec::new();
    for compared in alternatives.iter().take(ALTERNATIVES_MAX) {
        let is_named = |c: &&&Comparison| !matches!(c.property.name(), "PartitionKey" | "RowKey");
        let Some(compared) = compared.iter().find(is_named) else { continue };
        let (name, value) = (compared.property.name(), plain_text(compared.literal()));
        let proposal = index_proposal(name, in_partition);
        let sample = seen.sample_for(&[(name.to_owned(), value.clone())], Some(&proposal));
        let lines = key_lines(&sample, &proposal);
        keys.extend(lines.into_iter().skip(usize::from(!keys.is_empty())));
        let known = |asked: &str| (asked == name && compared.operator == Operator::Eq).then(|| value.clone());
        let templates = (Template::parse(&proposal.partition), Template::parse(&proposal.row));
        if let (false, (Ok(partition), Ok(row))) = (in_partition, templates)
            && let (partition, true) = partition.expand_known(known)
        {
            keys.push(query_line(&partition, &row_bounds(&row.start(known), &[])));
        }
    }
    let count = match alternatives.len() {
        0 => "each alternative that is asked for".to_owned(),
        count => format!("each of {count} alternatives, where an entity has the property"),
    };
    Advice {
        pattern: Pattern::IndexEntities,
        advice: "No part of the filter that every answer must meet names a key. Split the query into one for each \
                 alternative, and give each an index entity."
            .to_owned(),
        price: format!("One more entity for {count}, and one more write for each change."),
        proposal: None,
        keys,
        gains: vec![gains::by_alternatives(shape)],
    }
}
