//! From the socket to a request in hand: body bounded in size and time, id given.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use tavola_auth::StorageService;
use tavola_model::{BODY_BYTES_MAX, ErrorCode};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::settings::FrontendSettings;

/// Bodies up to this size are not counted against the budget: the connections that bring them are.
const UNCOUNTED_BYTES: usize = 64 * 1024;
/// How long a large body waits for room before its client is told to come back.
const ROOM_TIME_MAX: Duration = Duration::from_secs(10);

/// A request, read.
pub struct Received<'a> {
    /// The verb on the wire.
    pub method: Method,
    /// The raw path.
    pub path: String,
    /// The raw query, without `?`.
    pub query: String,
    /// All headers.
    pub headers: HeaderMap,
    /// Names of metadata headers as they were written, where their case means something.
    pub spelled_names: Vec<String>,
    /// The whole body, or why it could not be had.
    pub body: Result<Bytes, ErrorCode>,
    /// Where it comes from.
    pub origin: Origin,
    /// Holds the body's share of the budget for as long as the request lives.
    pub _room: Option<SemaphorePermit<'a>>,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The other end.
    pub peer: IpAddr,
    /// Over TLS.
    pub secure: bool,
    /// Which service it reached.
    pub service: StorageService,
}

/// Reads a request to its end.
pub async fn receive<'a>(
    request: http::Request<Incoming>,
    origin: Origin,
    settings: &FrontendSettings,
    budget: &'a Semaphore,
) -> Received<'a> {
    let (parts, body) = request.into_parts();
    let (body, room) = if body.is_end_stream() {
        (Ok(Bytes::new()), None)
    } else {
        match read_body(body, settings, budget).await {
            Ok((bytes, room)) => (Ok(bytes), room),
            Err(code) => (Err(code), None),
        }
    };
    let mut headers = parts.headers;
    // A request whose line holds an absolute URI names its host there.
    if !headers.contains_key(header::HOST)
        && let Some(value) = parts.uri.authority().and_then(|authority| authority.as_str().parse().ok())
    {
        headers.insert(header::HOST, value);
    }
    Received {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers,
        spelled_names: Vec::new(),
        body,
        origin,
        _room: room,
    }
}

async fn read_body<'a>(
    body: Incoming,
    settings: &FrontendSettings,
    budget: &'a Semaphore,
) -> Result<(Bytes, Option<SemaphorePermit<'a>>), ErrorCode> {
    let declared =
        body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(BODY_BYTES_MAX);
    if declared > BODY_BYTES_MAX {
        return Err(ErrorCode::RequestBodyTooLarge);
    }
    let room = match u32::try_from(declared.min(settings.inflight_bytes_max)) {
        Ok(size) if declared > UNCOUNTED_BYTES => {
            let permit = tokio::time::timeout(ROOM_TIME_MAX, budget.acquire_many(size)).await;
            Some(permit.map_err(|_| ErrorCode::ServerBusy)?.map_err(|_| ErrorCode::ServerBusy)?)
        }
        _ => None,
    };
    let collected =
        tokio::time::timeout(settings.body_time_max, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok((body.to_bytes(), room)),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(ErrorCode::RequestBodyTooLarge)
        }
        Ok(Err(_)) => Err(ErrorCode::InvalidInput),
        Err(_) => Err(ErrorCode::OperationTimedOut),
    }
}
