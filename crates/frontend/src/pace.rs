//! A connection that must make progress.
//!
//! hyper bounds the time from the end of one answer to the head of the next request, which takes in the time that a
//! client may rightly be idle. Here the head itself has its own, shorter time from its first byte on; and a client
//! that does not take its answer is not waited for. Bodies are timed where they are read, in `receive`.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How often a connection has gone into a request or out of one, told by whoever answers: an even count is one
/// between requests.
#[derive(Clone, Debug)]
pub struct Turn(Arc<AtomicU64>);

impl Turn {
    /// A connection that waits for its first request.
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(0)))
    }

    /// A head has come: the request is being worked on.
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The request has its answer: whatever comes next is the head of another.
    pub fn end(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// From the first byte of a head to its last.
    pub head_time_max: Duration,
    /// Without taking a single byte of an answer.
    pub write_time_max: Duration,
}

/// A stream that fails with `TimedOut` when its client does not keep the pace.
pub struct Paced<S> {
    stream: S,
    turn: Turn,
    pace: Pace,
    head: Timer,
    /// The turn that the head and its time belong to.
    head_turn: u64,
    /// Bytes of the head have come.
    head_has_begun: bool,
    write: Timer,
}

impl<S> Paced<S> {
    /// Holds a stream to a pace.
    pub fn new(stream: S, turn: Turn, pace: Pace) -> Self {
        let (head, write) = (Timer::default(), Timer::default());
        Self { stream, turn, pace, head, head_turn: 0, head_has_begun: false, write }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let filled = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let turn = this.turn.count();
        if this.head_turn != turn {
            this.head_turn = turn;
            this.head_has_begun = false;
            this.head.stop();
        }
        if !turn.is_multiple_of(2) {
            return read;
        }
        // A head that comes in one piece, as nearly all do, never touches the clock.
        match &read {
            Poll::Ready(_) => this.head_has_begun |= buffer.filled().len() > filled,
            Poll::Pending if this.head_has_begun => this.head.start(this.pace.head_time_max),
            Poll::Pending => {}
        }
        // A head that drips is ended also while its bytes are there to be read.
        match this.head.poll_over(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> Paced<S> {
    /// What a write gives, unless the client has taken nothing for too long.
    fn held_to_pace<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write.stop();
            return written;
        }
        self.write.start(self.pace.write_time_max);
        ready!(self.write.poll_over(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.held_to_pace(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.held_to_pace(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.held_to_pace(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.stream).poll_shutdown(context);
        this.held_to_pace(context, shut)
    }
}

/// A deadline that is set at most until it is stopped. The sleep behind it is made once for a connection that
/// ever needs it, and set forward after that.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    is_running: bool,
}

impl Timer {
    /// Sets the deadline, unless one is set.
    fn start(&mut self, time: Duration) {
        if self.is_running {
            return;
        }
        self.is_running = true;
        let deadline = Instant::now() + time;
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(deadline),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(deadline))),
        }
    }

    fn stop(&mut self) {
        self.is_running = false;
    }

    /// Ready when a deadline is set and over.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) if self.is_running => sleep.as_mut().poll(context),
            _ => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    const PACE: Pace =
        Pace { head_time_max: Duration::from_millis(60), write_time_max: Duration::from_millis(60) };

    fn pair() -> (DuplexStream, Paced<DuplexStream>, Turn) {
        let (client, server) = duplex(16);
        let turn = Turn::new();
        (client, Paced::new(server, turn.clone(), PACE), turn)
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn a_head_that_drips_is_ended() {
        run(async {
            let (mut client, mut server, _) = pair();
            let drip = async {
                while client.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            let read = async {
                let mut bytes = Vec::new();
                server.read_to_end(&mut bytes).await.unwrap_err().kind()
            };
            tokio::select! {
                () = drip => panic!("the client gave up first"),
                kind = read => assert_eq!(kind, io::ErrorKind::TimedOut),
            }
        });
    }

    #[test]
    fn an_idle_client_and_one_inside_a_request_are_left_to_others() {
        run(async {
            let (mut client, mut server, turn) = pair();
            let mut byte = [0];
            let idle = tokio::time::timeout(PACE.head_time_max * 2, server.read(&mut byte)).await;
            assert!(idle.is_err(), "idle");
            client.write_all(b"xy").await.unwrap();
            server.read_exact(&mut byte).await.unwrap();
            turn.begin();
            let body = tokio::time::timeout(PACE.head_time_max * 2, server.read(&mut byte)).await;
            assert_eq!(body.unwrap().unwrap(), 1);
            let more = tokio::time::timeout(PACE.head_time_max * 2, server.read(&mut byte)).await;
            assert!(more.is_err(), "a body is timed elsewhere");
            turn.end();
            client.write_all(b"a").await.unwrap();
            server.read_exact(&mut byte).await.unwrap();
            turn.begin();
            turn.end();
            let idle = tokio::time::timeout(PACE.head_time_max * 2, server.read(&mut byte)).await;
            assert!(idle.is_err(), "idle after a request without a body");
            client.write_all(b"z").await.unwrap();
            server.read_exact(&mut byte).await.unwrap();
            assert_eq!(server.read(&mut byte).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn an_answer_that_nobody_takes_is_ended_and_one_that_is_taken_slowly_is_not() {
        run(async {
            let (mut client, mut server, _) = pair();
            let take = async {
                let mut byte = [0];
                for _ in 0..8 {
                    tokio::time::sleep(PACE.write_time_max / 3).await;
                    client.read_exact(&mut byte).await.unwrap();
                }
            };
            let (written, ()) = tokio::join!(server.write_all(&[0; 24]), take);
            written.unwrap();
            let stuck = server.write_all(&[0; 64]).await;
            assert_eq!(stuck.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }
}
