//! The body of an answer as hyper takes it: whole, or as a stream of pieces.
//!
//! An answer of more than a little holds a reservation until its last byte is written: whole ones all of it, a
//! stream only the pieces that are on their way. A stream makes its next piece when the last ones have gone, and one
//! that fails midway ends the connection, so that nobody takes a part for the whole.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tavola_service::{ByteSource, PIECE_BYTES_MAX, SourceError};

use crate::body::{BUDGET_WAIT_MAX, UNCOUNTED_BYTES};
use crate::budget::{Budget, CallerId, Reservation, with_reservation};
use crate::observe::StreamObservation;

/// The body of an answer.
pub(crate) enum AnswerBody {
    Whole(Bytes),
    Stream(Download),
}

impl AnswerBody {
    /// How long it is.
    pub fn length(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Stream(download) => download.left,
        }
    }

    /// The same; whoever observes the request sees each piece of a stream leave.
    #[must_use]
    pub fn observed(self, observation: StreamObservation) -> Self {
        match self {
            Self::Whole(bytes) => Self::Whole(bytes),
            Self::Stream(download) => {
                Self::Stream(Download { observation: Some(Box::new(observation)), ..download })
            }
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = SourceError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SourceError>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(download) => {
                download.poll_next(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.length() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length())
    }
}

/// Reserves the bytes of a whole answer that is there. If the budget is used up, an answer that changed nothing is
/// refused; the answer to a write is sent in any case. A page has reserved its bytes while it was read, and is sent too.
pub(crate) fn hold(
    bytes: Bytes,
    taken: Option<Arc<Reservation>>,
    may_refuse: bool,
    reservation: impl FnOnce() -> Reservation,
) -> Option<Bytes> {
    if bytes.len() <= UNCOUNTED_BYTES {
        return Some(bytes);
    }
    let reservation = taken.unwrap_or_else(|| Arc::new(reservation()));
    let held = reservation.held();
    if held > bytes.len() {
        reservation.shrink(bytes.len());
    } else if !reservation.try_grow(bytes.len() - held) {
        if may_refuse && held == 0 {
            return None;
        }
        reservation.grow_anyway(bytes.len() - held);
    }
    Some(with_reservation(bytes, reservation))
}

/// An answer of a known length that is made while it is sent.
pub(crate) struct Download {
    left: u64,
    budget: Arc<Budget>,
    caller: CallerId,
    next: NextPiece,
    observation: Option<Box<StreamObservation>>,
    /// The reservation of what its source holds already.
    _reservation: Option<Arc<Reservation>>,
}

type Source = Box<dyn ByteSource>;
type Piece = Result<Option<Bytes>, SourceError>;

enum NextPiece {
    NotAsked(Source),
    Asked(Pin<Box<dyn Future<Output = (Source, Piece)> + Send>>),
    Over,
}

impl Download {
    /// So many bytes of a source.
    pub fn new(length: u64, source: Source, budget: Arc<Budget>, caller: CallerId) -> Self {
        Self {
            left: length,
            budget,
            caller,
            next: NextPiece::NotAsked(source),
            observation: None,
            _reservation: None,
        }
    }

    /// Keeps the reservation of bytes that the source holds, until it is gone.
    pub fn with_reservation(self, reservation: Option<Arc<Reservation>>) -> Self {
        Self { _reservation: reservation, ..self }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceError>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if let NextPiece::NotAsked(_) = self.next
            && let NextPiece::NotAsked(source) = std::mem::replace(&mut self.next, NextPiece::Over)
        {
            let expected = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE_BYTES_MAX);
            let reservation = self.budget.reservation(self.caller);
            self.next = NextPiece::Asked(Box::pin(next_piece(source, reservation, expected)));
        }
        let NextPiece::Asked(asked) = &mut self.next else { return Poll::Ready(None) };
        let (source, piece) = ready!(asked.as_mut().poll(context));
        self.next = NextPiece::Over;
        let piece = piece.and_then(|piece| {
            let piece = piece.ok_or_else(|| SourceError::Broken("it ended before its length".into()))?;
            let left = self.left.checked_sub(piece.len() as u64);
            self.left = left.ok_or(SourceError::TooLarge { bytes_max: self.left })?;
            Ok(piece)
        });
        if let Ok(piece) = &piece {
            if let Some(observation) = &mut self.observation {
                observation.note_piece(piece.len());
            }
            self.next = NextPiece::NotAsked(source);
        }
        Poll::Ready(Some(piece))
    }
}

async fn next_piece(mut source: Source, reservation: Reservation, expected: usize) -> (Source, Piece) {
    if reservation.grow(expected, BUDGET_WAIT_MAX).await.is_err() {
        return (source, Err(SourceError::OverBudget));
    }
    let piece = source.next().await;
    let piece = piece.map(|piece| piece.map(|piece| with_reservation(piece, Arc::new(reservation))));
    (source, piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> CallerId {
        CallerId::of("a", b"b")
    }

    #[test]
    fn an_answer_holds_its_bytes_until_it_is_let_go_and_a_read_without_budget_is_refused() {
        let budget = Budget::new(100_000);
        let reservation = || budget.reservation(caller());
        let small = hold(vec![0; UNCOUNTED_BYTES].into(), None, true, reservation).unwrap();
        assert_eq!(budget.held(), 0);
        let large = hold(vec![0; 50_000].into(), None, true, reservation).unwrap();
        assert_eq!(budget.held(), 50_000);
        assert!(hold(vec![0; 50_000].into(), None, true, reservation).is_none(), "a read");
        let written = hold(vec![0; 50_000].into(), None, false, reservation).unwrap();
        assert_eq!(budget.held(), 100_000, "the answer to a write is sent in any case");
        drop((small, large, written));
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_page_that_was_given_a_reservation_is_sent_whatever_its_text_takes() {
        let budget = Budget::new(100_000);
        let reservation = Arc::new(budget.reservation(caller()));
        assert!(reservation.try_grow(60_000));
        let page = hold(vec![0; 90_000].into(), Some(reservation), true, || unreachable!()).unwrap();
        assert_eq!(budget.held(), 90_000);
        drop(page);
        let reservation = Arc::new(budget.reservation(caller()));
        assert!(reservation.try_grow(60_000));
        let _page = hold(vec![0; 20_000].into(), Some(reservation), true, || unreachable!()).unwrap();
        assert_eq!(budget.held(), 20_000);
    }
}
