//! Runs the crash test of queues on the built server.

use std::process::ExitCode;

use clap::Parser;
use tavola_testkit::queue_crash::{QueueCrashOptions, run};

/// Kill the server again and again while messages are put, got and deleted, and look for lost and revived ones
#[derive(Parser)]
struct Arguments {
    /// How often to kill
    #[arg(long, default_value_t = QueueCrashOptions::default().rounds)]
    rounds: usize,
    /// Producers, and as many consumers
    #[arg(long, default_value_t = QueueCrashOptions::default().workers)]
    workers: usize,
    /// Seed of the run; a fresh one by default
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let Arguments { rounds, workers, seed } = Arguments::parse();
    let default = QueueCrashOptions::default();
    let options = QueueCrashOptions { rounds, workers, seed: seed.unwrap_or(default.seed), ..default };
    println!(
        "crash test of queues: {} rounds, {} producers and as many consumers, seed {}",
        options.rounds, options.workers, options.seed
    );
    match run(&options) {
        Ok(report) => {
            println!("{report} (seed {})", options.seed);
            ExitCode::SUCCESS
        }
        Err(broken) => {
            println!("BROKEN (seed {}): {broken}", options.seed);
            ExitCode::FAILURE
        }
    }
}
