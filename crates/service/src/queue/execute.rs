//! Each queue command to the code that knows what it means.

use std::sync::Arc;

use tavola_engine::SpaceId;
use tavola_model::{AccountName, ErrorCode, QueueCommand, QueueName, QueueOutcome};

use super::Queues;
use crate::catalog::ResourceKind;
use crate::failure::Failure;

/// How often a command follows a queue that is cleared under its hands.
const FOLLOWS_MAX: usize = 8;

impl Queues {
    pub async fn execute(
        self: &Arc<Self>,
        account: &AccountName,
        command: QueueCommand,
    ) -> Result<QueueOutcome, Failure> {
        match command {
            QueueCommand::ListQueues(list) => self.list(account, list).await.map(QueueOutcome::QueuesListed),
            QueueCommand::CreateQueue(queue, metadata) => {
                self.create(account, &queue, metadata).await.map(QueueOutcome::QueueCreated)
            }
            QueueCommand::DeleteQueue(queue) => {
                self.delete(account, &queue).await.map(|()| QueueOutcome::QueueDeleted)
            }
            QueueCommand::GetQueueMetadata(queue) => {
                let metadata = self.find(account, &queue).await?.metadata.clone();
                let count = self.on_space(account, &queue, |space| self.count_messages(space));
                let message_count = count.await?;
                Ok(QueueOutcome::QueueMetadataFetched { metadata, message_count })
            }
            QueueCommand::SetQueueMetadata(queue, metadata) => {
                self.set_metadata(account, &queue, metadata).await.map(|()| QueueOutcome::QueueMetadataSet)
            }
            QueueCommand::GetQueueAcl(queue) => {
                let found = self.find(account, &queue).await?;
                Ok(QueueOutcome::QueueAclFetched(found.identifiers.clone()))
            }
            QueueCommand::SetQueueAcl(queue, identifiers) => {
                self.set_acl(account, &queue, identifiers).await.map(|()| QueueOutcome::QueueAclSet)
            }
            QueueCommand::PutMessage(put) => {
                let (message, hold) =
                    self.on_space(account, &put.queue, |space| self.put_message(space, &put)).await?;
                Ok(QueueOutcome::MessagePut(message, hold))
            }
            QueueCommand::GetMessages(get) => self
                .on_space(account, &get.queue, |space| self.get_messages(space, &get))
                .await
                .map(QueueOutcome::MessagesGot),
            QueueCommand::PeekMessages(peek) => self
                .on_space(account, &peek.queue, |space| self.peek_messages(space, peek.count))
                .await
                .map(QueueOutcome::MessagesPeeked),
            QueueCommand::UpdateMessage(update) => self
                .on_space(account, &update.message.queue, |space| self.update_message(space, &update))
                .await
                .map(QueueOutcome::MessageUpdated),
            QueueCommand::DeleteMessage(message) => self
                .on_space(account, &message.queue, |space| self.delete_message(space, &message))
                .await
                .map(|()| QueueOutcome::MessageDeleted),
            QueueCommand::ClearMessages(queue) => {
                self.clear(account, &queue).await.map(|()| QueueOutcome::MessagesCleared)
            }
        }
    }

    /// Runs `work` on the space of a queue. A space that is gone although the queue is there was cleared away
    /// meanwhile, and the work is done on its successor: nothing was kept in the old one.
    pub(super) async fn on_space<T, Work: Future<Output = Result<T, Failure>>>(
        &self,
        account: &AccountName,
        name: &QueueName,
        work: impl Fn(SpaceId) -> Work,
    ) -> Result<T, Failure> {
        let mut space = self.find(account, name).await?.space;
        for _ in 0..FOLLOWS_MAX {
            match work(space).await {
                Err(error) if error.is_space_missing() => {
                    self.catalog.forget(account, ResourceKind::Queue, name.as_str());
                    let successor = self.find(account, name).await?.space;
                    if successor == space {
                        return Err(error);
                    }
                    space = successor;
                }
                done => return done,
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }
}
