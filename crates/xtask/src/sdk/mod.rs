//! The official clients on their tour through the real server.
//!
//! Each has a folder under `tests/sdk` with pinned packages, which go into ignored folders or the cache of their
//! tool. All read the same scenarios and values, and every scenario must be covered by every client.

pub mod counts;
mod scenarios;
pub mod servers;

use std::path::Path;
use std::process::Command;

use clap::ValueEnum;

use crate::Engine;
use crate::cluster;
use crate::programs::{Finished, cargo, contains, installed, root, run};
use crate::rust::{count_tests, failing_part};
use crate::step::{Outcome, Select, Server, Step, Tally};
use scenarios::Scenarios;
use servers::Servers;

pub const PYTHON: Step = Step {
    name: "Python client",
    server: Server::Needed,
    run: |select| python(&Tour { store: &[], select }),
    has: |name| contains(&root().join("tests/sdk/python"), "py", name),
};
pub const JAVASCRIPT: Step = Step {
    name: "JavaScript client",
    server: Server::Needed,
    run: |select| javascript(&Tour { store: &[], select }),
    has: |name| contains(&root().join("tests/sdk/javascript"), "mjs", name),
};
pub const JAVA: Step = Step {
    name: "Java client",
    server: Server::Needed,
    run: |select| java(&Tour { store: &[], select }),
    has: |name| contains(&root().join("tests/sdk/java"), "java", name),
};
pub const GO: Step = Step {
    name: "Go client",
    server: Server::Needed,
    run: |select| go(&Tour { store: &[], select }),
    has: |name| contains(&root().join("tests/sdk/go"), "go", name),
};
pub const RUST: Step = Step {
    name: "Rust client",
    server: Server::Needed,
    run: |select| rust(&Tour { store: &[], select }),
    has: |name| contains(&root().join("tests/sdk/rust"), "rs", name),
};

/// One of the official clients, by the name of its folder.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Client {
    Python,
    #[value(name = "javascript")]
    JavaScript,
    Java,
    Go,
    Rust,
}

/// The steps of one client or of all, with servers on this store.
pub fn steps(client: Option<Client>, engine: Engine) -> Vec<Step> {
    let clients = client.map_or_else(|| Client::value_variants().to_vec(), |client| vec![client]);
    clients.into_iter().map(|client| step(client, engine)).collect()
}

/// On Cassandra, each step starts a cluster for itself unless one runs.
fn step(client: Client, engine: Engine) -> Step {
    match (client, engine) {
        (Client::Python, Engine::Local) => PYTHON,
        (Client::JavaScript, Engine::Local) => JAVASCRIPT,
        (Client::Java, Engine::Local) => JAVA,
        (Client::Go, Engine::Local) => GO,
        (Client::Rust, Engine::Local) => RUST,
        (Client::Python, Engine::Cql) => {
            Step { name: "Python client, on Cassandra", run: |select| on_cluster(select, python), ..PYTHON }
        }
        (Client::JavaScript, Engine::Cql) => Step {
            name: "JavaScript client, on Cassandra",
            run: |select| on_cluster(select, javascript),
            ..JAVASCRIPT
        },
        (Client::Java, Engine::Cql) => {
            Step { name: "Java client, on Cassandra", run: |select| on_cluster(select, java), ..JAVA }
        }
        (Client::Go, Engine::Cql) => {
            Step { name: "Go client, on Cassandra", run: |select| on_cluster(select, go), ..GO }
        }
        (Client::Rust, Engine::Cql) => {
            Step { name: "Rust client, on Cassandra", run: |select| on_cluster(select, rust), ..RUST }
        }
    }
}

/// What a tour is given.
struct Tour<'a> {
    /// Arguments that name the store of its servers; none for a store of their own.
    store: &'a [String],
    select: &'a Select,
}

/// Runs a tour beside servers that share a fresh keyspace.
fn on_cluster(select: &Select, tour: fn(&Tour<'_>) -> Outcome) -> Outcome {
    cluster::with_nodes(1, |nodes| tour(&Tour { store: &cluster::fresh_keyspace(nodes)?, select }))
}

fn python(tour: &Tour<'_>) -> Outcome {
    if let Err(missing) = installed("python3") {
        return Ok(Tally::skip(missing));
    }
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
    if let Some(name) = tour.select.name() {
        command.args(["-k", name]);
    }
    tour.run("python", &mut command, counts::pytest)
}

fn javascript(tour: &Tour<'_>) -> Outcome {
    if let Err(missing) = installed("npm") {
        return Ok(Tally::skip(missing));
    }
    let folder = root().join("tests/sdk/javascript");
    let mut install = Command::new("npm");
    install.arg("--prefix").arg(&folder).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
    if !is_installed(&folder) {
        run(&mut install)?.check()?;
    }
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter=tap"]);
    if let Some(name) = tour.select.name() {
        command.arg(format!("--test-name-pattern={name}"));
    }
    command.args(
        ["tour", "queue_tour", "blob_contents", "blob_access", "shared_data", "access"]
            .map(|name| folder.join(format!("{name}.test.mjs"))),
    );
    tour.run("javascript", &mut command, counts::tap)
}

/// npm leaves a copy of the lock file in what it has installed.
pub fn is_installed(folder: &Path) -> bool {
    let modified = |path: &str| folder.join(path).metadata().and_then(|metadata| metadata.modified()).ok();
    match (modified("node_modules/.package-lock.json"), modified("package-lock.json")) {
        (Some(installed), Some(locked)) => installed >= locked,
        _ => false,
    }
}

fn java(tour: &Tour<'_>) -> Outcome {
    if let Err(missing) = installed("mvn") {
        return Ok(Tally::skip(missing));
    }
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--no-transfer-progress", "-Dstyle.color=never", "--file"]);
    command.arg(root().join("tests/sdk/java/pom.xml")).arg("test");
    if let Some(name) = tour.select.name() {
        command.arg(format!("-Dtest=*#*{name}*")).arg("-Dsurefire.failIfNoSpecifiedTests=false");
    }
    tour.run("java", &mut command, counts::surefire)
}

fn go(tour: &Tour<'_>) -> Outcome {
    if let Err(missing) = installed("go") {
        return Ok(Tally::skip(missing));
    }
    let mut command = Command::new("go");
    command.arg("test").arg("-C").arg(root().join("tests/sdk/go")).args(["-v", "-count=1"]);
    if let Some(name) = tour.select.name() {
        command.args(["-run", name]);
    }
    tour.run("go", command.arg("./..."), counts::go)
}

fn rust(tour: &Tour<'_>) -> Outcome {
    let manifest = root().join("tests/sdk/rust/Cargo.toml");
    run(cargo(["fmt", "--check", "--manifest-path"]).arg(&manifest))?.check()?;
    let mut command = cargo(["test", "--locked", "--no-fail-fast", "--manifest-path"]);
    command.arg(&manifest);
    command.arg("--target-dir").arg(root().join("target/sdk-rust"));
    if let Some(name) = tour.select.name() {
        command.args(["--", name]);
    }
    tour.run("rust", &mut command, count_tests)
}

impl Tour<'_> {
    /// Runs a client's tests beside servers, counts them and checks that no scenario was left out.
    fn run(&self, client: &str, command: &mut Command, count: fn(&str) -> Tally) -> Outcome {
        let scenarios = Scenarios::read()?;
        let covered_path = root().join("target").join(format!("sdk-{client}-{}", std::process::id()));
        std::fs::write(&covered_path, "").map_err(|error| format!("{} ({error})", covered_path.display()))?;
        let servers = Servers::start(self.store)?;
        servers.tell(command);
        command.env("TAVOLA_SCENARIOS", root().join(scenarios::PATH)).env("TAVOLA_COVERED", &covered_path);
        let finished = run(command)?;
        drop(servers);
        let mut tally = counted(&finished, count(&finished.output), self.select)?;
        let covered = std::fs::read_to_string(&covered_path).unwrap_or_default();
        // A list that stays behind is only clutter in the target folder.
        let _ = std::fs::remove_file(&covered_path);
        if *self.select == Select::All {
            scenarios.check(client, &covered, &mut tally);
        }
        Ok(tally)
    }
}

/// The counts of a finished tour. A whole one must have run something; of one by name, tests with other names do
/// not count as skipped, and a file that only mentions the name is no test.
pub fn counted(finished: &Finished, mut tally: Tally, select: &Select) -> Outcome {
    if let Select::Named(_) = select {
        tally.skipped = 0;
        if tally == Tally::default() {
            return Ok(tally);
        }
    }
    if !finished.succeeded {
        tally.failed = tally.failed.max(1);
        tally.failures.push(failing_part(&finished.failure()));
    } else if tally.passed == 0 {
        return Err(format!("no test ran\n{}", finished.failure()));
    }
    Ok(tally)
}
