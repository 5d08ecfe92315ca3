//! Filters on single rows, and compiled filters against the plain reading of their nodes.

use super::*;
use proptest::prelude::*;
use tavola_model::{DateTime, FILTER_COMPARISONS_MAX, PropertiesBuilder};
use tavola_odata::{holds, parse_filter};

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

#[test]
fn an_or_of_equalities_on_one_property_is_one_look_up() {
    let filter: Vec<String> = (0..FILTER_COMPARISONS_MAX).map(|n| format!("B eq 'text{n}'")).collect();
    let filter = parse_filter(&filter.join(" or ")).unwrap().unwrap();
    let mut matcher = Matcher::new(&filter);
    assert_eq!((matcher.named.len(), matcher.chains.len()), (1, 1));
    assert_eq!(matcher.chains[0].masks.len(), FILTER_COMPARISONS_MAX / WORD_BITS);
    for (text, expected) in [("text0", true), ("text511", true), ("text", false), ("text512", false)] {
        let mut builder = PropertiesBuilder::new();
        builder.push("B", EdmValue::String(text)).unwrap();
        let body = builder.finish().as_bytes().clone();
        let row = ScannedRow { partition: b"p", row: b"r", version: DateTime::MIN, body };
        assert_eq!(matcher.admits(&row), Some(expected), "{text}");
    }
}

#[test]
fn properties_that_a_row_does_not_have_are_not_looked_for_one_by_one() {
    let filter: Vec<String> = (0..FILTER_COMPARISONS_MAX).map(|n| format!("Q{n} eq '{n}'")).collect();
    let filter = parse_filter(&filter.join(" or ")).unwrap().unwrap();
    let matcher = Matcher::new(&filter);
    assert_eq!((matcher.named.len(), matcher.chains.len()), (FILTER_COMPARISONS_MAX, 1));
    assert_eq!(matcher.chains[0].masks.len(), FILTER_COMPARISONS_MAX / WORD_BITS);
}

/// A filter as text: comparisons of a few properties under `and`, `or` and `not`.
fn filter_text() -> impl Strategy<Value = String> {
    let property =
        prop::sample::select(vec!["PartitionKey", "RowKey", "Timestamp", "a", "b", "cc", "missing"]);
    let operator = prop::sample::select(vec!["eq", "ne", "gt", "ge", "lt", "le"]);
    let literal = prop::sample::select(vec![
        "''",
        "'p'",
        "'q'",
        "'r'",
        "0",
        "1",
        "2",
        "1L",
        "2L",
        "0.5",
        "1.0",
        "true",
        "false",
        "datetime'2020-01-01'",
        "X'01'",
    ]);
    let leaf = prop_oneof![
        8 => (property, operator, literal).prop_map(|(p, o, l)| format!("{p} {o} {l}")),
        1 => prop::sample::select(vec!["true", "false"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(6, 80, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(l, r)| format!("({l}) and ({r})")),
            (inner.clone(), inner.clone()).prop_map(|(l, r)| format!("({l}) or ({r})")),
            inner.prop_map(|text| format!("not ({text})")),
        ]
    })
}

fn property_value() -> impl Strategy<Value = EdmValue<'static>> {
    prop::sample::select(vec![
        EdmValue::String(""),
        EdmValue::String("p"),
        EdmValue::Int32(1),
        EdmValue::Int64(2),
        EdmValue::Double(0.5),
        EdmValue::Double(f64::NAN),
        EdmValue::Boolean(true),
        EdmValue::Binary(&[1]),
    ])
}

proptest! {
    #[test]
    fn a_compiled_filter_says_what_its_nodes_say(
        text in filter_text(),
        rows in prop::collection::vec(
            (prop::sample::select(vec!["", "p", "q"]), prop::sample::select(vec!["", "r", "s"]),
             prop::collection::vec((prop::sample::select(vec!["a", "b", "cc", "d"]), property_value()), 0..4)),
            1..8,
        ),
    ) {
        let filter = parse_filter(&text).unwrap().unwrap();
        let mut matcher = Matcher::new(&filter);
        for (partition, row_key, list) in rows {
            let mut builder = PropertiesBuilder::new();
            let mut properties: Vec<(&str, EdmValue<'_>)> = Vec::new();
            for (name, value) in list {
                if builder.push(name, value).is_ok() {
                    properties.push((name, value));
                }
            }
            let version = DateTime::parse("2020-01-01T00:00:00Z").unwrap();
            let body = builder.finish().as_bytes().clone();
            let row =
                ScannedRow { partition: partition.as_bytes(), row: row_key.as_bytes(), version, body };
            let expected = evaluate(filter.nodes(), &mut Vec::new(), |_, comparison| {
                let value = match &comparison.property {
                    PropertyRef::PartitionKey => Some(EdmValue::String(partition)),
                    PropertyRef::RowKey => Some(EdmValue::String(row_key)),
                    PropertyRef::Timestamp => Some(EdmValue::DateTime(version)),
                    PropertyRef::Named(name) => {
                        properties.iter().find(|(known, _)| *known == &**name).map(|(_, value)| *value)
                    }
                };
                value.is_some_and(|value| holds(value, comparison.operator, comparison.literal()))
            });
            prop_assert_eq!(matcher.admits(&row), Some(expected), "{}", text);
        }
    }
}
