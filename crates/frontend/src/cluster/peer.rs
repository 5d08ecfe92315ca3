//! Connections to another server on the same store.
//!
//! A connection is opened when a request needs one, and kept for the next. Before anything of a client is sent over it,
//! a hello tells whether the server that is meant is at the other end: this is against addresses that came to belong to
//! something else, not against somebody who lies. The number of connections, the wait for one and every step over it
//! are bounded.
//!
//! What became of a request is told apart exactly, because a write must not be done twice: not sent, answered, or
//! perhaps done.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::owner::{Candidate, Member, MemberPort};
use super::pinned;
use crate::receive::Origin;

/// Asks a server whether it is the one that is meant, and its answer that it is.
pub(crate) const HELLO: &str = "x-tavola-hello";

/// Connections to one port of a server, and so requests under way to it.
const CONNECTIONS_MAX: usize = 128;
/// How long a request waits for one of them to be free.
const PERMIT_TIME_MAX: Duration = Duration::from_secs(2);
/// How long a connection may take to open.
const CONNECT_TIME_MAX: Duration = Duration::from_millis(100);
/// How long a server may take to shake hands and answer a hello: longer than it takes a busy one.
const HELLO_TIME_MAX: Duration = Duration::from_millis(500);
/// How long an unused connection is kept: far shorter than the other side does, unless it is set to less.
const IDLE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a request may take, answer included: longer than the store mostly tries to keep a write.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a server may take to answer before it is suspended.
const SLOW_TIME: Duration = Duration::from_secs(5);
/// For how long a server that failed is suspended.
const SUSPENDED_TIME: Duration = Duration::from_secs(3);
/// Bytes of an answer: more than the largest transaction gives back.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What became of a request.
#[derive(Debug)]
pub(crate) enum SendOutcome {
    /// It was answered.
    Answered(Response<Bytes>),
    /// The server has not seen it.
    NotSent(Cause),
    /// It may have been done.
    Unknown(Cause),
}

/// Another server.
#[derive(Debug)]
pub(crate) struct Peer {
    pub member: Member,
    pub candidate: Candidate,
    ports: Vec<PortConnections>,
    suspended_until: Mutex<Option<Instant>>,
}

/// The connections to one port.
#[derive(Debug)]
struct PortConnections {
    port: MemberPort,
    permits: Semaphore,
    idle: Mutex<Vec<IdleConnection>>,
}

/// A connection that waits for its next request.
#[derive(Debug)]
struct IdleConnection {
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
}

impl Peer {
    pub fn new(member: Member) -> Self {
        let port_connections = |port: &MemberPort| PortConnections {
            port: *port,
            permits: Semaphore::new(CONNECTIONS_MAX),
            idle: Mutex::default(),
        };
        let ports = member.ports.iter().map(port_connections).collect();
        Self { candidate: Candidate::of(&member), member, ports, suspended_until: Mutex::default() }
    }

    /// Whether requests that come in here by such a port may be given to it now.
    pub fn is_open_for(&self, origin: Origin) -> bool {
        !self.is_suspended() && self.port_connections(origin).is_some()
    }

    /// Whether it is given nothing now.
    pub fn is_suspended(&self) -> bool {
        lock(&self.suspended_until).is_some_and(|until| Instant::now() < until)
    }

    /// The port that is like the one by which a request came in: what came encrypted goes on encrypted.
    fn port_connections(&self, origin: Origin) -> Option<&PortConnections> {
        let is_like = |port: &MemberPort| port.service == origin.service && port.secure == origin.secure;
        self.ports.iter().find(|port_connections| is_like(&port_connections.port))
    }

    /// Gives it nothing for a few seconds.
    pub fn suspend(&self, reason: &(dyn std::error::Error + 'static)) {
        let until = Instant::now() + SUSPENDED_TIME;
        if lock(&self.suspended_until).replace(until).is_none_or(|until| until < Instant::now()) {
            tracing::info!(server = self.member.name, reason, "not forwarding to a server for a few seconds");
        }
    }

    /// Closes connections that nobody has used for a while.
    pub fn close_unused(&self) {
        for port_connections in &self.ports {
            lock(&port_connections.idle)
                .retain(|idle| idle.since.elapsed() < IDLE_TIME_MAX && !idle.sender.is_closed());
        }
    }

    /// Sends a request to a port like that by which it came in, and waits for the answer.
    pub async fn send(&self, origin: Origin, mut request: Request<Full<Bytes>>) -> SendOutcome {
        let Some(port_connections) = self.port_connections(origin) else {
            return SendOutcome::NotSent("the server has no such port".into());
        };
        let deadline = Instant::now() + ANSWER_TIME_MAX;
        let Ok(Ok(_permit)) = timeout(PERMIT_TIME_MAX, port_connections.permits.acquire()).await else {
            let cause: Cause = "all connections to the server are in use".into();
            self.suspend(cause.as_ref());
            return SendOutcome::NotSent(cause);
        };
        // An idle connection can have been closed by the other side; then the request comes back as it was.
        while let Some(sender) = port_connections.take_idle().await {
            match self.exchange(port_connections, sender, request, deadline).await {
                Ok(sent) => return sent,
                Err(unsent) => request = *unsent,
            }
        }
        let sender = match self.connect(port_connections.port).await {
            Ok(sender) => sender,
            Err(cause) => {
                self.suspend(cause.as_ref());
                return SendOutcome::NotSent(cause);
            }
        };
        let sent = self.exchange(port_connections, sender, request, deadline).await;
        sent.unwrap_or_else(|_| SendOutcome::NotSent("the server closed a fresh connection".into()))
    }

    /// Sends a request over a connection; gives it back if nothing of it was written.
    async fn exchange(
        &self,
        port_connections: &PortConnections,
        mut sender: SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<SendOutcome, Box<Request<Full<Bytes>>>> {
        let mut answer = std::pin::pin!(sender.try_send_request(request));
        let answered = match timeout(SLOW_TIME, answer.as_mut()).await {
            Ok(answered) => Ok(answered),
            Err(slow) => {
                self.suspend(&slow);
                timeout_at(deadline, answer).await
            }
        };
        let response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(mut failure)) => match failure.take_message() {
                Some(request) => return Err(Box::new(request)),
                None => return Ok(SendOutcome::Unknown(failure.into_error().into())),
            },
            Err(late) => return Ok(SendOutcome::Unknown(late.into())),
        };
        let is_last = response.headers().contains_key(header::CONNECTION);
        match timeout_at(deadline, collect(response)).await {
            Ok(Ok(response)) => {
                if !is_last {
                    lock(&port_connections.idle).push(IdleConnection { sender, since: Instant::now() });
                }
                Ok(SendOutcome::Answered(response))
            }
            Ok(Err(cause)) => Ok(SendOutcome::Unknown(cause)),
            Err(late) => Ok(SendOutcome::Unknown(late.into())),
        }
    }

    /// A connection to the server that is meant, and no other.
    async fn connect(&self, port: MemberPort) -> Result<SendRequest<Full<Bytes>>, Cause> {
        let opened = TcpStream::connect((self.member.host.as_str(), port.number));
        let stream = timeout(CONNECT_TIME_MAX, opened).await??;
        stream.set_nodelay(true)?;
        let greeted = async {
            if !port.secure {
                return self.hello(stream).await;
            }
            let certificate = self.member.certificate.ok_or("its certificate is not known")?;
            let name = pinned::server_name(&self.member.host);
            self.hello(pinned::connector(certificate)?.connect(name, stream).await?).await
        };
        timeout(HELLO_TIME_MAX, greeted).await?
    }

    /// Makes sure who is at the other end.
    async fn hello(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<SendRequest<Full<Bytes>>, Cause> {
        // With the case of its header names an answer goes on as it came.
        let (mut sender, connection) =
            Builder::new().preserve_header_case(true).handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to another server ended");
            }
        });
        let hello = Request::get("/").header(header::HOST, "tavola").header(HELLO, &self.member.start_id);
        let answer = collect(sender.send_request(hello.body(Full::default())?).await?).await?;
        let is_meant = answer.status() == StatusCode::NO_CONTENT
            && answer.headers().get(HELLO).is_some_and(|id| id.as_bytes() == self.member.start_id.as_bytes());
        if !is_meant {
            return Err("another server listens at its address".into());
        }
        sender.ready().await?;
        Ok(sender)
    }
}

impl PortConnections {
    /// A connection that was kept and can still be used.
    async fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        loop {
            let IdleConnection { mut sender, since } = lock(&self.idle).pop()?;
            let is_fresh = since.elapsed() < IDLE_TIME_MAX;
            // It is ready as soon as the end of the last answer was seen, which is mostly so already.
            if is_fresh && matches!(timeout(CONNECT_TIME_MAX, sender.ready()).await, Ok(Ok(()))) {
                return Some(sender);
            }
        }
    }
}

/// An answer, read to its end.
async fn collect(response: Response<Incoming>) -> Result<Response<Bytes>, Cause> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

/// Nothing under these locks can panic halfway, so what is behind a poisoned one is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
