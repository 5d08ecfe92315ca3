//! Runs the crash test on the built server: `tavola-crash [--rounds N] [--writers N] [--seed N]`.

use std::process::ExitCode;

use tavola_testkit::crash::{CrashOptions, run};

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
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

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<CrashOptions, String> {
    let mut options = CrashOptions::default();
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        let value = value.ok_or_else(|| format!("{name} needs a number"))?;
        let count = usize::try_from(value).map_err(|_| format!("{name} is too large"))?;
        match name.as_str() {
            "--rounds" => options.rounds = count,
            "--writers" => options.writers = count,
            "--seed" => options.seed = value,
            _ => return Err(format!("unknown option {name}; known are --rounds, --writers, --seed")),
        }
    }
    Ok(options)
}
