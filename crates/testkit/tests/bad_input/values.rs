//! Entities that can be read and break a rule of the data model: types, ranges, names, sizes, keys.

use crate::case::{Case, ENTITY, UNREADABLE, Unanswered, case, post, put};

pub fn cases() -> Vec<Case> {
    [types(), names(), sizes(), keys()].into_iter().flatten().collect()
}

fn insert(name: &'static str, members: &str) -> Unanswered {
    case(name, post("/Seeded", format!(r#"{{"PartitionKey":"x","RowKey":"x",{members}}}"#)))
}

fn types() -> Vec<Case> {
    let typed = |name, edm_type: &str, value: &str| {
        insert(name, &format!(r#""a@odata.type":"{edm_type}","a":{value}"#))
            .refused(400, "InvalidInput")
            .saying(UNREADABLE)
    };
    vec![
        typed("a type of another language", "EdmType.DATETIME", "\"2020-01-01\""),
        typed("a type in lower case", "edm.int32", "1"),
        typed("a type that tables do not have", "Edm.Decimal", "\"1\""),
        typed("an empty type", "", "\"1\""),
        insert("a type that is a number", r#""a@odata.type":1,"a":"x""#).refused(400, "InvalidInput"),
        typed("an Int64 without quotes", "Edm.Int64", "1844674403709551600"),
        typed("an Int64 one too large", "Edm.Int64", "\"9223372036854775808\""),
        typed("an Int64 one too small", "Edm.Int64", "\"-9223372036854775809\""),
        typed("an Int64 with a fraction", "Edm.Int64", "\"1.5\""),
        typed("an Int64 of nothing", "Edm.Int64", "\"\""),
        typed("an Int32 one too large", "Edm.Int32", "2147483648"),
        typed("an Int32 of words", "Edm.Int32", "\"many\""),
        typed("an Int32 with a fraction", "Edm.Int32", "1.5"),
        typed("a Boolean of words", "Edm.Boolean", "\"yes\""),
        typed("a Boolean that is a number", "Edm.Boolean", "1"),
        typed("a Double of words", "Edm.Double", "\"inf\""),
        typed("a Double that is true", "Edm.Double", "true"),
        typed("a Double beyond doubles", "Edm.Double", "\"1e400\""),
        typed("a Guid too short", "Edm.Guid", "\"c9da6455-213d-42c9-9a79\""),
        typed("a Guid of other letters", "Edm.Guid", "\"zzzzzzzz-213d-42c9-9a79-3e9149a57833\""),
        typed("a Binary that is no base64", "Edm.Binary", "\"***\""),
        typed("a Binary with a length that cannot be", "Edm.Binary", "\"AAAAA\""),
        typed("a Binary that is a number", "Edm.Binary", "1"),
        typed("a DateTime of words", "Edm.DateTime", "\"yesterday\""),
        typed("a DateTime with a day that is none", "Edm.DateTime", "\"2021-02-29T00:00:00Z\""),
        typed("a DateTime with an hour that is none", "Edm.DateTime", "\"2021-02-28T25:00:00Z\""),
        typed("a DateTime that is a number", "Edm.DateTime", "1600000000"),
        typed("a String that is a number", "Edm.String", "1"),
        // Not recorded; the first storable day is documented, and the code is that of values out of range.
        insert("a DateTime before 1601", r#""a@odata.type":"Edm.DateTime","a":"1600-12-31T23:59:59Z""#)
            .refused(400, "OutOfRangeInput"),
    ]
}

fn names() -> Vec<Case> {
    let invalid = |name, property: &str| {
        insert(name, &format!(r#""{property}":1"#)).refused(400, "PropertyNameInvalid")
    };
    vec![
        invalid("a property named by a number", "123"),
        invalid("a property with a dash", "a-b"),
        invalid("a property with a space", "a b"),
        invalid("a property with a dot", "a.b"),
        invalid("a property without a name", ""),
        invalid("a property named by a sign", "\u{20AC}"),
        insert("a property name of 256 letters", &format!(r#""{}":1"#, "n".repeat(256)))
            .refused(400, "PropertyNameTooLong")
            .saying("The property name exceeds the maximum allowed length (255)."),
        insert("a property given twice", r#""a":1,"a":2"#).refused(400, "DuplicatePropertiesSpecified"),
        case("a bad name in an update", put(ENTITY, r#"{"a-b":1}"#)).refused(400, "PropertyNameInvalid"),
        case("a property given twice in an update", put(ENTITY, r#"{"a":1,"a":1}"#))
            .refused(400, "DuplicatePropertiesSpecified"),
        case(
            "a bad name in a table that does not exist",
            post("/Missing", r#"{"PartitionKey":"x","RowKey":"x","a-b":1}"#),
        )
        .refused(404, "TableNotFound"),
    ]
}

fn sizes() -> Vec<Case> {
    let many = |count: usize| (0..count).map(|n| format!(r#""p{n}":{n}"#)).collect::<Vec<_>>().join(",");
    let text = |units: usize| format!(r#""a":"{}""#, "v".repeat(units));
    let binary = |bytes: usize| format!(r#""a@odata.type":"Edm.Binary","a":"{}""#, base64(bytes));
    let large: Vec<String> = (0..17).map(|n| format!(r#""p{n}":"{}""#, "v".repeat(32 * 1024))).collect();
    let too_many = "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.";
    vec![
        insert("253 properties", &many(253)).refused(400, "TooManyProperties").saying(too_many),
        insert("1,000 properties", &many(1000)).refused(400, "TooManyProperties").saying(too_many),
        case("253 properties in an update", put(ENTITY, format!("{{{}}}", many(253))))
            .refused(400, "TooManyProperties"),
        insert("a text of 32 Ki and one units", &text(32 * 1024 + 1)).refused(400, "PropertyValueTooLarge"),
        insert(
            "a text of 32 Ki and one units beyond the basic plane",
            &format!(r#""a":"{}v""#, "\u{1F600}".repeat(16 * 1024)),
        )
        .refused(400, "PropertyValueTooLarge"),
        insert("a Binary of 64 KiB and one byte", &binary(64 * 1024 + 1))
            .refused(400, "PropertyValueTooLarge"),
        insert("an entity of more than 1 MiB", &large.join(",")).refused(400, "EntityTooLarge"),
        case(
            "an update of more than 1 MiB",
            put("/Seeded(PartitionKey='x',RowKey='x')", format!("{{{}}}", large.join(","))),
        )
        .refused(400, "EntityTooLarge"),
    ]
}

/// So many zero bytes in base64; the count is one more than a multiple of three.
fn base64(bytes: usize) -> String {
    assert_eq!(bytes % 3, 2);
    format!("{}AAA=", "AAAA".repeat(bytes / 3))
}

fn keys() -> Vec<Case> {
    let keys = |name, partition: &str, row: &str| {
        case(name, post("/Seeded", format!(r#"{{"PartitionKey":{partition},"RowKey":{row}}}"#)))
    };
    let missing = "The values are not specified for all properties in the entity.";
    let long = format!("\"{}\"", "k".repeat(513));
    let guid = r#"{"PartitionKey@odata.type":"Edm.Guid","PartitionKey":
        "c9da6455-213d-42c9-9a79-3e9149a57833","RowKey":"x"}"#;
    vec![
        case("an entity without keys", post("/Seeded", "{}"))
            .refused(400, "PropertiesNeedValue")
            .saying(missing),
        case("an entity without a PartitionKey", post("/Seeded", r#"{"RowKey":"x"}"#))
            .refused(400, "PropertiesNeedValue")
            .saying(missing),
        case("an entity without a RowKey", post("/Seeded", r#"{"PartitionKey":"x"}"#))
            .refused(400, "PropertiesNeedValue")
            .saying(missing),
        keys("a PartitionKey that is null", "null", "\"x\"").refused(400, "PropertiesNeedValue"),
        keys("a RowKey that is null", "\"x\"", "null").refused(400, "PropertiesNeedValue"),
        case("keys in another case", post("/Seeded", r#"{"partitionkey":"x","rowkey":"x"}"#))
            .refused(400, "PropertiesNeedValue"),
        keys("a PartitionKey that is a number", "1", "\"x\"").refused(400, "InvalidInput"),
        keys("a RowKey that is true", "\"x\"", "true").refused(400, "InvalidInput"),
        keys("a RowKey that is an array", "\"x\"", "[]").refused(400, "InvalidInput"),
        case("a PartitionKey that is a Guid", post("/Seeded", guid)).refused(400, "InvalidInput"),
        keys("a slash in a key", "\"a/b\"", "\"x\"").refused(400, "OutOfRangeInput"),
        keys("a backslash in a key", "\"x\"", r#""a\\b""#).refused(400, "OutOfRangeInput"),
        keys("a number sign in a key", "\"a#b\"", "\"x\"").refused(400, "OutOfRangeInput"),
        keys("a question mark in a key", "\"x\"", "\"a?b\"").refused(400, "OutOfRangeInput"),
        keys("a tab in a key", r#""a\tb""#, "\"x\"").refused(400, "OutOfRangeInput"),
        keys("a NUL in a key", r#""a\u0000b""#, "\"x\"").refused(400, "OutOfRangeInput"),
        keys("a late control character in a key", r#""a\u0085b""#, "\"x\"").refused(400, "OutOfRangeInput"),
        keys("a lone surrogate in a key", r#""a\ud800""#, "\"x\"").refused(400, "InvalidInput"),
        keys("a PartitionKey of 513 units", &long, "\"x\"").refused(400, "KeyValueTooLarge"),
        keys("a RowKey of 513 units", "\"x\"", &long).refused(400, "KeyValueTooLarge"),
        case(
            "a PartitionKey given twice in the body",
            post("/Seeded", r#"{"PartitionKey":"x","PartitionKey":"y","RowKey":"x"}"#),
        )
        .refused(400, "DuplicatePropertiesSpecified"),
    ]
}
