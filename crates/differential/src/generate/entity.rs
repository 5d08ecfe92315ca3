//! Entities of every type, with the extremes of each.

use fastrand::Rng;

use super::{encode, percent, pick};

/// Keys of entities: few, so that requests meet the same entity.
const PARTITION_KEYS: [&str; 5] = ["p", "P", "it's", "a b", "ünï☃"];
const ROW_KEYS: [&str; 6] = ["r", "R", "", "100%", "r:1+2&x=y", "\u{1f600}"];

/// The key of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub partition: String,
    pub row: String,
}

impl Key {
    pub fn any(rng: &mut Rng) -> Self {
        Self { partition: (*pick(rng, &PARTITION_KEYS)).to_owned(), row: (*pick(rng, &ROW_KEYS)).to_owned() }
    }

    pub fn with_row(&self, row: impl Into<String>) -> Self {
        Self { partition: self.partition.clone(), row: row.into() }
    }

    /// `(PartitionKey='p',RowKey='r')`, encoded.
    pub fn predicate(&self) -> String {
        let quoted = |text: &str| encode(&text.replace('\'', "''"));
        format!("(PartitionKey='{}',RowKey='{}')", quoted(&self.partition), quoted(&self.row))
    }

    /// The name under which its ETags are remembered.
    pub fn subject(&self) -> String {
        format!("{}|{}", self.partition, self.row)
    }
}

/// A type of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The property that always has this type.
    pub name: &'static str,
    pub edm: &'static str,
    /// Values as they stand in JSON.
    values: &'static [&'static str],
    annotated: Annotated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Annotated {
    Always,
    /// Only where JSON alone would say another type.
    IfText,
    Never,
}

/// All types.
pub const KINDS: [Kind; 8] = [
    Kind {
        name: "Text",
        edm: "Edm.String",
        values: &[
            r#""""#,
            r#""plain""#,
            r#""it's""#,
            r#""ünï ☃ 😀""#,
            r#""a\nb\t\"c\\""#,
            r#""<&>""#,
            r#""Z""#,
        ],
        annotated: Annotated::Never,
    },
    Kind { name: "Flag", edm: "Edm.Boolean", values: &["true", "false"], annotated: Annotated::Never },
    Kind {
        name: "Small",
        edm: "Edm.Int32",
        values: &["0", "-1", "5", "2147483647", "-2147483648"],
        annotated: Annotated::Never,
    },
    Kind {
        name: "Large",
        edm: "Edm.Int64",
        values: &[
            r#""0""#,
            r#""5""#,
            r#""9223372036854775807""#,
            r#""-9223372036854775808""#,
            r#""5000000000""#,
        ],
        annotated: Annotated::Always,
    },
    Kind {
        name: "Ratio",
        edm: "Edm.Double",
        values: &[
            "0.5",
            "-1.5",
            "5.0",
            "1.1000000000000001",
            "1e20",
            "1.7976931348623157E+308",
            r#""NaN""#,
            r#""Infinity""#,
            r#""-Infinity""#,
        ],
        annotated: Annotated::IfText,
    },
    Kind {
        name: "When",
        edm: "Edm.DateTime",
        values: &[
            r#""2020-01-02T03:04:05Z""#,
            r#""2020-01-02T03:04:05.1234567Z""#,
            r#""2020-01-02T03:04:05.120Z""#,
            r#""1601-01-01T00:00:00Z""#,
            r#""9999-12-31T23:59:59.9999999Z""#,
        ],
        annotated: Annotated::Always,
    },
    Kind {
        name: "Id",
        edm: "Edm.Guid",
        values: &[
            r#""c9da6455-213d-42c9-9a79-3e9149a57833""#,
            r#""00000000-0000-0000-0000-000000000000""#,
            r#""d9da6455-213d-42c9-9a79-3e9149a57833""#,
        ],
        annotated: Annotated::Always,
    },
    Kind {
        name: "Bytes",
        edm: "Edm.Binary",
        values: &[r#""""#, r#""AQID""#, r#""AP/+""#],
        annotated: Annotated::Always,
    },
];

/// A property as it stands in a body: the annotation, if any, and the value.
pub fn property(rng: &mut Rng, name: &str, kind: &Kind) -> String {
    let value = *pick(rng, kind.values);
    let annotated = match kind.annotated {
        Annotated::Always => true,
        Annotated::IfText => value.starts_with('"'),
        Annotated::Never => percent(rng, 10),
    };
    let annotation =
        if annotated { format!(r#""{name}@odata.type":"{}","#, kind.edm) } else { String::new() };
    format!(r#"{annotation}"{name}":{value}"#)
}

/// Some properties, each at most once, and now and then one that is null.
pub fn properties(rng: &mut Rng) -> Vec<String> {
    let mut properties = Vec::new();
    for kind in &KINDS {
        if percent(rng, 35) {
            properties.push(property(rng, kind.name, kind));
        }
    }
    if percent(rng, 25) {
        let kind = pick(rng, &KINDS);
        properties.push(property(rng, "Mixed", kind));
    }
    if percent(rng, 10) {
        properties.push(r#""Gone":null"#.to_owned());
    }
    rng.shuffle(&mut properties);
    properties
}

/// The body of an insert.
pub fn whole(key: &Key, properties: &[String]) -> String {
    let mut members = vec![
        format!(r#""PartitionKey":{}"#, json_text(&key.partition)),
        format!(r#""RowKey":{}"#, json_text(&key.row)),
    ];
    members.extend_from_slice(properties);
    format!("{{{}}}", members.join(","))
}

/// The body of an update that leaves the keys to the URI.
pub fn partial(properties: &[String]) -> String {
    format!("{{{}}}", properties.join(","))
}

/// A text as JSON writes it.
pub fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
