//! Put, get and delete rates of three queues, side by side on one server:
//! `cargo run --release -p tavola-testkit --example queue_rate -- --help`.
//!
//! The queues take turns, so that what the machine does besides hits all of them.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use tavola_testkit::{GotMessage, QueueConnection, TestServer};

const CONNECTIONS: usize = 16;
const SMALL: usize = 1_000;
const TURN: Duration = Duration::from_millis(1500);
const TEXT_BYTES: usize = 200;

/// Rates of a small queue, a large one, and a small one that many messages went through before
#[derive(Parser)]
struct Arguments {
    /// Messages that the large queue holds
    #[arg(default_value_t = 1_000_000)]
    large: usize,
    /// Messages that were put, got and deleted before in the third queue
    #[arg(default_value_t = 1_000_000)]
    past: usize,
    /// Rounds to measure
    #[arg(default_value_t = 5)]
    rounds: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { large, past, rounds } = Arguments::parse();
    let server = TestServer::start()?;
    let endpoint = server.queue_endpoint();
    let names = ["small", "large", "past"];
    for name in names {
        QueueConnection::open(endpoint, name)?.create()?;
    }
    fill(endpoint, "small", SMALL)?;
    report("filled the large queue", large, || fill(endpoint, "large", large))?;
    report("put, got and deleted in the third", past, || live_through(endpoint, "past", past))?;
    fill(endpoint, "past", SMALL)?;
    println!("{:>8} {:>10} {:>10} {:>10}", "queue", "put/s", "get/s", "delete/s");
    let mut totals = [[0.0; 3]; 3];
    for _ in 0..rounds {
        for (name, total) in names.iter().zip(&mut totals) {
            let rates = turn(endpoint, name)?;
            println!("{name:>8} {:>10.0} {:>10.0} {:>10.0}", rates[0], rates[1], rates[2]);
            total.iter_mut().zip(rates).for_each(|(total, rate)| *total += rate);
        }
    }
    for (index, name) in names.iter().enumerate().skip(1) {
        let ratio = |operation: usize| totals[index][operation] / totals[0][operation];
        println!("{name} / small: put {:.2}, get {:.2}, delete {:.2}", ratio(0), ratio(1), ratio(2));
    }
    Ok(())
}

fn report(what: &str, count: usize, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let started = Instant::now();
    work()?;
    println!("{what}: {count} messages in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Runs `work` on many connections until it says that there is nothing left to do.
fn on_connections<T: Send>(
    endpoint: &str,
    name: &str,
    work: impl Fn(&mut QueueConnection) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|_| scope.spawn(|| work(&mut QueueConnection::open(endpoint, name)?)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked"))))
            .collect()
    })
}

fn fill(endpoint: &str, name: &str, count: usize) -> io::Result<()> {
    let left = AtomicUsize::new(count);
    let text = "t".repeat(TEXT_BYTES);
    on_connections(endpoint, name, |queue| {
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            queue.put(&text)?;
        }
        Ok(())
    })
    .map(|_| ())
}

/// Puts, gets and deletes so many messages.
fn live_through(endpoint: &str, name: &str, count: usize) -> io::Result<()> {
    let left = AtomicUsize::new(count);
    let text = "t".repeat(TEXT_BYTES);
    on_connections(endpoint, name, |queue| {
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            queue.put(&text)?;
            for message in queue.get(1, 3600)? {
                queue.delete(&message)?;
            }
        }
        Ok(())
    })
    .map(|_| ())
}

/// Rates of puts, gets and deletions a second; the queue is as large after as before.
fn turn(endpoint: &str, name: &str) -> io::Result<[f64; 3]> {
    let text = "t".repeat(TEXT_BYTES);
    let timed = |work: &(dyn Fn(&mut QueueConnection) -> io::Result<usize> + Sync)| {
        let started = Instant::now();
        let counts = on_connections(endpoint, name, |queue| {
            let mut count = 0;
            while started.elapsed() < TURN {
                count += work(queue)?;
            }
            Ok(count)
        })?;
        Ok::<_, io::Error>((counts.iter().sum::<usize>(), started.elapsed().as_secs_f64()))
    };
    let (put, put_seconds) = timed(&|queue| queue.put(&text).map(|()| 1))?;
    let left = AtomicUsize::new(put);
    let started = Instant::now();
    let got: Vec<Vec<GotMessage>> = on_connections(endpoint, name, |queue| {
        let mut got = Vec::new();
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            got.extend(queue.get(1, 3600)?);
        }
        Ok(got)
    })?;
    let get_seconds = started.elapsed().as_secs_f64();
    let count: usize = got.iter().map(Vec::len).sum();
    let piles = std::sync::Mutex::new(got);
    let started = Instant::now();
    on_connections(endpoint, name, |queue| {
        let pile = piles.lock().map_err(|_| io::Error::other("a worker panicked"))?.pop();
        pile.into_iter().flatten().try_for_each(|message| queue.delete(&message))
    })?;
    let delete_seconds = started.elapsed().as_secs_f64();
    let rate = |count: usize, seconds: f64| f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / seconds;
    Ok([rate(put, put_seconds), rate(count, get_seconds), rate(count, delete_seconds)])
}
