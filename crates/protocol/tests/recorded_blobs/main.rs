//! The blob service against what was recorded of the real one: every request decodes, and every answer is what the same
//! outcome encodes to.
//!
//! What the service decided (times, sums, sizes) is read from the recorded answer into an outcome; encoded again it must
//! have the same status, the same headers and the same body. Each test has a floor for how much it compares, so that it
//! cannot pass by comparing nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod bodies;
mod corpus;
mod errors;
#[path = "../recorded/mod.rs"]
mod recorded;

use corpus::{Exchange, load};

/// Features that are refused by name; their recordings cannot decode.
const REFUSED: [&str; 5] = [
    "x-ms-encryption-key",
    "x-ms-encryption-scope",
    "x-ms-immutability-policy-mode",
    "x-ms-immutability-policy-until-date",
    "x-ms-legal-hold",
];

/// Recorders of JavaScript have lost the header that names the source of a copy.
fn has_lost_its_source(exchange: &Exchange) -> bool {
    let tells_copy = exchange.header("x-ms-copy-id").is_some()
        || exchange.body.as_deref().is_some_and(|body| body.contains("<HeaderName>x-ms-copy-source<"));
    let is_empty_block = exchange.query.contains("comp=block&") && exchange.sent().is_empty();
    exchange.method == http::Method::PUT
        && exchange.asked("x-ms-copy-source").is_none()
        && (tells_copy || is_empty_block && exchange.name.contains("with_cpk"))
}

fn is_refused(exchange: &Exchange) -> bool {
    if has_lost_its_source(exchange) {
        return true;
    }
    let comp = |name: &str| exchange.query.contains(&format!("comp={name}"));
    REFUSED.iter().any(|name| exchange.request_headers.contains_key(*name))
        || comp("legalhold")
        || comp("immutabilityPolicies")
}

#[test]
fn every_recorded_request_decodes_or_is_refused_with_the_recorded_code() {
    let (mut decoded, mut refused, mut wrong) = (0, 0, Vec::new());
    for exchange in load().iter().filter(|exchange| !is_refused(exchange)) {
        let code = exchange.header("x-ms-error-code").or_else(|| {
            let body = exchange.body.as_deref()?;
            body.split_once("<Code>")?.1.split_once("</Code>").map(|(code, _)| code)
        });
        match exchange.decode() {
            Ok(_) => decoded += 1,
            Err(error) if code == Some(error.code.as_str()) => refused += 1,
            // The answer to HEAD tells no code in old versions.
            Err(error) if code.is_none() && tavola_protocol::status(error.code) == exchange.status => {
                refused += 1
            }
            Err(error) => wrong.push(format!("{} {code:?} {error}", exchange.name)),
        }
    }
    assert!(wrong.is_empty(), "{} do not decode:\n{}", wrong.len(), wrong.join("\n"));
    println!("{decoded} decoded, {refused} refused as recorded");
    assert!(load().is_empty() || (decoded > 1900 && refused > 15), "{decoded} {refused}");
}

/// Codes that the head of a request decides, and so decoding must find.
const OF_HEAD: [&str; 10] = [
    "BothCrc64AndMd5RangeHeaderPresent",
    "InvalidHeaderValue",
    "InvalidMetadata",
    "InvalidQueryParameterValue",
    "InvalidResourceName",
    "InvalidXmlDocument",
    "MissingRequiredHeader",
    "MissingRequiredQueryParameter",
    "MutuallyExclusiveQueryParameters",
    "OutOfRangeInput",
];

#[test]
fn what_the_head_of_a_request_decides_is_refused_before_it_is_executed() {
    let mut found = 0;
    for exchange in load().iter().filter(|exchange| !is_refused(exchange)) {
        let code = exchange.header("x-ms-error-code");
        let is_of_head = code.is_some_and(|code| OF_HEAD.contains(&code));
        if is_of_head {
            let error = exchange.decode().expect_err(&exchange.name);
            assert_eq!(Some(error.code.as_str()), code, "{}", exchange.name);
            found += 1;
        }
    }
    assert!(load().is_empty() || found > 25, "{found}");
}
