//! Runs the differential test: `tavola-differential [--seed N] [--sequences N] [--workers N] [--survey]`.
//!
//! With the seed and the number of sequences that it has by itself, an entry of the list that matched nothing
//! fails too: it describes a difference that is gone.

use std::process::ExitCode;

use tavola_differential::{KnownDifferences, Options, Report, run};
use tavola_testkit::workspace_root;

const LIST: &str = "tests/differential/known.toml";

fn main() -> ExitCode {
    let started = parse(std::env::args().skip(1)).and_then(|options| {
        let path = workspace_root().join(LIST);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{LIST} ({error})"))?;
        Ok((options, KnownDifferences::parse(&text).map_err(|problem| format!("{LIST}: {problem}"))?))
    });
    let (options, known) = match started {
        Ok(started) => started,
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
    let is_default = (options.seed, options.sequences) == (default.seed, default.sequences);
    let is_stale = unmet.iter().any(|entry| !entry.rare);
    let failed = !report.unknown.is_empty() || (is_default && is_stale);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(name) = arguments.next() {
        if name == "--survey" {
            options.survey = true;
            continue;
        }
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        let value = value.ok_or_else(|| format!("{name} needs a number"))?;
        match name.as_str() {
            "--seed" => options.seed = value,
            "--sequences" => options.sequences = value,
            "--workers" => options.workers = usize::try_from(value).map_err(|_| "too many workers")?,
            _ => {
                return Err(format!(
                    "unknown option {name}; known are --seed, --sequences, --workers, --survey"
                ));
            }
        }
    }
    Ok(options)
}
