//! Format, lints and the tests of all crates.

use crate::programs::{cargo, run, server_binary};
use crate::step::{Outcome, Server, Step, Tally};

pub const FORMAT: Step = Step { name: "format", server: Server::Unused, run: format };
pub const LINTS: Step = Step { name: "clippy", server: Server::Unused, run: lints };
pub const SERVER: Step = Step { name: "release build", server: Server::Built, run: server };
pub const TESTS: Step = Step { name: "tests of all crates", server: Server::Needed, run: tests };

fn format() -> Outcome {
    run(&mut cargo(["fmt", "--all", "--check"]))?.check()?;
    Ok(Tally::one())
}

fn lints() -> Outcome {
    let arguments = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    run(&mut cargo(arguments))?.check()?;
    Ok(Tally::one())
}

fn server() -> Outcome {
    run(&mut cargo(["build", "--release", "-p", "tavola-server", "-p", "tavola-testkit"]))?.check()?;
    Ok(Tally::one())
}

fn tests() -> Outcome {
    let mut command = cargo(["test", "--workspace", "--no-fail-fast"]);
    let finished = run(command.env("TAVOLA_BIN", server_binary()))?;
    let mut tally = count_tests(&finished.output);
    if !finished.succeeded {
        // A crate that does not compile, or a test process that died, has no count of its own.
        tally.failed = tally.failed.max(1);
        tally.failures.push(failing_part(&finished.output));
    }
    Ok(tally)
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
