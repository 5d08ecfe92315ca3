//! `cargo xtask bench`: builds the server and the load generator, and lets the generator run and print.

use std::process::{Command, ExitCode};

use crate::programs::{cargo, root, run, server_binary};

/// Compares everything, or on small tables only.
pub fn compare(quick: bool) -> ExitCode {
    let built = run(&mut cargo(["build", "--release", "-p", "tavola-server", "-p", "tavola-bench"]));
    if let Err(failure) = built.and_then(|finished| finished.check()) {
        eprintln!("{failure}");
        return ExitCode::FAILURE;
    }
    let mut bench = Command::new(root().join("target/release/tavola-bench"));
    bench.arg("compare").args(quick.then_some("--quick")).env("TAVOLA_BIN", server_binary());
    // What it prints is what was asked for, and a run takes minutes: it goes straight to the terminal.
    match bench.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run the load generator ({error})");
            ExitCode::FAILURE
        }
    }
}
