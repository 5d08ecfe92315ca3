//! `cargo xtask bench`: builds the server and the load generator, and lets the generator run and print.

use std::process::{Command, ExitCode};

use crate::programs::{cargo, release_program, run, server_binary};

/// Compares everything, or on small tables only.
pub fn compare(quick: bool) -> ExitCode {
    let built = run(&mut cargo(["build", "--release", "-p", "tavola-server", "-p", "tavola-bench"]));
    if let Err(failure) = built.and_then(|finished| finished.check()) {
        eprintln!("{failure}");
        return ExitCode::FAILURE;
    }
    // Tables and queues as far as is asked; of blobs and the client the short form.
    let parts: [&[&str]; 3] = [
        if quick { &["compare", "--quick"] } else { &["compare"] },
        &["blobs", "--quick"],
        &["client", "--quick"],
    ];
    for part in parts {
        let mut bench = Command::new(release_program("tavola-bench"));
        bench.args(part).env("TAVOLA_BIN", server_binary());
        // What it prints is what was asked for, and a run takes minutes: it goes straight to the terminal.
        match bench.status() {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("cannot run the load generator ({error})");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
