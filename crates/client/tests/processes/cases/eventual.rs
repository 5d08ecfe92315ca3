//! Eventually consistent transactions, from the call to the end of their steps.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tavola_client::eventual::{Attempt, EventualTransaction, MoveEntity, Worker};
use tavola_client::{DynamicEntity, Result, TableClient};

use super::{Case, Fixture, keys, settings};

/// Writes a line in each of two ledgers, once, however often it runs.
#[derive(Serialize, Deserialize)]
struct Pay {
    amount: i64,
}

impl EventualTransaction for Pay {
    const KIND: &'static str = "pay";
    type Context = TableClient;
    fn run<'a>(&'a self, table: &'a TableClient, attempt: &'a Attempt<'a>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for (ledger, amount) in [("from", -self.amount), ("to", self.amount)] {
                // A line of its own for every run, so that a second one would be seen.
                let line =
                    DynamicEntity::new((ledger, format!("line-{}", attempt.count()))).with("Amount", amount);
                table.insert_once(&line, attempt).await?;
            }
            Ok(())
        })
    }
}

pub struct Transfer;

fn worker(fixture: &Fixture) -> Worker {
    let worker = Worker::new(fixture.intents(), settings());
    worker.with::<Pay>(Arc::new(fixture.table())).with::<MoveEntity>(Arc::new(fixture.account.clone()))
}

impl Case for Transfer {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        fixture.intents().create().await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        fixture.intents().submit(&Pay { amount: 5 }).await?;
        worker(fixture).drain().await.map(|_| ())
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        worker(fixture).drain().await.map(|_| ())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let keys = keys(&fixture.table()).await;
        let lines = |ledger: &str| {
            keys.iter().filter(|key| key.partition == ledger && key.row.starts_with("line-")).count()
        };
        let both = (lines("from"), lines("to"));
        assert!(both == (1, 1) || !told && both == (0, 0), "{} {keys:?}", fixture.name);
    }
}

pub struct Move;

const KEY: (&str, &str) = ("Sales", "empid_000212");

impl Case for Move {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        fixture.table_of("archive").create().await.unwrap();
        fixture.intents().create().await.unwrap();
        fixture.table().insert(&DynamicEntity::new(KEY).with("A", 1), None).await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        fixture.intents().move_entity(&fixture.table(), KEY, &fixture.table_of("archive")).await?;
        worker(fixture).drain().await.map(|_| ())
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        worker(fixture).drain().await.map(|_| ())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let there = (keys(&fixture.table()).await.len(), keys(&fixture.table_of("archive")).await.len());
        assert!(there == (0, 1) || !told && there == (1, 0), "{} {there:?}", fixture.name);
    }
}
