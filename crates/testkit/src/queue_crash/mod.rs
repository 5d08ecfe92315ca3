//! The crash test of queues: many producers and consumers, `kill -9` at random moments.
//!
//! Each round starts the server on the same data folder, lets the workers loose and kills the server under them. At
//! no time may a message be handed out while it is hidden, or come back after its deletion was acknowledged; at
//! the end every message whose put was acknowledged and whose deletion nobody asked for is there, as soon as the
//! time is over for which it was hidden.

mod book;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::{DataFolder, QueueConnection, ServerOptions, TestServer};
use book::Book;
use worker::{HIDDEN_SECONDS, Round};

/// The queue that the workers share.
const QUEUE: &str = "crash";
/// Longer than any message is hidden, and time for a slow machine.
const REAPPEAR: Duration = Duration::from_secs(HIDDEN_SECONDS as u64 + 1);

/// How hard to try.
#[derive(Clone, Debug)]
pub struct QueueCrashOptions {
    /// The program, if not the usual one.
    pub binary: Option<PathBuf>,
    /// How often to kill.
    pub rounds: usize,
    /// Connections that put, and as many that get.
    pub workers: usize,
    /// Where chance starts.
    pub seed: u64,
    /// Milliseconds that the workers get at most before a kill.
    pub work_ms_max: u64,
}

impl Default for QueueCrashOptions {
    fn default() -> Self {
        Self { binary: None, rounds: 22, workers: 12, seed: fastrand::u64(..), work_ms_max: 1_500 }
    }
}

/// What a crash test went through without a broken promise.
#[derive(Clone, Debug)]
pub struct QueueCrashReport {
    rounds: usize,
    /// Acknowledged puts, acknowledged deletions, gets, messages that were got more than once.
    counts: [usize; 4],
    owed: usize,
}

impl fmt::Display for QueueCrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [puts, deletions, gets, again] = self.counts;
        write!(
            f,
            "{} rounds, {puts} puts, {gets} gets, {deletions} deletions acknowledged, {again} messages came back, \
             {} were owed at the end: none lost, none back from deletion, none handed out while hidden",
            self.rounds, self.owed
        )
    }
}

/// Runs the crash test on a fresh data folder. An error says which promise was broken.
pub fn run(options: &QueueCrashOptions) -> Result<QueueCrashReport, String> {
    let folder = tempfile::Builder::new()
        .prefix("tavola-queue-crash-")
        .tempdir()
        .map_err(|error| format!("no data folder ({error})"))?;
    let server_options = ServerOptions {
        binary: options.binary.clone(),
        data: DataFolder::At(folder.path().join("data")),
        arguments: Vec::new(),
    };
    let mut rng = Rng::with_seed(options.seed);
    let book = Mutex::new(Book::default());
    for number in 0..options.rounds {
        let mut server = TestServer::start_with(&server_options).map_err(|error| error.to_string())?;
        if number == 0 {
            let created = QueueConnection::open(server.queue_endpoint(), QUEUE).and_then(|mut q| q.create());
            created.map_err(|error| format!("queue was not created ({error})"))?;
        }
        work_and_kill(options, number, &mut server, &mut rng, &book)
            .map_err(|broken| format!("round {number}: {broken}\nserver log:\n{}", server.log()))?;
    }
    let book = book.into_inner().unwrap_or_else(PoisonError::into_inner);
    let server = TestServer::start_with(&server_options).map_err(|error| error.to_string())?;
    let owed = book.owed().len();
    let counts = book.counts();
    drain(server.queue_endpoint(), book).map_err(|broken| format!("at the end: {broken}"))?;
    Ok(QueueCrashReport { rounds: options.rounds, counts, owed })
}

fn work_and_kill(
    options: &QueueCrashOptions,
    number: usize,
    server: &mut TestServer,
    rng: &mut Rng,
    book: &Mutex<Book>,
) -> Result<(), String> {
    let endpoint = server.queue_endpoint().to_owned();
    let stop = AtomicBool::new(false);
    let round = Round { endpoint: &endpoint, number, book, stop: &stop };
    let work_ms = rng.u64(20..options.work_ms_max.max(21));
    std::thread::scope(|scope| {
        let round = &round;
        let mut threads = Vec::new();
        for worker in 0..options.workers {
            let worker_rng = rng.fork();
            threads.push(scope.spawn(move || round.produce(worker)));
            threads.push(scope.spawn(move || round.consume(worker_rng)));
        }
        std::thread::sleep(Duration::from_millis(work_ms));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Takes everything out of the queue and holds it against the book.
fn drain(endpoint: &str, mut book: Book) -> Result<(), String> {
    std::thread::sleep(REAPPEAR);
    let failed = |error: std::io::Error| error.to_string();
    let mut queue = QueueConnection::open(endpoint, QUEUE).map_err(failed)?;
    let hidden = Duration::from_secs(3600);
    loop {
        let asked = Instant::now();
        let got = queue.get(32, 3600).map_err(failed)?;
        if got.is_empty() {
            break;
        }
        for message in &got {
            book.got(message, asked, Instant::now(), hidden)?;
            queue.delete(message).map_err(failed)?;
            book.deleted(&message.text);
        }
    }
    let lost = book.owed();
    if !lost.is_empty() {
        return Err(format!("{} acknowledged messages are lost, such as {:?}", lost.len(), lost.first()));
    }
    match queue.count().map_err(failed)? {
        0 => Ok(()),
        count => Err(format!("the empty queue counts {count} messages")),
    }
}
