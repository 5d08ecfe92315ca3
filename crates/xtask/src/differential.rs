//! The differential test against the emulator we replace, as a step and as a command of its own.

use std::process::{Command, ExitCode};

use crate::programs::{cargo, installed, release_program, run, server_binary};
use crate::step::{NO_NAMES, Outcome, Server, Step, Tally};

/// The run of the test command: the seed and the number of sequences that the program has by itself.
pub const BOUNDED: Step = Step {
    name: "differential test against Azurite",
    server: Server::Needed,
    run: |_| bounded(),
    has: NO_NAMES,
};

fn bounded() -> Outcome {
    if let Err(missing) = installed("npm") {
        return Ok(Tally::skip(missing));
    }
    build()?;
    let finished = run(&mut program())?;
    finished.check()?;
    let mut tally = Tally::default();
    for line in finished.output.lines() {
        tally.note(line);
    }
    tally.passed = counted(&finished.output).ok_or_else(|| finished.failure())?;
    Ok(tally)
}

/// With arguments of one's own; what it finds goes straight to the terminal.
pub fn with(arguments: &[String]) -> ExitCode {
    let status = build().map(|()| program().args(arguments).status());
    match status {
        Ok(Ok(status)) if status.success() => ExitCode::SUCCESS,
        Ok(Ok(_)) => ExitCode::FAILURE,
        Ok(Err(error)) => failed(&error.to_string()),
        Err(failure) => failed(&failure),
    }
}

fn failed(failure: &str) -> ExitCode {
    eprintln!("{failure}");
    ExitCode::FAILURE
}

fn build() -> Result<(), String> {
    run(&mut cargo(["build", "--release", "-p", "tavola-server", "-p", "tavola-differential"]))?.check()
}

fn program() -> Command {
    let mut command = Command::new(release_program("tavola-differential"));
    command.env("TAVOLA_BIN", server_binary());
    command
}

/// The number of sequences in the last line: `700 sequences, 9000 requests to each server, …`. Each is a check.
fn counted(output: &str) -> Option<usize> {
    let line = output.lines().last()?;
    line.split_once(" sequences, ")?.0.parse().ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_counted_and_none_is_no_count() {
        assert_eq!(counted("x\n700 sequences, 9000 requests to each server"), Some(700));
        assert_eq!(counted("0 sequences, 0 requests to each server"), None);
        assert_eq!(counted("azurite: no npm"), None);
    }
}
