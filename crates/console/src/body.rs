//! Bodies: what requests bring, within bounds, and what answers take, whole or piece by piece.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tavola_service::{ByteSource, PIECE_BYTES_MAX, SourceError};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long a small body may take.
const BODY_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a stream may pause.
const PAUSE_TIME_MAX: Duration = Duration::from_secs(30);

/// Why a body was not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge,
    Broken,
}

/// Reads a body to its end.
pub(crate) async fn read(incoming: Incoming, bytes_max: usize) -> Result<Bytes, BodyError> {
    match timeout(BODY_TIME_MAX, Limited::new(incoming, bytes_max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Ok(Err(_)) | Err(_) => Err(BodyError::Broken),
    }
}

/// The body of an upload, piece by piece.
pub(crate) struct UploadBody {
    incoming: Incoming,
    rest: BytesMut,
    left: u64,
    bytes_max: u64,
}

impl UploadBody {
    pub fn new(incoming: Incoming, bytes_max: u64) -> Self {
        Self { incoming, rest: BytesMut::new(), left: bytes_max, bytes_max }
    }
}

#[async_trait]
impl ByteSource for UploadBody {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        while self.rest.is_empty() {
            let frame =
                timeout(PAUSE_TIME_MAX, self.incoming.frame()).await.map_err(|_| SourceError::TooSlow)?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| SourceError::Broken(error.into()))?;
            if let Ok(data) = frame.into_data() {
                let left = self.left.checked_sub(data.len() as u64);
                self.left = left.ok_or(SourceError::TooLarge { bytes_max: self.bytes_max })?;
                self.rest.extend_from_slice(&data);
            }
        }
        let length = self.rest.len().min(PIECE_BYTES_MAX);
        Ok(Some(self.rest.split_to(length).freeze()))
    }
}

/// The body of an answer.
pub(crate) enum AnswerBody {
    Whole(Bytes),
    Download(Download),
    /// Messages of the event stream, as they come.
    Events(mpsc::Receiver<Bytes>),
}

impl AnswerBody {
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(bytes.into())
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
            Self::Download(download) => {
                download.poll_next(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
            Self::Events(events) => {
                events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Download(download) => SizeHint::with_exact(download.left),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

type Source = Box<dyn ByteSource>;
type Piece = Result<Option<Bytes>, SourceError>;
type Asked = Pin<Box<dyn Future<Output = (Source, Piece)> + Send>>;

/// An answer of a known length that is made while it is sent: the next piece is made when the last one has gone.
pub(crate) struct Download {
    left: u64,
    next: Option<Asked>,
}

impl Download {
    pub fn new(length: u64, source: Source) -> Self {
        Self { left: length, next: Some(ask(source)) }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceError>>> {
        let Some(asked) = self.next.as_mut().filter(|_| self.left > 0) else { return Poll::Ready(None) };
        let (source, piece) = ready!(asked.as_mut().poll(context));
        self.next = None;
        let piece = piece.and_then(|piece| {
            let piece = piece.ok_or_else(|| SourceError::Broken("it ended before its length".into()))?;
            let left = self.left.checked_sub(piece.len() as u64);
            self.left = left.ok_or(SourceError::TooLarge { bytes_max: self.left })?;
            Ok(piece)
        });
        if piece.is_ok() {
            self.next = Some(ask(source));
        }
        Poll::Ready(Some(piece))
    }
}

fn ask(mut source: Source) -> Asked {
    Box::pin(async move {
        let piece = source.next().await;
        (source, piece)
    })
}
