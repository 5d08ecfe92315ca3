//! Multipart bodies: parts, and the requests or answers inside them.
//!
//! Boundaries may be anything, lines may end with LF or CRLF.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use memchr::memchr;
use memchr::memmem::Finder;
use tavola_model::{ErrorCode, ServiceError};

/// Headers of a part, or of the request inside it.
const PART_HEADERS_MAX: usize = 100;

/// A request inside a batch.
#[derive(Debug)]
pub(crate) struct InnerRequest<'a> {
    /// Its method.
    pub method: Method,
    /// The URI as it was written.
    pub uri: &'a str,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: &'a [u8],
}

/// Whether a body has parts.
pub(crate) fn is_multipart(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default();
    media.trim().eq_ignore_ascii_case("multipart/mixed")
}

/// What its parts are told apart by.
pub(crate) fn boundary_of(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (name.trim().eq_ignore_ascii_case("boundary") && !value.is_empty()).then(|| value.to_owned())
    })
}

/// The contents between delimiter lines; the line end before a delimiter belongs to the delimiter.
pub(crate) fn split_parts<'a>(body: &'a [u8], boundary: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let delimiter = Finder::new(&format!("--{boundary}")).into_owned();
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
            if is_closing(&rest[at..], delimiter.needle()) {
                return None;
            }
            rest = &rest[line_end..];
        }
        match find_delimiter(rest, &delimiter) {
            Some((content_end, at, line_end)) => {
                let part = &rest[..content_end];
                ended = is_closing(&rest[at..], delimiter.needle());
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
fn find_delimiter(body: &[u8], delimiter: &Finder<'_>) -> Option<(usize, usize, usize)> {
    let mut from = 0;
    loop {
        let line_start = from + delimiter.find(&body[from..])?;
        let tail_start = line_start + delimiter.needle().len();
        let line_end = memchr(b'\n', &body[tail_start..]).map_or(body.len(), |len| tail_start + len + 1);
        let tail = body[tail_start..line_end].trim_ascii_end();
        let before = &body[..line_start];
        if (before.is_empty() || before.ends_with(b"\n")) && (tail.is_empty() || tail == b"--") {
            let before = before.strip_suffix(b"\n").unwrap_or(before);
            let before = before.strip_suffix(b"\r").unwrap_or(before);
            return Some((before.len(), line_start, line_end));
        }
        from = tail_start;
    }
}

fn is_closing(line: &[u8], delimiter: &[u8]) -> bool {
    line.get(delimiter.len()..).is_some_and(|tail| tail.starts_with(b"--"))
}

/// Headers up to the empty line, and what follows.
pub(crate) fn split_head(part: &[u8]) -> Result<(HeaderMap, &[u8]), ServiceError> {
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

/// The request inside a part.
pub(crate) fn inner_request(content: &[u8]) -> Result<InnerRequest<'_>, ServiceError> {
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

/// A line without its end, and what follows.
pub(crate) fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b'\n', bytes) {
        Some(end) => (bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]), &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}
