//! Two servers on one cluster that hand writes to each other: `cargo xtask cluster` starts a cluster and runs this.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::Method;
use tavola_testkit::{Connection, QueueConnection, Request, Response, ServerOptions, TestServer, free_port};

const MEET_TIME_MAX: Duration = Duration::from_secs(20);

/// A server and where it tells what it has counted.
struct Server {
    server: TestServer,
    health_port: u16,
}

impl Server {
    fn start(place: &[String], further: &[&str]) -> Self {
        let health_port = free_port().unwrap();
        let mut arguments = vec!["--engine".to_owned(), "cql".to_owned()];
        arguments.extend(place.iter().cloned());
        arguments.extend(["--health-port".to_owned(), health_port.to_string()]);
        arguments.extend(further.iter().map(|text| (*text).to_owned()));
        let binary = Some(env!("CARGO_BIN_EXE_tavola").into());
        let options = ServerOptions { binary, arguments, ..ServerOptions::default() };
        Self { server: TestServer::start_with(&options).unwrap(), health_port }
    }

    fn tables(&self) -> Connection {
        Connection::open(self.server.table_endpoint()).unwrap()
    }

    fn counted(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.health_port)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    fn wait_for_members(&self, count: u64) {
        let started = Instant::now();
        while self.counted("tavola_members") != count {
            assert!(started.elapsed() < MEET_TIME_MAX, "servers do not know each other");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A keyspace of its own, as arguments.
fn keyspace(name: &str) -> [String; 4] {
    let nodes = std::env::var("TAVOLA_CQL_NODES").expect("TAVOLA_CQL_NODES names the cluster");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let keyspace = format!("{name}_{}", since.as_millis());
    let place = ["--cql-nodes", &nodes, "--cql-keyspace", &keyspace].map(str::to_owned);
    let copies = format!("datacenter1={}", nodes.split(',').count());
    let mut init = Command::new(env!("CARGO_BIN_EXE_tavola"));
    init.args(["cluster", "init", "--lease-ms", "50", "--copies", &copies]).args(&place);
    let output = init.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place
}

/// Two servers that know each other, and a table.
fn pair(name: &str) -> (Server, Server) {
    let place = keyspace(name);
    let (first, second) = (Server::start(&place, &[]), Server::start(&place, &[]));
    first.wait_for_members(2);
    second.wait_for_members(2);
    create_table(&first);
    (first, second)
}

fn create_table(server: &Server) {
    let create = Request::new(Method::POST, "/Tables").with_json(r#"{"TableName":"People"}"#);
    assert_eq!(server.tables().send(&create).unwrap().status, 201);
}

fn insert(partition: &str, row: &str) -> Request {
    let json = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}","Age":41}}"#);
    Request::new(Method::POST, "/People").with_json(json)
}

fn entity(partition: &str, row: &str) -> String {
    format!("/People(PartitionKey='{partition}',RowKey='{row}')")
}

/// A partition whose writes this server hands to the other one.
fn partition_of_the_other(server: &Server) -> String {
    let mut connection = server.tables();
    for number in 0..64 {
        let partition = format!("p{number}");
        let before = server.counted("tavola_forwarded_total");
        // The first write to a partition stays where it arrives.
        for row in ["first", "second"] {
            assert_eq!(connection.send(&insert(&partition, row)).unwrap().status, 201);
        }
        if server.counted("tavola_forwarded_total") > before {
            return partition;
        }
    }
    panic!("this server owns all of 64 partitions");
}

/// What a client sees of an answer, line by line, without what differs from one request to the next.
fn comparable(response: &Response) -> Vec<String> {
    let mut lines = vec![response.status.to_string()];
    for (name, value) in &response.headers {
        let is_own = ["x-ms-request-id", "Date", "ETag", "Content-Length"].contains(&name.as_str());
        lines.push(format!("{name}: {}", if is_own { String::new() } else { without_own(value) }));
    }
    let length = response.header("content-length").map(|length| length.parse::<usize>().unwrap());
    assert!(length.is_none_or(|length| length == response.body.len()), "{length:?}");
    lines.extend(response.text().lines().map(without_own));
    lines
}

/// A text without the words that are ids, times or versions, and with one word for the row.
fn without_own(text: &str) -> String {
    let is_own = |word: &str| word.chars().filter(char::is_ascii_digit).count() >= 6;
    let is_between = |letter: char| " \"'<>=(),_".contains(letter);
    let words = text.split_inclusive(is_between).filter(|word| !is_own(word.trim_end_matches(is_between)));
    words.collect::<String>().replace("theirs", "row").replace("direct", "row")
}

/// Writes of every kind to one row and those beside it, in an order in which each means something.
fn writes(endpoint: &str, partition: &str, row: &str) -> Vec<Request> {
    let body = format!(
        "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n\
         --changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         PUT {endpoint}{} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n\
         {{\"Age\":7}}\r\n--changeset_c--\r\n\r\n--batch_b--\r\n",
        entity(partition, row)
    );
    let batch = Request::new(Method::POST, "/$batch").with_body("multipart/mixed; boundary=batch_b", body);
    let merge = Method::from_bytes(b"MERGE").unwrap();
    let change = |method: Method, etag: &str| {
        Request::new(method, entity(partition, row)).with_header("If-Match", etag)
    };
    vec![
        insert(partition, row),
        insert(partition, row).with_header("x-ms-client-request-id", "Mine"),
        insert(partition, &format!("{row}f")).with_header("Accept", "application/json;odata=fullmetadata"),
        insert(partition, &format!("{row}a")).with_header("Accept", "application/atom+xml"),
        insert(partition, &format!("{row}n")).with_header("Prefer", "return-no-content"),
        Request::new(Method::PUT, entity(partition, row)).with_json("{\"Age\":1}"),
        change(merge, "*").with_json("{\"Age\":2}"),
        change(Method::DELETE, "W/\"datetime'2020-01-01T00%3A00%3A00Z'\""),
        batch,
        change(Method::DELETE, "*"),
        change(Method::DELETE, "*"),
        insert(partition, row).with_header("Origin", "http://somewhere.example"),
    ]
}

#[test]
fn an_answer_is_the_same_whoever_gives_it() {
    let (first, _second) = pair("answers");
    let partition = partition_of_the_other(&first);
    let writes = |row| writes(first.server.table_endpoint(), &partition, row);
    let mut connection = first.tables();
    let mut forwarded = first.counted("tavola_forwarded_total");
    for (write, same) in writes("theirs").into_iter().zip(writes("direct")) {
        let theirs = connection.send(&write).unwrap();
        // The mark of a forwarded request has this one executed where it arrives.
        let direct = connection.send(&same.with_header("x-tavola-hop", "1")).unwrap();
        assert_eq!(comparable(&theirs), comparable(&direct), "{write:?}");
        forwarded += 1;
        assert_eq!(first.counted("tavola_forwarded_total"), forwarded, "{write:?}");
    }
}

#[test]
fn a_client_that_waits_before_its_body_is_told_to_go_on() {
    let (first, _second) = pair("expect");
    let partition = partition_of_the_other(&first);
    let mut connection = first.tables();
    let request = insert(&partition, "patient").with_header("Expect", "100-continue");
    let signed = connection.signed(&request).unwrap();
    let (head, body) = signed.split_at(signed.len() - request.body.len());
    let before = first.counted("tavola_forwarded_total");
    assert_eq!(connection.send_raw(head, &Method::POST).unwrap().status, 100);
    assert_eq!(connection.send_raw(body, &Method::POST).unwrap().status, 201);
    assert_eq!(first.counted("tavola_forwarded_total"), before + 1);
}

#[test]
fn a_body_in_chunks_goes_on_in_chunks() {
    let (first, _second) = pair("chunks");
    let partition = partition_of_the_other(&first);
    let mut connection = first.tables();
    let signed = connection.signed(&insert(&partition, "chunked")).unwrap();
    let text = String::from_utf8(signed).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let head: Vec<&str> = head.lines().filter(|line| !line.starts_with("content-length")).collect();
    let chunks = format!("5\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n", &body[..5], body.len() - 5, &body[5..]);
    let bytes = format!("{}\r\ntransfer-encoding: chunked\r\n\r\n{chunks}", head.join("\r\n"));
    let before = first.counted("tavola_forwarded_total");
    assert_eq!(connection.send_raw(bytes.as_bytes(), &Method::POST).unwrap().status, 201);
    assert_eq!(first.counted("tavola_forwarded_total"), before + 1);
    let read = connection.send(&Request::get(entity(&partition, "chunked"))).unwrap();
    assert_eq!(read.status, 200);
}

#[test]
fn messages_go_through_the_owner_of_their_queue() {
    let (first, second) = pair("messages");
    for number in 0..16 {
        let name = format!("queue{number}");
        let mut here = QueueConnection::open(first.server.queue_endpoint(), &name).unwrap();
        let mut there = QueueConnection::open(second.server.queue_endpoint(), &name).unwrap();
        here.create().unwrap();
        for (writer, reader) in [(0, 1), (1, 0)] {
            let ends = [&mut here, &mut there];
            ends[writer].put("text").unwrap();
            let got = ends[reader].get(1, 30).unwrap();
            assert_eq!(got.len(), 1);
            ends[writer].hide(&got[0], 0).unwrap();
            let again = ends[writer].get(1, 30).unwrap();
            assert_eq!(again[0].dequeue_count, 2);
            ends[reader].delete(&again[0]).unwrap();
        }
    }
    // Of the two ends of a queue one is not at its owner, and hands over all but its first operation.
    let forwarded = [&first, &second].map(|server| server.counted("tavola_forwarded_total"));
    assert_eq!(forwarded.iter().sum::<u64>(), 16 * 4);
    assert!(forwarded.iter().all(|count| *count > 0), "{forwarded:?}");
}

#[test]
fn an_owner_that_is_killed_is_done_without() {
    let (first, mut second) = pair("killed");
    let partition = partition_of_the_other(&first);
    let mut connection = first.tables();
    second.server.kill();
    for row in 0..20 {
        let response = connection.send(&insert(&partition, &row.to_string())).unwrap();
        assert_eq!(response.status, 201, "{}", response.text());
    }
    first.wait_for_members(1);
    assert_eq!(connection.send(&insert(&partition, "last")).unwrap().status, 201);
    let found = connection.send(&Request::get("/People()?$select=RowKey")).unwrap().text();
    assert!(found.matches("RowKey").count() >= 22, "{found}");
}

#[test]
fn an_owner_that_stops_hands_over_without_an_error() {
    let (first, second) = pair("stopped");
    let partition = partition_of_the_other(&first);
    let mut connection = first.tables();
    let stopped_at = 10;
    for row in 0..60 {
        if row == stopped_at {
            let stop = Command::new("kill").arg(second.server.process_id().to_string()).status().unwrap();
            assert!(stop.success());
        }
        let response = connection.send(&insert(&partition, &row.to_string())).unwrap();
        assert_eq!(response.status, 201, "row {row}: {}", response.text());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(first.counted("tavola_cql_unknown_outcomes_total"), 0);
}

#[test]
fn a_partition_that_is_written_through_both_has_one_writer() {
    const NAMES: [&str; 4] = [
        "tavola_forwarded_total",
        "tavola_cql_transactions_total",
        "tavola_cql_conflicts_total",
        "tavola_forward_failures_total",
    ];
    let (first, second) = pair("hot");
    let partition = partition_of_the_other(&first);
    let counted = |server: &Server| NAMES.map(|name| server.counted(name));
    // After this one the second server, too, has seen the partition.
    assert_eq!(second.tables().send(&insert(&partition, "third")).unwrap().status, 201);
    let before = [counted(&first), counted(&second)];
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let mut connection = if writer % 2 == 0 { first.tables() } else { second.tables() };
            let partition = &partition;
            scope.spawn(move || {
                for row in 0..25 {
                    let response = connection.send(&insert(partition, &format!("{writer}-{row}"))).unwrap();
                    assert_eq!(response.status, 201, "{}", response.text());
                }
            });
        }
    });
    let since = |after: [u64; 4], before: [u64; 4]| [0, 1, 2, 3].map(|place| after[place] - before[place]);
    assert_eq!(since(counted(&first), before[0]), [100, 0, 0, 0], "{NAMES:?}");
    assert_eq!(since(counted(&second), before[1]), [0, 200, 0, 0], "{NAMES:?}");
}
