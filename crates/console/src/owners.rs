//! Who owns a partition, where servers share a store.
//!
//! The owner is asked of the [`ServerView`](crate::ServerView), which asks what forwards writes: the page shows where
//! writes go, and computes nothing of its own. Names are not looked up: a partition has an owner before it has a row.

use serde_json::{Value, json};
use tavola_frontend::{OwnedCount, OwnedPartition, PartitionHash};
use tavola_model::{
    Command, ErrorCode, Key, ListQueues, Outcome, QueueCommand, QueueName, QueueOutcome, ServiceError,
    StorageService, TableName,
};

use crate::api::{Asked, NAMES_MAX};

/// Queues that are counted.
const QUEUES_MAX: u32 = 1000;

impl Asked<'_> {
    /// The server that owns a partition of a table, or a queue; `null` where servers do not forward to each other.
    pub fn owner(&self) -> Result<Value, ServiceError> {
        let account = self.account(self.text("account"))?;
        let view = &self.console.inner.parts.view;
        let owner = match (self.has("table"), self.has("partition"), self.has("queue")) {
            (true, true, false) => {
                let (table, partition) =
                    (TableName::parse(self.text("table"))?, Key::parse(self.text("partition"))?);
                let partition = OwnedPartition::Entities { table: &table, partition: &partition };
                view.owner(account.name(), partition)
            }
            (false, false, true) => {
                let queue = QueueName::parse(self.text("queue"))?;
                view.owner(account.name(), OwnedPartition::Messages(&queue))
            }
            _ => return Err(ErrorCode::InvalidInput.into()),
        };
        let owner = owner.map(
            |owner| json!({ "name": owner.name, "isThis": owner.is_this, "isSuspended": owner.is_suspended }),
        );
        Ok(json!({ "owner": owner }))
    }

    /// How many partitions of an account each server owns: of its tables, as far as they were looked at, and its queues.
    pub async fn owners(&self) -> Result<Value, ServiceError> {
        let account = self.account(self.text("account"))?;
        let inner = &self.console.inner;
        let tables = self.tables(&account).await?;
        let mut is_whole = tables.len() < NAMES_MAX;
        let mut entities = Vec::new();
        for table in tables {
            let sight = inner.sights.last(account.name(), &table);
            is_whole &= sight.as_ref().is_some_and(|sight| sight.has_every_partition());
            entities.extend(sight.iter().flat_map(|sight| sight.partition_hashes()));
        }
        let list = ListQueues { max: Some(QUEUES_MAX), ..ListQueues::default() };
        let list = Command::Queue(QueueCommand::ListQueues(list));
        let mut messages = Vec::new();
        if let Outcome::Queue(QueueOutcome::QueuesListed(page)) =
            self.execute(&account, StorageService::Queue, list).await?
        {
            is_whole &= page.next.is_none();
            let hash = |queue| PartitionHash::of(account.name(), OwnedPartition::Messages(queue));
            messages.extend(page.queues.iter().map(|queue| hash(&queue.name)));
        }
        let view = &inner.parts.view;
        let tables = view.count_owned(StorageService::Table, &entities);
        let queues = view.count_owned(StorageService::Queue, &messages);
        Ok(json!({ "tables": show(&tables), "queues": show(&queues), "isWhole": is_whole }))
    }
}

fn show(counts: &[OwnedCount]) -> Value {
    counts.iter().map(|count| (count.name.clone(), json!(count.partitions))).collect()
}
