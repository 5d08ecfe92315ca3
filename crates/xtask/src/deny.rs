//! Licences and sources of all dependencies, with cargo-deny. The advisory database is not consulted: it has
//! to be fetched, and the test command must not depend on that.

use std::process::Command;

use crate::programs::{cargo, root, run};
use crate::step::{NO_NAMES, Outcome, Server, Step, Tally};

pub const LICENCES: Step =
    Step { name: "licences", server: Server::Unused, run: |_| licences(), has: NO_NAMES };

const VERSION: &str = "0.20.2";

fn licences() -> Outcome {
    let tools = root().join("target/tools");
    let program = tools.join("bin/cargo-deny");
    let is_there = run(Command::new(&program).arg("--version"))
        .is_ok_and(|finished| finished.output.trim() == format!("cargo-deny {VERSION}"));
    if !is_there {
        // It works for seconds, and would take minutes to optimize.
        let mut install =
            cargo(["install", "--debug", "--locked", "--force", "cargo-deny", "--version", VERSION]);
        run(install.env("CARGO_PROFILE_DEV_DEBUG", "0").arg("--root").arg(&tools))?.check()?;
    }
    let mut command = Command::new(&program);
    run(command.args(["--all-features", "check", "licenses", "bans", "sources"]))?.check()?;
    Ok(Tally::one())
}
