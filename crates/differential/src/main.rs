//! Runs the differential test.
//!
//! With the seed and the number of sequences that it has by itself, an entry of the list that matched nothing
//! fails too: it describes a difference that is gone.

use std::process::ExitCode;

use clap::Parser;
use tavola_differential::{KnownDifferences, Options, Report, run};
use tavola_testkit::workspace_root;

const LIST: &str = "tests/differential/known.toml";

/// Send the same generated requests to Tavola and to Azurite, and compare the answers
#[derive(Parser)]
#[command(name = "tavola-differential")]
struct Arguments {
    /// Seed of the requests
    #[arg(long, default_value_t = Options::default().seed)]
    seed: u64,
    /// Sequences of requests to send
    #[arg(long, default_value_t = Options::default().sequences)]
    sequences: u64,
    /// Sequences about blobs to send beside them
    #[arg(long, default_value_t = Options::default().blob_sequences)]
    blob_sequences: u64,
    /// Sequences at a time
    #[arg(long, default_value_t = Options::default().workers)]
    workers: usize,
    /// Count every unknown difference instead of stopping at the first ones
    #[arg(long)]
    survey: bool,
}

fn main() -> ExitCode {
    let Arguments { seed, sequences, blob_sequences, workers, survey } = Arguments::parse();
    let options = Options { seed, sequences, blob_sequences, workers, survey };
    let known = match read_known() {
        Ok(known) => known,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    match run(&options, &known) {
        Ok(report) => tell(&options, &known, &report),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn read_known() -> Result<KnownDifferences, String> {
    let text =
        std::fs::read_to_string(workspace_root().join(LIST)).map_err(|error| format!("{LIST} ({error})"))?;
    KnownDifferences::parse(&text).map_err(|problem| format!("{LIST}: {problem}"))
}

fn tell(options: &Options, known: &KnownDifferences, report: &Report) -> ExitCode {
    for (difference, count) in &report.survey {
        println!("{count} × {difference}");
    }
    for difference in &report.passing {
        println!("seen once and not again: {difference}");
    }
    for unknown in &report.unknown {
        println!("UNKNOWN: {unknown}\n");
    }
    let unmet = known.unmet();
    for entry in &unmet {
        println!("matched nothing{}: {}", if entry.rare { ", as may be" } else { "" }, entry.shown());
    }
    println!(
        "{} sequences, {} requests to each server, {} known differences by {} of {} entries, {} unknown (seed {})",
        report.sequences,
        report.calls,
        report.known,
        known.len() - unmet.len(),
        known.len(),
        report.unknown.len(),
        options.seed
    );
    let default = Options::default();
    let shape = |options: &Options| (options.seed, options.sequences, options.blob_sequences);
    let is_default = shape(options) == shape(&default);
    let is_stale = unmet.iter().any(|entry| !entry.rare);
    let failed = !report.unknown.is_empty() || (is_default && is_stale);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
