//! One malformed request and the answer it must get.

use http::Method;
use tavola_testkit::{Request, Response};

use crate::exchange::{self, Answer};

/// A row of the table.
pub struct Case {
    /// A sentence about what is wrong.
    pub name: &'static str,
    send: Send,
    expected: Expected,
    message: Option<String>,
}

/// What goes over the wire.
pub enum Send {
    /// A request, signed.
    Signed(Request),
    /// A request, signed, and then its head altered: the first text is replaced by the second.
    Altered(Request, String, String),
    /// A request without credentials.
    Anonymous(Request),
    /// A request with this authorization.
    AuthorizedBy(Request, &'static str),
    /// A request signed with another date or key.
    SignedWith(Request, Box<exchange::Signer>),
    /// These bytes; the server closes the connection when it has answered.
    Raw(Vec<u8>),
    /// These bytes, after which the client closes its side.
    CutShort(Vec<u8>),
}

enum Expected {
    /// This status and code.
    Refused(u16, &'static str),
    /// A batch with one part of this status and code.
    PartRefused(u16, &'static str),
    /// A batch without parts.
    NoParts,
    /// This status from the HTTP layer, which knows no codes.
    Unread(u16),
    /// No answer at all: the connection ends.
    Closed,
}

/// Begins a case.
pub fn case(name: &'static str, send: impl Into<Send>) -> Unanswered {
    Unanswered { name, send: send.into() }
}

/// A case whose answer is still to be told.
pub struct Unanswered {
    name: &'static str,
    send: Send,
}

impl Unanswered {
    fn expect(self, expected: Expected) -> Case {
        Case { name: self.name, send: self.send, expected, message: None }
    }

    /// The whole request is refused.
    pub fn refused(self, status: u16, code: &'static str) -> Case {
        self.expect(Expected::Refused(status, code))
    }

    /// The batch is accepted and its only part is a refusal.
    pub fn part_refused(self, status: u16, code: &'static str) -> Case {
        self.expect(Expected::PartRefused(status, code))
    }

    /// The batch is accepted and nothing is found in it.
    pub fn finds_no_parts(self) -> Case {
        self.expect(Expected::NoParts)
    }

    /// The HTTP layer refuses it before a request exists.
    pub fn unread(self, status: u16) -> Case {
        self.expect(Expected::Unread(status))
    }

    /// The connection ends without an answer.
    pub fn closed(self) -> Case {
        self.expect(Expected::Closed)
    }
}

impl Case {
    /// The text of the error, without request id and time.
    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Sends the request; an error says how the answer differs.
    pub fn run(&self, endpoint: &str) -> Result<(), String> {
        let answer = exchange::send(endpoint, &self.send).map_err(|error| format!("no answer ({error})"))?;
        match (&self.expected, &answer) {
            (Expected::Closed, Answer::Closed) => Ok(()),
            (Expected::Unread(status), Answer::Response(response)) if response.status == *status => Ok(()),
            (Expected::Refused(status, code), Answer::Response(response)) => {
                self.check((*status, code), (response.status, &response.text()), response)
            }
            (Expected::PartRefused(status, code), Answer::Response(response)) if response.status == 202 => {
                let text = response.text();
                let parts = exchange::parts(&text);
                let [(part_status, body)] = parts.as_slice() else {
                    return Err(format!("{} parts: {text}", parts.len()));
                };
                self.check((*status, code), (*part_status, body), response)
            }
            (Expected::NoParts, Answer::Response(response))
                if response.status == 202 && exchange::parts(&response.text()).is_empty() =>
            {
                Ok(())
            }
            (_, answer) => Err(format!("got {answer}")),
        }
    }

    fn check(&self, expected: (u16, &str), got: (u16, &str), response: &Response) -> Result<(), String> {
        let (status, body) = got;
        let Some(error) = exchange::error(body) else {
            return Err(format!("{status} without a code: {body}"));
        };
        if (status, error.code.as_str()) != expected {
            return Err(format!("expected {expected:?}, got {status} {} {:?}", error.code, error.message));
        }
        if response.header("x-ms-request-id") != Some(error.request_id.as_str()) {
            return Err(format!("the message names request {}", error.request_id));
        }
        match &self.message {
            Some(message) if *message != error.message => {
                Err(format!("expected {message:?}, got {:?}", error.message))
            }
            _ => Ok(()),
        }
    }
}

impl From<Request> for Send {
    fn from(request: Request) -> Self {
        Self::Signed(request)
    }
}

/// A GET below the account.
pub fn get(target: impl Into<String>) -> Request {
    Request::get(target)
}

/// A POST of JSON below the account.
pub fn post(target: impl Into<String>, body: impl Into<Vec<u8>>) -> Request {
    Request::new(Method::POST, target).with_json(body)
}

/// A PUT of JSON below the account.
pub fn put(target: impl Into<String>, body: impl Into<Vec<u8>>) -> Request {
    Request::new(Method::PUT, target).with_json(body)
}

/// Any verb, without a body.
pub fn verb(name: &str, target: impl Into<String>) -> Request {
    Request::new(Method::from_bytes(name.as_bytes()).unwrap(), target)
}

/// A signed GET whose query is no UTF-8, which the signer would refuse to sign.
pub fn get_no_utf8(target: &str) -> Send {
    altered(Request::get(format!("{target}BAD")), "BAD", "%FF%FE")
}

/// A signed request with pieces of its head replaced afterwards.
pub fn altered(request: Request, from: &str, to: impl Into<String>) -> Send {
    Send::Altered(request, from.to_owned(), to.into())
}

/// An entity of the seeded table.
pub const ENTITY: &str = "/Seeded(PartitionKey='p',RowKey='1')";
/// What the service says of bodies it cannot read.
pub const UNREADABLE: &str = "An error occurred while processing this request.";
/// What the service says of anything else.
pub const INVALID: &str = "One of the request inputs is not valid.";
/// What the service says of paths it cannot read.
pub const BAD_SYNTAX: &str = "Bad Request - Error in query syntax.";
