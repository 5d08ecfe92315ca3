//! What Storage Analytics wants to know, read from a request and its answer. The signature of a token is left out.

use std::net::SocketAddr;

use http::HeaderMap;
use http::header::{self, HeaderName};
use tavola_model::{
    AccountName, BlobCommand, Command, EntityChange, Query, QueueCommand, TableCommand, is_signature,
};
use tavola_protocol::Response;
use tavola_telemetry::{AccessKind, Authentication, DetailOf, LoggedFields, RequestDetail};

use crate::receive::Received;

/// Headers that make a request conditional, as a log spells them.
static CONDITIONS: [(HeaderName, &str); 4] = [
    (header::IF_MATCH, "If-Match"),
    (header::IF_NONE_MATCH, "If-None-Match"),
    (header::IF_MODIFIED_SINCE, "If-Modified-Since"),
    (header::IF_UNMODIFIED_SINCE, "If-Unmodified-Since"),
];

/// What its head says: for sums, or for a log of all. `query` is the parsed query, if it could be parsed.
pub(crate) fn of(
    account: &AccountName,
    received: &Received,
    query: Option<&Query<'_>>,
    of: DetailOf,
) -> RequestDetail {
    RequestDetail {
        authentication: authentication(&received.headers, query),
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
    let conditions = CONDITIONS.iter().filter_map(|(name, shown)| {
        let value = text(headers, name)?;
        Some(format!("{shown}={value}"))
    });
    let named = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    LoggedFields {
        url: format!("{scheme}://{host}{path}{mark}{query}").into(),
        object_key: object_key(account, path).into(),
        peer: SocketAddr::new(received.origin.peer, received.origin.peer_port),
        version: named("x-ms-version").map(Box::from),
        content_length: text(headers, &header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
        content_md5: named("content-md5").or_else(|| named("x-ms-content-md5")).map(Box::from),
        etag: None,
        last_modified: None,
        conditions: conditions.collect::<Vec<_>>().join(";").into(),
        user_agent: text(headers, &header::USER_AGENT).map(Box::from),
        referrer: text(headers, &header::REFERER).map(Box::from),
        copy_source: named("x-ms-copy-source").map(|source| match source.split_once('?') {
            Some((path, query)) => format!("{path}?{}", without_signature(query)).into(),
            None => source.into(),
        }),
    }
}

/// The path with the account in front, which it names already if the host does not.
fn object_key(account: &AccountName, path: &str) -> String {
    let first = path.strip_prefix('/').and_then(|path| path.split('/').next());
    if first == Some(account.as_str()) { path.to_owned() } else { format!("/{account}{path}") }
}

/// What its answer says.
pub(crate) fn note_response(detail: &mut RequestDetail, response: &Response) {
    let metadata = response.metadata.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let headers = response.headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    note_lines(detail, headers.chain(metadata));
}

/// What the answer of another server says.
pub(crate) fn note_forwarded(detail: &mut RequestDetail, headers: &HeaderMap) {
    note_lines(detail, headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
}

fn note_lines<'a>(detail: &mut RequestDetail, lines: impl Iterator<Item = (&'a str, &'a [u8])>) {
    for (name, value) in lines {
        detail.response_head_bytes += (name.len() + value.len() + 4) as u64;
        let Some(logged) = &mut detail.logged else { continue };
        let text = || std::str::from_utf8(value).ok().map(Box::<str>::from);
        if name.eq_ignore_ascii_case("etag") {
            logged.etag = text();
        } else if name.eq_ignore_ascii_case("last-modified") {
            logged.last_modified = text();
        }
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

fn authentication(headers: &HeaderMap, query: Option<&Query<'_>>) -> Authentication {
    match text(headers, &header::AUTHORIZATION) {
        Some(value) if value.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("bearer ")) => {
            Authentication::Bearer
        }
        Some(_) => Authentication::Key,
        None if query.is_some_and(|query| query.get("sig").is_some()) => Authentication::Sas,
        None => Authentication::Anonymous,
    }
}

/// The query with something else in the place of a signature.
fn without_signature(query: &str) -> String {
    let part = |part: &str| match part.split_once('=') {
        Some((name, _)) if is_signature(part) => format!("{name}=XXXXX"),
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

    fn logged(path: &str, headers: &[(&'static str, &'static str)]) -> LoggedFields {
        let mut request = http::Request::put(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let origin = crate::receive::Origin {
            peer: [192, 100, 0, 102].into(),
            peer_port: 4362,
            secure: false,
            service: tavola_model::StorageService::Blob,
            is_server: false,
        };
        let received = Received::new(parts, origin, Vec::new());
        logged_fields(&AccountName::parse("dev").unwrap(), &received)
    }

    #[test]
    fn the_key_of_an_object_begins_with_its_account_once() {
        assert_eq!(&*logged("/dev/box/a", &[]).object_key, "/dev/box/a");
        assert_eq!(&*logged("/devices/a", &[]).object_key, "/dev/devices/a");
        assert_eq!(&*logged("/dev", &[]).object_key, "/dev");
    }

    #[test]
    fn fields_are_written_as_the_format_has_them() {
        let fields = logged(
            "/dev/box/a",
            &[
                ("if-match", "\"0x1\""),
                ("if-modified-since", "Fri, 05 Aug 2011 19:11:54 GMT"),
                ("x-ms-content-md5", "788815fd0198be0d275ad329cafd1830"),
                ("x-ms-copy-source", "http://127.0.0.1/dev/box/b?se=1&sig=secret"),
            ],
        );
        assert_eq!(fields.peer.to_string(), "192.100.0.102:4362");
        assert_eq!(&*fields.conditions, "If-Match=\"0x1\";If-Modified-Since=Fri, 05 Aug 2011 19:11:54 GMT");
        assert_eq!(fields.content_md5.as_deref(), Some("788815fd0198be0d275ad329cafd1830"));
        assert_eq!(fields.copy_source.as_deref(), Some("http://127.0.0.1/dev/box/b?se=1&sig=XXXXX"));
    }

    #[test]
    fn the_answer_of_another_server_is_logged_like_one_of_ours() {
        let detail = || RequestDetail {
            authentication: Authentication::Key,
            access: AccessKind::Write,
            request_head_bytes: 0,
            response_head_bytes: 0,
            logged: Some(Box::new(logged("/dev/box/a", &[]))),
        };
        let (mut ours, mut theirs) = (detail(), detail());
        let mut response = Response::empty(http::StatusCode::NO_CONTENT);
        response.add("ETag", "W/\"a\"");
        response.add("Last-Modified", "Fri, 05 Aug 2011 19:11:54 GMT");
        note_response(&mut ours, &response);
        let headers =
            response.headers.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.clone()));
        note_forwarded(&mut theirs, &headers.collect());
        let told = |detail: &RequestDetail| {
            let logged = detail.logged.as_ref().unwrap();
            (detail.response_head_bytes, logged.etag.clone(), logged.last_modified.clone())
        };
        assert_eq!(told(&ours), told(&theirs));
        assert_eq!(told(&ours).1.as_deref(), Some("W/\"a\""));
    }

    #[test]
    fn a_signature_is_never_kept() {
        for (query, kept) in [
            ("", ""),
            ("a=1&sig=secret%3D&b=2", "a=1&sig=XXXXX&b=2"),
            ("SIG=secret", "SIG=XXXXX"),
            ("%73ig=secret", "%73ig=XXXXX"),
            ("sig=secret&sig=again", "sig=XXXXX&sig=XXXXX"),
            ("signed=1", "signed=1"),
        ] {
            assert_eq!(without_signature(query), kept);
        }
    }
}
