//! Frameworks that sit on tables, queues and blobs, in scenarios of their own, with only the connection string changed.
//!
//! Python: Flask with sessions in a table, Celery with queues as its broker, and what Terraform, Durable Task, the
//! Functions host and Orleans ask of blobs. JavaScript: unstorage with its table driver, express with sessions in a
//! table through the retired client. Rust: the integration suite of `object_store`. Packages go into ignored folders.

use std::process::Command;

use crate::programs::{cargo, contains, installed, root, run};
use crate::rust::count_tests;
use crate::sdk::counts;
use crate::sdk::servers::Servers;
use crate::sdk::{counted, is_installed};
use crate::step::{Outcome, Select, Server, Step, Tally};

pub const PYTHON: Step = Step {
    name: "Flask, Celery and keepers of state on tables, queues and blobs",
    server: Server::Needed,
    run: python,
    has: |name| contains(&root().join("tests/frameworks/python"), "py", name),
};
pub const JAVASCRIPT: Step = Step {
    name: "unstorage and express on tables",
    server: Server::Needed,
    run: javascript,
    has: |name| contains(&root().join("tests/frameworks/javascript"), "mjs", name),
};
pub const RUST: Step = Step {
    name: "object_store on blobs",
    server: Server::Needed,
    run: rust,
    has: |name| contains(&root().join("tests/frameworks/rust"), "rs", name),
};

fn python(select: &Select) -> Outcome {
    if let Err(missing) = installed("python3") {
        return Ok(Tally::skip(missing));
    }
    let folder = root().join("tests/frameworks/python");
    let environment = root().join("tests/frameworks/.venv");
    let program = environment.join("bin/python");
    if !program.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?.check()?;
    }
    let mut install = Command::new(&program);
    install.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r"]);
    run(install.arg(folder.join("requirements.txt")))?.check()?;

    let mut command = Command::new(&program);
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]).arg(&folder);
    if let Some(name) = select.name() {
        command.args(["-k", name]);
    }
    beside_servers(select, &mut command, counts::pytest)
}

fn javascript(select: &Select) -> Outcome {
    if let Err(missing) = installed("npm") {
        return Ok(Tally::skip(missing));
    }
    let folder = root().join("tests/frameworks/javascript");
    if !is_installed(&folder) {
        let mut install = Command::new("npm");
        install.arg("--prefix").arg(&folder).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
        run(&mut install)?.check()?;
    }
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter=tap"]);
    if let Some(name) = select.name() {
        command.arg(format!("--test-name-pattern={name}"));
    }
    command.args(["unstorage", "express_session"].map(|name| folder.join(format!("{name}.test.mjs"))));
    beside_servers(select, &mut command, counts::tap)
}

fn rust(select: &Select) -> Outcome {
    let manifest = root().join("tests/frameworks/rust/Cargo.toml");
    run(cargo(["fmt", "--check", "--manifest-path"]).arg(&manifest))?.check()?;
    let mut command = cargo(["test", "--locked", "--no-fail-fast", "--manifest-path"]);
    command.arg(&manifest);
    // The target folder of the Rust client: the two share most of what they compile.
    command.arg("--target-dir").arg(root().join("target/sdk-rust"));
    if let Some(name) = select.name() {
        command.args(["--", name]);
    }
    beside_servers(select, &mut command, count_tests)
}

fn beside_servers(select: &Select, command: &mut Command, count: fn(&str) -> Tally) -> Outcome {
    let servers = Servers::start_main(&[])?;
    servers.tell(command);
    let finished = run(command)?;
    counted(&finished, count(&finished.output), select)
}
