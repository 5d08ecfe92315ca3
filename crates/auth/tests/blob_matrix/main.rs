//! Every operation of the blob service × every kind of token × every set of permissions, against the tables in the
//! service's documentation; public containers, and keys of users.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod delegation;
mod operations;
#[path = "../support/mod.rs"]
mod support;

use operations::{OPERATIONS, Operation};
use support::{Request, account, later, now};
use tavola_auth::{
    AccountSas, Caller, ServiceSas, authorize, authorize_public, sign_account_sas, sign_service_sas,
};
use tavola_model::{
    AccessPolicy, BlobHeaders, BlobMoment, BlobName, BlobPath, BlobTarget, Command, ContainerName, DateTime,
    ErrorCode, PublicAccess, SignedIdentifier, StorageService,
};

const LETTERS: &str = "racwdxyltf";

fn path(container: &str, name: &str) -> BlobPath {
    BlobPath { container: ContainerName::parse(container).unwrap(), name: BlobName::parse(name).unwrap() }
}

fn target(container: &str, name: &str, moment: BlobMoment) -> BlobTarget {
    BlobTarget { path: path(container, name), moment }
}

fn time() -> DateTime {
    DateTime::parse("2026-01-02T03:04:05.1234567Z").unwrap()
}

fn subsets(letters: &str) -> Vec<String> {
    (1..1u32 << letters.len())
        .map(|bits| {
            let chosen = letters.chars().enumerate().filter(|(place, _)| bits & (1 << place) != 0);
            chosen.map(|(_, letter)| letter).collect()
        })
        .collect()
}

fn request(path: &str, query: &str) -> Request {
    let mut request = Request::get(path).with_query(query);
    request.service = StorageService::Blob;
    request
}

fn check(
    caller: &Caller,
    policy: Option<&SignedIdentifier>,
    operation: &Operation,
    at: &BlobTarget,
) -> Result<bool, ErrorCode> {
    let command = Command::Blob(Box::new((operation.command)(at)));
    let permitted = authorize(caller, policy, command, now()).map_err(|error| error.code)?;
    Ok(permitted.may_overwrite())
}

/// Only a bearer of a token may ask for it, whatever a signature says.
fn is_for_bearers(operation: &Operation) -> bool {
    operation.name() == "GetUserDelegationKey"
}

fn has_one(permissions: &str, letters: &str) -> bool {
    letters.chars().any(|letter| permissions.contains(letter))
}

/// What letters open: an error, or whether a blob may be replaced.
fn opened(permissions: &str, letters: &str, operation: &Operation) -> Result<bool, ErrorCode> {
    match letters {
        "*" => Ok(true),
        "" => Err(ErrorCode::AuthorizationFailure),
        _ if !has_one(permissions, letters) => Err(ErrorCode::AuthorizationPermissionMismatch),
        _ => Ok(!operation.replaces || permissions.contains('w')),
    }
}

fn sas<'a>(resource: &'a str, permissions: &'a str) -> ServiceSas<'a> {
    ServiceSas { resource, permissions, expiry: Some(later(60)), ..ServiceSas::default() }
}

fn token(sas: &ServiceSas<'_>) -> String {
    sign_service_sas(&account(), StorageService::Blob, sas).unwrap()
}

#[test]
fn a_container_sas_opens_exactly_what_its_letters_say_of_its_container() {
    let (here, there) =
        (target("con", "a/b", BlobMoment::Current), target("other", "a/b", BlobMoment::Current));
    for permissions in subsets(LETTERS) {
        let token = token(&sas("con", &permissions));
        let caller = request("/acct/con/a/b", &token).authenticate().unwrap();
        for operation in OPERATIONS.iter().filter(|operation| !is_for_bearers(operation)) {
            let expected = opened(&permissions, operation.container_letters(), operation);
            assert_eq!(
                check(&caller, None, operation, &here),
                expected,
                "sp={permissions} {}",
                operation.name()
            );
            if operation.container_letters() != "*" {
                let elsewhere = check(&caller, None, operation, &there);
                assert_eq!(elsewhere, Err(ErrorCode::AuthorizationFailure), "{}", operation.name());
            }
        }
    }
}

#[test]
fn a_blob_sas_opens_exactly_what_its_letters_say_of_its_blob() {
    let here = target("con", "a/b", BlobMoment::Current);
    for permissions in subsets(LETTERS) {
        let token = token(&sas("con/a/b", &permissions));
        let caller = request("/acct/con/a/b", &token).authenticate().unwrap();
        for operation in OPERATIONS.iter().filter(|operation| !is_for_bearers(operation)) {
            let expected = opened(&permissions, operation.blob_letters(), operation);
            assert_eq!(
                check(&caller, None, operation, &here),
                expected,
                "sp={permissions} {}",
                operation.name()
            );
        }
    }
    let token = token(&sas("con/a/b", LETTERS));
    let caller = request("/acct/con/a/b", &token).authenticate().unwrap();
    for elsewhere in [("con", "a"), ("con", "a/b/c"), ("con", "a/B"), ("other", "a/b")] {
        let named = |operation: &&Operation| operation.blob_letters() != "*" && !is_for_bearers(operation);
        for operation in OPERATIONS.iter().filter(named) {
            let at = target(elsewhere.0, elsewhere.1, BlobMoment::Current);
            let found = check(&caller, None, operation, &at);
            assert_eq!(found, Err(ErrorCode::AuthorizationFailure), "{elsewhere:?} {}", operation.name());
        }
    }
}

#[test]
fn an_account_sas_opens_exactly_what_its_services_types_and_letters_say() {
    let here = target("con", "a/b", BlobMoment::Current);
    for services in ["b", "qt"] {
        for resource_types in subsets("sco") {
            for permissions in subsets(LETTERS) {
                let sas = AccountSas {
                    services,
                    resource_types: &resource_types,
                    permissions: &permissions,
                    expiry: Some(later(60)),
                    ..AccountSas::default()
                };
                let token = sign_account_sas(&account(), &sas).unwrap();
                let caller = request("/acct/con/a/b", &token).authenticate().unwrap();
                for operation in OPERATIONS.iter().filter(|operation| !is_for_bearers(operation)) {
                    let expected = if !services.contains('b') {
                        Err(ErrorCode::AuthorizationServiceMismatch)
                    } else if matches!(operation.account_letters, "" | "*") {
                        opened(&permissions, operation.account_letters, operation)
                    } else if !resource_types.contains(operation.resource_type) {
                        Err(ErrorCode::AuthorizationResourceTypeMismatch)
                    } else {
                        opened(&permissions, operation.account_letters, operation)
                    };
                    let found = check(&caller, None, operation, &here);
                    assert_eq!(found, expected, "srt={resource_types} sp={permissions} {}", operation.name());
                }
            }
        }
    }
}

#[test]
fn the_owner_may_do_everything_but_ask_for_the_key_of_a_user() {
    let here = target("con", "a/b", BlobMoment::Current);
    let request = request("/acct/con/a/b", "").with_header("x-ms-date", "Mon, 01 Jun 2026 12:00:00 GMT");
    let caller = request.signed(tavola_auth::Scheme::SharedKey).authenticate().unwrap();
    for operation in &OPERATIONS {
        let expected =
            if is_for_bearers(operation) { Err(ErrorCode::AuthenticationFailed) } else { Ok(true) };
        assert_eq!(check(&caller, None, operation, &here), expected, "{}", operation.name());
    }
}

#[test]
fn the_key_of_a_user_is_given_for_no_signature_and_the_answer_says_what_for() {
    let operation = OPERATIONS.iter().find(|operation| is_for_bearers(operation)).unwrap();
    let sas = AccountSas {
        services: "b",
        resource_types: "sco",
        permissions: LETTERS,
        expiry: Some(later(60)),
        ..AccountSas::default()
    };
    let tokens = [sign_account_sas(&account(), &sas).unwrap(), token(&self::sas("con/a/b", LETTERS))];
    let owner = request("/acct/con/a/b", "").with_header("x-ms-date", "Mon, 01 Jun 2026 12:00:00 GMT");
    let owner = owner.signed(tavola_auth::Scheme::SharedKey);
    for request in tokens.map(|token| request("/acct/con/a/b", &token)).into_iter().chain([owner]) {
        let caller = request.authenticate().unwrap();
        let command = (operation.command)(&target("con", "a/b", BlobMoment::Current));
        let error = authorize(&caller, None, Command::Blob(Box::new(command)), now()).unwrap_err();
        assert_eq!(error.code, ErrorCode::AuthenticationFailed);
        let detail = "Only authentication scheme Bearer is supported".to_owned();
        assert_eq!(error.details, [("AuthenticationErrorDetail", detail)]);
    }
}

#[test]
fn tokens_for_a_snapshot_or_version_open_that_state_alone() {
    let read = OPERATIONS.iter().find(|operation| operation.name() == "GetBlob").unwrap();
    let states = [BlobMoment::Current, BlobMoment::Snapshot(time()), BlobMoment::Version(time())];
    for (kind, parameter, opened) in [("b", "", 0), ("bs", "snapshot", 1), ("bv", "versionid", 2)] {
        let moment = (!parameter.is_empty()).then(time);
        let sas = ServiceSas { blob_kind: kind, blob_moment: moment, ..sas("con/a", "r") };
        let caller = request("/acct/con/a", &token(&sas)).authenticate().unwrap();
        for (index, state) in states.into_iter().enumerate() {
            let found = check(&caller, None, read, &target("con", "a", state)).is_ok();
            assert_eq!(found, index == opened, "{kind} {state:?}");
        }
        // Another time is another text.
        let changed = token(&sas).replace("2026-01-02", "2026-01-03");
        assert_eq!(request("/acct/con/a", &changed).outcome() == "ok", parameter.is_empty(), "{kind}");
    }
    // Before there were tokens for snapshots, one for the blob opened them.
    let old = ServiceSas { version: "2018-03-28", ..sas("con/a", "r") };
    let caller = request("/acct/con/a", &token(&old)).authenticate().unwrap();
    assert!(check(&caller, None, read, &target("con", "a", states[1])).is_ok());
}

#[test]
fn a_blob_sas_holds_for_no_other_path_and_no_other_headers() {
    let outcome = |path: &str, token: &str| request(path, token).outcome();
    let blob = token(&sas("con/a b", "r"));
    assert_eq!(outcome("/acct/con/a%20b", &blob), "ok");
    for path in ["/acct/con/a", "/acct/con/a%20B", "/acct/con%2Fa%20b", "/acct/con", "/acct/"] {
        assert_eq!(outcome(path, &blob), "AuthenticationFailed", "{path}");
    }
    let container = token(&sas("con", "l"));
    assert_eq!(outcome("/acct/con", &format!("restype=container&comp=list&{container}")), "ok");
    assert_eq!(
        outcome("/acct/other", &format!("restype=container&comp=list&{container}")),
        "AuthenticationFailed"
    );
    // Without the word a path of one segment is a blob of the root container.
    assert_eq!(outcome("/acct/con", &container), "AuthenticationFailed");
    let root = token(&sas("$root/name", "r"));
    assert_eq!(outcome("/acct/name", &root), "ok");
    let headers = BlobHeaders { content_type: Some("text/plain".into()), ..BlobHeaders::default() };
    let typed = token(&ServiceSas { blob_headers: headers, ..sas("con/a", "r") });
    assert_eq!(outcome("/acct/con/a", &typed), "ok");
    assert_eq!(outcome("/acct/con/a", &typed.replace("plain", "html")), "AuthenticationFailed");
    assert_eq!(
        outcome("/acct/con/a", &format!("{}&rscc=x", token(&sas("con/a", "r")))),
        "AuthenticationFailed"
    );
    let directory = token(&ServiceSas { blob_kind: "c", ..sas("con", "r") }).replace("sr=c", "sr=d");
    assert_eq!(outcome("/acct/con/a", &directory), "AuthenticationFailed");
}

#[test]
fn a_stored_policy_is_that_of_the_container() {
    let sas = ServiceSas { resource: "con/a/b", policy_id: "readers", ..ServiceSas::default() };
    let caller = request("/acct/con/a/b", &token(&sas)).authenticate().unwrap();
    assert_eq!(caller.stored_policy(), Some(("con", "readers")));
    let limits = AccessPolicy { start: None, expiry: Some(later(60)), permission: Some("r".into()) };
    let policy = SignedIdentifier { id: "readers".into(), policy: Some(limits) };
    let here = target("con", "a/b", BlobMoment::Current);
    let named = |operation: &&Operation| operation.blob_letters() != "*" && !is_for_bearers(operation);
    for operation in OPERATIONS.iter().filter(named) {
        let expected = opened("r", operation.blob_letters(), operation);
        assert_eq!(check(&caller, Some(&policy), operation, &here), expected, "{}", operation.name());
        assert_eq!(check(&caller, None, operation, &here), Err(ErrorCode::AuthenticationFailed));
    }
}

#[test]
fn without_credentials_only_what_is_public_is_read() {
    let here = target("con", "a/b", BlobMoment::Current);
    for (version, refusal) in
        [("2019-02-02", ErrorCode::ResourceNotFound), ("2021-12-02", ErrorCode::NoAuthenticationInformation)]
    {
        let mut reader = request("/acct/con/a/b", "").with_header("x-ms-version", version);
        let caller = reader.authenticate().unwrap();
        for operation in &OPERATIONS {
            let command = Command::Blob(Box::new((operation.command)(&here)));
            // Whoever forgets to ask refuses.
            assert_eq!(authorize(&caller, None, command.clone(), now()).unwrap_err().code, refusal);
            assert_eq!(caller.asks_public_access(&command).is_some(), operation.public.is_some());
            for access in [PublicAccess::None, PublicAccess::Blob, PublicAccess::Container] {
                let found = authorize_public(&caller, access, command.clone()).map(|_| ());
                let expected = match operation.public {
                    Some(needed) if access >= needed => Ok(()),
                    _ => Err(refusal),
                };
                assert_eq!(found.map_err(|error| error.code), expected, "{access:?} {}", operation.name());
            }
        }
        reader.method = http::Method::PUT;
        assert_eq!(reader.outcome(), refusal.as_str());
    }
}
