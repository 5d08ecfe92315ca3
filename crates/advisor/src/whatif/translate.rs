//! From a filter on the table to one on the copy with other keys.
//!
//! The whole filter stays, with the old keys and Timestamp under the names that copies keep them by, so the answer is
//! the same. In front of it stand the comparisons of the new keys that follow from it, and these make the plan.
//!
//! There is one exception. Where a new key pads the numbers of an old one, a range of the old key was meant as a range of
//! numbers, and its comparison as text gave the wrong entities. It is replaced by that of the padded key.

use tavola_model::{
    Comparison, EdmType, EdmValue, Filter, FilterBuilder, FilterNode, NodeId, Operator, PropertyRef,
};

use super::copy::{OLD_PARTITION, OLD_ROW, OLD_TIMESTAMP, Templates};
use crate::findings::propose::after_prefix;
use crate::shape::conjuncts;
use crate::traffic::plain_text;

/// Partitions that a query is sent to at most, where it must ask each bucket.
const PARTITIONS_MAX: usize = 64;

/// The filter on the copy that keeps its keys: only the Timestamp has another name.
pub(super) fn on_copy(filter: Option<&Filter>) -> Option<Filter> {
    filter.map(|filter| {
        let mut builder = FilterBuilder::new();
        add_renamed(&mut builder, filter, &[], |property| match property {
            PropertyRef::Timestamp => PropertyRef::from_name(OLD_TIMESTAMP),
            other => other.clone(),
        });
        builder.finish()
    })
}

/// The filter on the copy with the new keys.
pub(super) fn translate(filter: Option<&Filter>, templates: &Templates) -> Option<Translated> {
    let filter = filter?;
    let compared = conjuncts(filter);
    let known = |name: &str| {
        let equal = |comparison: &&&Comparison| {
            comparison.property.name() == name && comparison.operator == Operator::Eq
        };
        compared.iter().find(equal).map(|comparison| plain_text(comparison.literal()))
    };
    let mut bounds = Bounds::default();
    match templates.partition.expand_all(known, PARTITIONS_MAX) {
        Some(partitions) => {
            bounds.partitions = partitions;
            if !bound_padded(&mut bounds, &templates.row, known, &compared) {
                bound_rows(&mut bounds, &templates.row, known, &compared);
            }
        }
        None => bounds.partition_range = range_of(&templates.partition, known, &compared),
    }
    let is_mended = !bounds.replaced.is_empty();
    Some(Translated { filter: with_bounds(filter, &bounds), is_mended })
}

/// A filter on the copy with the new keys.
pub(super) struct Translated {
    pub filter: Filter,
    /// Whether it compares numbers that the old one compared as text.
    pub is_mended: bool,
}

/// What is known of the new keys.
#[derive(Default)]
struct Bounds<'a> {
    /// One of these; none means that all must be read.
    partitions: Vec<String>,
    /// From one and before another.
    partition_range: Vec<(Operator, String)>,
    rows: Vec<(Operator, String)>,
    /// Comparisons of old keys that the new ones stand for.
    replaced: Vec<&'a Comparison>,
}

/// Bounds by the numbers of an old key, if the new one pads them; false if it does not, or they are not compared.
fn bound_padded<'a>(
    bounds: &mut Bounds<'a>,
    template: &crate::Template,
    known: impl Fn(&str) -> Option<String>,
    compared: &[&'a Comparison],
) -> bool {
    let start = template.start(known);
    let Some(open) = start.open.filter(|open| open.is_padded_key()) else { return false };
    for comparison in compared.iter().filter(|comparison| comparison.property.name() == open.property) {
        let Some((value, _)) = open.sorted(&plain_text(comparison.literal())) else { continue };
        let key = format!("{}{value}", start.text);
        // What follows the number in the key does not matter: all numbers have as many digits.
        let bound = match comparison.operator {
            Operator::Ge => (Operator::Ge, key),
            Operator::Gt => (Operator::Ge, after_prefix(&key)),
            Operator::Lt => (Operator::Lt, key),
            Operator::Le => (Operator::Lt, after_prefix(&key)),
            Operator::Eq | Operator::Ne => continue,
        };
        bounds.rows.push(bound);
        bounds.replaced.push(comparison);
    }
    !bounds.replaced.is_empty()
}

fn bound_rows(
    bounds: &mut Bounds<'_>,
    template: &crate::Template,
    known: impl Fn(&str) -> Option<String>,
    compared: &[&Comparison],
) {
    bounds.rows = range_of(template, known, compared);
}

/// The bounds of the keys of a template that follow from the comparisons: the key itself where all of it is known.
fn range_of(
    template: &crate::Template,
    known: impl Fn(&str) -> Option<String>,
    compared: &[&Comparison],
) -> Vec<(Operator, String)> {
    let start = template.start(known);
    let Some(open) = &start.open else { return vec![(Operator::Eq, start.text)] };
    let (mut lower, mut upper) = (None, None);
    for comparison in compared.iter().filter(|comparison| comparison.property.name() == open.property) {
        // Numbers and times that are written as they are do not sort as texts.
        if open.is_plain() && comparison.literal_type() != EdmType::String {
            continue;
        }
        let Some((value, is_backwards)) = open.sorted(&plain_text(comparison.literal())) else { continue };
        let key = format!("{}{value}", start.text);
        let operator = if is_backwards { comparison.operator.mirrored() } else { comparison.operator };
        match operator {
            // Whatever follows the value, it is not before the value itself.
            Operator::Ge | Operator::Gt => lower = Some(key),
            // And not behind all that begins with it.
            Operator::Le | Operator::Lt => upper = Some(after_prefix(&key)),
            Operator::Eq | Operator::Ne => {}
        }
    }
    if !start.text.is_empty() {
        upper = upper.or_else(|| Some(after_prefix(&start.text)));
        lower = lower.or(Some(start.text));
    }
    let lower = lower.map(|lower| (Operator::Ge, lower));
    lower.into_iter().chain(upper.map(|upper| (Operator::Lt, upper))).collect()
}

fn with_bounds(filter: &Filter, bounds: &Bounds<'_>) -> Filter {
    let mut builder = FilterBuilder::new();
    let mut parts = Vec::new();
    let compare = |builder: &mut FilterBuilder, property, operator, value: &str| {
        builder.add(FilterNode::Compare(Comparison::new(property, operator, EdmValue::String(value))))
    };
    let partitions: Vec<NodeId> = bounds
        .partitions
        .iter()
        .map(|partition| compare(&mut builder, PropertyRef::PartitionKey, Operator::Eq, partition))
        .collect();
    parts.extend(joined(&mut builder, partitions, FilterNode::Or));
    for (operator, partition) in &bounds.partition_range {
        parts.push(compare(&mut builder, PropertyRef::PartitionKey, *operator, partition));
    }
    for (operator, row) in &bounds.rows {
        parts.push(compare(&mut builder, PropertyRef::RowKey, *operator, row));
    }
    parts.push(add_renamed(&mut builder, filter, &bounds.replaced, |property| match property {
        PropertyRef::PartitionKey => PropertyRef::from_name(OLD_PARTITION),
        PropertyRef::RowKey => PropertyRef::from_name(OLD_ROW),
        PropertyRef::Timestamp => PropertyRef::from_name(OLD_TIMESTAMP),
        PropertyRef::Named(name) => PropertyRef::Named(name.clone()),
    }));
    joined(&mut builder, parts, FilterNode::And);
    builder.finish()
}

fn joined(
    builder: &mut FilterBuilder,
    parts: Vec<NodeId>,
    join: fn(NodeId, NodeId) -> FilterNode,
) -> Option<NodeId> {
    parts.into_iter().reduce(|left, right| builder.add(join(left, right)))
}

/// Adds all nodes of a filter, with other names for some properties and without some comparisons, which must be ones that
/// all entities have to meet; gives its root.
fn add_renamed(
    builder: &mut FilterBuilder,
    filter: &Filter,
    replaced: &[&Comparison],
    rename: impl Fn(&PropertyRef) -> PropertyRef,
) -> NodeId {
    let mut places: Vec<NodeId> = Vec::with_capacity(filter.nodes().len());
    for node in filter.nodes() {
        let place = |id: &NodeId| places[id.index()];
        let node = match node {
            FilterNode::Compare(comparison) if replaced.iter().any(|one| std::ptr::eq(*one, comparison)) => {
                FilterNode::Constant(true)
            }
            FilterNode::Compare(comparison) => FilterNode::Compare(Comparison::new(
                rename(&comparison.property),
                comparison.operator,
                comparison.literal(),
            )),
            FilterNode::Constant(flag) => FilterNode::Constant(*flag),
            FilterNode::And(left, right) => FilterNode::And(place(left), place(right)),
            FilterNode::Or(left, right) => FilterNode::Or(place(left), place(right)),
            FilterNode::Not(inner) => FilterNode::Not(place(inner)),
        };
        places.push(builder.add(node));
    }
    places.pop().expect("a filter has at least one node")
}
