//! Metadata names in the case in which clients write them.
//!
//! A header name has no case, but the service gives metadata names back as they were written. hyper keeps names in
//! lower case and shows the written ones to nobody, so they are picked up from the bytes on their way to it.
//! Bytes of a body that look like such a header do no harm: a name counts only where a header of that name is.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const PREFIX: &[u8] = b"x-ms-meta-";
/// Names remembered of one request, and bytes of a name (ours): beyond it they are in lower case.
const NAMES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 1024;

/// The names seen on a connection since they were last taken.
#[derive(Clone, Debug, Default)]
pub struct MetadataNames(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    names: Vec<String>,
    /// The line under way, for as long as it may begin with a metadata name.
    line: Vec<u8>,
    is_open: bool,
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
        while let Some((byte, rest)) = bytes.split_first() {
            bytes = rest;
            match (self.is_open, byte) {
                (_, b'\n') => {
                    self.line.clear();
                    self.is_open = true;
                }
                (false, _) => {
                    let next_line = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
                    bytes = &bytes[next_line..];
                }
                (true, b':') => self.close(),
                (true, byte) => {
                    self.line.push(*byte);
                    let len = self.line.len().min(PREFIX.len());
                    self.is_open = self.line[..len].eq_ignore_ascii_case(&PREFIX[..len])
                        && self.line.len() < NAME_BYTES_MAX;
                }
            }
        }
    }

    fn close(&mut self) {
        self.is_open = false;
        if self.line.len() > PREFIX.len()
            && self.names.len() < NAMES_MAX
            && let Ok(name) = std::str::from_utf8(&self.line)
        {
            self.names.push(name.to_owned());
        }
    }
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
    fn other_names_and_endless_ones_are_let_pass() {
        check("GET /\r\nx-ms-metadata: 1\r\nx-ms-meta-: 2\r\nx-ms-meta: 3\r\n\r\n", &[]);
        check(&format!("\nx-ms-meta-{}: 1\nx-ms-meta-b: 2\n", "a".repeat(NAME_BYTES_MAX)), &["x-ms-meta-b"]);
    }

    #[test]
    fn taken_names_are_gone() {
        let names = MetadataNames::default();
        names.lock().read(b"\nx-ms-meta-A:1\n");
        assert_eq!(names.take(), ["x-ms-meta-A"]);
        assert!(names.take().is_empty());
    }
}
