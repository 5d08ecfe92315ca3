//! Batches: requests that come together and are answered one by one.
//!
//! Each part is a request with its own credentials, so whoever received the batch takes the parts through the same steps
//! as any other request; here they are taken apart, and their answers put together.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use tavola_model::{BLOB_BATCH_PARTS_MAX, BatchAnswer, BatchDone, DateTime, ErrorCode, Guid, ServiceError};

use super::encode::encode_error;
use crate::multipart::{boundary_of, inner_request, is_multipart, split_head, split_parts};
use crate::reply::Reply;
use crate::response::Response;

/// A request of a batch.
#[derive(Clone, Debug)]
pub struct BatchPart {
    /// Its number in the batch, as the client gave it.
    pub content_id: Option<String>,
    /// Its method.
    pub method: Method,
    /// The raw path, as it is signed.
    pub path: String,
    /// The raw query, without its question mark.
    pub query: String,
    /// Its headers.
    pub headers: HeaderMap,
}

/// Takes a batch apart. `content_type` is that of the request.
pub fn batch_parts(content_type: Option<&str>, body: &[u8]) -> Result<Vec<BatchPart>, ServiceError> {
    let content_type = content_type.filter(|value| is_multipart(value)).ok_or(ErrorCode::InvalidInput)?;
    let boundary = boundary_of(content_type).ok_or(ErrorCode::InvalidInput)?;
    // One more than may be, so that too many are seen without reading them all.
    let parts = split_parts(body, &boundary).take(BLOB_BATCH_PARTS_MAX + 1);
    let parts = parts.map(part).collect::<Result<Vec<_>, _>>()?;
    match parts.len() {
        0 => Err(ErrorCode::InvalidInput.into()),
        count if count > BLOB_BATCH_PARTS_MAX => Err(ErrorCode::ExceedsMaxBatchRequestCount.into()),
        _ => Ok(parts),
    }
}

fn part(bytes: &[u8]) -> Result<BatchPart, ServiceError> {
    let (part_headers, content) = split_head(bytes)?;
    let inner = inner_request(content)?;
    let content_id = part_headers.get("content-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let rooted = match inner.uri.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => inner.uri,
    };
    let (path, query) = rooted.split_once('?').unwrap_or((rooted, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    Ok(BatchPart { content_id, method: inner.method, path, query, headers: inner.headers })
}

/// Puts the answers together.
pub(super) fn write_batch(reply: &Reply, answers: &[BatchAnswer], now: DateTime, id: Guid) -> Response {
    let boundary = format!("batchresponse_{id}");
    let mut out = String::new();
    for answer in answers {
        out.push_str(&format!("--{boundary}\r\nContent-Type: application/http\r\n"));
        if let Some(id) = &answer.content_id {
            out.push_str(&format!("Content-ID: {id}\r\n"));
        }
        out.push_str("\r\n");
        write_answer(reply, answer, now, &mut out);
    }
    out.push_str(&format!("--{boundary}--"));
    let content_type = format!("multipart/mixed; boundary={boundary}");
    let response = Response::empty(StatusCode::ACCEPTED).with("Content-Type", content_type);
    Response { body: Bytes::from(out), ..response }
}

fn write_answer(reply: &Reply, answer: &BatchAnswer, now: DateTime, out: &mut String) {
    let reply = Reply { request_id: answer.request_id.clone(), head_only: false, ..reply.clone() };
    let response = match &answer.result {
        Ok(BatchDone::Deleted { is_permanent }) => Response::empty(StatusCode::ACCEPTED)
            .with("x-ms-delete-type-permanent", if *is_permanent { "true" } else { "false" }),
        Ok(BatchDone::TierSet { is_done: true }) => Response::empty(StatusCode::OK),
        Ok(BatchDone::TierSet { is_done: false }) => Response::empty(StatusCode::ACCEPTED),
        Err(error) => encode_error(&reply, error, now),
    };
    let reason = response.status.canonical_reason().unwrap_or_default();
    out.push_str(&format!("HTTP/1.1 {} {reason}\r\n", response.status.as_u16()));
    for (name, value) in &response.headers {
        out.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
    }
    out.push_str(&format!("x-ms-request-id: {}\r\n", reply.request_id));
    if let Some(id) = &answer.client_request_id {
        out.push_str(&format!("x-ms-client-request-id: {id}\r\n"));
    }
    out.push_str(&format!("x-ms-version: {}\r\n", reply.version.as_str()));
    if !response.body.is_empty() {
        out.push_str(&format!("Content-Length: {}\r\n", response.body.len()));
    }
    out.push_str("Server: Windows-Azure-Blob/1.0\r\n\r\n");
    if !response.body.is_empty() {
        out.push_str(&String::from_utf8_lossy(&response.body));
        out.push_str("\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::Address;

    const TYPE: Option<&str> = Some("multipart/mixed; boundary=batch_1");

    #[test]
    fn a_batch_is_taken_apart_as_recorded() {
        let body = "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\nDELETE /con/blob0 HTTP/1.1\r\nAccept: application/xml\r\nx-ms-date: Tue, 14 Sep 2021 18:52:12 GMT\r\nAuthorization: SharedKey a:b\r\n\r\n--batch_1\nContent-ID: 1\n\nPUT http://h:1/con/a%20b?comp=tier&x=1 HTTP/1.1\nx-ms-access-tier: Cool\n\n--batch_1--";
        let parts = batch_parts(TYPE, body.as_bytes()).unwrap();
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[0].method.as_str(), parts[0].path.as_str()), ("DELETE", "/con/blob0"));
        assert_eq!(parts[0].headers.get("authorization").unwrap(), "SharedKey a:b");
        assert_eq!(parts[0].content_id.as_deref(), Some("0"));
        assert_eq!((parts[1].path.as_str(), parts[1].query.as_str()), ("/con/a%20b", "comp=tier&x=1"));
    }

    #[test]
    fn a_batch_has_1_to_256_parts() {
        let body =
            |count: usize| "--batch_1\r\n\r\nDELETE /c/b HTTP/1.1\r\n\r\n".repeat(count) + "--batch_1--";
        assert_eq!(batch_parts(TYPE, body(256).as_bytes()).unwrap().len(), 256);
        let code = |content_type, body: &str| batch_parts(content_type, body.as_bytes()).unwrap_err().code;
        assert_eq!(code(TYPE, &body(257)), ErrorCode::ExceedsMaxBatchRequestCount);
        for (content_type, body) in
            [(TYPE, body(0)), (None, body(1)), (TYPE, "--batch_1\r\n\r\nx\r\n".to_owned())]
        {
            assert_eq!(code(content_type, &body), ErrorCode::InvalidInput);
        }
    }

    #[test]
    fn answers_are_put_together_as_recorded() {
        let address = Address::parse("127.0.0.1", "/acct/").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-version", "2020-10-02".parse().unwrap());
        let reply = Reply::of(&Method::POST, &headers, Some(&address), "outer".into(), false);
        let answer = |id: &str, result| BatchAnswer {
            content_id: Some(id.to_owned()),
            client_request_id: None,
            request_id: format!("inner{id}"),
            result,
        };
        let answers = [
            answer("0", Ok(BatchDone::Deleted { is_permanent: true })),
            answer("1", Err(ErrorCode::BlobNotFound.into())),
        ];
        let response = write_batch(&reply, &answers, DateTime::MIN, Guid([0; 16]));
        let boundary = "batchresponse_00000000-0000-0000-0000-000000000000";
        assert_eq!(response.header("Content-Type"), Some(&*format!("multipart/mixed; boundary={boundary}")));
        let text = std::str::from_utf8(&response.body).unwrap();
        let first = format!(
            "--{boundary}\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nHTTP/1.1 202 Accepted\r\nx-ms-delete-type-permanent: true\r\nx-ms-request-id: inner0\r\nx-ms-version: 2020-10-02\r\nServer: Windows-Azure-Blob/1.0\r\n\r\n--"
        );
        assert!(text.starts_with(&first), "{text}");
        assert!(
            text.contains(
                "HTTP/1.1 404 Not Found\r\nContent-Type: application/xml\r\nx-ms-error-code: BlobNotFound\r\n"
            ),
            "{text}"
        );
        assert!(text.ends_with(&format!("</Error>\r\n--{boundary}--")), "{text}");
    }
}
