//! No signed part of a request or token can be changed: the signature then fails. And nothing a client can
//! write in its head makes `authenticate` panic.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod support;

use http::{HeaderValue, Method};
use proptest::prelude::*;
use support::{Request, account, later, now};
use tavola_auth::{AccountSas, KeyLimit, Scheme, ServiceSas, sign_account_sas, sign_service_sas};
use tavola_model::StorageService;

fn service() -> impl Strategy<Value = StorageService> {
    prop_oneof![Just(StorageService::Table), Just(StorageService::Queue), Just(StorageService::Blob)]
}

fn scheme() -> impl Strategy<Value = Scheme> {
    prop_oneof![Just(Scheme::SharedKey), Just(Scheme::SharedKeyLite)]
}

fn request() -> impl Strategy<Value = Request> {
    ("[A-Za-z0-9()='%]{1,20}", "[a-z]{1,10}", "[a-z/;=]{1,20}", service()).prop_map(
        |(path, comp, content_type, service)| Request {
            service,
            ..Request::get(&format!("/acct/{path}"))
                .with_query(&format!("comp={comp}"))
                .with_header("content-type", &content_type)
                .with_header("x-ms-date", &now().to_rfc1123())
        },
    )
}

proptest! {
    #[test]
    fn a_signed_request_that_was_changed_fails(
        request in request(), scheme in scheme(), part in 0..5usize, extra in "[a-z0-9]{1,5}",
    ) {
        let signed = request.clone().signed(scheme);
        prop_assert_eq!(signed.outcome(), "ok");
        let mut changed = signed.clone();
        let is_table_lite = request.service == StorageService::Table && scheme == Scheme::SharedKeyLite;
        match part {
            0 => changed.path.push_str(&extra),
            1 => changed.query.push_str(&extra),
            2 => changed = changed.with_header("x-ms-date", &later(1).to_rfc1123()),
            3 => changed.method = Method::PUT,
            _ => changed = changed.with_header("content-type", &format!("z{extra}/")),
        }
        // The short form for tables signs neither the verb nor the content.
        let expected = if is_table_lite && part >= 3 { "ok" } else { "AuthenticationFailed" };
        prop_assert_eq!(changed.outcome(), expected);
    }

    #[test]
    fn a_token_whose_fields_were_changed_fails(
        is_account in any::<bool>(), field in 0..20usize, extra in "[a-z0-9]{1,3}", keys in "[a-z ]{1,5}",
    ) {
        let token = if is_account {
            sign_account_sas(&account(), &AccountSas {
                services: "t", resource_types: "sco", permissions: "rwdlacu",
                start: Some(now()), expiry: Some(later(60)), ip: "127.0.0.1", protocol: "https,http",
                ..AccountSas::default()
            })
        } else {
            sign_service_sas(&account(), StorageService::Table, &ServiceSas {
                resource: "People", permissions: "r", start: Some(now()), expiry: Some(later(60)),
                ip: "127.0.0.1", protocol: "https,http", policy_id: "id",
                keys: KeyLimit {
                    start: Some((keys.clone(), Some(keys.clone()))), end: Some((keys.clone(), Some(keys))),
                },
                ..ServiceSas::default()
            })
        }.unwrap();
        let request = Request::get("/acct/People()").with_query(&token);
        prop_assert_eq!(request.outcome(), "ok");
        let mut fields: Vec<String> = token.split('&').map(str::to_owned).collect();
        let count = fields.len();
        fields[field % count].push_str(&extra);
        prop_assert_eq!(request.clone().with_query(&fields.join("&")).outcome(), "AuthenticationFailed");
    }

    #[test]
    fn a_token_that_lost_a_field_with_a_value_fails(field in 0..20usize) {
        let token = sign_service_sas(&account(), StorageService::Table, &ServiceSas {
            resource: "People", permissions: "r", start: Some(now()), expiry: Some(later(60)),
            ip: "127.0.0.1", protocol: "https,http",
            keys: KeyLimit {
                start: Some(("a".into(), Some("1".into()))), end: Some(("b".into(), Some("2".into()))),
            },
            ..ServiceSas::default()
        }).unwrap();
        let mut fields: Vec<&str> = token.split('&').collect();
        let count = fields.len();
        let lost = fields.remove(field % count);
        let outcome = Request::get("/acct/People()").with_query(&fields.join("&")).outcome();
        let expected = if lost.starts_with("sig=") { "ResourceNotFound" } else { "AuthenticationFailed" };
        prop_assert_eq!(outcome, expected);
    }

    #[test]
    fn nothing_in_the_head_makes_it_panic_or_lets_a_stranger_in(
        path in "/acct(/[ -~é]{0,20})?", query in "([a-z]{1,3}=[ -~]{0,10}&){0,8}(sig=[ -~]{0,50})?",
        authorization in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
        scheme in scheme(), service in service(),
    ) {
        let mut request = Request { service, ..Request::get(&path).with_query(&query) };
        request = request.with_header("x-ms-date", &now().to_rfc1123());
        if let Some(bytes) = authorization {
            let value = [scheme.as_str().as_bytes(), b" acct:", &bytes].concat();
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                request.headers.insert("authorization", value);
            }
        }
        prop_assert_ne!(request.outcome(), "ok");
    }
}
