//! Callers that are not who they say, or not now.
use tavola_system::SystemClock;

use tavola_auth::{Account, Scheme, ServiceSas, sign_service_sas};
use tavola_model::{Clock, DateTime, StorageService};

use crate::case::{Case, Send, Unanswered, altered, case, get, post};
use crate::exchange::Signer;

const FAILED: &str = "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.";
const MALFORMED: &str =
    "Authentication information is not given in the correct format. Check the value of Authorization header.";
const CHALLENGED: &str = "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.";

pub fn cases() -> Vec<Case> {
    [dates(), authorizations(), anonymous(), tokens()].into_iter().flatten().collect()
}

fn failed(unanswered: Unanswered) -> Case {
    unanswered.refused(403, "AuthenticationFailed").saying(FAILED)
}

fn dated(dates: Vec<(&'static str, String)>) -> Send {
    let signer = Signer { scheme: Scheme::SharedKeyLite, dates, account: Account::development() };
    Send::SignedWith(get("/Tables"), Box::new(signer))
}

fn minutes_from_now(minutes: i64) -> DateTime {
    let ticks = i64::try_from(SystemClock.now().ticks()).unwrap() + minutes * 60 * 10_000_000;
    DateTime::from_ticks(u64::try_from(ticks).unwrap()).unwrap()
}

fn dates() -> Vec<Case> {
    let at = |minutes| minutes_from_now(minutes).to_rfc1123();
    vec![
        failed(case("a date 16 minutes old", dated(vec![("x-ms-date", at(-16))]))),
        failed(case("a date 16 minutes ahead", dated(vec![("x-ms-date", at(16))]))),
        failed(case("an old date in the plain header", dated(vec![("Date", at(-60))]))),
        failed(case(
            "an old date beside a good plain one",
            dated(vec![("x-ms-date", at(-60)), ("Date", at(0))]),
        )),
        failed(case(
            "a date in another form",
            dated(vec![("x-ms-date", minutes_from_now(0).to_text_7_digits())]),
        )),
        failed(case("a date that is no date", dated(vec![("x-ms-date", "yesterday".into())]))),
        failed(case("an empty date", dated(vec![("x-ms-date", String::new())]))),
        failed(case("no date at all", dated(Vec::new()))),
    ]
}

fn authorizations() -> Vec<Case> {
    // The recorded form of this refusal is that of the other two services; tables share their gateway.
    let malformed =
        |name, value| authorized(name, value).refused(400, "InvalidAuthenticationInfo").saying(MALFORMED);
    let other = |scheme| {
        let signer = Signer {
            scheme,
            dates: vec![("x-ms-date", minutes_from_now(0).to_rfc1123())],
            account: Account::parse("devstoreaccount1:b3RoZXIga2V5").unwrap(),
        };
        Send::SignedWith(get("/Tables"), Box::new(signer))
    };
    let target = "/Seeded(PartitionKey='p',RowKey='1')";
    vec![
        malformed("an authorization of one word", "SharedKeyLite"),
        malformed("an authorization without a signature", "SharedKeyLite devstoreaccount1"),
        malformed("an empty authorization", ""),
        malformed("an authorization of another scheme", "Basic dXNlcjpwYXNz"),
        failed(authorized("an empty signature", "SharedKeyLite devstoreaccount1:")),
        failed(authorized("a signature that is no base64", "SharedKeyLite devstoreaccount1:***")),
        failed(authorized("the signature of nothing", "SharedKey devstoreaccount1:AAAA")),
        failed(authorized("a signature of another account", "SharedKey other:AAAA")),
        failed(authorized("a token that no one issued, at an old version", "Bearer abc")),
        case(
            "a token that no one issued",
            Send::AuthorizedBy(get("/Tables").with_header("x-ms-version", "2020-12-06"), "Bearer abc"),
        )
        .refused(401, "InvalidAuthenticationInfo")
        .saying(CHALLENGED),
        failed(case("another key", other(Scheme::SharedKey))),
        failed(case("another key, signed in short", other(Scheme::SharedKeyLite))),
        failed(case("a path changed after signing", altered(get(target), "RowKey='1'", "RowKey='2'"))),
        failed(case("a path decoded after signing", altered(get("/Seeded%28%29"), "%28%29", "()"))),
        failed(case("a part added after signing", altered(get("/Seeded"), "/Seeded ", "/Seeded?comp=acl "))),
        failed(case(
            "another scheme named after signing",
            altered(get("/Tables"), "SharedKeyLite", "SharedKey"),
        )),
    ]
}

fn authorized(name: &'static str, value: &'static str) -> Unanswered {
    case(name, Send::AuthorizedBy(get("/Tables"), value))
}

fn anonymous() -> Vec<Case> {
    let no_one = |request| Send::Anonymous(request);
    let insert = post("/Seeded", r#"{"PartitionKey":"x","RowKey":"x"}"#);
    vec![
        case("no credentials at an old version", no_one(get("/Tables"))).refused(404, "ResourceNotFound"),
        case(
            "no credentials at a new version",
            no_one(get("/Tables").with_header("x-ms-version", "2020-12-06")),
        )
        .refused(401, "NoAuthenticationInformation")
        .saying(CHALLENGED),
        case("an insert without credentials", no_one(insert)).refused(404, "ResourceNotFound"),
        case(
            "a batch without credentials",
            no_one(post("/$batch", "").with_header("Content-Type", "multipart/mixed; boundary=b")),
        )
        .refused(404, "ResourceNotFound"),
        case("settings without credentials", no_one(get("/?restype=service&comp=properties")))
            .refused(404, "ResourceNotFound"),
        case("nonsense without credentials", no_one(get("/Seeded(((?$top=x")))
            .refused(404, "ResourceNotFound"),
    ]
}

fn tokens() -> Vec<Case> {
    let sas =
        |sas: ServiceSas<'_>| sign_service_sas(&Account::development(), StorageService::Table, &sas).unwrap();
    let expiry = Some(minutes_from_now(60));
    let read = ServiceSas { resource: "seeded", permissions: "r", expiry, ..ServiceSas::default() };
    let with = |token: &str| Send::Anonymous(get(format!("/Seeded()?{token}")));
    let insert = |token: &str| {
        Send::Anonymous(post(format!("/Seeded?{token}"), r#"{"PartitionKey":"x","RowKey":"x"}"#))
    };
    let good = sas(read.clone());
    let no_text = Send::Raw(
        b"GET /devstoreaccount1/Seeded()?sv=2019-02-02&sig=%FF HTTP/1.1\r\nHost: 127.0.0.1\r\n\
          Connection: close\r\n\r\n"
            .to_vec(),
    );
    vec![
        failed(case("a token that is only a signature", with("sig=AAAA"))),
        failed(case("a token with another signature", with(&format!("{}A", good)))),
        failed(case("a token with more permission than was signed", with(&good.replace("sp=r", "sp=raud")))),
        failed(case(
            "a token that ended",
            with(&sas(ServiceSas { expiry: Some(minutes_from_now(-1)), ..read.clone() })),
        )),
        failed(case(
            "a token that has not begun",
            with(&sas(ServiceSas { start: Some(minutes_from_now(30)), ..read.clone() })),
        )),
        failed(case(
            "a token of a policy that is not there",
            with(&sas(ServiceSas { policy_id: "gone", expiry: None, permissions: "", ..read.clone() })),
        )),
        failed(case("a token that is not UTF-8", no_text)),
        case("a token for another table", Send::Anonymous(get(format!("/Other()?{good}"))))
            .refused(403, "AuthorizationFailure"),
        case("a write with a token to read", insert(&good)).refused(403, "AuthorizationPermissionMismatch"),
        case("the list of tables with a table's token", Send::Anonymous(get(format!("/Tables?{good}"))))
            .refused(403, "AuthorizationFailure"),
        case("a token for TLS only", with(&sas(ServiceSas { protocol: "https", ..read.clone() })))
            .refused(403, "AuthorizationProtocolMismatch"),
        case("a token for another address", with(&sas(ServiceSas { ip: "10.0.0.1", ..read })))
            .refused(403, "AuthorizationSourceIPMismatch"),
    ]
}
