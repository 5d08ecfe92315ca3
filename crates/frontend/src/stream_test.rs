//! A service for tests of streams: it counts what is sent to it, and sends as much as it is asked for.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, StatusCode};
use tavola_model::{ErrorCode, ServiceError};
use tavola_protocol::Response;
use tavola_service::{ByteSource, PIECE_BYTES_MAX, SourceError};

use crate::answer::{AnswerBody, Download};
use crate::body::{BodyRule, Upload};
use crate::budget::{Budget, CallerId};
use crate::dispatch::Routed;
use crate::receive::Received;

/// Bytes of an upload.
pub(crate) const UPLOAD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What is asked.
pub(crate) enum StreamRoute {
    /// `PUT`: counts what comes.
    Upload,
    /// `GET` with `bytes=n`, and `fail=1` for a source that ends too early.
    Download { bytes: u64, fails: bool },
}

impl StreamRoute {
    /// Requests without a version are for this service.
    pub fn is_meant(received: &Received) -> bool {
        !received.headers.contains_key("x-ms-version")
    }

    pub fn find(received: &Received) -> Result<Self, ServiceError> {
        let option = |name: &str| {
            let mut parts = received.query().split('&').filter_map(|part| part.split_once('='));
            parts.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
        };
        match received.method {
            Method::PUT => Ok(Self::Upload),
            Method::GET | Method::HEAD => {
                let bytes = option("bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or_default();
                Ok(Self::Download { bytes, fails: option("fail").is_some() })
            }
            _ => Err(ErrorCode::InvalidHttpVerb.into()),
        }
    }

    pub fn body_rule(&self) -> BodyRule {
        BodyRule::Stream { bytes_max: UPLOAD_BYTES_MAX }
    }
}

impl Routed {
    pub async fn execute_stream(
        self,
        mut upload: Upload,
        answers: &Arc<Budget>,
        caller: CallerId,
    ) -> Result<(Response, AnswerBody), ServiceError> {
        match self {
            Routed::Stream(StreamRoute::Upload) => {
                let (mut bytes, mut sum) = (0u64, 0u64);
                while let Some(piece) = upload.next().await.map_err(refused)? {
                    assert!(!piece.is_empty() && piece.len() <= PIECE_BYTES_MAX);
                    bytes += piece.len() as u64;
                    sum = piece.iter().fold(sum, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
                }
                let text = format!("{bytes} bytes, sum {sum}");
                Ok((Response::empty(StatusCode::CREATED), AnswerBody::Whole(text.into())))
            }
            Routed::Stream(StreamRoute::Download { bytes, fails }) => {
                let left = if fails { bytes / 2 } else { bytes };
                let source = Box::new(Letters { left });
                let download = Download::new(bytes, source, answers.clone(), caller);
                Ok((Response::empty(StatusCode::OK), AnswerBody::Stream(download)))
            }
            Routed::Table(_) | Routed::Queue(_) | Routed::Blob(_) => Err(ErrorCode::NotImplemented.into()),
        }
    }
}

fn refused(error: SourceError) -> ServiceError {
    match error {
        SourceError::TooLarge { .. } => ErrorCode::RequestBodyTooLarge.into(),
        SourceError::TooSlow => ErrorCode::OperationTimedOut.into(),
        SourceError::NoRoom => ErrorCode::ServerBusy.into(),
        SourceError::Broken(_) => ErrorCode::InvalidInput.into(),
    }
}

struct Letters {
    left: u64,
}

#[async_trait]
impl ByteSource for Letters {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE_BYTES_MAX);
        self.left -= length as u64;
        tokio::task::yield_now().await;
        Ok((length > 0).then(|| vec![b'x'; length].into()))
    }
}
