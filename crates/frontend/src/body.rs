//! The body of a request: whole, or as a stream of pieces.
//!
//! The route says how a body is taken; until then nothing of it is read. What arrives is bounded in size, held to a
//! pace, and takes its bytes from the budget as it comes, beyond a first part that every connection has. A client that
//! asks before it sends (`Expect: 100-continue`) is told to go on when the first byte is asked for, so not if it is
//! refused.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use tavola_model::ErrorCode;
use tavola_protocol::BodyKind;
use tavola_service::{ByteSource, PIECE_BYTES_MAX, SourceError};
use tokio::time::{Instant, timeout, timeout_at};

use crate::budget::{Budget, CallerId, Reservation, with_reservation};
use crate::settings::FrontendSettings;

/// Bytes of a body or an answer that are not counted against the budget: the connections that bring them are.
pub(crate) const UNCOUNTED_BYTES: usize = 16 * 1024;
/// How long a body or an answer waits for the budget before its client is told to come back.
pub(crate) const BUDGET_WAIT_MAX: Duration = Duration::from_secs(10);
/// Memory that a body gets at once for what it announces: all of one entity. More comes as the bytes do.
const RESERVED_BYTES_MAX: usize = 1024 * 1024;
/// Bytes are reserved in steps of this size.
const RESERVE_STEP_BYTES: usize = 64 * 1024;
/// How long a body may come slower than the least rate: a slow start is no attack.
const BODY_GRACE: Duration = Duration::from_secs(5);
/// How long a stream may take, if it keeps its pace.
const STREAM_TIME_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Bytes of a refused body that are read and thrown away.
const DISCARD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a refused body is read and thrown away.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(2);

/// A body as the command gets it.
pub(crate) enum TakenBody {
    Whole(Bytes),
    Stream(BodyStream),
}

/// The body of a request that may still be on its way.
pub(crate) struct RequestBody {
    incoming: Incoming,
    /// The client waits to be told that it may send.
    awaits_continue: bool,
    /// The client is another server, which holds a reservation of its own meanwhile.
    is_of_server: bool,
}

/// The budgets of bodies and answers, and what they are held to.
pub(crate) struct Transfers {
    pub settings: FrontendSettings,
    pub bodies: Arc<Budget>,
    pub answers: Arc<Budget>,
}

impl Transfers {
    pub fn new(settings: FrontendSettings) -> Self {
        let bodies = Budget::new(settings.inflight_bytes_max);
        let answers = Budget::new(settings.inflight_bytes_max);
        Self { settings, bodies, answers }
    }
}

impl RequestBody {
    pub fn new(incoming: Incoming, headers: &HeaderMap, is_of_server: bool) -> Self {
        let awaits_continue = !incoming.is_end_stream() && headers.contains_key(header::EXPECT);
        Self { incoming, awaits_continue, is_of_server }
    }

    /// Nothing comes, or nothing more.
    pub fn is_empty(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// Whether it is worth asking for permission first: it needs a reservation, or its client waits to be asked for it.
    pub fn is_costly(&self) -> bool {
        let announced = self.incoming.size_hint().exact();
        self.awaits_continue
            || announced.is_none_or(|size| usize::try_from(size).is_ok_and(|size| size > UNCOUNTED_BYTES))
            || announced.is_some_and(|size| usize::try_from(size).is_err())
    }

    /// Takes the body as the route says. Bytes are reserved in the name of `caller`, and the body holds the reservation.
    pub async fn take(
        mut self,
        kind: BodyKind,
        transfers: &Transfers,
        caller: impl FnOnce() -> CallerId,
    ) -> Result<TakenBody, ErrorCode> {
        match kind {
            BodyKind::None => {
                self.discard().await;
                Ok(TakenBody::Whole(Bytes::new()))
            }
            BodyKind::Whole { bytes_max } => {
                let whole = self.whole(bytes_max, transfers, caller).await;
                if whole.is_err() {
                    self.discard().await;
                }
                whole.map(TakenBody::Whole)
            }
            BodyKind::Stream { bytes_max } => {
                Ok(TakenBody::Stream(self.stream(bytes_max, transfers, caller())))
            }
        }
    }

    async fn whole(
        &mut self,
        bytes_max: usize,
        transfers: &Transfers,
        caller: impl FnOnce() -> CallerId,
    ) -> Result<Bytes, ErrorCode> {
        if self.incoming.is_end_stream() {
            return Ok(Bytes::new());
        }
        let announced = self.incoming.size_hint().exact();
        if announced.is_some_and(|size| usize::try_from(size).map_or(true, |size| size > bytes_max)) {
            return Err(ErrorCode::RequestBodyTooLarge);
        }
        self.awaits_continue = false;
        let settings = &transfers.settings;
        let mut time = ArrivalTime::new(settings.body_rate_min, settings.body_time_max);
        let Some(first) = time.frame(&mut self.incoming, 0).await? else { return Ok(Bytes::new()) };
        if self.incoming.is_end_stream() {
            return if first.len() > bytes_max { Err(ErrorCode::RequestBodyTooLarge) } else { Ok(first) };
        }
        // Boxed, so that a request whose body comes in one piece does not carry it.
        Box::pin(self.gather(first, bytes_max, time, transfers.bodies.reservation(caller()))).await
    }

    /// The rest of a body that comes in pieces. They are copied together as they come: each one that is kept would hold
    /// on to the buffer it was read into, and a client can make them one byte long.
    async fn gather(
        &mut self,
        first: Bytes,
        bytes_max: usize,
        mut time: ArrivalTime,
        reservation: Reservation,
    ) -> Result<Bytes, ErrorCode> {
        // Another server holds a reservation of its own meanwhile: two that waited for each other would wait in vain.
        let patience = if self.is_of_server { Duration::ZERO } else { BUDGET_WAIT_MAX };
        let rest = self.incoming.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        // What is announced is not taken at once: bodies that wait for the budget would each have touched their own
        // memory by the time they are done, however little of it is in use together.
        let mut all = BytesMut::with_capacity(first.len() + rest.unwrap_or_default().min(RESERVED_BYTES_MAX));
        all.extend_from_slice(&first);
        drop(first);
        while let Some(piece) = time.frame(&mut self.incoming, all.len()).await? {
            let received = all.len() + piece.len();
            if received > bytes_max {
                return Err(ErrorCode::RequestBodyTooLarge);
            }
            if received > UNCOUNTED_BYTES && received > reservation.held() {
                let step = received.next_multiple_of(RESERVE_STEP_BYTES) - reservation.held();
                reservation.grow(step, patience).await.map_err(|_| ErrorCode::ServerBusy)?;
            }
            all.extend_from_slice(&piece);
        }
        let all = all.freeze();
        Ok(if reservation.held() > 0 { with_reservation(all, Arc::new(reservation)) } else { all })
    }

    fn stream(self, bytes_max: u64, transfers: &Transfers, caller: CallerId) -> BodyStream {
        let time = ArrivalTime::new(transfers.settings.body_rate_min, STREAM_TIME_MAX);
        let budget = transfers.bodies.clone();
        BodyStream {
            awaits_continue: self.awaits_continue,
            incoming: self.incoming,
            bytes_max,
            received: 0,
            time,
            budget,
            caller,
            left: Bytes::new(),
            is_cut_short: false,
        }
    }

    /// Reads on for a while without keeping anything: a client that sends before it listens would else find its
    /// connection reset and never read why it was refused. One that waits to be asked is not asked.
    pub async fn discard(&mut self) {
        if !self.awaits_continue && !self.is_empty() {
            Box::pin(read_on(&mut self.incoming)).await;
        }
    }
}

async fn read_on(incoming: &mut Incoming) {
    let deadline = Instant::now() + DISCARD_TIME_MAX;
    let mut discarded = 0;
    while discarded < DISCARD_BYTES_MAX {
        match timeout_at(deadline, incoming.frame()).await {
            Ok(Some(Ok(frame))) => discarded += frame.data_ref().map_or(0, Bytes::len),
            Ok(None | Some(Err(_))) | Err(_) => return,
        }
    }
}

/// The time that a body takes to arrive. Only the time counts in which its client was waited for.
#[derive(Clone, Debug)]
struct ArrivalTime {
    rate_min: usize,
    time_max: Duration,
    waited: Duration,
}

impl ArrivalTime {
    fn new(rate_min: usize, time_max: Duration) -> Self {
        Self { rate_min, time_max, waited: Duration::ZERO }
    }

    /// The next bytes of a body of which so many have come; `None` at its end.
    async fn frame(&mut self, body: &mut Incoming, received: usize) -> Result<Option<Bytes>, ErrorCode> {
        loop {
            // What is there already costs no reading of the clock.
            let ready = poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(frame) => Poll::Ready(Some(frame)),
                Poll::Pending => Poll::Ready(None),
            });
            let frame = match ready.await {
                Some(frame) => frame,
                // Boxed, so that a request whose body is there does not carry the timer.
                None => Box::pin(self.wait_for_frame(body, received)).await?,
            };
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    // Trailers, which nobody reads.
                    Ok(_) | Err(_) => {}
                },
                Some(Err(_)) => return Err(ErrorCode::InvalidInput),
            }
        }
    }

    async fn wait_for_frame(
        &mut self,
        body: &mut Incoming,
        received: usize,
    ) -> Result<Option<Result<Frame<Bytes>, hyper::Error>>, ErrorCode> {
        let started = Instant::now();
        let left = self.allowed(received).saturating_sub(self.waited);
        let frame = timeout(left, body.frame()).await;
        self.waited += started.elapsed();
        frame.map_err(|_| ErrorCode::OperationTimedOut)
    }

    /// How long a body may have been waited for by the time that so much of it is there.
    fn allowed(&self, received: usize) -> Duration {
        if self.rate_min == 0 {
            return self.time_max;
        }
        let received = u64::try_from(received).unwrap_or(u64::MAX);
        let rate = u64::try_from(self.rate_min).unwrap_or(u64::MAX);
        let at_rate = Duration::from_millis(received.saturating_mul(1000) / rate);
        self.time_max.min(BODY_GRACE + at_rate)
    }
}

/// The body of a request as a stream. The socket is read when the next piece is asked for, and each piece holds its
/// reservation until it is let go: a receiver that falls behind makes its client wait.
pub(crate) struct BodyStream {
    incoming: Incoming,
    bytes_max: u64,
    received: u64,
    time: ArrivalTime,
    budget: Arc<Budget>,
    caller: CallerId,
    /// Received and not yet given out.
    left: Bytes,
    /// The client waits to be told that it may send.
    awaits_continue: bool,
    /// It ended before its end, or was too slow.
    is_cut_short: bool,
}

impl BodyStream {
    /// Whether the client has not sent what it announced.
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Bytes that have come.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes of the next piece, as far as they are announced.
    fn expected_bytes(&self) -> usize {
        let coming = self.incoming.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        self.left.len().saturating_add(coming.unwrap_or(0)).min(PIECE_BYTES_MAX)
    }

    /// Reads on for a while without keeping anything, so that a client that is refused reads why.
    pub async fn discard(&mut self) {
        if !self.awaits_continue && !self.is_cut_short && !self.incoming.is_end_stream() {
            Box::pin(read_on(&mut self.incoming)).await;
        }
    }
}

#[async_trait]
impl ByteSource for BodyStream {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        let reservation = self.budget.reservation(self.caller);
        reservation.grow(PIECE_BYTES_MAX, BUDGET_WAIT_MAX).await.map_err(|_| SourceError::OverBudget)?;
        let mut piece = BytesMut::new();
        loop {
            if piece.is_empty() && self.incoming.is_end_stream() && self.left.len() <= PIECE_BYTES_MAX {
                // It came at once, or this is the rest of it.
                let whole = std::mem::take(&mut self.left);
                reservation.shrink(whole.len());
                return Ok((!whole.is_empty()).then(|| with_reservation(whole, Arc::new(reservation))));
            }
            if piece.is_empty() && !self.left.is_empty() {
                piece.reserve(self.expected_bytes());
            }
            let taken = self.left.split_to(self.left.len().min(PIECE_BYTES_MAX - piece.len()));
            piece.extend_from_slice(&taken);
            if piece.len() == PIECE_BYTES_MAX {
                break;
            }
            let received = usize::try_from(self.received).unwrap_or(usize::MAX);
            self.awaits_continue = false;
            let frame = self.time.frame(&mut self.incoming, received).await.map_err(|code| {
                self.is_cut_short = true;
                source_error(code)
            });
            let Some(frame) = frame? else { break };
            self.received += frame.len() as u64;
            if self.received > self.bytes_max {
                return Err(SourceError::TooLarge { bytes_max: self.bytes_max });
            }
            self.left = frame;
        }
        if piece.is_empty() {
            return Ok(None);
        }
        reservation.shrink(piece.len());
        Ok(Some(with_reservation(piece.freeze(), Arc::new(reservation))))
    }
}

fn source_error(code: ErrorCode) -> SourceError {
    match code {
        ErrorCode::OperationTimedOut => SourceError::TooSlow,
        _ => SourceError::Broken("the connection ended within the body".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_grace_then_the_time_its_bytes_earn_and_never_more_than_the_most() {
        let time = ArrivalTime::new(1000, Duration::from_secs(60));
        for (received, seconds) in [(0, 5), (1000, 6), (54_000, 59), (55_000, 60), (8_000_000, 60)] {
            assert_eq!(time.allowed(received), Duration::from_secs(seconds), "{received}");
        }
        let unhurried = ArrivalTime::new(0, Duration::from_secs(60));
        assert_eq!(unhurried.allowed(0), Duration::from_secs(60));
    }
}
