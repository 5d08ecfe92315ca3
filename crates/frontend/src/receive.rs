//! From the socket to a request in hand: body bounded in size and time.

use std::net::IpAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tavola_model::{BODY_BYTES_MAX, ErrorCode, StorageService};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::settings::FrontendSettings;

/// Bodies up to this size are not counted against the budget: the connections that bring them are.
const UNCOUNTED_BYTES: usize = 16 * 1024;
/// How long a body may come slower than the least rate: a slow start is no attack.
const BODY_GRACE: Duration = Duration::from_secs(5);
/// Bytes of a refused body that are read and thrown away.
const DISCARD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a refused body is read and thrown away.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(2);
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
    /// It comes over a connection on which another server has found this one.
    pub is_server: bool,
}

/// Reads a request to its end. A body that is more than a little is read only for a sender that `admits` lets pass:
/// memory and time are not for anyone who merely connects. Without it the request is refused by its head.
pub async fn receive<'a>(
    request: http::Request<Incoming>,
    origin: Origin,
    settings: &FrontendSettings,
    budget: &'a Semaphore,
    admits: impl Fn(&Received<'_>) -> bool,
) -> Received<'a> {
    let (parts, mut body) = request.into_parts();
    let mut headers = parts.headers;
    // A request whose line holds an absolute URI names its host there.
    if !headers.contains_key(header::HOST)
        && let Some(value) = parts.uri.authority().and_then(|authority| authority.as_str().parse().ok())
    {
        headers.insert(header::HOST, value);
    }
    let mut received = Received {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers,
        spelled_names: Vec::new(),
        body: Ok(Bytes::new()),
        origin,
        _room: None,
    };
    if body.is_end_stream() {
        return received;
    }
    if announced_bytes(&body) > UNCOUNTED_BYTES && !admits(&received) {
        discard(&mut body).await;
        // What was good for nothing a moment ago may be good for something at the next look; the body is gone by then.
        received.body = Err(ErrorCode::AuthenticationFailed);
        return received;
    }
    match read_body(body, origin, settings, budget).await {
        Ok((bytes, room)) => {
            received.body = Ok(bytes);
            received._room = room;
        }
        Err(code) => received.body = Err(code),
    }
    received
}

/// The length a body announces; one that announces none may have the most.
fn announced_bytes(body: &Incoming) -> usize {
    body.size_hint().exact().map_or(BODY_BYTES_MAX, |size| usize::try_from(size).unwrap_or(usize::MAX))
}

async fn read_body<'a>(
    mut body: Incoming,
    origin: Origin,
    settings: &FrontendSettings,
    budget: &'a Semaphore,
) -> Result<(Bytes, Option<SemaphorePermit<'a>>), ErrorCode> {
    let declared = announced_bytes(&body);
    if declared > BODY_BYTES_MAX {
        discard(&mut body).await;
        return Err(ErrorCode::RequestBodyTooLarge);
    }
    let room = match u32::try_from(declared.min(settings.inflight_bytes_max)) {
        Ok(size) if declared > UNCOUNTED_BYTES => {
            // Another server holds room of its own meanwhile: two that waited for each other would wait in vain.
            let patience = if origin.is_server { Duration::ZERO } else { ROOM_TIME_MAX };
            match tokio::time::timeout(patience, budget.acquire_many(size)).await {
                Ok(Ok(permit)) => Some(permit),
                Ok(Err(_)) | Err(_) => {
                    discard(&mut body).await;
                    return Err(ErrorCode::ServerBusy);
                }
            }
        }
        _ => None,
    };
    Ok((collect(body, settings).await?, room))
}

/// The bytes of a body that stays within its size and keeps its pace.
async fn collect(mut body: Incoming, settings: &FrontendSettings) -> Result<Bytes, ErrorCode> {
    let started = Instant::now();
    let mut first = Bytes::new();
    // Pieces are copied together as they come: each one that is kept would hold on to the buffer it was read
    // into, and a client can make them one byte long.
    let mut all = BytesMut::new();
    loop {
        let deadline = started + time_allowed(first.len().max(all.len()), settings);
        let frame = tokio::time::timeout_at(deadline, body.frame()).await;
        let piece = match frame {
            Ok(None) => return Ok(if all.is_empty() { first } else { all.freeze() }),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(_))) => return Err(ErrorCode::InvalidInput),
            Err(_) => return Err(ErrorCode::OperationTimedOut),
        };
        if first.len().max(all.len()) + piece.len() > BODY_BYTES_MAX {
            drop((first, all));
            discard(&mut body).await;
            return Err(ErrorCode::RequestBodyTooLarge);
        }
        if first.is_empty() {
            if body.is_end_stream() {
                return Ok(piece);
            }
            first = piece;
            continue;
        }
        if all.is_empty() {
            let rest =
                body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).unwrap_or_default();
            // Memory that a client announces and never fills is never touched.
            all.reserve(first.len() + piece.len() + rest);
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&piece);
    }
}

/// Reads on for a while without keeping anything: a client that sends before it listens would else find its
/// connection reset and never read why it was refused.
async fn discard(body: &mut Incoming) {
    let deadline = Instant::now() + DISCARD_TIME_MAX;
    let mut discarded = 0;
    while discarded < DISCARD_BYTES_MAX {
        match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => discarded += frame.data_ref().map_or(0, Bytes::len),
            Ok(None | Some(Err(_))) | Err(_) => return,
        }
    }
}

/// How long a body may have taken by the time that so much of it is there.
fn time_allowed(received: usize, settings: &FrontendSettings) -> Duration {
    if settings.body_rate_min == 0 {
        return settings.body_time_max;
    }
    let received = u64::try_from(received).unwrap_or(u64::MAX);
    let rate = u64::try_from(settings.body_rate_min).unwrap_or(u64::MAX);
    let at_rate = Duration::from_millis(received.saturating_mul(1000) / rate);
    settings.body_time_max.min(BODY_GRACE + at_rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_grace_then_the_time_its_bytes_earn_and_never_more_than_the_most() {
        let settings = FrontendSettings {
            body_time_max: Duration::from_secs(60),
            body_rate_min: 1000,
            ..FrontendSettings::default()
        };
        for (received, seconds) in [(0, 5), (1000, 6), (54_000, 59), (55_000, 60), (8_000_000, 60)] {
            assert_eq!(time_allowed(received, &settings), Duration::from_secs(seconds), "{received}");
        }
        let unhurried = FrontendSettings { body_rate_min: 0, ..settings };
        assert_eq!(time_allowed(0, &unhurried), Duration::from_secs(60));
    }
}
