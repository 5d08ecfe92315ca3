//! Route and decode, in the words of the service that was asked.
use tavola_model::{Address, Command, ErrorCode, MESSAGE_BYTES_MAX, Query, ServiceError, StorageService};
use tavola_protocol::queue::{self, QueueRequest};
use tavola_protocol::table::{self, Layer, TableRequest};
use tavola_protocol::{Form, Reply};

use crate::receive::Received;

/// The command that a request asks for.
pub(crate) fn command(
    received: &Received<'_>,
    query: &Query<'_>,
    address: &Address<'_>,
    reply: &Reply,
    form: &mut Form,
) -> Result<Command, ServiceError> {
    match received.origin.service {
        StorageService::Table => table_command(received, query, address, form),
        StorageService::Queue => queue_command(received, query, address, reply),
        StorageService::Blob => Err(ErrorCode::NotImplemented.into()),
    }
}

fn table_command(
    received: &Received<'_>,
    query: &Query<'_>,
    address: &Address<'_>,
    form: &mut Form,
) -> Result<Command, ServiceError> {
    let route = table::route(&received.method, address, query, &received.headers)
        .map_err(|unroutable| form.refuse(unroutable))?;
    let body = received.body.as_ref().map_err(|code| {
        form.layer = Layer::Unresolved;
        ServiceError::new(*code)
    })?;
    let request = TableRequest { address, query, headers: &received.headers, body };
    table::decode(route, &request, form)
}

fn queue_command(
    received: &Received<'_>,
    query: &Query<'_>,
    address: &Address<'_>,
    reply: &Reply,
) -> Result<Command, ServiceError> {
    let route = queue::route(&received.method, address, query)?;
    let body = received.body.as_ref().map_err(|code| match code {
        ErrorCode::RequestBodyTooLarge => {
            ServiceError::new(*code).with_detail("MaxLimit", MESSAGE_BYTES_MAX.to_string())
        }
        other => ServiceError::new(*other),
    })?;
    let request = QueueRequest {
        version: &reply.version,
        query,
        headers: &received.headers,
        spelled_names: &received.spelled_names,
        body,
    };
    queue::decode(route, &request)
}
