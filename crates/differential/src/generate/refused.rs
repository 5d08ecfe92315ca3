//! Entity bodies that the service refuses, or takes although they look as if it should not, each with its name.

use fastrand::Rng;

use super::entity::{Key, whole};
use super::pick;

/// What is wrong with a body of an insert.
pub struct Refused {
    pub case: &'static str,
    pub body: String,
}

/// Cases whose body is a whole entity with these further members.
const MEMBERS: [(&str, &str); 23] = [
    ("Guid in capitals", r#""X@odata.type":"Edm.Guid","X":"C9DA6455-213D-42C9-9A79-3E9149A57833""#),
    ("Int64 as a number", r#""X@odata.type":"Edm.Int64","X":5"#),
    ("Int32 as text", r#""X@odata.type":"Edm.Int32","X":"12345""#),
    ("Int32 that is too large", r#""X@odata.type":"Edm.Int32","X":2147483648"#),
    ("Int64 that is too large", r#""X@odata.type":"Edm.Int64","X":"9223372036854775808""#),
    ("untyped number beyond Int32", r#""X":1599148530067"#),
    ("Double as text", r#""X@odata.type":"Edm.Double","X":"1.5""#),
    ("Double as an integer", r#""X@odata.type":"Edm.Double","X":5"#),
    ("Boolean as text", r#""X@odata.type":"Edm.Boolean","X":"False""#),
    ("Guid that is none", r#""X@odata.type":"Edm.Guid","X":"not-a-guid""#),
    ("Binary that is not base64", r#""X@odata.type":"Edm.Binary","X":"***""#),
    ("DateTime that is none", r#""X@odata.type":"Edm.DateTime","X":"yesterday""#),
    ("DateTime before 1601", r#""X@odata.type":"Edm.DateTime","X":"1600-12-31T23:59:59Z""#),
    ("unknown type", r#""X@odata.type":"Edm.Nothing","X":"1""#),
    ("object as a value", r#""X":{"a":1}"#),
    ("array as a value", r#""X":[1]"#),
    ("property name with a dash", r#""a-b":1"#),
    ("property name that starts with a digit", r#""1a":1"#),
    ("Timestamp given", r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":"2001-01-01T00:00:00Z""#),
    ("metadata given", r#""odata.etag":"W/\"x\"","odata.type":"a.b","odata.id":"c""#),
    ("text with its type", r#""X@odata.type":"Edm.String","X":"2020-01-01T00:00:00Z""#),
    ("property names that differ in case", r#""x":1,"X":2"#),
    ("null with a type", r#""X@odata.type":"Edm.Int64","X":null"#),
];

/// Cases whose body is this text.
const BODIES: [(&str, &str); 11] = [
    ("no PartitionKey", r#"{"RowKey":"r","X":1}"#),
    ("no RowKey", r#"{"PartitionKey":"p","X":1}"#),
    ("PartitionKey is null", r#"{"PartitionKey":null,"RowKey":"r"}"#),
    ("PartitionKey is a number", r#"{"PartitionKey":1,"RowKey":"r"}"#),
    (
        "RowKey is a Guid",
        r#"{"PartitionKey":"p","RowKey@odata.type":"Edm.Guid","RowKey":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#,
    ),
    ("key with a slash", r#"{"PartitionKey":"a/b","RowKey":"r"}"#),
    ("key with a question mark", r#"{"PartitionKey":"p","RowKey":"a?b"}"#),
    ("key with a control character", r#"{"PartitionKey":"p","RowKey":"a\u0001b"}"#),
    ("broken JSON", r#"{"PartitionKey":"p","RowKey":"#),
    ("no body", ""),
    ("array as body", r#"[{"PartitionKey":"p","RowKey":"r"}]"#),
];

/// Longest key in UTF-16 units, and longest text.
const KEY_UNITS_MAX: usize = 512;
const TEXT_UNITS_MAX: usize = 32 * 1024;
const NAME_UNITS_MAX: usize = 255;
const PROPERTIES_MAX: usize = 252;

/// Any of the cases.
pub fn any(rng: &mut Rng, key: &Key) -> Refused {
    let with = |member: &str| whole(key, &[member.to_owned()]);
    match rng.u32(..50) {
        0..24 => {
            let (case, member) = *pick(rng, &MEMBERS);
            Refused { case, body: with(member) }
        }
        24..38 => {
            let (case, body) = *pick(rng, &BODIES);
            Refused { case, body: body.to_owned() }
        }
        38..40 => Refused {
            case: "key that is too long",
            body: whole(&key.with_row("k".repeat(KEY_UNITS_MAX + 1)), &[]),
        },
        40..42 => Refused { case: "longest key", body: whole(&key.with_row("k".repeat(KEY_UNITS_MAX)), &[]) },
        42..44 => Refused {
            case: "property name that is too long",
            body: with(&format!(r#""{}":1"#, "n".repeat(NAME_UNITS_MAX + 1))),
        },
        44..46 => Refused { case: "too many properties", body: whole(key, &many(PROPERTIES_MAX + 1)) },
        46 => Refused { case: "most properties", body: whole(key, &many(PROPERTIES_MAX)) },
        47 => Refused {
            case: "text that is too long",
            body: with(&format!(r#""X":"{}""#, "x".repeat(TEXT_UNITS_MAX + 1))),
        },
        48 => {
            Refused { case: "longest text", body: with(&format!(r#""X":"{}""#, "x".repeat(TEXT_UNITS_MAX))) }
        }
        _ => {
            // Seventeen of the longest texts are more than a mebibyte.
            let texts: Vec<String> =
                (0..17).map(|index| format!(r#""X{index}":"{}""#, "x".repeat(TEXT_UNITS_MAX))).collect();
            Refused { case: "entity that is too large", body: whole(key, &texts) }
        }
    }
}

fn many(count: usize) -> Vec<String> {
    (0..count).map(|index| format!(r#""P{index}":{index}"#)).collect()
}
