//! The way of every request: sign → send → classify, again where that can help.
//!
//! Nothing here knows what an operation means. The caller learns, beside the answer, whether the answer to an earlier
//! try was lost: only then can a refusal be the echo of its own success, and `resolve` finds that out.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::{HeaderName, HeaderValue, StatusCode};
use tavola_auth::{Scheme, SignedRequest, sign_request};
use tavola_model::{Query, StorageService};
use tavola_protocol::{Answer, AnswerError, Refusal, Request};
use tokio::time::Instant;
use tracing::Instrument;

use crate::account::{Account, Signer, now};
use crate::error::{Error, Result};
use crate::retry::random;
use crate::table::has_code;
use crate::transport::TransportError;

static X_MS_DATE: HeaderName = HeaderName::from_static("x-ms-date");

/// One call: what it asks for and how long it may take.
pub(crate) struct Call<'a> {
    pub(crate) service: StorageService,
    /// The service's word for the operation, for the span.
    pub(crate) operation: &'static str,
    pub(crate) request: &'a Request,
    /// For all tries; the account's setting if `None`.
    pub(crate) deadline: Option<Duration>,
}

/// How a call ended.
pub(crate) struct Tried<T> {
    pub(crate) told: Told<T>,
    /// The answer to a try before the last one was lost: the operation may have been done before.
    pub(crate) lost: bool,
    /// When the first try began.
    pub(crate) started: Instant,
    pub(crate) attempts: u32,
}

/// What was told at last.
pub(crate) enum Told<T> {
    /// The service did it.
    Done(T),
    /// The service refused for good.
    Refused(Box<Refusal>),
    /// No answer that settles it, and no more tries.
    GaveUp(Error),
}

impl<T> Tried<T> {
    /// For operations that may be repeated without harm: what was told is what is so.
    pub(crate) fn idempotent(self) -> Result<T> {
        let attempts = self.attempts;
        match self.told {
            Told::Done(value) => Ok(value),
            Told::Refused(refusal) => Err(Error::Service(refusal)),
            Told::GaveUp(cause) if self.lost => {
                Err(Error::OutcomeUnknown { attempts, cause: Some(Box::new(cause)) })
            }
            Told::GaveUp(cause) => Err(cause),
        }
    }

    /// For operations that change nothing.
    pub(crate) fn read(self) -> Result<T> {
        match self.told {
            Told::Done(value) => Ok(value),
            Told::Refused(refusal) => Err(Error::Service(refusal)),
            Told::GaveUp(cause) => Err(cause),
        }
    }
}

/// What one try told.
enum Try<T> {
    Settled(Told<T>),
    /// Worth another try; `lost` if the operation may have been done.
    Again {
        lost: bool,
        after: Option<Duration>,
        cause: Error,
    },
}

impl Account {
    /// Sends until an answer settles it, the deadline has passed, or the tries or the budget are used up. One span a call,
    /// with the field `error` where it failed; an answer that was to be expected, like that there is no such entity, is no
    /// error in it.
    pub(crate) async fn call<T>(
        &self,
        call: &Call<'_>,
        read: impl Fn(&Answer<'_>) -> Result<T, AnswerError>,
    ) -> Tried<T> {
        let span = tracing::debug_span!(
            "storage_request",
            service = call.service.as_str(),
            operation = call.operation,
            error = tracing::field::Empty
        );
        let tried = self.call_within(call, read).instrument(span.clone()).await;
        match &tried.told {
            Told::Refused(refusal) if !is_expected(refusal) => {
                span.record("error", tracing::field::display(refusal));
            }
            Told::GaveUp(error) => {
                span.record("error", tracing::field::display(error));
            }
            Told::Done(_) | Told::Refused(_) => {}
        }
        tried
    }

    async fn call_within<T>(
        &self,
        call: &Call<'_>,
        read: impl Fn(&Answer<'_>) -> Result<T, AnswerError>,
    ) -> Tried<T> {
        let retry = &self.shared.retry;
        let started = Instant::now();
        let ends = started + call.deadline.unwrap_or(retry.deadline);
        self.shared.budget.earn();
        let mut tried =
            Tried { told: Told::GaveUp(Error::Limit("deadline")), lost: false, started, attempts: 0 };
        loop {
            tried.attempts += 1;
            let timeout = retry.try_timeout.min(ends.saturating_duration_since(Instant::now()));
            let (after, cause) = match self.try_once(call, timeout, &read).await {
                Try::Settled(told) => {
                    tried.told = told;
                    return tried;
                }
                Try::Again { lost, after, cause } => {
                    tried.lost |= lost;
                    (after, cause)
                }
            };
            let wait = retry.wait(tried.attempts, after, random());
            let too_late = Instant::now() + wait >= ends;
            if too_late || tried.attempts >= retry.tries_max || !self.shared.budget.spend() {
                tried.told = Told::GaveUp(cause);
                return tried;
            }
            tracing::debug!(operation = call.operation, attempt = tried.attempts, %cause, "request is repeated");
            tokio::time::sleep(wait).await;
        }
    }

    async fn try_once<T>(
        &self,
        call: &Call<'_>,
        timeout: Duration,
        read: &impl Fn(&Answer<'_>) -> Result<T, AnswerError>,
    ) -> Try<T> {
        let signed = match self.signed(call).await {
            Ok(signed) => signed,
            Err(error) => return Try::Settled(Told::GaveUp(error)),
        };
        let response = match tokio::time::timeout(timeout, self.shared.transport.send(signed)).await {
            Ok(Ok(response)) => response,
            Ok(Err(TransportError::NotSent(text))) => {
                return Try::Again { lost: false, after: None, cause: Error::NotSent(text) };
            }
            Ok(Err(TransportError::AnswerLost(text))) => return lost(Error::Unreadable(text)),
            Err(_) => return lost(Error::Unreadable("no answer in time".to_owned())),
        };
        let answer =
            Answer { status: response.status(), headers: response.headers(), body: response.body().as_ref() };
        let told = read(&answer);
        let code =
            told.as_ref().err().and_then(AnswerError::refusal).and_then(|refusal| refusal.code.as_ref());
        tracing::debug!(
            operation = call.operation,
            status = answer.status.as_u16(),
            code = code.map(|code| code.as_str()),
            request_id = answer.request_id(),
            "answered"
        );
        match told {
            Ok(value) => Try::Settled(Told::Done(value)),
            Err(AnswerError::Refused(refusal)) if is_transient(refusal.status) => Try::Again {
                // Any of these may have been said after the work was done.
                lost: true,
                after: refusal.retry_after_ms.map(Duration::from_millis),
                cause: Error::Service(refusal),
            },
            Err(AnswerError::Refused(refusal)) => Try::Settled(Told::Refused(refusal)),
            Err(unreadable @ AnswerError::Unreadable { .. }) => lost(unreadable.into()),
        }
    }

    /// The request as it goes out, dated and signed again for each try.
    async fn signed(&self, call: &Call<'_>) -> Result<http::Request<Bytes>> {
        let endpoint = self.endpoint(call.service);
        let mut target = call.request.target(&endpoint.path);
        let mut headers = call.request.headers.clone();
        let bad = |_| Error::Invalid("the request has a header or a path that cannot be sent".to_owned());
        headers.insert(
            &X_MS_DATE,
            HeaderValue::try_from(now().to_rfc1123()).map_err(|error| bad(error.into()))?,
        );
        if !call.request.body.is_empty() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(call.request.body.len()));
        }
        match &self.shared.signer {
            Signer::Key(account) => {
                let scheme = match call.service {
                    StorageService::Table => Scheme::SharedKeyLite,
                    StorageService::Queue | StorageService::Blob => Scheme::SharedKey,
                };
                let path = target.split('?').next().unwrap_or_default();
                let query = Query::parse(&call.request.query).unwrap_or_default();
                let parts =
                    SignedRequest { method: &call.request.method, path, query: &query, headers: &headers };
                let value = sign_request(account, call.service, scheme, &parts)?;
                headers
                    .insert(AUTHORIZATION, HeaderValue::try_from(value).map_err(|error| bad(error.into()))?);
            }
            Signer::Sas(sas) => {
                target.push(if call.request.query.is_empty() { '?' } else { '&' });
                target.push_str(sas);
            }
            Signer::Token(source) => {
                let value = HeaderValue::try_from(format!("Bearer {}", source().await?));
                headers.insert(AUTHORIZATION, value.map_err(|error| bad(error.into()))?);
            }
        }
        let uri = http::Uri::builder()
            .scheme(endpoint.scheme.clone())
            .authority(endpoint.authority.clone())
            .path_and_query(target)
            .build()
            .map_err(bad)?;
        let mut request = http::Request::new(call.request.body.clone());
        *request.method_mut() = call.request.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn lost<T>(cause: Error) -> Try<T> {
    Try::Again { lost: true, after: None, cause }
}

/// Whether a refusal is an answer that callers ask for: it is there already, it is not there, it was changed. A table, a
/// queue or a container that is missing is none of these.
fn is_expected(refusal: &Refusal) -> bool {
    let told = [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::PRECONDITION_FAILED];
    let missing = ["TableNotFound", "QueueNotFound", "ContainerNotFound"];
    told.contains(&refusal.status) && !missing.iter().any(|code| has_code(refusal, code))
}

/// Whether the same request may be answered otherwise a moment later. A redirect or an unknown method stays what it is.
fn is_transient(status: StatusCode) -> bool {
    let permanent = [StatusCode::NOT_IMPLEMENTED, StatusCode::HTTP_VERSION_NOT_SUPPORTED];
    let early = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    (status.is_server_error() && !permanent.contains(&status)) || early.contains(&status)
}
