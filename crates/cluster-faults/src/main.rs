//! Servers on a cluster under load while nodes and servers are killed, stopped and started.
//!
//! It looks itself for torn transactions and blobs, lost messages and appended blocks, and messages that two consumers
//! hold, and writes down what it did with single entities and blobs, for a checker to find an order in which all answers are right
//! (`tests/cluster/linearizable`). `cargo xtask cluster-faults` starts the cluster, this, and the checker.

mod appends;
mod blobs;
mod count;
mod entities;
mod faults;
mod history;
mod messages;
mod pairs;
mod pool;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;

use count::Counts;
use faults::Faults;
use history::History;
use pool::Pool;

/// Kill, pause and restart nodes and servers of a cluster under load, and look for lost and torn writes
#[derive(Parser)]
#[command(name = "tavola-cluster-faults")]
struct Options {
    /// Program that kills, pauses and starts nodes: `PROGRAM cassandra kill 2`
    #[arg(long, value_name = "PROGRAM")]
    nodes_command: String,
    /// File for the operations on entities and blobs, which the checker reads
    #[arg(long, value_name = "FILE")]
    history: String,
    /// How long to cause faults
    #[arg(long, default_value_t = 180)]
    seconds: u64,
    /// Servers on the cluster
    #[arg(long, default_value_t = 2, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    servers: usize,
    /// Seed of the faults and of the load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Arguments of `tavola serve` that name the cluster
    #[arg(last = true, value_name = "ARGUMENTS OF tavola serve")]
    serve: Vec<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("FAILED: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let pool = Pool::start(options.servers, &options.serve)?;
    let (counts, history) = (Counts::new(), History::new(&options.history)?);
    entities::create_table(&pool)?;
    messages::create_queue(&pool)?;
    blobs::create_container(&pool)?;
    let appended = appends::Log::create(&pool)?;
    let (stop, settled) = (AtomicBool::new(false), AtomicBool::new(false));
    let started = Instant::now();
    println!("{} servers, {} s of faults, seed {}", options.servers, options.seconds, options.seed);
    let ended = std::thread::scope(|scope| {
        let mut seeds = fastrand::Rng::with_seed(options.seed);
        let mut workers = Vec::new();
        for client in 0..entities::CLIENTS {
            let (rng, pool, history, counts, stop) = (seeds.fork(), &pool, &history, &counts, &stop);
            workers.push(scope.spawn(move || entities::work(client, rng, pool, history, counts, stop)));
        }
        for worker in 0..pairs::WORKERS {
            let (rng, pool, counts, stop) = (seeds.fork(), &pool, &counts, &stop);
            workers.push(scope.spawn(move || pairs::work(worker, rng, pool, counts, stop)));
        }
        for client in 0..blobs::CLIENTS {
            let (rng, pool, history, counts, stop) = (seeds.fork(), &pool, &history, &counts, &stop);
            workers.push(scope.spawn(move || blobs::work(client, rng, pool, history, counts, stop)));
        }
        for client in 0..appends::CLIENTS {
            let (pool, appended, counts, stop) = (&pool, &appended, &counts, &stop);
            workers.push(scope.spawn(move || appended.work(client, pool, counts, stop)));
        }
        let queueing = {
            let (pool, counts, stop, settled) = (&pool, &counts, &stop, &settled);
            scope.spawn(move || messages::work(pool, counts, stop, settled))
        };
        let mut faults = Faults::new(&options.nodes_command, seeds.fork());
        let mut outcome = Ok(());
        while outcome.is_ok() && started.elapsed() < Duration::from_secs(options.seconds) {
            outcome = faults.next(&pool);
        }
        outcome = outcome.and(faults.heal(&pool));
        // All is well again: what was acknowledged must be there, read by everyone at ease.
        std::thread::sleep(Duration::from_secs(5));
        stop.store(true, Ordering::SeqCst);
        for worker in workers {
            outcome = outcome.and(worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())));
        }
        let last = entities::read_all(&pool, &history).and_then(|()| pairs::check_all(&pool));
        let last = last.and_then(|()| blobs::read_all(&pool, &history));
        outcome = outcome.and(last).and_then(|()| appended.check(&pool));
        settled.store(true, Ordering::SeqCst);
        let queued = queueing.join().unwrap_or_else(|_| Err("the queue worker panicked".to_owned()));
        println!("faults: {}", faults.report());
        outcome.and(queued)
    });
    println!("{}", counts.report(started.elapsed()));
    history.finish()?;
    ended
}
