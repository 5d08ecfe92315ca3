//! An answer in the form in which two servers can be compared.
//!
//! What must differ is replaced: the address of the server, request ids, dates, and everything a server makes up
//! (ETags, message ids, receipts), which is told by the request that it was first seen with, so that an ETag that
//! changed and one that did not are told apart. What is left is compared word by word.

use std::collections::{BTreeMap, HashMap};

use tavola_testkit::Response;

use crate::flatten::{self, Field};

/// Headers that say nothing about the service: transport, identity of the request, and our own addition.
const IGNORED_HEADERS: [&str; 8] = [
    "date",
    "x-ms-request-id",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "x-tavola-plan",
    "server",
];

/// An answer, ready to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status, and the error code if there is one: `409 EntityAlreadyExists`.
    pub outcome: String,
    /// Everything else, by path.
    pub fields: BTreeMap<String, String>,
}

impl Answer {
    /// No answer came.
    pub fn none(reason: &str) -> Self {
        Self { outcome: format!("no answer: {reason}"), fields: BTreeMap::new() }
    }

    /// Whether the request did what it asked for.
    pub fn succeeded(&self) -> bool {
        self.outcome.starts_with('2')
    }
}

/// What a server made up so far in a sequence, and with which request each was first seen.
#[derive(Debug, Default)]
pub struct Origins {
    first_seen: HashMap<String, usize>,
    request: usize,
}

impl Origins {
    /// The next request of the sequence.
    pub fn advance(&mut self) {
        self.request += 1;
    }

    fn of(&mut self, kind: &str, value: &str) -> String {
        let request = *self.first_seen.entry(value.to_owned()).or_insert(self.request);
        if request == self.request {
            format!("(new {kind})")
        } else {
            // Counted back from here, so that shortening a sequence changes little.
            format!("({kind} of {} requests ago)", self.request - request)
        }
    }
}

/// The raw fields of a body, before anything is replaced.
pub fn body_fields(response: &Response) -> Vec<Field> {
    let text = response.text();
    if text.is_empty() {
        return Vec::new();
    }
    flatten::json(&text).or_else(|| flatten::xml(&text)).unwrap_or_else(|| vec![("text".to_owned(), text)])
}

/// Brings a response into form. `host` is the address of the server that gave it.
pub fn normalise(response: &Response, host: &str, origins: &mut Origins) -> Answer {
    let mut form = Form { host, date: response.header("date").unwrap_or_default().to_owned(), origins };
    let mut fields = BTreeMap::new();
    let mut code = response.header("x-ms-error-code").map(str::to_owned);
    let content_type = response.header("content-type").unwrap_or_default();
    if content_type.starts_with("multipart/") {
        form.batch(&response.text(), &mut fields);
    } else {
        code = form.body("", body_fields(response), &mut fields).or(code);
    }
    form.headers("", &response.headers, &mut fields);
    let outcome = match code {
        Some(code) if response.status >= 400 => format!("{} {code}", response.status),
        _ => response.status.to_string(),
    };
    Answer { outcome, fields }
}

struct Form<'a> {
    host: &'a str,
    date: String,
    origins: &'a mut Origins,
}

impl Form<'_> {
    fn headers(&mut self, prefix: &str, headers: &[(String, String)], fields: &mut BTreeMap<String, String>) {
        let mut headers: Vec<(String, &str)> =
            headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        headers.sort();
        for (name, value) in headers {
            if !IGNORED_HEADERS.contains(&name.as_str()) {
                let value = self.value(&name, value);
                fields.insert(format!("{prefix}header:{name}"), value);
            }
        }
    }

    /// Puts the fields of a body, and gives the error code it tells.
    fn body(
        &mut self,
        prefix: &str,
        body: Vec<Field>,
        fields: &mut BTreeMap<String, String>,
    ) -> Option<String> {
        let mut code = None;
        for (path, value) in body {
            match path.as_str() {
                "odata.error.code" | "Error.Code" | "error.code" => {
                    let value = value.trim_matches('"').to_owned();
                    // Some errors of the emulator have no code; that too is an answer.
                    code = Some(value);
                }
                "odata.error.message.value" | "Error.Message" | "error.message" => {
                    let value = value.trim_matches('"').replace("\\n", "\n").replace("\\\"", "\"");
                    let first = value.split("\nRequestId").next().unwrap_or_default();
                    let first = first.replace(self.host, "{host}");
                    fields.insert(format!("{prefix}message"), first);
                }
                "odata.error.message.lang" => {}
                _ => {
                    let value = self.value(&path, &value);
                    fields.insert(format!("{prefix}body:{path}"), value);
                }
            }
        }
        code
    }

    fn batch(&mut self, text: &str, fields: &mut BTreeMap<String, String>) {
        let parts = flatten::parts(text);
        fields.insert("parts".to_owned(), parts.len().to_string());
        for (index, part) in parts.into_iter().enumerate() {
            let prefix = format!("part[{index}].");
            let body = if part.body.is_empty() {
                Vec::new()
            } else {
                flatten::json(&part.body)
                    .or_else(|| flatten::xml(&part.body))
                    .unwrap_or_else(|| vec![("text".to_owned(), part.body)])
            };
            let code = self.body(&prefix, body, fields);
            let outcome = code.map_or(part.status.clone(), |code| format!("{} {code}", part.status));
            fields.insert(format!("{prefix}outcome"), outcome);
            self.headers(&prefix, &part.headers, fields);
        }
    }

    /// A value with what must differ replaced.
    fn value(&mut self, name: &str, value: &str) -> String {
        let last = name.rsplit('.').next().unwrap_or(name);
        let unquoted = value.trim_matches('"');
        match last {
            "etag" => {
                return self
                    .origins
                    .of("etag", &value.replace("\\\"", "\"").trim_matches('"').replace("W/\"", ""));
            }
            "Etag" => return self.origins.of("etag", unquoted),
            "x-ms-snapshot" | "Snapshot" => return self.origins.of("snapshot", value),
            "x-ms-copy-id" | "CopyId" => return self.origins.of("copy", value),
            "last-modified"
            | "Last-Modified"
            | "x-ms-creation-time"
            | "Creation-Time"
            | "x-ms-copy-completion-time"
            | "CopyCompletionTime"
            | "x-ms-access-tier-change-time"
            | "AccessTierChangeTime" => {
                return seconds_between(&self.date, value).map_or(value.to_owned(), |_| "(time)".to_owned());
            }
            "NextMarker" if !value.is_empty() => return "(token)".to_owned(),
            "MessageId" => return self.origins.of("message", value),
            "PopReceipt" | "x-ms-popreceipt" => return self.origins.of("receipt", value),
            "InsertionTime" | "ExpirationTime" | "TimeNextVisible" | "x-ms-time-next-visible" => {
                return seconds_between(&self.date, value).unwrap_or_else(|| value.to_owned());
            }
            "Timestamp" if is_time(unquoted) => return "(time)".to_owned(),
            "content-type" if value.starts_with("multipart/mixed") => {
                return value.split("boundary=").next().unwrap_or_default().to_owned();
            }
            _ if last.starts_with("x-ms-continuation-") => return "(token)".to_owned(),
            _ => {}
        }
        value.replace(self.host, "{host}")
    }
}

/// The time between two dates of HTTP, in words: `+604800 s`.
fn seconds_between(from: &str, to: &str) -> Option<String> {
    let seconds = http_seconds(to)? - http_seconds(from)?;
    // A message that never expires is told so by a date, not by a distance.
    if to.contains(" 9999 ") { Some(to.to_owned()) } else { Some(format!("{seconds:+} s")) }
}

/// `Wed, 06 Jan 2021 02:03:45 GMT` in seconds since an arbitrary day.
fn http_seconds(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split([' ', ':']).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = words.as_slice() else { return None };
    let month = i64::try_from(MONTHS.iter().position(|known| known == month)?).ok()? + 1;
    let number = |text: &str| text.parse::<i64>().ok();
    // Days of the civil calendar, with the year beginning in March.
    let year = number(year)? - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + number(day)?;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year;
    Some(((days * 24 + number(hour)?) * 60 + number(minute)?) * 60 + number(second)?)
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Response { status, headers, body: body.as_bytes().to_vec() }
    }

    fn check(response: &Response, outcome: &str, expected: &str) {
        let answer = normalise(response, "127.0.0.1:1", &mut Origins::default());
        assert_eq!(answer.outcome, outcome);
        let shown: Vec<String> =
            answer.fields.iter().map(|(path, value)| format!("{path}={value}")).collect();
        assert_eq!(shown.join("; "), expected);
    }

    #[test]
    fn an_error_is_its_status_code_and_words() {
        let body =
            r#"{"odata.error":{"code":"C","message":{"lang":"en-US","value":"Text.\nRequestId:1\nTime:2"}}}"#;
        check(&response(400, &[("Date", "x")], body), "400 C", "message=Text.");
        let body = "\u{feff}<?xml version=\"1.0\"?><Error><Code>C</Code><Message>Text.\nRequestId:1</Message><A>1</A></Error>";
        check(&response(404, &[], body), "404 C", "body:Error.A=1; message=Text.");
        check(&response(404, &[("x-ms-error-code", "C")], ""), "404 C", "header:x-ms-error-code=C");
    }

    #[test]
    fn what_a_server_makes_up_is_told_by_when_it_came() {
        let body = r#"{"odata.etag":"W/\"datetime'1'\"","Timestamp":"2020-01-02T03:04:05.1Z"}"#;
        let headers = [("ETag", "W/\"datetime'1'\""), ("Location", "http://127.0.0.1:1/x")];
        check(
            &response(200, &headers, body),
            "200",
            "body:Timestamp=(time); body:odata.etag=(new etag); header:etag=(new etag); header:location=http://{host}/x",
        );
    }

    #[test]
    fn an_etag_that_did_not_change_is_an_old_one() {
        let response = response(200, &[("ETag", "W/\"datetime'1'\"")], "");
        let mut origins = Origins::default();
        let mut etag = || {
            origins.advance();
            normalise(&response, "", &mut origins).fields["header:etag"].clone()
        };
        assert_eq!((etag(), etag()), ("(new etag)".to_owned(), "(etag of 1 requests ago)".to_owned()));
    }

    #[test]
    fn times_of_messages_are_distances() {
        let headers = [
            ("Date", "Wed, 06 Jan 2021 02:03:45 GMT"),
            ("x-ms-time-next-visible", "Thu, 07 Jan 2021 02:03:46 GMT"),
        ];
        check(&response(204, &headers, ""), "204", "header:x-ms-time-next-visible=+86401 s");
        let headers = [
            ("Date", "Mon, 28 Feb 2028 00:00:00 GMT"),
            ("x-ms-time-next-visible", "Wed, 01 Mar 2028 00:00:00 GMT"),
        ];
        check(&response(204, &headers, ""), "204", "header:x-ms-time-next-visible=+172800 s");
    }
}
