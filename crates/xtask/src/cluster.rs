//! The cluster engine on a real Cassandra, as steps of the test command.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cassandra;
use crate::programs::{cargo, root, run, server_binary};
use crate::rust::count_tests;
use crate::step::{Outcome, Server, Step, Tally};

pub const CONFORMANCE: Step = Step {
    name: "the cluster engine on Cassandra",
    server: Server::Unused,
    run: || with_nodes(1, conformance),
};

pub const FAULTS: Step = Step {
    name: "servers on a cluster that loses nodes",
    server: Server::Needed,
    run: || with_nodes(3, |nodes| faults(nodes, FAULT_SECONDS)),
};

/// How long the fault test goes on causing faults.
const FAULT_SECONDS: u32 = 240;

/// Runs some work on a cluster: the one that runs, or one that is started for it and removed after it.
pub fn with_nodes(count: usize, work: impl FnOnce(&str) -> Outcome) -> Outcome {
    if let Err(missing) = cassandra::can_run() {
        return Ok(Tally::skip(missing));
    }
    let was_up = cassandra::is_up();
    let outcome = cassandra::up(count).and_then(|()| work(&cassandra::contact_points(count)));
    if was_up {
        return outcome;
    }
    // Also after a failure: a cluster that nobody needs takes a gigabyte of memory.
    let stopped = cassandra::down();
    outcome.and_then(|tally| stopped.map(|()| tally))
}

/// A fresh keyspace on the cluster, and the arguments with which a server uses it.
pub fn fresh_keyspace(nodes: &str) -> Result<Vec<String>, String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let keyspace = format!("steps_{}", since.as_millis());
    let copies = format!("datacenter1={}", nodes.split(',').count());
    let place = ["--cql-nodes", nodes, "--cql-keyspace", &keyspace].map(str::to_owned);
    let mut init = Command::new(server_binary());
    init.args(["cluster", "init"]).args(&place).args(["--copies", &copies, "--lease-ms", "50"]);
    run(&mut init)?.check()?;
    let engine = ["--engine", "cql"].map(str::to_owned);
    Ok(engine.into_iter().chain(place).collect())
}

fn conformance(nodes: &str) -> Outcome {
    let mut tests = cargo(["test", "-p", "tavola-engine-cql", "-p", "tavola-server"]);
    tests.args(["--features", "tavola-engine-cql/cluster-tests,tavola-server/cluster-tests"]);
    tests.args(["--test", "conformance", "--test", "servers", "--test", "moving_cluster"]);
    let finished = run(tests.env("TAVOLA_CQL_NODES", nodes))?;
    let mut tally = count_tests(&finished.output);
    if !finished.succeeded {
        tally.failed = tally.failed.max(1);
        tally.failures.push(finished.failure());
    }
    Ok(tally)
}

/// The load with its faults, then the checker of what it wrote down.
fn faults(nodes: &str, seconds: u32) -> Outcome {
    run(&mut cargo(["build", "--release", "-p", "tavola-cluster-faults"]))?.check()?;
    let history = root().join("target/cluster-history.jsonl");
    let chores = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut load = Command::new(root().join("target/release/tavola-cluster-faults"));
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
