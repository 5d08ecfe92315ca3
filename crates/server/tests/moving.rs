//! `tavola export` and `tavola import` as a user runs them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{contents, fail, fill, run_killed, succeed, tavola, text};
use http::Method;
use tavola_testkit::{Connection, DataFolder, QueueConnection, Request, ServerOptions, TestServer};

/// Kills of each command.
const KILLS: u32 = 6;

fn export(data_dir: &Path, out: &Path) -> Command {
    tavola(["export", "--data", text(data_dir), "--out", text(out)])
}

fn import(from: &Path, data_dir: &Path) -> Command {
    tavola(["import", "--from", text(from), "--data", text(data_dir)])
}

fn serve(data_dir: &Path) -> TestServer {
    let options = ServerOptions {
        binary: Some(PathBuf::from(env!("CARGO_BIN_EXE_tavola"))),
        data: DataFolder::At(data_dir.to_owned()),
        ..ServerOptions::default()
    };
    TestServer::start_with(&options).unwrap()
}

/// Times at which a command is killed, spread by chance over the time that it takes, the earliest first. The first is
/// so early that a kill comes before its end however much faster the machine has become meanwhile.
fn times(random: &mut fastrand::Rng, taken: Duration) -> impl Iterator<Item = Duration> {
    let spread =
        (0..KILLS).map(move |index| taken.mul_f64((f64::from(index) + random.f64()) / f64::from(KILLS)));
    std::iter::once(Duration::from_millis(1)).chain(spread)
}

#[test]
fn killed_at_any_moment_an_export_and_an_import_go_on_and_come_to_the_same() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fill(&path("old"), seed, 800);
    let before = contents(&path("old"));

    let began = Instant::now();
    succeed(export(&path("old"), &path("whole")));
    let taken = began.elapsed();
    let kills = run_killed(|| export(&path("old"), &path("out")), times(&mut random, taken));
    assert!(kills > 0, "the export was never killed");
    for entry in std::fs::read_dir(path("whole")).unwrap() {
        let name = entry.unwrap().file_name();
        if name.to_string_lossy().ends_with(".rows") {
            let read = |folder: &str| std::fs::read(path(folder).join(&name)).unwrap();
            assert!(read("out") == read("whole"), "{name:?} differs (seed={seed})");
        }
    }

    let began = Instant::now();
    succeed(import(&path("whole"), &path("straight")));
    let taken = began.elapsed();
    let kills = run_killed(|| import(&path("out"), &path("new")), times(&mut random, taken));
    assert!(kills > 0, "the import was never killed");
    assert!(before.len() > 30_000, "{} rows", before.len());
    assert!(contents(&path("straight")) == before, "a straight import differs");
    assert!(contents(&path("new")) == before, "an import that was killed differs (seed={seed})");
    assert!(contents(&path("old")) == before, "the old folder has changed");
}

#[test]
fn a_folder_whose_server_runs_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fill(&path("other"), 1, 3);
    succeed(export(&path("other"), &path("out")));
    let server = serve(&path("data"));
    let running = "a server is running on";
    let said = fail(export(&path("data"), &path("no")));
    assert!(said.contains(running) && said.contains("stop it first"), "{said}");
    let said = fail(import(&path("out"), &path("data")));
    assert!(said.contains(running), "{said}");
    drop(server);
    let said = fail(export(&path("nowhere"), &path("no")));
    assert!(said.contains("there is no data folder"), "{said}");
    assert!(!path("nowhere").exists());
}

#[test]
fn a_half_imported_folder_is_neither_served_nor_exported_nor_taken_for_another_import() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fill(&path("old"), 1, 800);
    succeed(export(&path("old"), &path("out")));
    fill(&path("other"), 2, 3);
    succeed(export(&path("other"), &path("other-out")));
    let unfinished = "not finished";
    import_half(&path("out"), &path("new"), unfinished);
    let said = fail(tavola([
        "serve",
        "--data",
        text(&path("new")),
        "--blob-port",
        "0",
        "--table-port",
        "0",
        "--queue-port",
        "0",
    ]));
    assert!(said.contains(unfinished) && said.contains("tavola import"), "{said}");
    let said = fail(export(&path("new"), &path("no")));
    assert!(said.contains(unfinished), "{said}");
    let said = fail(import(&path("other-out"), &path("new")));
    assert!(said.contains("another folder") && said.contains(unfinished), "{said}");
    succeed(import(&path("out"), &path("new")));
    assert!(contents(&path("new")) == contents(&path("old")));
    let said = fail(import(&path("out"), &path("new")));
    assert!(said.contains("the store is not empty"), "{said}");
}

/// Kills an import in its midst: earlier if it was done before the kill, later if it had not begun.
fn import_half(from: &Path, data_dir: &Path, unfinished: &str) {
    let mut wait = Duration::from_millis(50);
    for attempt in 0..100 {
        let mut child = import(from, data_dir).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(wait);
        child.kill().unwrap();
        let is_done = child.wait().unwrap().success();
        let out = data_dir.with_extension(format!("probe-{attempt}"));
        let probe = export(data_dir, &out).output().unwrap();
        if String::from_utf8_lossy(&probe.stderr).contains(unfinished) {
            return;
        }
        wait = if is_done { wait.mul_f64(0.6) } else { wait.mul_f64(1.3) };
        let _ = std::fs::remove_dir_all(data_dir);
    }
    panic!("no import was killed in its midst");
}

/// What a server answers, but for what tells one server from another.
fn answer(connection: &mut Connection, request: &Request) -> (u16, Vec<(String, String)>, String) {
    let response = connection.send(request).unwrap();
    let differs = |name: &str| matches!(name, "date" | "x-ms-request-id" | "x-ms-client-request-id");
    let mut headers = response.headers.clone();
    headers.retain(|(name, _)| !differs(&name.to_ascii_lowercase()));
    (response.status, headers, response.text())
}

fn xml(request: Request) -> Request {
    request.with_header("Accept", "application/xml")
}

fn table_requests() -> Vec<Request> {
    let full = |request: Request| request.with_header("Accept", "application/json;odata=fullmetadata");
    let mut requests = vec![
        Request::get("/Tables"),
        Request::get("/People()"),
        Request::get("/People()?$filter=Age%20gt%2010"),
        Request::get("/Empty()"),
        xml(Request::get("/People?comp=acl")),
        xml(Request::get("/?restype=service&comp=properties")),
    ];
    requests
        .extend((0..5).map(|number| Request::get(format!("/People(PartitionKey='p{number}',RowKey='r')"))));
    // Links name the host, which is another one.
    requests.push(full(Request::get("/People(PartitionKey='p1',RowKey='r')?$select=Age")));
    requests
}

#[test]
fn a_server_on_the_new_folder_answers_as_the_old_one_did() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let server = serve(&path("old"));
    let mut tables = Connection::open(server.table_endpoint()).unwrap();
    let mut queue = QueueConnection::open(server.queue_endpoint(), "jobs").unwrap();
    let post = |target: &str, body: String| Request::new(Method::POST, target).with_json(body);
    for name in ["People", "Empty"] {
        assert_eq!(
            tables.send(&post("/Tables", format!(r#"{{"TableName":"{name}"}}"#))).unwrap().status,
            201
        );
    }
    for number in 0..200 {
        let (partition, row) = (number % 5, if number < 5 { "r".to_owned() } else { format!("r{number}") });
        let body = format!(
            r#"{{"PartitionKey":"p{partition}","RowKey":"{row}","Age":{number},"Name":"Ada \u00e4 \ud83d\ude00"}}"#
        );
        assert_eq!(tables.send(&post("/People", body)).unwrap().status, 201);
    }
    let policy = "<SignedIdentifiers><SignedIdentifier><Id>read</Id><AccessPolicy><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    let put =
        |target: &str, body: &str| xml(Request::new(Method::PUT, target).with_body("application/xml", body));
    assert_eq!(tables.send(&put("/People?comp=acl", policy)).unwrap().status, 204);
    let properties = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>5</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>";
    let request = put("/?restype=service&comp=properties", properties);
    assert_eq!(tables.send(&request).unwrap().status, 202);
    queue.create().unwrap();
    for number in 0..3 {
        queue.put(&format!("message {number}")).unwrap();
    }
    let hidden_seconds = 20;
    let hidden = queue.get(1, hidden_seconds).unwrap().remove(0);
    let hidden_since = Instant::now();
    let old_host = server.table_endpoint().to_owned();
    let before: Vec<_> = table_requests().iter().map(|request| answer(&mut tables, request)).collect();
    assert!(before.iter().all(|(status, ..)| *status == 200), "{before:?}");
    drop(server);

    succeed(export(&path("old"), &path("out")));
    succeed(import(&path("out"), &path("new")));
    let server = serve(&path("new"));
    let mut tables = Connection::open(server.table_endpoint()).unwrap();
    let mut queue = QueueConnection::open(server.queue_endpoint(), "jobs").unwrap();
    for (request, before) in table_requests().iter().zip(before) {
        let (status, headers, body) = answer(&mut tables, request);
        let body = body.replace(server.table_endpoint(), &old_host);
        assert_eq!((status, headers, body), before, "{}", request.target);
    }
    // The ETag of before still opens the entity.
    let etag = tables.send(&Request::get("/People(PartitionKey='p1',RowKey='r')")).unwrap();
    let etag = etag.header("etag").unwrap().to_owned();
    let delete =
        Request::new(Method::DELETE, "/People(PartitionKey='p1',RowKey='r')").with_header("If-Match", etag);
    assert_eq!(tables.send(&delete).unwrap().status, 204);

    assert_eq!(queue.count().unwrap(), 3);
    let visible = queue.get(32, 600).unwrap();
    if hidden_since.elapsed() < Duration::from_secs(u64::from(hidden_seconds) - 1) {
        let texts: Vec<&str> = visible.iter().map(|message| message.text.as_str()).collect();
        assert_eq!(texts, ["message 1", "message 2"], "the first is still hidden");
    }
    let wait = Duration::from_secs(u64::from(hidden_seconds) + 1).saturating_sub(hidden_since.elapsed());
    std::thread::sleep(wait);
    let again = queue.get(32, 600).unwrap();
    let again: Vec<_> = visible.into_iter().chain(again).filter(|message| message.id == hidden.id).collect();
    assert_eq!(again.len(), 1, "it comes back when its time has come");
    assert_eq!((again[0].dequeue_count, &again[0].text), (2, &hidden.text));
}
