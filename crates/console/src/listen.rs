//! The listener: connections within bounds, each request answered by `respond.rs`.
//!
//! With a certificate the one port speaks both TLS and plain HTTP: the first byte of a connection tells them apart.
//! Beyond loopback whoever speaks plain HTTP is sent to the address over TLS, and no session begins without it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tavola_advisor::{HeatMap, PriceTable, Traffic};
use tavola_frontend::{LiveAccounts, Shutdown, Tls, accept};
use tavola_model::{Clock, DateTime, RandomSource};
use tavola_service::Service;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::connect::ServiceUrl;
use crate::holding::BlobHoldings;
use crate::respond::{Origin, respond};
use crate::server_view::ServerView;
use crate::session::Sessions;
use crate::sight::Sights;
use crate::tail::Tail;

const CONNECTIONS_MAX: usize = 128;
/// Open event streams; each takes a connection for as long as a page is open.
const STREAMS_MAX: usize = 48;
/// Also how long a connection may idle between requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// The first byte of a TLS connection: a record with a part of the handshake.
const HANDSHAKE: u8 = 0x16;
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How the console behaves where there is a choice.
pub struct ConsoleSettings {
    /// Names under which it is reached, beside loopback ones.
    pub host_names: Vec<String>,
    /// Whether it listens on a loopback address only.
    pub is_loopback: bool,
    /// Its port.
    pub port: u16,
    /// The certificate of the server, if it has one.
    pub tls: Option<Tls>,
    /// The version of the server.
    pub version: &'static str,
    /// The prices that costs are computed with.
    pub prices: PriceTable,
    /// The console token of now, which opens every account.
    pub token: Box<dyn Fn() -> Option<String> + Send + Sync>,
}

/// What the console shows and works on.
pub struct ConsoleParts {
    /// Executes commands.
    pub service: Service,
    /// The accounts that there are.
    pub accounts: Arc<LiveAccounts>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Names of sessions come from here.
    pub random: Arc<dyn RandomSource>,
    /// Where the services listen.
    pub urls: Vec<ServiceUrl>,
    /// What the advisor reads.
    pub traffic: Arc<Traffic>,
    /// The heat map.
    pub heat: Arc<HeatMap>,
    /// Recent requests.
    pub tail: Arc<Tail>,
    /// The server as a whole.
    pub view: Arc<dyn ServerView>,
}

/// The console of a server.
#[derive(Clone)]
pub struct Console {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub settings: ConsoleSettings,
    pub parts: ConsoleParts,
    pub sessions: Sessions,
    pub sights: Sights,
    pub blob_holdings: BlobHoldings,
    pub started: DateTime,
    pub streams: Arc<Semaphore>,
    /// Turns of those who try other keys on a copy of a table: a copy takes memory.
    pub tries: Semaphore,
    /// Counts the ids of requests that go to the services.
    pub requests: AtomicU64,
}

impl Console {
    /// A console that serves these.
    pub fn new(settings: ConsoleSettings, parts: ConsoleParts) -> Self {
        let inner = Inner {
            sessions: Sessions::new(parts.clock.clone(), parts.random.clone()),
            sights: Sights::new(parts.service.clone(), parts.clock.clone()),
            blob_holdings: BlobHoldings::default(),
            started: parts.clock.now(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            tries: Semaphore::new(1),
            requests: AtomicU64::new(u64::from_le_bytes(parts.random.bytes())),
            settings,
            parts,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Answers until told to stop.
    pub async fn serve(self, socket: TcpListener, mut shutdown: Shutdown) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let (stream, peer) = tokio::select! {
                accepted = accept("console", || socket.accept()) => accepted,
                _ = shutdown.wait_for(|stop| *stop) => return,
            };
            let (console, stop) = (self.clone(), shutdown.clone());
            tokio::spawn(async move {
                console.converse(stream, peer, stop).await;
                drop(slot);
            });
        }
    }

    async fn converse(&self, stream: TcpStream, peer: SocketAddr, shutdown: Shutdown) {
        let Some(tls) = &self.inner.settings.tls else {
            return self.requests(stream, Origin { address: peer.ip(), is_secure: false }, shutdown).await;
        };
        let mut first = [0];
        let Ok(Ok(1)) = timeout(HEAD_TIME_MAX, stream.peek(&mut first)).await else { return };
        let origin = Origin { address: peer.ip(), is_secure: first[0] == HANDSHAKE };
        if !origin.is_secure {
            return self.requests(stream, origin, shutdown).await;
        }
        match timeout(HEAD_TIME_MAX, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.requests(stream, origin, shutdown).await,
            Ok(Err(error)) => tracing::debug!(%error, "handshake with a browser failed"),
            Err(_) => {}
        }
    }

    async fn requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        origin: Origin,
        mut shutdown: Shutdown,
    ) {
        let service = service_fn(|request: Request<Incoming>| {
            let console = self.clone();
            async move { Ok::<_, Infallible>(respond(&console, request, origin).await) }
        });
        let mut http = http1::Builder::new();
        http.max_buf_size(HEAD_BYTES_MAX).timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        // Whoever asks too slowly, sends no HTTP or hangs up gets no answer; there is nothing to do about it here.
        tokio::select! {
            _ = connection => {}
            _ = shutdown.wait_for(|stop| *stop) => {}
        }
    }
}
