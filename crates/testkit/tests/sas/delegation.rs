//! User delegation over HTTP: the key that a bearer of a token is given, and what a SAS by this key opens.

use http::Method;
use tavola_auth::{ServiceSas, sign_delegated_sas};
use tavola_model::{AccountName, DateTime, DelegationKey};
use tavola_testkit::{Connection, Request};

use crate::bearer::{Key, key_set, send, start};
use crate::guest::ACCOUNT;
use crate::minutes_from_now;

/// The text of an element.
fn element<'a>(xml: &'a str, name: &str) -> &'a str {
    let text = xml.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once("</"));
    text.unwrap_or_else(|| panic!("no {name}: {xml}")).0
}

fn delegation_key(endpoint: &str, token: &str) -> DelegationKey {
    let expiry = minutes_from_now(10).to_string();
    let body = format!("<?xml version=\"1.0\"?><KeyInfo><Expiry>{}Z</Expiry></KeyInfo>", &expiry[..19]);
    let target = "/?restype=service&comp=userdelegationkey";
    let response = send(endpoint, Method::POST, target, &body, token);
    assert_eq!(response.status, 200, "{}", response.text());
    let xml = response.text();
    let time = |name| DateTime::parse(element(&xml, name)).unwrap();
    DelegationKey {
        object_id: element(&xml, "SignedOid").to_owned(),
        tenant_id: element(&xml, "SignedTid").to_owned(),
        start: time("SignedStart"),
        expiry: time("SignedExpiry"),
        service: 'b',
        version: element(&xml, "SignedVersion").to_owned(),
        value: element(&xml, "Value").to_owned(),
    }
}

#[test]
fn a_sas_by_the_key_of_a_user_opens_what_it_names_and_what_the_user_may() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let issuer = Key::new("one");
    std::fs::write(&path, key_set(&[&issuer])).unwrap();
    let server = start(path.to_str().unwrap());
    let endpoint = server.blob_endpoint();
    let mut owner = Connection::open_blob(endpoint).unwrap();
    let put = |target: &str| {
        let request = Request::new(Method::PUT, target).with_header("x-ms-blob-type", "BlockBlob");
        Request { body: b"one".to_vec(), ..request }
    };
    assert_eq!(owner.send(&Request::new(Method::PUT, "/box?restype=container")).unwrap().status, 201);
    assert_eq!(owner.send(&put("/box/a")).unwrap().status, 201);

    let account = AccountName::parse(ACCOUNT).unwrap();
    let ask = |key: &DelegationKey, method: &Method, blob: &str| {
        let sas = ServiceSas {
            resource: "box/a",
            permissions: "rd",
            expiry: Some(minutes_from_now(5)),
            ..ServiceSas::default()
        };
        let token = sign_delegated_sas(&account, key, &sas).unwrap();
        let host = endpoint.trim_start_matches("http://").split('/').next().unwrap();
        let head = format!("{method} /{ACCOUNT}/box/{blob}?{token} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        Connection::open_blob(endpoint).unwrap().send_raw(head.as_bytes(), method).unwrap().status
    };
    let reader = delegation_key(endpoint, &issuer.token("Storage.Read", "tavola"));
    let writer = delegation_key(endpoint, &issuer.token("Storage.ReadWrite", "tavola"));
    assert_eq!(reader.object_id, "somebody");
    assert_eq!(ask(&reader, &Method::GET, "a"), 200);
    assert_eq!(ask(&reader, &Method::GET, "b"), 403, "the token names another blob");
    assert_eq!(ask(&reader, &Method::DELETE, "a"), 403, "the user may only read");
    assert_eq!(ask(&DelegationKey { object_id: "other".into(), ..reader }, &Method::GET, "a"), 403);
    assert_eq!(ask(&writer, &Method::DELETE, "a"), 202);
}
