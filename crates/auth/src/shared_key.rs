//! Shared Key and Shared Key Lite: what text a request signs.
//!
//! The table service signs few lines; blob and queue sign most headers and the whole query
//! (<https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key>). The path is signed as it
//! is on the wire, percent-encoding included, so nothing here decodes it.

use http::header::{self, AsHeaderName};
use http::{HeaderMap, HeaderName, Method};
use tavola_model::AccountName;

use crate::StorageService;
use crate::query::parse_query;

static X_MS_DATE: HeaderName = HeaderName::from_static("x-ms-date");

/// How a request is signed with an account key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Method, content headers, date and resource.
    SharedKey,
    /// Date and resource.
    SharedKeyLite,
}

impl Scheme {
    /// Its word in the Authorization header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SharedKey => "SharedKey",
            Self::SharedKeyLite => "SharedKeyLite",
        }
    }
}

/// The parts of a request that a signature can cover.
#[derive(Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The verb on the wire; a tunnelled request signs `POST`.
    pub method: &'a Method,
    /// The raw path.
    pub path: &'a str,
    /// The raw query without `?`.
    pub query: &'a str,
    /// All headers.
    pub headers: &'a HeaderMap,
}

/// The text to sign; `None` if a header or the query is not text.
pub(crate) fn string_to_sign(
    service: StorageService,
    scheme: Scheme,
    account: &AccountName,
    request: &SignedRequest<'_>,
) -> Option<String> {
    match (service, scheme) {
        (StorageService::Table, Scheme::SharedKey) => table_text(account, request),
        (StorageService::Table, Scheme::SharedKeyLite) => table_lite_text(account, request),
        (StorageService::Blob | StorageService::Queue, Scheme::SharedKey) => full_text(account, request),
        (StorageService::Blob | StorageService::Queue, Scheme::SharedKeyLite) => lite_text(account, request),
    }
}

fn table_text(account: &AccountName, request: &SignedRequest<'_>) -> Option<String> {
    let headers = request.headers;
    let mut text = String::with_capacity(256);
    push_line(&mut text, request.method.as_str());
    push_line(&mut text, header(headers, "content-md5")?);
    push_line(&mut text, header(headers, "content-type")?);
    push_line(&mut text, date(headers)?);
    push_short_resource(&mut text, account, request)?;
    Some(text)
}

fn table_lite_text(account: &AccountName, request: &SignedRequest<'_>) -> Option<String> {
    let mut text = String::with_capacity(256);
    push_line(&mut text, date(request.headers)?);
    push_short_resource(&mut text, account, request)?;
    Some(text)
}

/// Blob and queue, version 2009-09-19 and later.
fn full_text(account: &AccountName, request: &SignedRequest<'_>) -> Option<String> {
    let headers = request.headers;
    let mut text = String::with_capacity(512);
    push_line(&mut text, request.method.as_str());
    push_line(&mut text, header(headers, "content-encoding")?);
    push_line(&mut text, header(headers, "content-language")?);
    push_line(&mut text, content_length(headers)?);
    push_line(&mut text, header(headers, "content-md5")?);
    push_line(&mut text, header(headers, "content-type")?);
    push_line(&mut text, date_unless_x_ms_date(headers)?);
    for name in ["if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"] {
        push_line(&mut text, header(headers, name)?);
    }
    push_x_ms_headers(&mut text, headers)?;
    push_full_resource(&mut text, account, request)?;
    Some(text)
}

/// Blob and queue.
fn lite_text(account: &AccountName, request: &SignedRequest<'_>) -> Option<String> {
    let headers = request.headers;
    let mut text = String::with_capacity(512);
    push_line(&mut text, request.method.as_str());
    push_line(&mut text, header(headers, "content-md5")?);
    push_line(&mut text, header(headers, "content-type")?);
    push_line(&mut text, date_unless_x_ms_date(headers)?);
    push_x_ms_headers(&mut text, headers)?;
    push_short_resource(&mut text, account, request)?;
    Some(text)
}

/// The date that counts, `x-ms-date` before `Date`; empty if neither is there, `None` if it is not text.
pub(crate) fn date(headers: &HeaderMap) -> Option<&str> {
    match headers.get(&X_MS_DATE) {
        Some(value) => value.to_str().ok(),
        None => header(headers, header::DATE),
    }
}

fn date_unless_x_ms_date(headers: &HeaderMap) -> Option<&str> {
    if headers.contains_key(&X_MS_DATE) { Some("") } else { header(headers, header::DATE) }
}

/// From 2015-02-21 on a length of zero is signed as nothing.
fn content_length(headers: &HeaderMap) -> Option<&str> {
    let length = header(headers, "content-length")?;
    let version = header(headers, "x-ms-version")?;
    let zero_is_empty = version.is_empty() || version >= "2015-02-21";
    if length == "0" && zero_is_empty { Some("") } else { Some(length) }
}

/// The value of a header, empty if it is missing.
fn header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    match headers.get(name) {
        Some(value) => value.to_str().ok().map(str::trim),
        None => Some(""),
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Every `x-ms-*` header by name, white space folded.
fn push_x_ms_headers(text: &mut String, headers: &HeaderMap) -> Option<()> {
    let mut names: Vec<&str> =
        headers.keys().map(http::HeaderName::as_str).filter(|name| name.starts_with("x-ms-")).collect();
    names.sort_unstable();
    for name in names {
        text.push_str(name);
        text.push(':');
        for (index, value) in headers.get_all(name).iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            for (index, word) in value.to_str().ok()?.split_ascii_whitespace().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                text.push_str(word);
            }
        }
        text.push('\n');
    }
    Some(())
}

/// `/account/path`, and of the query only `comp`.
fn push_short_resource(text: &mut String, account: &AccountName, request: &SignedRequest<'_>) -> Option<()> {
    push_path(text, account, request);
    if request.query.is_empty() {
        return Some(());
    }
    if let Some(comp) = parse_query(request.query)?.iter().find(|parameter| parameter.name == "comp") {
        text.push_str("?comp=");
        text.push_str(&comp.value);
    }
    Some(())
}

/// `/account/path`, then each parameter on its line, by name, values sorted and joined.
fn push_full_resource(text: &mut String, account: &AccountName, request: &SignedRequest<'_>) -> Option<()> {
    push_path(text, account, request);
    let mut parameters = parse_query(request.query)?;
    parameters.sort_by(|one, other| (&one.name, &one.value).cmp(&(&other.name, &other.value)));
    let mut previous = None;
    for parameter in &parameters {
        if previous == Some(&parameter.name) {
            text.push(',');
        } else {
            text.push('\n');
            text.push_str(&parameter.name);
            text.push(':');
        }
        text.push_str(&parameter.value);
        previous = Some(&parameter.name);
    }
    Some(())
}

fn push_path(text: &mut String, account: &AccountName, request: &SignedRequest<'_>) {
    text.push('/');
    text.push_str(account.as_str());
    text.push_str(request.path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(service: StorageService, scheme: Scheme, headers: &[(&str, &str)], query: &str, expected: &str) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let account = AccountName::parse("acct").unwrap();
        let request = SignedRequest { method: &Method::PUT, path: "/a%20b", query, headers: &map };
        assert_eq!(string_to_sign(service, scheme, &account, &request).unwrap(), expected);
    }

    #[test]
    fn tables_sign_the_date_that_counts_and_only_comp_of_the_query() {
        let headers = [("date", "D"), ("content-type", "T"), ("content-md5", "M")];
        check(
            StorageService::Table,
            Scheme::SharedKey,
            &headers,
            "a=1&Comp=acl",
            "PUT\nM\nT\nD\n/acct/a%20b?comp=acl",
        );
        check(StorageService::Table, Scheme::SharedKeyLite, &headers, "a=1", "D\n/acct/a%20b");
        let both = [("date", "D"), ("x-ms-date", "X")];
        check(StorageService::Table, Scheme::SharedKeyLite, &both, "", "X\n/acct/a%20b");
    }

    #[test]
    fn queues_sign_folded_headers_and_the_whole_query() {
        let headers = [
            ("date", "D"),
            ("content-length", "0"),
            ("x-ms-version", "2014-02-14"),
            ("x-ms-meta-b", " two  words "),
            ("x-ms-meta-a", ""),
        ];
        let x_ms = "x-ms-meta-a:\nx-ms-meta-b:two words\nx-ms-version:2014-02-14\n";
        check(
            StorageService::Queue,
            Scheme::SharedKey,
            &headers,
            "b=2&A=z&a=y",
            &format!("PUT\n\n\n0\n\n\nD\n\n\n\n\n\n{x_ms}/acct/a%20b\na:y,z\nb:2"),
        );
        check(
            StorageService::Blob,
            Scheme::SharedKeyLite,
            &headers,
            "comp=block&b=2",
            &format!("PUT\n\n\nD\n{x_ms}/acct/a%20b?comp=block"),
        );
    }

    #[test]
    fn a_date_in_x_ms_date_leaves_the_date_line_of_queues_empty() {
        let headers = [("date", "D"), ("x-ms-date", "X"), ("content-length", "0")];
        check(
            StorageService::Queue,
            Scheme::SharedKey,
            &headers,
            "",
            "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:X\n/acct/a%20b",
        );
    }
}
