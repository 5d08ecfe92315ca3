//! Shapes of requests: a request with its literals replaced by `?`.
//!
//! Requests of one shape run alike, so they are counted together. A shape keeps property names, operators and the
//! prefix of a key that stands before a separator (`order_?`), because one table may hold several kinds of entities
//! by such prefixes. A prefix that may be a part of an id is not kept, so that ids do not make shapes.

use serde::Serialize;
use tavola_model::{Comparison, EdmValue, Filter, FilterNode, Operator, PropertyRef};
use tavola_telemetry::QueryTarget;

/// Bytes of a shape; longer ones are cut.
const SHAPE_BYTES_MAX: usize = 400;
/// Characters of a prefix that is kept.
const PREFIX_CHARS_MAX: usize = 16;
/// What separates a prefix from the rest of a key.
pub(crate) const SEPARATORS: [char; 4] = ['|', '_', '-', ':'];

/// A request with its literals left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Shape(pub String);

impl Shape {
    /// The shape that stands for all that are too rare to be counted on their own.
    pub const OTHER: &'static str = "other";

    /// The shape of a query.
    pub fn of_query(query: &QueryTarget) -> Self {
        let mut text = match &query.filter {
            Some(filter) => filter_shape(filter),
            None => "everything".to_owned(),
        };
        if query.top.is_some() {
            text.push_str(" top ?");
        }
        if !query.select.is_empty() {
            text.push_str(" select ");
            text.push_str(&query.select.join(","));
        }
        cut(&mut text, SHAPE_BYTES_MAX);
        Self(text)
    }
}

/// Shortens a text at a character boundary.
pub(crate) fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let end = (0..=bytes_max - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}

/// The parts of an `and` or `or`, so that a chain of one operator is one list.
enum Part {
    Leaf(String),
    Chain(&'static str, Vec<String>),
}

impl Part {
    fn into_operand(self) -> String {
        match self {
            Self::Leaf(text) => text,
            Self::Chain(word, parts) => format!("({})", parts.join(word)),
        }
    }

    fn into_links(self, word: &'static str) -> Vec<String> {
        match self {
            Self::Chain(own, parts) if own == word => parts,
            other => vec![other.into_operand()],
        }
    }
}

fn filter_shape(filter: &Filter) -> String {
    let mut parts: Vec<Option<Part>> = Vec::with_capacity(filter.nodes().len());
    for node in filter.nodes() {
        let mut take = |index: usize| parts[index].take().unwrap_or(Part::Leaf("?".to_owned()));
        let part = match node {
            FilterNode::Constant(flag) => Part::Leaf(flag.to_string()),
            FilterNode::Compare(comparison) => Part::Leaf(comparison_shape(comparison)),
            FilterNode::Not(inner) => Part::Leaf(format!("not {}", take(inner.index()).into_operand())),
            FilterNode::And(left, right) => chain(" and ", take(left.index()), take(right.index())),
            FilterNode::Or(left, right) => chain(" or ", take(left.index()), take(right.index())),
        };
        parts.push(Some(part));
    }
    match parts.pop().flatten() {
        Some(Part::Leaf(text)) => text,
        Some(Part::Chain(word, links)) => links.join(word),
        None => String::new(),
    }
}

/// Joins two parts. A comparison that comes several times counts as one: lists of keys differ in length only.
fn chain(word: &'static str, left: Part, right: Part) -> Part {
    let mut links = left.into_links(word);
    for link in right.into_links(word) {
        if links.len() < 32 && !links.contains(&link) {
            links.push(link);
        }
    }
    if links.len() == 1 { Part::Leaf(links.remove(0)) } else { Part::Chain(word, links) }
}

fn comparison_shape(comparison: &Comparison) -> String {
    let literal = match (&comparison.property, comparison.literal()) {
        (PropertyRef::PartitionKey | PropertyRef::RowKey, EdmValue::String(text)) => match prefix(text) {
            Some(prefix) => format!("'{prefix}?'"),
            None => "?".to_owned(),
        },
        _ => "?".to_owned(),
    };
    format!("{} {} {literal}", comparison.property.name(), comparison.operator.as_str())
}

/// The part of a key up to its first separator, with it, if it reads like a word and not like a part of an id.
pub(crate) fn prefix(key: &str) -> Option<&str> {
    let end = key.find(SEPARATORS)?;
    let word = &key[..end];
    let is_word = !word.is_empty()
        && word.chars().count() <= PREFIX_CHARS_MAX
        && word.chars().all(|c| c.is_alphabetic())
        && !(word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit()));
    is_word.then(|| &key[..=end])
}

/// What a filter compares: the parts of an outermost `and`, or the one comparison it is.
pub(crate) fn conjuncts(filter: &Filter) -> Vec<&Comparison> {
    compared_from(filter, filter.nodes().len() - 1)
}

/// The same for the part of a filter below one of its nodes.
fn compared_from(filter: &Filter, root: usize) -> Vec<&Comparison> {
    let nodes = filter.nodes();
    let mut found = Vec::new();
    let mut rest = vec![root];
    while let Some(index) = rest.pop() {
        match &nodes[index] {
            FilterNode::Compare(comparison) => found.push(comparison),
            FilterNode::And(left, right) => rest.extend([right.index(), left.index()]),
            FilterNode::Constant(_) | FilterNode::Or(..) | FilterNode::Not(_) => {}
        }
    }
    found
}

/// The alternatives of a filter: the parts of the first `or` that its outermost `and` holds, or that it is. Each is given
/// by what it compares.
pub(crate) fn alternatives(filter: &Filter) -> Vec<Vec<&Comparison>> {
    let nodes = filter.nodes();
    let mut rest = vec![nodes.len() - 1];
    let mut found = Vec::new();
    while let Some(index) = rest.pop() {
        match &nodes[index] {
            FilterNode::And(left, right) => rest.extend([right.index(), left.index()]),
            FilterNode::Or(left, right) => {
                found = vec![left.index(), right.index()];
                break;
            }
            FilterNode::Compare(_) | FilterNode::Constant(_) | FilterNode::Not(_) => {}
        }
    }
    let mut parts = Vec::new();
    found.reverse();
    while let Some(index) = found.pop() {
        match &nodes[index] {
            FilterNode::Or(left, right) => found.extend([right.index(), left.index()]),
            FilterNode::Compare(_) | FilterNode::And(..) | FilterNode::Constant(_) | FilterNode::Not(_) => {
                parts.push(compared_from(filter, index));
            }
        }
    }
    parts
}

/// The one partition that a filter asks for, if it asks for one.
pub(crate) fn partition_of(filter: &Filter) -> Option<&str> {
    conjuncts(filter).into_iter().find_map(|comparison| {
        match (&comparison.property, comparison.operator, comparison.literal()) {
            (PropertyRef::PartitionKey, Operator::Eq, EdmValue::String(text)) => Some(text),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_odata::parse_filter;

    fn check(filter: &str, expected: &str) {
        let query = QueryTarget {
            filter: parse_filter(filter).unwrap(),
            select: Vec::new(),
            top: None,
            is_continuation: false,
        };
        assert_eq!(Shape::of_query(&query).0, expected, "{filter}");
    }

    #[test]
    fn literals_are_left_out_and_prefixes_of_keys_kept() {
        check("PartitionKey eq 'Sales' and LastName eq 'Smith'", "PartitionKey eq ? and LastName eq ?");
        check("PartitionKey eq 'dept_Sales' and Age gt 30", "PartitionKey eq 'dept_?' and Age gt ?");
        check("LastName eq 'a_b'", "LastName eq ?");
        check("", "everything");
        check("not (A eq 1) and (B eq 2 or C eq 3)", "not A eq ? and (B eq ? or C eq ?)");
    }

    #[test]
    fn ids_make_no_shapes() {
        check("RowKey eq 'deadbeef-0000'", "RowKey eq ?");
        check("RowKey eq '7f3a-11'", "RowKey eq ?");
        check("RowKey eq '2026-11-15'", "RowKey eq ?");
    }

    #[test]
    fn a_list_of_keys_has_one_shape_whatever_its_length() {
        let list =
            |count: usize| (0..count).map(|n| format!("RowKey eq '{n}'")).collect::<Vec<_>>().join(" or ");
        check(&format!("PartitionKey eq 'p' and ({})", list(2)), "PartitionKey eq ? and RowKey eq ?");
        check(&format!("PartitionKey eq 'p' and ({})", list(40)), "PartitionKey eq ? and RowKey eq ?");
    }

    #[test]
    fn a_shape_is_bounded() {
        let long = (0..200).map(|n| format!("P{n}é eq 1")).collect::<Vec<_>>().join(" and ");
        let query = QueryTarget {
            filter: parse_filter(&long).unwrap(),
            select: Vec::new(),
            top: None,
            is_continuation: false,
        };
        assert!(Shape::of_query(&query).0.len() <= SHAPE_BYTES_MAX);
    }
}
