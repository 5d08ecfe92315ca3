//! What each operation of the queue service needs of a token
//! (<https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-queue>).

use tavola_model::{ErrorCode, QueueCommand};

use super::Need;

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
        QueueCommand::PutMessage(put) => Need::either(('o', "a"), (put.queue.as_str(), "a")),
        QueueCommand::GetMessages(get) => Need::either(('o', "p"), (get.queue.as_str(), "p")),
        QueueCommand::PeekMessages(peek) => Need::either(('o', "r"), (peek.queue.as_str(), "r")),
        QueueCommand::UpdateMessage(update) => Need::either(('o', "u"), (update.message.queue.as_str(), "u")),
        QueueCommand::DeleteMessage(message) => Need::either(('o', "p"), (message.queue.as_str(), "p")),
        QueueCommand::ClearMessages(queue) => Need::either(('o', "d"), (queue.as_str(), "p")),
    }
}
