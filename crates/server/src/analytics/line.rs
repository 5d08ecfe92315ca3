//! One request as a line of a log of Storage Analytics
//! (<https://learn.microsoft.com/rest/api/storageservices/storage-analytics-log-format>).
//!
//! Fields are separated by semicolons and always the same in number: 30 in version 1.0, 38 in version 2.0. Those that a
//! client can put anything into are in quotes, with `"`, `&`, `<`, `>`, `;` and line ends as entities.

use std::borrow::Cow;
use std::fmt::Write as _;

use tavola_model::{ErrorCode, StorageService};
use tavola_telemetry::{AccessRecord, Authentication, RequestDetail, UNKNOWN_OPERATION};

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

/// The version of the service from which on a log names the code of a client's mistake.
const CODES_FROM: &str = "2017-04-17";

/// The word for how a request ended.
fn status_word(record: &AccessRecord, detail: &RequestDetail, version: Option<&str>) -> Cow<'static, str> {
    let ending = Ending::of(record);
    match (ending, record.code) {
        // Versions are dates, so they compare as text.
        (Ending::ClientOtherError, Some(code)) if version.is_some_and(|version| version >= CODES_FROM) => {
            code.as_str().into()
        }
        _ => format!("{}{}", prefix(detail.authentication), ending.as_str()).into(),
    }
}

/// One operation of a request.
struct Operation<'a> {
    /// Its number in the request.
    number: usize,
    name: &'static str,
    object_key: &'a str,
    /// What it answered with; further operations have none.
    etag: Option<&'a str>,
    last_modified: Option<&'a str>,
}

/// Adds the lines of a request to a log of a version, `1.0` or `2.0`: one, or three for a copy.
pub fn append(log: &mut String, version: &str, record: &AccessRecord, detail: &RequestDetail) {
    let Some(logged) = &detail.logged else { return };
    let name = record.operation.unwrap_or(UNKNOWN_OPERATION);
    let further = |number: usize, name: &'static str, object_key| Operation {
        number,
        name,
        object_key,
        etag: None,
        last_modified: None,
    };
    let (etag, last_modified) = (logged.etag.as_deref(), logged.last_modified.as_deref());
    let object_key = &*logged.object_key;
    append_operation(
        log,
        version,
        record,
        detail,
        &Operation { etag, last_modified, ..further(0, name, object_key) },
    );
    if let (COPY, Some(source), 200..=299) = (name, logged.copy_source.as_deref(), record.status) {
        append_operation(log, version, record, detail, &further(1, "CopyBlobSource", source));
        append_operation(log, version, record, detail, &further(2, "CopyBlobDestination", object_key));
    }
}

/// The operation that reads another blob.
const COPY: &str = "CopyBlob";

fn append_operation(
    log: &mut String,
    version: &str,
    record: &AccessRecord,
    detail: &RequestDetail,
    operation: &Operation<'_>,
) {
    let Some(logged) = &detail.logged else { return };
    let mut line = Line(log);
    let account = record.account.as_ref().map(|account| account.as_str()).unwrap_or_default();
    line.plain(version);
    line.plain(&record.received.to_text_7_digits());
    line.plain(operation.name);
    line.plain(&status_word(record, detail, logged.version.as_deref()));
    match record.status {
        0 => line.plain("Unknown"),
        status => line.plain(&status.to_string()),
    }
    line.plain(&record.durations.total.as_millis().to_string());
    line.plain(&(record.durations.queued + record.durations.executed).as_millis().to_string());
    line.plain(match detail.authentication {
        Authentication::Key => "authenticated",
        Authentication::Sas => "sas",
        Authentication::Bearer => "OAuth",
        Authentication::Anonymous => "anonymous",
    });
    line.plain(match detail.authentication {
        Authentication::Key | Authentication::Bearer => account,
        Authentication::Sas | Authentication::Anonymous => "",
    });
    line.plain(account);
    line.plain(service_word(record.service));
    line.quoted(&logged.url);
    line.quoted(operation.object_key);
    line.plain(&record.request_id);
    line.plain(&operation.number.to_string());
    line.plain(&logged.peer.to_string());
    line.text(logged.version.as_deref());
    line.plain(&detail.request_head_bytes.to_string());
    line.plain(&record.bytes_in.to_string());
    line.plain(&detail.response_head_bytes.to_string());
    line.plain(&record.bytes_out.to_string());
    line.plain(&logged.content_length.unwrap_or(0).to_string());
    line.optional(logged.content_md5.as_deref());
    line.optional(None);
    line.optional(operation.etag);
    let last_modified = operation.last_modified;
    line.text(last_modified.map(|time| long_time(time).unwrap_or_else(|| time.to_owned())).as_deref());
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

/// A time of a header as the format has it: `Thursday, 19-Jun-14 22:58:10 GMT`.
fn long_time(text: &str) -> Option<String> {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let mut parts = text.split_ascii_whitespace();
    let mut next = || parts.next();
    let (day, date, month, year, time) = (next()?.strip_suffix(',')?, next()?, next()?, next()?, next()?);
    let day = DAYS.iter().find(|known| known.get(..3) == Some(day))?;
    let year = year.get(2..).filter(|_| year.len() == 4)?;
    Some(format!("{day}, {date}-{month}-{year} {time} GMT"))
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
            peer: ([127, 0, 0, 1], 4362).into(),
            version: Some("2020-12-06".into()),
            content_length: None,
            content_md5: None,
            etag: None,
            last_modified: None,
            conditions: "".into(),
            user_agent: Some("test/1".into()),
            referrer: None,
            copy_source: None,
        }
    }

    #[test]
    fn a_line_has_the_fields_of_the_format() {
        let mut log = String::new();
        append(&mut log, "1.0", &record(), &detail());
        assert_eq!(
            log,
            "1.0;2026-11-16T06:07:08.9000000Z;QueryEntities;SASSuccess;200;5;3;sas;;\
             devstoreaccount1;table;\"http://127.0.0.1:10002/devstoreaccount1/People()?$top=1&amp;sig=XXXXX\";\
             \"/devstoreaccount1/People()\";c9da6455-213d-42c9-9a79-3e9149000000;0;127.0.0.1:4362;2020-12-06;400;0;200;300;0;\
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

    /// The fields of the first line.
    fn fields(record: &AccessRecord, logged: LoggedFields) -> Vec<String> {
        let mut log = String::new();
        append(&mut log, "1.0", record, &RequestDetail { logged: Some(Box::new(logged)), ..detail() });
        log.lines().next().unwrap().split(';').map(str::to_owned).collect()
    }

    #[test]
    fn from_2017_on_a_mistake_of_a_client_is_named_by_its_code() {
        let refused = |status, code, version: &str| {
            let record = AccessRecord { status, code: Some(code), ..record() };
            fields(&record, LoggedFields { version: Some(version.into()), ..logged() })[3].clone()
        };
        assert_eq!(refused(404, ErrorCode::ResourceNotFound, "2017-04-17"), "ResourceNotFound");
        assert_eq!(refused(404, ErrorCode::ResourceNotFound, "2016-05-31"), "SASClientOtherError");
        assert_eq!(refused(403, ErrorCode::AuthenticationFailed, "2020-12-06"), "SASAuthorizationError");
        assert_eq!(refused(503, ErrorCode::ServerBusy, "2020-12-06"), "SASThrottlingError");
    }

    #[test]
    fn a_request_that_was_interrupted_has_no_known_status() {
        let fields = fields(&AccessRecord { status: 0, ..record() }, logged());
        assert_eq!(fields[3..5], ["SASNetworkError", "Unknown"]);
    }

    #[test]
    fn a_batch_is_one_operation_whose_number_is_zero() {
        let target = tavola_telemetry::Target::Batch {
            partition: "p".into(),
            row: "r".into(),
            operations: 7,
            inserts: 7,
            deletes: 0,
            properties_max: 1,
            numbers: None,
        };
        let record = AccessRecord {
            operation: Some("EntityGroupTransaction"),
            target,
            client_request_id: None,
            ..record()
        };
        let url = "http://127.0.0.1:10002/devstoreaccount1/$batch".into();
        assert_eq!(fields(&record, LoggedFields { url, ..logged() })[14], "0");
    }

    #[test]
    fn times_are_written_out() {
        let time = "Thu, 19 Jun 2014 22:58:10 GMT";
        let logged = LoggedFields { last_modified: Some(time.into()), url: "".into(), ..logged() };
        assert_eq!(fields(&record(), logged)[25], "Thursday, 19-Jun-14 22:58:10 GMT");
        assert_eq!(long_time("yesterday"), None);
    }

    #[test]
    fn a_copy_is_three_operations_with_one_request_id() {
        let record =
            AccessRecord { operation: Some("CopyBlob"), status: 202, client_request_id: None, ..record() };
        let fields = LoggedFields {
            url: "http://127.0.0.1/d/box/copy".into(),
            object_key: "/d/box/copy".into(),
            copy_source: Some("http://127.0.0.1/d/box/blob".into()),
            etag: Some("0x1".into()),
            ..logged()
        };
        let mut log = String::new();
        let detail = RequestDetail { logged: Some(Box::new(fields)), ..detail() };
        append(&mut log, "1.0", &record, &detail);
        let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(';').collect()).collect();
        let shown: Vec<_> = lines.iter().map(|line| (line[2], line[12], line[14], line[24])).collect();
        assert_eq!(
            shown,
            [
                ("CopyBlob", "\"/d/box/copy\"", "0", "\"0x1\""),
                ("CopyBlobSource", "\"http://127.0.0.1/d/box/blob\"", "1", ""),
                ("CopyBlobDestination", "\"/d/box/copy\"", "2", ""),
            ]
        );
        assert!(lines.iter().all(|line| line[13] == &*record.request_id && line.len() == 30));
        log.clear();
        append(&mut log, "1.0", &AccessRecord { status: 404, ..record }, &detail);
        assert_eq!(log.lines().count(), 1, "nothing was copied");
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
