//! Filters: one comparison of any property type with any literal type, or several of matching types.

use fastrand::Rng;

use super::pick;

/// A filter, and what to call it in the list.
pub struct Filter {
    pub text: String,
    pub case: String,
}

const OPERATORS: [&str; 6] = ["eq", "ne", "gt", "ge", "lt", "le"];

/// Property, its type, and literals of that type.
const LITERALS: [(&str, &str, &[&str]); 8] = [
    ("Text", "String", &["''", "'plain'", "'it''s'", "'M'"]),
    ("Flag", "Boolean", &["true", "false"]),
    ("Small", "Int32", &["0", "-1", "5", "2147483647"]),
    ("Large", "Int64", &["0L", "5L", "5000000000L", "-9223372036854775808L"]),
    ("Ratio", "Double", &["0.5", "5.0", "-1.5"]),
    ("When", "DateTime", &["datetime'2020-01-02T03:04:05Z'", "datetime'2020-01-02T03:04:05.1200000Z'"]),
    ("Id", "Guid", &["guid'c9da6455-213d-42c9-9a79-3e9149a57833'"]),
    ("Bytes", "Binary", &["X'010203'", "X'00fffe'", "binary'010203'"]),
];

const KEY_FILTERS: [&str; 7] = [
    "PartitionKey eq 'p'",
    "PartitionKey eq 'it''s' and RowKey ge 'R'",
    "PartitionKey gt 'P' and PartitionKey le 'p'",
    "RowKey eq 'r' or RowKey eq 'R'",
    "PartitionKey eq 'p' and (RowKey eq '' or RowKey gt 'r')",
    "not (PartitionKey eq 'p')",
    "PartitionKey ne 'a b' and RowKey lt 's'",
];

/// Any filter.
pub fn any(rng: &mut Rng) -> Filter {
    match rng.u32(..10) {
        0..3 => Filter { text: (*pick(rng, &KEY_FILTERS)).to_owned(), case: "filter on keys".to_owned() },
        3..6 => {
            let (text, kind) = matching(rng);
            Filter { text, case: format!("filter of {kind} with {kind}") }
        }
        6..8 => several(rng),
        _ => across_types(rng),
    }
}

/// A comparison of a property with a literal of another type, which no client asks on purpose.
fn across_types(rng: &mut Rng) -> Filter {
    let (property, kind, _) = *pick(rng, &LITERALS);
    let (_, literal_kind, literals) = *pick(rng, &LITERALS);
    let operator = *pick(rng, &OPERATORS);
    let text = format!("{property} {operator} {}", pick(rng, literals));
    let case = match kind == literal_kind {
        true => format!("filter of {kind} with {kind}"),
        false => format!("filter across types, {kind} with {literal_kind}"),
    };
    Filter { text, case }
}

fn matching(rng: &mut Rng) -> (String, &'static str) {
    let (property, kind, literals) = *pick(rng, &LITERALS);
    let operator = *pick(rng, &OPERATORS);
    (format!("{property} {operator} {}", pick(rng, literals)), kind)
}

/// Two or three comparisons of types on which nobody disagrees.
fn several(rng: &mut Rng) -> Filter {
    const AGREED: [&str; 7] = [
        "Small ge 0",
        "Small lt 5",
        "Text eq 'plain'",
        "Flag eq true",
        "PartitionKey ge 'a'",
        "RowKey ne 'r'",
        "Ratio gt 0.1",
    ];
    let word = |rng: &mut Rng| if rng.bool() { "and" } else { "or" };
    let (first, second, third) = (pick(rng, &AGREED), pick(rng, &AGREED), pick(rng, &AGREED));
    let text = match rng.u32(..3) {
        0 => format!("{first} {} {second}", word(rng)),
        1 => format!("{first} {} ({second} {} {third})", word(rng), word(rng)),
        _ => format!("({first}) {} {second} {} {third}", word(rng), word(rng)),
    };
    Filter { text, case: "filter of several comparisons".to_owned() }
}

/// Filters that are not filters, that ask for what the service does not have, or that are easily misread.
pub const ODD: [(&str, &str); 10] = [
    ("filter with an exponent", "Ratio gt 1e20"),
    ("filter that is not one", "aaa bbb ccc"),
    ("filter with an open string", "Text eq 'x"),
    ("filter with an open parenthesis", "(Text eq 'x'"),
    ("filter with an Int32 that is too large", "Small eq 5454161346626"),
    ("filter with null", "Text eq null"),
    ("filter with a function", "startswith(Text,'p')"),
    ("filter with bad binary", "Bytes eq X'0g'"),
    ("filter with a bad guid", "Id eq guid'xyz'"),
    ("filter with an unknown operator", "Small like 5"),
];
