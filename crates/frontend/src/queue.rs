//! Route, body and decode in the words of the Queue service.

use bytes::Bytes;
use tavola_auth::HeadOperation;
use tavola_model::{Command, ErrorCode, MESSAGE_BYTES_MAX, ServiceError};
use tavola_protocol::queue::{self, QueueRequest, QueueRoute};
use tavola_protocol::{AccountRoute, Reply};

use crate::head::Head;

/// What a request addresses.
pub(crate) fn route(head: Head<'_>) -> Result<QueueRoute, ServiceError> {
    queue::route(&head.received.method, head.address, head.query)
}

/// The operation that may need a reservation for its body; `None` if it takes none.
pub(crate) fn head_operation(route: &QueueRoute) -> Option<HeadOperation<'_>> {
    match route {
        QueueRoute::Account(AccountRoute::SetServiceProperties) => Some(HeadOperation::SetServiceProperties),
        QueueRoute::SetQueueAcl(_) => Some(HeadOperation::SetAcl),
        QueueRoute::PutMessage(queue) => Some(HeadOperation::PutMessage(queue)),
        QueueRoute::UpdateMessage(queue, _) => Some(HeadOperation::UpdateMessage(queue)),
        QueueRoute::Account(
            AccountRoute::Preflight | AccountRoute::GetServiceProperties | AccountRoute::GetServiceStats,
        )
        | QueueRoute::ListQueues
        | QueueRoute::CreateQueue(_)
        | QueueRoute::DeleteQueue(_)
        | QueueRoute::GetQueueMetadata(_)
        | QueueRoute::SetQueueMetadata(_)
        | QueueRoute::GetQueueAcl(_)
        | QueueRoute::GetMessages(_)
        | QueueRoute::PeekMessages(_)
        | QueueRoute::ClearMessages(_)
        | QueueRoute::DeleteMessage(..) => None,
    }
}

/// The error for a body that could not be had.
pub(crate) fn refuse_body(code: ErrorCode) -> ServiceError {
    match code {
        ErrorCode::RequestBodyTooLarge => {
            ServiceError::new(code).with_detail("MaxLimit", MESSAGE_BYTES_MAX.to_string())
        }
        other => ServiceError::new(other),
    }
}

/// The command that a request asks for.
pub(crate) fn decode(
    route: QueueRoute,
    head: Head<'_>,
    body: &Bytes,
    reply: &Reply,
) -> Result<Command, ServiceError> {
    let request = QueueRequest {
        version: &reply.version,
        query: head.query,
        headers: &head.received.headers,
        metadata_names: &head.received.metadata_names,
        body,
    };
    queue::decode(route, &request)
}
