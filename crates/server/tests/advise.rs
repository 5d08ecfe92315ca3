//! `tavola advise` and `tavola whatif` as a user runs them, on a running server and on the folder it leaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::served::{HANG, advised, send, serve, stop};
use common::{fail, run, succeed, tavola, text};
use http::Method;
use serde_json::Value;
use tavola_testkit::{Connection, Request};

const PEOPLE: usize = 120;

fn fill(connection: &mut Connection) {
    let create = Request::new(Method::POST, "/Tables").with_json(r#"{"TableName":"People"}"#);
    send(connection, &create);
    for n in 0..PEOPLE {
        let department = ["Sales", "Support", "Research"][n % 3];
        let body = format!(
            r#"{{"PartitionKey":"{department}","RowKey":"{n:06}","Email":"p{n}@contoso.com","Age":{}}}"#,
            20 + n % 30
        );
        send(connection, &Request::new(Method::POST, "/People").with_json(body));
    }
}

/// Asks until the records of a shape of requests have arrived.
fn advised_with(data_dir: &Path, shape: &str, requests: u64) -> Value {
    let begun = Instant::now();
    loop {
        let advised = advised(data_dir);
        let tables = advised["cost"]["tables"].as_array().unwrap();
        let shapes = tables.iter().flat_map(|table| table["shapes"].as_array().unwrap());
        let arrived = shapes
            .filter(|cost| cost["shape"] == shape)
            .any(|cost| cost["observed"].as_u64().unwrap() >= requests);
        if arrived {
            return advised;
        }
        assert!(begun.elapsed() < HANG, "{advised:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_scan_is_found_gates_a_build_and_is_fixed_by_its_proposal() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let server = serve(&data);
    let mut connection = Connection::open(server.table_endpoint()).unwrap();
    let none = succeed(tavola(["advise", "--data", text(&data)]));
    assert!(none.contains("No requests are recorded yet"), "{none}");

    fill(&mut connection);
    for n in 0..30 {
        let department = ["Sales", "Support", "Research"][n % 3];
        send(&mut connection, &Request::get(format!("/People(PartitionKey='{department}',RowKey='{n:06}')")));
    }
    let healthy = advised_with(&data, "GetEntity", 30);
    assert_eq!(healthy["findings"].as_array().unwrap().len(), 0, "{healthy:#}");
    let gate = |on: &str| run(tavola(["advise", "--data", text(&data), "--fail-on", on])).status.code();
    assert_eq!(gate("any"), Some(0));

    for n in 0..40 {
        send(&mut connection, &Request::get(format!("/People()?$filter=Email%20eq%20'p{n}@contoso.com'")));
    }
    let advised_now = advised_with(&data, "Email eq ?", 40);
    let finding = &advised_now["findings"][0];
    assert_eq!(finding["rule"], "table-scan", "{advised_now:#}");
    assert_eq!(finding["pattern"], "inter-partition-index");
    assert_eq!(finding["what_if"]["partition"], "Email_{Email}");
    assert_eq!((gate("table-scan"), gate("hot-partition,bad")), (Some(3), Some(0)));
    assert!(fail(tavola(["advise", "--data", text(&data), "--fail-on", "scans"])).contains("knows no scans"));
    let shown = succeed(tavola(["advise", "--data", text(&data), "--table", "people"]));
    assert!(shown.contains("Email eq ? scans 120 rows to return 1"), "{shown}");
    assert!(shown.contains("120 more entities"), "the table was read for its size: {shown}");

    let proposed = ["--index", "--partition", "Email_{Email}", "--row", "{PartitionKey}_{RowKey}"];
    let what_if = |extra: &str| {
        let mut command = tavola(["whatif", "--data", text(&data), "--table", "People"]);
        command.args(proposed);
        if !extra.is_empty() {
            command.arg(extra);
        }
        succeed(command)
    };
    let report: Value = serde_json::from_str(&what_if("--json")).unwrap();
    let scan =
        report["shapes"].as_array().unwrap().iter().find(|shape| shape["shape"] == "Email eq ?").unwrap();
    assert_eq!((&scan["plan_before"], &scan["plan_after"]), (&"table-scan".into(), &"partition-scan".into()));
    assert_eq!((scan["scanned_before"].as_f64(), scan["scanned_after"].as_f64()), (Some(120.0), Some(1.0)));
    assert_eq!(report["before"]["entities"], 120);
    assert!(what_if("").contains("table-scan → partition-scan"));
    let collides = tavola(["whatif", "--data", text(&data), "--table", "People", "--row", "{Age}"]);
    assert!(succeed(collides).contains("entities would get keys that another one has"));

    stop(server);
    let offline = advised(&data);
    assert_eq!(offline["findings"][0]["id"], finding["id"], "the folder says the same: {offline:#}");
    assert_eq!(gate("table-scan"), Some(3));
    assert!(what_if("").contains("120 → 1"));

    std::fs::write(data.join("advisor-traffic"), "not what it was").unwrap();
    let server = serve(&data);
    assert!(server.log().contains("recording starts from nothing"), "{}", server.log());
    assert!(succeed(tavola(["advise", "--data", text(&data)])).contains("No requests are recorded yet"));
    assert!(data.join("advisor-traffic.damaged").exists());
}

#[test]
fn prices_are_read_from_a_file() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let server = serve(&data);
    let mut connection = Connection::open(server.table_endpoint()).unwrap();
    fill(&mut connection);
    advised_with(&data, "InsertEntity", 120);
    let shown = succeed(tavola(["advise", "--data", text(&data)]));
    assert!(shown.contains("default prices of 2026-11-16: check them"), "{shown}");
    let file = root.path().join("prices.toml");
    std::fs::write(&file, succeed(tavola(["prices"])).replace("\"$\"", "\"EUR\"")).unwrap();
    let shown = succeed(tavola(["advise", "--data", text(&data), "--prices", text(&file)]));
    assert!(shown.contains("EUR 0.") && !shown.contains("default prices"), "{shown}");
    std::fs::write(&file, "writes = 3").unwrap();
    assert!(
        fail(tavola(["advise", "--data", text(&data), "--prices", text(&file)]))
            .contains("cannot read the prices")
    );
}
