//! What each operation of the queue service needs of a token.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-queue> and
//! <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#account-sas-permissions-by-operation>.

use tavola_model::{QueueCommand, QueueName};

use crate::authorize::Letters;

/// What a token must say; `None` where no token of that kind is enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueNeed<'a> {
    /// A letter of the resource types, and letters of which one is enough.
    pub account_sas: Option<(char, Letters)>,
    /// The queue, and letters of which one is enough.
    pub service_sas: Option<(&'a QueueName, Letters)>,
}

pub(crate) fn queue_need(command: &QueueCommand) -> QueueNeed<'_> {
    let account = |letter, letters| QueueNeed { account_sas: Some((letter, letters)), service_sas: None };
    let either = |account_sas, queue, letters| QueueNeed {
        account_sas: Some(account_sas),
        service_sas: Some((queue, letters)),
    };
    match command {
        QueueCommand::ListQueues(_) => account('s', "l"),
        QueueCommand::CreateQueue(..) => account('c', "cw"),
        QueueCommand::DeleteQueue(_) => account('c', "d"),
        QueueCommand::GetQueueMetadata(queue) => either(('c', "r"), queue, "r"),
        QueueCommand::SetQueueMetadata(..) => account('c', "w"),
        QueueCommand::GetQueueAcl(_) | QueueCommand::SetQueueAcl(..) => {
            QueueNeed { account_sas: None, service_sas: None }
        }
        QueueCommand::PutMessage(put) => either(('o', "a"), &put.queue, "a"),
        QueueCommand::GetMessages(get) => either(('o', "p"), &get.queue, "p"),
        QueueCommand::PeekMessages(peek) => either(('o', "r"), &peek.queue, "r"),
        QueueCommand::UpdateMessage(update) => either(('o', "u"), &update.message.queue, "u"),
        QueueCommand::DeleteMessage(message) => either(('o', "p"), &message.queue, "p"),
        QueueCommand::ClearMessages(queue) => either(('o', "d"), queue, "p"),
    }
}
