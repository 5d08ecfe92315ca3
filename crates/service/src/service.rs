//! The service as the rest of the server holds it.

use std::sync::Arc;
use std::time::Duration;

use tavola_auth::Permitted;
use tavola_engine::{ByteSource, ContentStore, Engine};
use tavola_model::{
    AccountName, Clock, ContainerName, CorsRule, Outcome, PublicAccess, QueueName, RandomSource,
    ServiceError, ServiceProperties, SignedIdentifier, StorageService, TableName,
};

use crate::blob::{Blobs, COPY_IDLE, RunningCopies, ScrubPace, ScrubReport};
use crate::catalog::{Catalog, ReclaimTime, ResourceKind};
use crate::execute::{Overwrites, Sent};
use crate::long_reads::LongReads;
use crate::properties::PropertiesStore;
use crate::queue::{InspectedMessage, Queues};
use crate::settings::ServiceSettings;
use crate::table::Tables;

/// The memory budget of an answer while it is built. The sender of the answer grants it, and releases it when the answer
/// is sent.
pub trait AnswerBudget: Send + Sync {
    /// Charges so many bytes more; false if the budget does not allow them.
    fn take(&self, bytes: usize) -> bool;
}

/// Executes commands on an engine.
#[derive(Clone)]
pub struct Service {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) properties: Arc<PropertiesStore>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) queues: Arc<Queues>,
    /// `None` where there is no store of contents.
    pub(crate) blobs: Option<Arc<Blobs>>,
    catalog: Arc<Catalog>,
}

/// What a command gave.
pub struct Executed {
    /// Its outcome.
    pub outcome: Outcome,
    /// The bytes that come with it: the content of a blob.
    pub download: Option<Box<dyn ByteSource>>,
}

impl Service {
    /// A service on this engine. Fresh ids come from `random`.
    pub fn new(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: ServiceSettings,
    ) -> Self {
        let properties = Arc::new(PropertiesStore::new(engine.clone(), &settings));
        let pages_end_with_partitions = settings.pages_end_with_partitions;
        let (table_delay, queue_delay) = (settings.table_delete_delay, settings.queue_delete_delay);
        let catalog = Arc::new(Catalog::new(engine.clone(), clock.clone(), random.clone(), settings));
        let tables = Arc::new(Tables {
            engine: engine.clone(),
            clock: clock.clone(),
            catalog: catalog.clone(),
            long_reads: LongReads::default(),
            delete_delay: table_delay,
            pages_end_with_partitions,
        });
        let queues = Arc::new(Queues::new(engine, clock.clone(), random, catalog.clone(), queue_delay));
        Self { clock, properties, tables, queues, blobs: None, catalog }
    }

    /// The same with a store for the contents of blobs. Without one there is no blob service.
    #[must_use]
    pub fn with_contents(self, contents: Arc<dyn ContentStore>) -> Self {
        self.catalog.set_contents(contents.clone());
        let settings = self.catalog.settings();
        let blobs = Blobs {
            engine: self.catalog.engine(),
            contents,
            clock: self.clock.clone(),
            random: self.catalog.random(),
            catalog: self.catalog.clone(),
            properties: self.properties.clone(),
            delete_delay: settings.container_delete_delay,
            delete_retention: settings.container_delete_retention,
            versions: settings.blob_versions,
            copy_bytes_max: settings.copy_bytes_max,
            running_copies: RunningCopies::default(),
        };
        Self { blobs: Some(Arc::new(blobs)), ..self }
    }

    /// Drops spaces that nothing names: what a crash between the two steps of a creation or a deletion leaves
    /// behind. Where other processes write too, only those that are old enough not to be under way. Before it serves.
    pub async fn start(&self) -> Result<(), ServiceError> {
        self.reclaim(ReclaimTime::Start).await
    }

    /// The same while it serves: spaces of the last hour stay, because one may be that of a table that is being made.
    /// Call it now and then.
    pub async fn reclaim_spaces(&self) -> Result<(), ServiceError> {
        self.reclaim(ReclaimTime::Serving).await
    }

    async fn reclaim(&self, when: ReclaimTime) -> Result<(), ServiceError> {
        self.catalog.reclaim_spaces(when).await.map_err(|failure| failure.answer(StorageService::Table))
    }

    /// Does what was permitted.
    pub async fn execute(&self, permitted: Permitted) -> Result<Outcome, ServiceError> {
        self.execute_within(permitted, None).await
    }

    /// Does what was permitted; a page takes its bytes from the budget as it grows, and ends where it is used up.
    pub async fn execute_within(
        &self,
        permitted: Permitted,
        budget: Option<Arc<dyn AnswerBudget>>,
    ) -> Result<Outcome, ServiceError> {
        self.execute_with(permitted, budget, None).await.map(|executed| executed.outcome)
    }

    /// Does what was permitted, with the bytes that its client sends.
    pub fn execute_with<'a>(
        &'a self,
        permitted: Permitted,
        budget: Option<Arc<dyn AnswerBudget>>,
        upload: Option<&'a mut dyn ByteSource>,
    ) -> impl Future<Output = Result<Executed, ServiceError>> + Send + 'a {
        // Taken apart here and not in the future, which would hold it whole and in parts, in every request.
        let service = permitted.service();
        let overwrites = if permitted.may_overwrite() { Overwrites::Allowed } else { Overwrites::Refused };
        let (account, command, limit) = permitted.into_parts();
        let sent = Sent { upload, overwrites, budget: budget.clone() };
        async move {
            let done = self.execute_command(&account, service, command, limit.as_ref(), budget, sent).await;
            done.map_err(|failure| failure.answer(service))
        }
    }

    /// The version that a request to the blob service is taken for if it names none, where the account has set one.
    pub async fn default_blob_version(&self, account: &AccountName) -> Option<String> {
        // Properties that cannot be read set nothing; whoever relies on them is told by the request itself.
        let found = self.properties.get(account, StorageService::Blob).await.ok()?;
        found.properties.blob.default_service_version.clone()
    }

    /// Who may read a container without credentials; `None` if there is no such container.
    pub async fn public_access(
        &self,
        account: &AccountName,
        container: &ContainerName,
    ) -> Result<Option<PublicAccess>, ServiceError> {
        let found = self.catalog.find(account, ResourceKind::Container, container.as_str()).await;
        let found = found.map_err(|failure| failure.answer(StorageService::Blob))?;
        Ok(found.and_then(|found| found.container.as_ref().map(|state| state.access)))
    }

    /// Reads all contents of blobs once, and removes what a crash or time has left behind. Call it now and then.
    pub async fn scrub_contents(&self, pace: ScrubPace) -> Result<ScrubReport, ServiceError> {
        match &self.blobs {
            None => Ok(ScrubReport::default()),
            Some(blobs) => blobs.scrub(pace).await.map_err(|failure| failure.answer(StorageService::Blob)),
        }
    }

    /// Goes on with what the last run did behind its answers and has not finished: copies of blobs, and dropping the
    /// contents of deleted containers.
    pub async fn resume_blobs(&self) -> Result<(), ServiceError> {
        let Some(blobs) = &self.blobs else { return Ok(()) };
        // Neither keeps the other from being done.
        let resumed = blobs.resume_copies(Duration::ZERO).await;
        let dropped = blobs.drop_of_missing_spaces().await;
        resumed.and(dropped).map_err(|failure| failure.answer(StorageService::Blob))
    }

    /// Goes on with copies of blobs that nobody is making: they met a failure that may have passed, their container was
    /// restored, or the server that made them has ended. Call it every few minutes.
    pub async fn resume_idle_copies(&self) -> Result<(), ServiceError> {
        let Some(blobs) = &self.blobs else { return Ok(()) };
        let resumed = blobs.resume_copies(COPY_IDLE).await;
        resumed.map_err(|failure| failure.answer(StorageService::Blob))
    }

    /// The stored access policies of a table, queue or container; `None` if there is none of that name.
    pub async fn stored_policies(
        &self,
        account: &AccountName,
        service: StorageService,
        resource: &str,
    ) -> Result<Option<Vec<SignedIdentifier>>, ServiceError> {
        let (kind, key) = match service {
            StorageService::Table => match TableName::parse(resource) {
                Ok(name) => (ResourceKind::Table, name.folded().to_owned()),
                Err(_) => return Ok(None),
            },
            StorageService::Queue => match QueueName::parse(resource) {
                Ok(name) => (ResourceKind::Queue, name.as_str().to_owned()),
                Err(_) => return Ok(None),
            },
            StorageService::Blob => match ContainerName::parse(resource) {
                Ok(name) => (ResourceKind::Container, name.as_str().to_owned()),
                Err(_) => return Ok(None),
            },
        };
        let found = self.catalog.find(account, kind, &key).await;
        let found = found.map_err(|failure| failure.answer(service))?;
        Ok(found.map(|resource| resource.identifiers.clone()))
    }

    /// The first messages of a queue as they stand, hidden ones too, each with the receipt that holds now. For whoever
    /// owns the account: the service itself shows this to nobody. It changes nothing.
    pub async fn inspect_queue(
        &self,
        account: &AccountName,
        queue: &QueueName,
        count_max: usize,
    ) -> Result<Vec<InspectedMessage>, ServiceError> {
        let found = self.queues.inspect(account, queue, count_max).await;
        found.map_err(|failure| failure.answer(StorageService::Queue))
    }

    /// The properties of one of an account's services.
    pub async fn service_properties(
        &self,
        account: &AccountName,
        service: StorageService,
    ) -> Result<ServiceProperties, ServiceError> {
        let properties = self.properties.get(account, service).await;
        Ok(properties.map_err(|failure| failure.answer(service))?.properties.clone())
    }

    /// Removes messages that have expired at the front of each queue, a bounded number at a time. Call it now and
    /// then: what nobody gets or peeks at is removed only here.
    pub async fn sweep_queues(&self) -> Result<(), ServiceError> {
        self.queues.sweep().await.map_err(|failure| failure.answer(StorageService::Queue))
    }

    /// The CORS rules of one of an account's services, if they are in memory.
    pub fn remembered_cors_rules(
        &self,
        account: &AccountName,
        service: StorageService,
    ) -> Option<Arc<Vec<CorsRule>>> {
        Some(self.properties.remembered(account, service)?.cors_rules.clone())
    }

    /// The CORS rules of one of an account's services.
    pub async fn cors_rules(
        &self,
        account: &AccountName,
        service: StorageService,
    ) -> Result<Arc<Vec<CorsRule>>, ServiceError> {
        let properties = self.properties.get(account, service).await;
        Ok(properties.map_err(|failure| failure.answer(service))?.cors_rules.clone())
    }
}
