//! The one thing that talks to a network, and what it knows of a failure.
//!
//! A transport sends one signed request and gives the whole answer. Signing, retrying and resolving are above it;
//! hyper, a recording or a fault injector (`testing`) are below it. Rule: `NotSent` is only said when not a byte can
//! have reached the service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http_body_util::{BodyExt, Full, Limited};
#[cfg(feature = "tls")]
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Bytes of an answer that are read at most: a full page of entities whose text is all escapes, and some more.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Connections that are kept open for the next requests, for each host.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long an unused connection is kept. Shorter than the server's own bound, so that it is not found closed.
const IDLE: Duration = Duration::from_secs(50);
/// What a build without TLS says of HTTPS.
const NO_TLS: &str = "HTTPS needs the feature `tls` of tavola-client";
const CONNECT: Duration = Duration::from_secs(10);

/// Did the request leave?
///
/// ```
/// use tavola_client::TransportError;
/// let error = TransportError::NotSent("connection refused".into());
/// assert_eq!(error.to_string(), "request was not sent: connection refused");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// It never left: always safe to send again.
    #[error("request was not sent: {0}")]
    NotSent(String),
    /// It left and no whole answer came: what happened must be found out.
    #[error("answer was lost: {0}")]
    AnswerLost(String),
}

/// What sends requests. Implement it to record, to inject faults, or to go through a proxy.
///
/// ```
/// use bytes::Bytes;
/// use futures_core::future::BoxFuture;
/// use tavola_client::{Transport, TransportError};
///
/// /// Counts what it passes on.
/// struct Counting<T>(T, std::sync::atomic::AtomicU64);
///
/// impl<T: Transport> Transport for Counting<T> {
///     fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
///         self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         self.0.send(request)
///     }
/// }
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Sends one request, whose URI is absolute, and reads the whole answer.
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>>;
}

impl<T: Transport + ?Sized> Transport for std::sync::Arc<T> {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
        (**self).send(request)
    }
}

/// Counts what it passes on.
pub(crate) struct CountingTransport {
    pub(crate) inner: Arc<dyn Transport>,
    pub(crate) requests: Arc<AtomicU64>,
}

impl Transport for CountingTransport {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.inner.send(request)
    }
}

/// Opens connections.
#[cfg(feature = "tls")]
type Connector = HttpsConnector<HttpConnector>;
/// Opens connections.
#[cfg(not(feature = "tls"))]
type Connector = HttpConnector;

/// HTTP/1.1 by hyper with a pool of connections; with the feature `tls` also over TLS, by rustls with the public roots.
///
/// ```
/// let transport = tavola_client::HyperTransport::new();
/// # let _ = transport;
/// ```
#[derive(Clone, Debug)]
pub struct HyperTransport {
    client: Client<Connector, Full<Bytes>>,
}

impl HyperTransport {
    /// With no connection yet. Requests need a tokio runtime.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, HyperTransport};
    /// let account = Account::development()?.with_transport(HyperTransport::new());
    /// # let _ = account;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        let connector = secured(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        Self { client }
    }
}

#[cfg(feature = "tls")]
fn secured(mut connector: HttpConnector) -> Connector {
    connector.enforce_http(false);
    // A program that also brings another provider has no default one.
    let provider = rustls::crypto::ring::default_provider();
    HttpsConnectorBuilder::new()
        .with_provider_and_webpki_roots(provider)
        .expect("ring has the protocol versions that are asked for")
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector)
}

#[cfg(not(feature = "tls"))]
fn secured(connector: HttpConnector) -> Connector {
    connector
}

impl Default for HyperTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl Transport for HyperTransport {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
        Box::pin(async move {
            if cfg!(not(feature = "tls")) && request.uri().scheme() == Some(&http::uri::Scheme::HTTPS) {
                return Err(TransportError::NotSent(NO_TLS.to_owned()));
            }
            let response = self.client.request(request.map(Full::new)).await.map_err(|error| {
                let text = chain(&error);
                if error.is_connect() {
                    TransportError::NotSent(text)
                } else {
                    TransportError::AnswerLost(text)
                }
            })?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| TransportError::AnswerLost(chain(&*error)))?;
            Ok(http::Response::from_parts(head, body.to_bytes()))
        })
    }
}

/// An error with its causes on one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
