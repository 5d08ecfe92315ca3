//! How logs and metrics get into the store and out of it again: by the same commands that a client's requests become,
//! in the name of the account's owner.

use std::sync::Arc;

use bytes::Bytes;
use tavola_auth::{Caller, Permitted};
use tavola_engine::BytesSource;
use tavola_frontend::LiveAccounts;
use tavola_model::{
    AccountName, BlobCommand, BlobConditions, BlobCursor, BlobEntry, BlobName, BlobOutcome, BlobPath, Clock,
    Command, Comparison, ContainerName, CreateContainer, DateTime, DeleteBlob, DeleteSnapshots, EdmValue,
    EntityChange, EntityKey, EntityToken, EntityWrite, ErrorCode, EtagCondition, EtagMatch, FilterBuilder,
    FilterNode, GetEntity, Key, ListBlobs, ListInclude, Metadata, NewBlob, NewKind, Operator, Outcome,
    PropertyRef, PublicAccess, PutBlob, QueryEntities, ServiceError, ServiceProperties, StorageService,
    TableCommand, TableName, TableOutcome, TransferSums, VersionConditions,
};
use tavola_service::Service;
use tavola_telemetry::AccessKind;

use super::line::service_word;
use super::totals::{Period, Totals, table_name};
use super::{Log, LogKey, TotalsKey};

const LOGS: &str = "$logs";
/// How often a number is tried to be taken, or the sums of a period to be added, while others take and add theirs.
const TRIES_MAX: u32 = 100;
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// The store of logs and metrics.
pub(super) struct AnalyticsStore {
    service: Service,
    accounts: Arc<LiveAccounts>,
    clock: Arc<dyn Clock>,
}

impl AnalyticsStore {
    pub fn new(service: Service, accounts: Arc<LiveAccounts>, clock: Arc<dyn Clock>) -> Self {
        Self { service, accounts, clock }
    }

    /// All accounts.
    pub fn accounts(&self) -> Vec<AccountName> {
        self.accounts.current().iter().map(|account| account.name().clone()).collect()
    }

    /// What a service of an account is set to.
    pub async fn properties(
        &self,
        account: &AccountName,
        service: StorageService,
    ) -> Result<ServiceProperties, ServiceError> {
        self.service.service_properties(account, service).await
    }

    /// Writes the lines of a log as the next blob of its hour.
    pub async fn write_log(&self, key: &LogKey, log: &Log) -> Result<(), ServiceError> {
        let container = ContainerName::parse(LOGS)?;
        let create = BlobCommand::CreateContainer(CreateContainer {
            container: container.clone(),
            metadata: Metadata::default(),
            public_access: PublicAccess::default(),
        });
        match self.execute(&key.account, create.into()).await {
            Err(error) if error.code != ErrorCode::ContainerAlreadyExists => return Err(error),
            _ => {}
        }
        let folder = folder(key.service, key.hour);
        let names = self.log_names(&key.account, &folder).await?;
        let number = |name: &String| name.strip_prefix(&folder)?.strip_suffix(".log")?.parse::<u32>().ok();
        let first = names.iter().filter_map(number).max().map_or(0, |number| number + 1);
        let mut kinds = log.kinds.clone();
        kinds.sort();
        let kinds: Vec<&str> = kinds.into_iter().map(kind_word).collect();
        let metadata = Metadata::parse([
            ("StartTime".to_owned(), to_seconds(log.first)),
            ("EndTime".to_owned(), to_seconds(log.last)),
            ("LogType".to_owned(), kinds.join(",")),
            ("LogVersion".to_owned(), log.version.clone()),
        ])?;
        let mut new = NewBlob { metadata, ..NewBlob::default() };
        new.headers.content_type = Some("text/plain".into());
        let text = Bytes::copy_from_slice(log.text.as_bytes());
        let mut tries = 0;
        loop {
            let name = BlobName::parse(&format!("{folder}{:06}.log", first + tries))?;
            let put = BlobCommand::PutBlob(PutBlob {
                blob: BlobPath { container: container.clone(), name },
                kind: NewKind::Block,
                length: Some(log.text.len() as u64),
                sums: TransferSums::default(),
                new: new.clone(),
                conditions: only_new(),
            });
            let permitted = self.permit(&key.account, put.into())?;
            let mut source = BytesSource::new([text.clone()]);
            tries += 1;
            match self.service.execute_with(permitted, None, Some(&mut source)).await {
                // Another server has taken the number.
                Err(error) if tries < TRIES_MAX && error.code == ErrorCode::BlobAlreadyExists => {}
                written => return written.map(drop),
            }
        }
    }

    /// Writes the sums of a period, with what was written of it before, be it by another server at the same time.
    pub async fn write_totals(&self, key: &TotalsKey, totals: &Totals) -> Result<(), ServiceError> {
        let table = metrics_table(&table_name(key.service, key.period))?;
        match self.execute(&key.account, TableCommand::CreateTable(table.clone()).into()).await {
            Err(error) if error.code != ErrorCode::TableAlreadyExists => return Err(error),
            _ => {}
        }
        let partition = Key::parse(&partition_key(key.begin))?;
        let entity =
            EntityKey { partition, row: Key::parse(&format!("user;{}", key.operation.unwrap_or("All")))? };
        let mut tries = 0;
        loop {
            let get = TableCommand::GetEntity(GetEntity { table: table.clone(), key: entity.clone() });
            let change = match self.execute(&key.account, get.into()).await {
                Ok(Outcome::Table(TableOutcome::EntityFetched(stored))) => {
                    let mut sum = totals.clone();
                    sum.add_stored(&stored.properties);
                    EntityChange::Update(sum.properties()?, EtagCondition::Is(stored.etag()))
                }
                Ok(_) => EntityChange::Insert(totals.properties()?),
                Err(error) if error.code == ErrorCode::ResourceNotFound => {
                    EntityChange::Insert(totals.properties()?)
                }
                Err(error) => return Err(error),
            };
            let write = EntityWrite { key: entity.clone(), change };
            let write = TableCommand::WriteEntity(table.clone(), write);
            tries += 1;
            match self.execute(&key.account, write.into()).await {
                Err(error) if tries < TRIES_MAX && is_conflict(error.code) => {}
                written => return written.map(drop),
            }
        }
    }

    /// Removes logs and metrics of a service that are older than its properties say.
    pub async fn sweep(
        &self,
        account: &AccountName,
        service: StorageService,
        properties: &ServiceProperties,
        now: DateTime,
    ) -> Result<(), ServiceError> {
        if let Some(days) = properties.logging.retention.days {
            // Names begin with the time, so they sort by it.
            let oldest_kept = folder(service_word(service), days_before(now, days));
            for name in self.log_names(account, &format!("{}/", service_word(service))).await? {
                if name < oldest_kept {
                    self.delete_log(account, &name).await?;
                }
            }
        }
        let metrics =
            [(Period::Hour, &properties.hour_metrics), (Period::Minute, &properties.minute_metrics)];
        for (period, metrics) in metrics {
            if let Some(days) = metrics.retention.days {
                let table = metrics_table(&table_name(service, period))?;
                self.sweep_metrics(account, table, &partition_key(days_before(now, days))).await?;
            }
        }
        Ok(())
    }

    async fn sweep_metrics(
        &self,
        account: &AccountName,
        table: TableName,
        before: &str,
    ) -> Result<(), ServiceError> {
        let mut filter = FilterBuilder::new();
        let literal = EdmValue::String(before);
        filter.add(FilterNode::Compare(Comparison::new(PropertyRef::PartitionKey, Operator::Lt, literal)));
        let filter = Some(filter.finish());
        let mut from: Option<EntityToken> = None;
        loop {
            let query = QueryEntities { table: table.clone(), filter: filter.clone(), top: None, from };
            let page = match self.execute(account, TableCommand::QueryEntities(query).into()).await {
                Ok(Outcome::Table(TableOutcome::EntitiesQueried(page))) => page,
                Ok(_) => return Ok(()),
                // Nothing was ever written.
                Err(error) if error.code == ErrorCode::TableNotFound => return Ok(()),
                Err(error) => return Err(error),
            };
            for entity in page.entities {
                let change = EntityChange::Delete(EtagCondition::Any);
                let write = EntityWrite { key: entity.key, change };
                match self.execute(account, TableCommand::WriteEntity(table.clone(), write).into()).await {
                    Err(error) if error.code != ErrorCode::ResourceNotFound => return Err(error),
                    _ => {}
                }
            }
            from = page.next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    async fn delete_log(&self, account: &AccountName, name: &str) -> Result<(), ServiceError> {
        let path = BlobPath { container: ContainerName::parse(LOGS)?, name: BlobName::parse(name)? };
        let delete = BlobCommand::DeleteBlob(DeleteBlob {
            target: path.into(),
            snapshots: DeleteSnapshots::Include,
            is_permanent: false,
            conditions: BlobConditions::default(),
        });
        match self.execute(account, delete.into()).await {
            Err(error) if error.code != ErrorCode::BlobNotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The names of logs that begin so.
    pub async fn log_names(&self, account: &AccountName, prefix: &str) -> Result<Vec<String>, ServiceError> {
        let (mut names, mut from): (Vec<String>, Option<BlobCursor>) = (Vec::new(), None);
        loop {
            let list = BlobCommand::ListBlobs(ListBlobs {
                container: ContainerName::parse(LOGS)?,
                prefix: Some(prefix.to_owned()),
                delimiter: None,
                from,
                start_from: None,
                max: None,
                include: ListInclude::default(),
                marker: None,
            });
            let page = match self.execute(account, list.into()).await {
                Ok(Outcome::Blob(outcome)) => match *outcome {
                    BlobOutcome::BlobsListed(page) => page,
                    _ => return Ok(names),
                },
                Ok(_) => return Ok(names),
                Err(error) if error.code == ErrorCode::ContainerNotFound => return Ok(names),
                Err(error) => return Err(error),
            };
            names.extend(page.entries.into_iter().filter_map(|entry| match entry {
                BlobEntry::Blob(blob) => Some(blob.name.as_str().to_owned()),
                BlobEntry::Prefix(_) => None,
            }));
            from = page.next;
            if from.is_none() {
                return Ok(names);
            }
        }
    }

    pub async fn execute(&self, account: &AccountName, command: Command) -> Result<Outcome, ServiceError> {
        self.service.execute(self.permit(account, command)?).await
    }

    /// The same, with the content that comes with the outcome.
    #[cfg(test)]
    pub async fn execute_whole(
        &self,
        account: &AccountName,
        command: Command,
    ) -> Result<tavola_service::Executed, ServiceError> {
        self.service.execute_with(self.permit(account, command)?, None, None).await
    }

    #[cfg(test)]
    pub fn service(&self) -> Service {
        self.service.clone()
    }

    fn permit(&self, account: &AccountName, command: Command) -> Result<Permitted, ServiceError> {
        let service = match &command {
            Command::Queue(_) => StorageService::Queue,
            Command::Blob(_) => StorageService::Blob,
            Command::Account(_) | Command::Table(_) => StorageService::Table,
        };
        let accounts = self.accounts.current();
        let account = accounts.get(account).ok_or(ErrorCode::AccountNotFound)?;
        tavola_auth::authorize(&Caller::owner(account, service), None, command, self.clock.now())
    }
}

/// Nothing is overwritten.
fn only_new() -> BlobConditions {
    let version = VersionConditions { if_none_match: Some(EtagMatch::Any), ..VersionConditions::default() };
    BlobConditions { version, ..BlobConditions::default() }
}

/// Whether somebody else has written since it was read.
fn is_conflict(code: ErrorCode) -> bool {
    use ErrorCode::{EntityAlreadyExists, ResourceNotFound, UpdateConditionNotSatisfied};
    matches!(code, EntityAlreadyExists | ResourceNotFound | UpdateConditionNotSatisfied)
}

fn metrics_table(name: &str) -> Result<TableName, ServiceError> {
    TableName::parse_metrics(name).ok_or_else(|| ErrorCode::InvalidResourceName.into())
}

/// `table/2026/11/16/0600/`.
fn folder(service: &str, hour: DateTime) -> String {
    let ((year, month, day), (hour, ..)) = (hour.date(), hour.time_of_day());
    format!("{service}/{year:04}/{month:02}/{day:02}/{hour:02}00/")
}

/// `20261116T0600`.
fn partition_key(begin: DateTime) -> String {
    let ((year, month, day), (hour, minute, ..)) = (begin.date(), begin.time_of_day());
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}")
}

/// `2026-11-16T06:07:08Z`.
fn to_seconds(time: DateTime) -> String {
    let ((year, month, day), (hour, minute, second, _)) = (time.date(), time.time_of_day());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn days_before(now: DateTime, days: u32) -> DateTime {
    let ticks = now.ticks().saturating_sub(u64::from(days) * SECONDS_PER_DAY * 10_000_000);
    DateTime::from_ticks(ticks).unwrap_or(DateTime::MIN)
}

fn kind_word(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "read",
        AccessKind::Write => "write",
        AccessKind::Delete => "delete",
    }
}
