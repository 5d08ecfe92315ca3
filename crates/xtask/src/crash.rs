//! The crash test of the real server, as a step.

use std::process::Command;

use crate::programs::{release_program, run, server_binary};
use crate::step::{NO_NAMES, Outcome, Server, Step, Tally};

pub const KILLS: Step = Step {
    name: "crash test of tables",
    server: Server::Needed,
    run: |_| kills("tavola-crash", &[]),
    has: NO_NAMES,
};

pub const QUEUE_KILLS: Step = Step {
    name: "crash test of queues",
    server: Server::Needed,
    run: |_| kills("tavola-queue-crash", &[]),
    has: NO_NAMES,
};

pub const BLOB_KILLS: Step = Step {
    name: "crash test of blobs",
    server: Server::Needed,
    run: |_| kills("tavola-blob-crash", &[]),
    has: NO_NAMES,
};

/// The same with 10,000 uploads cut at random bytes.
pub const BLOB_KILLS_LONG: Step = Step {
    name: "crash test of blobs, the long form",
    run: |_| kills("tavola-blob-crash", &["--rounds", "60", "--cuts", "10000"]),
    ..BLOB_KILLS
};

/// The same kills on the emulator that we replace.
pub const EMULATOR_KILLS: Step = Step {
    name: "kills of the emulator",
    run: |_| kills("tavola-crash", &["--emulator", "--rounds", "8"]),
    ..KILLS
};

fn kills(program: &str, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(release_program(program));
    let finished = run(command.args(arguments).env("TAVOLA_BIN", server_binary()))?;
    finished.check()?;
    let mut tally = Tally::one();
    for line in finished.output.lines() {
        tally.note(line);
    }
    Ok(tally)
}
