//! Transactions of small changes to large entities, on a cluster: `cargo xtask cluster` starts one and runs this.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write as _;

use common::{cluster_arguments, succeed, tavola};
use http::Method;
use tavola_testkit::{Connection, Request, Response, ServerOptions, TestServer};

/// Bytes of an entity: fifteen properties of 64 KiB each, but for a few bytes.
const ENTITY_BYTES: usize = 15 * 65_535;
/// What one write of the cluster takes, with Cassandra as it is by itself.
const TRANSACTION_BYTES_MAX: usize = 12 * 1024 * 1024;

/// Changes one small property of each of the first entities, all in one transaction.
fn merge(connection: &mut Connection, endpoint: &str, entities: usize) -> Response {
    let mut body = String::from("--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n");
    for row in 0..entities {
        let json = format!("{{\"Changed\":{entities}}}");
        write!(
            body,
            "--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             PATCH {endpoint}/Large(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\nIf-Match: *\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}\r\n",
            json.len()
        )
        .unwrap();
    }
    body.push_str("--changeset_c--\r\n\r\n--batch_b--\r\n");
    let request = Request::new(Method::POST, "/$batch").with_body("multipart/mixed; boundary=batch_b", body);
    connection.send(&request).unwrap()
}

#[test]
fn a_small_change_of_more_than_a_write_takes_is_told_as_too_large_and_changes_nothing() {
    let cluster = cluster_arguments("large");
    let mut init = tavola(["cluster", "init", "--copies", "datacenter1=1", "--lease-ms", "50"]);
    init.args(&cluster);
    succeed(init);
    let arguments = ["--engine", "cql"].map(str::to_owned).into_iter().chain(cluster).collect();
    let binary = Some(env!("CARGO_BIN_EXE_tavola").into());
    let server =
        TestServer::start_with(&ServerOptions { binary, arguments, ..ServerOptions::default() }).unwrap();
    let endpoint = server.table_endpoint();
    let mut connection = Connection::open(endpoint).unwrap();
    let create = Request::new(Method::POST, "/Tables").with_json(r#"{"TableName":"Large"}"#);
    assert_eq!(connection.send(&create).unwrap().status, 201);

    let fitting = TRANSACTION_BYTES_MAX / ENTITY_BYTES;
    let value = "A".repeat(65_535 / 3 * 4);
    for row in 0..=fitting {
        let mut json = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"");
        for number in 0..15 {
            write!(json, ",\"B{number}@odata.type\":\"Edm.Binary\",\"B{number}\":\"{value}\"").unwrap();
        }
        json.push('}');
        let inserted = connection.send(&Request::new(Method::POST, "/Large").with_json(json)).unwrap();
        assert_eq!(inserted.status, 201, "{}", inserted.text());
    }

    let changed = merge(&mut connection, endpoint, fitting);
    assert_eq!(changed.status, 202, "{}", changed.text());
    assert!(!changed.text().contains("HTTP/1.1 4"), "{}", changed.text());
    let refused = merge(&mut connection, endpoint, fitting + 1);
    assert_eq!(refused.status, 413, "{}", refused.text());
    assert!(refused.text().contains("RequestBodyTooLarge"), "{}", refused.text());
    for row in 0..fitting {
        let target = format!("/Large(PartitionKey='p',RowKey='{row}')?$select=Changed");
        let found = connection.send(&Request::get(target)).unwrap().text();
        assert!(found.contains(&format!("\"Changed\":{fitting}")), "{found}");
    }
}
