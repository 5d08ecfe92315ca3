//! The health port: is the server alive, can it serve, what has it counted.
//!
//! | path | answers |
//! |---|---|
//! | `/health/live` | 200 as long as the process answers |
//! | `/health/ready` | 200 if the store answers a read now, else 503: a load balancer sends requests elsewhere |
//! | `/metrics` | counters and gauges, in the text form that Prometheus reads |
//!
//! One short request a connection, without a body; everything is bounded. Connections that have not sent a request
//! never shut out one that does: when all are taken, the oldest of them is closed, from the address that holds most.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tavola_frontend::{Shutdown, accept};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::metrics::{self, MetricSources};

/// The least that hyper takes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
const CONNECTIONS_MAX: usize = 64;
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
const PROBE_TIME_MAX: Duration = Duration::from_secs(3);

/// Answers until told to stop.
pub async fn serve(socket: TcpListener, watched: MetricSources, mut shutdown: Shutdown) {
    let connections = Arc::new(Connections::default());
    loop {
        let (stream, peer) = tokio::select! {
            accepted = accept("health", || socket.accept()) => accepted,
            _ = shutdown.wait_for(|stop| *stop) => return,
        };
        connections.open(peer.ip(), |slot| converse(stream, watched.clone(), slot));
    }
}

/// One request, one answer.
async fn converse(stream: TcpStream, watched: MetricSources, slot: Slot) {
    let service = service_fn(|request: Request<Incoming>| {
        slot.has_request.store(true, Ordering::Relaxed);
        let watched = watched.clone();
        async move { Ok::<_, Infallible>(answer(&request, &watched).await) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HEAD_BYTES_MAX).timer(TokioTimer::new());
    http.header_read_timeout(HEAD_TIME_MAX);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    // Whoever asks too slowly, sends no HTTP or hangs up gets no answer; there is nothing to do about it here.
    let _ = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await;
}

async fn answer(request: &Request<Incoming>, watched: &MetricSources) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    }
    match request.uri().path() {
        "/health/live" => text(StatusCode::OK, "alive\n"),
        "/health/ready" => match tokio::time::timeout(PROBE_TIME_MAX, watched.store.probe()).await {
            Ok(Ok(())) => text(StatusCode::OK, "ready\n"),
            Ok(Err(error)) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
            Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n"),
        },
        "/metrics" => {
            let mut response = text(StatusCode::OK, metrics::text(metrics::families(watched)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
            response
        }
        _ => text(StatusCode::NOT_FOUND, "there are /health/live, /health/ready and /metrics\n"),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// The connections that are open, by when they came.
#[derive(Default)]
struct Connections {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next_id: u64,
    by_age: BTreeMap<u64, Connection>,
}

struct Connection {
    address: IpAddr,
    /// Whether its request has arrived.
    has_request: Arc<AtomicBool>,
    task: AbortHandle,
}

/// A connection's entry among the open ones, given back when it is dropped.
struct Slot {
    connections: Arc<Connections>,
    id: u64,
    has_request: Arc<AtomicBool>,
}

impl Connections {
    /// Spawns a conversation, if need be in the slot of one that has not asked anything. If all have, the new one
    /// is closed.
    fn open<Conversation>(self: &Arc<Self>, address: IpAddr, begin: impl FnOnce(Slot) -> Conversation)
    where
        Conversation: Future<Output = ()> + Send + 'static,
    {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.by_age.len() >= CONNECTIONS_MAX {
            let Some(id) = open.least_deserving() else { return };
            if let Some(closed) = open.by_age.remove(&id) {
                closed.task.abort();
            }
        }
        let (id, has_request) = (open.next_id, Arc::new(AtomicBool::new(false)));
        open.next_id += 1;
        let slot = Slot { connections: self.clone(), id, has_request: has_request.clone() };
        let task = tokio::spawn(begin(slot)).abort_handle();
        open.by_age.insert(id, Connection { address, has_request, task });
    }
}

impl Open {
    /// Of those that have not asked anything, the oldest from the address that has most of them.
    fn least_deserving(&self) -> Option<u64> {
        let idle = || self.by_age.iter().filter(|(_, one)| !one.has_request.load(Ordering::Relaxed));
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (_, connection) in idle() {
            *counts.entry(connection.address).or_default() += 1;
        }
        let (address, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        idle().find(|(_, connection)| connection.address == address).map(|(id, _)| *id)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.open.lock().unwrap_or_else(PoisonError::into_inner).by_age.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_auth::{Account, Accounts};
    use tavola_frontend::{
        Affinity, Frontend, FrontendSettings, LiveAccounts, Member, Pipeline, PipelineSettings,
    };
    use tavola_service::{Service, ServiceSettings};
    use tavola_system::{SystemClock, SystemRandom};
    use tavola_telemetry::Recorder;

    use crate::store::Store;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A health port on an empty store, until the handle is dropped.
    struct Serving {
        address: std::net::SocketAddr,
        stop: tokio::sync::watch::Sender<bool>,
        _folder: tempfile::TempDir,
    }

    async fn frontend(store: &Store, clock: Arc<SystemClock>) -> Arc<Frontend> {
        let accounts = LiveAccounts::new(Accounts::new(vec![Account::development()]).unwrap());
        let random = Arc::new(SystemRandom);
        let service = Service::new(store.engine(), clock.clone(), random, ServiceSettings::default());
        let pipeline = Pipeline::new(accounts, service, clock, &SystemRandom, PipelineSettings::default());
        Frontend::new(pipeline, FrontendSettings::default()).await
    }

    impl Serving {
        async fn start() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let settings = tavola_engine_local::LocalSettings::new(folder.path());
            let clock = Arc::new(SystemClock);
            let engine = tavola_engine_local::LocalEngine::open(settings, clock.clone()).unwrap();
            let store = Store::Local(engine);
            let member = Member {
                name: "a".into(),
                start_id: "1".into(),
                host: "a".into(),
                ports: Vec::new(),
                certificate: None,
            };
            let watched = MetricSources {
                affinity: Some(Affinity::new(member)),
                recorder: Arc::new(Recorder::new(Vec::new(), clock.clone())),
                frontend: frontend(&store, clock).await,
                analytics: crate::analytics::Analytics::new(60),
                store,
            };
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let (stop, stopped) = tokio::sync::watch::channel(false);
            tokio::spawn(serve(socket, watched, stopped));
            Self { address, stop, _folder: folder }
        }

        async fn ask(&self, request: &str) -> String {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            text
        }
    }

    impl Drop for Serving {
        fn drop(&mut self) {
            self.stop.send_replace(true);
        }
    }

    #[tokio::test]
    async fn a_server_that_can_serve_says_so() {
        let serving = Serving::start().await;
        for (request, status, word) in [
            ("GET /health/live", "200", "alive"),
            ("HEAD /health/live", "200", "content-length: 6"),
            ("GET /health/ready?x=1", "200", "ready"),
            ("GET /metrics", "200", "\n# TYPE tavola_up gauge\ntavola_up 1\n"),
            ("GET /metrics", "200", "\ntavola_members 1\n"),
            ("GET /metrics", "200", "\n# TYPE tavola_forwarded counter\ntavola_forwarded_total 0\n"),
            ("GET /metrics", "200", "\ntavola_engine_failed 0\n"),
            ("GET /metrics", "200", "\ntavola_requests_in_flight{service=\"queue\"} 0\n"),
            ("GET /metrics", "200", "\ntavola_connections_max "),
            ("GET /metrics", "200", "\nprocess_cpu_seconds_total "),
            ("GET /metrics", "200", "application/openmetrics-text"),
            ("GET /other", "404", "there are"),
            ("POST /metrics", "405", "only GET"),
        ] {
            let text = serving.ask(request).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")) && text.contains(word), "{text}");
        }
    }

    #[tokio::test]
    async fn idle_connections_do_not_shut_out_one_that_asks() {
        let serving = Serving::start().await;
        let mut idle = Vec::new();
        for number in 0..3 * CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(serving.address).await.unwrap();
            if number % 2 == 0 {
                stream.write_all(b"GET /health").await.unwrap();
            }
            idle.push(stream);
        }
        for _ in 0..2 * CONNECTIONS_MAX {
            assert!(serving.ask("GET /health/live").await.contains("alive"));
        }
    }

    #[tokio::test]
    async fn the_slot_of_the_greediest_address_goes_first_and_those_that_asked_stay() {
        let connections = Arc::new(Connections::default());
        let address = |number: u8| IpAddr::from([10, 0, 0, number]);
        let open = |from, has_request| {
            connections.open(from, |slot| {
                slot.has_request.store(has_request, Ordering::Relaxed);
                async move {
                    let _slot = slot;
                    std::future::pending().await
                }
            });
        };
        open(address(1), false);
        open(address(2), true);
        for _ in 0..CONNECTIONS_MAX - 2 {
            open(address(2), false);
        }
        open(address(3), false);
        let ids = || connections.open.lock().unwrap().by_age.keys().copied().collect::<Vec<_>>();
        assert_eq!((ids().len(), &ids()[..3]), (CONNECTIONS_MAX, &[0, 1, 3][..]), "the third one is closed");
        for _ in 0..2 * CONNECTIONS_MAX {
            open(address(2), true);
        }
        assert_eq!(ids().len(), CONNECTIONS_MAX);
        assert!(connections.open.lock().unwrap().least_deserving().is_none());
    }
}
