//! Route, body and decode in the words of the Queue service.

use bytes::Bytes;
use tavola_auth::{HeadNeed, Permissions, ResourceNeed};
use tavola_model::{Command, ErrorCode, MESSAGE_BYTES_MAX, QUEUE_BODY_BYTES_MAX, QueueName, ServiceError};
use tavola_protocol::queue::{self, QueueRequest, QueueRoute};
use tavola_protocol::{AccountRoute, Reply};

use crate::body::BodyRule;
use crate::pipeline::Head;

/// What a request addresses.
pub(crate) fn route(head: Head<'_>) -> Result<QueueRoute, ServiceError> {
    queue::route(&head.received.method, head.address, head.query)
}

/// How its body is taken.
pub(crate) fn body_rule(route: &QueueRoute) -> BodyRule {
    match route {
        QueueRoute::Account(AccountRoute::SetServiceProperties)
        | QueueRoute::SetQueueAcl(_)
        | QueueRoute::PutMessage(_)
        | QueueRoute::UpdateMessage(..) => BodyRule::Whole { bytes_max: QUEUE_BODY_BYTES_MAX },
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
        | QueueRoute::DeleteMessage(..) => BodyRule::Ignored,
    }
}

/// What it needs of a token, as far as the route tells; `None` if it takes no body.
pub(crate) fn head_need(route: &QueueRoute) -> Option<HeadNeed<'_>> {
    match route {
        QueueRoute::Account(AccountRoute::SetServiceProperties) => {
            Some(HeadNeed { account_sas: Some(('s', Permissions::Any("w"))), service_sas: None })
        }
        QueueRoute::SetQueueAcl(_) => Some(HeadNeed { account_sas: None, service_sas: None }),
        QueueRoute::PutMessage(queue) => Some(messages(queue, "a")),
        QueueRoute::UpdateMessage(queue, _) => Some(messages(queue, "u")),
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

fn messages<'a>(queue: &'a QueueName, letters: &'static str) -> HeadNeed<'a> {
    let permissions = Permissions::Any(letters);
    HeadNeed {
        account_sas: Some(('o', permissions)),
        service_sas: Some(ResourceNeed { resource: Some(queue.as_str()), permissions, key: None }),
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
