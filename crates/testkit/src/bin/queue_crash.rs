//! Runs the crash test of queues on the built server: `tavola-queue-crash [--rounds N] [--workers N] [--seed N]`.

use std::process::ExitCode;

use tavola_testkit::queue_crash::{QueueCrashOptions, run};

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
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

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<QueueCrashOptions, String> {
    let mut options = QueueCrashOptions::default();
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        let value = value.ok_or_else(|| format!("{name} needs a number"))?;
        let count = usize::try_from(value).map_err(|_| format!("{name} is too large"))?;
        match name.as_str() {
            "--rounds" => options.rounds = count,
            "--workers" => options.workers = count,
            "--seed" => options.seed = value,
            _ => return Err(format!("unknown option {name}; known are --rounds, --workers, --seed")),
        }
    }
    Ok(options)
}
