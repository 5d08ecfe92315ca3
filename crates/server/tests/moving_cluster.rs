//! From a data folder to a cluster and back, by the real commands: `cargo xtask cluster` starts a cluster and runs this.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{contents, fill, run_killed, succeed, tavola, text};

/// A fresh keyspace, as arguments.
struct Cluster {
    cluster: [String; 6],
}

impl Cluster {
    fn new() -> Self {
        let nodes = std::env::var("TAVOLA_CQL_NODES").expect("TAVOLA_CQL_NODES names the cluster");
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let keyspace = format!("moving_{}", since.as_millis());
        let copies = format!("datacenter1={}", nodes.split(',').count());
        let init = ["cluster", "init", "--cql-nodes", &nodes, "--cql-keyspace", &keyspace];
        let mut init = tavola(init);
        init.args(["--copies", &copies, "--lease-ms", "50"]);
        succeed(init);
        let cluster = ["--engine", "cql", "--cql-nodes", &nodes, "--cql-keyspace", &keyspace];
        Self { cluster: cluster.map(str::to_owned) }
    }

    fn command(&self, arguments: [&str; 3]) -> Command {
        let mut command = tavola(arguments);
        command.args(&self.cluster);
        command
    }
}

#[test]
fn a_data_folder_moves_to_a_cluster_and_back_and_is_the_same() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fill(&path("old"), 1, 150);
    succeed(tavola(["export", "--data", text(&path("old")), "--out", text(&path("out"))]));
    let cluster = Cluster::new();
    let import = || cluster.command(["import", "--from", text(&path("out"))]);
    let times = [400, 900, 1400].map(Duration::from_millis);
    assert!(run_killed(import, times) > 0, "it was killed on its way");
    run_killed(|| cluster.command(["export", "--out", text(&path("back"))]), [Duration::from_millis(700)]);
    succeed(tavola(["import", "--from", text(&path("back")), "--data", text(&path("new"))]));
    let (old, new) = (contents(&path("old")), contents(&path("new")));
    assert!(old.len() > 5_000, "{} rows", old.len());
    assert_eq!(old, new);
}
