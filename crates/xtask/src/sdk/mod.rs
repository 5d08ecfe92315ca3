//! The official clients on their tour through the real server.
//!
//! Each has a folder under `tests/sdk` with pinned packages, which go into ignored folders or the cache of their
//! tool. All read the same scenarios and values, and every scenario must be covered by every client.

pub mod counts;
mod scenarios;
pub mod servers;

use std::path::Path;
use std::process::Command;

use crate::cluster;
use crate::programs::{Finished, cargo, root, run};
use crate::rust::{count_tests, failing_part};
use crate::step::{Outcome, Server, Step, Tally};
use scenarios::Scenarios;
use servers::Servers;

pub const PYTHON: Step = Step { name: "Python client", server: Server::Needed, run: || python(&[]) };
pub const JAVASCRIPT: Step =
    Step { name: "JavaScript client", server: Server::Needed, run: || javascript(&[]) };
pub const JAVA: Step = Step { name: "Java client", server: Server::Needed, run: || java(&[]) };
pub const GO: Step = Step { name: "Go client", server: Server::Needed, run: || go(&[]) };
pub const RUST: Step = Step { name: "Rust client", server: Server::Needed, run: || rust(&[]) };

/// All clients.
pub const ALL: [Step; 5] = [PYTHON, JAVASCRIPT, JAVA, GO, RUST];

/// All clients, with servers on a Cassandra that is started for each, unless one runs.
pub const ALL_ON_CLUSTER: [Step; 5] = [
    Step { name: "Python client, on Cassandra", run: || on_cluster(python), ..PYTHON },
    Step { name: "JavaScript client, on Cassandra", run: || on_cluster(javascript), ..JAVASCRIPT },
    Step { name: "Java client, on Cassandra", run: || on_cluster(java), ..JAVA },
    Step { name: "Go client, on Cassandra", run: || on_cluster(go), ..GO },
    Step { name: "Rust client, on Cassandra", run: || on_cluster(rust), ..RUST },
];

/// One of the steps, by the name of the client's folder.
pub fn step(client: &str, steps: [Step; 5]) -> Option<Step> {
    let names = ["python", "javascript", "java", "go", "rust"];
    let (_, step) = names.into_iter().zip(steps).find(|(name, _)| *name == client)?;
    Some(step)
}

/// Runs a tour beside servers that share a fresh keyspace.
fn on_cluster(tour: fn(&[String]) -> Outcome) -> Outcome {
    cluster::with_nodes(1, |nodes| tour(&cluster::fresh_keyspace(nodes)?))
}

fn python(store: &[String]) -> Outcome {
    let folder = root().join("tests/sdk/python");
    let environment = root().join("tests/sdk/.venv");
    let program = environment.join("bin/python");
    if !program.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?.check()?;
    }
    let mut install = Command::new(&program);
    install.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r"]);
    run(install.arg(folder.join("requirements.txt")))?.check()?;

    let mut command = Command::new(&program);
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]).arg(&folder);
    tour("python", store, &mut command, counts::pytest)
}

fn javascript(store: &[String]) -> Outcome {
    let folder = root().join("tests/sdk/javascript");
    let mut install = Command::new("npm");
    install.arg("--prefix").arg(&folder).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
    if !is_installed(&folder) {
        run(&mut install)?.check()?;
    }
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter=tap"]);
    command.args(
        ["tour", "queue_tour", "shared_data", "access"].map(|name| folder.join(format!("{name}.test.mjs"))),
    );
    tour("javascript", store, &mut command, counts::tap)
}

/// npm leaves a copy of the lock file in what it has installed.
pub fn is_installed(folder: &Path) -> bool {
    let modified = |path: &str| folder.join(path).metadata().and_then(|metadata| metadata.modified()).ok();
    match (modified("node_modules/.package-lock.json"), modified("package-lock.json")) {
        (Some(installed), Some(locked)) => installed >= locked,
        _ => false,
    }
}

fn java(store: &[String]) -> Outcome {
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--no-transfer-progress", "-Dstyle.color=never", "--file"]);
    command.arg(root().join("tests/sdk/java/pom.xml")).arg("test");
    tour("java", store, &mut command, counts::surefire)
}

fn go(store: &[String]) -> Outcome {
    let mut command = Command::new("go");
    command.arg("test").arg("-C").arg(root().join("tests/sdk/go")).args(["-v", "-count=1", "./..."]);
    tour("go", store, &mut command, counts::go)
}

fn rust(store: &[String]) -> Outcome {
    let manifest = root().join("tests/sdk/rust/Cargo.toml");
    run(cargo(["fmt", "--check", "--manifest-path"]).arg(&manifest))?.check()?;
    let mut command = cargo(["test", "--locked", "--no-fail-fast", "--manifest-path"]);
    command.arg(&manifest);
    command.arg("--target-dir").arg(root().join("target/sdk-rust"));
    tour("rust", store, &mut command, count_tests)
}

/// Runs a tour beside servers with this store, as arguments, counts its tests and checks that no scenario was left out.
fn tour(client: &str, store: &[String], command: &mut Command, count: fn(&str) -> Tally) -> Outcome {
    let scenarios = Scenarios::read()?;
    let covered_path = root().join("target").join(format!("sdk-{client}-{}", std::process::id()));
    std::fs::write(&covered_path, "").map_err(|error| format!("{} ({error})", covered_path.display()))?;
    let servers = Servers::start(store)?;
    servers.tell(command);
    command.env("TAVOLA_SCENARIOS", root().join(scenarios::PATH)).env("TAVOLA_COVERED", &covered_path);
    let finished = run(command)?;
    drop(servers);
    let mut tally = counted(&finished, count(&finished.output))?;
    let covered = std::fs::read_to_string(&covered_path).unwrap_or_default();
    // A list that stays behind is only clutter in the target folder.
    let _ = std::fs::remove_file(&covered_path);
    scenarios.check(client, &covered, &mut tally);
    Ok(tally)
}

/// The counts of a finished tour, which must have run something.
pub fn counted(finished: &Finished, mut tally: Tally) -> Outcome {
    if !finished.succeeded {
        tally.failed = tally.failed.max(1);
        tally.failures.push(failing_part(&finished.failure()));
    } else if tally.passed == 0 {
        return Err(format!("no test ran\n{}", finished.failure()));
    }
    Ok(tally)
}
