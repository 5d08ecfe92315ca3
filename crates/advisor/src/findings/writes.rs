//! How a table is written to: sizes, keys that do not sort, growth, deletes, batches and conflicts.

use super::propose::key_lines;
use super::{Seen, gains, number, shown, shown_bytes};
use crate::traffic::{NEAR_PROPERTIES, Numbers};
use crate::{Example, Finding, Pattern, Proposal, Rule, SampleEntity, Severity};

/// Numbers behind one prefix before their width is judged, the part of all RowKeys they must be, and how many of them
/// must have another width than the longest.
const NUMBERS_MIN: u64 = 20;
const NUMBERS_SHARE: f64 = 0.5;
/// Inserts into a table before its growth is judged.
const GROWTH_MIN: u64 = 1_000;
/// Deletes of single entities before they are judged, and the part of them that comes in the order of the keys.
const DELETES_MIN: u64 = 500;
const DELETES_IN_ORDER: f64 = 0.7;
/// Batches before their size is judged, and the part of them that has one operation.
const BATCHES_MIN: u64 = 50;
const SINGLE_SHARE: f64 = 0.5;
/// Failed conditions on one entity, and the part of all conditional writes that fails.
const CONFLICTS_MIN: u64 = 20;
const CONFLICT_SHARE: f64 = 0.2;

pub(super) fn findings(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    found.extend(large(seen));
    found.extend(wide(seen));
    found.extend(unpadded(seen));
    found.extend(only_grows(seen));
    found.extend(row_by_row(seen));
    found.extend(single_batches(seen));
    found.extend(conflicts(seen));
}

fn keys_example(keys: Option<&(String, String)>) -> Option<Example> {
    let (partition, row) = keys?;
    Some(Example { request: format!("PartitionKey '{partition}', RowKey '{row}'"), ..Example::default() })
}

fn large(seen: &Seen<'_>) -> Option<Finding> {
    let sizes = &seen.table.sizes;
    if sizes.near_bytes == 0 && sizes.refused_bytes == 0 {
        return None;
    }
    let severity = if sizes.refused_bytes > 0 { Severity::Bad } else { Severity::Warning };
    let mut finding = seen.finding(Rule::LargeEntity, severity, Pattern::LargeEntities);
    finding.title = "Entities come near the largest size".to_owned();
    finding.fact = format!(
        "{} writes carried {} or more, up to {}; an entity holds 1 MiB, in which a character of text counts two bytes. {} \
         were refused.",
        shown(number(sizes.near_bytes)),
        shown_bytes(number(crate::traffic::NEAR_BODY_BYTES)),
        shown_bytes(number(sizes.bytes_max)),
        shown(number(sizes.refused_bytes)),
    );
    finding.advice = "Keep the large values as blobs and their names in the entity.".to_owned();
    finding.price = "Reading the value is a second request; entity and blob agree eventually.".to_owned();
    finding.example = keys_example(sizes.largest.as_ref());
    finding.gains = gains::as_blobs(sizes.near_bytes, sizes.refused_bytes);
    finding.requests_per_hour = seen.per_hour(sizes.near_bytes + sizes.refused_bytes);
    Some(finding)
}

fn wide(seen: &Seen<'_>) -> Option<Finding> {
    let sizes = &seen.table.sizes;
    if sizes.near_properties == 0 && sizes.refused_properties == 0 {
        return None;
    }
    let severity = if sizes.refused_properties > 0 { Severity::Bad } else { Severity::Warning };
    let mut finding = seen.finding(Rule::WideEntity, severity, Pattern::WideEntities);
    finding.title = "Entities come near the most properties".to_owned();
    finding.fact = format!(
        "{} writes carried {NEAR_PROPERTIES} properties or more, up to {}; an entity holds 252. {} were refused.",
        shown(number(sizes.near_properties)),
        sizes.properties_max,
        shown(number(sizes.refused_properties)),
    );
    finding.advice =
        "Split the entity into several in the same partition, with a part of the properties each, and write \
                      them in one transaction."
            .to_owned();
    finding.price = "Reading all of it takes one request for each part, or one range.".to_owned();
    finding.example = keys_example(sizes.widest.as_ref());
    if let Some((partition, row)) = &sizes.widest {
        let sample = SampleEntity { partition: partition.clone(), row: row.clone(), properties: Vec::new() };
        let proposal =
            Proposal { partition: "{PartitionKey}".to_owned(), row: "{RowKey}_2".to_owned(), is_index: true };
        finding.keys = key_lines(&sample, &proposal);
    }
    finding.gains = gains::split_wide(sizes.properties_max, sizes.refused_properties);
    finding.requests_per_hour = seen.per_hour(sizes.near_properties + sizes.refused_properties);
    Some(finding)
}

fn unpadded(seen: &Seen<'_>) -> Option<Finding> {
    let numbers = &seen.table.numbers;
    let is_mixed = |numbers: &Numbers| numbers.shortest.len() < numbers.longest.len();
    let (prefix, found) = numbers
        .by_prefix
        .iter()
        .filter(|(_, found)| found.count >= NUMBERS_MIN && is_mixed(found))
        .max_by_key(|(_, found)| found.count)?;
    if number(found.count) < number(numbers.keys) * NUMBERS_SHARE {
        return None;
    }
    // A range over such keys gives the wrong entities, and not only slowly.
    let ranges: u64 = seen
        .table
        .shapes
        .iter()
        .filter(|(_, shape)| shape.compared.iter().any(|c| c.property == "RowKey" && !c.is_eq()))
        .map(|(_, shape)| shape.queries())
        .sum();
    let severity = if ranges > 0 { Severity::Bad } else { Severity::Info };
    let mut finding = seen.finding(Rule::UnpaddedNumber, severity, Pattern::SortingData);
    finding.title = "RowKeys are numbers that do not sort as numbers".to_owned();
    let wrong = match ranges {
        0 => "No query asks for a range of them yet.".to_owned(),
        ranges => {
            format!("{} queries asked for a range of them and got the wrong entities.", shown(number(ranges)))
        }
    };
    finding.fact = format!(
        "RowKeys such as '{prefix}{}' and '{prefix}{}' are compared as text, so the second sorts before '{prefix}9'. {wrong}",
        found.shortest, found.longest,
    );
    let width = (found.longest.len() + 2).max(8);
    finding.advice = format!("Pad the numbers with zeros to a fixed width, here {width} digits.");
    finding.price = "The keys of all entities change once; no extra entities.".to_owned();
    let sample = seen.sample(&[]);
    let (partition, old) = (sample.partition, format!("{prefix}{}", found.shortest));
    let zeros = "0".repeat(width.saturating_sub(found.shortest.len()));
    finding.keys = vec![
        crate::KeySample {
            label: "now",
            partition: vec![crate::KeyPart::old(&partition)],
            row: vec![crate::KeyPart::old(old)],
        },
        crate::KeySample {
            label: "then",
            partition: vec![crate::KeyPart::old(&partition)],
            row: [
                crate::KeyPart::old(prefix),
                crate::KeyPart::new(zeros),
                crate::KeyPart::old(&found.shortest),
            ]
            .into_iter()
            .filter(|part| !part.text.is_empty())
            .collect(),
        },
    ];
    let form = if prefix.is_empty() { "0" } else { "end" };
    finding.what_if = Some(Proposal {
        partition: "{PartitionKey}".to_owned(),
        row: format!("{{RowKey:{form}{width}}}"),
        is_index: false,
    });
    finding.requests_per_hour = seen.per_hour(ranges);
    Some(finding)
}

fn only_grows(seen: &Seen<'_>) -> Option<Finding> {
    let (writes, order) = (&seen.table.writes, &seen.table.inserts);
    let inserts = writes.inserts + writes.upserts + writes.batch_inserts;
    let changes = writes.batch_operations.saturating_sub(writes.batch_inserts) + writes.updates;
    let times = order.time_partitions.max(order.time_rows);
    let is_log = inserts >= GROWTH_MIN && times * 10 >= inserts * 9 && changes * 20 <= inserts;
    if !is_log || writes.deletes + writes.batch_deletes > 0 {
        return None;
    }
    let mut finding = seen.finding(Rule::OnlyGrows, Severity::Info, Pattern::HighVolumeDelete);
    let each = number(seen.table.sizes.bytes) / number(seen.table.sizes.writes.max(1));
    let per_month = seen.per_hour(inserts) * 730.0;
    finding.title = "The table only grows".to_owned();
    finding.fact = format!(
        "{} entities with a time in their key were inserted and none was deleted; at this rate it gains {} entities, about \
         {}, a month.",
        shown(number(inserts)),
        shown(per_month),
        shown_bytes(per_month * each),
    );
    finding.advice = format!(
        "Decide how long the data is needed, and write each period to a table of its own ({}202611, {0}202612); what is old \
         goes with one request. Where it is only ever read by time, blobs are cheaper.",
        seen.table.table
    );
    finding.price =
        "A query over several periods asks several tables. A deleted name cannot be used again at once."
            .to_owned();
    finding.gains = vec![gains::dropped_with_table(inserts, seen.partitions())];
    finding.requests_per_hour = seen.per_hour(inserts);
    Some(finding)
}

fn row_by_row(seen: &Seen<'_>) -> Option<Finding> {
    let deletes = &seen.table.deletes;
    let in_order = deletes.sweeping.max(deletes.ascending);
    if deletes.count < DELETES_MIN || number(in_order) < number(deletes.count) * DELETES_IN_ORDER {
        return None;
    }
    let mut finding = seen.finding(Rule::RowByRowDelete, Severity::Warning, Pattern::HighVolumeDelete);
    finding.title = "The table is emptied entity by entity".to_owned();
    finding.fact = format!(
        "{} entities were deleted with one request each, {} of 100 in the order of their keys.",
        shown(number(deletes.count)),
        shown(number(in_order * 100 / deletes.count.max(1))),
    );
    finding.advice = format!(
        "Write what is deleted together to a table of its own ({}202611, {0}202612) and delete the table; or delete up to 100 \
         entities of a partition in one transaction.",
        seen.table.table
    );
    finding.price =
        "A query over several periods asks several tables. A deleted name cannot be used again at once."
            .to_owned();
    let last = deletes.last.as_ref();
    finding.example = keys_example(last);
    finding.gains = vec![gains::deleted_together(deletes.count, seen.partitions())];
    finding.requests_per_hour = seen.per_hour(deletes.count);
    Some(finding)
}

fn single_batches(seen: &Seen<'_>) -> Option<Finding> {
    let writes = &seen.table.writes;
    if writes.batches < BATCHES_MIN || number(writes.batches_of_one) < number(writes.batches) * SINGLE_SHARE {
        return None;
    }
    let mut finding = seen.finding(Rule::SingleBatch, Severity::Warning, Pattern::EntityGroupTransactions);
    finding.title = "Transactions hold a single write".to_owned();
    finding.fact = format!(
        "{} of {} transactions had one operation; up to 100 on one partition fit.",
        shown(number(writes.batches_of_one)),
        shown(number(writes.batches)),
    );
    finding.advice = "Gather writes to a partition before sending them, or send a single write as a plain request, which is \
                      smaller and answers faster."
        .to_owned();
    finding.price =
        "A gathered write is acknowledged a little later, and all of a transaction fails together."
            .to_owned();
    finding.gains = vec![gains::gathered(writes.batches_of_one, seen.partitions())];
    finding.requests_per_hour = seen.per_hour(writes.batches_of_one);
    Some(finding)
}

fn conflicts(seen: &Seen<'_>) -> Option<Finding> {
    let conflicts = &seen.table.conflicts;
    let (key, hitter) = conflicts.keys.top().into_iter().next()?;
    let own = hitter.count - hitter.error;
    let all = conflicts.failed + conflicts.succeeded;
    if own < CONFLICTS_MIN || number(conflicts.failed) < number(all) * CONFLICT_SHARE {
        return None;
    }
    let mut finding = seen.finding(Rule::EtagLoop, Severity::Warning, Pattern::ManagingConcurrency);
    finding.title = format!("Writes to {key} fail again and again");
    finding.fact = format!(
        "{} of {} conditional writes were refused because the entity had changed; {} of them to this one.",
        shown(number(conflicts.failed)),
        shown(number(all)),
        shown(number(own)),
    );
    finding.advice = "Several writers change one entity. Give each its own entity and add them up when reading, or merge only \
                      the properties that change; after a refusal read again and wait a random time before the next try."
        .to_owned();
    finding.price = "Reading the sum takes a short range instead of one entity.".to_owned();
    finding.example = Some(Example { request: key.clone(), ..Example::default() });
    finding.gains = vec![gains::apart(conflicts.failed, own)];
    finding.requests_per_hour = seen.per_hour(conflicts.failed);
    Some(finding)
}
