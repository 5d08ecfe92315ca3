//! Each way in which credentials can hold or fail, and the code it is told with.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod support;

use std::net::IpAddr;

use http::Method;
use support::{Request, account, earlier, later, now};
use tavola_auth::{Account, AccountSas, KeyLimit, Scheme, ServiceSas, sign_account_sas, sign_service_sas};
use tavola_model::{DateTime, ErrorCode, StorageService};

const DATE: &str = "x-ms-date";

fn dated(path: &str, date: DateTime) -> Request {
    Request::get(path).with_header(DATE, &date.to_rfc1123())
}

fn check(request: &Request, expected: &str) {
    assert_eq!(request.outcome(), expected, "{request:?}");
}

#[test]
fn both_schemes_and_both_keys_are_accepted_in_all_services() {
    let second = Account::parse("acct:c2Vjb25kIGtleQ==").unwrap();
    for service in [StorageService::Table, StorageService::Queue, StorageService::Blob] {
        for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
            let request = Request { service, ..dated("/acct/thing", now()) };
            check(&request.clone().signed(scheme), "ok");
            check(&request.signed_over(scheme, &second, "/acct/thing"), "ok");
        }
    }
}

#[test]
fn a_wrong_key_fails() {
    let stranger = Account::parse("acct:c3RyYW5nZXI=").unwrap();
    check(
        &dated("/acct/Tables", now()).signed_over(Scheme::SharedKey, &stranger, "/acct/Tables"),
        "AuthenticationFailed",
    );
}

#[test]
fn a_key_of_another_account_fails_even_if_that_account_is_ours() {
    let other = Account::parse("other:b3RoZXI=").unwrap();
    check(
        &dated("/acct/Tables", now()).signed_over(Scheme::SharedKey, &other, "/acct/Tables"),
        "AuthenticationFailed",
    );
}

#[test]
fn a_valid_signature_under_another_name_fails() {
    let signed = dated("/acct/Tables", now()).signed(Scheme::SharedKey);
    let value = signed.headers["authorization"].to_str().unwrap().replace("acct:", "other:");
    check(&signed.with_header("authorization", &value), "AuthenticationFailed");
}

#[test]
fn the_date_may_differ_by_fifteen_minutes_and_no_more() {
    for (date, expected) in [
        (earlier(15 * 60), "ok"),
        (earlier(15 * 60 + 1), "AuthenticationFailed"),
        (later(15 * 60), "ok"),
        (later(15 * 60 + 1), "AuthenticationFailed"),
    ] {
        check(&dated("/acct/Tables", date).signed(Scheme::SharedKey), expected);
        check(&dated("/acct/Tables", date).signed(Scheme::SharedKeyLite), expected);
    }
}

#[test]
fn a_request_without_a_readable_date_fails() {
    check(&Request::get("/acct/Tables").signed(Scheme::SharedKey), "AuthenticationFailed");
    let odd = Request::get("/acct/Tables").with_header(DATE, "yesterday");
    check(&odd.signed(Scheme::SharedKey), "AuthenticationFailed");
    let plain = Request::get("/acct/Tables").with_header("date", &now().to_rfc1123());
    check(&plain.signed(Scheme::SharedKey), "ok");
}

#[test]
fn malformed_authorization_headers_are_told_apart() {
    for (value, expected) in [
        ("SharedKey", "InvalidAuthenticationInfo"),
        ("SharedKey acct", "InvalidAuthenticationInfo"),
        ("Basic YTpi", "InvalidAuthenticationInfo"),
        ("", "InvalidAuthenticationInfo"),
        ("SharedKey acct:", "AuthenticationFailed"),
        ("SharedKey acct:!!!", "AuthenticationFailed"),
        ("SharedKey :AAAA", "AuthenticationFailed"),
        ("SharedKey nobody:AAAA", "AuthenticationFailed"),
    ] {
        check(&dated("/acct/Tables", now()).with_header("authorization", value), expected);
    }
}

#[test]
fn anonymous_requests_are_challenged_from_2019_12_12_on() {
    check(&Request::get("/acct/Tables"), "ResourceNotFound");
    for (version, expected) in [
        ("2019-02-02", "ResourceNotFound"),
        ("2019-12-11", "ResourceNotFound"),
        ("2019-12-12", "NoAuthenticationInformation"),
        ("2026-10-06", "NoAuthenticationInformation"),
    ] {
        check(&Request::get("/acct/Tables").with_header("x-ms-version", version), expected);
    }
}

#[test]
fn a_token_that_does_not_hold_is_challenged_from_2019_12_12_on() {
    let bearer = Request::get("/acct/Tables").with_header("authorization", "Bearer token");
    check(&bearer, "AuthenticationFailed");
    for (version, expected) in [
        ("2019-07-07", "AuthenticationFailed"),
        ("2019-12-11", "AuthenticationFailed"),
        ("2019-12-12", "InvalidAuthenticationInfo"),
        ("2020-12-06", "InvalidAuthenticationInfo"),
    ] {
        check(&bearer.clone().with_header("x-ms-version", version), expected);
    }
}

#[test]
fn a_queue_is_told_what_was_to_be_signed_and_a_table_is_not() {
    let detail = |service, path: &str| {
        let request = Request { service, ..dated(path, now()) }
            .with_header("x-ms-version", "2018-03-28")
            .with_header("authorization", "SharedKey acct:AAAA");
        let error = request.authenticate_telling().unwrap_err();
        error.details.iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>()
    };
    let expected = format!(
        "AuthenticationErrorDetail: The MAC signature found in the HTTP request 'AAAA' is not the same as any \
         computed signature. Server used following string to sign: \
         'GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{}\nx-ms-version:2018-03-28\n/acct/acct/q'.",
        now().to_rfc1123()
    );
    assert_eq!(detail(StorageService::Queue, "/acct/q"), [expected]);
    assert!(detail(StorageService::Table, "/acct/q").is_empty());
}

#[test]
fn an_unknown_account_is_not_found() {
    check(&Request::get("/nobody/Tables"), "ResourceNotFound");
    check(&Request { service: StorageService::Queue, ..Request::get("/nobody/q") }, "AccountNotFound");
}

#[test]
fn the_secondary_endpoint_takes_a_signature_over_either_path() {
    let request = dated("/acct-secondary/Tables", now());
    for path in ["/acct-secondary/Tables", "/acct/Tables"] {
        check(&request.clone().signed_over(Scheme::SharedKey, &account(), path), "ok");
    }
    check(&request.signed_over(Scheme::SharedKey, &account(), "/other/Tables"), "AuthenticationFailed");
    // The primary never takes a signature for the secondary.
    let primary = dated("/acct/Tables", now());
    check(
        &primary.signed_over(Scheme::SharedKey, &account(), "/acct-secondary/Tables"),
        "AuthenticationFailed",
    );
}

#[test]
fn host_style_signs_the_path_without_the_account() {
    let request = Request { host: "acct.table.example.com".into(), ..dated("/Tables", now()) };
    check(&request.signed(Scheme::SharedKeyLite), "ok");
}

#[test]
fn a_preflight_needs_no_credentials_but_an_account() {
    let preflight = Request { method: Method::OPTIONS, ..Request::get("/acct/Tables") };
    check(&preflight, "ok");
    check(&preflight.with_query("sig=none"), "ok");
    check(&Request { method: Method::OPTIONS, ..Request::get("/nobody/Tables") }, "ResourceNotFound");
}

fn table_sas() -> ServiceSas<'static> {
    ServiceSas { resource: "People", permissions: "r", expiry: Some(later(60)), ..ServiceSas::default() }
}

fn with_sas(sas: &ServiceSas<'_>) -> Request {
    let token = sign_service_sas(&account(), StorageService::Table, sas).unwrap();
    Request::get("/acct/People()").with_query(&token)
}

#[test]
fn a_token_holds_from_its_start_up_to_its_expiry() {
    let sas = table_sas();
    check(&with_sas(&ServiceSas { start: Some(now()), ..sas.clone() }), "ok");
    check(&with_sas(&ServiceSas { start: Some(later(1)), ..sas.clone() }), "AuthenticationFailed");
    check(&with_sas(&ServiceSas { expiry: Some(later(1)), ..sas.clone() }), "ok");
    check(&with_sas(&ServiceSas { expiry: Some(now()), ..sas.clone() }), "AuthenticationFailed");
    check(&with_sas(&ServiceSas { expiry: None, ..sas.clone() }), "AuthenticationFailed");
    check(&with_sas(&ServiceSas { permissions: "", ..sas.clone() }), "AuthenticationFailed");
    check(&with_sas(&ServiceSas { permissions: "", expiry: None, policy_id: "id", ..sas }), "ok");
}

#[test]
fn a_token_is_held_to_its_addresses() {
    for (ip, peer, expected) in [
        ("127.0.0.1", "127.0.0.1", "ok"),
        ("127.0.0.1", "127.0.0.2", "AuthorizationSourceIPMismatch"),
        ("10.0.0.1-10.0.0.9", "10.0.0.1", "ok"),
        ("10.0.0.1-10.0.0.9", "10.0.0.9", "ok"),
        ("10.0.0.1-10.0.0.9", "10.0.0.10", "AuthorizationSourceIPMismatch"),
        ("10.0.0.1-10.0.0.9", "::ffff:10.0.0.5", "ok"),
        ("0.0.0.0-255.255.255.255", "::1", "AuthorizationSourceIPMismatch"),
        ("::1", "::1", "ok"),
        ("10.0.0.9-10.0.0.1", "10.0.0.5", "AuthorizationSourceIPMismatch"),
        ("somewhere", "127.0.0.1", "AuthenticationFailed"),
        ("10.0.0.1-", "10.0.0.1", "AuthenticationFailed"),
    ] {
        let peer: IpAddr = peer.parse().unwrap();
        check(&Request { peer, ..with_sas(&ServiceSas { ip, ..table_sas() }) }, expected);
    }
}

#[test]
fn a_token_is_held_to_its_protocol() {
    for (protocol, secure, expected) in [
        ("https", true, "ok"),
        ("https", false, "AuthorizationProtocolMismatch"),
        ("https,http", false, "ok"),
        ("http", false, "AuthenticationFailed"),
        ("ftp", true, "AuthenticationFailed"),
    ] {
        check(&Request { secure, ..with_sas(&ServiceSas { protocol, ..table_sas() }) }, expected);
    }
}

fn with_bounds(start: Option<(&str, &str)>, end: Option<(&str, &str)>) -> Result<String, ErrorCode> {
    let bound = |bound: Option<(&str, &str)>| bound.map(|(p, r)| (p.to_owned(), Some(r.to_owned())));
    let keys = KeyLimit { start: bound(start), end: bound(end) };
    let sas = ServiceSas { keys, ..table_sas() };
    sign_service_sas(&account(), StorageService::Table, &sas).map_err(|error| error.code)
}

#[test]
fn a_row_key_bound_needs_its_partition_key_bound() {
    let token = with_bounds(Some(("a", "5")), None).unwrap();
    check(&Request::get("/acct/People()").with_query(&token), "ok");
    let fields = |token: &str| token.replace("spk=a&", "");
    check(&Request::get("/acct/People()").with_query(&fields(&token)), "AuthenticationFailed");
}

#[test]
fn an_empty_bound_means_the_same_as_none_because_both_sign_the_same() {
    let limited = |token: &str| Request::get("/acct/People()").with_query(token).authenticate().unwrap();
    let token = with_bounds(None, Some(("a", "5"))).unwrap();
    let padded = format!("{token}&spk=&srk=");
    assert_eq!(format!("{:?}", limited(&token)), format!("{:?}", limited(&padded)));
}

#[test]
fn no_token_is_made_whose_holder_could_take_a_bound_away() {
    for (start, end) in [
        (None, Some(("a", ""))),
        (None, Some(("", ""))),
        (None, Some(("", "5"))),
        (Some(("", "5")), None),
        (Some(("a", "")), Some(("a", ""))),
    ] {
        assert_eq!(with_bounds(start, end), Err(ErrorCode::InvalidInput), "{start:?} {end:?}");
    }
    assert!(with_bounds(Some(("a", "")), Some(("a", "5"))).is_ok());
}

#[test]
fn a_table_token_must_name_its_table() {
    let token = sign_service_sas(&account(), StorageService::Table, &table_sas()).unwrap();
    let request = Request::get("/acct/People()").with_query(&token.replace("tn=People", "tn="));
    check(&request, "AuthenticationFailed");
    check(&Request::get("/acct/People()").with_query("sig=AAAA&sv=2019-02-02"), "AuthenticationFailed");
}

#[test]
fn tokens_of_queues_and_blobs_are_bound_to_their_path() {
    let sas = |resource| ServiceSas { resource, ..table_sas() };
    let queue = sign_service_sas(&account(), StorageService::Queue, &sas("jobs")).unwrap();
    for (path, expected) in
        [("/acct/jobs/messages", "ok"), ("/acct/jobs", "ok"), ("/acct/others", "AuthenticationFailed")]
    {
        let request = Request::get(path).with_query(&queue);
        check(&Request { service: StorageService::Queue, ..request }, expected);
    }
    let blob = ServiceSas { blob_kind: "b", ..sas("pictures/a b") };
    let blob = sign_service_sas(&account(), StorageService::Blob, &blob).unwrap();
    for (path, expected) in [("/acct/pictures/a%20b", "ok"), ("/acct/pictures/c", "AuthenticationFailed")] {
        let request = Request::get(path).with_query(&blob);
        check(&Request { service: StorageService::Blob, ..request }, expected);
    }
}

#[test]
fn an_account_token_must_be_whole() {
    let whole = AccountSas {
        services: "t",
        resource_types: "sco",
        permissions: "rl",
        expiry: Some(later(60)),
        ..AccountSas::default()
    };
    for (sas, expected) in [
        (whole.clone(), "ok"),
        (AccountSas { version: "2026-10-06", ..whole.clone() }, "ok"),
        (AccountSas { services: "x", ..whole.clone() }, "AuthenticationFailed"),
        (AccountSas { services: "", ..whole.clone() }, "AuthenticationFailed"),
        (AccountSas { resource_types: "", ..whole.clone() }, "AuthenticationFailed"),
        (AccountSas { resource_types: "z", ..whole.clone() }, "AuthenticationFailed"),
        (AccountSas { permissions: "", ..whole.clone() }, "AuthenticationFailed"),
        (AccountSas { expiry: None, ..whole.clone() }, "AuthenticationFailed"),
        (AccountSas { expiry: Some(earlier(1)), ..whole }, "AuthenticationFailed"),
    ] {
        let token = sign_account_sas(&account(), &sas).unwrap();
        check(&Request::get("/acct/Tables").with_query(&token), expected);
    }
}
