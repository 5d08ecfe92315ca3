//! What can be asked of the queue service.

use crate::{MessageId, Metadata, PopReceipt, QueueName, SignedIdentifier};

/// A decoded request to the queue service.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum QueueCommand {
    ListQueues(ListQueues),
    CreateQueue(QueueName, Metadata),
    DeleteQueue(QueueName),
    GetQueueMetadata(QueueName),
    SetQueueMetadata(QueueName, Metadata),
    GetQueueAcl(QueueName),
    SetQueueAcl(QueueName, Vec<SignedIdentifier>),
    PutMessage(PutMessage),
    GetMessages(GetMessages),
    PeekMessages(PeekMessages),
    UpdateMessage(UpdateMessage),
    DeleteMessage(MessageRef),
    ClearMessages(QueueName),
}

impl QueueCommand {
    /// Whether it changes anything; such a command is refused on the secondary endpoint.
    pub fn writes(&self) -> bool {
        match self {
            Self::ListQueues(_)
            | Self::GetQueueMetadata(_)
            | Self::GetQueueAcl(_)
            | Self::PeekMessages(_) => false,
            Self::CreateQueue(..)
            | Self::DeleteQueue(_)
            | Self::SetQueueMetadata(..)
            | Self::SetQueueAcl(..)
            | Self::PutMessage(_)
            | Self::GetMessages(_)
            | Self::UpdateMessage(_)
            | Self::DeleteMessage(_)
            | Self::ClearMessages(_) => true,
        }
    }

    /// Its name in logs and metrics: the service's own word for the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ListQueues(_) => "ListQueues",
            Self::CreateQueue(..) => "CreateQueue",
            Self::DeleteQueue(_) => "DeleteQueue",
            Self::GetQueueMetadata(_) => "GetQueueMetadata",
            Self::SetQueueMetadata(..) => "SetQueueMetadata",
            Self::GetQueueAcl(_) => "GetQueueAcl",
            Self::SetQueueAcl(..) => "SetQueueAcl",
            Self::PutMessage(_) => "PutMessage",
            Self::GetMessages(_) => "GetMessages",
            Self::PeekMessages(_) => "PeekMessages",
            Self::UpdateMessage(_) => "UpdateMessage",
            Self::DeleteMessage(_) => "DeleteMessage",
            Self::ClearMessages(_) => "ClearMessages",
        }
    }

    /// The queue it names, if it names one.
    pub fn queue(&self) -> Option<&QueueName> {
        match self {
            Self::ListQueues(_) => None,
            Self::CreateQueue(queue, _)
            | Self::DeleteQueue(queue)
            | Self::GetQueueMetadata(queue)
            | Self::SetQueueMetadata(queue, _)
            | Self::GetQueueAcl(queue)
            | Self::SetQueueAcl(queue, _)
            | Self::ClearMessages(queue) => Some(queue),
            Self::PutMessage(put) => Some(&put.queue),
            Self::GetMessages(get) => Some(&get.queue),
            Self::PeekMessages(peek) => Some(&peek.queue),
            Self::UpdateMessage(update) => Some(&update.message.queue),
            Self::DeleteMessage(message) => Some(&message.queue),
        }
    }
}

/// List Queues.
#[derive(Clone, Debug, Default)]
pub struct ListQueues {
    /// What names begin with.
    pub prefix: Option<String>,
    /// The name at which the page begins.
    pub from: Option<String>,
    /// How many at most on this page.
    pub max: Option<u32>,
    /// Each with its metadata.
    pub with_metadata: bool,
    /// The marker as it was sent, which the answer repeats.
    pub marker: Option<String>,
}

/// Put Message.
#[derive(Clone, Debug)]
pub struct PutMessage {
    /// Where to.
    pub queue: QueueName,
    /// Its text.
    pub text: String,
    /// For how long nobody sees it.
    pub hidden_seconds: u32,
    /// How long it lives; `None` for ever.
    pub life_seconds: Option<u32>,
}

/// Get Messages.
#[derive(Clone, Debug)]
pub struct GetMessages {
    /// Where from.
    pub queue: QueueName,
    /// How many at most.
    pub count: u32,
    /// For how long nobody else sees them.
    pub hidden_seconds: u32,
}

/// Peek Messages.
#[derive(Clone, Debug)]
pub struct PeekMessages {
    /// Where from.
    pub queue: QueueName,
    /// How many at most.
    pub count: u32,
}

/// A message with the receipt of whoever holds it.
#[derive(Clone, Debug)]
pub struct MessageRef {
    /// Its queue.
    pub queue: QueueName,
    /// Which; `None` for an id of a form that no message has.
    pub id: Option<MessageId>,
    /// The receipt; `None` for one of a form that no message has had.
    pub receipt: Option<PopReceipt>,
}

/// Update Message.
#[derive(Clone, Debug)]
pub struct UpdateMessage {
    /// Which.
    pub message: MessageRef,
    /// For how long nobody else sees it from now on.
    pub hidden_seconds: u32,
    /// Its new text; `None` leaves it as it is.
    pub text: Option<String>,
}
