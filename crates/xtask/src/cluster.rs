//! The cluster engine on a real Cassandra, as steps of the test command.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cassandra::{self, Care, Kind};
use crate::console;
use crate::programs::{cargo, contains, installed, release_program, root, run, server_binary};
use crate::rust::count_tests;
use crate::step::{NO_NAMES, Outcome, Select, Server, Step, Tally};

pub const CONFORMANCE: Step = Step {
    name: "the cluster engine on Cassandra",
    server: Server::Needed,
    run: conformance,
    has: |name| {
        ["crates/engine-cql/tests", BLOB_TESTS]
            .iter()
            .any(|folder| contains(&root().join(folder), "rs", name))
            || console::has_cluster_page(name)
            || is_in(&SERVER_TESTS, name)
    },
};

pub const REFUSALS: Step = Step {
    name: "a Cassandra that servers refuse",
    server: Server::Needed,
    run: refusals,
    has: |name| is_in(&["cluster_refused"], name),
};

pub const FAULTS: Step = Step {
    name: "servers on a cluster that loses nodes",
    server: Server::Needed,
    run: |_| with_nodes(3, |nodes| faults(nodes, FAULT_SECONDS)),
    has: NO_NAMES,
};

/// Tests of the server that need a cluster.
const SERVER_TESTS: [&str; 4] = ["moving_cluster", "affinity", "cluster_large", "cluster_tls"];

/// Requests to the blob service, which run on any store.
const BLOB_TESTS: &str = "crates/testkit/tests/blob_http";

fn is_in(tests: &[&str], name: &str) -> bool {
    let source = |test: &str| std::fs::read_to_string(root().join(format!("crates/server/tests/{test}.rs")));
    tests.iter().any(|test| source(test).is_ok_and(|text| text.contains(name)))
}

/// How long the fault test goes on causing faults.
const FAULT_SECONDS: u32 = 240;

/// Runs some work on a cluster: the one that runs, or one that is started for it and removed after it.
pub fn with_nodes(count: u8, work: impl FnOnce(&str) -> Outcome) -> Outcome {
    if cassandra::is_up() {
        return cassandra::up(count, &Kind::PLAIN).and_then(|()| work(&cassandra::contact_points(count)));
    }
    with_fresh_nodes(count, &Kind::PLAIN, work)
}

/// Runs some work on a cluster that is started for it and removed after it.
fn with_fresh_nodes(count: u8, kind: &Kind, work: impl FnOnce(&str) -> Outcome) -> Outcome {
    if let Err(missing) = cassandra::can_run() {
        return Ok(Tally::skip(missing));
    }
    let outcome = cassandra::up(count, kind).and_then(|()| work(&cassandra::contact_points(count)));
    // Also after a failure: a cluster that nobody needs takes a gigabyte of memory.
    let stopped = cassandra::down();
    outcome.and_then(|tally| stopped.map(|()| tally))
}

/// A fresh keyspace on the cluster, and the arguments with which a server uses it.
pub fn fresh_keyspace(nodes: &str) -> Result<Vec<String>, String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let keyspace = format!("steps_{}", since.as_millis());
    let copies = format!("datacenter1={}", nodes.split(',').count());
    let keyspace = ["--cql-nodes", nodes, "--cql-keyspace", &keyspace].map(str::to_owned);
    let mut init = Command::new(server_binary());
    init.args(["cluster", "init"]).args(&keyspace).args(["--copies", &copies, "--lease-ms", "50"]);
    run(&mut init)?.check()?;
    let engine = ["--engine", "cql"].map(str::to_owned);
    Ok(engine.into_iter().chain(keyspace).collect())
}

/// The contract, several servers at once, moving data, blobs and encrypted connections, all on one node.
fn conformance(select: &Select) -> Outcome {
    const TESTS: [&str; 8] = [
        "cql_conformance",
        "cql_conformance_contents",
        "servers",
        "members",
        "moving_cluster",
        "affinity",
        "cluster_large",
        "blob_http",
    ];
    if cassandra::is_up() {
        let mut tally = with_nodes(1, |nodes| {
            let tally = tests(select, &TESTS, nodes, None)?.with(page(select, nodes)?);
            Ok(tally.with(blobs_in_a_bucket(select, nodes)?))
        })?;
        tally.skip_one("the node that runs has no certificate: `cargo xtask cassandra down` first");
        return Ok(tally);
    }
    let certificates = certificates("127.0.0.1")?;
    let kind = Kind { care: Care::Safe, certificates: Some(certificates.clone()) };
    let tally = with_fresh_nodes(1, &kind, |nodes| {
        let tally = tests(select, &[&TESTS[..], &["cluster_tls"]].concat(), nodes, Some(&certificates))?;
        Ok(tally.with(page(select, nodes)?))
    })?;
    // Every test makes a keyspace, and a small node does not take many of them.
    let blobs = with_fresh_nodes(1, &Kind::PLAIN, |nodes| blobs_in_a_bucket(select, nodes))?;
    Ok(tally.with(blobs))
}

/// Large blobs once more, with the contents in a folder that stands for a bucket.
fn blobs_in_a_bucket(select: &Select, nodes: &str) -> Outcome {
    let buckets = root().join("target/buckets");
    let name = select.name().unwrap_or("streams");
    let tally = tests_in(Some(name), &["blob_http"], nodes, None, Some(&buckets));
    // What is left of it is only clutter in the target folder.
    let _ = std::fs::remove_dir_all(&buckets);
    tally
}

/// The page of the console, of servers on this node.
fn page(select: &Select, nodes: &str) -> Outcome {
    match select.name() {
        Some(name) if !console::has_cluster_page(name) => Ok(Tally::default()),
        _ => console::cluster_page(&fresh_keyspace(nodes)?, select),
    }
}

/// What is wrong with this node: its settings, and that its certificate is for another address.
fn refusals(select: &Select) -> Outcome {
    if cassandra::is_up() {
        return Ok(Tally::skip("another node runs: `cargo xtask cassandra down` first"));
    }
    let certificates = certificates("10.0.0.1")?;
    let kind = Kind { care: Care::AsShipped, certificates: Some(certificates.clone()) };
    with_fresh_nodes(1, &kind, |nodes| tests(select, &["cluster_refused"], nodes, Some(&certificates)))
}

fn tests(select: &Select, names: &[&str], nodes: &str, certificates: Option<&Path>) -> Outcome {
    tests_in(select.name(), names, nodes, certificates, None)
}

/// Tests on servers that keep the contents of blobs in the cluster, or in buckets below a folder.
fn tests_in(
    only: Option<&str>,
    names: &[&str],
    nodes: &str,
    certificates: Option<&Path>,
    buckets: Option<&Path>,
) -> Outcome {
    // The whole workspace, as in "tests of all crates": fewer packages want fewer features of other crates, and then
    // all of those are built again.
    let mut tests = cargo(["test", "--workspace"]);
    tests.args(["--features", "tavola-engine-cql/cluster-tests,tavola-server/cluster-tests"]);
    for name in names {
        tests.args(["--test", name]);
    }
    if let Some(name) = only {
        tests.args(["--", name]);
    }
    tests.env("TAVOLA_CQL_NODES", nodes).env("TAVOLA_BIN", server_binary());
    if let Some(certificates) = certificates {
        tests.env("TAVOLA_CQL_CERTIFICATES", certificates);
    }
    if let Some(buckets) = buckets {
        tests.env("TAVOLA_TEST_BUCKETS", buckets);
    }
    let finished = run(&mut tests)?;
    let mut tally = count_tests(&finished.output);
    if !finished.succeeded {
        tally.failed = tally.failed.max(1);
        tally.failures.push(finished.failure());
    }
    Ok(tally)
}

/// Fresh certificates in a folder: those of a node for an address, of a client that it trusts, and of one that it does not.
fn certificates(node_address: &str) -> Result<PathBuf, String> {
    let io = |error: std::io::Error| format!("cannot make certificates ({error})");
    let folder = root().join("target/cassandra/certificates");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(io)?;
    }
    for (name, address) in [("node", node_address), ("client", "127.0.0.1"), ("stranger", "127.0.0.1")] {
        let mut make = Command::new(server_binary());
        make.args(["cert", "--name", address, "--out"]).arg(folder.join(name));
        run(&mut make)?.check()?;
    }
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).map_err(io);
    let node = read("node/key.pem")? + &read("node/cert.pem")?;
    std::fs::write(folder.join("node.pem"), node).map_err(io)?;
    std::fs::write(folder.join("clients.pem"), read("client/cert.pem")?).map_err(io)?;
    Ok(folder)
}

/// The load with its faults, then the checker of what it wrote down.
fn faults(nodes: &str, seconds: u32) -> Outcome {
    if let Err(missing) = installed("go") {
        return Ok(Tally::skip(missing));
    }
    run(&mut cargo(["build", "--release", "-p", "tavola-cluster-faults"]))?.check()?;
    let history = root().join("target/cluster-history.jsonl");
    let chores = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut load = Command::new(release_program("tavola-cluster-faults"));
    load.arg("--nodes-command").arg(chores).arg("--history").arg(&history);
    load.args(["--seconds", &seconds.to_string(), "--"]).args(fresh_keyspace(nodes)?);
    let mut tally = Tally::default();
    for command in [load.env("TAVOLA_BIN", server_binary()), &mut checker(&history)] {
        let finished = run(command)?;
        finished.output.lines().for_each(|line| tally.note(line));
        tally.check(finished.check());
    }
    Ok(tally)
}

fn checker(history: &Path) -> Command {
    let mut command = Command::new("go");
    command.arg("run").arg("-C").arg(root().join("tests/cluster/linearizable")).arg(".").arg(history);
    command
}
