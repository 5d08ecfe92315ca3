//! A producer and consumers on one queue: what was put is got, and never by two at a time.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tavola_testkit::{GotMessage, QueueConnection};

use crate::count::{Counts, Ended};
use crate::pool::Pool;

const QUEUE: &str = "work";
const CONSUMERS: usize = 3;
const HIDDEN_SECONDS: u32 = 20;
/// How much earlier than told a message may come back: the clocks of tests and servers are read at different times.
const SLACK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
const DRAIN_TIME_MAX: Duration = Duration::from_secs(120);

/// What is known of the messages, by their text.
#[derive(Default)]
struct Book(Mutex<HashMap<String, Entry>>);

#[derive(Clone, Copy, Default)]
struct Entry {
    is_acknowledged: bool,
    /// When it was last got, as of before the request was sent.
    got: Option<Instant>,
    is_deleted: bool,
}

pub fn create_queue(pool: &Pool) -> Result<(), String> {
    let endpoint = pool.queue_endpoint(0).ok_or("no server")?;
    QueueConnection::open(&endpoint, QUEUE)
        .and_then(|mut queue| queue.create())
        .map_err(|error| format!("create queue failed ({error})"))
}

/// Produces until `stop`, consumes until `settled` and everything that was acknowledged has been got.
pub fn work(pool: &Pool, counts: &Counts, stop: &AtomicBool, settled: &AtomicBool) -> Result<(), String> {
    let book = Book::default();
    let outcomes = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|number| {
                let book = &book;
                scope.spawn(move || consume(number, pool, book, counts, settled))
            })
            .collect();
        produce(pool, &book, counts, stop);
        consumers.into_iter().map(|consumer| consumer.join()).collect::<Vec<_>>()
    });
    for outcome in outcomes {
        outcome.unwrap_or_else(|_| Err("a consumer panicked".to_owned()))?;
    }
    let (acknowledged, lost) = book.sums();
    println!("messages: {acknowledged} acknowledged, {lost} never got");
    if lost > 0 { Err(format!("LOST: {lost} messages were acknowledged and never got")) } else { Ok(()) }
}

fn produce(pool: &Pool, book: &Book, counts: &Counts, stop: &AtomicBool) {
    let mut index = 0;
    let mut queue = None;
    for number in 0u64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let text = format!("message-{number}");
        let done = with_queue(pool, &mut index, &mut queue, |queue| queue.put(&text));
        if done.is_ok() {
            book.change(&text, |entry| entry.is_acknowledged = true);
        }
        counts.add(if done.is_ok() { Ended::Answered } else { Ended::Unknown });
        std::thread::sleep(if done.is_ok() { PAUSE } else { PAUSE * 4 });
    }
}

fn consume(
    number: usize,
    pool: &Pool,
    book: &Book,
    counts: &Counts,
    settled: &AtomicBool,
) -> Result<(), String> {
    let (mut index, mut queue) = (number, None);
    let mut draining: Option<Instant> = None;
    loop {
        if settled.load(Ordering::SeqCst) {
            let since = *draining.get_or_insert_with(Instant::now);
            if book.sums().1 == 0 || since.elapsed() > DRAIN_TIME_MAX {
                return Ok(());
            }
        }
        let asked = Instant::now();
        let got = with_queue(pool, &mut index, &mut queue, |queue| queue.get(4, HIDDEN_SECONDS));
        counts.add(if got.is_ok() { Ended::Answered } else { Ended::Unknown });
        let Ok(messages) = got else {
            std::thread::sleep(PAUSE * 4);
            continue;
        };
        for message in &messages {
            book.got(message, asked)?;
            let deleted = with_queue(pool, &mut index, &mut queue, |queue| queue.delete(message));
            if deleted.is_ok() {
                book.change(&message.text, |entry| entry.is_deleted = true);
            }
            counts.add(if deleted.is_ok() { Ended::Answered } else { Ended::Unknown });
        }
        std::thread::sleep(PAUSE);
    }
}

fn with_queue<T>(
    pool: &Pool,
    index: &mut usize,
    queue: &mut Option<QueueConnection>,
    work: impl FnOnce(&mut QueueConnection) -> io::Result<T>,
) -> io::Result<T> {
    if queue.is_none() {
        *index += 1;
        let endpoint = pool.queue_endpoint(*index).ok_or(io::ErrorKind::NotConnected)?;
        *queue = Some(QueueConnection::open(&endpoint, QUEUE)?);
    }
    let done = match queue {
        Some(queue) => work(queue),
        None => Err(io::ErrorKind::NotConnected.into()),
    };
    if done.is_err() {
        *queue = None;
    }
    done
}

impl Book {
    fn change(&self, text: &str, change: impl FnOnce(&mut Entry)) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(book.entry(text.to_owned()).or_default());
    }

    /// A message was got: nobody may hold it, and it must not be deleted.
    fn got(&self, message: &GotMessage, asked: Instant) -> Result<(), String> {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = book.entry(message.text.clone()).or_default();
        if entry.is_deleted {
            return Err(format!("RETURNED: {} was got after it was deleted", message.text));
        }
        let hidden = Duration::from_secs(u64::from(HIDDEN_SECONDS));
        // Counted from before the request was sent to after the answer of the next came, so never too short.
        if entry.got.is_some_and(|got| got.elapsed() + SLACK < hidden) {
            return Err(format!("DOUBLE: {} was got by two consumers", message.text));
        }
        entry.got = Some(asked);
        Ok(())
    }

    /// Messages that were acknowledged, and those of them that nobody got.
    fn sums(&self) -> (usize, usize) {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let acknowledged = book.values().filter(|entry| entry.is_acknowledged);
        let lost = acknowledged.clone().filter(|entry| entry.got.is_none()).count();
        (acknowledged.count(), lost)
    }
}
