//! A port of its own for those who watch the server: is it alive, can it serve, what has it counted.
//!
//! | path | answers |
//! |---|---|
//! | `/health/live` | 200 as long as the process answers |
//! | `/health/ready` | 200 if the store answers a read now, else 503: a load balancer sends requests elsewhere |
//! | `/metrics` | counters, in the text form that Prometheus reads |
//!
//! One short request a connection, without a body; everything is bounded.

use std::sync::Arc;
use std::time::Duration;

use tavola_frontend::{Affinity, Shutdown};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::store::Store;

const HEAD_BYTES_MAX: usize = 8 * 1024;
const CONNECTIONS_MAX: usize = 32;
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
const PROBE_TIME_MAX: Duration = Duration::from_secs(3);

/// What is watched.
#[derive(Clone)]
pub struct Watched {
    /// Where rows are kept.
    pub store: Store,
    /// What there is to say of other servers on it.
    pub affinity: Option<Arc<Affinity>>,
}

/// Answers until told to stop.
pub async fn serve(socket: TcpListener, watched: Watched, mut shutdown: Shutdown) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = shutdown.wait_for(|stop| *stop) => return,
        };
        let (Ok((stream, _)), Ok(place)) = (accepted, room.clone().try_acquire_owned()) else { continue };
        let watched = watched.clone();
        tokio::spawn(async move {
            // Whoever asks too slowly, or hangs up, gets no answer.
            let _ = tokio::time::timeout(REQUEST_TIME_MAX, answer(stream, &watched)).await;
            drop(place);
        });
    }
}

async fn answer(mut stream: TcpStream, watched: &Watched) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, body) = match path_of(line) {
        Some("/health/live") => ("200 OK", "alive\n".to_owned()),
        Some("/health/ready") => ready(&watched.store).await,
        Some("/metrics") => ("200 OK", metrics(watched)),
        Some(_) => ("404 Not Found", "there are /health/live, /health/ready and /metrics\n".to_owned()),
        None => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// The path of a GET, without its query.
fn path_of(line: &[u8]) -> Option<&str> {
    let target = std::str::from_utf8(line).ok()?.strip_prefix("GET ")?.split(' ').next()?;
    target.split('?').next()
}

async fn ready(store: &Store) -> (&'static str, String) {
    match tokio::time::timeout(PROBE_TIME_MAX, store.probe()).await {
        Ok(Ok(())) => ("200 OK", "ready\n".to_owned()),
        Ok(Err(error)) => ("503 Service Unavailable", format!("{error}\n")),
        Err(_) => ("503 Service Unavailable", "the store does not answer\n".to_owned()),
    }
}

/// Every counter with what it counts.
fn metrics(watched: &Watched) -> String {
    let mut out = String::new();
    let mut show = |name: &str, help: &str, kind: &str, value: u64| {
        out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"));
    };
    show("tavola_up", "The process answers.", "gauge", 1);
    for (name, help, value) in watched.store.counters() {
        show(name, help, "counter", value);
    }
    for (name, help, value) in watched.store.gauges() {
        show(name, help, "gauge", value);
    }
    if let Some(affinity) = &watched.affinity {
        let metrics = affinity.metrics();
        show("tavola_members", "Servers on the cluster that are up.", "gauge", metrics.members);
        let forwarded = "Writes that the server which owns their partition answered.";
        show("tavola_forwarded_total", forwarded, "counter", metrics.forwarded);
        let failures = "Writes that were to be handed to another server, and could not.";
        show("tavola_forward_failures_total", failures, "counter", metrics.failures);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_frontend::Member;

    #[test]
    fn only_gets_have_a_path() {
        assert_eq!(path_of(b"GET /metrics HTTP/1.1"), Some("/metrics"));
        assert_eq!(path_of(b"GET /health/ready?x=1 HTTP/1.1"), Some("/health/ready"));
        assert_eq!(path_of(b"POST /metrics HTTP/1.1"), None);
        assert_eq!(path_of(b"\xFF"), None);
    }

    async fn ask(watched: Watched, path: &str) -> String {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let serving = tokio::spawn(serve(socket, watched, stopped));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        stop.send_replace(true);
        serving.await.unwrap();
        text
    }

    #[tokio::test]
    async fn a_server_that_can_serve_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let settings = tavola_engine_local::LocalSettings::new(folder.path());
        let clock = Arc::new(tavola_system::SystemClock);
        let store = Store::Local(tavola_engine_local::LocalEngine::open(settings, clock).unwrap());
        let member = Member {
            name: "a".into(),
            start_id: "1".into(),
            host: "a".into(),
            ports: Vec::new(),
            certificate: None,
        };
        let watched = Watched { store, affinity: Some(Affinity::new(member)) };
        for (path, status, word) in [
            ("/health/live", "200", "alive"),
            ("/health/ready", "200", "ready"),
            ("/metrics", "200", "\ntavola_up 1\n"),
            ("/metrics", "200", "\ntavola_members 1\n"),
            ("/other", "404", "there are"),
        ] {
            let text = ask(watched.clone(), path).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")) && text.contains(word), "{text}");
        }
    }
}
