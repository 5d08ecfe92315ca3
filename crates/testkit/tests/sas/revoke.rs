//! What is taken back is gone at the next request: policies, keys, accounts.

use std::path::Path;
use std::process::Command;

use http::Method;
use tavola_auth::{Account, ServiceSas, sign_service_sas};
use tavola_model::StorageService;
use tavola_testkit::{Connection, DataFolder, Request, ServerOptions, TestServer};

use crate::guest::{Ask, Guest, Owner};
use crate::minutes_from_now;

fn sas(sas: ServiceSas<'_>) -> String {
    sign_service_sas(&Account::development(), StorageService::Table, &sas).unwrap()
}

fn set_policies(owner: &mut Owner, table: &str, policies: &[(&str, &str)]) -> u16 {
    let mut body = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers>");
    for (id, policy) in policies {
        body.push_str(&format!(
            "<SignedIdentifier><Id>{id}</Id><AccessPolicy>{policy}</AccessPolicy></SignedIdentifier>"
        ));
    }
    body.push_str("</SignedIdentifiers>");
    let request = Request::new(Method::PUT, format!("/{table}?comp=acl"))
        .with_header("Accept", "application/xml")
        .with_body("application/xml", body);
    owner.send(&request).status
}

const WHOLE: &str = "<Expiry>2099-01-01T00:00:00Z</Expiry><Permission>r</Permission>";

#[test]
fn a_policy_holds_from_the_request_after_it_is_set_until_the_one_after_it_is_removed() {
    let server = TestServer::start().unwrap();
    let mut owner = Owner::of(server.table_endpoint());
    let mut guest = Guest::of(server.table_endpoint());
    owner.create_table("Policed");
    let token = sas(ServiceSas { resource: "Policed", policy_id: "readers", ..ServiceSas::default() });
    let read = Ask::get("/Policed()");
    let failed = (403, "AuthenticationFailed".to_owned());
    for _ in 0..3 {
        assert_eq!(guest.ask(&read, &token), failed, "before the policy is there");
        assert_eq!(set_policies(&mut owner, "Policed", &[("readers", WHOLE)]), 204);
        assert_eq!(guest.ask(&read, &token).0, 200);
        let insert = Ask::new("POST", "/Policed").with_json(r#"{"PartitionKey":"p","RowKey":"r"}"#);
        assert_eq!(guest.ask(&insert, &token), (403, "AuthorizationPermissionMismatch".to_owned()));
        let over = "<Expiry>2001-01-01T00:00:00Z</Expiry><Permission>r</Permission>";
        assert_eq!(set_policies(&mut owner, "Policed", &[("readers", over)]), 204);
        assert_eq!(guest.ask(&read, &token), failed, "a policy that is over");
        assert_eq!(set_policies(&mut owner, "Policed", &[("others", WHOLE)]), 204);
        assert_eq!(guest.ask(&read, &token), failed, "a policy that is gone");
        assert_eq!(set_policies(&mut owner, "Policed", &[]), 204);
    }
    let six: Vec<(String, &str)> = (0..6).map(|number| (format!("p{number}"), WHOLE)).collect();
    let six: Vec<(&str, &str)> = six.iter().map(|(id, policy)| (id.as_str(), *policy)).collect();
    assert_eq!(set_policies(&mut owner, "Policed", &six[..5]), 204);
    assert_eq!(set_policies(&mut owner, "Policed", &six), 400);
}

#[test]
fn a_limit_in_both_token_and_policy_is_refused() {
    let server = TestServer::start().unwrap();
    let mut owner = Owner::of(server.table_endpoint());
    let mut guest = Guest::of(server.table_endpoint());
    owner.create_table("Policed");
    let from_policy = |policy: &str, owner: &mut Owner| {
        assert_eq!(set_policies(owner, "Policed", &[("id", policy)]), 204);
    };
    let token =
        |sas_fields: ServiceSas<'_>| sas(ServiceSas { resource: "Policed", policy_id: "id", ..sas_fields });
    let expiry = Some(minutes_from_now(60));
    let start = Some(minutes_from_now(-60));
    let read = Ask::get("/Policed()");
    let only_expiry = "<Expiry>2099-01-01T00:00:00Z</Expiry>";
    let started =
        "<Start>2001-01-01T00:00:00Z</Start><Expiry>2099-01-01T00:00:00Z</Expiry><Permission>r</Permission>";
    for (policy, fields, expected) in [
        (WHOLE, ServiceSas::default(), 200),
        (WHOLE, ServiceSas { expiry, ..ServiceSas::default() }, 403),
        (WHOLE, ServiceSas { permissions: "r", ..ServiceSas::default() }, 403),
        (WHOLE, ServiceSas { start, ..ServiceSas::default() }, 200),
        (started, ServiceSas { start, ..ServiceSas::default() }, 403),
        (only_expiry, ServiceSas { permissions: "r", ..ServiceSas::default() }, 200),
        (only_expiry, ServiceSas::default(), 403),
        ("<Permission>r</Permission>", ServiceSas { expiry, ..ServiceSas::default() }, 200),
        ("<Permission>r</Permission>", ServiceSas::default(), 403),
    ] {
        from_policy(policy, &mut owner);
        let (status, code) = guest.ask(&read, &token(fields.clone()));
        assert_eq!(status, expected, "{code} for {policy} with {fields:?}");
    }
}

/// Runs `tavola account …` on a data folder.
fn account(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(crate::limits::binary());
    let output = command.arg("account").args(arguments).arg("--data").arg(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn keys_and_accounts_come_and_go_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let options = ServerOptions { data: DataFolder::At(data.clone()), ..ServerOptions::default() };
    let server = TestServer::start_with(&options).unwrap();
    let endpoint = server.table_endpoint().replace("devstoreaccount1", "rotated");
    let keys = ["Zmlyc3Q=", "c2Vjb25k", "dGhpcmQ="];
    let expiry = Some(minutes_from_now(60));
    let holder = |key: &str| Account::parse(&format!("rotated:{key}")).unwrap();
    let as_owner = |key: &str| {
        let mut connection = Connection::open_as(&endpoint, holder(key)).unwrap();
        connection.send(&Request::get("/Tables")).unwrap().status
    };
    let as_guest = |key: &str| {
        let sas = ServiceSas { resource: "Kept", permissions: "r", expiry, ..ServiceSas::default() };
        let token = sign_service_sas(&holder(key), StorageService::Table, &sas).unwrap();
        Guest::of(server.table_endpoint()).send("rotated", &Ask::get("/Kept()"), &token).status
    };
    assert_eq!(as_owner(keys[0]), 404, "before the account is there");
    assert!(account(&data, &["add", "rotated", "--key", keys[0]]).contains("running server knows"));
    let mut connection = Connection::open_as(&endpoint, holder(keys[0])).unwrap();
    let create = Request::new(Method::POST, "/Tables").with_json(r#"{"TableName":"Kept"}"#);
    assert_eq!(connection.send(&create).unwrap().status, 201);
    assert_eq!((as_owner(keys[0]), as_guest(keys[0])), (200, 200));

    account(&data, &["rotate", "rotated", "--key", keys[1]]);
    for key in &keys[..2] {
        assert_eq!((as_owner(key), as_guest(key)), (200, 200), "both keys after the first rotation");
    }
    account(&data, &["rotate", "rotated", "--key", keys[2]]);
    assert_eq!((as_owner(keys[0]), as_guest(keys[0])), (403, 403), "the oldest key after the second");
    for key in &keys[1..] {
        assert_eq!((as_owner(key), as_guest(key)), (200, 200), "the two newest keys");
    }
    assert!(account(&data, &["list"]).contains("rotated  2 keys"));

    account(&data, &["remove", "rotated"]);
    assert_eq!(connection.send(&Request::get("/Tables")).unwrap().status, 404, "over an open connection");
    for key in keys {
        assert_eq!((as_owner(key), as_guest(key)), (404, 404), "after the account is gone");
    }
    account(&data, &["add", "rotated", "--key", keys[0]]);
    assert_eq!(as_guest(keys[0]), 200, "its tables were kept");
}
