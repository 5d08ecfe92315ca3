//! Refusals: code, text and details of a recorded one, encoded again.

use tavola_model::{DateTime, ErrorCode, ServiceError, StorageService};
use tavola_protocol::{Form, encode, status};

use super::answers::compare;
use super::bodies::element;
use super::corpus::{Exchange, load};

/// The error that an answer tells of; `None` for a code of a feature that there is not.
fn error(exchange: &Exchange) -> Option<ServiceError> {
    let body = exchange.body.as_deref().unwrap_or_default();
    let code = element(body, "Code").or_else(|| exchange.header("x-ms-error-code"))?;
    let is_it = |known: &&ErrorCode| known.as_str() == code && status(**known) == exchange.status;
    let code = *ErrorCode::ALL.iter().find(is_it)?;
    let mut error = ServiceError::new(code);
    if let Some(message) = element(body, "Message") {
        error.message = unescaped(message.split_once("\nRequestId:")?.0).into();
    }
    for name in [
        "HeaderName",
        "HeaderValue",
        "QueryParameterName",
        "QueryParameterValue",
        "LineNumber",
        "LinePosition",
        "Reason",
        "UserSpecifiedMd5",
        "ServerCalculatedMd5",
        "UserSpecifiedCrc",
        "ServerCalculatedCrc",
        "AuthenticationErrorDetail",
    ] {
        if body.contains(&format!("<{name}>")) || body.contains(&format!("<{name} />")) {
            error = error.with_detail(name, unescaped(element(body, name).unwrap_or_default()));
        }
    }
    if let Some(range) = exchange.header("content-range") {
        error = error.with_detail(ServiceError::CONTENT_RANGE, range);
    }
    if let Some(text) = exchange.header(ServiceError::SOFT_DELETED) {
        error = error.with_detail(ServiceError::SOFT_DELETED, text);
    }
    Some(error)
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&apos;", "'")
}

/// Bodies that went through a recorder's own writer have a line break behind the declaration and escape apostrophes.
fn plain(body: &str) -> String {
    body.trim_start_matches('\u{FEFF}').replacen("?>\n", "?>", 1).replace("&apos;", "'").replace("&#xD;", "")
}

/// Recorded once: the service refuses the time of a snapshot without naming the version, as only the gateway does.
fn is_of_neither(exchange: &Exchange) -> bool {
    exchange.name.starts_with("Test/TestBlobSnapshotOfSnapshot") && exchange.status == 400
}

#[test]
fn refusals_are_the_recorded_bytes() {
    let (mut same, mut wrong) = (0, Vec::new());
    for exchange in load().iter().filter(|exchange| exchange.status >= 300 && !is_of_neither(exchange)) {
        let Some(error) = error(exchange) else { continue };
        let body = exchange.body.as_deref().unwrap_or_default();
        let told = element(body, "Message").and_then(|message| message.rsplit_once("\nTime:"));
        let now = told.and_then(|(_, time)| DateTime::parse(time)).unwrap_or(DateTime::MIN);
        let mut reply = exchange.reply();
        if let Some((before, _)) = told {
            reply.request_id = before.rsplit_once("RequestId:").unwrap().1.to_owned();
        }
        let ids = [tavola_model::Guid([0; 16]); 2];
        let mut response =
            encode(StorageService::Blob, &reply, &Form::default(), &Err(error), None, now, ids);
        // Which tenant a client is sent to is a matter of the account.
        response.headers.retain(|(name, _)| *name != "WWW-Authenticate");
        let ours =
            if reply.head_only { String::new() } else { plain(std::str::from_utf8(&response.body).unwrap()) };
        let differs = !body.is_empty() && ours != plain(body);
        let bodies = differs.then(|| format!("{}\n  ours   {ours}\n  theirs {}", exchange.name, plain(body)));
        match compare(exchange, &response).or(bodies) {
            None => same += 1,
            Some(difference) => wrong.push(difference),
        }
    }
    println!("{same} refusals are the same, {} are not", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(load().is_empty() || same > 250, "{same}");
}
