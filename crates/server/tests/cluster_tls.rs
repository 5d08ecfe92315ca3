//! Encrypted connections to a cluster, by the real commands: `cargo xtask cluster` starts a node that has a certificate
//! for 127.0.0.1 and asks for one, and runs this.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::process::Command;

use common::{certificate, cluster_arguments, fail, succeed, tavola};
use tavola_testkit::{Connection, Request, ServerOptions, TestServer};

/// `tavola cluster check` with these files: of the authority, and of the one to be.
fn check(cluster: &[String], authority: &str, identity: Option<&str>) -> Command {
    let mut command = tavola(["cluster", "check"]);
    command.args(cluster).args(files(authority, identity));
    command
}

fn files(authority: &str, identity: Option<&str>) -> Vec<String> {
    let mut files = vec!["--cql-ca".to_owned(), certificate(authority, "cert.pem")];
    if let Some(identity) = identity {
        files.extend(["--cql-cert".to_owned(), certificate(identity, "cert.pem")]);
        files.extend(["--cql-key".to_owned(), certificate(identity, "key.pem")]);
    }
    files
}

#[test]
fn a_server_serves_over_encrypted_connections() {
    let cluster = cluster_arguments("tls");
    let files = files("node", Some("client"));
    let mut init = tavola(["cluster", "init", "--copies", "datacenter1=1", "--lease-ms", "50"]);
    init.args(&cluster).args(&files);
    succeed(init);
    assert!(succeed(check(&cluster, "node", Some("client"))).contains("can be served"));
    let arguments = ["--engine", "cql"].map(str::to_owned).into_iter().chain(cluster).chain(files).collect();
    let options = ServerOptions {
        binary: Some(env!("CARGO_BIN_EXE_tavola").into()),
        arguments,
        ..ServerOptions::default()
    };
    let server = TestServer::start_with(&options).unwrap();
    let mut connection = Connection::open(server.table_endpoint()).unwrap();
    let create = Request::new(http::Method::POST, "/Tables").with_json(r#"{"TableName":"People"}"#);
    let made = connection.send(&create).unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let listed = connection.send(&Request::get("/Tables")).unwrap();
    assert!(listed.text().contains("People"), "{}", listed.text());
}

#[test]
fn a_node_of_another_authority_is_refused() {
    let said = fail(check(&cluster_arguments("tls"), "stranger", Some("client")));
    assert!(said.contains("invalid peer certificate"), "{said}");
}

#[test]
fn a_node_that_asks_for_a_certificate_refuses_whoever_has_none_or_a_strange_one() {
    for identity in [None, Some("stranger")] {
        let said = fail(check(&cluster_arguments("tls"), "node", identity));
        assert!(said.contains("cannot use the cluster"), "{said}");
    }
}
