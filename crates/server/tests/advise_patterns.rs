//! A workload for each anti-pattern of the table design guide, sent to a server: the advisor names the rule and the
//! pattern, what-if shows what its proposal gains; and healthy workloads, about which it says nothing.
//!
//! Every workload has a table of its own. Every request is recorded, and they are sent far more slowly than what makes a
//! partition hot, so the findings are the same on a fast machine as on a slow one. That an account is beyond its promise
//! cannot be shown so, as that takes 20,000 requests in a second; the rule is tested with records in the advisor.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use common::served::{advised, send, serve, stop};
use common::{succeed, tavola, text};
use http::Method;
use serde_json::{Value, json};
use tavola_testkit::{Connection, Request, Response, TestServer};

/// Between two requests: a partition is near its target with 2,000 in a second.
const PAUSE: Duration = Duration::from_millis(3);
/// An order in which keys are neither rising nor falling.
const SCATTERED: [usize; 10] = [6, 2, 9, 4, 0, 7, 3, 8, 1, 5];

/// A table on a server.
struct Table<'a> {
    server: &'a TestServer,
    connection: Connection,
    name: &'static str,
}

impl<'a> Table<'a> {
    fn create(server: &'a TestServer, name: &'static str) -> Self {
        let mut table = Self { server, connection: Connection::open(server.table_endpoint()).unwrap(), name };
        let body = json!({ "TableName": name }).to_string();
        table.send(&Request::new(Method::POST, "/Tables").with_json(body));
        table
    }

    fn send(&mut self, request: &Request) -> Response {
        std::thread::sleep(PAUSE);
        send(&mut self.connection, request)
    }

    fn insert(&mut self, entity: &Value) -> Response {
        let target = format!("/{}", self.name);
        self.send(&Request::new(Method::POST, target).with_json(entity.to_string()))
    }

    /// One transaction of inserts into the partition of the first.
    fn insert_together(&mut self, entities: &[Value]) {
        let host = self.server.table_endpoint();
        let mut body =
            String::from("--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n");
        for entity in entities {
            let json = entity.to_string();
            write!(
                body,
                "--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                 POST {host}/{} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}\r\n",
                self.name,
                json.len()
            )
            .unwrap();
        }
        body.push_str("--changeset_c--\r\n\r\n--batch_b--\r\n");
        let batch =
            Request::new(Method::POST, "/$batch").with_body("multipart/mixed; boundary=batch_b", body);
        let answer = self.send(&batch).text();
        assert_eq!(answer.matches("HTTP/1.1 2").count(), entities.len(), "{answer}");
    }

    fn at(&self, partition: &str, row: &str) -> String {
        format!("/{}(PartitionKey='{partition}',RowKey='{row}')", self.name)
    }

    fn get(&mut self, partition: &str, row: &str) -> Response {
        self.send(&Request::get(self.at(partition, row)))
    }

    fn delete(&mut self, partition: &str, row: &str) {
        let target = self.at(partition, row);
        self.send(&Request::new(Method::DELETE, target).with_header("If-Match", "*"));
    }

    /// Merges a property if the entity still has this ETag, and gives the status.
    fn merge(&mut self, partition: &str, row: &str, etag: &str) -> (u16, String) {
        std::thread::sleep(PAUSE);
        let request = Request::new(Method::from_bytes(b"MERGE").unwrap(), self.at(partition, row))
            .with_header("If-Match", etag)
            .with_json(r#"{"Count":1}"#);
        let response = self.connection.send(&request).unwrap();
        (response.status, response.header("etag").unwrap_or_default().to_owned())
    }

    fn query(&self, filter: &str) -> Request {
        Request::get(format!("/{}()?$filter={}", self.name, filter.replace(' ', "%20")))
    }

    /// The number of entities that each of these filters gives.
    fn ask(&mut self, filters: impl IntoIterator<Item = String>) {
        for filter in filters {
            let answer: Value = serde_json::from_slice(&self.send(&self.query(&filter)).body).unwrap();
            assert!(!answer["value"].as_array().unwrap().is_empty(), "{filter}");
        }
    }
}

/// Two hundred people in ten departments.
fn people(server: &TestServer, name: &'static str) -> impl FnMut(Vec<String>) {
    let mut table = Table::create(server, name);
    for department in SCATTERED {
        let people: Vec<Value> =
            (0..20).map(|n| person(&format!("dept-{department}"), department * 20 + n)).collect();
        table.insert_together(&people);
    }
    move |filters| table.ask(filters)
}

/// Four hundred people in one department.
fn department(server: &TestServer, name: &'static str) -> impl FnMut(Vec<String>) {
    let mut table = Table::create(server, name);
    for hundred in 0..4 {
        let people: Vec<Value> = (0..100).map(|n| person("Sales", hundred * 100 + n)).collect();
        table.insert_together(&people);
    }
    move |filters| table.ask(filters)
}

fn person(department: &str, n: usize) -> Value {
    json!({
        "PartitionKey": department,
        "RowKey": format!("{n:06}"),
        "Email": format!("p{n}@contoso.com"),
        "LastName": format!("Name{}", n % 20),
        "Office": format!("office-{}", n % 5),
        "Year": 2000 + n % 10,
        "Age": 20 + n % 50,
        "Hired@odata.type": "Edm.DateTime",
        "Hired": format!("2026-{:02}-{:02}T08:00:00Z", 1 + n / 28 % 12, 1 + n % 28),
    })
}

fn filters(count: usize, filter: impl Fn(usize) -> String) -> Vec<String> {
    (0..count).map(filter).collect()
}

/// What a workload is to show: its table, and what is found there by rule, pattern and gain.
type Expected = (&'static str, &'static [(&'static str, &'static str, Gain)]);

/// What the proposal of a finding gains.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gain {
    /// It has no keys to try, and a figure instead: what it counts, as it is and as it would be.
    Figure(&'static str, u64, u64),
    /// The same, a tenth or less; how much depends on samples of the table, or on how the answer is written.
    Less(&'static str),
    /// The queries of its shape read a fifth of the rows or less, for the same result.
    Rows,
    /// The hottest partition of the requests by key gets half of its share or less.
    Spread,
    /// Queries for ranges give other entities, in the order of the numbers.
    Order,
}

const SCANS: [Expected; 11] = [
    ("ByEmail", &[("table-scan", "inter-partition-index", Gain::Rows)]),
    ("ByName", &[("table-scan", "index-entities", Gain::Rows)]),
    ("ByOfficeAndYear", &[("table-scan", "compound-key", Gain::Rows)]),
    ("ByRowKey", &[("table-scan", "inter-partition-index", Gain::Rows)]),
    ("ByTime", &[("table-scan", "log-data", Gain::Rows)]),
    ("ByEither", &[("table-scan", "index-entities", Gain::Less("rows"))]),
    ("ByEmailInPart", &[("partition-scan", "intra-partition-index", Gain::Rows)]),
    ("ByNameInPart", &[("partition-scan", "index-entities", Gain::Rows)]),
    ("ByAgeInPart", &[("partition-scan", "intra-partition-index", Gain::Rows)]),
    ("NewestInPart", &[("partition-scan", "log-tail", Gain::Rows)]),
    ("ByEmailInRange", &[("wide-range", "intra-partition-index", Gain::Rows)]),
];

fn scan(server: &TestServer) {
    people(server, "ByEmail")(filters(10, |n| format!("Email eq 'p{n}@contoso.com'")));
    people(server, "ByName")(filters(10, |n| format!("LastName eq 'Name{n}'")));
    people(server, "ByOfficeAndYear")(filters(10, |n| {
        format!("Office eq 'office-{}' and Year eq {}", n % 5, 2000 + n % 5)
    }));
    people(server, "ByRowKey")(filters(10, |n| format!("RowKey eq '{n:06}'")));
    people(server, "ByTime")(filters(10, |n| {
        format!(
            "Hired ge datetime'2026-02-{:02}T00:00:00Z' and Hired lt datetime'2026-02-{:02}T00:00:00Z'",
            n + 1,
            n + 3
        )
    }));
    people(server, "ByEither")(filters(10, |n| {
        format!(
            "Email eq 'p{n}@contoso.com' or Email eq 'p{}@contoso.com' or LastName eq 'Name{n}' and Age lt 25",
            n + 40
        )
    }));
    let sales = "PartitionKey eq 'Sales' and";
    department(server, "ByEmailInPart")(filters(10, |n| format!("{sales} Email eq 'p{n}@contoso.com'")));
    department(server, "ByNameInPart")(filters(10, |n| format!("{sales} LastName eq 'Name{n}'")));
    department(server, "ByAgeInPart")(filters(10, |n| format!("{sales} Age gt {}", 62 + n % 5)));
    department(server, "NewestInPart")(filters(10, |n| {
        format!("{sales} Hired ge datetime'2026-12-{:02}T00:00:00Z'", n + 1)
    }));
    department(server, "ByEmailInRange")(filters(10, |n| {
        format!("{sales} RowKey ge '000000' and RowKey lt '000390' and Email eq 'p{n}@contoso.com'")
    }));
}

const LOADS: [Expected; 3] = [
    ("Today", &[("hot-partition", "choosing-partition-key", Gain::Spread)]),
    ("Appended", &[("append-only", "prepend-append", Gain::Spread)]),
    ("Prepended", &[("append-only", "prepend-append", Gain::Spread)]),
];

fn load(server: &TestServer) {
    for (name, minute) in [("Appended", (|n| n) as fn(usize) -> usize), ("Prepended", |n| 59 - n)] {
        let mut table = Table::create(server, name);
        for n in 0..250 {
            let partition = format!("2026-11-16T10:{:02}", minute(n / 10));
            table.insert(
                &json!({ "PartitionKey": partition, "RowKey": format!("{:08x}", n * 7_919), "Value": n }),
            );
        }
    }
    let mut table = Table::create(server, "Today");
    for hundred in SCATTERED {
        let entity = |n: usize| json!({ "PartitionKey": "today", "RowKey": format!("{:06}", hundred * 100 + n), "Value": n });
        table.insert_together(&(0..100).map(entity).collect::<Vec<_>>());
    }
    for n in 0..40 {
        table.get("today", &format!("{:06}", n * 25));
    }
    // A thousand entities each, all at once: that is a hot partition wherever a server can have one.
    let query = table.query("PartitionKey eq 'today'");
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| send(&mut Connection::open(server.table_endpoint()).unwrap(), &query));
        }
    });
    std::thread::sleep(Duration::from_millis(300));
}

const WRITES: [Expected; 8] = [
    ("Large", &[("large-entity", "large-entities", Gain::Less("bytes"))]),
    ("Wide", &[("wide-entity", "wide-entities", Gain::Figure("properties", 210, 105))]),
    ("Invoices", &[("unpadded-number", "sorting-data", Gain::Order)]),
    ("Log", &[("only-grows", "high-volume-delete", Gain::Figure("requests", 10, 1))]),
    ("Emptied", &[("row-by-row-delete", "high-volume-delete", Gain::Figure("requests", 500, 10))]),
    ("OneByOne", &[("single-batch", "entity-group-transactions", Gain::Figure("requests", 60, 10))]),
    ("Counters", &[("etag-loop", "managing-concurrency", Gain::Figure("refused-writes", 25, 0))]),
    ("Documents", &[("select-all", "server-side-projection", Gain::Less("bytes"))]),
];

fn write(server: &TestServer) {
    let mut table = Table::create(server, "Large");
    let mut large = json!({ "PartitionKey": "p", "RowKey": "r" });
    for n in 0..13 {
        large[format!("Text{n}")] = "x".repeat(32_000).into();
    }
    table.insert(&large);

    let mut table = Table::create(server, "Wide");
    let mut wide = json!({ "PartitionKey": "p", "RowKey": "r" });
    for n in 0..210 {
        wide[format!("P{n}")] = n.into();
    }
    table.insert_together(&[wide, json!({ "PartitionKey": "p", "RowKey": "s" })]);

    let mut table = Table::create(server, "Invoices");
    for n in 1..=120 {
        table.insert(&json!({ "PartitionKey": "2026-Q4", "RowKey": n.to_string(), "Sum": n }));
    }
    table.ask(filters(10, |n| {
        format!("PartitionKey eq '2026-Q4' and RowKey ge '{}' and RowKey lt '99'", n + 1)
    }));

    let mut table = Table::create(server, "Log");
    for device in SCATTERED {
        let line = |n: usize| {
            json!({ "PartitionKey": format!("device-{device}"), "RowKey": format!("2026-11-16T10:00:00.{n:03}"),
                    "Level": "info", "Text": "started", "Code": 0 })
        };
        table.insert_together(&(0..100).map(line).collect::<Vec<_>>());
    }

    let mut table = Table::create(server, "Emptied");
    for day in SCATTERED {
        let visit = |n: usize| json!({ "PartitionKey": format!("visits-{day}"), "RowKey": format!("{n:06}"), "Page": "/" });
        table.insert_together(&(0..50).map(visit).collect::<Vec<_>>());
    }
    for n in 0..500 {
        table.delete(&format!("visits-{}", n / 50), &format!("{:06}", n % 50));
    }

    let mut table = Table::create(server, "OneByOne");
    for n in 0..60 {
        table.insert_together(&[
            json!({ "PartitionKey": format!("p{}", SCATTERED[n % 10]), "RowKey": format!("{n:06}") }),
        ]);
    }

    let mut table = Table::create(server, "Counters");
    let first = table.insert(&json!({ "PartitionKey": "totals", "RowKey": "visits", "Count": 0 }));
    let mut etag = first.header("etag").unwrap().to_owned();
    for _ in 0..25 {
        // Two writers have read the same version; the second is too late.
        let (status, new) = table.merge("totals", "visits", &etag);
        assert_eq!((status, table.merge("totals", "visits", &etag).0), (204, 412));
        etag = new;
    }

    let mut table = Table::create(server, "Documents");
    for n in 0..5 {
        table.insert(
            &json!({ "PartitionKey": "drafts", "RowKey": format!("{n:06}"), "Body": "x".repeat(20_000) }),
        );
    }
    table.ask(filters(20, |_| "PartitionKey eq 'drafts'".to_owned()));
}

const SERIES: Expected = ("Hours", &[("data-series", "data-series", Gain::Figure("rows", 1_440, 60))]);

fn series(server: &TestServer) {
    let mut table = Table::create(server, SERIES.0);
    for sensor in SCATTERED {
        let hour = |n: usize| json!({ "PartitionKey": format!("sensor-{sensor}"), "RowKey": format!("2026-11-16T{n:02}"), "Degrees": n });
        table.insert_together(&(0..24).map(hour).collect::<Vec<_>>());
    }
    table.ask(filters(60, |n| format!("PartitionKey eq 'sensor-{}'", n % 10)));
}

/// Orders by customer and staff with index entities, asked for by their keys: the guide's own designs.
fn healthy(server: &TestServer) {
    let mut orders = Table::create(server, "Orders");
    for customer in SCATTERED {
        let order = |n: usize| {
            json!({ "PartitionKey": format!("customer-{customer:04}"), "RowKey": format!("order_{:08}", customer * 100 + n),
                    "Sum": 12.5, "State": "sent", "Street": "Main", "Lines": 3 })
        };
        orders.insert_together(&(0..30).map(order).collect::<Vec<_>>());
    }
    let mut staff = Table::create(server, "Staff");
    for n in 0..60 {
        let (department, random) = (format!("dept-{}", SCATTERED[n % 10]), n * 7_919 % 1_000_003);
        let entity = |row: String| json!({ "PartitionKey": department, "RowKey": row, "Email": "x", "Age": n, "Office": "o" });
        staff.insert_together(&[
            entity(format!("empid_{random:06}")),
            entity(format!("email_p{n}@contoso.com")),
        ]);
    }
    for n in 0..100 {
        let customer = SCATTERED[n % 10];
        orders.get(&format!("customer-{customer:04}"), &format!("order_{:08}", customer * 100 + n % 30));
        staff.get(&format!("dept-{customer}"), &format!("email_p{}@contoso.com", n % 60 - n % 10 + n % 10));
        orders.ask([format!(
            "PartitionKey eq 'customer-{customer:04}' and RowKey ge 'order_' and RowKey lt 'order`'"
        )]);
        staff.ask([format!(
            "PartitionKey eq 'dept-{customer}' and RowKey ge 'email_p' and RowKey lt 'email_q'"
        )]);
        let (status, _) =
            orders.merge(&format!("customer-{customer:04}"), &format!("order_{:08}", customer * 100), "*");
        assert_eq!(status, 204);
    }
    for n in 0..20 {
        let customer = SCATTERED[n % 10];
        orders.delete(
            &format!("customer-{customer:04}"),
            &format!("order_{:08}", customer * 100 + 10 + n / 10),
        );
    }
}

/// Sends workloads to a server, and gives a server on the same folder that knows of all that was sent.
fn recorded(data_dir: &Path, workloads: impl FnOnce(&TestServer)) -> TestServer {
    let server = serve(data_dir);
    workloads(&server);
    stop(server);
    serve(data_dir)
}

fn holds(data_dir: &Path, expected: &[Expected]) {
    let advised = advised(data_dir);
    let findings = advised["findings"].as_array().unwrap();
    let tables = expected.iter().map(|(table, _)| *table);
    let other = findings.iter().find(|finding| !tables.clone().any(|table| finding["table"] == table));
    assert!(other.is_none(), "{other:#?}");
    for (table, wanted) in expected {
        let found: Vec<&Value> = findings.iter().filter(|finding| finding["table"] == *table).collect();
        let names: Vec<_> = found
            .iter()
            .map(|finding| (finding["rule"].as_str().unwrap(), finding["pattern"].as_str().unwrap()))
            .collect();
        let wanted_names: Vec<_> = wanted.iter().map(|(rule, pattern, _)| (*rule, *pattern)).collect();
        assert_eq!(names, wanted_names, "{table}: {found:#?}");
        for (finding, (.., gain)) in found.iter().zip(*wanted) {
            gains(data_dir, finding, *gain);
        }
    }
}

/// Tries the keys that a finding proposes, and looks at what they gain.
fn gains(data_dir: &Path, finding: &Value, gain: Gain) {
    let (table, proposal) = (finding["table"].as_str().unwrap(), &finding["what_if"]);
    let figure = &finding["gains"][0];
    let count = |when: &str| figure[when].as_u64().unwrap_or_else(|| panic!("{table}: {finding:#}"));
    match gain {
        Gain::Figure(kind, before, after) => {
            let found = (figure["kind"].as_str().unwrap_or_default(), count("before"), count("after"));
            assert_eq!(found, (kind, before, after), "{table}: {finding:#}");
        }
        Gain::Less(kind) => {
            assert_eq!(figure["kind"], kind, "{table}: {finding:#}");
            assert!(count("after") * 10 <= count("before"), "{table}: {figure:#}");
        }
        Gain::Rows | Gain::Spread | Gain::Order => {}
    }
    if matches!(gain, Gain::Figure(..) | Gain::Less(_)) {
        assert!(proposal.is_null(), "{table}: {proposal:#}");
        return;
    }
    let mut command = tavola(["whatif", "--data", text(data_dir), "--json", "--table", table]);
    command.args([
        "--partition",
        proposal["partition"].as_str().unwrap(),
        "--row",
        proposal["row"].as_str().unwrap(),
    ]);
    if proposal["is_index"] == true {
        command.arg("--index");
    }
    let report: Value = serde_json::from_str(&succeed(command)).unwrap();
    let shape = report["shapes"].as_array().unwrap().iter().find(|shape| shape["shape"] == finding["shape"]);
    let problems = (&report["collisions"]["count"], &report["without_key"]["count"]);
    assert_eq!(problems, (&json!(0), &json!(0)), "{table}: {report:#}");
    match gain {
        Gain::Figure(..) | Gain::Less(_) => {}
        Gain::Rows => {
            let shape = shape.unwrap();
            let rows = |when: &str| shape[when].as_f64().unwrap();
            assert!(rows("scanned_after") * 5.0 <= rows("scanned_before"), "{table}: {shape:#}");
            assert_eq!(shape["is_same_result"], true, "{table}: {shape:#}");
            let all = |side: &str| report[side]["rows_scanned"].as_f64().unwrap();
            assert!(all("after") < all("before"), "{table}: {report:#}");
        }
        Gain::Spread => {
            let share = |side: &str| report[side]["hottest_lately"]["share"].as_f64().unwrap();
            assert!(share("after") * 2.0 <= share("before"), "{table}: {report:#}");
        }
        Gain::Order => {
            let keys = finding["keys"].as_array().unwrap();
            let then = keys.iter().find(|line| line["label"] == "then").unwrap();
            assert_eq!(
                then["row"],
                json!([{ "text": "0000000", "new": true }, { "text": "1", "new": false }])
            );
            let shapes = report["shapes"].as_array().unwrap();
            let mended = shapes.iter().find(|shape| shape["is_order_mended"] == true);
            let mended = mended.unwrap_or_else(|| panic!("{table}: {report:#}"));
            assert_ne!(mended["returned_before"], mended["returned_after"], "{table}: {mended:#}");
        }
    }
}

#[test]
fn queries_that_scan_are_named_with_the_keys_that_fix_them() {
    let root = tempfile::tempdir().unwrap();
    let _server = recorded(root.path(), scan);
    holds(root.path(), &SCANS);
}

#[test]
fn load_that_meets_at_one_partition_is_named_and_spread() {
    let root = tempfile::tempdir().unwrap();
    let _server = recorded(root.path(), load);
    holds(root.path(), &LOADS);
}

#[test]
fn writes_that_the_guide_warns_of_are_named() {
    let root = tempfile::tempdir().unwrap();
    let _server = recorded(root.path(), write);
    holds(root.path(), &WRITES);
    let printed = succeed(tavola(["advise", "--data", text(root.path())]));
    assert!(printed.contains("    gain     500 → 10 requests, in transactions"), "{printed}");
}

#[test]
fn a_series_is_named_and_healthy_tables_beside_it_are_not() {
    let root = tempfile::tempdir().unwrap();
    let _server = recorded(root.path(), |server| {
        series(server);
        healthy(server);
    });
    holds(root.path(), &[SERIES]);
}
