//! Shared Key and Shared Key Lite: what text a request signs.
//!
//! The table service signs few lines; blob and queue sign most headers and the whole query
//! (<https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key>). The path is signed as it
//! is on the wire, percent-encoding included, so nothing here decodes it.

use http::header::{self, AsHeaderName};
use http::{HeaderMap, HeaderName, Method};
use tavola_model::{AccountName, Query, StorageService};

static X_MS_DATE: HeaderName = HeaderName::from_static("x-ms-date");
static CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

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
    /// The query.
    pub query: &'a Query<'a>,
    /// All headers.
    pub headers: &'a HeaderMap,
}

/// What becomes of white space within the values of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhiteSpace {
    /// Each run is one space, as documented.
    Folded,
    /// It stays, as many clients sign it.
    Kept,
}

/// The text to sign; `None` if a header or the query is not text.
pub(crate) fn string_to_sign(
    service: StorageService,
    scheme: Scheme,
    account: &AccountName,
    request: &SignedRequest<'_>,
) -> Option<String> {
    text_with(service, scheme, account, request, WhiteSpace::Folded)
}

/// The same with white space as given.
pub(crate) fn text_with(
    service: StorageService,
    scheme: Scheme,
    account: &AccountName,
    request: &SignedRequest<'_>,
    spaces: WhiteSpace,
) -> Option<String> {
    match (service, scheme) {
        (StorageService::Table, Scheme::SharedKey) => table_text(account, request),
        (StorageService::Table, Scheme::SharedKeyLite) => table_lite_text(account, request),
        (StorageService::Blob | StorageService::Queue, Scheme::SharedKey) => {
            full_text(account, request, spaces)
        }
        (StorageService::Blob | StorageService::Queue, Scheme::SharedKeyLite) => {
            lite_text(account, request, spaces)
        }
    }
}

fn table_text(account: &AccountName, request: &SignedRequest<'_>) -> Option<String> {
    let headers = request.headers;
    let mut text = String::with_capacity(256);
    push_line(&mut text, request.method.as_str());
    push_line(&mut text, header(headers, &CONTENT_MD5)?);
    push_line(&mut text, header(headers, header::CONTENT_TYPE)?);
    push_line(&mut text, date(headers)?);
    push_short_resource(&mut text, account, request);
    Some(text)
}

fn table_lite_text(account: &AccountName, request: &SignedRequest<'_>) -> Option<String> {
    let mut text = String::with_capacity(256);
    push_line(&mut text, date(request.headers)?);
    push_short_resource(&mut text, account, request);
    Some(text)
}

/// Blob and queue, version 2009-09-19 and later.
fn full_text(account: &AccountName, request: &SignedRequest<'_>, spaces: WhiteSpace) -> Option<String> {
    let headers = request.headers;
    let lines = signed_lines(headers)?;
    let mut text = String::with_capacity(512);
    push_line(&mut text, request.method.as_str());
    for line in lines {
        push_line(&mut text, line);
    }
    push_x_ms_headers(&mut text, headers, spaces)?;
    push_full_resource(&mut text, account, request)?;
    Some(text)
}

/// The headers that have a line of their own, in the order of the lines.
static LINES: [HeaderName; LINES_COUNT] = [
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LENGTH,
    HeaderName::from_static("content-md5"),
    header::CONTENT_TYPE,
    header::DATE,
    header::IF_MODIFIED_SINCE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
];
const LINES_COUNT: usize = 11;
const LENGTH_LINE: usize = 2;
const DATE_LINE: usize = 5;

/// Their values, empty if they are missing. One pass over the headers of a request is quicker than eleven lookups.
fn signed_lines(headers: &HeaderMap) -> Option<[&str; LINES_COUNT]> {
    let mut values: [Option<&str>; LINES_COUNT] = [None; LINES_COUNT];
    for (name, value) in headers {
        if let Some(line) = LINES.iter().position(|line| line == name)
            && values[line].is_none()
        {
            values[line] = Some(value.to_str().ok()?.trim());
        }
    }
    let mut lines = values.map(Option::unwrap_or_default);
    lines[LENGTH_LINE] = signed_length(headers, lines[LENGTH_LINE])?;
    if headers.contains_key(&X_MS_DATE) {
        lines[DATE_LINE] = "";
    }
    Some(lines)
}

/// Blob and queue.
fn lite_text(account: &AccountName, request: &SignedRequest<'_>, spaces: WhiteSpace) -> Option<String> {
    let headers = request.headers;
    let mut text = String::with_capacity(512);
    push_line(&mut text, request.method.as_str());
    push_line(&mut text, header(headers, &CONTENT_MD5)?);
    push_line(&mut text, header(headers, header::CONTENT_TYPE)?);
    push_line(&mut text, date_unless_x_ms_date(headers)?);
    push_x_ms_headers(&mut text, headers, spaces)?;
    push_short_resource(&mut text, account, request);
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
fn signed_length<'a>(headers: &'a HeaderMap, length: &'a str) -> Option<&'a str> {
    if length != "0" {
        return Some(length);
    }
    let version = header(headers, "x-ms-version")?;
    let zero_is_empty = version.is_empty() || version >= "2015-02-21";
    Some(if zero_is_empty { "" } else { length })
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

/// Every `x-ms-*` header by name.
fn push_x_ms_headers(text: &mut String, headers: &HeaderMap, spaces: WhiteSpace) -> Option<()> {
    let mut names: Vec<&HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-ms-")).collect();
    names.sort_unstable_by_key(|name| name.as_str());
    for name in names {
        text.push_str(name.as_str());
        text.push(':');
        for (index, value) in headers.get_all(name).iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            let value = value.to_str().ok()?;
            let value = value.trim();
            if spaces == WhiteSpace::Kept || !has_spaces_to_fold(value) {
                text.push_str(value);
                continue;
            }
            for (index, word) in value.split_ascii_whitespace().enumerate() {
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

/// Whether folding would change a value.
fn has_spaces_to_fold(value: &str) -> bool {
    let is_space = |byte: u8| byte.is_ascii_whitespace();
    value.as_bytes().windows(2).any(|pair| is_space(pair[1]) && (pair[1] != b' ' || is_space(pair[0])))
}

/// `/account/path`, and of the query only `comp`.
fn push_short_resource(text: &mut String, account: &AccountName, request: &SignedRequest<'_>) {
    push_path(text, account, request);
    if let Some(comp) = request.query.get("comp") {
        text.push_str("?comp=");
        text.push_str(comp);
    }
}

/// `/account/path`, then each parameter on its line, by name.
///
/// The text must say what is executed and nothing else, so there is none for a query that could be read in two
/// ways: a name with `:`, a line break in a name or value, or a name that is given twice, whose values the service
/// joins with commas.
fn push_full_resource(text: &mut String, account: &AccountName, request: &SignedRequest<'_>) -> Option<()> {
    push_path(text, account, request);
    let mut parameters: Vec<(String, &str)> =
        request.query.iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    parameters.sort_unstable();
    let is_repeated = parameters.windows(2).any(|pair| pair[0].0 == pair[1].0);
    let is_ambiguous = |(name, value): &(String, &str)| name.contains([':', '\n']) || value.contains('\n');
    if is_repeated || parameters.iter().any(is_ambiguous) {
        return None;
    }
    for (name, value) in &parameters {
        text.push('\n');
        text.push_str(name);
        text.push(':');
        text.push_str(value);
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
        let query = Query::parse(query).unwrap();
        let request = SignedRequest { method: &Method::PUT, path: "/a%20b", query: &query, headers: &map };
        assert_eq!(
            string_to_sign(service, scheme, &account, &request).as_deref().unwrap_or("none"),
            expected
        );
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
            "b=2&A=z",
            &format!("PUT\n\n\n0\n\n\nD\n\n\n\n\n\n{x_ms}/acct/a%20b\na:z\nb:2"),
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

    #[test]
    fn a_query_that_could_be_read_in_two_ways_is_not_signed() {
        for service in [StorageService::Queue, StorageService::Blob] {
            for query in ["a%3A1%0Ab=2", "a=1%0Ab:2", "a%3Ab=1", "a=1&a=2", "a=1&A=2"] {
                check(service, Scheme::SharedKey, &[("date", "D")], query, "none");
            }
        }
    }

    #[test]
    fn the_comp_that_is_signed_is_the_one_that_is_routed() {
        let text = "D\n/acct/a%20b?comp=one";
        check(StorageService::Table, Scheme::SharedKeyLite, &[("date", "D")], "Comp=one&comp=two", text);
        assert_eq!(Query::parse("Comp=one&comp=two").unwrap().get("comp"), Some("one"));
    }
}
