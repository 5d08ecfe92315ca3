//! Servers on a cluster under load while nodes and servers are killed, stopped and started.
//!
//! `tavola-cluster-faults --nodes-command PROGRAM --history FILE -- ARGUMENTS OF tavola serve`
//!
//! It looks itself for torn transactions, lost messages and messages that two consumers hold, and writes down what it
//! did with single entities, for a checker to find an order in which all answers are right
//! (`tests/cluster/linearizable`). `cargo xtask cluster-faults` starts the cluster, this, and the checker.

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

use count::Counts;
use faults::Faults;
use history::History;
use pool::Pool;

/// What is asked for.
struct Options {
    /// Program that kills, pauses and starts nodes: `PROGRAM cassandra kill 2`.
    nodes_command: String,
    history: String,
    seconds: u64,
    servers: usize,
    seed: u64,
    /// Arguments of `tavola serve` that name the cluster.
    serve: Vec<String>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
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
        outcome = outcome.and(last);
        settled.store(true, Ordering::SeqCst);
        let queued = queueing.join().unwrap_or_else(|_| Err("the queue worker panicked".to_owned()));
        println!("faults: {}", faults.report());
        outcome.and(queued)
    });
    println!("{}", counts.report(started.elapsed()));
    history.finish()?;
    ended
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        nodes_command: String::new(),
        history: String::new(),
        seconds: 180,
        servers: 2,
        seed: 1,
        serve: Vec::new(),
    };
    while let Some(name) = arguments.next() {
        if name == "--" {
            options.serve = arguments.collect();
            break;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} needs a number"));
        match name.as_str() {
            "--nodes-command" => options.nodes_command = value,
            "--history" => options.history = value,
            "--seconds" => options.seconds = number()?,
            "--servers" => options.servers = usize::try_from(number()?).unwrap_or(1).max(1),
            "--seed" => options.seed = number()?,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    if options.nodes_command.is_empty() || options.history.is_empty() {
        return Err("--nodes-command and --history are needed".to_owned());
    }
    Ok(options)
}
