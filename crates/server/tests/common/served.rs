//! A server on a folder, requests to it, and what its advisor says.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tavola_testkit::{Connection, DataFolder, Request, Response, ServerOptions, TestServer};

use super::{succeed, tavola, text};

/// Longer than anything takes, on any machine.
pub const HANG: Duration = Duration::from_secs(120);

/// Starts the program on a folder. Every request is recorded, however fast they come.
pub fn serve(data_dir: &Path) -> TestServer {
    let options = ServerOptions {
        binary: Some(PathBuf::from(env!("CARGO_BIN_EXE_tavola"))),
        data: DataFolder::At(data_dir.to_owned()),
        arguments: vec!["--records-per-second".into(), "1000000".into()],
    };
    TestServer::start_with(&options).unwrap()
}

/// Sends a request that must succeed.
#[track_caller]
pub fn send(connection: &mut Connection, request: &Request) -> Response {
    let response = connection.send(request).unwrap();
    assert!((200..300).contains(&response.status), "{}: {}", request.target, response.text());
    response
}

/// What the advisor says about a folder, or about the server that runs on it.
pub fn advised(data_dir: &Path) -> Value {
    serde_json::from_str(&succeed(tavola(["advise", "--data", text(data_dir), "--json"]))).unwrap()
}

/// Ends a server as a service manager does, and waits until it is gone. All records have then arrived.
pub fn stop(mut server: TestServer) {
    let id = server.process_id();
    let pid = rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let begun = Instant::now();
    while std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z")) {
        assert!(begun.elapsed() < HANG, "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    server.kill();
}
