//! Eventually consistent transactions: an employee who leaves moves to the archive, and a letter is counted.

mod support;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tavola_client::eventual::{Attempt, EventualTransaction, Intents, MoveEntity, Worker, WorkerSettings};
use tavola_client::{Account, DynamicEntity, EntityKey, Result, TableClient};

/// Work of the application, in steps that may each be done again.
#[derive(Serialize, Deserialize)]
struct SayGoodbye {
    key: EntityKey,
}

impl EventualTransaction for SayGoodbye {
    const KIND: &'static str = "say-goodbye";
    type Context = TableClient;

    fn run<'a>(&'a self, letters: &'a TableClient, attempt: &'a Attempt<'a>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            attempt.still_mine()?;
            let letter = DynamicEntity::new(&self.key).with("Text", "Goodbye");
            letters.upsert(&letter, None).await.map(|_| ())
        })
    }
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let (current, archive) = (account.table("CurrentEmployees"), account.table("ArchivedEmployees"));
    let letters = account.table("Letters");
    for table in [&current, &archive, &letters] {
        table.create().await?;
    }
    let intents = Intents::new(account.queue("archive-intents"));
    intents.create().await?;
    let key = EntityKey::from(("Sales", "empid_000123"));
    current.insert(&DynamicEntity::new(&key).with("LastName", "Hall"), None).await?;

    // One request each. When it returns, the work will be done, whatever happens to this process.
    intents.move_entity(&current, &key, &archive).await?;
    intents.submit(&SayGoodbye { key: key.clone() }).await?;

    // Any process that runs a worker does it, at least once.
    let worker = Worker::new(intents, WorkerSettings::default())
        .with::<MoveEntity>(Arc::new(account.clone()))
        .with::<SayGoodbye>(Arc::new(letters.clone()));
    worker.drain().await?;
    assert!(current.get::<DynamicEntity>(&key, None).await?.is_none());
    assert!(archive.get::<DynamicEntity>(&key, None).await?.is_some());
    assert!(letters.get::<DynamicEntity>(&key, None).await?.is_some());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
