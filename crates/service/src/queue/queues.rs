//! Creating, deleting, clearing and listing queues, their metadata and stored access policies.

use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::SpaceId;
use tavola_model::{
    AccountName, ErrorCode, ListQueues, ListedQueue, Metadata, QUEUES_PAGE_MAX, QueueName, QueuePage,
    QueueWas, SignedIdentifier,
};

use super::Queues;
use crate::catalog::{Created, Resource, ResourceKind, to_its_end};
use crate::failure::Failure;

impl Queues {
    /// The queue of this name, or `QueueNotFound`.
    pub async fn find(&self, account: &AccountName, name: &QueueName) -> Result<Arc<Resource>, Failure> {
        self.catalog.find_existing(account, ResourceKind::Queue, name.as_str()).await
    }

    /// Makes a queue. One that is there with the same metadata is what was asked for.
    pub async fn create(
        &self,
        account: &AccountName,
        name: &QueueName,
        metadata: Metadata,
    ) -> Result<QueueWas, Failure> {
        let (catalog, account, name) = (self.catalog.clone(), account.clone(), name.clone());
        let create = async move {
            let text = name.as_str();
            match catalog.create(&account, ResourceKind::Queue, text, text, metadata.clone()).await? {
                Created::New => Ok(QueueWas::Missing),
                Created::Existed(queue) if queue.metadata == metadata => Ok(QueueWas::There),
                Created::Existed(_) => Err(ErrorCode::QueueAlreadyExists.into()),
            }
        };
        to_its_end(create).await
    }

    pub async fn delete(self: &Arc<Self>, account: &AccountName, name: &QueueName) -> Result<(), Failure> {
        let (queues, account, name) = (self.clone(), account.clone(), name.clone());
        let delete = async move {
            let (kind, delay) = (ResourceKind::Queue, queues.delete_delay);
            let space = queues.catalog.delete(&account, kind, name.as_str(), delay).await?;
            queues.live.forget(space.ok_or(ErrorCode::QueueNotFound)?);
            Ok(())
        };
        to_its_end(delete).await
    }

    /// Removes all messages: the queue gets a fresh space, and the old one is dropped with what is in it.
    pub async fn clear(self: &Arc<Self>, account: &AccountName, name: &QueueName) -> Result<(), Failure> {
        let (queues, account, name) = (self.clone(), account.clone(), name.clone());
        let clear = async move {
            let old = queues.catalog.replace_space(&account, ResourceKind::Queue, name.as_str()).await?;
            queues.live.forget(old);
            Ok(())
        };
        to_its_end(clear).await
    }

    /// Replaces the metadata of a queue.
    pub async fn set_metadata(
        &self,
        account: &AccountName,
        name: &QueueName,
        metadata: Metadata,
    ) -> Result<(), Failure> {
        self.update(account, name, move |queue| Resource { metadata: metadata.clone(), ..queue }).await
    }

    /// Replaces the stored access policies of a queue.
    pub async fn set_acl(
        &self,
        account: &AccountName,
        name: &QueueName,
        identifiers: Vec<SignedIdentifier>,
    ) -> Result<(), Failure> {
        self.update(account, name, move |queue| Resource { identifiers: identifiers.clone(), ..queue }).await
    }

    /// One page of the queues whose name has the prefix.
    pub async fn list(&self, account: &AccountName, asked: ListQueues) -> Result<QueuePage, Failure> {
        let max = asked.max.unwrap_or(QUEUES_PAGE_MAX).min(QUEUES_PAGE_MAX);
        let prefix = asked.prefix.clone().unwrap_or_default();
        let from = asked.from.as_deref().unwrap_or_default().max(prefix.as_str()).to_owned();
        let (mut queues, mut next, mut failure) = (Vec::new(), None, None);
        let mut visit = |queue: Resource| {
            if !queue.name.starts_with(&prefix) {
                return ControlFlow::Break(());
            }
            let Ok(name) = QueueName::parse(&queue.name) else {
                failure = Some(Failure::damaged(SpaceId::CATALOG, "the name of a queue"));
                return ControlFlow::Break(());
            };
            if u32::try_from(queues.len()).is_ok_and(|len| len >= max) {
                next = Some(name);
                return ControlFlow::Break(());
            }
            queues.push(ListedQueue { name, metadata: queue.metadata });
            ControlFlow::Continue(())
        };
        self.catalog.list(account, ResourceKind::Queue, &from, &mut visit).await?;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(QueuePage { asked, queues, next }),
        }
    }

    async fn update(
        &self,
        account: &AccountName,
        name: &QueueName,
        change: impl Fn(Resource) -> Resource + Send + Sync + 'static,
    ) -> Result<(), Failure> {
        let (catalog, account, name) = (self.catalog.clone(), account.clone(), name.clone());
        let update =
            async move { catalog.update(&account, ResourceKind::Queue, name.as_str(), change).await };
        to_its_end(update).await
    }
}
