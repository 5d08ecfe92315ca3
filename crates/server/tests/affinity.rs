//! Two servers on one cluster that hand writes to each other: `cargo xtask cluster` starts a cluster and runs this.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::Method;
use tavola_testkit::{Connection, QueueConnection, Request, Response, ServerOptions, TestServer, free_port};

const MEET_TIME_MAX: Duration = Duration::from_secs(120);

/// A server and where it tells what it has counted.
struct Server {
    server: TestServer,
    health_port: u16,
}

impl Server {
    fn start(cluster: &[String], further: &[&str]) -> Self {
        let health_port = free_port().unwrap();
        let mut arguments = vec!["--engine".to_owned(), "cql".to_owned()];
        arguments.extend(cluster.iter().cloned());
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
    let cluster = ["--cql-nodes", &nodes, "--cql-keyspace", &keyspace].map(str::to_owned);
    let copies = format!("datacenter1={}", nodes.split(',').count());
    let mut init = Command::new(env!("CARGO_BIN_EXE_tavola"));
    init.args(["cluster", "init", "--lease-ms", "50", "--copies", &copies]).args(&cluster);
    let output = init.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    cluster
}

/// Two servers that know each other, and a table.
fn pair(cluster: &[String], further: &[&str]) -> (Server, Server) {
    let (first, second) = (Server::start(cluster, further), Server::start(cluster, further));
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

/// A fresh partition whose writes this server hands to the other one.
fn partition_of_the_other(server: &Server) -> String {
    static USED: AtomicU32 = AtomicU32::new(0);
    let mut connection = server.tables();
    for _ in 0..64 {
        let partition = format!("p{}", USED.fetch_add(1, Ordering::Relaxed));
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

// One pair for all that need both servers as they are: a keyspace takes seconds to make.
#[test]
fn a_write_is_executed_by_its_owner_and_looks_as_if_it_was_not() {
    let (first, second) = pair(&keyspace("answers"), &[]);
    an_answer_is_the_same_whoever_gives_it(&first);
    a_client_that_waits_before_its_body_is_told_to_go_on(&first);
    a_body_in_chunks_goes_on_in_chunks(&first);
    messages_go_through_the_owner_of_their_queue(&first, &second);
    a_partition_that_is_written_through_both_has_one_writer(&first, &second);
}

fn an_answer_is_the_same_whoever_gives_it(first: &Server) {
    let partition = partition_of_the_other(first);
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

fn a_client_that_waits_before_its_body_is_told_to_go_on(first: &Server) {
    let partition = partition_of_the_other(first);
    let mut connection = first.tables();
    let request = insert(&partition, "patient").with_header("Expect", "100-continue");
    let signed = connection.signed(&request).unwrap();
    let (head, body) = signed.split_at(signed.len() - request.body.len());
    let before = first.counted("tavola_forwarded_total");
    assert_eq!(connection.send_raw(head, &Method::POST).unwrap().status, 100);
    assert_eq!(connection.send_raw(body, &Method::POST).unwrap().status, 201);
    assert_eq!(first.counted("tavola_forwarded_total"), before + 1);
}

fn a_body_in_chunks_goes_on_in_chunks(first: &Server) {
    let partition = partition_of_the_other(first);
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

/// Sends an insert over TLS to the server that says this of itself, with a token.
fn insert_over_tls(server: &Server, token: &str, body: &str) -> (u16, String) {
    let log = server.server.log();
    let table =
        log.lines().find_map(|line| line.trim().strip_prefix("table")?.trim().strip_prefix("https://"));
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let tls = ureq::tls::TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    let config = ureq::Agent::config_builder()
        .tls_config(tls.disable_verification(true).build())
        .http_status_as_error(false)
        .build();
    let url = format!("https://{}/People?{token}", table.unwrap_or_else(|| panic!("no TLS port in {log}")));
    let post = config.new_agent().post(url).header("Content-Type", "application/json");
    let mut response = post.header("Accept", "application/json;odata=fullmetadata").send(body).unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

#[test]
fn what_comes_over_tls_goes_on_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tavola")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["cert", "--name", "somewhere.example", "--out", &path("")]);
    let (certificate, key) = (path("cert.pem"), path("key.pem"));
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--table-tls-port", "0"];
    let (first, _second) = pair(&keyspace("secure"), &tls);
    let partition = partition_of_the_other(&first);
    // The owner lets this token in only over TLS.
    let token = run(&["sas", "--table", "People", "--permissions", "a", "--expiry", "1h", "--https-only"]);
    let before = first.counted("tavola_forwarded_total");
    let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"secret"}}"#);
    let (status, text) = insert_over_tls(&first, token.trim(), &body);
    assert_eq!(status, 201, "{text}");
    assert_eq!(first.counted("tavola_forwarded_total"), before + 1);
    assert!(text.contains("\"odata.metadata\":\"https://"), "{text}");
}

fn messages_go_through_the_owner_of_their_queue(first: &Server, second: &Server) {
    let forwarded = || [first, second].map(|server| server.counted("tavola_forwarded_total"));
    let before = forwarded();
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
    let after = forwarded();
    let shares = [after[0] - before[0], after[1] - before[1]];
    assert_eq!(shares.iter().sum::<u64>(), 16 * 4);
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
}

#[test]
fn an_owner_that_goes_is_done_without() {
    let cluster = keyspace("gone");
    let (first, second) = pair(&cluster, &[]);
    an_owner_that_stops_hands_over_without_an_error(&first, &second);
    first.wait_for_members(1);
    let third = Server::start(&cluster, &[]);
    first.wait_for_members(2);
    an_owner_that_is_killed_is_missed_by_nobody(&first, third);
}

fn an_owner_that_stops_hands_over_without_an_error(first: &Server, second: &Server) {
    let partition = partition_of_the_other(first);
    let mut connection = first.tables();
    for row in 0..60 {
        if row == 10 {
            let stop = Command::new("kill").arg(second.server.process_id().to_string()).status().unwrap();
            assert!(stop.success());
        }
        let response = connection.send(&insert(&partition, &row.to_string())).unwrap();
        assert_eq!(response.status, 201, "row {row}: {}", response.text());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn an_owner_that_is_killed_is_missed_by_nobody(first: &Server, mut third: Server) {
    let partition = partition_of_the_other(first);
    let mut connection = first.tables();
    third.server.kill();
    for row in 0..20 {
        let response = connection.send(&insert(&partition, &format!("after{row}"))).unwrap();
        assert_eq!(response.status, 201, "{}", response.text());
    }
    first.wait_for_members(1);
    assert_eq!(connection.send(&insert(&partition, "afterall")).unwrap().status, 201);
    let query = format!("/People()?$filter=PartitionKey%20eq%20'{partition}'&$select=RowKey");
    let found = connection.send(&Request::get(query)).unwrap().text();
    assert_eq!(found.matches("after").count(), 21, "{found}");
}

fn a_partition_that_is_written_through_both_has_one_writer(first: &Server, second: &Server) {
    const NAMES: [&str; 4] = [
        "tavola_forwarded_total",
        "tavola_cql_transactions_total",
        "tavola_cql_conflicts_total",
        "tavola_forward_failures_total",
    ];
    let partition = partition_of_the_other(first);
    let counted = |server: &Server| NAMES.map(|name| server.counted(name));
    // After this one the second server, too, has seen the partition.
    assert_eq!(second.tables().send(&insert(&partition, "third")).unwrap().status, 201);
    let before = [counted(first), counted(second)];
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
    let since = |after: [u64; 4], before: [u64; 4]| [0, 1, 2, 3].map(|index| after[index] - before[index]);
    assert_eq!(since(counted(first), before[0]), [100, 0, 0, 0], "{NAMES:?}");
    assert_eq!(since(counted(second), before[1]), [0, 200, 0, 0], "{NAMES:?}");
}
