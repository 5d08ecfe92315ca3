//! The official clients on their tour through the real server.
//!
//! Each has a folder under `tests/sdk` with pinned packages, which are installed into ignored folders.

use std::path::Path;
use std::process::Command;

use tavola_testkit::{ServerOptions, TestServer};

use crate::programs::{Finished, root, run, server_binary};
use crate::step::{Outcome, Server, Step, Tally};

pub const PYTHON: Step = Step { name: "Python client", server: Server::Needed, run: python };
pub const JAVASCRIPT: Step = Step { name: "JavaScript client", server: Server::Needed, run: javascript };

fn python() -> Outcome {
    let folder = root().join("tests/sdk/python");
    let environment = root().join("tests/sdk/.venv");
    let program = environment.join("bin/python");
    if !program.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?.check()?;
    }
    let mut install = Command::new(&program);
    install.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r"]);
    run(install.arg(folder.join("requirements.txt")))?.check()?;

    let mut tour = Command::new(&program);
    tour.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]).arg(&folder);
    let finished = with_server(&mut tour)?;
    tally(&finished, count_pytest(&finished.output))
}

fn javascript() -> Outcome {
    let folder = root().join("tests/sdk/javascript");
    let mut install = Command::new("npm");
    install.arg("--prefix").arg(&folder).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
    if !is_installed(&folder) {
        run(&mut install)?.check()?;
    }
    let mut tour = Command::new("node");
    tour.args(["--test", "--test-reporter=tap"])
        .args([folder.join("tour.test.mjs"), folder.join("queue_tour.test.mjs")]);
    tour.arg(folder.join("access.test.mjs"));
    let finished = with_server(&mut tour)?;
    tally(&finished, count_tap(&finished.output))
}

/// npm leaves a copy of the lock file in what it has installed.
fn is_installed(folder: &Path) -> bool {
    let modified = |path: &str| folder.join(path).metadata().and_then(|metadata| metadata.modified()).ok();
    match (modified("node_modules/.package-lock.json"), modified("package-lock.json")) {
        (Some(installed), Some(locked)) => installed >= locked,
        _ => false,
    }
}

/// Runs a tour with a server that speaks TLS too, with a fresh certificate of `tavola cert`.
fn with_server(tour: &mut Command) -> Result<Finished, String> {
    let folder = root().join("target").join(format!("sdk-tls-{}", std::process::id()));
    run(Command::new(server_binary()).args(["cert", "--out"]).arg(&folder))?.check()?;
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let port = free_port().map_err(|error| error.to_string())?;
    let file = |path: &Path| path.to_string_lossy().into_owned();
    let arguments = vec![
        "--tls-cert".to_owned(),
        file(&certificate),
        "--tls-key".to_owned(),
        file(&key),
        "--table-tls-port".to_owned(),
        port.to_string(),
    ];
    let options = ServerOptions { binary: Some(server_binary()), arguments, ..ServerOptions::default() };
    let server = TestServer::start_with(&options).map_err(|error| error.to_string())?;
    tour.env("TAVOLA_CONNECTION_STRING", server.connection_string());
    tour.env("TAVOLA_TLS_ENDPOINT", format!("https://127.0.0.1:{port}/devstoreaccount1"));
    tour.env("TAVOLA_BIN", server_binary());
    let finished = run(tour.env("TAVOLA_CA_FILE", &certificate).env("NODE_EXTRA_CA_CERTS", &certificate));
    // A certificate that stays behind is only clutter in the target folder.
    let _ = std::fs::remove_dir_all(&folder);
    finished
}

/// A port that is free now. The ready file of the server names its plain ports only to the testkit.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn tally(finished: &Finished, mut tally: Tally) -> Outcome {
    if !finished.succeeded {
        tally.failed = tally.failed.max(1);
        tally.failures.push(finished.failure());
    } else if tally.passed == 0 {
        return Err(format!("no test ran\n{}", finished.failure()));
    }
    Ok(tally)
}

/// Counts of the last line of pytest: `3 failed, 40 passed, 1 skipped in 2.31s`.
fn count_pytest(output: &str) -> Tally {
    let mut tally = Tally::default();
    for part in output.lines().last().unwrap_or_default().split(',') {
        let mut words = part.split_whitespace();
        let (Some(Ok(count)), Some(word)) = (words.next().map(str::parse::<usize>), words.next()) else {
            continue;
        };
        match word {
            "passed" => tally.passed += count,
            "failed" | "error" | "errors" => tally.failed += count,
            "skipped" | "xfailed" | "xpassed" | "deselected" => tally.skipped += count,
            _ => {}
        }
    }
    tally
}

/// Counts of the closing lines of node's TAP: `# pass 40`.
fn count_tap(output: &str) -> Tally {
    let count = |word: &str| {
        output
            .lines()
            .filter_map(|line| line.strip_prefix("# ")?.strip_prefix(word)?.trim().parse::<usize>().ok())
            .sum::<usize>()
    };
    Tally {
        passed: count("pass "),
        failed: count("fail ") + count("cancelled "),
        skipped: count("skipped ") + count("todo "),
        ..Tally::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_pytest_and_node() {
        let pytest = count_pytest("....\n3 failed, 40 passed, 1 skipped in 2.31s");
        assert_eq!((pytest.passed, pytest.failed, pytest.skipped), (40, 3, 1));
        let tap =
            count_tap("ok 1 - a\n# tests 4\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n");
        assert_eq!((tap.passed, tap.failed, tap.skipped), (2, 1, 1));
    }
}
