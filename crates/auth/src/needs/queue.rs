//! What each operation of the queue service needs of a token
//! (<https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-queue>).

use tavola_model::{ErrorCode, QueueCommand};

use super::Need;

/// Puts a message.
pub(super) const PUT_MESSAGE: &str = "a";
/// Updates a message.
pub(super) const UPDATE_MESSAGE: &str = "u";

pub(super) fn need(command: &QueueCommand) -> Need<'_> {
    match command {
        QueueCommand::ListQueues(_) => Need::account('s', "l"),
        QueueCommand::CreateQueue(..) => Need::account('c', "cw"),
        QueueCommand::DeleteQueue(_) => Need::account('c', "d"),
        QueueCommand::GetQueueMetadata(queue) => Need::either(('c', "r"), (queue.as_str(), "r")),
        QueueCommand::SetQueueMetadata(..) => Need::account('c', "w"),
        QueueCommand::GetQueueAcl(_) | QueueCommand::SetQueueAcl(..) => {
            Need::owner_alone(ErrorCode::AuthorizationFailure)
        }
        QueueCommand::PutMessage(put) => Need::either(('o', PUT_MESSAGE), (put.queue.as_str(), PUT_MESSAGE)),
        QueueCommand::GetMessages(get) => Need::either(('o', "p"), (get.queue.as_str(), "p")),
        QueueCommand::PeekMessages(peek) => Need::either(('o', "r"), (peek.queue.as_str(), "r")),
        QueueCommand::UpdateMessage(update) => {
            Need::either(('o', UPDATE_MESSAGE), (update.message.queue.as_str(), UPDATE_MESSAGE))
        }
        QueueCommand::DeleteMessage(message) => Need::either(('o', "p"), (message.queue.as_str(), "p")),
        QueueCommand::ClearMessages(queue) => Need::either(('o', "d"), (queue.as_str(), "p")),
    }
}
