//! A connection that must make progress.
//!
//! A client may be idle between two requests for some time; a head has its own, shorter time from its first byte on; and
//! a client that does not take its answer is not waited for. Bodies are timed where they are read, in `body.rs`.
//!
//! hyper could bound the time up to the end of a head, but sets a timer for each request. Here one is set for each
//! connection, and forward when it fires too early.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// What a connection does, told by whoever answers its requests.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// How often it has gone into a request or out of one: an even count is between requests.
    steps: AtomicU64,
    /// When its last request ended, in the order of such ends; 0 before the first.
    last_ended: AtomicU64,
    /// Its client does not take the answer that is being sent.
    is_stuck: AtomicBool,
}

impl Activity {
    /// A head has come: the request is being worked on.
    pub fn begin(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// The request has its answer: whatever comes next is the head of another.
    pub fn end(&self, sequence: u64) {
        self.last_ended.store(sequence, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// When its last request ended.
    pub fn last_ended(&self) -> u64 {
        self.last_ended.load(Ordering::Relaxed)
    }

    /// Nobody loses an answer if it is closed now.
    pub fn is_closable(&self) -> bool {
        self.steps().is_multiple_of(2) && !self.is_stuck.load(Ordering::Relaxed)
    }

    fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Up to the first byte of a head.
    pub idle_time_max: Duration,
    /// From the first byte of a head to its last.
    pub head_time_max: Duration,
    /// Without taking a single byte of an answer.
    pub write_time_max: Duration,
}

/// A stream that fails with `TimedOut` when its client does not keep the pace.
pub(crate) struct Paced<S> {
    stream: S,
    activity: Arc<Activity>,
    pace: Pace,
    idle: Timer,
    head: Timer,
    /// The step that the head and its time belong to.
    head_step: u64,
    /// Bytes of the head have come.
    head_has_begun: bool,
    write: Timer,
}

impl<S> Paced<S> {
    /// Holds a stream to a pace.
    pub fn new(stream: S, activity: Arc<Activity>, pace: Pace) -> Self {
        Self {
            stream,
            activity,
            pace,
            idle: Timer::default(),
            head: Timer::default(),
            head_step: 0,
            head_has_begun: false,
            write: Timer::default(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let step = this.activity.steps();
        if this.head_step != step {
            this.head_step = step;
            this.head_has_begun = false;
            this.head.stop();
            this.idle.stop();
        }
        if !step.is_multiple_of(2) {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        // A head that drips is ended also while its bytes are there to be read. They stay unread: a reader that fails
        // gives no bytes.
        if this.head.poll_over(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let filled = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_ready() {
            this.head_has_begun |= buffer.filled().len() > filled;
            return read;
        }
        let (timer, time) = if this.head_has_begun {
            (&mut this.head, this.pace.head_time_max)
        } else {
            (&mut this.idle, this.pace.idle_time_max)
        };
        timer.start(time);
        // It may be over already, and is polled in any case to be woken.
        ready!(timer.poll_over(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
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
            if self.write.is_running() {
                self.write.stop();
                self.activity.is_stuck.store(false, Ordering::Relaxed);
            }
            return written;
        }
        self.write.start(self.pace.write_time_max);
        self.activity.is_stuck.store(true, Ordering::Relaxed);
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
/// ever needs it, and set forward after that: not with the deadline, which moves with every request and is hardly ever
/// reached, but when the sleep ends before it.
#[derive(Default)]
struct Timer {
    deadline: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Sets the deadline, unless one is set.
    fn start(&mut self, time: Duration) {
        self.deadline.get_or_insert_with(|| Instant::now() + time);
    }

    fn stop(&mut self) {
        self.deadline = None;
    }

    fn is_running(&self) -> bool {
        self.deadline.is_some()
    }

    /// Ready when a deadline is set and over.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        loop {
            ready!(sleep.as_mut().poll(context));
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::{sleep, timeout};

    const PACE: Pace = Pace {
        idle_time_max: Duration::from_secs(60),
        head_time_max: Duration::from_secs(6),
        write_time_max: Duration::from_secs(6),
    };

    fn pair() -> (DuplexStream, Paced<DuplexStream>, Arc<Activity>) {
        let (client, server) = duplex(16);
        let activity = Arc::new(Activity::default());
        (client, Paced::new(server, activity.clone(), PACE), activity)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_drips_is_ended() {
        let (mut client, mut server, _) = pair();
        let drip = async {
            while client.write_all(b"x").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
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
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_fails_gives_no_bytes() {
        let (mut client, mut server, _) = pair();
        client.write_all(b"x").await.unwrap();
        let mut byte = [0];
        server.read_exact(&mut byte).await.unwrap();
        assert!(timeout(PACE.head_time_max / 2, server.read(&mut byte)).await.is_err());
        // The time is over and a byte is there at once.
        tokio::time::advance(PACE.head_time_max).await;
        client.write_all(b"y").await.unwrap();
        let (mut bytes, mut polled) = ([0; 8], None);
        std::future::poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut server).poll_read(context, &mut buffer);
            polled = Some((read.map(|read| read.map_err(|error| error.kind())), buffer.filled().len()));
            Poll::Ready(())
        })
        .await;
        assert!(matches!(polled, Some((Poll::Ready(Err(io::ErrorKind::TimedOut)), 0))), "{polled:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_client_and_one_inside_a_request_are_left_to_others() {
        let (mut client, mut server, activity) = pair();
        let mut byte = [0];
        let idle = timeout(PACE.head_time_max * 2, server.read(&mut byte)).await;
        assert!(idle.is_err(), "idle");
        client.write_all(b"xy").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        activity.begin();
        let body = timeout(PACE.head_time_max * 2, server.read(&mut byte)).await;
        assert_eq!(body.unwrap().unwrap(), 1);
        let more = timeout(PACE.head_time_max * 2, server.read(&mut byte)).await;
        assert!(more.is_err(), "a body is timed elsewhere");
        activity.end(1);
        client.write_all(b"a").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        activity.begin();
        activity.end(2);
        let idle = timeout(PACE.head_time_max * 2, server.read(&mut byte)).await;
        assert!(idle.is_err(), "idle after a request without a body");
        client.write_all(b"z").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        assert_eq!(server.read(&mut byte).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_idle_for_too_long_is_ended_however_many_requests_it_sent() {
        let (mut client, mut server, activity) = pair();
        let mut byte = [0];
        for request in 1..4 {
            let idle = timeout(PACE.idle_time_max * 2 / 3, server.read(&mut byte)).await;
            assert!(idle.is_err(), "its time is not over");
            client.write_all(b"x").await.unwrap();
            server.read_exact(&mut byte).await.unwrap();
            activity.begin();
            activity.end(request);
        }
        let begun = Instant::now();
        assert_eq!(server.read(&mut byte).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), PACE.idle_time_max.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_takes_is_ended_and_one_that_is_taken_slowly_is_not() {
        let (mut client, mut server, activity) = pair();
        let take = async {
            let mut byte = [0];
            for _ in 0..8 {
                sleep(PACE.write_time_max / 3).await;
                assert!(!activity.is_closable(), "an answer is on its way");
                client.read_exact(&mut byte).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(server.write_all(&[0; 24]), take);
        written.unwrap();
        assert!(activity.is_closable());
        let stuck = server.write_all(&[0; 64]).await;
        assert_eq!(stuck.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
