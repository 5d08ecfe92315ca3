//! An answer as a client received it, and why it may give no outcome.
//!
//! Reading is lenient: header names compare without case, headers may be missing, bodies may begin with a byte order
//! mark. A refusal keeps everything that the answer told; an answer of success that cannot be read is an error too,
//! never a guess.

use std::fmt;

use http::{HeaderMap, StatusCode, header};
use tavola_model::{DateTime, ErrorCode};

use crate::error_in;
use crate::reply::text;
use crate::status::status;

/// Characters of an unreadable body that a refusal repeats.
const TEXT_CHARS_MAX: usize = 512;

/// An answer, borrowed from where the transport keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status line.
    pub status: StatusCode,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The whole body, as far as the caller was willing to read.
    pub body: &'a [u8],
}

impl<'a> Answer<'a> {
    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        text(self.headers, name)
    }

    /// The service's id of the request.
    pub fn request_id(&self) -> Option<&'a str> {
        self.header("x-ms-request-id")
    }

    /// The time of the service when it answered.
    pub fn date(&self) -> Option<DateTime> {
        self.header("date").and_then(DateTime::parse_rfc1123)
    }

    /// The body as text without a byte order mark.
    pub(crate) fn text(&self) -> Result<&'a str, AnswerError> {
        let text = std::str::from_utf8(self.body).map_err(|_| self.unreadable("the body is not UTF-8"))?;
        Ok(text.trim_start_matches('\u{FEFF}'))
    }

    /// The answer, if it has one of the statuses that say that the operation succeeded.
    pub(crate) fn expect(&self, expected: &[StatusCode]) -> Result<(), AnswerError> {
        if expected.contains(&self.status) {
            return Ok(());
        }
        if self.status.is_success() {
            return Err(self.unreadable("the status is not one that the operation has"));
        }
        Err(AnswerError::Refused(Box::new(self.refusal())))
    }

    /// An answer of success that does not say what it must.
    pub(crate) fn unreadable(&self, reason: &'static str) -> AnswerError {
        AnswerError::Unreadable { status: self.status, reason }
    }

    /// What an answer that is no success tells.
    pub fn refusal(&self) -> Refusal {
        let told = error_in::parse(self.body);
        let code = told.code.as_deref().or_else(|| self.header("x-ms-error-code"));
        let (message, request_id) = split_message(&told.message);
        let request_id = self.request_id().or(request_id);
        Refusal {
            status: self.status,
            code: code.filter(|code| !code.is_empty()).map(|code| AnswerCode::read(code, self.status)),
            message: message.chars().take(TEXT_CHARS_MAX).collect(),
            index: None,
            request_id: request_id.map(str::to_owned),
            retry_after_ms: retry_after_ms(self.headers),
            details: told.details,
        }
    }
}

/// Why an answer gives no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The service, or something in front of it, refused.
    Refused(Box<Refusal>),
    /// The status says that the operation succeeded, but the answer does not say what it must. What was asked for
    /// may have been done.
    Unreadable {
        /// The status.
        status: StatusCode,
        /// What is missing or wrong.
        reason: &'static str,
    },
}

impl AnswerError {
    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Unreadable { .. } => None,
        }
    }

    /// Whether it is the refusal with this code.
    pub fn is(&self, code: ErrorCode) -> bool {
        self.refusal().is_some_and(|refusal| refusal.code == Some(AnswerCode::Known(code)))
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Unreadable { status, reason } => {
                write!(f, "answer cannot be read: {reason} (status={})", status.as_u16())
            }
        }
    }
}

impl std::error::Error for AnswerError {}

/// A refusal with all that its answer tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status: of the operation that failed, for one in a transaction.
    pub status: StatusCode,
    /// The code, if there is one: a gateway on the way has none.
    pub code: Option<AnswerCode>,
    /// The text without request id and time.
    pub message: String,
    /// Zero-based index of the operation of a transaction that failed.
    pub index: Option<usize>,
    /// The service's id of the request.
    pub request_id: Option<String>,
    /// How long the service asks to wait before the next try.
    pub retry_after_ms: Option<u64>,
    /// Further elements of the body, names and texts in order.
    pub details: Vec<(String, String)>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.as_ref().map_or("no code", AnswerCode::as_str);
        write!(f, "{code}: {} (status={}", self.message, self.status.as_u16())?;
        if let Some(index) = self.index {
            write!(f, ", operation={index}")?;
        }
        if let Some(id) = &self.request_id {
            write!(f, ", request_id={id}")?;
        }
        f.write_str(")")
    }
}

/// A code of a refusal. A code that this version does not know stays text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerCode {
    /// One that our own server has too.
    Known(ErrorCode),
    /// Another one.
    Other(Box<str>),
}

impl AnswerCode {
    /// Reads a code. Where two have one name, the status tells them apart.
    pub fn read(text: &str, answered: StatusCode) -> Self {
        let mut named = ErrorCode::ALL.iter().copied().filter(|code| code.as_str() == text).peekable();
        let first = named.peek().copied();
        match named.find(|code| status(*code) == answered).or(first) {
            Some(code) => Self::Known(code),
            None => Self::Other(text.into()),
        }
    }

    /// The code as it is on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(code) => code.as_str(),
            Self::Other(text) => text,
        }
    }
}

/// The text, and the id of the request that follows it.
fn split_message(message: &str) -> (&str, Option<&str>) {
    match message.split_once("\nRequestId:") {
        Some((text, rest)) => (text.trim_end_matches('\r'), rest.lines().next().map(str::trim)),
        None => (message.trim(), None),
    }
}

fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let precise = ["x-ms-retry-after-ms", "retry-after-ms"].into_iter();
    let precise = precise.filter_map(|name| text(headers, name)).find_map(number);
    precise.or_else(|| number(text(headers, header::RETRY_AFTER)?)?.checked_mul(1000))
}
