//! One HTTP/1.1 connection, kept alive, that sends bytes as they are and reads one answer.

use std::io;
use std::ops::Range;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HEADERS_MAX: usize = 64;
const READ_BYTES: usize = 64 * 1024;
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// The last answer, or what came of the next one.
    buffer: BytesMut,
}

/// An answer; its parts are offsets in the bytes received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The status line and headers.
    pub head: Range<usize>,
    /// The body with its chunk sizes, if it has them.
    pub body: Range<usize>,
}

impl Connection {
    /// Connects to `host:port`.
    pub async fn open(host: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: BytesMut::new() })
    }

    /// Sends a request and waits for its answer.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.buffer.clear();
        self.stream.write_all(request).await?;
        loop {
            self.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(answer) = parse_answer(&self.buffer)? {
                return Ok(answer);
            }
            if self.buffer.len() > ANSWER_BYTES_MAX {
                return Err(invalid("answer is too large"));
            }
        }
    }

    /// Bytes of the last answer.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }

    /// Whether the answer says that all went well, the operations of a batch too.
    pub fn succeeded(&self, answer: &Answer) -> bool {
        const INNER: &[u8] = b"HTTP/1.1 ";
        if answer.status != 202 {
            return (200..300).contains(&answer.status);
        }
        // A batch that failed answers with the one operation that did; a deleted blob with nothing.
        let body = self.bytes(answer.body.clone());
        if body.is_empty() {
            return true;
        }
        let inner = body.windows(INNER.len()).position(|window| window == INNER);
        inner.is_some_and(|offset| body.get(offset + INNER.len()) == Some(&b'2'))
    }

    /// A header of the last answer.
    pub fn header(&self, answer: &Answer, name: &str) -> Option<String> {
        let head = std::str::from_utf8(self.bytes(answer.head.clone())).ok()?;
        head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

/// The answer that `bytes` begin with, once it is whole.
fn parse_answer(bytes: &[u8]) -> io::Result<Option<Answer>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_len) = head.parse(bytes).map_err(invalid)? else {
        return Ok(None);
    };
    let status = head.code.ok_or_else(|| invalid("answer has no status"))?;
    let mut body_end = Some(head_len);
    for header in head.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(header.value).ok().and_then(|text| text.parse::<usize>().ok());
            let end = head_len + length.ok_or_else(|| invalid("content-length is no number"))?;
            body_end = (end <= bytes.len()).then_some(end);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            body_end = chunks_end(bytes, head_len)?;
        }
    }
    Ok(body_end.map(|end| Answer { status, head: 0..head_len, body: head_len..end }))
}

/// Where the chunks that start at `offset` end, once the last one is there.
fn chunks_end(bytes: &[u8], mut offset: usize) -> io::Result<Option<usize>> {
    loop {
        let Some(rest) = bytes.get(offset..) else { return Ok(None) };
        let parsed = httparse::parse_chunk_size(rest).map_err(|_| invalid("chunk size is malformed"))?;
        let httparse::Status::Complete((line_len, size)) = parsed else { return Ok(None) };
        let size = usize::try_from(size).map_err(invalid)?;
        // The last chunk is empty, and our contestants send no trailers behind it.
        offset += line_len + size + 2;
        if size == 0 {
            return Ok((offset <= bytes.len()).then_some(offset));
        }
    }
}

fn invalid(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(u16, &str)>) {
        let found = parse_answer(text.as_bytes()).unwrap();
        let found = found.as_ref().map(|answer| (answer.status, &text[answer.body.clone()]));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn an_answer_is_given_once_its_body_is_whole() {
        check("HTTP/1.1 200 OK\r\nContent-Len", None);
        check("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", None);
        check("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd", Some((200, "abcd")));
        check("HTTP/1.1 204 No Content\r\n\r\n", Some((204, "")));
    }

    #[test]
    fn chunks_are_followed_to_the_empty_one() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(head, None);
        check(&format!("{head}3\r\nabc\r\n"), None);
        check(&format!("{head}3\r\nabc\r\n0\r\n"), None);
        check(&format!("{head}3\r\nabc\r\n0\r\n\r\n"), Some((200, "3\r\nabc\r\n0\r\n\r\n")));
    }
}
