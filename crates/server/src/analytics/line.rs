//! One request as a line of a log of Storage Analytics
//! (<https://learn.microsoft.com/rest/api/storageservices/storage-analytics-log-format>).
//!
//! Fields are separated by semicolons and always the same in number: 30 in version 1.0, 38 in version 2.0. Those that a
//! client can put anything into are in quotes, with `"`, `&`, `<`, `>`, `;` and line ends as entities.

use std::fmt::Write as _;

use tavola_model::{ErrorCode, StorageService};
use tavola_telemetry::{AccessRecord, Authentication, RequestDetail, Target, UNKNOWN_OPERATION};

/// How a request ended, in the words of Storage Analytics
/// (<https://learn.microsoft.com/rest/api/storageservices/storage-analytics-logged-operations-and-status-messages>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum Ending {
    Success,
    ThrottlingError,
    ClientTimeoutError,
    ServerTimeoutError,
    ClientOtherError,
    ServerOtherError,
    AuthorizationError,
    NetworkError,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Success,
        Self::ThrottlingError,
        Self::ClientTimeoutError,
        Self::ServerTimeoutError,
        Self::ClientOtherError,
        Self::ServerOtherError,
        Self::AuthorizationError,
        Self::NetworkError,
    ];

    /// How a request ended.
    pub fn of(record: &AccessRecord) -> Self {
        match (record.code, record.status) {
            (_, 0) => Self::NetworkError,
            (Some(ErrorCode::ServerBusy), _) => Self::ThrottlingError,
            (Some(ErrorCode::OperationTimedOut), _) if record.throttled => Self::ServerTimeoutError,
            (Some(ErrorCode::OperationTimedOut), _) => Self::ClientTimeoutError,
            (_, 401 | 403) => Self::AuthorizationError,
            (_, 500..) => Self::ServerOtherError,
            (Some(_), _) | (None, 400..) => Self::ClientOtherError,
            (None, _) => Self::Success,
        }
    }

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::ThrottlingError => "ThrottlingError",
            Self::ClientTimeoutError => "ClientTimeoutError",
            Self::ServerTimeoutError => "ServerTimeoutError",
            Self::ClientOtherError => "ClientOtherError",
            Self::ServerOtherError => "ServerOtherError",
            Self::AuthorizationError => "AuthorizationError",
            Self::NetworkError => "NetworkError",
        }
    }
}

/// What the word of an ending begins with, for clients that show no key of the account.
pub fn prefix(authentication: Authentication) -> &'static str {
    match authentication {
        Authentication::Key | Authentication::Bearer => "",
        Authentication::Sas => "SAS",
        Authentication::Anonymous => "Anonymous",
    }
}

/// The word for a service.
pub fn service_word(service: StorageService) -> &'static str {
    match service {
        StorageService::Table => "table",
        StorageService::Queue => "queue",
        StorageService::Blob => "blob",
    }
}

/// Adds the line of a request to a log of a version, `1.0` or `2.0`.
pub fn append(log: &mut String, version: &str, record: &AccessRecord, detail: &RequestDetail) {
    let Some(logged) = &detail.logged else { return };
    let mut line = Line(log);
    let account = record.account.as_ref().map(|account| account.as_str()).unwrap_or_default();
    let is_anonymous = detail.authentication == Authentication::Anonymous;
    line.plain(version);
    line.plain(&record.received.to_text_7_digits());
    line.plain(record.operation.unwrap_or(UNKNOWN_OPERATION));
    line.plain(&format!("{}{}", prefix(detail.authentication), Ending::of(record).as_str()));
    line.plain(&record.status.to_string());
    line.plain(&record.durations.total.as_millis().to_string());
    line.plain(&(record.durations.queued + record.durations.executed).as_millis().to_string());
    line.plain(match detail.authentication {
        Authentication::Key => "authenticated",
        Authentication::Sas => "sas",
        Authentication::Bearer => "OAuth",
        Authentication::Anonymous => "anonymous",
    });
    line.plain(if is_anonymous { "" } else { account });
    line.plain(account);
    line.plain(service_word(record.service));
    line.quoted(&logged.url);
    line.quoted(&logged.object_key);
    line.plain(&record.request_id);
    line.plain(&match record.target {
        Target::Batch { operations, .. } => operations.to_string(),
        Target::Whole | Target::Entity { .. } | Target::Query(_) => "0".to_owned(),
    });
    line.plain(&logged.peer.to_string());
    line.text(logged.version.as_deref());
    line.plain(&detail.request_head_bytes.to_string());
    line.plain(&record.bytes_in.to_string());
    line.plain(&detail.response_head_bytes.to_string());
    line.plain(&record.bytes_out.to_string());
    line.plain(&logged.content_length.unwrap_or(0).to_string());
    line.optional(logged.content_md5.as_deref());
    line.optional(None);
    line.optional(logged.etag.as_deref());
    line.text(logged.last_modified.as_deref());
    line.optional(Some(&*logged.conditions).filter(|conditions| !conditions.is_empty()));
    line.optional(logged.user_agent.as_deref());
    line.optional(logged.referrer.as_deref());
    line.optional(record.client_request_id.as_deref());
    if version == "2.0" {
        // Of the directory that a bearer token is from; tokens are checked, but not kept.
        (0..8).for_each(|_| line.plain(""));
    }
    line.end();
}

struct Line<'a>(&'a mut String);

impl Line<'_> {
    /// A field of our own making.
    fn plain(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push(';');
    }

    /// A field that others can put something into, without quotes as the format has it.
    fn text(&mut self, text: Option<&str>) {
        escape(self.0, text.unwrap_or_default());
        self.0.push(';');
    }

    fn quoted(&mut self, text: &str) {
        self.0.push('"');
        escape(self.0, text);
        self.0.push_str("\";");
    }

    /// In quotes, if there is one.
    fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.quoted(text),
            None => self.0.push(';'),
        }
    }

    fn end(self) {
        self.0.pop();
        self.0.push('\n');
    }
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("&quot;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            ';' | '\r' | '\n' => {
                let _ = write!(out, "&#{};", u32::from(character));
            }
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tavola_model::{AccountName, DateTime};
    use tavola_telemetry::{AccessKind, Durations, LoggedFields};

    use super::*;

    pub fn record() -> AccessRecord {
        AccessRecord {
            account: AccountName::parse("devstoreaccount1"),
            operation: Some("QueryEntities"),
            status: 200,
            durations: Durations {
                queued: Duration::from_millis(1),
                executed: Duration::from_millis(2),
                total: Duration::from_millis(5),
            },
            bytes_out: 300,
            request_id: "c9da6455-213d-42c9-9a79-3e9149000000".into(),
            client_request_id: Some("mine; \"own\"".into()),
            ..AccessRecord::new(DateTime::parse("2026-11-16T06:07:08.9Z").unwrap(), StorageService::Table)
        }
    }

    pub fn detail() -> RequestDetail {
        RequestDetail {
            authentication: Authentication::Sas,
            access: AccessKind::Read,
            request_head_bytes: 400,
            response_head_bytes: 200,
            logged: Some(Box::new(logged())),
        }
    }

    fn logged() -> LoggedFields {
        LoggedFields {
            url: "http://127.0.0.1:10002/devstoreaccount1/People()?$top=1&sig=XXXXX".into(),
            object_key: "/devstoreaccount1/People()".into(),
            peer: [127, 0, 0, 1].into(),
            version: Some("2020-12-06".into()),
            content_length: None,
            content_md5: None,
            etag: None,
            last_modified: None,
            conditions: "".into(),
            user_agent: Some("test/1".into()),
            referrer: None,
        }
    }

    #[test]
    fn a_line_has_the_fields_of_the_format() {
        let mut log = String::new();
        append(&mut log, "1.0", &record(), &detail());
        assert_eq!(
            log,
            "1.0;2026-11-16T06:07:08.9000000Z;QueryEntities;SASSuccess;200;5;3;sas;devstoreaccount1;\
             devstoreaccount1;table;\"http://127.0.0.1:10002/devstoreaccount1/People()?$top=1&amp;sig=XXXXX\";\
             \"/devstoreaccount1/People()\";c9da6455-213d-42c9-9a79-3e9149000000;0;127.0.0.1;2020-12-06;400;0;200;300;0;\
             ;;;;;\"test/1\";;\"mine&#59; &quot;own&quot;\"\n"
        );
        let fields = |log: &str| {
            log.replace("&amp;", "").replace("&#59;", "").replace("&quot;", "").split(';').count()
        };
        assert_eq!(fields(&log), 30);
        log.clear();
        append(&mut log, "2.0", &record(), &detail());
        assert_eq!((fields(&log), log.starts_with("2.0;")), (38, true));
    }

    #[test]
    fn a_field_cannot_end_its_line() {
        let fields = LoggedFields { user_agent: Some("a\r\n1.0;fake".into()), ..logged() };
        let hostile = RequestDetail { logged: Some(Box::new(fields)), ..detail() };
        let mut log = String::new();
        append(&mut log, "1.0", &record(), &hostile);
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("\"a&#13;&#10;1.0&#59;fake\""), "{log}");
    }

    #[test]
    fn endings_have_the_words_of_the_service() {
        let ended =
            |status, code, throttled| Ending::of(&AccessRecord { status, code, throttled, ..record() });
        assert_eq!(ended(200, None, false), Ending::Success);
        assert_eq!(ended(304, Some(ErrorCode::NotModified), false), Ending::ClientOtherError);
        assert_eq!(ended(404, Some(ErrorCode::ResourceNotFound), false), Ending::ClientOtherError);
        assert_eq!(ended(403, Some(ErrorCode::AuthenticationFailed), false), Ending::AuthorizationError);
        assert_eq!(ended(503, Some(ErrorCode::ServerBusy), true), Ending::ThrottlingError);
        assert_eq!(ended(500, Some(ErrorCode::OperationTimedOut), true), Ending::ServerTimeoutError);
        assert_eq!(ended(500, Some(ErrorCode::InternalError), false), Ending::ServerOtherError);
        assert_eq!(ended(0, None, false), Ending::NetworkError);
    }
}
