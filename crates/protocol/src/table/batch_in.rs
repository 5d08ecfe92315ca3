//! Multipart bodies to the requests they hold.
//!
//! A batch is one part: a change set of writes, or a single query. Boundaries may be anything, lines may end
//! with LF or CRLF, inner URIs may be absolute, rooted or relative, and `Content-ID` may stand among the
//! headers of the part or of the request inside (only the latter is echoed, as recorded).

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tavola_model::{ErrorCode, ServiceError, TRANSACTION_OPERATIONS_MAX};

/// Headers of a part, or of the request inside it.
const PART_HEADERS_MAX: usize = 100;

/// The parts of a batch.
#[derive(Debug)]
pub enum Batch<'a> {
    /// No part was found behind the boundary: answered with an empty batch.
    Empty,
    /// Writes that go together.
    ChangeSet(Vec<InnerRequest<'a>>),
    /// A single query outside a change set.
    Query(InnerRequest<'a>),
}

/// A request inside a batch.
#[derive(Debug)]
pub struct InnerRequest<'a> {
    /// Its method.
    pub method: Method,
    /// The URI as it was written.
    pub uri: &'a str,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: &'a [u8],
}

/// Reads a batch whose `Content-Type` is given.
pub fn parse<'a>(content_type: Option<&str>, body: &'a [u8]) -> Result<Batch<'a>, ServiceError> {
    let boundary = match content_type {
        Some(value) if is_multipart(value) => boundary_of(value).ok_or(ErrorCode::InvalidInput)?,
        _ => return Err(ErrorCode::MediaTypeNotSupported.into()),
    };
    let mut parts = split_parts(body, &boundary);
    let Some(part) = parts.next() else { return Ok(Batch::Empty) };
    if parts.next().is_some() {
        return Err(ErrorCode::InvalidInput.into());
    }
    let (headers, content) = split_head(part)?;
    let part_type = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !is_multipart(part_type) {
        return Ok(Batch::Query(inner_request(content)?));
    }
    let inner_boundary = boundary_of(part_type).ok_or(ErrorCode::InvalidInput)?;
    // One more than may be, so that the reader of the change set sees that there are too many.
    let parts = split_parts(content, &inner_boundary).take(TRANSACTION_OPERATIONS_MAX + 1);
    let requests = parts.map(|part| inner_request(split_head(part)?.1));
    Ok(Batch::ChangeSet(requests.collect::<Result<_, _>>()?))
}

fn is_multipart(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default();
    media.trim().eq_ignore_ascii_case("multipart/mixed")
}

pub(super) fn boundary_of(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (name.trim().eq_ignore_ascii_case("boundary") && !value.is_empty()).then(|| value.to_owned())
    })
}

/// The contents between delimiter lines; the line end before a delimiter belongs to the delimiter.
pub(super) fn split_parts<'a>(body: &'a [u8], boundary: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let delimiter = format!("--{boundary}").into_bytes();
    let mut rest = body;
    let mut started = false;
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        if !started {
            let (_, at, line_end) = find_delimiter(rest, &delimiter)?;
            started = true;
            if is_closing(&rest[at..], &delimiter) {
                return None;
            }
            rest = &rest[line_end..];
        }
        match find_delimiter(rest, &delimiter) {
            Some((content_end, at, line_end)) => {
                let part = &rest[..content_end];
                ended = is_closing(&rest[at..], &delimiter);
                rest = &rest[line_end..];
                Some(part)
            }
            None => {
                // A missing closing delimiter: what is left is the last part, unless it is nothing.
                ended = true;
                (!rest.iter().all(u8::is_ascii_whitespace)).then_some(rest)
            }
        }
    })
}

/// End of the content before the next delimiter line, its start, and the start of the line behind it.
fn find_delimiter(body: &[u8], delimiter: &[u8]) -> Option<(usize, usize, usize)> {
    let mut line_start = 0;
    while line_start <= body.len() {
        let line_len = body[line_start..].iter().position(|byte| *byte == b'\n');
        let line_end = line_len.map_or(body.len(), |len| line_start + len + 1);
        let line = body[line_start..line_end].trim_ascii_end();
        let tail = line.strip_prefix(delimiter);
        if tail.is_some_and(|tail| tail.is_empty() || tail == b"--") {
            let before = &body[..line_start];
            let before = before.strip_suffix(b"\n").unwrap_or(before);
            let before = before.strip_suffix(b"\r").unwrap_or(before);
            return Some((before.len(), line_start, line_end));
        }
        line_len?;
        line_start = line_end;
    }
    None
}

fn is_closing(line: &[u8], delimiter: &[u8]) -> bool {
    line.get(delimiter.len()..).is_some_and(|tail| tail.starts_with(b"--"))
}

/// Headers up to the empty line, and what follows.
pub(super) fn split_head(part: &[u8]) -> Result<(HeaderMap, &[u8]), ServiceError> {
    let mut headers = HeaderMap::new();
    let mut rest = part;
    while !rest.is_empty() {
        let (line, next) = split_line(rest);
        rest = next;
        if line.is_empty() {
            break;
        }
        let text = std::str::from_utf8(line).map_err(|_| ErrorCode::InvalidInput)?;
        let (name, value) = text.split_once(':').ok_or(ErrorCode::InvalidInput)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| ErrorCode::InvalidInput)?;
        let value = HeaderValue::from_bytes(value.trim().as_bytes()).map_err(|_| ErrorCode::InvalidInput)?;
        headers.try_append(name, value).map_err(|_| ErrorCode::InvalidInput)?;
        if headers.len() > PART_HEADERS_MAX {
            return Err(ErrorCode::InvalidInput.into());
        }
    }
    Ok((headers, rest))
}

fn inner_request(content: &[u8]) -> Result<InnerRequest<'_>, ServiceError> {
    let start = content.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(content.len());
    let (line, rest) = split_line(&content[start..]);
    let line = std::str::from_utf8(line).map_err(|_| ErrorCode::InvalidInput)?;
    // A client that leaves a space in its URI is understood, since the method and the protocol hold none.
    let words = line.split_once(' ').and_then(|(method, rest)| Some((method, rest.rsplit_once(' ')?)));
    let Some((method, (uri, protocol))) = words else { return Err(ErrorCode::InvalidInput.into()) };
    let uri = uri.trim();
    if !protocol.starts_with("HTTP/1.") || uri.is_empty() {
        return Err(ErrorCode::InvalidInput.into());
    }
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| ErrorCode::InvalidInput)?;
    let (headers, body) = split_head(rest)?;
    Ok(InnerRequest { method, uri, headers, body })
}

pub(super) fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]), &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: Option<&str> = Some("multipart/mixed; boundary=batch_1");

    fn batch(line_end: &str) -> String {
        [
            "--batch_1",
            "Content-Type: multipart/mixed; boundary=\"change set\"",
            "",
            "--change set",
            "Content-Type: application/http",
            "Content-Transfer-Encoding: binary",
            "Content-ID: 7",
            "",
            "POST http://h/acct/t HTTP/1.1",
            "Accept: application/json",
            "",
            "{\"a\":1}",
            "--change set",
            "Content-Type: application/http",
            "",
            "DELETE /acct/t(PartitionKey='a b',RowKey='x') HTTP/1.1",
            "If-Match: *",
            "",
            "",
            "--change set--",
            "",
            "--batch_1--",
            "",
        ]
        .join(line_end)
        .replace("'a b'", "'a%20b'")
    }

    #[test]
    fn a_change_set_is_read_with_any_boundary_and_line_end() {
        for line_end in ["\r\n", "\n"] {
            let text = batch(line_end);
            let Batch::ChangeSet(requests) = parse(TYPE, text.as_bytes()).unwrap() else {
                panic!("no change set")
            };
            assert_eq!(requests.len(), 2);
            assert_eq!((requests[0].uri, requests[0].body), ("http://h/acct/t", b"{\"a\":1}".as_slice()));
            assert_eq!(requests[1].method, Method::DELETE);
            assert_eq!(requests[1].headers["if-match"], "*");
        }
    }

    #[test]
    fn a_single_query_stands_outside_a_change_set() {
        let text = "--batch_1\r\nContent-Type: application/http\r\n\r\nGET http://h/t(PartitionKey='a',RowKey='b') HTTP/1.1\r\nAccept: x\r\n\r\n\r\n--batch_1--";
        assert!(matches!(parse(TYPE, text.as_bytes()).unwrap(), Batch::Query(_)));
    }

    #[test]
    fn a_body_without_its_boundary_is_an_empty_batch() {
        assert!(matches!(parse(TYPE, b"").unwrap(), Batch::Empty));
        assert!(matches!(parse(TYPE, b"--other\r\n\r\n--other--").unwrap(), Batch::Empty));
        assert!(matches!(parse(TYPE, b"--batch_1--").unwrap(), Batch::Empty));
        for dashes in ["-", "--", "----", "--------\r\n--------"] {
            assert!(matches!(parse(TYPE, dashes.as_bytes()).unwrap(), Batch::Empty), "{dashes}");
        }
    }

    #[test]
    fn malformed_parts_are_invalid_input() {
        for inner in
            ["POST HTTP/1.1", "POST /t", "P{}ST /t HTTP/1.1", "", "POST /t HTTP/1.1\r\nno colon\r\n\r\n"]
        {
            let text = format!("--batch_1\r\nContent-Type: application/http\r\n\r\n{inner}\r\n--batch_1--");
            assert_eq!(parse(TYPE, text.as_bytes()).unwrap_err().code, ErrorCode::InvalidInput, "{inner}");
        }
        assert_eq!(parse(Some("multipart/mixed"), b"").unwrap_err().code, ErrorCode::InvalidInput);
        assert_eq!(parse(Some("application/json"), b"").unwrap_err().code, ErrorCode::MediaTypeNotSupported);
        assert_eq!(parse(None, b"").unwrap_err().code, ErrorCode::MediaTypeNotSupported);
    }

    #[test]
    fn an_empty_change_set_has_no_requests() {
        let text = "--batch_1\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n--batch_1--\r\n";
        let Batch::ChangeSet(requests) = parse(TYPE, text.as_bytes()).unwrap() else {
            panic!("no change set")
        };
        assert!(requests.is_empty());
    }
}
