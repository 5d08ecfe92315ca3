//! Threads of their own for reads that take long.
//!
//! Most queries are short and end on the thread that answers requests. A query that has visited more rows than a page
//! can hold is moved to a thread of this pool. There are few of these threads, they have a low priority, and the reads
//! on each take turns: an engine gives way every few hundred rows (`Engine::scan`), and the next read goes on. So
//! however many scans run, a short request finds a thread, and a short scan is not behind a long one.
//!
//! A read is moved as it is, in the middle of its scan: it keeps its snapshot.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::low_priority::lower_priority;

/// Rows that a read may visit on the thread that answers requests: a full page and what is looked at behind it.
const SHORT_ROWS_MAX: usize = 1_100;
/// Long reads that take turns at once; further ones wait. Each holds what it has collected of its page.
const LONG_READS_MAX: usize = 256;

/// How many rows a read has visited; counted by the read.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowsVisited(Arc<AtomicUsize>);

impl RowsVisited {
    /// Counts a row.
    #[inline]
    pub fn count(&self) {
        // One read counts, one thread at a time.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The rows so far.
    pub fn rows(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether the read is not a short one.
    pub fn is_long(&self) -> bool {
        self.rows() > SHORT_ROWS_MAX
    }
}

/// The threads for long reads. They start with the first one.
#[derive(Debug)]
pub(crate) struct LongReads {
    threads: OnceLock<Vec<ReadThread>>,
    next: AtomicUsize,
    turns: Semaphore,
}

/// A thread that runs until this is dropped.
#[derive(Debug)]
struct ReadThread {
    runtime: Handle,
    _until_dropped: oneshot::Sender<()>,
}

impl Default for LongReads {
    fn default() -> Self {
        Self { threads: OnceLock::new(), next: AtomicUsize::new(0), turns: Semaphore::new(LONG_READS_MAX) }
    }
}

impl LongReads {
    /// Runs a read: here while it is short, then on a thread of the pool. Dropping the future ends the read.
    pub async fn run<T: Send + 'static>(
        &self,
        progress: RowsVisited,
        mut read: Pin<Box<impl Future<Output = T> + Send + 'static>>,
    ) -> T {
        let short = poll_fn(|context| match read.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if progress.is_long() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(done) = short.await {
            return done;
        }
        let Some(thread) = self.thread() else { return read.await };
        let _turn = self.turns.acquire().await;
        Running(thread.runtime.spawn(read)).await
    }

    /// The threads in turn; `None` if none could be started.
    fn thread(&self) -> Option<&ReadThread> {
        let threads = self.threads.get_or_init(start_threads);
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        threads.get(next.checked_rem(threads.len())?)
    }
}

/// A read on another thread, which ends when nobody waits for it any more.
struct Running<T>(JoinHandle<T>);

impl<T> Future for Running<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context).map(|joined| match joined {
            Ok(done) => done,
            // It is cancelled only by dropping this, so it has panicked.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        })
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Half as many threads as the machine has cores: the other half stays with those who wait for a single row.
fn start_threads() -> Vec<ReadThread> {
    let count = thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
    let started: Result<Vec<ReadThread>, _> = (0..count).map(|_| start_thread()).collect();
    started.unwrap_or_else(|error| {
        tracing::error!(%error, "cannot start threads for long scans; they run on the threads of requests");
        Vec::new()
    })
}

fn start_thread() -> std::io::Result<ReadThread> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (until_dropped, dropped) = oneshot::channel();
    thread::Builder::new().name("tavola-scan".to_owned()).spawn(move || {
        lower_priority("scans");
        // What is still running when the service is dropped ends with the runtime.
        let _ = runtime.block_on(dropped);
    })?;
    Ok(ReadThread { runtime: handle, _until_dropped: until_dropped })
}
