//! Accepts connections and feeds their requests to the pipeline, within the limits of the settings.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tavola_model::StorageService;
use tavola_protocol::Response;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::case::{self, HeaderCase};
use crate::pace::{Pace, Paced, Turn};
use crate::pipeline::{Answer, Pipeline};
use crate::receive::{Origin, Received, receive};
use crate::settings::FrontendSettings;
use crate::spelling::{Spelled, Spelling};
use crate::tls::Tls;

/// Becomes true when the server is told to stop.
pub type Shutdown = watch::Receiver<bool>;

/// How long to wait after an accept failed, for want of file descriptors for example.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// How long other servers on the store are still answered after the server is told to stop. By then they have heard of
/// it; one that is just sending a write when its connection is closed could not know what became of it.
const LINGER_TIME: Duration = Duration::from_secs(3);

/// Waits until the server is told to stop.
async fn stopped(shutdown: &mut Shutdown) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}

/// What listens: a socket, the service behind it, and the certificate if it speaks TLS.
pub struct Listener {
    /// Where connections come in.
    pub socket: TcpListener,
    /// What they ask for.
    pub service: StorageService,
    /// With a certificate every connection starts with a handshake.
    pub tls: Option<Tls>,
}

/// All listeners of a server, which share one set of limits.
pub struct Frontend {
    pipeline: Pipeline,
    settings: FrontendSettings,
    connections: Arc<Semaphore>,
    budget: Semaphore,
    case: HeaderCase,
}

impl Frontend {
    /// A front end that feeds this pipeline.
    pub async fn new(pipeline: Pipeline, settings: FrontendSettings) -> Arc<Self> {
        let connections = Arc::new(Semaphore::new(settings.connections_max));
        let budget = Semaphore::new(settings.inflight_bytes_max);
        Arc::new(Self { pipeline, settings, connections, budget, case: HeaderCase::learn().await })
    }

    /// Accepts connections until told to stop.
    pub async fn serve(self: Arc<Self>, listener: Listener, mut shutdown: Shutdown) {
        loop {
            let permit = tokio::select! {
                permit = self.connections.clone().acquire_owned() => permit,
                () = stopped(&mut shutdown) => break,
            };
            let Ok(permit) = permit else { break };
            let accepted = tokio::select! {
                accepted = listener.socket.accept() => accepted,
                () = stopped(&mut shutdown) => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let origin = Origin {
                        peer: peer.ip(),
                        secure: listener.tls.is_some(),
                        service: listener.service,
                        is_server: false,
                    };
                    let tls = listener.tls.clone();
                    tokio::spawn(self.clone().connection(stream, origin, tls, shutdown.clone(), permit));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// Lets requests under way finish, for as long as the settings allow. Call it when nothing accepts any more.
    pub async fn drain(&self) {
        let all = u32::try_from(self.settings.connections_max).unwrap_or(u32::MAX);
        let drained =
            tokio::time::timeout(self.settings.drain_time_max, self.connections.acquire_many(all)).await;
        if drained.is_err() {
            tracing::warn!("requests were cut off at shutdown");
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        origin: Origin,
        tls: Option<Tls>,
        shutdown: Shutdown,
        _permit: OwnedSemaphorePermit,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no-delay refused");
        }
        let Some(tls) = tls else { return self.requests(stream, origin, shutdown).await };
        match tokio::time::timeout(self.settings.handshake_time_max, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => self.requests(stream, origin, shutdown).await,
            Ok(Err(error)) => tracing::debug!(%error, "handshake failed"),
            Err(_) => tracing::debug!("handshake took too long"),
        }
    }

    /// Answers the requests of one connection, one after the other.
    async fn requests(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        origin: Origin,
        mut shutdown: Shutdown,
    ) {
        let turn = Turn::new();
        let pace =
            Pace { head_time_max: self.settings.head_time_max, write_time_max: self.settings.body_time_max };
        // Tables keep no metadata, so nothing is picked up for them.
        let spelling = (origin.service != StorageService::Table).then(Spelling::default);
        let stream = Spelled::new(Paced::new(stream, turn.clone(), pace), spelling.clone());
        let is_of_server = AtomicBool::new(false);
        let service = service_fn(|request: http::Request<Incoming>| async {
            turn.begin();
            let names = spelling.as_ref().map(Spelling::take).unwrap_or_default();
            let response = match self.pipeline.answer_knock(request.headers()) {
                Some(answer) => {
                    is_of_server.store(true, Ordering::Relaxed);
                    answer
                }
                None => {
                    let origin = Origin { is_server: is_of_server.load(Ordering::Relaxed), ..origin };
                    self.respond(request, origin, names).await
                }
            };
            turn.end();
            Ok::<_, Infallible>(response)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.settings.idle_time_max)
            .max_buf_size(self.settings.head_bytes_max)
            .max_headers(self.settings.headers_max)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped(&mut shutdown) => {
                let is_of_server = is_of_server.load(Ordering::Relaxed);
                let linger_time = if is_of_server { LINGER_TIME } else { Duration::ZERO };
                match tokio::time::timeout(linger_time, connection.as_mut()).await {
                    Ok(ended) => ended,
                    Err(_) => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended early");
        }
    }

    async fn respond(
        &self,
        request: http::Request<Incoming>,
        origin: Origin,
        spelled_names: Vec<String>,
    ) -> http::Response<Full<Bytes>> {
        let admits = |head: &Received<'_>| self.pipeline.admits(head);
        let mut received = receive(request, origin, &self.settings, &self.budget, admits).await;
        received.spelled_names = spelled_names;
        match self.pipeline.respond(&received).await {
            Answer::Ours(response) => into_http(response, &self.case),
            Answer::Theirs(response) => response,
        }
    }
}

fn into_http(response: Response, case: &HeaderCase) -> http::Response<Full<Bytes>> {
    let mut message = http::Response::new(Full::new(response.body.clone()));
    *message.status_mut() = response.status;
    *message.extensions_mut() = case.of(&response);
    let headers = message.headers_mut();
    headers.reserve(response.headers.len() + 1);
    if response.status != http::StatusCode::NO_CONTENT || response.body.is_empty() {
        headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(response.body.len()));
    }
    for (name, value) in response.headers {
        headers.append(case::header_name(name), value);
    }
    for (name, value) in response.metadata {
        // A value can only be unfit where it echoes a client's bytes; then it is left out.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.append(case::header_name(&name), value);
        }
    }
    message
}
