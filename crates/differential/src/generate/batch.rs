//! Entity group transactions: good ones, and each way to fail.

use fastrand::Rng;
use http::Method;

use super::entity::{Key, partial, properties, whole};
use super::{Call, percent, pick};

const OPERATIONS_MAX: usize = 100;
const STALE_ETAG: &str = r#"W/"datetime'2020-01-01T00%3A00%3A00Z'""#;

/// One operation of a change set.
struct Operation {
    method: &'static str,
    /// Below the account.
    target: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// A batch request.
pub fn call(rng: &mut Rng, table: &str) -> Call {
    let key = Key::any(rng);
    let (case, operations): (&str, Vec<Operation>) = match rng.u32(..24) {
        0..11 => ("", good(rng, table, &key)),
        11 => (
            "keys in the URI only",
            vec![operation("PUT", table, &key.with_row("b1"), None, &partial(&properties(rng)))],
        ),
        12 => (
            "two partitions",
            vec![
                upsert(table, &key.with_row("b1")),
                upsert(table, &Key { partition: "other".to_owned(), row: "b2".to_owned() }),
            ],
        ),
        13 => (
            "the same entity twice",
            vec![
                upsert(table, &key.with_row("b1")),
                upsert(table, &key.with_row("b2")),
                upsert(table, &key.with_row("b1")),
            ],
        ),
        14 | 15 => (
            "an entity that is not there",
            vec![
                upsert(table, &key.with_row("b1")),
                operation("DELETE", table, &key.with_row("nowhere"), Some("*"), ""),
            ],
        ),
        16 => (
            "one operation that fails",
            vec![operation("DELETE", table, &key.with_row("nowhere"), Some("*"), "")],
        ),
        17 => (
            "an ETag that is old",
            vec![
                upsert(table, &key.with_row("b1")),
                operation("MERGE", table, &key, Some(STALE_ETAG), &whole(&key, &[])),
            ],
        ),
        18 => ("too many operations", numbered(table, &key, OPERATIONS_MAX + 1)),
        19 => ("most operations", numbered(table, &key, OPERATIONS_MAX)),
        20 => ("table that is not there", vec![upsert("Nowhere", &key)]),
        21 => (
            "a bad property",
            vec![
                upsert(table, &key.with_row("b1")),
                operation(
                    "PUT",
                    table,
                    &key.with_row("b2"),
                    None,
                    &whole(&key.with_row("b2"), &[r#""X@odata.type":"Edm.Guid","X":"none""#.to_owned()]),
                ),
            ],
        ),
        22 => return single_query(table, &key),
        _ => ("no operation", Vec::new()),
    };
    request(case, &change_set(&operations)).about(key.subject())
}

fn good(rng: &mut Rng, table: &str, key: &Key) -> Vec<Operation> {
    let mut rows = ["r", "R", "b1", "b2", "b3"];
    rng.shuffle(&mut rows);
    let count = rng.usize(1..=rows.len());
    rows.iter()
        .take(count)
        .map(|row| {
            let key = key.with_row(*row);
            let properties = properties(rng);
            match rng.u32(..10) {
                0 => insert(rng, table, &whole(&key, &properties)),
                1 => operation("PUT", table, &key, Some("*"), &whole(&key, &properties)),
                2 => operation("MERGE", table, &key, Some("*"), &whole(&key, &properties)),
                3 => operation("DELETE", table, &key, Some("*"), ""),
                4..7 => operation("PUT", table, &key, None, &whole(&key, &properties)),
                _ => operation("MERGE", table, &key, None, &whole(&key, &properties)),
            }
        })
        .collect()
}

fn numbered(table: &str, key: &Key, count: usize) -> Vec<Operation> {
    (0..count).map(|index| upsert(table, &key.with_row(format!("n{index}")))).collect()
}

fn insert(rng: &mut Rng, table: &str, body: &str) -> Operation {
    let mut headers = json_headers();
    if percent(rng, 60) {
        headers.push(("Prefer", (*pick(rng, &["return-no-content", "return-content"])).to_owned()));
    }
    Operation { method: "POST", target: format!("/{table}"), headers, body: body.to_owned() }
}

fn upsert(table: &str, key: &Key) -> Operation {
    operation("PUT", table, key, None, &whole(key, &[]))
}

fn operation(method: &'static str, table: &str, key: &Key, condition: Option<&str>, body: &str) -> Operation {
    let mut headers = json_headers();
    if let Some(condition) = condition {
        headers.push(("If-Match", condition.to_owned()));
    }
    Operation { method, target: format!("/{table}{}", key.predicate()), headers, body: body.to_owned() }
}

fn json_headers() -> Vec<(&'static str, String)> {
    vec![
        ("Accept", "application/json;odata=minimalmetadata".to_owned()),
        ("Content-Type", "application/json".to_owned()),
        ("DataServiceVersion", "3.0".to_owned()),
    ]
}

fn request(case: &str, part: &str) -> Call {
    let body = format!("--batch_b\r\n{part}--batch_b--\r\n");
    Call::new("Entity Group Transaction", case, Method::POST, "/$batch")
        .body("multipart/mixed; boundary=batch_b", body)
        .header("Accept", "application/json;odata=minimalmetadata")
}

fn change_set(operations: &[Operation]) -> String {
    let mut text = "Content-Type: multipart/mixed; boundary=changeset_c\r\n\r\n".to_owned();
    for operation in operations {
        text.push_str("--changeset_c\r\n");
        text.push_str(&application_http(operation));
        text.push_str("\r\n");
    }
    text.push_str("--changeset_c--\r\n\r\n");
    text
}

fn application_http(operation: &Operation) -> String {
    let mut text = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n".to_owned();
    text.push_str(&format!("{} <<base>>{} HTTP/1.1\r\n", operation.method, operation.target));
    for (name, value) in &operation.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !operation.body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", operation.body.len()));
    }
    text.push_str("\r\n");
    text.push_str(&operation.body);
    text
}

fn single_query(table: &str, key: &Key) -> Call {
    let operation = Operation {
        method: "GET",
        target: format!("/{table}{}", key.predicate()),
        headers: vec![("Accept", "application/json;odata=minimalmetadata".to_owned())],
        body: String::new(),
    };
    request("a query", &format!("{}\r\n", application_http(&operation)))
}
