//! Each step to the service whose port was asked.
//!
//! Every service has the same steps under the same names, in its own file (`table.rs`, `queue.rs`, `blob.rs`).

use bytes::Bytes;
use tavola_auth::HeadOperation;
use tavola_model::{Command, ErrorCode, ServiceError, StorageService};
use tavola_protocol::blob::BlobRoute;
use tavola_protocol::queue::QueueRoute;
use tavola_protocol::table::TableRoute;
use tavola_protocol::{BodyKind, Form, Reply};

use crate::head::Head;
use crate::{blob, queue, table};

/// What a request addresses, in the words of its service.
pub(crate) enum Routed {
    Table(TableRoute),
    Queue(QueueRoute),
    Blob(BlobRoute),
}

impl Routed {
    /// Finds the route of a request.
    pub fn find(head: Head<'_>, form: &mut Form) -> Result<Self, ServiceError> {
        match head.received.origin.service {
            StorageService::Table => table::route(head, form).map(Self::Table),
            StorageService::Queue => queue::route(head).map(Self::Queue),
            StorageService::Blob => blob::route(head).map(Self::Blob),
        }
    }

    /// How the body is taken.
    pub fn body_kind(&self) -> BodyKind {
        match self {
            Self::Table(route) => route.body_kind(),
            Self::Queue(route) => route.body_kind(),
            Self::Blob(route) => route.body_kind(),
        }
    }

    /// The operation that may need a reservation for its body; `None` if it takes none.
    pub fn head_operation(&self) -> Option<HeadOperation<'_>> {
        match self {
            Self::Table(route) => table::head_operation(route),
            Self::Queue(route) => queue::head_operation(route),
            Self::Blob(route) => blob::head_operation(route),
        }
    }

    /// Notes who refuses a caller by the head of the request.
    pub fn note_refusal(&self, form: &mut Form) {
        if let Self::Table(route) = self {
            table::note_refusal(route, form);
        }
    }

    /// The error for a body that could not be had.
    pub fn refuse_body(&self, code: ErrorCode, form: &mut Form) -> ServiceError {
        match self {
            Self::Table(_) => table::refuse_body(code, form),
            Self::Queue(_) => queue::refuse_body(code),
            Self::Blob(_) => blob::refuse_body(code),
        }
    }

    /// The command that the request asks for.
    pub fn decode(
        self,
        head: Head<'_>,
        body: &Bytes,
        reply: &Reply,
        form: &mut Form,
    ) -> Result<Command, ServiceError> {
        match self {
            Self::Table(route) => table::decode(route, head, body, form),
            Self::Queue(route) => queue::decode(route, head, body, reply),
            Self::Blob(route) => blob::decode(route, head, body, reply),
        }
    }
}
