//! Multipart bodies to the requests they hold.
//!
//! A batch is one part: a change set of writes, or a single query. Boundaries may be anything, lines may end
//! with LF or CRLF, inner URIs may be absolute, rooted or relative, and `Content-ID` may stand among the
//! headers of the part or of the request inside (only the latter is echoed, as recorded).

use tavola_model::{ErrorCode, ServiceError, TRANSACTION_OPERATIONS_MAX};

use crate::multipart::{InnerRequest, boundary_of, inner_request, is_multipart, split_head, split_parts};

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
            assert_eq!(requests[1].method, http::Method::DELETE);
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
