//! One request of a sequence, with what only an answer can tell left open.
//!
//! Targets, headers and bodies may hold placeholders such as `<<etag:p|r>>`, which each server's own earlier answers
//! fill (`peer.rs`). So a sequence is fixed by its seed, and the same for both servers.

use http::Method;

/// A request, and what to call it in a list of differences.
#[derive(Clone, Debug)]
pub struct Call {
    /// The operation in the words of the documentation.
    pub operation: &'static str,
    /// What is special about this request; a known difference names it.
    pub case: String,
    /// The verb.
    pub method: Method,
    /// Path and query below the account.
    pub target: String,
    /// Headers beside those that every request has.
    pub headers: Vec<(&'static str, String)>,
    /// The body, empty for none.
    pub body: String,
    /// The entity, message or blob that the answer tells about.
    pub subject: String,
    /// How long to wait before it is sent, for what becomes visible.
    pub wait_ms: u64,
}

impl Call {
    /// A request without a body.
    pub fn new(
        operation: &'static str,
        case: impl Into<String>,
        method: Method,
        target: impl Into<String>,
    ) -> Self {
        Self {
            operation,
            case: case.into(),
            method,
            target: target.into(),
            headers: Vec::new(),
            body: String::new(),
            subject: String::new(),
            wait_ms: 0,
        }
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same with a body.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<String>) -> Self {
        self.headers.push(("Content-Type", content_type.to_owned()));
        self.body = body.into();
        self
    }

    /// The same about this entity, message or blob.
    #[must_use]
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = subject.into();
        self
    }
}

/// Which service a sequence talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Tables.
    Table,
    /// Queues.
    Queue,
    /// Blobs.
    Blob,
}

impl Service {
    /// Its word in reports and in the list.
    pub fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Queue => "queue",
            Self::Blob => "blob",
        }
    }
}

/// Whether other sequences may run beside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// It keeps to tables, queues and containers of its own.
    Welcome,
    /// It changes what the whole account shares.
    Alone,
}

/// Requests that belong together.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Which service it talks to.
    pub service: Service,
    /// Its index in the run, which with the seed makes it again.
    pub number: u64,
    /// Whether others may run beside it.
    pub company: Company,
    /// In the order they are sent.
    pub calls: Vec<Call>,
}
