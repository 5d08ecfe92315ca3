//! Runs the crash test on the built server.

use std::process::ExitCode;

use clap::Parser;
use tavola_testkit::crash::{CrashOptions, run};

/// Kill the server again and again under load, and look for lost writes and torn batches
#[derive(Parser)]
struct Arguments {
    /// How often to kill
    #[arg(long, default_value_t = CrashOptions::default().rounds)]
    rounds: usize,
    /// Connections that write
    #[arg(long, default_value_t = CrashOptions::default().writers)]
    writers: usize,
    /// Seed of the run; a fresh one by default
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let Arguments { rounds, writers, seed } = Arguments::parse();
    let default = CrashOptions::default();
    let options = CrashOptions { rounds, writers, seed: seed.unwrap_or(default.seed), ..default };
    println!("crash test: {} rounds, {} writers, seed {}", options.rounds, options.writers, options.seed);
    match run(&options) {
        Ok(report) => {
            println!("{report} (seed {})", options.seed);
            ExitCode::SUCCESS
        }
        Err(loss) => {
            println!("LOST: {loss}");
            ExitCode::FAILURE
        }
    }
}
