//! The answer to an entity group transaction.
//!
//! It succeeded only if the answer is whole and has one success for each write; an answer that was cut off is
//! unreadable, never a success.

use http::StatusCode;

use super::answer_in::Written;
use crate::answer_in::{Answer, AnswerError, Refusal};
use crate::multipart::{boundary_of, split_head, split_line, split_parts};

/// What a transaction of so many writes gave: one result for each, in order. A refusal carries the index of the write
/// that failed; nothing was written then.
pub fn entities_transacted(answer: &Answer<'_>, writes: usize) -> Result<Vec<Written>, AnswerError> {
    answer.expect(&[StatusCode::ACCEPTED])?;
    let outer = parts(answer.header("content-type"), answer.body);
    let [outer] = outer.as_slice() else {
        return Err(answer.unreadable("the batch does not hold one change set"));
    };
    let (headers, content) =
        split_head(outer).map_err(|_| answer.unreadable("the change set has no head"))?;
    let content_type = headers.get("content-type").and_then(|value| value.to_str().ok());
    let written: Result<Vec<Written>, AnswerError> = match content_type {
        Some(text) if text.trim_start().starts_with("multipart/") => {
            let parts = parts(content_type, content);
            parts.iter().map(|part| read_part(answer, part, writes)).collect()
        }
        // An error may stand in the batch without a change set around it.
        _ => read_inner(answer, content, writes).map(|written| vec![written]),
    };
    let written = written?;
    if written.len() != writes || !is_closed(answer.body) {
        return Err(answer.unreadable("the batch is not whole"));
    }
    Ok(written)
}

fn read_part(answer: &Answer<'_>, part: &[u8], writes: usize) -> Result<Written, AnswerError> {
    // Nothing in the head of a part is asked for.
    let (mut line, mut content) = split_line(part);
    while !line.is_empty() {
        (line, content) = split_line(content);
    }
    read_inner(answer, content, writes)
}

/// A header of an answer inside a part, found without reading the others: a transaction has a hundred of them.
fn header_of(head: &[u8], name: &str) -> Option<String> {
    let (mut line, mut rest) = split_line(head);
    while !line.is_empty() {
        let parts = line
            .split_at_checked(name.len())
            .filter(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
        if let Some(value) = parts.and_then(|(_, value)| value.strip_prefix(b":")) {
            return std::str::from_utf8(value).ok().map(|value| value.trim().to_owned());
        }
        (line, rest) = split_line(rest);
    }
    None
}

/// Reads the answer inside a part.
fn read_inner(answer: &Answer<'_>, content: &[u8], writes: usize) -> Result<Written, AnswerError> {
    let (line, rest) = split_line(content.trim_ascii_start());
    let line = std::str::from_utf8(line).unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.").and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|status| status.parse::<u16>().ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.ok_or_else(|| answer.unreadable("a part has no status"))?;
    if status.is_success() {
        return Ok(Written { etag: header_of(rest, "etag") });
    }
    let (headers, body) = split_head(rest).map_err(|_| answer.unreadable("a part has no headers"))?;
    let inner = Answer { status, headers: &headers, body };
    let mut refusal = with_index(inner.refusal(), writes);
    refusal.request_id = refusal.request_id.or_else(|| answer.request_id().map(str::to_owned));
    Err(AnswerError::Refused(Box::new(refusal)))
}

/// The index stands before the text; the store leaves it out for a single write.
fn with_index(mut refusal: Refusal, writes: usize) -> Refusal {
    let prefix = refusal.message.split_once(':');
    let index = prefix.and_then(|(index, text)| Some((index.parse::<usize>().ok()?, text.to_owned())));
    match index {
        Some((index, text)) => {
            refusal.index = Some(index);
            refusal.message = text;
        }
        None if writes == 1 => refusal.index = Some(0),
        None => {}
    }
    refusal
}

/// The parts of a multipart body. Where the declared boundary is not in it, the first delimiter tells.
fn parts<'a>(content_type: Option<&str>, body: &'a [u8]) -> Vec<&'a [u8]> {
    let declared = content_type.and_then(boundary_of);
    let found = declared.map(|boundary| split_parts(body, &boundary).collect::<Vec<_>>()).unwrap_or_default();
    if !found.is_empty() {
        return found;
    }
    let (line, _) = split_line(body.trim_ascii_start());
    let boundary = line.strip_prefix(b"--").and_then(|boundary| std::str::from_utf8(boundary).ok());
    match boundary.map(str::trim_end).filter(|boundary| !boundary.is_empty()) {
        Some(boundary) => split_parts(body, boundary).collect(),
        None => Vec::new(),
    }
}

/// Whether the last delimiter is a closing one, so that nothing is missing behind it.
fn is_closed(body: &[u8]) -> bool {
    body.trim_ascii_end().ends_with(b"--")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    const HEAD: &str = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n";
    const PART: &str = "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/\"a\"\r\n\r\n\r\n";
    const END: &str = "--c--\r\n--b--\r\n";

    fn check(body: &str, writes: usize, expected: &str) {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "multipart/mixed; boundary=b".parse().unwrap());
        headers.insert("x-ms-request-id", "id".parse().unwrap());
        let answer = Answer { status: StatusCode::ACCEPTED, headers: &headers, body: body.as_bytes() };
        let shown = match entities_transacted(&answer, writes) {
            Ok(list) => {
                list.iter().map(|one| one.etag.clone().unwrap_or_default()).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{body}");
    }

    fn failure(message: &str) -> String {
        format!(
            "{HEAD}--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 409 Conflict\r\n\r\n{{\"odata.error\":{{\"code\":\"EntityAlreadyExists\",\"message\":{{\"value\":\"{message}\"}}}}}}\r\n{END}"
        )
    }

    #[test]
    fn a_failure_names_its_operation() {
        check(&failure("2:text"), 3, "EntityAlreadyExists: text (status=409, operation=2, request_id=id)");
        check(&failure("text"), 1, "EntityAlreadyExists: text (status=409, operation=0, request_id=id)");
        check(&failure("text"), 3, "EntityAlreadyExists: text (status=409, request_id=id)");
    }

    #[test]
    fn the_tag_is_found_among_other_headers() {
        for headers in [
            "Content-ID: 1\r\nA: b\r\netag: W/\"a\"\r\nX: y",
            "ETag:W/\"a\" ",
            "ETags: no\r\nE\r\nETAG: W/\"a\"",
        ] {
            let part = format!(
                "--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\n{headers}\r\n\r\nETag: body\r\n"
            );
            check(&format!("{HEAD}{part}{END}"), 1, "W/\"a\"");
        }
        let bare =
            "--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nETag: body\r\n";
        check(&format!("{HEAD}{bare}{END}"), 1, "");
    }

    #[test]
    fn only_a_whole_answer_is_a_success() {
        check(&format!("{HEAD}{PART}{PART}{END}"), 2, "W/\"a\" W/\"a\"");
        check(&format!("{HEAD}{PART}{PART}{END}").replace("--b", "--REDACTED"), 2, "W/\"a\" W/\"a\"");
        let cut = "answer cannot be read: the batch is not whole (status=202)";
        check(&format!("{HEAD}{PART}{END}"), 2, cut);
        check(&format!("{HEAD}{PART}{PART}"), 2, cut);
        let none = "answer cannot be read: the batch does not hold one change set (status=202)";
        check("--b--\r\n", 1, none);
        check("", 1, none);
    }
}
