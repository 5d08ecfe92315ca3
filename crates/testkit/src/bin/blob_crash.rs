//! Runs the crash test of blobs on the built server.

use std::process::ExitCode;

use clap::Parser;
use tavola_testkit::blob_crash::{BlobCrashOptions, cuts, run};

/// Kill the server again and again under uploads, cut uploads, and look for lost, torn and leaked blobs
#[derive(Parser)]
struct Arguments {
    /// How often to kill
    #[arg(long, default_value_t = BlobCrashOptions::default().rounds)]
    rounds: usize,
    /// Connections that write
    #[arg(long, default_value_t = BlobCrashOptions::default().writers)]
    writers: usize,
    /// How many uploads to cut
    #[arg(long, default_value_t = 500)]
    cuts: usize,
    /// Seed of the run; a fresh one by default
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let Arguments { rounds, writers, cuts, seed } = Arguments::parse();
    let default = BlobCrashOptions::default();
    let seed = seed.unwrap_or(default.seed);
    let options = BlobCrashOptions { rounds, writers, seed, ..default };
    println!("crash test of blobs: {rounds} rounds, {writers} writers, {cuts} cuts, seed {seed}");
    let killed = run(&options).map(|report| println!("{report} (seed {seed})"));
    let done = killed.and_then(|()| {
        let options = cuts::CutOptions { binary: None, cuts, seed };
        cuts::run(&options).map(|report| println!("{report} (seed {seed})"))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(broken) => {
            println!("BROKEN (seed {seed}): {broken}");
            ExitCode::FAILURE
        }
    }
}
