//! Runs the crash test on the built server.

use std::process::ExitCode;

use clap::Parser;
use tavola_testkit::crash::{CrashOptions, kill_emulator, run};

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
    /// Kill the emulator instead, and count the acknowledged inserts that are lost
    #[arg(long)]
    emulator: bool,
}

fn main() -> ExitCode {
    let Arguments { rounds, writers, seed, emulator } = Arguments::parse();
    let default = CrashOptions::default();
    let options = CrashOptions { rounds, writers, seed: seed.unwrap_or(default.seed), ..default };
    println!("crash test: {} rounds, {} writers, seed {}", options.rounds, options.writers, options.seed);
    let done = if emulator {
        kill_emulator(&options).map(|losses| losses.to_string())
    } else {
        run(&options).map(|report| report.to_string())
    };
    match done {
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
