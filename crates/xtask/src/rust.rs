//! Format, lints and the tests of all crates.

use std::path::Path;

use crate::programs::{self, cargo, root, run, server_binary};
use crate::step::{NO_NAMES, Outcome, Select, Server, Step, Tally};

pub const FORMAT: Step = Step { name: "format", server: Server::Unused, run: format, has: NO_NAMES };
pub const LINTS: Step = Step { name: "clippy", server: Server::Unused, run: lints, has: NO_NAMES };
/// Tests that start a server take the release build, except for single ones: those take the build of their profile.
pub const TESTS: Step =
    Step { name: "tests of all crates", server: Server::Needed, run: tests, has: NO_NAMES };
/// The step of `test --only`; in a whole run there is nothing left for it.
pub const TESTS_BY_NAME: Step = Step {
    name: "tests of crates",
    server: Server::Unused,
    run: tests_by_name,
    has: |name| !packages_with(name).is_empty(),
};
/// Unit tests, those of binaries, and round trips: nothing that starts a server or waits for a disk.
pub const UNIT_TESTS: Step =
    Step { name: "unit tests", server: Server::Unused, run: unit_tests, has: NO_NAMES };

fn format(_: &Select) -> Outcome {
    run(&mut cargo(["fmt", "--all", "--check"]))?.check()?;
    Ok(Tally::one())
}

fn lints(_: &Select) -> Outcome {
    let arguments = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    run(&mut cargo(arguments))?.check()?;
    Ok(Tally::one())
}

/// Builds the server and what drives it, in the release profile.
pub fn build_server() -> Outcome {
    let mut build = cargo(["build", "--release", "-p", "tavola-server"]);
    run(build.args(["-p", "tavola-testkit", "-p", "tavola-differential"]))?.check()?;
    Ok(Tally::one())
}

fn tests(_: &Select) -> Outcome {
    let mut command = cargo(["test", "--workspace", "--no-fail-fast"]);
    let mut tally = tested(command.env("TAVOLA_BIN", server_binary()))?;
    for (file, tests) in SHARED_INPUTS {
        if let Err(missing) = programs::shared(file) {
            tally.skip_one(format!("{tests}: {missing}"));
        }
    }
    Ok(tally)
}

/// What tests of crates read beside the checkout. Without it they pass and compare nothing.
const SHARED_INPUTS: [(&str, &str); 2] = [
    ("corpus/tables.jsonl", "answers byte by byte (crates/protocol/tests/recorded_bytes)"),
    ("protocol", "signatures of the official clients (crates/auth/tests/vectors.rs)"),
];

fn unit_tests(_: &Select) -> Outcome {
    tested(&mut cargo(["test", "--workspace", "--lib", "--bins", "--no-fail-fast"]))
}

/// One or a few tests, in the packages whose sources name them.
fn tests_by_name(select: &Select) -> Outcome {
    let Some(name) = select.name() else { return Ok(Tally::default()) };
    let mut command = cargo(["test", "--no-fail-fast"]);
    for package in packages_with(name) {
        command.args(["-p", &package]);
    }
    tested(command.arg("--").arg(name))
}

fn tested(command: &mut std::process::Command) -> Outcome {
    let finished = run(command)?;
    let mut tally = count_tests(&finished.output);
    if !finished.succeeded {
        // A crate that does not compile, or a test process that died, has no count of its own.
        tally.failed = tally.failed.max(1);
        tally.failures.push(failing_part(&finished.output));
    }
    Ok(tally)
}

/// The packages with a source file that contains the last part of a test's name.
fn packages_with(name: &str) -> Vec<String> {
    let last = name.rsplit("::").next().unwrap_or(name);
    let folders = std::fs::read_dir(root().join("crates")).into_iter().flatten().flatten();
    let mut names: Vec<String> = folders
        .map(|folder| folder.path())
        .filter(|folder| {
            ["src", "tests"].iter().any(|part| programs::contains(&folder.join(part), "rs", last))
        })
        .filter_map(|folder| package_name(&folder))
        .collect();
    names.sort();
    names
}

fn package_name(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    Some(format!("tavola-{name}"))
}

/// Adds up the `test result:` lines.
pub fn count_tests(output: &str) -> Tally {
    let mut tally = Tally::default();
    for line in output.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        for part in line.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(count)), Some(word)) = (words.next().map(str::parse::<usize>), words.next()) else {
                continue;
            };
            match word {
                "passed" => tally.passed += count,
                "failed" => tally.failed += count,
                "ignored" => tally.skipped += count,
                _ => {}
            }
        }
    }
    tally
}

/// Of the output of all tests, what is not about one that passed.
pub fn failing_part(output: &str) -> String {
    let dull = |line: &str| {
        line.is_empty()
            || (line.starts_with("test ") && line.ends_with(" ok"))
            || line.starts_with("test result: ok")
            || line.starts_with("running ")
            || line.trim_start().starts_with("Compiling ")
            || line.trim_start().starts_with("Running ")
            || line.trim_start().starts_with("Doc-tests ")
    };
    output.lines().filter(|line| !dull(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_crates_are_added_up() {
        let output = "\
running 3 tests
test result: ok. 16 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s";
        let tally = count_tests(output);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (18, 3, 1));
    }

    #[test]
    fn only_what_failed_is_shown() {
        let output = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\ntest result: ok. 1 passed";
        assert_eq!(failing_part(output), "test b ... FAILED");
    }
}
