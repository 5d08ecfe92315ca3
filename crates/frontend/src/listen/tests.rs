//! The front end over real connections: bodies and answers, whole and as streams, and what is refused.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use tavola_auth::{Account, AccountSas, Accounts, ServiceSas, sign_account_sas, sign_service_sas};
use tavola_engine::MemoryEngine;
use tavola_model::DateTime;
use tavola_service::{Service, ServiceSettings};
use tavola_system::{SystemClock, SystemRandom};
use tavola_telemetry::Recorder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

use super::*;
use crate::accounts::LiveAccounts;
use crate::azure_limits::AzureLimits;
use crate::pipeline::PipelineSettings;

mod contents;
mod limits;
mod logs;
mod records;

use contents::CutContents;

/// A hang guard; nothing here takes long.
const PATIENCE: Duration = Duration::from_secs(120);
const MIB: usize = 1024 * 1024;

/// A front end that serves tables and blobs.
struct Served {
    frontend: Arc<Frontend>,
    tables: SocketAddr,
    blobs: SocketAddr,
    contents: Arc<CutContents>,
    _stop: watch::Sender<bool>,
}

async fn serve(settings: FrontendSettings) -> Served {
    let recorder = Recorder::new(Vec::new(), Arc::new(SystemClock));
    serve_recorded(settings, Arc::new(recorder)).await
}

async fn serve_recorded(settings: FrontendSettings, recorder: Arc<Recorder>) -> Served {
    serve_limited(settings, recorder, None).await
}

async fn serve_limited(
    settings: FrontendSettings,
    recorder: Arc<Recorder>,
    limits: Option<Arc<AzureLimits>>,
) -> Served {
    let clock = Arc::new(SystemClock);
    let engine = Arc::new(MemoryEngine::new(clock.clone()));
    let contents = Arc::new(CutContents::new(clock.clone()));
    let service = Service::new(engine, clock.clone(), Arc::new(SystemRandom), ServiceSettings::default())
        .with_contents(contents.clone());
    service.start().await.unwrap();
    let accounts = LiveAccounts::new(Accounts::new(vec![Account::development()]).unwrap());
    let pipeline = Pipeline::new(accounts, service, clock, &SystemRandom, PipelineSettings::default());
    let frontend = Frontend::new(pipeline.with_recorder(recorder).with_limits(limits), settings).await;
    let (stop, stopped) = watch::channel(false);
    let mut addresses = Vec::new();
    for service in [StorageService::Table, StorageService::Blob] {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(socket.local_addr().unwrap());
        let listener = Listener { socket, service, tls: None };
        tokio::spawn(frontend.clone().serve(listener, stopped.clone()));
    }
    Served { frontend, tables: addresses[0], blobs: addresses[1], contents, _stop: stop }
}

/// A token for everything.
fn token() -> String {
    let sas = AccountSas {
        services: "bqt",
        resource_types: "sco",
        permissions: "rwdlacup",
        expiry: Some(DateTime::MAX),
        ..AccountSas::default()
    };
    sign_account_sas(&Account::development(), &sas).unwrap()
}

/// A token that may only read one table.
fn reading_token() -> String {
    let sas = ServiceSas {
        resource: "People",
        permissions: "r",
        expiry: Some(DateTime::MAX),
        ..ServiceSas::default()
    };
    sign_service_sas(&Account::development(), StorageService::Table, &sas).unwrap()
}

fn head(method: &str, target: &str, headers: &str) -> String {
    format!(
        "{method} /devstoreaccount1{target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n{headers}\r\n"
    )
}

/// The same for blobs, which need a version.
fn blob_head(method: &str, target: &str, headers: &str) -> String {
    head(method, target, &format!("x-ms-version: 2021-12-02\r\n{headers}"))
}

/// Bytes that differ from place to place.
fn bytes_of(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251).to_le_bytes()[0]).collect()
}

/// The target of a blob in the container `box`.
fn blob_target(name: &str) -> String {
    format!("/box/{name}?{}", token())
}

/// Makes the container `box`.
async fn make_container(served: &Served) {
    let mut stream = connect(served.blobs).await;
    let target = format!("/box?restype=container&{}", token());
    let (answer, _) =
        exchange(&mut stream, blob_head("PUT", &target, "Content-Length: 0\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

/// Puts a blob in the container `box`.
async fn put_blob(served: &Served, name: &str, body: &[u8]) {
    let mut stream = connect(served.blobs).await;
    let headers = format!("x-ms-blob-type: BlockBlob\r\nContent-Length: {}\r\n", body.len());
    let request = blob_head("PUT", &blob_target(name), &headers);
    let (answer, _) = exchange(&mut stream, &[request.as_bytes(), body].concat()).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

/// Sends bytes and reads the answer to its end.
async fn exchange(stream: &mut TcpStream, bytes: &[u8]) -> (String, Vec<u8>) {
    stream.write_all(bytes).await.unwrap();
    read_answer(stream, bytes.starts_with(b"HEAD")).await
}

async fn read_answer(stream: &mut TcpStream, is_head: bool) -> (String, Vec<u8>) {
    let read = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let length = length(&head);
        let mut body = vec![0; if is_head { 0 } else { length }];
        stream.read_exact(&mut body).await.unwrap();
        (head, body)
    };
    tokio::time::timeout(PATIENCE, read).await.unwrap()
}

fn length(head: &str) -> usize {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, value)| value.parse().unwrap())
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Waits until something is so.
async fn until(is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}

/// Makes the table People, with so many entities of so many bytes.
async fn fill(served: &Served, count: usize, bytes: usize) {
    let mut stream = connect(served.tables).await;
    let token = token();
    let json = |path: &str, body: &str| {
        let length = body.len();
        let headers = format!(
            "Content-Type: application/json\r\nPrefer: return-no-content\r\nContent-Length: {length}\r\n"
        );
        head("POST", &format!("{path}?{token}"), &headers) + body
    };
    let (answer, _) = exchange(&mut stream, json("/Tables", r#"{"TableName":"People"}"#).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    for number in 0..count {
        let text = "a".repeat(bytes.min(30_000));
        let names: Vec<String> = (0..bytes.div_ceil(30_000)).map(|n| format!(r#""x{n}":"{text}""#)).collect();
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{number:03}",{}}}"#, names.join(","));
        let (answer, _) = exchange(&mut stream, json("/People", &body).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_stay_within_the_budget() {
    let settings = FrontendSettings { inflight_bytes_max: 4 * MIB, ..FrontendSettings::default() };
    let served = serve(settings).await;
    fill(&served, 60, 30_000).await;
    let request = head("GET", &format!("/People()?{}", reading_token()), "");
    let mut stuck = Vec::new();
    for _ in 0..40 {
        let mut stream = connect(served.tables).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        // The answer has begun, so it exists as a whole.
        stream.read_u8().await.unwrap();
        stuck.push(stream);
    }
    let held = served.frontend.transfers.answers.held();
    assert!(held <= 4 * MIB, "{held} bytes are held");
    let mut other = connect(served.tables).await;
    let request = head("GET", &format!("/People()?{}", token()), "");
    let (answer, body) = exchange(&mut other, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(body.len() > 30_000, "another caller gets a page: {} bytes", body.len());
    drop((stuck, other));
    until(|| served.frontend.transfers.answers.held() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_cannot_write_gets_no_reservation_for_a_body() {
    let served = serve(FrontendSettings::default()).await;
    fill(&served, 0, 0).await;
    let headers =
        format!("Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n", 8 * MIB);
    let mut stream = connect(served.tables).await;
    let request = head("POST", &format!("/People?{}", reading_token()), &headers);
    let (answer, _) = exchange(&mut stream, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "no 100 Continue comes first: {answer}");
    let mut stream = connect(served.tables).await;
    let (answer, _) = exchange(&mut stream, head("POST", "/People", &headers).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "no 100 Continue comes first: {answer}");
    let mut stream = connect(served.tables).await;
    let request = head("POST", &format!("/People?{}", token()), &headers);
    stream.write_all(request.as_bytes()).await.unwrap();
    let (answer, _) = read_answer(&mut stream, true).await;
    assert!(answer.starts_with("HTTP/1.1 100"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_reserved_as_they_arrive() {
    let served = serve(FrontendSettings::default()).await;
    fill(&served, 0, 0).await;
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", 8 * MIB);
    let request = head("POST", &format!("/People?{}", token()), &headers);
    let bodies = || served.frontend.transfers.bodies.held();
    let mut announced = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(served.tables).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.write_all(&[b' '; 100_000]).await.unwrap();
        announced.push(stream);
    }
    until(|| bodies() >= 20 * 100_000).await;
    assert!(bodies() <= 20 * 2 * 65_536, "{} bytes are held", bodies());
    drop(announced);
    until(|| bodies() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_over_its_bound_is_refused() {
    let served = serve(FrontendSettings::default()).await;
    for (kib, status) in [(60, "404"), (66, "431"), (100, "431")] {
        let mut stream = connect(served.tables).await;
        let request = head("GET", "/People", &format!("x-long: {}\r\n", "a".repeat(kib * 1024)));
        let (answer, _) = exchange(&mut stream, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{kib} KiB: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_do_not_shut_others_out() {
    let settings = FrontendSettings { connections_max: 8, ..FrontendSettings::default() };
    let served = serve(settings).await;
    let request = head("GET", "/People", "");
    let mut idle = Vec::new();
    for number in 0..40 {
        let mut stream = connect(served.tables).await;
        if number % 2 == 0 {
            let (answer, _) = exchange(&mut stream, request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        }
        idle.push(stream);
    }
    let mut newcomer = connect(served.blobs).await;
    let target = format!("/?comp=list&{}", token());
    let (answer, _) = exchange(&mut newcomer, blob_head("GET", &target, "").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_larger_than_the_budget_streams_through_it() {
    let settings = FrontendSettings { inflight_bytes_max: MIB, ..FrontendSettings::default() };
    let served = serve(settings).await;
    make_container(&served).await;
    let body = bytes_of(10 * MIB + 7);
    put_blob(&served, "announced", &body).await;
    let mut stream = connect(served.blobs).await;
    let headers = "x-ms-blob-type: BlockBlob\r\nTransfer-Encoding: chunked\r\n";
    let request = blob_head("PUT", &blob_target("chunked"), headers);
    let chunk = format!("{:x}\r\n", body.len());
    let bytes = [request.as_bytes(), chunk.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    let (answer, _) = exchange(&mut stream, &bytes).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    for name in ["announced", "chunked"] {
        let request = blob_head("GET", &blob_target(name), "");
        let (_, stored) = exchange(&mut stream, request.as_bytes()).await;
        assert!(stored == body, "{name}: {} bytes", stored.len());
    }
    until(|| served.frontend.transfers.bodies.held() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_beyond_its_maximum_is_refused() {
    let served = serve(FrontendSettings::default()).await;
    make_container(&served).await;
    let mut stream = connect(served.blobs).await;
    let headers = "x-ms-blob-type: AppendBlob\r\nContent-Length: 0\r\n";
    let request = blob_head("PUT", &blob_target("log"), headers);
    let (answer, _) = exchange(&mut stream, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let target = format!("{}&comp=appendblock", blob_target("log"));
    let request = blob_head("PUT", &target, "Transfer-Encoding: chunked\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let piece = vec![b'x'; MIB];
    let sending = tokio::spawn(async move {
        loop {
            let sent = async {
                writer.write_all(format!("{MIB:x}\r\n").as_bytes()).await?;
                writer.write_all(&piece).await?;
                writer.write_all(b"\r\n").await
            };
            if sent.await.is_err() {
                return;
            }
        }
    });
    let mut answer = vec![0; 12];
    tokio::time::timeout(PATIENCE, reader.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), "HTTP/1.1 413");
    sending.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_is_made_as_it_is_taken_and_head_tells_its_length() {
    let settings = FrontendSettings { inflight_bytes_max: MIB, ..FrontendSettings::default() };
    let served = serve(settings).await;
    make_container(&served).await;
    let expected = bytes_of(30 * MIB);
    put_blob(&served, "large", &expected).await;
    let target = blob_target("large");
    let mut stream = connect(served.blobs).await;
    let (answer, _) = exchange(&mut stream, blob_head("HEAD", &target, "").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200") && length(&answer) == expected.len(), "{answer}");
    stream.write_all(blob_head("GET", &target, "").as_bytes()).await.unwrap();
    until(|| served.frontend.transfers.answers.held() > 0).await;
    assert!(served.frontend.transfers.answers.held() <= MIB, "only what is on its way is held");
    let (answer, body) = read_answer(&mut stream, false).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(body == expected, "{} bytes", body.len());
    until(|| served.frontend.transfers.answers.held() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_that_fails_midway_ends_the_connection() {
    let served = serve(FrontendSettings::default()).await;
    make_container(&served).await;
    put_blob(&served, "cut", &bytes_of(MIB)).await;
    served.contents.is_cut.store(true, Ordering::SeqCst);
    let mut stream = connect(served.blobs).await;
    stream.write_all(blob_head("GET", &blob_target("cut"), "").as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap();
    assert!(ended.is_err() || bytes.len() < MIB, "{} bytes", bytes.len());
    until(|| served.frontend.transfers.answers.held() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_is_answered_with_the_length_of_what_get_would_send() {
    let served = serve(FrontendSettings::default()).await;
    fill(&served, 3, 100).await;
    let target = format!("/People()?{}", token());
    let mut stream = connect(served.tables).await;
    let (_, body) = exchange(&mut stream, head("GET", &target, "").as_bytes()).await;
    let (answer, _) = exchange(&mut stream, head("HEAD", &target, "").as_bytes()).await;
    assert_eq!(length(&answer), body.len(), "{answer}");
    assert!(!body.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_vary_by_origin_once_there_are_cors_rules() {
    let served = serve(FrontendSettings::default()).await;
    fill(&served, 1, 100).await;
    let target = format!("/People()?{}", token());
    let varies = |answer: &str| answer.to_ascii_lowercase().contains("\r\nvary: origin\r\n");
    let mut stream = connect(served.tables).await;
    let (answer, _) = exchange(&mut stream, head("GET", &target, "").as_bytes()).await;
    assert!(!varies(&answer), "{answer}");
    let rules = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a</AllowedOrigins>\
                 <AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>5</MaxAgeInSeconds>\
                 <ExposedHeaders></ExposedHeaders><AllowedHeaders></AllowedHeaders></CorsRule></Cors>\
                 </StorageServiceProperties>";
    let set = format!("/?restype=service&comp=properties&{}", token());
    let length = format!("Content-Length: {}\r\n", rules.len());
    let (answer, _) = exchange(&mut stream, (head("PUT", &set, &length) + rules).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    for origin in ["", "Origin: http://a\r\n", "Origin: http://b\r\n"] {
        let (answer, _) = exchange(&mut stream, head("GET", &target, origin).as_bytes()).await;
        assert!(varies(&answer), "{origin} {answer}");
    }
}
