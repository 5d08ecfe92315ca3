//! `$filter` texts that are no filters.

use crate::case::{Case, INVALID, Unanswered, case, get, get_no_utf8};

pub fn cases() -> Vec<Case> {
    let says = |name, filter: &str, message: String| {
        filtered(name, filter).refused(400, "InvalidInput").saying(message)
    };
    let syntax = |name, filter: &str, at: usize| {
        says(name, filter, format!("Syntax error at position {at} in '{filter}'."))
    };
    let invalid = |name, filter: &str| filtered(name, filter).refused(400, "InvalidInput");
    let unknown = |name, filter: &str| filtered(name, filter).refused(501, "NotImplemented");
    let nested = |depth: usize| format!("{}Age eq 1{}", "(".repeat(depth), ")".repeat(depth));
    let many = |count: usize| vec!["Age eq 1"; count].join(" or ");
    let literal = |name, edm_type: &str, literal: &str| {
        let filter = format!("a eq {literal}");
        let message = format!("Unrecognized '{edm_type}' literal '{literal}' at '5' in '{filter}'.");
        says(name, &filter, message)
    };
    vec![
        syntax("a filter of three words", "aaa bbb ccc", 7),
        says(
            "a filter that is a Python object",
            "<class 'filter'>",
            "Syntax error: character '<' is not valid at position 0 in '<class 'filter'>'.".into(),
        ),
        says(
            "a filter with an equals sign too many",
            "Age == 1",
            "Syntax error at position 5 in 'Age == 1'.".into(),
        ),
        invalid("a filter that ends in its operator", "Age eq"),
        invalid("a filter that begins with its operator", "eq 1"),
        invalid("a filter that ends in and", "Age eq 1 and"),
        invalid("an operator in capitals", "Age EQ 1"),
        invalid("a conjunction in capitals", "Age eq 1 AND Age eq 2"),
        invalid("a comparison of comparisons", "Age eq 1 eq 2"),
        invalid("a parenthesis that is not closed", "(Age eq 1"),
        invalid("a parenthesis that is not opened", "Age eq 1)"),
        invalid("parentheses around nothing", "()"),
        invalid("a text that does not close", "Name eq 'Ada"),
        invalid("a quote that is not doubled in a filter", "Name eq 'it's'"),
        invalid("double quotes", "Name eq \"Ada\""),
        invalid("a number with two points", "Age eq 1.2.3"),
        invalid("a number that ends in its exponent", "Age eq 1e"),
        invalid("an exclamation mark", "Age != 1"),
        invalid("a semicolon", "Age eq 1; Age eq 2"),
        invalid("a comment in a filter", "Age eq 1 -- x"),
        says("a comparison with null", "Age eq null", INVALID.into()),
        invalid("a comparison of two properties", "Age eq Name"),
        literal("an Int32 beyond its range in a filter", "Edm.Int32", "5454161346626"),
        literal("an Int64 beyond its range in a filter", "Edm.Int64", "92233720368547758080L"),
        literal("a date that is none in a filter", "Edm.DateTime", "datetime'yesterday'"),
        literal("a Guid that is none in a filter", "Edm.Guid", "guid'abc'"),
        says(
            "a Binary that is no hexadecimal in a filter",
            "binary eq X'binary'",
            "Unrecognized 'Edm.Binary' literal 'X'binary'' at '10' in 'binary eq X'binary''.".into(),
        ),
        literal("a Binary of half a byte in a filter", "Edm.Binary", "X'abc'"),
        unknown("a function", "startswith(Name,'A')"),
        unknown("a function compared", "length(Name) eq 3"),
        unknown("arithmetic", "Age add 1 eq 2"),
        unknown("a sign before a property", "-Age eq 1"),
        // How deep and how many the real service takes is not known; ours are bounds against abuse.
        invalid("parentheses too deep", &nested(2000)),
        invalid("too many comparisons", &many(513)),
        invalid("nots without end", &"not ".repeat(5000)),
        invalid("open parentheses without end", &"(".repeat(10_000)),
        // Not recorded; a query that cannot be decoded has no signature that could hold.
        case("a filter that is no UTF-8", get_no_utf8("/Seeded()?$filter="))
            .refused(403, "AuthenticationFailed"),
        case("a filter of tables that is none", get("/Tables?$filter=aaa%20bbb%20ccc"))
            .refused(400, "InvalidInput"),
        case("a function of tables", get("/Tables?$filter=startswith(TableName,'a')"))
            .refused(501, "NotImplemented"),
        filtered_partition(),
    ]
}

fn filtered(name: &'static str, filter: &str) -> Unanswered {
    case(name, get(format!("/Seeded()?$filter={}", encode(filter))))
}

fn filtered_partition() -> Case {
    case("a bad filter within a partition", get("/Seeded(PartitionKey='p')?$filter=Age%20eq"))
        .refused(400, "InvalidInput")
}

/// Percent-encodes everything that is not a letter or a digit.
fn encode(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}
