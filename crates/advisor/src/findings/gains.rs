//! What a fix gains where keys alone do not show it: a figure of the recorded requests as it is, and as it would be.
//!
//! Every function here is pure: it takes counts of the traffic and sizes of the table. What is not recorded is assumed in
//! the way that the basis of the gain says.

use super::{Seen, number};
use crate::traffic::{Compared, NEAR_BODY_BYTES, ShapeTraffic};
use crate::{Gain, GainKind};

/// Operations of a transaction and properties of an entity, at most:
/// <https://learn.microsoft.com/azure/storage/tables/scalability-targets>.
const TRANSACTION_OPERATIONS: u64 = 100;
const ENTITY_PROPERTIES: u64 = 252;
/// Bytes of an entity that names a blob, and of the keys, ETag and braces of an entity in an answer.
const REFERENCE_BYTES: u64 = 512;
const ENTITY_OVERHEAD_BYTES: u64 = 150;
/// Bytes around the name and value of a property in an answer.
const PROPERTY_OVERHEAD_BYTES: u64 = 6;
/// Bytes from which a value is a large one; samples of the table are cut there.
const LARGE_VALUE_BYTES: usize = 128;
/// Characters of a time that name its day.
const DAY_CHARS: usize = 10;

fn gain(kind: GainKind, before: u64, after: u64, basis: impl Into<String>) -> Gain {
    Gain { kind, before, after: after.min(before), basis: basis.into() }
}

/// Operations in transactions: as many as their number takes, and one for each partition at least.
fn transactions(operations: u64, partitions: usize) -> u64 {
    operations.div_ceil(TRANSACTION_OPERATIONS).max(number_of(partitions)).min(operations)
}

fn number_of(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Single deletes, put into transactions.
pub(super) fn deleted_together(deletes: u64, partitions: usize) -> Gain {
    let after = transactions(deletes, partitions);
    let basis = "in transactions of up to 100 entities of a partition; a table of their own goes with one";
    gain(GainKind::Requests, deletes, after, basis)
}

/// What a period holds, deleted with its table.
pub(super) fn dropped_with_table(entities: u64, partitions: usize) -> Gain {
    let basis = "to delete what was inserted here: transactions of up to 100 entities, or its table";
    gain(GainKind::Requests, transactions(entities, partitions), 1, basis)
}

/// Transactions of one operation, gathered by partition.
pub(super) fn gathered(transactions_of_one: u64, partitions: usize) -> Gain {
    let after = transactions(transactions_of_one, partitions);
    let basis = "if all writes to a partition in the recorded time are gathered, up to 100 at a time";
    gain(GainKind::Requests, transactions_of_one, after, basis)
}

/// Conditional writes to one entity that several writers share, with an entity for each writer.
pub(super) fn apart(refused: u64, of_this_entity: u64) -> Gain {
    let after = refused.saturating_sub(of_this_entity);
    gain(GainKind::RefusedWrites, refused, after, "if each writer has an entity of its own")
}

/// Large entities, with their values as blobs.
pub(super) fn as_blobs(large: u64, refused: u64) -> Vec<Gain> {
    let mut gains = Vec::new();
    if large > 0 {
        let basis = "of large entities in the table, at least, if their values are blobs";
        gains.push(gain(GainKind::Bytes, large * NEAR_BODY_BYTES, large * REFERENCE_BYTES, basis));
    }
    if refused > 0 {
        gains.push(gain(GainKind::RefusedWrites, refused, 0, "if the large values are blobs"));
    }
    gains
}

/// The widest entity, split in two or more.
pub(super) fn split_wide(properties: u16, refused: u64) -> Vec<Gain> {
    let properties = u64::from(properties);
    let parts = (properties * 2).div_ceil(ENTITY_PROPERTIES).max(2);
    let basis = format!("of the widest entity, in {parts} parts; an entity holds {ENTITY_PROPERTIES}");
    let mut gains = vec![gain(GainKind::Properties, properties, properties.div_ceil(parts), basis)];
    if refused > 0 {
        gains.push(gain(GainKind::RefusedWrites, refused, 0, "if wide entities are split"));
    }
    gains
}

/// Points of a series, as properties of one entity.
pub(super) fn as_series(shape: &ShapeTraffic, values_each: f64) -> Vec<Gain> {
    let queries = shape.queries();
    let points = number(shape.rows_returned) / number(queries) * values_each.max(1.0);
    let entities = (points / number(ENTITY_PROPERTIES)).ceil().max(1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
    let after = queries * entities as u64;
    let basis = "if a series is one entity, or as many as its points take";
    vec![
        gain(GainKind::Rows, shape.rows_scanned, after, basis),
        gain(GainKind::Requests, shape.count, after, basis),
    ]
}

/// A query by an `or`, with an index for each alternative.
pub(super) fn by_alternatives(shape: &ShapeTraffic) -> Gain {
    let basis = "if each alternative reads its own index, and no more than it returns";
    gain(GainKind::Rows, shape.rows_scanned, shape.rows_returned, basis)
}

/// Whole entities, without the properties that are large.
pub(super) fn projected(seen: &Seen<'_>, bytes: u64, entities: u64) -> Gain {
    let samples = seen.fact.map_or(&[][..], |fact| &fact.samples[..]);
    let is_large = |value: &str| value.len() >= LARGE_VALUE_BYTES;
    let (mut small_bytes, mut large) = (0, std::collections::BTreeSet::new());
    for (name, value) in samples.iter().flat_map(|entity| &entity.properties) {
        if is_large(value) {
            large.insert(name.as_str());
        } else {
            small_bytes += number_of(name.len() + value.len()) + PROPERTY_OVERHEAD_BYTES;
        }
    }
    let each = small_bytes / number_of(samples.len()).max(1);
    if large.is_empty() {
        let after = entities * ENTITY_OVERHEAD_BYTES;
        return gain(
            GainKind::Bytes,
            bytes,
            after,
            "if keys are enough; each property that is named adds its own",
        );
    }
    let names = large.into_iter().take(3).collect::<Vec<_>>().join(", ");
    let after = entities * (ENTITY_OVERHEAD_BYTES + each);
    gain(GainKind::Bytes, bytes, after, format!("if $select leaves out {names}"))
}

/// A span of time over all partitions, from a table for each day. Which part of the entities is in the days of the span
/// is counted in the samples of the table.
pub(super) fn by_days(seen: &Seen<'_>, shape: &ShapeTraffic, property: &str) -> Gain {
    let day = |time: &str| time.get(..DAY_CHARS).unwrap_or(time).to_owned();
    let bound = |operators: [&str; 3]| {
        let is_bound = |c: &&Compared| c.property == property && operators.contains(&c.operator.as_str());
        shape.compared.iter().find(is_bound).map(|compared| day(&compared.value))
    };
    let (lower, upper) = (bound(["ge", "gt", "eq"]), bound(["le", "lt", "eq"]));
    let is_in = |day: &String| {
        lower.as_ref().is_none_or(|lower| day >= lower) && upper.as_ref().is_none_or(|upper| day <= upper)
    };
    let samples = seen.fact.map_or(&[][..], |fact| &fact.samples[..]);
    let days: Vec<String> = samples
        .iter()
        .filter_map(|entity| super::propose::value_of(entity, property))
        .map(|time| day(&time))
        .collect();
    let inside = number_of(days.iter().filter(|day| is_in(day)).count());
    let read = match number_of(days.len()) {
        0 => shape.rows_returned,
        all => shape.rows_scanned / all * inside,
    };
    let basis = "if each day has a table, and a query reads those of its span";
    gain(GainKind::Rows, shape.rows_scanned, read.max(shape.rows_returned), basis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(gain: &Gain, before: u64, after: u64) {
        assert_eq!((gain.before, gain.after), (before, after), "{gain:?}");
    }

    #[test]
    fn transactions_hold_a_hundred_operations_of_one_partition() {
        check(&deleted_together(1_000, 1), 1_000, 10);
        check(&deleted_together(1_001, 1), 1_001, 11);
        check(&deleted_together(500, 10), 500, 10);
        check(&gathered(60, 10), 60, 10);
        check(&gathered(5, 64), 5, 5);
        check(&dropped_with_table(100_000, 4), 1_000, 1);
    }

    #[test]
    fn values_that_move_leave_a_reference_and_are_not_refused() {
        let gains = as_blobs(2, 3);
        check(&gains[0], 2 * NEAR_BODY_BYTES, 2 * REFERENCE_BYTES);
        check(&gains[1], 3, 0);
        assert!(as_blobs(0, 0).is_empty());
        check(&split_wide(210, 0)[0], 210, 105);
        check(&split_wide(252, 1)[0], 252, 126);
        check(&apart(25, 20), 25, 5);
    }

    #[test]
    fn a_series_is_as_many_entities_as_its_points_take() {
        let shape =
            ShapeTraffic { count: 60, rows_scanned: 1_440, rows_returned: 1_440, ..ShapeTraffic::default() };
        check(&as_series(&shape, 1.0)[0], 1_440, 60);
        check(&as_series(&shape, 1.0)[1], 60, 60);
        let long = ShapeTraffic { rows_scanned: 60 * 300, rows_returned: 60 * 300, ..shape };
        check(&as_series(&long, 1.0)[0], 18_000, 120);
    }
}
