//! Sequences about one table: it is made, filled, asked, changed and refused things.

use fastrand::Rng;
use http::Method;

use super::entity::{Key, partial, properties, whole};
use super::{Call, batch, encode, filter, percent, pick, refused};

const CALLS_MIN: usize = 10;
const CALLS_MAX: usize = 22;
const LEVELS: [&str; 4] = [
    "application/json;odata=nometadata",
    "application/json;odata=minimalmetadata",
    "application/json;odata=fullmetadata",
    "application/json",
];
const STALE_ETAG: &str = r#"W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'""#;

/// The calls of one sequence.
pub fn calls(rng: &mut Rng, number: u64) -> Vec<Call> {
    let table = format!("Diff{number}");
    let mut calls = vec![create(rng, &table, "")];
    for _ in 0..rng.usize(1..4) {
        let key = Key::any(rng);
        calls.push(insert(rng, &table, &key));
    }
    let count = rng.usize(CALLS_MIN..=CALLS_MAX);
    while calls.len() < count {
        let call = one(rng, &table);
        calls.push(call);
    }
    if percent(rng, 60) {
        calls.push(Call::new("Delete Table", "", Method::DELETE, format!("/Tables('{table}')")));
        calls.push(query(&table, "table that is gone", ""));
    }
    calls.into_iter().map(|call| with_common_headers(rng, call)).collect()
}

/// Where the level was not chosen on purpose, any will do.
fn with_common_headers(rng: &mut Rng, call: Call) -> Call {
    let chosen = call.headers.iter().any(|(name, _)| *name == "Accept");
    let call = if chosen { call } else { call.header("Accept", *pick(rng, &LEVELS)) };
    call.header("x-ms-version", "2020-12-06").header("DataServiceVersion", "3.0")
}

fn one(rng: &mut Rng, table: &str) -> Call {
    let key = Key::any(rng);
    match rng.u32(..100) {
        0..17 => insert(rng, table, &key),
        17..26 => {
            // A key of its own, so that nobody finds it taken.
            let key = key.with_row(format!("new{}", rng.u32(..1_000_000)));
            let refused = refused::any(rng, &key);
            insert_of(table, refused.case, refused.body)
        }
        26..40 => get(rng, table, &key),
        40..55 => update(rng, table, &key),
        55..63 => delete(rng, table, &key),
        63..80 => ask(rng, table),
        80..90 => batch::call(rng, table),
        90..94 => acl(rng, table),
        94..98 => about_tables(rng, table),
        _ => odd(rng, table, &key),
    }
}

fn insert(rng: &mut Rng, table: &str, key: &Key) -> Call {
    let body = whole(key, &properties(rng));
    let call = insert_of(table, "", body).about(key.subject());
    match rng.u32(..4) {
        0 => call.header("Prefer", "return-no-content"),
        1 => call.header("Prefer", "return-content"),
        _ => call,
    }
}

fn insert_of(table: &str, case: &str, body: String) -> Call {
    Call::new("Insert Entity", case, Method::POST, format!("/{table}")).body("application/json", body)
}

fn get(rng: &mut Rng, table: &str, key: &Key) -> Call {
    let target = format!("/{table}{}", key.predicate());
    let (case, query) = match rng.u32(..12) {
        0 => ("select", "?$select=Text,Small"),
        1 => ("select of what is not there", "?$select=Text,Nowhere"),
        2 => ("select of keys", "?$select=PartitionKey,RowKey,Timestamp"),
        3 => ("format in the query", "?$format=application/json;odata=nometadata"),
        _ => ("", ""),
    };
    let call = Call::new("Get Entity", case, Method::GET, format!("{target}{query}")).about(key.subject());
    if percent(rng, 3) {
        return Call { case: "Atom".to_owned(), ..call }.header("Accept", "application/atom+xml");
    }
    call
}

fn update(rng: &mut Rng, table: &str, key: &Key) -> Call {
    let (operation, method, tunnelled) = *pick(
        rng,
        &[
            ("Update Entity", "PUT", false),
            ("Merge Entity", "MERGE", false),
            ("Merge Entity", "PATCH", false),
            ("Update Entity", "PUT", true),
            ("Merge Entity", "MERGE", true),
        ],
    );
    let body = if rng.bool() { whole(key, &properties(rng)) } else { partial(&properties(rng)) };
    let (case, condition) = condition(rng, key);
    let operation = match (operation, condition.is_some()) {
        ("Update Entity", false) => "Insert Or Replace Entity",
        ("Merge Entity", false) => "Insert Or Merge Entity",
        (operation, _) => operation,
    };
    let verb = if tunnelled { "POST" } else { method };
    let case = if tunnelled { format!("tunnelled {case}").trim().to_owned() } else { case.to_owned() };
    let method_of = |verb: &str| Method::from_bytes(verb.as_bytes()).unwrap_or(Method::PUT);
    let mut call = Call::new(operation, case, method_of(verb), format!("/{table}{}", key.predicate()))
        .body("application/json", body)
        .about(key.subject());
    if tunnelled {
        call = call.header("X-HTTP-Method", method);
    }
    match condition {
        Some(condition) => call.header("If-Match", condition),
        None => call,
    }
}

/// A condition of a write, and its name where it is out of the ordinary.
fn condition(rng: &mut Rng, key: &Key) -> (&'static str, Option<String>) {
    match rng.u32(..20) {
        0..7 => ("", None),
        7..12 => ("", Some("*".to_owned())),
        12..16 => ("", Some(format!("<<etag:{}>>", key.subject()))),
        16..18 => ("", Some(format!("<<first-etag:{}>>", key.subject()))),
        18 => ("", Some(STALE_ETAG.to_owned())),
        _ => ("condition that is no ETag", Some("nonsense".to_owned())),
    }
}

fn delete(rng: &mut Rng, table: &str, key: &Key) -> Call {
    let (case, condition) = condition(rng, key);
    let case = if condition.is_none() { "no condition" } else { case };
    let call = Call::new("Delete Entity", case, Method::DELETE, format!("/{table}{}", key.predicate()))
        .about(key.subject());
    match condition {
        Some(condition) => call.header("If-Match", condition),
        None => call,
    }
}

fn ask(rng: &mut Rng, table: &str) -> Call {
    match rng.u32(..20) {
        0..11 => {
            let filter = filter::any(rng);
            let mut parameters = format!("?$filter={}", encode(&filter.text));
            if percent(rng, 20) {
                parameters.push_str("&$select=PartitionKey,RowKey,Text");
            }
            query(table, &filter.case, &parameters)
        }
        11..13 => {
            let (case, text) = *pick(rng, &filter::ODD);
            query(table, case, &format!("?$filter={}", encode(text)))
        }
        13..15 => query(table, "page", &format!("?$top={}", rng.u32(1..4))),
        15 => {
            query(table, "next page", "?$top=1&NextPartitionKey=<<next-partition>>&NextRowKey=<<next-row>>")
        }
        16 => query(table, "", ""),
        17 => {
            let (case, parameters) = *pick(
                rng,
                &[
                    ("top of 0", "?$top=0"),
                    ("top that is too large", "?$top=1001"),
                    ("top below 0", "?$top=-1"),
                    ("top that is no number", "?$top=many"),
                    ("empty filter", "?$filter="),
                    ("empty select", "?$select="),
                    ("select of everything", "?$select=*"),
                    ("select with spaces", "?$select=Text,%20Small"),
                ],
            );
            query(table, case, parameters)
        }
        18 => query("Nowhere", "table that is not there", ""),
        _ => query(table, "Atom", "").header("Accept", "application/atom+xml"),
    }
}

fn query(table: &str, case: &str, parameters: &str) -> Call {
    Call::new("Query Entities", case, Method::GET, format!("/{table}(){parameters}"))
}

fn acl(rng: &mut Rng, table: &str) -> Call {
    let set = |case: &'static str, body: &str| {
        Call::new("Set Table ACL", case, Method::PUT, format!("/{table}?comp=acl"))
            .body("application/xml", body)
            .header("Accept", "application/xml")
    };
    match rng.u32(..6) {
        0 => set("", "<SignedIdentifiers />"),
        1 => set("", &identifiers(1, "raud")),
        2 => set("six identifiers", &identifiers(6, "r")),
        3 => Call::new("Get Table ACL", "table that is not there", Method::GET, "/Nowhere?comp=acl")
            .header("Accept", "application/xml"),
        _ => Call::new("Get Table ACL", "", Method::GET, format!("/{table}?comp=acl"))
            .header("Accept", "application/xml"),
    }
}

/// A document of so many stored policies.
pub fn identifiers(count: usize, permissions: &str) -> String {
    let identifiers: String = (0..count)
        .map(|index| {
            format!(
                "<SignedIdentifier><Id>policy{index}</Id><AccessPolicy><Start>2020-07-22T16:04:39.0000000Z</Start>\
                 <Expiry>2099-07-22T16:04:39.0000000Z</Expiry><Permission>{permissions}</Permission></AccessPolicy>\
                 </SignedIdentifier>"
            )
        })
        .collect();
    format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers>{identifiers}</SignedIdentifiers>")
}

fn create(rng: &mut Rng, table: &str, case: &str) -> Call {
    let call = Call::new("Create Table", case, Method::POST, "/Tables")
        .body("application/json", format!(r#"{{"TableName":"{table}"}}"#));
    match rng.u32(..3) {
        0 => call.header("Prefer", "return-no-content"),
        1 => call.header("Prefer", "return-content"),
        _ => call,
    }
}

fn about_tables(rng: &mut Rng, table: &str) -> Call {
    let get = |case: &str, target: String| Call::new("Query Tables", case, Method::GET, target);
    match rng.u32(..11) {
        0 => create(rng, table, "table that is there"),
        1 => create(rng, &table.to_lowercase(), "table that is there in another case"),
        2 => create(rng, "ab", "name that is too short"),
        3 => create(rng, &"a".repeat(64), "name that is too long"),
        4 => create(rng, "1abc", "name that starts with a digit"),
        5 => create(rng, "a-bc", "name with a dash"),
        6 => Call::new("Create Table", "no body", Method::POST, "/Tables").body("application/json", ""),
        7 => get("filter", format!("/Tables?$filter={}", encode(&format!("TableName eq '{table}'")))),
        8 => Call::new("Get Table", "", Method::GET, format!("/Tables('{table}')")),
        9 => Call::new("Get Table", "table that is not there", Method::GET, "/Tables('Nowhere')"),
        _ => Call::new("Delete Table", "table that is not there", Method::DELETE, "/Tables('Nowhere')"),
    }
}

fn odd(rng: &mut Rng, table: &str, key: &Key) -> Call {
    match rng.u32(..7) {
        0 => {
            let target = format!("/{}{}", table.to_lowercase(), key.predicate());
            Call::new("Get Entity", "table name in lower case", Method::GET, target)
        }
        1 => Call::new("Get Entity", "one key only", Method::GET, format!("/{table}(PartitionKey='p')")),
        2 => Call::new(
            "Get Entity",
            "quote that is not doubled",
            Method::GET,
            format!("/{table}(PartitionKey='a'b',RowKey='r')"),
        ),
        3 => Call::new("Insert Entity", "table that is not there", Method::POST, "/Nowhere")
            .body("application/json", whole(key, &[])),
        4 => Call::new("Insert Entity", "media type that is none", Method::POST, format!("/{table}"))
            .body("text/plain", whole(key, &[])),
        5 => Call::new(
            "Update Entity",
            "table that is not there",
            Method::PUT,
            format!("/Nowhere{}", key.predicate()),
        )
        .body("application/json", "{}")
        .header("If-Match", "*"),
        _ => Call::new(
            "Get Entity",
            "table that is not there",
            Method::GET,
            format!("/Nowhere{}", key.predicate()),
        ),
    }
}
