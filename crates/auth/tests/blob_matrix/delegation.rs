//! Keys of users: who is given one, and what tokens by it open.

use std::sync::Arc;

use http::Method;
use tavola_auth::{
    Access, Accounts, Caller, RequestHead, ServiceSas, TokenSubject, TokenVerifier, authenticate, authorize,
    sign_delegated_sas,
};
use tavola_model::{
    Address, BlobCommand, BlobMoment, Command, DateTime, DelegationKey, ErrorCode, IssueDelegationKey, Query,
    ServiceError, StorageService,
};

use super::operations::{OPERATIONS, Operation};
use super::support::{account, later, now};
use super::{check, sas, target, time};

/// Believes every token and takes its text for the role.
#[derive(Debug)]
struct Trusting;

impl TokenVerifier for Trusting {
    fn check(&self, _: StorageService, token: &str, _: DateTime) -> Result<Access, ServiceError> {
        Ok(if token == "writer" { Access::Write } else { Access::Read })
    }

    fn subject(&self, token: &str) -> Option<TokenSubject> {
        let named = TokenSubject { object_id: format!("id of {token}"), tenant_id: "tenant".into() };
        (token != "nobody").then_some(named)
    }
}

fn bearer(token: &str, service: StorageService) -> Caller {
    let accounts = Accounts::new(vec![account()]).unwrap().with_issuer(Arc::new(Trusting));
    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    let path = "/acct/";
    let address = Address::parse("127.0.0.1", path).unwrap();
    let query = Query::default();
    let (method, peer) = (&Method::POST, [127, 0, 0, 1].into());
    let head =
        RequestHead { method, path, query: &query, headers: &headers, address: &address, secure: true, peer };
    authenticate(&accounts, service, &head, now()).unwrap()
}

fn ask(token: &str, start: Option<DateTime>, expiry: DateTime) -> Result<DelegationKey, ErrorCode> {
    let asked = IssueDelegationKey { start, expiry, version: "2020-12-06".into(), key: None };
    let command = Command::Blob(Box::new(BlobCommand::GetUserDelegationKey(asked)));
    let caller = bearer(token, StorageService::Blob);
    let permitted = authorize(&caller, None, command, now()).map_err(|error| error.code)?;
    let Command::Blob(command) = permitted.command() else { unreachable!() };
    let BlobCommand::GetUserDelegationKey(asked) = command.as_ref() else { unreachable!() };
    Ok(asked.key.clone().unwrap())
}

fn key(token: &str) -> DelegationKey {
    ask(token, None, later(3600)).unwrap()
}

fn outcome(key: &DelegationKey, sas: &ServiceSas<'_>) -> String {
    let token = sign_delegated_sas(account().name(), key, sas).unwrap();
    super::request("/acct/con/a", &token).outcome()
}

fn operation(name: &str) -> &'static Operation {
    OPERATIONS.iter().find(|operation| operation.name() == name).unwrap()
}

#[test]
fn a_key_is_given_to_a_named_bearer_for_a_week_at_most() {
    let week = 7 * 24 * 60 * 60;
    assert_eq!(key("reader").object_id, "id of reader");
    assert!(ask("reader", None, later(week)).is_ok());
    for (start, expiry) in
        [(None, later(week + 1)), (None, now()), (Some(later(60)), later(60)), (Some(time()), time())]
    {
        assert_eq!(ask("reader", start, expiry), Err(ErrorCode::InvalidXmlDocument), "{start:?} {expiry}");
    }
    assert_eq!(ask("nobody", None, later(60)), Err(ErrorCode::AuthorizationFailure));
    assert!(!format!("{:?}", key("reader")).contains(&key("reader").value), "a key is a secret");
}

#[test]
fn tokens_by_a_key_open_what_they_say_within_what_its_owner_could_do() {
    let here = target("con", "a", BlobMoment::Current);
    for (owner, writes) in [("writer", true), ("reader", false)] {
        for version in ["2018-11-09", "2020-02-10", "2020-12-06", "2025-07-05", "2026-10-06"] {
            let sas = ServiceSas { version, ..sas("con/a", "rw") };
            let token = sign_delegated_sas(account().name(), &key(owner), &sas).unwrap();
            let caller = super::request("/acct/con/a", &token).authenticate().unwrap();
            assert!(check(&caller, None, operation("GetBlob"), &here).is_ok(), "{owner} {version}");
            assert_eq!(
                check(&caller, None, operation("PutBlob"), &here).is_ok(),
                writes,
                "{owner} {version}"
            );
            let elsewhere = target("con", "b", BlobMoment::Current);
            assert!(check(&caller, None, operation("GetBlob"), &elsewhere).is_err());
        }
    }
}

#[test]
fn a_key_that_was_changed_or_is_over_opens_nothing() {
    let good = key("reader");
    assert_eq!(outcome(&good, &sas("con/a", "r")), "ok");
    let changes: [fn(&mut DelegationKey); 5] = [
        |key| key.object_id = "id of writer".into(),
        |key| key.tenant_id = "other".into(),
        |key| key.expiry = later(7200),
        |key| key.version = "2019-12-12".into(),
        |key| key.value = "c2Vjb25kIGtleQ==".into(),
    ];
    for change in changes {
        let mut changed = good.clone();
        change(&mut changed);
        assert_eq!(outcome(&changed, &sas("con/a", "r")), "AuthenticationFailed");
    }
    let early = ask("reader", Some(later(60)), later(3600)).unwrap();
    assert_eq!(outcome(&early, &sas("con/a", "r")), "AuthenticationFailed");
    let expired = ServiceSas { expiry: Some(now()), ..sas("con/a", "r") };
    assert_eq!(outcome(&good, &expired), "AuthenticationFailed");
    let token = sign_delegated_sas(account().name(), &good, &sas("con/a", "r")).unwrap();
    for wider in [token.replace("sp=r", "sp=rw"), format!("{token}&srh=x"), format!("{token}&si=policy")] {
        assert_eq!(super::request("/acct/con/a", &wider).outcome(), "AuthenticationFailed");
    }
    assert_eq!(super::request("/acct/con/b", &token).outcome(), "AuthenticationFailed");
}
