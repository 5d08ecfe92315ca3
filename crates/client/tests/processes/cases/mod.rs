//! What is killed: every call of every pattern that makes more than one request, and the core's writes.
//!
//! A case prepares its fixture, makes one call, knows what repairs after a crash (a worker, or the same call again), and
//! verifies that nothing is missing and nothing is left over.

mod blobs;
mod core;
mod derived;
mod eventual;
mod index;
mod layout;

use std::time::Duration;

use tavola_client::eventual::{Intents, WorkerSettings};
use tavola_client::{
    ContainerClient, DynamicEntity, EntityKey, In, QueueClient, Result, Stored, TableClient,
};

use crate::process::Fixture;

/// The lease in a process that is killed: short enough to wait for. Where it is too short for a call on a slow machine, the
/// call says so and a worker does the rest.
pub const LEASE: Duration = Duration::from_secs(2);
/// The lease of whoever is not killed: longer than anything takes.
pub const CALM: Duration = Duration::from_secs(600);

pub trait Case: Send + Sync {
    /// Intents finish what was begun, so a repair waits for their lease.
    const HAS_INTENTS: bool = false;
    /// There is something to do after a crash.
    const HAS_REPAIR: bool = true;
    /// Makes what the call needs.
    fn prepare(&self, fixture: &Fixture) -> impl Future<Output = ()> + Send;
    /// The call.
    fn call(&self, fixture: &Fixture) -> impl Future<Output = Result<()>> + Send;
    /// Repairs what can be repaired now; an error is worth another try.
    fn settle(&self, fixture: &Fixture) -> impl Future<Output = Result<()>> + Send;
    /// Looks at everything. `told` says that the call ended well.
    fn verify(&self, fixture: &Fixture, told: bool) -> impl Future<Output = ()> + Send;
}

impl Fixture {
    pub fn table(&self) -> TableClient {
        self.account.table(&self.name)
    }

    /// Another table beside it.
    pub fn table_of(&self, what: &str) -> TableClient {
        self.account.table(&format!("{}{what}", self.name))
    }

    pub fn queue(&self) -> QueueClient {
        self.account.queue(&self.name)
    }

    pub fn container(&self) -> ContainerClient {
        self.account.container(&self.name)
    }

    pub fn intents(&self) -> Intents {
        Intents::new(self.queue()).with_lease(self.lease)
    }
}

/// Everything in a table.
pub async fn rows(table: &TableClient) -> Vec<Stored<DynamicEntity>> {
    table.query::<DynamicEntity>(In::whole_table()).collect().await.unwrap()
}

/// The keys of everything in a table.
pub async fn keys(table: &TableClient) -> Vec<EntityKey> {
    rows(table).await.into_iter().map(|row| row.stored_key().clone()).collect()
}

/// Workers that are killed count as deliveries.
fn settings() -> WorkerSettings {
    WorkerSettings { deliveries_max: u32::MAX, ..WorkerSettings::default() }
}

macro_rules! cases {
    ($($name:ident = $case:expr,)*) => {
        /// Makes the call of a case, in whatever process this is.
        pub async fn call(name: &str, fixture: &Fixture) -> Result<()> {
            match name {
                $(stringify!($name) => $case.call(fixture).await,)*
                other => panic!("there is no case {other}"),
            }
        }

        /// Repairs after it.
        pub async fn settle(name: &str, fixture: &Fixture) -> Result<()> {
            match name {
                $(stringify!($name) => $case.settle(fixture).await,)*
                other => panic!("there is no case {other}"),
            }
        }

        mod killed_at_every_request {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    crate::kill::everywhere(stringify!($name), $case).await;
                }
            )*
        }
    };
}

cases! {
    index_insert = index::Index(index::Work::Insert),
    index_change = index::Index(index::Work::Change),
    index_clear = index::Index(index::Work::Clear),
    index_delete = index::Index(index::Work::Delete),
    index_rebuild = index::Rebuild,
    list_insert = derived::List { location: derived::Where::Partition, work: derived::Work::Insert },
    list_change = derived::List { location: derived::Where::Partition, work: derived::Work::Change },
    list_delete = derived::List { location: derived::Where::Partition, work: derived::Work::Delete },
    list_elsewhere_insert = derived::List { location: derived::Where::Table, work: derived::Work::Insert },
    list_elsewhere_change = derived::List { location: derived::Where::Table, work: derived::Work::Change },
    list_elsewhere_delete = derived::List { location: derived::Where::Table, work: derived::Work::Delete },
    list_grown = derived::GrownList,
    list_in_blobs_insert = derived::List { location: derived::Where::Blobs, work: derived::Work::Insert },
    list_in_blobs_change = derived::List { location: derived::Where::Blobs, work: derived::Work::Change },
    list_in_blobs_delete = derived::List { location: derived::Where::Blobs, work: derived::Work::Delete },
    embedded_insert = derived::Embedded(derived::Work::Insert),
    embedded_change = derived::Embedded(derived::Work::Change),
    embedded_delete = derived::Embedded(derived::Work::Delete),
    embedded_in_the_partition = derived::Together,
    eventual_transaction = eventual::Transfer,
    move_between_tables = eventual::Move,
    large_insert = blobs::LargeField(derived::Work::Insert),
    large_change = blobs::LargeField(derived::Work::Change),
    large_delete = blobs::LargeField(derived::Work::Delete),
    log_flush = blobs::Log,
    period_drop = layout::Drop,
    period_insert = layout::FirstOfPeriod,
    wide_insert = layout::WideEntity(derived::Work::Insert),
    wide_change = layout::WideEntity(derived::Work::Change),
    wide_delete = layout::WideEntity(derived::Work::Delete),
    series_add = layout::Add,
    spread_growth = layout::Growth,
    bulk_insert = core::BulkInsert,
    bulk_delete = core::BulkDelete,
    transaction = core::Together,
    write_two = core::WriteTwo,
    encrypted_rewrap = core::Rewrap,
}
