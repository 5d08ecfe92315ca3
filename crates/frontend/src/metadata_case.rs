//! Metadata names in the case in which clients write them.
//!
//! A header name has no case, but the service gives metadata names back as they were written. hyper keeps names in
//! lower case and shows the written ones to nobody, so they are picked up from the bytes on their way to it.
//!
//! Bodies are passed over, by the length that they or their chunks tell. Where none can be told, all that follows is read
//! like heads: bytes of a body that look like a header do no harm, because a name counts only where a header of that name
//! is.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const PREFIX: &[u8] = b"x-ms-meta-";
/// Names remembered of one request, and bytes of a name (ours): beyond it they are in lower case.
const NAMES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 1024;
/// Bytes of a line that are looked at.
const LINE_BYTES_MAX: usize = 2048;

/// The names seen on a connection since they were last taken.
#[derive(Clone, Debug, Default)]
pub struct MetadataNames(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    names: Vec<String>,
    /// The beginning of the line under way, if it did not come at once.
    line: Vec<u8>,
    part: Part,
    /// How the body of the head under way comes.
    body: BodyLength,
    /// Bytes of a body that are still to be passed over.
    skipped: u64,
}

/// What the line under way is part of.
#[derive(Debug, Default, PartialEq, Eq)]
enum Part {
    /// The request line comes next, perhaps behind empty lines.
    #[default]
    Start,
    /// An empty line ends it.
    Head,
    /// The length of a chunk comes next.
    Chunks,
    /// What follows the last chunk, to an empty line.
    Trailers,
    /// Where bodies end cannot be told any more.
    Lost,
}

#[derive(Debug, PartialEq, Eq)]
enum BodyLength {
    Told(u64),
    Chunked,
    Unknown,
}

impl Default for BodyLength {
    fn default() -> Self {
        Self::Told(0)
    }
}

impl MetadataNames {
    /// The names of the request whose head has just been read.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().names)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = usize::try_from(self.skipped).unwrap_or(usize::MAX).min(bytes.len());
            self.skipped -= skipped as u64;
            bytes = &bytes[skipped..];
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                self.keep(bytes);
                return;
            };
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.line.is_empty() {
                self.read_line(line);
            } else {
                self.keep(line);
                let mut kept = std::mem::take(&mut self.line);
                self.read_line(&kept);
                kept.clear();
                self.line = kept;
            }
            bytes = rest;
        }
    }

    /// Keeps the beginning of a line until the rest of it comes.
    fn keep(&mut self, part: &[u8]) {
        let space_left = LINE_BYTES_MAX - self.line.len();
        self.line.extend_from_slice(&part[..part.len().min(space_left)]);
    }

    fn read_line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.part {
            Part::Start => self.part = if line.is_empty() { Part::Start } else { Part::Head },
            Part::Head if line.is_empty() => {
                self.part = match std::mem::take(&mut self.body) {
                    BodyLength::Told(length) => {
                        self.skipped = length;
                        Part::Start
                    }
                    BodyLength::Chunked => Part::Chunks,
                    BodyLength::Unknown => Part::Lost,
                }
            }
            Part::Head | Part::Lost => self.read_header(line),
            Part::Chunks => {
                let length = line.split(|byte| *byte == b';').next().and_then(hex);
                self.part = match length {
                    Some(0) => Part::Trailers,
                    // Its bytes, and the end of the line behind them.
                    Some(length) => {
                        self.skipped = length.saturating_add(2);
                        Part::Chunks
                    }
                    None => Part::Lost,
                }
            }
            Part::Trailers => self.part = if line.is_empty() { Part::Start } else { Part::Trailers },
        }
    }

    fn read_header(&mut self, line: &[u8]) {
        let Some(colon) = memchr::memchr(b':', line) else { return };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if name.len() > PREFIX.len() && name[..PREFIX.len()].eq_ignore_ascii_case(PREFIX) {
            self.remember(name);
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
            self.body = length.map_or(BodyLength::Unknown, BodyLength::Told);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_chunked = value.trim_ascii().eq_ignore_ascii_case(b"chunked");
            self.body = if is_chunked { BodyLength::Chunked } else { BodyLength::Unknown };
        }
    }

    fn remember(&mut self, name: &[u8]) {
        if name.len() < NAME_BYTES_MAX
            && self.names.len() < NAMES_MAX
            && let Ok(name) = std::str::from_utf8(name)
        {
            self.names.push(name.to_owned());
        }
    }
}

/// A length in hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits.trim_ascii()).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

/// A stream whose metadata names are remembered, if there is something to remember them in.
pub struct NameReader<S> {
    stream: S,
    names: Option<MetadataNames>,
}

impl<S> NameReader<S> {
    pub fn new(stream: S, names: Option<MetadataNames>) -> Self {
        Self { stream, names }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for NameReader<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        if let Some(names) = &this.names {
            names.lock().read(&buffer.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for NameReader<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: &[&str]) {
        for size in [1, 2, 7, head.len()] {
            let mut seen = Seen::default();
            head.as_bytes().chunks(size).for_each(|chunk| seen.read(chunk));
            assert_eq!(seen.names, expected, "{size}");
        }
    }

    #[test]
    fn names_are_found_wherever_the_bytes_are_cut() {
        check(
            "PUT /x-ms-meta-no: HTTP/1.1\r\nHost: x-ms-meta-no: a\r\nX-MS-Meta-Capital: a:b\r\nx-ms-meta-lower:c\r\n\r\n",
            &["X-MS-Meta-Capital", "x-ms-meta-lower"],
        );
    }

    #[test]
    fn a_body_is_passed_over_and_the_next_head_is_read() {
        let body = "\r\nx-ms-meta-In-Body: 1\r\n";
        let head =
            |name: &str, headers: &str| format!("PUT / HTTP/1.1\r\n{headers}x-ms-meta-{name}: 1\r\n\r\n");
        let length = format!("Content-LENGTH: {} \r\n", body.len());
        let next = head("Next", "");
        check(&format!("{}{body}{next}", head("First", &length)), &["x-ms-meta-First", "x-ms-meta-Next"]);
        let both = ["x-ms-meta-First", "x-ms-meta-Next"];
        // Whoever asks before it sends does send, or is disconnected.
        check(&format!("{}{body}{next}", head("First", &format!("Expect: 100-continue\r\n{length}"))), &both);
        let chunk = format!("{:X};name=value\r\n{body}\r\n", body.len());
        let chunks = format!("{chunk}{chunk}0\r\nx-ms-meta-Trailer: 1\r\n\r\n");
        check(&format!("{}{chunks}{next}", head("First", "Transfer-Encoding: Chunked\r\n")), &both);
        let all = ["x-ms-meta-First", "x-ms-meta-In-Body", "x-ms-meta-Next"];
        for unknown in ["Content-Length: many\r\n", "Transfer-Encoding: gzip, chunked\r\n"] {
            check(&format!("{}{body}{next}", head("First", unknown)), &all);
        }
        check(&format!("{}none{body}{next}", head("First", "Transfer-Encoding: chunked\r\n")), &all);
        let after = format!("\r\n{}", head("Next", ""));
        check(&format!("{}{after}", head("First", "")), &["x-ms-meta-First", "x-ms-meta-Next"]);
    }

    #[test]
    fn other_names_and_endless_ones_are_let_pass() {
        check("GET /\r\nx-ms-metadata: 1\r\nx-ms-meta-: 2\r\nx-ms-meta: 3\r\n\r\n", &[]);
        let long = "a".repeat(NAME_BYTES_MAX);
        check(&format!("GET /\nx-ms-meta-{long}: 1\nx-ms-meta-b: 2\n"), &["x-ms-meta-b"]);
        let longer = "a".repeat(2 * LINE_BYTES_MAX);
        check(&format!("GET /\nx-ms-meta-{longer}: 1\nx-ms-meta-b: 2\n"), &["x-ms-meta-b"]);
    }

    #[test]
    fn taken_names_are_gone() {
        let names = MetadataNames::default();
        names.lock().read(b"GET /\nx-ms-meta-A:1\n");
        assert_eq!(names.take(), ["x-ms-meta-A"]);
        assert!(names.take().is_empty());
    }
}
