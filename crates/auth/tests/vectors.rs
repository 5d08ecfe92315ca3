//! Requests and tokens that the official clients signed: each one authenticates, and our signing gives the
//! same text. The vectors lie beside the checkout, in `../shared/protocol`.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::path::Path;

use http::{HeaderMap, HeaderName, Method};
use serde_json::Value;
use tavola_auth::{Account, Accounts, RequestHead, Scheme, SignedRequest, authenticate, sign_request};
use tavola_model::{Address, DateTime, Query, StorageService};

/// The vectors of a file, or none with a word on standard error; with `TAVOLA_REQUIRE_ALL` they must be there.
fn vectors(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/protocol").join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        assert!(
            std::env::var_os("TAVOLA_REQUIRE_ALL").is_none(),
            "vectors are missing (path={})",
            path.display()
        );
        eprintln!("not checked: vectors are missing (path={})", path.display());
        return Vec::new();
    };
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text<'a>(vector: &'a Value, name: &str) -> &'a str {
    vector[name].as_str().unwrap()
}

fn service(name: &str) -> StorageService {
    match name {
        "table" | "account" => StorageService::Table,
        "queue" => StorageService::Queue,
        "blob" => StorageService::Blob,
        other => panic!("a service nobody knows: {other}"),
    }
}

fn accounts() -> Accounts {
    Accounts::new(vec![Account::development()]).unwrap()
}

#[test]
fn requests_signed_by_official_clients_authenticate_and_sign_the_same() {
    let vectors = vectors("auth-vectors.jsonl");
    assert!(vectors.is_empty() || vectors.len() == 38);
    for vector in vectors {
        let mut headers = HeaderMap::new();
        for (name, value) in vector["headers"].as_object().unwrap() {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, value.as_str().unwrap().parse().unwrap());
        }
        let target = text(&vector, "target");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = Query::parse(query).unwrap();
        let method = Method::from_bytes(text(&vector, "method").as_bytes()).unwrap();
        let service = service(text(&vector, "service"));
        let date = headers.get("x-ms-date").or_else(|| headers.get("date")).unwrap();
        let now = DateTime::parse_rfc1123(date.to_str().unwrap()).unwrap();
        let address = Address::parse("127.0.0.1", path).unwrap();

        let head = RequestHead {
            method: &method,
            path,
            query: &query,
            headers: &headers,
            address: &address,
            secure: false,
            peer: [127, 0, 0, 1].into(),
        };
        authenticate(&accounts(), service, &head, now).unwrap_or_else(|error| panic!("{target}: {error}"));

        let scheme = match text(&vector, "scheme") {
            "SharedKey" => Scheme::SharedKey,
            _ => Scheme::SharedKeyLite,
        };
        let request = SignedRequest { method: &method, path, query: &query, headers: &headers };
        let signed = sign_request(&Account::development(), service, scheme, &request).unwrap();
        assert_eq!(signed, text(&vector, "authorization"), "{target}");
    }
}

#[test]
fn tokens_made_by_official_clients_authenticate() {
    let vectors = vectors("sas-vectors.jsonl");
    assert!(vectors.is_empty() || vectors.len() == 9);
    for vector in vectors {
        let token = text(&vector, "token");
        let path = match text(&vector, "kind") {
            "queue" => "/devstoreaccount1/q1/messages",
            "blob" if token.contains("sr=c") => "/devstoreaccount1/cont/any",
            "blob" => "/devstoreaccount1/cont/dir/b%20%C3%A9.txt",
            _ => "/devstoreaccount1/MyTable()",
        };
        // The addresses that two of the tokens are limited to.
        let peer = if token.contains("sip=1.2.3.4") { [1, 2, 3, 4] } else { [10, 0, 0, 5] };
        let headers = HeaderMap::new();
        let address = Address::parse("127.0.0.1", path).unwrap();
        let head = RequestHead {
            method: &Method::GET,
            path,
            query: &Query::parse(token).unwrap(),
            headers: &headers,
            address: &address,
            secure: true,
            peer: peer.into(),
        };
        let now = DateTime::parse("2026-01-01T00:00:00Z").unwrap();
        authenticate(&accounts(), service(text(&vector, "kind")), &head, now)
            .unwrap_or_else(|error| panic!("{token}: {error}"));
    }
}
