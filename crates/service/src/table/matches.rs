//! Does a stored row satisfy the filter?
//!
//! Tested on the bytes of the row: keys compare as bytes, properties where they lie. A comparison with a
//! property that the entity does not have is false, whatever the operator, so its `not` is true.

use tavola_engine::ScannedRow;
use tavola_model::{Comparison, EdmValue, Filter, FilterNode, KeyBytes, Properties, PropertyRef};
use tavola_odata::holds;

/// A filter made ready to be tested on many rows.
pub(super) struct Matcher<'a> {
    nodes: &'a [FilterNode],
    /// For each node that compares a key with a string, that string as key bytes.
    key_literals: Vec<Option<KeyBytes>>,
    /// Room for the value of every node, kept from row to row.
    values: Vec<bool>,
}

impl<'a> Matcher<'a> {
    pub fn new(filter: &'a Filter) -> Self {
        let nodes = filter.nodes();
        let key_literals = nodes.iter().map(key_literal).collect();
        Self { nodes, key_literals, values: Vec::with_capacity(nodes.len()) }
    }

    /// Whether the row satisfies the filter; `None` if a property it asks for cannot be read.
    pub fn admits(&mut self, row: &ScannedRow<'_>) -> Option<bool> {
        let key_literals = &self.key_literals;
        let mut is_damaged = false;
        let admitted = evaluate(self.nodes, &mut self.values, |index, comparison| {
            let operator = comparison.operator;
            let compare_key = |stored: &[u8]| match &key_literals[index] {
                Some(literal) => operator.admits(stored.cmp(literal.as_slice())),
                // Keys are strings: against another type any string stands like every other.
                None => holds(EdmValue::String(""), operator, comparison.literal()),
            };
            match &comparison.property {
                PropertyRef::PartitionKey => compare_key(row.partition),
                PropertyRef::RowKey => compare_key(row.row),
                PropertyRef::Timestamp => {
                    holds(EdmValue::DateTime(row.version), operator, comparison.literal())
                }
                PropertyRef::Named(name) => match Properties::peek(&row.body, name) {
                    Some(value) => value.is_some_and(|value| holds(value, operator, comparison.literal())),
                    None => {
                        is_damaged = true;
                        false
                    }
                },
            }
        });
        (!is_damaged).then_some(admitted)
    }
}

/// The value of a filter whose comparisons `test` decides, given their place among the nodes.
pub(super) fn evaluate(
    nodes: &[FilterNode],
    values: &mut Vec<bool>,
    mut test: impl FnMut(usize, &Comparison) -> bool,
) -> bool {
    values.clear();
    for (index, node) in nodes.iter().enumerate() {
        let value = match node {
            FilterNode::Constant(flag) => *flag,
            FilterNode::Compare(comparison) => test(index, comparison),
            FilterNode::And(left, right) => values[left.index()] && values[right.index()],
            FilterNode::Or(left, right) => values[left.index()] || values[right.index()],
            FilterNode::Not(inner) => !values[inner.index()],
        };
        values.push(value);
    }
    values.last().copied().expect("a filter has at least one node")
}

fn key_literal(node: &FilterNode) -> Option<KeyBytes> {
    let FilterNode::Compare(comparison) = node else { return None };
    match (&comparison.property, comparison.literal()) {
        (PropertyRef::PartitionKey | PropertyRef::RowKey, EdmValue::String(text)) => {
            Some(KeyBytes::from_text(text))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::{DateTime, PropertiesBuilder};
    use tavola_odata::parse_filter;

    /// Tests the filter on one entity: keys `p` and `r`, written in 2020, with one property of each kind.
    fn check(filter: &str, expected: bool) {
        let mut builder = PropertiesBuilder::new();
        let list = [
            ("age", EdmValue::Int32(39)),
            ("big", EdmValue::Int64(5_000_000_000)),
            ("ratio", EdmValue::Double(3.5)),
            ("married", EdmValue::Boolean(true)),
            ("name", EdmValue::String("Zoë")),
            ("data", EdmValue::Binary(&[1, 2, 255])),
            ("born", EdmValue::DateTime(DateTime::parse("1970-10-04").unwrap())),
            ("id", EdmValue::Guid(tavola_model::Guid([7; 16]))),
        ];
        list.iter().for_each(|(name, value)| builder.push(name, *value).unwrap());
        let version = DateTime::parse("2020-01-01T01:04:00Z").unwrap();
        let body = builder.finish().as_bytes().clone();
        let row = ScannedRow { partition: b"p", row: b"r", version, body };
        let filter = parse_filter(filter).unwrap().unwrap();
        let text = tavola_odata::write_filter(&filter);
        assert_eq!(Matcher::new(&filter).admits(&row), Some(expected), "{text}");
    }

    #[test]
    fn values_of_every_type_compare_with_literals_of_their_type() {
        check("age lt 40 and age ge 39 and age ne 38", true);
        check("big eq 5000000000L and big gt 5", true);
        check("ratio gt 3.03 and ratio lt 4 and ratio le 3.5", true);
        check("married eq true and married ge false", true);
        check("name eq 'Zoë' and name gt 'Zo'", true);
        check("data eq X'0102ff' and data lt X'0103'", true);
        check("born eq datetime'1970-10-04T00:00:00.000000Z'", true);
        check("id eq guid'07070707-0707-0707-0707-070707070707'", true);
        check("Timestamp ge datetime'2020-01-01T01:04:00Z' and Timestamp lt datetime'2020-01-02'", true);
        check("PartitionKey eq 'p' and RowKey lt 's' and RowKey ne 'q'", true);
        check("PartitionKey eq 5 or RowKey lt 5", false);
    }

    #[test]
    fn a_missing_property_makes_any_comparison_false_and_its_not_true() {
        for operator in ["eq", "ne", "gt", "ge", "lt", "le"] {
            check(&format!("missing {operator} 'x'"), false);
            check(&format!("not (missing {operator} 'x')"), true);
        }
        check("missing", false);
    }

    #[test]
    fn a_damaged_row_is_told_if_the_filter_asks_for_its_properties() {
        let row = ScannedRow { partition: b"p", row: b"r", version: DateTime::MIN, body: "?".into() };
        let by_property = parse_filter("age eq 1 or RowKey eq 'r'").unwrap().unwrap();
        assert_eq!(Matcher::new(&by_property).admits(&row), None);
        let by_key = parse_filter("RowKey eq 'r'").unwrap().unwrap();
        assert_eq!(Matcher::new(&by_key).admits(&row), Some(true));
    }

    #[test]
    fn values_of_another_type_are_not_equal() {
        check("married eq 'True'", false);
        check("age eq '39'", false);
        check("age ne ''", true);
        check("age eq 39L", false);
        check("ratio lt ''", true);
    }
}
