//! Accepts connections and feeds their requests to the pipeline, within the limits of the settings.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tavola_model::StorageService;
use tavola_protocol::Response;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::Instrument as _;

use crate::accept::accept;
use crate::answer::AnswerBody;
use crate::body::{RequestBody, Transfers};
use crate::connections::{Connections, OpenConnection};
use crate::metadata_case::{MetadataNames, NameReader};
use crate::pace::{Pace, Paced};
use crate::pipeline::{Pipeline, PipelineAnswer};
use crate::receive::{Origin, Received, head_bytes};
use crate::response_case::{self, HeaderCase, UsedNames};
use crate::settings::FrontendSettings;
use crate::tls::Tls;

/// Becomes true when the server is told to stop.
pub type Shutdown = watch::Receiver<bool>;

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
    transfers: Transfers,
    connections: Arc<Connections>,
    case: HeaderCase,
}

/// A reading of what is open and held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontendMetrics {
    /// Open connections.
    pub connections: u64,
    /// Connections at most.
    pub connections_max: u64,
    /// Bytes of the bodies of requests that are in memory, small ones left out.
    pub request_bytes: u64,
    /// Bytes of answers that are in memory, small ones left out.
    pub response_bytes: u64,
    /// Bytes of each of both at most.
    pub transfer_bytes_max: u64,
}

impl Frontend {
    /// A front end that feeds this pipeline.
    pub async fn new(pipeline: Pipeline, settings: FrontendSettings) -> Arc<Self> {
        let connections = Connections::new(settings.connections_max);
        let (transfers, case) = (Transfers::new(settings), HeaderCase::learn().await);
        Arc::new(Self { pipeline, transfers, connections, case })
    }

    /// Accepts connections until told to stop.
    pub async fn serve(self: Arc<Self>, listener: Listener, mut shutdown: Shutdown) {
        loop {
            let (stream, peer) = tokio::select! {
                accepted = accept(listener.service.as_str(), || listener.socket.accept()) => accepted,
                () = stopped(&mut shutdown) => break,
            };
            let admitted = tokio::select! {
                admitted = self.connections.admit(peer.ip()) => admitted,
                () = stopped(&mut shutdown) => break,
            };
            let Some(open) = admitted else {
                tracing::debug!(peer = %peer.ip(), "refused a connection of an address that has too many");
                continue;
            };
            let origin = Origin {
                peer: peer.ip(),
                peer_port: peer.port(),
                secure: listener.tls.is_some(),
                service: listener.service,
                is_server: false,
            };
            tokio::spawn(self.clone().connection(
                stream,
                origin,
                listener.tls.clone(),
                shutdown.clone(),
                open,
            ));
        }
        self.connections.close_all();
    }

    /// What is open and held now.
    pub fn metrics(&self) -> FrontendMetrics {
        FrontendMetrics {
            connections: self.connections.count() as u64,
            connections_max: self.settings().connections_max as u64,
            request_bytes: self.transfers.bodies.held() as u64,
            response_bytes: self.transfers.answers.held() as u64,
            transfer_bytes_max: self.settings().inflight_bytes_max as u64,
        }
    }

    /// Lets requests under way finish, for as long as the settings allow. Call it when nothing accepts any more.
    pub async fn drain(&self) {
        let drained =
            tokio::time::timeout(self.settings().drain_time_max, self.connections.all_closed()).await;
        if drained.is_err() {
            tracing::warn!("requests were cut off at shutdown");
        }
    }

    fn settings(&self) -> &FrontendSettings {
        &self.transfers.settings
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        origin: Origin,
        tls: Option<Tls>,
        shutdown: Shutdown,
        open: OpenConnection,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let Some(tls) = tls else { return self.requests(stream, origin, shutdown, open).await };
        let handshake =
            tokio::time::timeout(self.settings().handshake_time_max, tls.acceptor().accept(stream));
        let accepted = tokio::select! {
            accepted = handshake => accepted,
            () = open.told_to_close() => return,
        };
        match accepted {
            Ok(Ok(stream)) => self.requests(stream, origin, shutdown, open).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
        }
    }

    /// Answers the requests of one connection, one after the other.
    async fn requests(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        origin: Origin,
        shutdown: Shutdown,
        open: OpenConnection,
    ) {
        let settings = self.settings();
        let pace = Pace {
            idle_time_max: settings.idle_time_max,
            head_time_max: settings.head_time_max,
            write_time_max: settings.body_time_max,
        };
        // Tables keep no metadata, so nothing is picked up for them.
        let names = (origin.service != StorageService::Table).then(MetadataNames::default);
        let stream = NameReader::new(Paced::new(stream, open.activity().clone(), pace), names.clone());
        let is_of_server = AtomicBool::new(false);
        let service = service_fn(|request: http::Request<Incoming>| {
            // Now, and not when the answer is first worked on: hyper looks for the end of the connection before, and
            // what it then waits for is no head.
            open.activity().begin();
            let names = names.as_ref().map(MetadataNames::take).unwrap_or_default();
            let hello = self.pipeline.answer_hello(request.headers());
            if hello.is_some() {
                is_of_server.store(true, Ordering::Relaxed);
            }
            let origin = Origin { is_server: is_of_server.load(Ordering::Relaxed), ..origin };
            let answer = self.respond(request, origin, names);
            async {
                let response = match hello {
                    Some(answer) => answer.map(AnswerBody::Whole),
                    None => answer.await,
                };
                open.end_request();
                Ok::<_, Infallible>(response)
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(settings.head_bytes_max)
            .max_headers(settings.headers_max)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = open.told_to_close() => {
                let is_stopping = *shutdown.borrow();
                if !is_stopping && open.activity().is_closable() {
                    tracing::debug!(peer = %origin.peer, "closed an idle connection for a new one");
                    return;
                }
                let lingers = is_stopping && is_of_server.load(Ordering::Relaxed);
                let linger_time = if lingers { LINGER_TIME } else { Duration::ZERO };
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

    /// The answer to a request. Its head is taken apart here and not in the future, which would hold it whole and in
    /// parts.
    fn respond(
        &self,
        request: http::Request<Incoming>,
        origin: Origin,
        metadata_names: Vec<String>,
    ) -> impl Future<Output = http::Response<AnswerBody>> {
        let (parts, incoming) = request.into_parts();
        // hyper lets a head grow to twice its bound before it checks.
        let is_too_large = head_bytes(&parts) > self.settings().head_bytes_max;
        let received = Received::new(parts, origin, metadata_names);
        let body = RequestBody::new(incoming, &received.headers, origin.is_server);
        async move {
            if is_too_large {
                let response = head_too_large();
                self.pipeline.note_refused_head(origin.service, response.status());
                return response;
            }
            let request_id = self.pipeline.next_request_id();
            // What is logged on the way has the id; at the level that the log has by default it costs nothing.
            let span = tracing::info_span!("request", request_id);
            // Boxed: the future is large, and would else be moved along with the connection and into the span.
            let answer = Box::pin(self.pipeline.respond(request_id, &received, body, &self.transfers));
            match answer.instrument(span).await {
                PipelineAnswer::Ours(response, body) => {
                    let is_head = received.method == http::Method::HEAD;
                    let metadata_case = match response.metadata.as_slice() {
                        [] => None,
                        metadata => Some(Box::pin(self.case.with_metadata(metadata)).await),
                    };
                    let mut message = into_http(response, body, is_head, &self.case);
                    if let Some(case) = metadata_case {
                        *message.extensions_mut() = case;
                    }
                    message
                }
                PipelineAnswer::Theirs(response) => response.map(AnswerBody::Whole),
            }
        }
    }
}

/// The answer that hyper gives to a head that it finds too large by itself.
fn head_too_large() -> http::Response<AnswerBody> {
    let mut response = http::Response::new(AnswerBody::Whole(Bytes::new()));
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The message for an answer. HEAD is answered with the length of what GET would send.
fn into_http(
    response: Response,
    body: AnswerBody,
    is_head: bool,
    case: &HeaderCase,
) -> http::Response<AnswerBody> {
    let length = if is_head { response.content_length } else { None }.unwrap_or(body.length());
    let body = if is_head { AnswerBody::Whole(Bytes::new()) } else { body };
    let mut message = http::Response::new(body);
    *message.status_mut() = response.status;
    let headers = message.headers_mut();
    headers.reserve(response.headers.len() + 1);
    let is_told_by_hyper =
        !is_head && !matches!(response.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if !is_told_by_hyper && (response.status != StatusCode::NO_CONTENT || length == 0) {
        headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    let mut used = UsedNames::default();
    for (name, value) in response.headers {
        headers.append(used.note(name), value);
    }
    for (name, value) in response.metadata {
        // A value can only be unfit where it echoes a client's bytes; then it is left out.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.append(response_case::other_name(&name), value);
        }
    }
    *message.extensions_mut() = case.of(used);
    message
}

#[cfg(test)]
mod tests;
