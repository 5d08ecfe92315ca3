//! `$filter` text as clients send it, the answers recorded for it, and the round trip of generated filters.

use proptest::prelude::*;
use tavola_model::{
    Comparison, DateTime, EdmValue, ErrorCode, FILTER_COMPARISONS_MAX, FILTER_NESTING_MAX, Filter,
    FilterBuilder, FilterNode, Guid, NodeId, Operator, PropertyRef,
};
use tavola_odata::{parse_filter, write_filter};

/// Parses `text` and expects it to mean the same as `expected`, written with the fewest parentheses.
fn check(text: &str, expected: &str) {
    let filter = parse_filter(text).unwrap_or_else(|error| panic!("{text}: {error}")).expect("a filter");
    assert_eq!(write_filter(&filter), expected, "{text}");
}

fn check_error(text: &str, code: ErrorCode, message: &str) {
    let error = parse_filter(text).expect_err(text);
    assert_eq!((error.code, error.message.as_ref()), (code, message), "{text}");
}

#[test]
fn blank_text_is_no_filter() {
    assert_eq!(parse_filter("").unwrap(), None);
    assert_eq!(parse_filter(" \t").unwrap(), None);
}

#[test]
fn and_binds_tighter_than_or_and_not_looser_than_a_comparison() {
    check("a eq 1 or b eq 2 and c eq 3", "a eq 1 or b eq 2 and c eq 3");
    check("(a eq 1 or b eq 2) and c eq 3", "(a eq 1 or b eq 2) and c eq 3");
    check("a eq 1 and (b eq 2 and c eq 3)", "a eq 1 and (b eq 2 and c eq 3)");
    check("((a eq 1)) and ((b eq 2))", "a eq 1 and b eq 2");
    check("not a eq 1 and b eq 2", "not (a eq 1) and b eq 2");
    check("not not (a eq 1 or b eq 2)", "not (not (a eq 1 or b eq 2))");
}

#[test]
fn recorded_filters_of_the_clients_are_read() {
    check(
        "PartitionKey eq 'foo'' or RowKey eq ''bar2' and IsAdmin eq 'admin'",
        "PartitionKey eq 'foo'' or RowKey eq ''bar2' and IsAdmin eq 'admin'",
    );
    check(
        "(((RowKey eq '0004') and (Int32 eq 4)) or (((Int32 eq 2) and ((String eq 'wrong string') or (Bool eq true))) \
         and (not ((IntegerPrimitive eq 1) and (LongPrimitive eq 2147483648L))))) or (LongPrimitiveN eq 5L)",
        "RowKey eq '0004' and Int32 eq 4 or Int32 eq 2 and (String eq 'wrong string' or Bool eq true) and not \
         (IntegerPrimitive eq 1 and LongPrimitive eq 2147483648L) or LongPrimitiveN eq 5L",
    );
    check(
        "birthday eq datetime'1970-10-04T00:00:00.000000Z' and d lt datetime'2019-07-10T19:00:00.200Z'",
        "birthday eq datetime'1970-10-04T00:00:00Z' and d lt datetime'2019-07-10T19:00:00.2Z'",
    );
    check("Binary eq X'0102ff03' or b eq binary'00'", "Binary eq X'0102FF03' or b eq X'00'");
    check(
        "(PartitionKey eq 'somPartition') and (Int32 gt -1)",
        "PartitionKey eq 'somPartition' and Int32 gt -1",
    );
}

#[test]
fn a_literal_may_stand_on_the_left() {
    check("'x' eq PartitionKey", "PartitionKey eq 'x'");
    check("5 lt Age and 5 ge Age", "Age gt 5 and Age le 5");
    check("5 eq (Age)", "Age eq 5");
}

#[test]
fn every_form_of_a_number_is_read() {
    check("a eq 2147483647 or a eq -2147483648", "a eq 2147483647 or a eq -2147483648");
    check("a eq 5l or a eq -9223372036854775808L", "a eq 5L or a eq -9223372036854775808L");
    check("a eq 1e5 or a eq 2d or a eq -1.5E-3", "a eq 100000.0 or a eq 2.0 or a eq -0.0015");
    check("a eq INF or a eq -INF or a eq NaN", "a eq INF or a eq -INF or a eq NaN");
}

#[test]
fn a_bare_boolean_is_a_filter() {
    check("Flag", "Flag eq true");
    check("not Flag and a eq 1", "not (Flag eq true) and a eq 1");
    check("true", "true");
    check("(a eq 1) eq false", "not (a eq 1)");
    check("true eq (a eq 1)", "a eq 1");
}

#[test]
fn comparisons_of_literals_are_decided_at_once() {
    check("1 eq 1 and 'a' gt 'b'", "true and false");
    check("true eq true", "true");
}

#[test]
fn syntax_errors_are_told_as_recorded() {
    let invalid = |text, message| check_error(text, ErrorCode::InvalidInput, message);
    invalid("aaa bbb ccc", "Syntax error at position 7 in 'aaa bbb ccc'.");
    invalid(
        "<class 'filter'>",
        "Syntax error: character '<' is not valid at position 0 in '<class 'filter'>'.",
    );
    invalid(
        "binary eq X'binary'",
        "Unrecognized 'Edm.Binary' literal 'X'binary'' at '10' in 'binary eq X'binary''.",
    );
    invalid(
        "a eq 5454161346626",
        "Unrecognized 'Edm.Int32' literal '5454161346626' at '5' in 'a eq 5454161346626'.",
    );
    invalid("a eq guid'x'", "Unrecognized 'Edm.Guid' literal 'guid'x'' at '5' in 'a eq guid'x''.");
    invalid(
        "a eq datetime'x'",
        "Unrecognized 'Edm.DateTime' literal 'datetime'x'' at '5' in 'a eq datetime'x''.",
    );
    invalid("a eq 1e999", "Unrecognized 'Edm.Double' literal '1e999' at '5' in 'a eq 1e999'.");
}

#[test]
fn other_syntax_errors_name_the_place_in_utf_16_units() {
    let invalid = |text, message| check_error(text, ErrorCode::InvalidInput, message);
    invalid("'\u{1F600}' eq", "Expression expected at position 7 in ''\u{1F600}' eq'.");
    invalid("a eq", "Expression expected at position 4 in 'a eq'.");
    invalid("()", "Expression expected at position 1 in '()'.");
    invalid("(a eq 1", "')' or operator expected at position 7 in '(a eq 1'.");
    invalid("(a eq 1 b)", "')' or operator expected at position 8 in '(a eq 1 b)'.");
    invalid("a eq 1)", "Syntax error at position 7 in 'a eq 1)'.");
    invalid("a eq 'x", "Unterminated string literal at position 7 in 'a eq 'x'.");
    invalid("a EQ 1", "Syntax error at position 4 in 'a EQ 1'.");
}

#[test]
fn questions_the_service_does_not_answer_are_refused() {
    for text in
        ["foo eq null", "null eq foo", "a eq b", "5", "'x' and a eq 1", "(a eq 1) gt true", "a eq 1.5m"]
    {
        check_error(text, ErrorCode::InvalidInput, ErrorCode::InvalidInput.message());
    }
    for text in ["startswith(Name,'a')", "substringof('a', b) eq true", "a add 1 eq 2", "a/b eq 1", "-a eq 1"]
    {
        check_error(text, ErrorCode::NotImplemented, ErrorCode::NotImplemented.message());
    }
}

#[test]
fn nesting_and_length_are_bounded() {
    let nested = |depth: usize| format!("{}a eq 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse_filter(&nested(FILTER_NESTING_MAX)).is_ok());
    assert_eq!(parse_filter(&nested(FILTER_NESTING_MAX + 1)).unwrap_err().code, ErrorCode::InvalidInput);
    assert!(parse_filter(&format!("{}a", "not ".repeat(FILTER_NESTING_MAX))).is_ok());
    assert!(parse_filter(&format!("{}a", "not ".repeat(FILTER_NESTING_MAX + 1))).is_err());
    let many = |count: usize| vec!["a eq 1"; count].join(" or ");
    assert!(parse_filter(&many(FILTER_COMPARISONS_MAX)).is_ok());
    assert_eq!(parse_filter(&many(FILTER_COMPARISONS_MAX + 1)).unwrap_err().code, ErrorCode::InvalidInput);
}

/// A filter as a tree, from which the list form is built in the order the parser builds it.
#[derive(Clone, Debug)]
enum Tree {
    Leaf(FilterNode),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Not(Box<Tree>),
}

fn build(tree: &Tree, builder: &mut FilterBuilder) -> NodeId {
    let node = match tree {
        Tree::Leaf(node) => node.clone(),
        Tree::And(left, right) => FilterNode::And(build(left, builder), build(right, builder)),
        Tree::Or(left, right) => FilterNode::Or(build(left, builder), build(right, builder)),
        Tree::Not(inner) => FilterNode::Not(build(inner, builder)),
    };
    builder.add(node)
}

fn any_operator() -> impl Strategy<Value = Operator> {
    use Operator::{Eq, Ge, Gt, Le, Lt, Ne};
    prop::sample::select(vec![Eq, Ne, Gt, Ge, Lt, Le])
}

fn any_comparison() -> impl Strategy<Value = FilterNode> {
    let property = prop_oneof![
        Just("PartitionKey".to_owned()),
        Just("Timestamp".to_owned()),
        "[A-Z_][a-zA-Z0-9_é\u{10400}]{0,5}"
    ];
    let make = |value: EdmValue<'_>, property: &str, operator: Operator| {
        FilterNode::Compare(Comparison::new(PropertyRef::from_name(property), operator, value))
    };
    (property, any_operator(), 0..8u8, "\\PC{0,6}|['a]{0,4}", any::<i64>(), any::<f64>()).prop_map(
        move |(property, operator, kind, text, number, double)| {
            let low = i32::try_from(number & 0x7FFF_FFFF).expect("31 bits");
            let ticks = number.unsigned_abs() % DateTime::MAX.ticks();
            let value = match kind {
                0 => EdmValue::String(&text),
                1 => EdmValue::Binary(text.as_bytes()),
                2 => EdmValue::Boolean(number % 2 == 0),
                3 => EdmValue::DateTime(DateTime::from_ticks(ticks).expect("in range")),
                4 => EdmValue::Double(if double.is_nan() { f64::INFINITY } else { double }),
                5 => EdmValue::Guid(Guid(u128::from(number.unsigned_abs()).to_le_bytes())),
                6 => EdmValue::Int32(if number < 0 { -low - 1 } else { low }),
                _ => EdmValue::Int64(number),
            };
            make(value, &property, operator)
        },
    )
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let leaf = prop_oneof![
        8 => any_comparison().prop_map(Tree::Leaf),
        1 => any::<bool>().prop_map(|flag| Tree::Leaf(FilterNode::Constant(flag))),
    ];
    let tree = leaf.prop_recursive(6, 32, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(l, r)| Tree::And(Box::new(l), Box::new(r))),
            (inner.clone(), inner.clone()).prop_map(|(l, r)| Tree::Or(Box::new(l), Box::new(r))),
            inner.prop_map(|tree| Tree::Not(Box::new(tree))),
        ]
    });
    tree.prop_map(|tree| {
        let mut builder = FilterBuilder::new();
        build(&tree, &mut builder);
        builder.finish()
    })
}

proptest! {
    #[test]
    fn a_written_filter_reads_back_the_same(filter in any_filter()) {
        let text = write_filter(&filter);
        prop_assert_eq!(parse_filter(&text).unwrap().unwrap(), filter, "{}", text);
    }

    #[test]
    fn arbitrary_text_never_panics(
        words in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec!["a", "eq", "ne", "and", "or", "not", "(", ")", "'x'", "1", "1.5", "2L", "-", "-I",
                    "datetime'", "guid'x'", "X'01'", "null", "true", "'", ",", "é", "\u{1F600}", "<", "1e", "0x", "."]).prop_map(str::to_owned),
                "\\PC{0,3}",
            ], 0..24),
        separator in prop::sample::select(vec!["", " "]),
    ) {
        let _ = parse_filter(&words.join(separator));
    }
}
