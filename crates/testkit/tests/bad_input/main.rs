//! Bad input: every way we know to get a request wrong, each with the exact answer it deserves.
//!
//! One real server gets all of them over TCP. Afterwards the data, the settings and the access policies are
//! what they were, the server still answers, and its log holds nothing that a person would have to look at.
//!
//! Expected answers are those of the recordings and of the protocol notes. Where these are silent, a comment at
//! the case says what was chosen and why.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod case;
mod exchange;

mod atom;
mod batch;
mod conditions;
mod credentials;
mod filters;
mod headers;
mod json;
mod options;
mod paths;
mod settings;
mod values;

use std::time::{Duration, Instant};

use tavola_testkit::{Connection, Request, TestServer};

use case::Case;

/// The issue asks for this many.
const CASES_MIN: usize = 150;
/// An answer that takes longer does not come at all; a guard against a hang and no measure.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// The table that is there before and after, and its entities by `(PartitionKey, RowKey)`.
pub const TABLE: &str = "Seeded";
const ENTITIES: [&str; 3] = [
    r#"{"PartitionKey":"p","RowKey":"1","Age":41,"Name":"Ada"}"#,
    r#"{"PartitionKey":"p","RowKey":"2","Big@odata.type":"Edm.Int64","Big":"9007199254740993"}"#,
    r#"{"PartitionKey":"q","RowKey":"1","Flag":true}"#,
];

#[test]
fn malformed_requests_get_their_exact_answer_and_change_nothing() {
    let server = TestServer::start().unwrap();
    seed(&server);
    let before = snapshot(&server);
    let cases = all_cases();
    assert!(cases.len() >= CASES_MIN, "only {} cases", cases.len());
    let mut failures = Vec::new();
    for case in &cases {
        let started = Instant::now();
        if let Err(reason) = case.run(server.table_endpoint()) {
            failures.push(format!("{}: {reason}", case.name));
        }
        if started.elapsed() > ANSWER_TIME_MAX {
            failures.push(format!("{}: took {:?}", case.name, started.elapsed()));
        }
    }
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert_eq!(snapshot(&server), before, "the data changed");
    let log = server.log();
    let alarming = |line: &&str| line.contains("ERROR") || line.contains("panicked");
    assert_eq!(log.lines().find(alarming), None, "the log has something to look at");
    println!("{} malformed requests answered", cases.len());
}

#[test]
fn names_of_cases_are_unique() {
    let mut names: Vec<&str> = all_cases().iter().map(|case| case.name).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

fn all_cases() -> Vec<Case> {
    [
        paths::cases(),
        credentials::cases(),
        headers::cases(),
        conditions::cases(),
        json::cases(),
        values::cases(),
        atom::cases(),
        batch::cases(),
        filters::cases(),
        options::cases(),
        settings::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const ACL: &str = "<SignedIdentifiers><SignedIdentifier><Id>kept</Id><AccessPolicy><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
const PROPERTIES: &str = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://known.example</AllowedOrigins><AllowedMethods>GET</AllowedMethods><AllowedHeaders>x-ms-*</AllowedHeaders><ExposedHeaders /><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";

fn seed(server: &TestServer) {
    let mut connection = Connection::open(server.table_endpoint()).unwrap();
    let mut must = |request: Request, status: u16| {
        let response = connection.send(&request).unwrap();
        assert_eq!(response.status, status, "{} {}", request.target, response.text());
    };
    let post = |target: &str, body: &str| {
        Request::new(http::Method::POST, target).with_json(body.as_bytes().to_vec())
    };
    must(post("/Tables", &format!(r#"{{"TableName":"{TABLE}"}}"#)), 201);
    must(post("/Tables", r#"{"TableName":"Other"}"#), 201);
    for entity in ENTITIES {
        must(post(&format!("/{TABLE}"), entity), 201);
    }
    let put = |target: &str, body: &str| {
        Request::new(http::Method::PUT, target)
            .with_header("Accept", "application/xml")
            .with_body("application/xml", body.as_bytes().to_vec())
    };
    must(put(&format!("/{TABLE}?comp=acl"), ACL), 204);
    must(put("/?restype=service&comp=properties", PROPERTIES), 202);
}

/// Everything a client can read, as text.
fn snapshot(server: &TestServer) -> Vec<String> {
    let mut connection = Connection::open(server.table_endpoint()).unwrap();
    let mut read = |target: &str, accept: &str| {
        let response = connection.send(&Request::get(target).with_header("Accept", accept)).unwrap();
        assert_eq!(response.status, 200, "{target} {}", response.text());
        response.text()
    };
    vec![
        read("/Tables", "application/json"),
        read(&format!("/{TABLE}()"), "application/json;odata=fullmetadata"),
        read("/Other()", "application/json;odata=fullmetadata"),
        read(&format!("/{TABLE}?comp=acl"), "application/xml"),
        read("/?restype=service&comp=properties", "application/xml"),
    ]
}
