//! The service as the rest of the server holds it.

use std::sync::Arc;
use std::time::Duration;

use tavola_auth::Permitted;
use tavola_engine::Engine;
use tavola_model::{
    AccountName, Clock, CorsRule, Outcome, QueueName, RandomSource, ServiceError, ServiceProperties,
    SignedIdentifier, StorageService, TableName,
};

use crate::long_reads::LongReads;
use crate::queue::Queues;
use crate::table::Catalog;

/// How the service behaves where there is a choice.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    /// Keep what the catalog says in memory.
    pub catalog_cache: bool,
    /// For how long what is kept in memory may be relied on, where other processes write to the store too; `None`
    /// where this one is alone. Not longer than dropping a space takes on such a store: then whoever deletes a table
    /// has its answer only when no process remembers the table any more.
    pub catalog_lease: Option<Duration>,
    /// For how long after its deletion the name of a table answers `TableBeingDeleted`.
    pub table_delete_delay: Duration,
    /// For how long after its deletion the name of a queue answers `QueueBeingDeleted`.
    pub queue_delete_delay: Duration,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            catalog_cache: true,
            catalog_lease: None,
            table_delete_delay: Duration::ZERO,
            queue_delete_delay: Duration::ZERO,
        }
    }
}

/// How far the clocks of servers that share a store may be apart before a deleted name can be free too early.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(30);

impl ServiceSettings {
    /// For how long the name of something deleted stays taken, if it should stay so for `delay`.
    ///
    /// On a shared store other servers may go on writing to what was deleted for the time of a lease. If the name were
    /// free meanwhile, something new of that name could be made, and a write that was acknowledged after that would be
    /// gone. So the name stays taken until nobody remembers, even if this server ends before that.
    pub(crate) fn name_kept_for(&self, delay: Duration) -> Duration {
        self.catalog_lease.map_or(delay, |lease| delay.max(lease * 2 + CLOCKS_APART_MAX))
    }
}

/// Executes commands on an engine.
#[derive(Clone)]
pub struct Service {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) long_reads: Arc<LongReads>,
}

impl Service {
    /// A service on this engine. Fresh ids come from `random`.
    pub fn new(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: ServiceSettings,
    ) -> Self {
        let queues = Arc::new(Queues::new(engine.clone(), clock.clone(), random.clone(), settings.clone()));
        let catalog = Arc::new(Catalog::new(engine.clone(), clock.clone(), random, settings));
        Self { engine, clock, catalog, queues, long_reads: Arc::default() }
    }

    /// Drops spaces that nothing names: what a crash between the two steps of a creation or a deletion leaves
    /// behind. Where other processes write too, only those that are old enough not to be under way. Before it serves.
    pub async fn start(&self) -> Result<(), ServiceError> {
        self.catalog.reclaim_spaces().await
    }

    /// Does what was permitted.
    pub async fn execute(&self, permitted: Permitted) -> Result<Outcome, ServiceError> {
        let service = permitted.service();
        let (account, command, limit) = permitted.into_parts();
        self.execute_command(&account, service, command, limit.as_ref()).await
    }

    /// The stored access policies of a table; `None` if there is no such table.
    pub async fn policies(
        &self,
        account: &AccountName,
        table: &TableName,
    ) -> Result<Option<Vec<SignedIdentifier>>, ServiceError> {
        let found = self.catalog.find(account, table).await?;
        Ok(found.map(|table| table.identifiers.clone()))
    }

    /// The stored access policies of a queue; `None` if there is no such queue.
    pub async fn queue_policies(
        &self,
        account: &AccountName,
        queue: &QueueName,
    ) -> Result<Option<Vec<SignedIdentifier>>, ServiceError> {
        let found = self.queues.find(account, queue).await?;
        Ok(found.map(|queue| queue.identifiers.clone()))
    }

    /// Removes messages that have expired at the front of each queue, a bounded number at a time. Call it now and
    /// then: what nobody gets or peeks at is removed only here.
    pub async fn sweep_queues(&self) -> Result<(), ServiceError> {
        self.queues.sweep().await
    }

    /// The CORS rules of one of an account's services.
    pub async fn cors_rules(
        &self,
        account: &AccountName,
        service: StorageService,
    ) -> Result<Arc<Vec<CorsRule>>, ServiceError> {
        Ok(self.catalog.service_properties(account, service).await?.cors_rules.clone())
    }

    pub(crate) async fn fetch_service_properties(
        &self,
        account: &AccountName,
        service: StorageService,
    ) -> Result<ServiceProperties, ServiceError> {
        Ok(self.catalog.service_properties(account, service).await?.settings.clone())
    }
}
