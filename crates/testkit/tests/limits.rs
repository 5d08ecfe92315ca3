//! Greedy and slow clients against the real server, all at once: each is ended within its bound, others are
//! answered meanwhile, and memory stays below a stated size.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use tavola_testkit::{Connection, Request, ServerOptions, TestServer};

const HANDSHAKE: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(6);
const HEAD: Duration = Duration::from_secs(2);
const BODY: Duration = Duration::from_secs(8);
/// The server's own: how long a body may come too slowly.
const BODY_GRACE: Duration = Duration::from_secs(5);
/// The server's own: how long the large body of someone without credentials is read.
const STRANGER: Duration = Duration::from_secs(2);
const BODY_RATE_MIN: usize = 50_000;
const INFLIGHT_MIB: u64 = 32;
const HEAD_KIB: usize = 16;
const HEADERS_MAX: usize = 50;
const CONNECTIONS_MAX: usize = 4000;

/// Beyond a bound by this much, the server does not keep it at all. A guard against a hang and no measure: a busy
/// machine may take long.
const SLACK: Duration = Duration::from_secs(120);

const IDLE_CLIENTS_MAX: usize = 3000;
const SLOW_CLIENTS: usize = 40;
const LARGE_BODIES: usize = 60;
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Of the most that the server may ever take: what it starts with, twice the bytes in flight (a body that grows is
/// copied), and what its connections read heads into.
const RSS_MIB_MAX: u64 = 96 + 2 * INFLIGHT_MIB + (CONNECTIONS_MAX * HEAD_KIB) as u64 / 1024;

#[test]
fn every_greedy_client_is_ended_within_its_bound_while_others_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let tls_port = free_port();
    let server = start(folder.path(), tls_port);
    let host = server.table_endpoint().trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let host = host.as_str();
    let tls_host = format!("127.0.0.1:{tls_port}");
    let mut connection = Connection::open(server.table_endpoint()).unwrap();
    let made = connection.send(&Request::new(Method::POST, "/Tables").with_json(r#"{"TableName":"Bound"}"#));
    assert_eq!(made.unwrap().status, 201);

    let endpoint = server.table_endpoint();
    let is_over = AtomicBool::new(false);
    let slowest = std::thread::scope(|scope| {
        let others = scope.spawn(|| answer_others(endpoint, &is_over));
        let greedy = [
            scope.spawn(|| idle_connections(host)),
            scope.spawn(|| idle_handshakes(&tls_host)),
            scope.spawn(|| slow_heads(host)),
            scope.spawn(|| slow_bodies(host)),
            scope.spawn(|| {
                a_long_body_at_a_good_rate(host, &signed_post(endpoint, "content-length: 8000000"))
            }),
            scope.spawn(|| a_long_body_of_a_stranger(host)),
            scope.spawn(|| oversized_heads(host)),
            scope.spawn(|| oversized_bodies(endpoint)),
            scope.spawn(|| bodies_without_end(host, &signed_post(endpoint, "transfer-encoding: chunked"))),
            scope.spawn(|| many_large_bodies(host, endpoint)),
        ];
        let results: Vec<_> = greedy.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        let slowest = others.join().unwrap();
        assert!(results.iter().all(Result::is_ok), "a bound was not kept");
        slowest
    });
    let peak = peak_rss_mib(server.process_id());
    println!(
        "peak RSS {peak} MiB of at most {RSS_MIB_MAX}; slowest answer to others {} ms",
        slowest.as_millis()
    );
    assert!(peak <= RSS_MIB_MAX, "peak RSS {peak} MiB");
    let log = server.log();
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}

fn start(folder: &std::path::Path, tls_port: u16) -> TestServer {
    let binary = tavola_testkit::server_binary().unwrap();
    let made = Command::new(&binary).args(["cert", "--out"]).arg(folder).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let seconds = |time: Duration| time.as_secs().to_string();
    let flags = [
        ("--tls-cert", file("cert.pem")),
        ("--tls-key", file("key.pem")),
        ("--table-tls-port", tls_port.to_string()),
        ("--connections-max", CONNECTIONS_MAX.to_string()),
        ("--headers-max", HEADERS_MAX.to_string()),
        ("--head-kb", HEAD_KIB.to_string()),
        ("--inflight-mb", INFLIGHT_MIB.to_string()),
        ("--handshake-seconds", seconds(HANDSHAKE)),
        ("--idle-seconds", seconds(IDLE)),
        ("--head-seconds", seconds(HEAD)),
        ("--body-seconds", seconds(BODY)),
        ("--body-rate-min", BODY_RATE_MIN.to_string()),
    ];
    let arguments = flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
    TestServer::start_with(&ServerOptions { binary: Some(binary), arguments, ..ServerOptions::default() })
        .unwrap()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A client that behaves, asking all the time; gives its longest wait.
fn answer_others(endpoint: &str, is_over: &AtomicBool) -> Duration {
    let mut connection = Connection::open(endpoint).unwrap();
    let mut slowest = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        assert_eq!(connection.send(&Request::get("/Bound()")).unwrap().status, 200);
        slowest = slowest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(slowest < SLACK, "others waited {slowest:?}");
    slowest
}

fn connect(host: &str) -> TcpStream {
    let stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(BODY + SLACK * 2)).unwrap();
    stream.set_write_timeout(Some(BODY + SLACK * 2)).unwrap();
    stream
}

/// Whatever is received until the server hangs up; fails if it does not.
fn received(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server did not hang up: {error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn check_time(what: &str, started: Instant, bound: Duration) {
    let took = started.elapsed();
    println!("{what}: ended after {:.1} s", took.as_secs_f64());
    assert!(took < bound + SLACK, "{what} took {took:?}");
}

fn idle_connections(host: &str) {
    let count = IDLE_CLIENTS_MAX.min(open_files_max().saturating_sub(500) / 2);
    let started = Instant::now();
    let streams: Vec<TcpStream> = (0..count).map(|_| connect(host)).collect();
    let all_open = Instant::now();
    for stream in streams {
        assert_eq!(received(stream), "");
    }
    assert!(started.elapsed() >= IDLE, "an idle connection was not left its time");
    check_time(&format!("{count} idle connections"), all_open, IDLE);
}

/// How many files this process may open; the server has the same limit.
fn open_files_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX)
}

fn idle_handshakes(host: &str) {
    let started = Instant::now();
    let streams: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| connect(host)).collect();
    for stream in streams {
        received(stream);
    }
    check_time("handshakes that do not begin", started, HANDSHAKE);
}

fn slow_heads(host: &str) {
    let started = Instant::now();
    let mut streams: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| connect(host)).collect();
    let mut drip = "GET /devstoreaccount1/Bound() HTTP/1.1\r\nHost: 127.0.0.1\r\nx-slow: ".bytes();
    while started.elapsed() < HEAD + SLACK && !streams.is_empty() {
        let byte = [drip.next().unwrap_or(b'x')];
        streams.retain_mut(|stream| stream.write_all(&byte).is_ok());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(streams.is_empty(), "{} slow heads are still let in", streams.len());
    check_time("heads of a byte at a time", started, HEAD);
}

const POST: &str =
    "POST /devstoreaccount1/Bound HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";

fn slow_bodies(host: &str) {
    let started = Instant::now();
    let mut streams: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| connect(host)).collect();
    for stream in &mut streams {
        stream.write_all(format!("{POST}Content-Length: 10000\r\n\r\n").as_bytes()).unwrap();
    }
    let mut open = streams.len();
    while started.elapsed() < BODY_GRACE + SLACK && open > 0 {
        open = streams.iter_mut().filter_map(|stream| stream.write_all(b"x").ok()).count();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(open, 0, "slow bodies are still let in");
    check_time("bodies of a byte at a time", started, BODY_GRACE);
}

/// The head of a signed insert whose body is framed like this.
fn signed_post(endpoint: &str, framing: &str) -> String {
    let connection = Connection::open(endpoint).unwrap();
    let insert = Request::new(Method::POST, "/Bound").with_json("{}");
    let signed = String::from_utf8(connection.signed(&insert).unwrap()).unwrap();
    let (head, _) = signed.split_once("\r\n\r\n").unwrap();
    format!("{}\r\n\r\n", head.replace("content-length: 2", framing))
}

/// A large body of someone without credentials is thrown away for a moment, then its sender is told.
fn a_long_body_of_a_stranger(host: &str) {
    let started = Instant::now();
    let pieces = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(100));
        b"x".to_vec()
    });
    let head = format!("{POST}Connection: close\r\nContent-Length: 8000000\r\n\r\n");
    let answer = push(host, &head, pieces.take_while(|_| started.elapsed() < STRANGER));
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    check_time("a large body of a stranger", started, STRANGER);
}

fn a_long_body_at_a_good_rate(host: &str, head: &str) {
    let started = Instant::now();
    let mut stream = connect(host);
    stream.write_all(head.as_bytes()).unwrap();
    let piece = vec![b'x'; BODY_RATE_MIN / 5];
    // On a machine so busy that we cannot keep the rate, the server may end it before its time.
    let (mut slowest, mut sent) = (Duration::ZERO, Instant::now());
    while started.elapsed() < BODY + SLACK && stream.write_all(&piece).is_ok() {
        std::thread::sleep(Duration::from_millis(100));
        slowest = slowest.max(sent.elapsed());
        sent = Instant::now();
    }
    let is_kept = slowest < Duration::from_secs(1) && sent.elapsed() < Duration::from_secs(1);
    assert!(started.elapsed() >= BODY || !is_kept, "a body of a good rate was not left its time");
    received(stream);
    check_time("a body that takes too long", started, BODY);
}

/// Sends what the server will not read to its end, and gives what it says to that.
fn push(host: &str, head: &str, pieces: impl Iterator<Item = Vec<u8>>) -> String {
    let mut stream = connect(host);
    let mut reader = stream.try_clone().unwrap();
    // Read all along: what is sent after the server has hung up resets the connection and loses its answer.
    let answer = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = reader.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..length]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let mut is_taken = stream.write_all(head.as_bytes()).is_ok();
    for piece in pieces {
        is_taken = is_taken && stream.write_all(&piece).is_ok();
        if !is_taken {
            break;
        }
    }
    answer.join().unwrap()
}

fn oversized_heads(host: &str) {
    let started = Instant::now();
    let get = |path: &str, headers: &str| {
        format!("GET /devstoreaccount1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n")
    };
    let long_url = get(&"x".repeat(HEAD_KIB * 1024), "");
    let long_header = get("Bound()", &format!("x-long: {}\r\n", "x".repeat(HEAD_KIB * 1024)));
    let many_headers = get("Bound()", &"x-many: 1\r\n".repeat(HEADERS_MAX));
    let at_the_limit = get("Bound()", &"x-many: 1\r\n".repeat(HEADERS_MAX - 2))
        .replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    for (head, status) in [(long_url, 4), (long_header, 431), (many_headers, 431), (at_the_limit, 404)] {
        let answer = push(host, &head, std::iter::empty());
        let line = answer.lines().next().unwrap_or_default();
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{} ... was answered {line:?}", &head[..60]);
    }
    let endless = push(host, "GET /", std::iter::repeat_with(|| vec![b'x'; 65_536]));
    assert!(endless.is_empty() || endless.starts_with("HTTP/1.1 4"), "{endless}");
    check_time("oversized heads", started, HEAD);
}

fn oversized_bodies(endpoint: &str) {
    let started = Instant::now();
    let mut connection = Connection::open(endpoint).unwrap();
    let insert = Request::new(Method::POST, "/Bound").with_json("{}");
    let signed = String::from_utf8(connection.signed(&insert).unwrap()).unwrap();
    let declared = signed.replace("content-length: 2", "content-length: 99999999999");
    let answer = connection.send_raw(declared.as_bytes(), &Method::POST).unwrap();
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert!(answer.text().contains("RequestBodyTooLarge"), "{}", answer.text());
    check_time("a body declared too large", started, Duration::ZERO);
}

fn bodies_without_end(host: &str, head: &str) {
    let started = Instant::now();
    for size in [1, 65_536] {
        let mut sent = 0;
        let piece =
            format!("{size:x}\r\n{}\r\n", "x".repeat(size)).repeat((65_536 / size).max(1)).into_bytes();
        let pieces = std::iter::repeat_with(|| {
            sent += 65_536;
            assert!(sent < 8 * BODY_BYTES_MAX, "chunks of {size} are let in without end");
            piece.clone()
        });
        push(host, head, pieces);
    }
    check_time("chunks without end", started, BODY * 2);
}

fn many_large_bodies(host: &str, endpoint: &str) {
    let started = Instant::now();
    let body = vec![b'x'; BODY_BYTES_MAX - 1];
    let head = signed_post(endpoint, &format!("connection: close\r\ncontent-length: {}", body.len()));
    let answered = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..LARGE_BODIES)
            .map(|_| scope.spawn(|| push(host, &head, body.chunks(1 << 20).map(<[u8]>::to_vec))))
            .collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.filter(|answer| answer.starts_with("HTTP/1.1 ")).count()
    });
    println!("{answered} of {LARGE_BODIES} large bodies were answered");
    assert!(answered > 0, "no large body was answered");
    // Bodies that find the budget used up wait ten seconds for it.
    check_time("large bodies", started, BODY + Duration::from_secs(10));
}

fn peak_rss_mib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}
