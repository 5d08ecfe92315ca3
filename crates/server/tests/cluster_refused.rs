//! A cluster that servers refuse, by the real commands: `cargo xtask cluster` starts a node with the settings that
//! Cassandra has by itself and with a certificate for another address, and runs this.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{certificate, cluster_arguments, fail, succeed, tavola};

#[test]
fn settings_with_which_acknowledged_writes_are_lost_are_refused_with_the_reason() {
    let cluster = cluster_arguments("refused");
    let mut init = tavola(["cluster", "init", "--copies", "datacenter1=1"]);
    init.args(&cluster);
    succeed(init);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut check = tavola(["cluster", "check"]);
    check.args(&cluster);
    let mut serve = tavola([
        "serve",
        "--engine",
        "cql",
        "--blob-port",
        "0",
        "--table-port",
        "0",
        "--queue-port",
        "0",
        "--data",
        data,
    ]);
    serve.args(&cluster);
    for command in [check, serve] {
        let said = fail(command);
        for reason in
            ["paxos_variant is v1", "commitlog_sync is periodic", "cassandra.yaml", "node=127.0.0.1:9042"]
        {
            assert!(said.contains(reason), "{said}");
        }
    }
}

#[test]
fn a_certificate_for_another_address_is_refused() {
    let mut check = tavola(["cluster", "check", "--cql-ca", &certificate("node", "cert.pem")]);
    check.args(cluster_arguments("refused"));
    let said = fail(check);
    assert!(said.contains("certificate"), "{said}");
    assert!(said.contains("10.0.0.1"), "{said}");
}
