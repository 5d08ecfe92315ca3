//! The patterns against the real server, with the number of requests that each call takes.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod blobs;
mod emulator;
mod encryption;
mod page;
mod period;
mod relations;
mod series;
mod spread;
mod wide;

use std::future::Future;
use std::sync::Arc;

use tavola_client::testing::FaultTransport;
use tavola_client::{Account, HyperTransport, TableClient};
use tavola_testkit::ClientTarget;

/// A server, and an account whose requests are counted.
pub struct Counted {
    _target: ClientTarget,
    /// The account.
    pub account: Account,
    transport: Arc<FaultTransport<HyperTransport>>,
}

impl Counted {
    /// Starts it.
    pub fn start() -> Self {
        let target = ClientTarget::start().unwrap();
        let transport = Arc::new(FaultTransport::new(HyperTransport::new()));
        let account = Account::from_connection_string(&target.connection_string())
            .unwrap()
            .with_transport(transport.clone());
        Self { _target: target, account, transport }
    }

    /// A table, made.
    pub async fn table(&self, name: &str) -> TableClient {
        let table = self.account.table(name);
        table.create().await.unwrap();
        table
    }

    /// What a call gives, and how many requests it took.
    pub async fn count<T>(&self, call: impl Future<Output = T>) -> (T, u64) {
        let before = self.transport.count();
        let given = call.await;
        (given, self.transport.count() - before)
    }
}
