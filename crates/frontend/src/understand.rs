//! Route, decode and encode, in the words of the service that was asked.

use tavola_auth::StorageService;
use tavola_model::{Address, Command, DateTime, ErrorCode, Guid, MESSAGE_BYTES_MAX, Outcome, ServiceError};
use tavola_protocol::queue::{self, QueueRequest};
use tavola_protocol::{CorsHeaders, Form, Layer, Reply, Request, Response};

use crate::receive::Received;

/// The command that a request asks for.
pub(crate) fn command(
    received: &Received<'_>,
    address: &Address<'_>,
    reply: &Reply,
    form: &mut Form,
) -> Result<Command, ServiceError> {
    match received.origin.service {
        StorageService::Table => table_command(received, address, reply, form),
        StorageService::Queue => queue_command(received, address, reply),
        StorageService::Blob => Err(ErrorCode::NotImplemented.into()),
    }
}

/// The answer to a request, in the form of the service that was asked. `ids` are fresh, for boundaries.
pub(crate) fn encode(
    service: StorageService,
    reply: &Reply,
    form: &Form,
    result: &Result<Outcome, ServiceError>,
    cors: Option<&CorsHeaders>,
    now: DateTime,
    ids: [Guid; 2],
) -> Response {
    match service {
        StorageService::Queue => queue::encode(reply, result, cors, now),
        StorageService::Table | StorageService::Blob => {
            tavola_protocol::encode(reply, form, result, cors, now, ids)
        }
    }
}

fn table_command(
    received: &Received<'_>,
    address: &Address<'_>,
    reply: &Reply,
    form: &mut Form,
) -> Result<Command, ServiceError> {
    let route = tavola_protocol::route(&received.method, address, &received.query, &received.headers)
        .map_err(|unroutable| form.refuse(unroutable))?;
    let body = received.body.as_ref().map_err(|code| {
        form.layer = Layer::Unresolved;
        ServiceError::new(*code)
    })?;
    let request = Request { address, query: &received.query, headers: &received.headers, body };
    tavola_protocol::decode(route, &request, reply, form)
}

fn queue_command(
    received: &Received<'_>,
    address: &Address<'_>,
    reply: &Reply,
) -> Result<Command, ServiceError> {
    let route = queue::route(&received.method, address, &received.query)?;
    let body = received.body.as_ref().map_err(|code| match code {
        ErrorCode::RequestBodyTooLarge => {
            ServiceError::new(*code).with_detail("MaxLimit", MESSAGE_BYTES_MAX.to_string())
        }
        other => ServiceError::new(*other),
    })?;
    let request = QueueRequest {
        version: &reply.version,
        query: &received.query,
        headers: &received.headers,
        spelled_names: &received.spelled_names,
        body,
    };
    queue::decode(route, &request)
}
