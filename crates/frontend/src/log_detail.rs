//! What Storage Analytics wants to know, read from a request and its answer. The signature of a token is left out.

use http::HeaderMap;
use http::header::{self, HeaderName};
use tavola_model::{AccountName, BlobCommand, Command, EntityChange, QueueCommand, TableCommand};
use tavola_protocol::Response;
use tavola_telemetry::{AccessKind, Authentication, DetailOf, LoggedFields, RequestDetail};

use crate::receive::Received;

/// Headers that make a request conditional.
static CONDITIONS: [HeaderName; 4] =
    [header::IF_MATCH, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE];

/// What its head says: for sums, or for a log of all.
pub(crate) fn of(account: &AccountName, received: &Received, of: DetailOf) -> RequestDetail {
    RequestDetail {
        authentication: authentication(&received.headers, received.query()),
        access: AccessKind::Read,
        request_head_bytes: head_bytes(received),
        response_head_bytes: 0,
        logged: (of == DetailOf::All).then(|| Box::new(logged_fields(account, received))),
    }
}

fn logged_fields(account: &AccountName, received: &Received) -> LoggedFields {
    let headers = &received.headers;
    let scheme = if received.origin.secure { "https" } else { "http" };
    let host = text(headers, &header::HOST).unwrap_or_default();
    let path = received.path();
    let query = without_signature(received.query());
    let mark = if query.is_empty() { "" } else { "?" };
    let names_account = path.strip_prefix('/').is_some_and(|path| path.starts_with(account.as_str()));
    let object_key = if names_account { path.to_owned() } else { format!("/{account}{path}") };
    let conditions = CONDITIONS.iter().filter_map(|name| {
        let value = text(headers, name)?;
        Some(format!("{}={value}", name.as_str()))
    });
    LoggedFields {
        url: format!("{scheme}://{host}{path}{mark}{query}").into(),
        object_key: object_key.into(),
        peer: received.origin.peer,
        version: headers.get("x-ms-version").and_then(|value| value.to_str().ok()).map(Box::from),
        content_length: text(headers, &header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
        content_md5: headers.get("content-md5").and_then(|value| value.to_str().ok()).map(Box::from),
        etag: None,
        last_modified: None,
        conditions: conditions.collect::<Vec<_>>().join(";").into(),
        user_agent: text(headers, &header::USER_AGENT).map(Box::from),
        referrer: text(headers, &header::REFERER).map(Box::from),
    }
}

/// What its answer says.
pub(crate) fn note_response(detail: &mut RequestDetail, response: &Response) {
    let lines = response.headers.iter().map(|(name, value)| name.len() + value.len() + 4);
    let metadata = response.metadata.iter().map(|(name, value)| name.len() + value.len() + 4);
    detail.response_head_bytes = lines.chain(metadata).sum::<usize>() as u64;
    let header = |wanted: &str| {
        let found = response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.and_then(|(_, value)| value.to_str().ok()).map(Box::<str>::from)
    };
    if let Some(logged) = &mut detail.logged {
        logged.etag = header("etag");
        logged.last_modified = header("last-modified");
    }
}

/// What kind of access a command is.
pub(crate) fn access(command: &Command) -> AccessKind {
    let is_delete = match command {
        Command::Table(TableCommand::DeleteTable(_))
        | Command::Queue(
            QueueCommand::DeleteQueue(_) | QueueCommand::DeleteMessage(_) | QueueCommand::ClearMessages(_),
        ) => true,
        Command::Table(TableCommand::WriteEntity(_, write)) => {
            matches!(write.change, EntityChange::Delete(_))
        }
        Command::Blob(command) => {
            matches!(**command, BlobCommand::DeleteBlob(_) | BlobCommand::DeleteContainer(_))
        }
        Command::Account(_) | Command::Table(_) | Command::Queue(_) => false,
    };
    match (is_delete, command.writes()) {
        (true, _) => AccessKind::Delete,
        (false, true) => AccessKind::Write,
        (false, false) => AccessKind::Read,
    }
}

fn authentication(headers: &HeaderMap, query: &str) -> Authentication {
    match text(headers, &header::AUTHORIZATION) {
        Some(value) if value.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("bearer ")) => {
            Authentication::Bearer
        }
        Some(_) => Authentication::Key,
        None if query.split('&').any(|part| part.starts_with("sig=")) => Authentication::Sas,
        None => Authentication::Anonymous,
    }
}

/// The query with something else in the place of a signature.
fn without_signature(query: &str) -> String {
    let part = |part: &str| match part.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case("sig") => format!("{name}=XXXXX"),
        _ => part.to_owned(),
    };
    query.split('&').map(part).collect::<Vec<_>>().join("&")
}

fn head_bytes(received: &Received) -> u64 {
    let line = received.method.as_str().len() + received.path().len() + received.query().len();
    let headers = received.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    (line + headers.sum::<usize>()) as u64
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_never_kept() {
        for (query, kept) in [
            ("", ""),
            ("a=1&sig=secret%3D&b=2", "a=1&sig=XXXXX&b=2"),
            ("SIG=secret", "SIG=XXXXX"),
            ("sig=secret&sig=again", "sig=XXXXX&sig=XXXXX"),
            ("signed=1", "signed=1"),
        ] {
            assert_eq!(without_signature(query), kept);
        }
    }
}
