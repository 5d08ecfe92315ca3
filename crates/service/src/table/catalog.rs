//! The catalog: which tables an account has, where their entities are, and the settings of its service.
//!
//! It is one space of the store with a partition per account. A row key is a letter for the kind of record and
//! the folded name. Changes run as tasks of their own, so that a client that hangs up halfway leaves neither a
//! stale cache nor a space that nobody drops.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::{Engine, ScanRange, ScannedRow, SpaceId};
use tavola_model::{
    AccountName, Clock, ErrorCode, RandomSource, ServiceError, ServiceProperties, StorageService, TableName,
};

use super::cache::{Cache, CachedSettings};
use super::record::{Table, decode_settings};
use crate::failure::{damaged, from_engine};
use crate::queue::{QUEUE_ROW, decode_queue};
use crate::service::ServiceSettings;

/// Kind letter of a table.
pub(super) const TABLE_ROW: u8 = b't';
/// Kind letter of a service's settings.
pub(super) const SETTINGS_ROW: u8 = b's';

/// How long a table may take to be made, in ticks: an hour, which is far more.
const YOUNG_TICKS: u64 = 3600 * 10_000_000;

/// The tables and settings of all accounts.
pub(crate) struct Catalog {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn RandomSource>,
    pub(super) settings: ServiceSettings,
    pub(super) cache: Cache,
}

impl Catalog {
    pub fn new(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: ServiceSettings,
    ) -> Self {
        let cache = Cache::new(settings.catalog_cache, settings.catalog_lease);
        Self { engine, clock, random, settings, cache }
    }

    /// The table of this name, or `TableNotFound`.
    pub async fn find_existing(
        &self,
        account: &AccountName,
        table: &TableName,
    ) -> Result<Arc<Table>, ServiceError> {
        self.find(account, table).await?.ok_or_else(|| ErrorCode::TableNotFound.into())
    }

    /// The table of this name, if it exists.
    pub async fn find(
        &self,
        account: &AccountName,
        table: &TableName,
    ) -> Result<Option<Arc<Table>>, ServiceError> {
        if let Some(found) = self.cache.table(account, table.folded()) {
            return Ok(Some(found));
        }
        let ticket = self.cache.ticket();
        let row = self.get(account, &table_row(table.folded())).await?;
        let Some(found) = row.map(|bytes| decode_table(&bytes)).transpose()? else { return Ok(None) };
        match self.state_of(&found) {
            TableState::Exists => {
                let found = Arc::new(found);
                self.cache.remember_table(ticket, account, &found);
                Ok(Some(found))
            }
            TableState::BeingDeleted => Err(ErrorCode::TableBeingDeleted.into()),
            TableState::Gone => Ok(None),
        }
    }

    /// The settings of one of an account's services.
    pub async fn service_properties(
        &self,
        account: &AccountName,
        service: StorageService,
    ) -> Result<Arc<CachedSettings>, ServiceError> {
        if let Some(settings) = self.cache.settings(account, service) {
            return Ok(settings);
        }
        let ticket = self.cache.ticket();
        let row = self.get(account, &settings_row(service)).await?;
        let settings = match row {
            Some(bytes) => decode_stored_settings(&bytes)?,
            None => ServiceProperties::default(),
        };
        let settings = Arc::new(CachedSettings::new(settings));
        self.cache.remember_settings(ticket, account, service, &settings);
        Ok(settings)
    }

    /// Drops every space that no table and no queue names. A row of a kind this version does not know may name one, so then
    /// nothing is dropped at all. On a shared store a young one may be that of a table that is being made.
    pub async fn reclaim_spaces(&self) -> Result<(), ServiceError> {
        let mut named = HashSet::from([SpaceId::CATALOG]);
        let mut unreadable = None;
        let mut visit = |row: ScannedRow<'_>| {
            match row.row.first() {
                Some(&SETTINGS_ROW) => return ControlFlow::Continue(()),
                Some(&TABLE_ROW | &QUEUE_ROW) => {}
                _ => {
                    unreadable = Some(damaged(SpaceId::CATALOG, "a row of unknown kind"));
                    return ControlFlow::Break(());
                }
            }
            match named_space(&row) {
                Ok(space) => {
                    named.extend(space);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    unreadable = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        let scanned = self.engine.scan(SpaceId::CATALOG, &ScanRange::all(), &mut visit).await;
        scanned.map_err(from_engine)?;
        if let Some(error) = unreadable {
            return Err(error);
        }
        for space in self.engine.spaces().await.map_err(from_engine)? {
            let may_be_new = self.settings.catalog_lease.is_some() && self.is_young(space);
            if !named.contains(&space) && !may_be_new {
                tracing::info!(%space, "dropping a space that nothing names");
                self.engine.drop_space(space).await.map_err(from_engine)?;
            }
        }
        Ok(())
    }

    /// Whether a space was made in the last hour, as its id tells; see [`fresh_space`](super::tables::fresh_space).
    fn is_young(&self, space: SpaceId) -> bool {
        let made = space.0.first_chunk().map_or(0, |time| u64::from_be_bytes(*time));
        made.saturating_add(YOUNG_TICKS) > self.clock.now().ticks()
    }

    pub(super) fn state_of(&self, table: &Table) -> TableState {
        match table.deleted_until {
            None => TableState::Exists,
            Some(until) if self.clock.now() < until => TableState::BeingDeleted,
            Some(_) => TableState::Gone,
        }
    }

    async fn get(&self, account: &AccountName, row: &[u8]) -> Result<Option<bytes::Bytes>, ServiceError> {
        let stored = self.engine.get(SpaceId::CATALOG, account_partition(account), row).await;
        Ok(stored.map_err(from_engine)?.map(|stored| stored.body))
    }
}

/// What has become of a table that has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableState {
    Exists,
    /// Its entities are gone, its name is still taken.
    BeingDeleted,
    Gone,
}

pub(crate) fn account_partition(account: &AccountName) -> &[u8] {
    account.as_str().as_bytes()
}

pub(super) fn table_row(folded_name: &str) -> Vec<u8> {
    let mut row = vec![TABLE_ROW];
    row.extend_from_slice(folded_name.as_bytes());
    row
}

pub(super) fn settings_row(service: StorageService) -> Vec<u8> {
    let name: &[u8] = match service {
        StorageService::Blob => b"blob",
        StorageService::Queue => b"queue",
        StorageService::Table => b"table",
    };
    let mut row = vec![SETTINGS_ROW];
    row.extend_from_slice(name);
    row
}

/// The space of a table or queue that exists.
fn named_space(row: &ScannedRow<'_>) -> Result<Option<SpaceId>, ServiceError> {
    if row.row.first() == Some(&QUEUE_ROW) {
        let queue = decode_queue(&row.body)?;
        return Ok(queue.deleted_until.is_none().then_some(queue.space));
    }
    let table = decode_table(&row.body)?;
    Ok(table.deleted_until.is_none().then_some(table.space))
}

pub(super) fn decode_table(bytes: &[u8]) -> Result<Table, ServiceError> {
    Table::decode(bytes).ok_or_else(|| damaged(SpaceId::CATALOG, "a table"))
}

pub(super) fn decode_stored_settings(bytes: &[u8]) -> Result<ServiceProperties, ServiceError> {
    decode_settings(bytes).ok_or_else(|| damaged(SpaceId::CATALOG, "the settings of a service"))
}
