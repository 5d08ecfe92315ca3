//! The pages of the console: built again and compared with what is committed, their types checked, and used in a
//! headless Chromium. Screenshots are taken with `--shots`.
//!
//! Packages go into an ignored folder. Chromium is Debian's; where this runs as root, a missing one is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::programs::{cargo, contains, installed, release_program, root, run, server_binary};
use crate::sdk::{counted, counts, is_installed};
use crate::step::{NO_NAMES, Outcome, Select, Server, Step, Tally};

pub const BUILD: Step = Step {
    name: "pages of the console are built from their sources",
    server: Server::Unused,
    run: build,
    has: NO_NAMES,
};
pub const BROWSER: Step = Step {
    name: "console in a browser",
    server: Server::Needed,
    run: browser,
    has: |name| contains(&folder().join("tests"), "mjs", name),
};

/// Files that the program embeds.
const BUILT: [&str; 4] = ["index.html", "app.js", "app.css", "icon.svg"];

fn folder() -> PathBuf {
    root().join("crates/console/web")
}

fn install(folder: &Path) -> Result<(), String> {
    if is_installed(folder) {
        return Ok(());
    }
    let mut install = Command::new("npm");
    install.arg("--prefix").arg(folder).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
    run(&mut install)?.check()
}

fn npm(script: &str) -> Result<(), String> {
    run(Command::new("npm").arg("--prefix").arg(folder()).args(["run", "--silent", script]))?.check()
}

/// Builds the pages again; what comes out must be what is committed.
fn build(_: &Select) -> Outcome {
    if let Err(missing) = installed("npm") {
        return Ok(Tally::skip(missing));
    }
    let folder = folder();
    install(&folder)?;
    let read = |name: &str| {
        let path = folder.join("dist").join(name);
        std::fs::read(&path).map_err(|error| format!("cannot read {} ({error})", path.display()))
    };
    let committed = BUILT.map(read);
    npm("build")?;
    let mut tally = Tally::default();
    for (name, committed) in BUILT.iter().zip(committed) {
        let differs =
            format!("web/dist/{name} is not what its sources give: commit what `npm run build` wrote");
        let is_same = committed.ok() == Some(read(name)?);
        tally.check(if is_same { Ok(()) } else { Err(differs) });
    }
    tally.check(npm("check"));
    tally.check(no_host_in(&folder.join("package-lock.json")));
    Ok(tally)
}

/// A lock file names packages and their sums, not where one machine happened to get them.
fn no_host_in(path: &Path) -> Result<(), String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {} ({error})", path.display()))?;
    match text.lines().find(|line| line.contains("\"resolved\"")) {
        Some(line) => Err(format!("{} records a registry: {}", path.display(), line.trim())),
        None => Ok(()),
    }
}

/// Installs Debian's Chromium, where that can be done.
fn chromium() -> Result<(), String> {
    let missing = match installed("chromium") {
        Ok(()) => return Ok(()),
        Err(missing) => missing,
    };
    let is_root = run(Command::new("id").arg("-u")).is_ok_and(|id| id.output.trim() == "0");
    if !is_root || installed("apt-get").is_err() {
        return Err(missing);
    }
    let apt = |arguments: &[&str]| {
        run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))?.check()
    };
    apt(&["update"])?;
    apt(&[
        "install",
        "-y",
        "--no-install-recommends",
        "chromium",
        "fonts-inter",
        "fonts-dejavu-core",
        "pngquant",
    ])
}

fn browser(select: &Select) -> Outcome {
    tests(&["console", "insight", "axe"], &[], select)
}

/// Whether the test of the page of a cluster has this name.
pub fn has_cluster_page(name: &str) -> bool {
    std::fs::read_to_string(folder().join("tests/cluster.test.mjs")).is_ok_and(|text| text.contains(name))
}

/// The page of a cluster, of servers with these arguments.
pub fn cluster_page(engine: &[String], select: &Select) -> Outcome {
    tests(&["cluster"], engine, select)
}

fn tests(names: &[&str], engine: &[String], select: &Select) -> Outcome {
    if let Err(missing) = installed("npm").and_then(|()| chromium()) {
        return Ok(Tally::skip(missing));
    }
    let folder = folder();
    install(&folder)?;
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter=tap"]);
    if let Some(name) = select.name() {
        command.arg(format!("--test-name-pattern={name}"));
    }
    command.args(names.iter().map(|name| folder.join(format!("tests/{name}.test.mjs"))));
    let engine = serde_json::json!(engine).to_string();
    command.env("TAVOLA_BINARY", server_binary()).env("TAVOLA_CLUSTER_ARGUMENTS", engine);
    let finished = run(&mut command)?;
    counted(&finished, counts::tap(&finished.output), select)
}

/// Takes the screenshots of `docs/console`, of the console with generated traffic.
pub fn shots() -> ExitCode {
    let taken = installed("npm").and_then(|()| chromium()).and_then(|()| install(&folder())).and_then(|()| {
        run(&mut cargo(["build", "--release", "-p", "tavola-console", "--example", "demo"]))?.check()?;
        let mut command = Command::new("node");
        command.arg(folder().join("tests/shots.mjs")).arg(root().join("docs/console"));
        run(command.env("TAVOLA_DEMO", release_program("examples/demo")))?.check()
    });
    match taken {
        Ok(()) => {
            println!("screenshots are in docs/console");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
