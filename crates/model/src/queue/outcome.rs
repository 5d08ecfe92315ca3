//! What a queue command gave when it succeeded.

use crate::{ListQueues, Message, MessageHold, Metadata, QueueName, SignedIdentifier};

/// The result of a queue command.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum QueueOutcome {
    QueuesListed(QueuePage),
    QueueCreated(QueueWas),
    QueueDeleted,
    QueueMetadataFetched { metadata: Metadata, message_count: u64 },
    QueueMetadataSet,
    QueueAclFetched(Vec<SignedIdentifier>),
    QueueAclSet,
    MessagePut(Message, MessageHold),
    MessagesGot(Vec<(Message, MessageHold)>),
    MessagesPeeked(Vec<Message>),
    MessageUpdated(MessageHold),
    MessageDeleted,
    MessagesCleared,
}

/// What was there before a queue was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueWas {
    /// Nothing.
    Missing,
    /// The queue, with the same metadata.
    There,
}

/// One page of queues.
#[derive(Clone, Debug)]
pub struct QueuePage {
    /// What was asked for, which the answer repeats.
    pub asked: ListQueues,
    /// The queues, by name.
    pub queues: Vec<ListedQueue>,
    /// The name at which the next page begins.
    pub next: Option<QueueName>,
}

/// A queue in a list.
#[derive(Clone, Debug)]
pub struct ListedQueue {
    /// Its name.
    pub name: QueueName,
    /// Its metadata.
    pub metadata: Metadata,
}
