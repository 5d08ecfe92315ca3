//! Accepts connections and feeds their requests to the pipeline, within the limits of the settings.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Extensions, HeaderName, HeaderValue};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tavola_protocol::Response;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::case;
use crate::pipeline::Pipeline;
use crate::receive::{Origin, receive};
use crate::settings::FrontendSettings;

/// Becomes true when the server is told to stop.
pub type Shutdown = watch::Receiver<bool>;

/// How long to wait after an accept failed, for want of file descriptors for example.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Waits until the server is told to stop.
async fn stopped(shutdown: &mut Shutdown) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}

/// What all connections of a listener share.
struct Shared {
    pipeline: Arc<Pipeline>,
    settings: FrontendSettings,
    budget: Semaphore,
    case: Extensions,
}

/// Serves until `shutdown`, then lets requests under way finish, for as long as the settings allow.
pub async fn serve(
    listener: TcpListener,
    pipeline: Arc<Pipeline>,
    settings: FrontendSettings,
    mut shutdown: Shutdown,
) {
    let connections = Arc::new(Semaphore::new(settings.connections_max));
    let budget = Semaphore::new(settings.inflight_bytes_max);
    let shared = Arc::new(Shared { pipeline, settings, budget, case: case::learn().await });
    loop {
        let permit = tokio::select! {
            permit = connections.clone().acquire_owned() => permit,
            () = stopped(&mut shutdown) => break,
        };
        let Ok(permit) = permit else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut shutdown) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                tokio::spawn(connection(stream, peer, shared.clone(), shutdown.clone(), permit));
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    let all = u32::try_from(shared.settings.connections_max).unwrap_or(u32::MAX);
    let drained = tokio::time::timeout(shared.settings.drain_time_max, connections.acquire_many(all)).await;
    if drained.is_err() {
        tracing::warn!("requests were cut off at shutdown");
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    mut shutdown: Shutdown,
    _permit: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no-delay refused");
    }
    let origin = Origin { peer: peer.ip(), secure: false };
    let answering = shared.clone();
    let service = service_fn(move |request: http::Request<Incoming>| {
        let shared = answering.clone();
        async move { Ok::<_, Infallible>(respond(request, origin, &shared).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.settings.head_time_max)
        .max_buf_size(shared.settings.head_bytes_max)
        .max_headers(shared.settings.headers_max)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut shutdown) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

async fn respond(
    request: http::Request<Incoming>,
    origin: Origin,
    shared: &Shared,
) -> http::Response<Full<Bytes>> {
    let received = receive(request, origin, &shared.settings, &shared.budget).await;
    let response = shared.pipeline.respond(&received).await;
    into_http(response, shared.case.clone())
}

fn into_http(response: Response, case: Extensions) -> http::Response<Full<Bytes>> {
    let mut message = http::Response::new(Full::new(response.body.clone()));
    *message.status_mut() = response.status;
    *message.extensions_mut() = case;
    let headers = message.headers_mut();
    headers.reserve(response.headers.len() + 1);
    if response.status != http::StatusCode::NO_CONTENT || response.body.is_empty() {
        headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(response.body.len()));
    }
    for (name, value) in response.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("our header names are valid");
        // A value can only be unfit where it echoes a client's bytes; then it is left out.
        if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(value)) {
            headers.append(name, value);
        }
    }
    message
}
