//! The catalog: which tables, queues and containers an account has, and where their contents are.
//!
//! It is one space of the store with a partition per account. A row key is a letter for the kind of record and the
//! name as names compare. Everything here is written once for all kinds of resources: finding, creating, deleting,
//! holding a name back after a deletion, access policies, metadata, remembering, reclaiming.
//!
//! A row of a kind, or a record of a version, that this server does not know belongs to a newer one that shares the
//! store. It is left alone, and so is every space it could name.

mod cache;
mod changes;
mod kept;
mod reclaim;
mod resource;

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use quick_cache::Equivalent;
use tavola_engine::{ContentStore, Engine, Position, ScanRange, ScannedRow, SpaceId};
use tavola_model::{AccountName, Clock, RandomSource};

pub(crate) use cache::Cache;
pub(crate) use changes::{Created, to_its_end};
pub(crate) use kept::{KEPT_ROW, Kept};
pub(crate) use reclaim::ReclaimTime;
pub(crate) use resource::{ContainerState, Resource, ResourceKind};

use crate::failure::Failure;
use crate::settings::ServiceSettings;
use resource::Undecodable;

/// Tables, queues and containers remembered at most (ours).
const REMEMBERED_MAX: usize = 100_000;

/// The tables, queues and containers of all accounts.
pub(crate) struct Catalog {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    settings: ServiceSettings,
    cache: Cache<CacheKey, Resource>,
    /// Where the contents of containers are, if there are any.
    contents: OnceLock<Arc<dyn ContentStore>>,
}

/// What has become of a resource that has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Exists,
    /// Its contents are gone, its name is still taken.
    BeingDeleted,
    Gone,
}

impl Catalog {
    pub fn new(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: ServiceSettings,
    ) -> Self {
        let cache = Cache::new(REMEMBERED_MAX, settings.catalog_cache, settings.catalog_lease);
        Self { engine, clock, random, settings, cache, contents: OnceLock::new() }
    }

    /// Says where contents are: they are dropped with the space of their container.
    pub fn set_contents(&self, contents: Arc<dyn ContentStore>) {
        // A second store would be the same one.
        let _ = self.contents.set(contents);
    }

    /// The store of rows.
    pub fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    /// The source of fresh ids.
    pub fn random(&self) -> Arc<dyn RandomSource> {
        self.random.clone()
    }

    /// How the service behaves where there is a choice.
    pub fn settings(&self) -> &ServiceSettings {
        &self.settings
    }

    /// The resource of this name, or that there is none.
    pub async fn find_existing(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
    ) -> Result<Arc<Resource>, Failure> {
        self.find(account, kind, key).await?.ok_or_else(|| kind.not_found().into())
    }

    /// The resource of this name, if it exists. A name that is held back is refused.
    pub async fn find(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
    ) -> Result<Option<Arc<Resource>>, Failure> {
        if let Some(found) = self.cache.get(&CacheQuery { account, kind, key }) {
            return Ok(Some(found));
        }
        let ticket = self.cache.ticket();
        let row = self.engine.get(SpaceId::CATALOG, account_partition(account), &kind.row(key)).await?;
        let Some(row) = row else { return Ok(None) };
        let found = Resource::decode(&row.body)?;
        match self.state_of(&found) {
            State::Exists => {
                let found = Arc::new(found);
                let cache_key = CacheKey { account: account.clone(), kind, key: key.into() };
                self.cache.remember(ticket, cache_key, &found);
                Ok(Some(found))
            }
            State::BeingDeleted => Err(kind.being_deleted().into()),
            State::Gone => Ok(None),
        }
    }

    /// Visits the existing resources of an account by name, from a key onward, until the visitor breaks.
    pub async fn list(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        from: &str,
        visit: &mut (dyn FnMut(Resource) -> ControlFlow<()> + Send),
    ) -> Result<(), Failure> {
        let partition = account_partition(account);
        let range = ScanRange {
            from: Position::at(partition, &kind.row(from)),
            before: Some(Position::at(partition, &[kind.row_letter() + 1])),
        };
        let mut damage = None;
        let mut visit_row = |row: ScannedRow<'_>| match Resource::decode(&row.body) {
            Ok(resource) if self.state_of(&resource) == State::Exists => visit(resource),
            Ok(_) => ControlFlow::Continue(()),
            Err(Undecodable::Newer) => {
                tracing::warn!("a list omits a record of a newer server version");
                ControlFlow::Continue(())
            }
            Err(Undecodable::Damaged) => {
                damage = Some(Undecodable::Damaged);
                ControlFlow::Break(())
            }
        };
        self.engine.scan(SpaceId::CATALOG, &range, &mut visit_row).await?;
        damage.map_or(Ok(()), |damage| Err(damage.into()))
    }

    /// The spaces of all existing resources of a kind, of every account.
    pub async fn spaces(&self, kind: ResourceKind) -> Result<Vec<SpaceId>, Failure> {
        let mut spaces = Vec::new();
        let mut visit = |row: ScannedRow<'_>| {
            if row.row.first() == Some(&kind.row_letter())
                && let Ok(resource) = Resource::decode(&row.body)
                && resource.deleted_until.is_none()
            {
                spaces.push(resource.space);
            }
            ControlFlow::Continue(())
        };
        self.engine.scan(SpaceId::CATALOG, &ScanRange::all(), &mut visit).await?;
        Ok(spaces)
    }

    /// Forgets what is remembered of a resource; the next reader asks the store.
    pub fn forget(&self, account: &AccountName, kind: ResourceKind, key: &str) {
        self.cache.forget(&CacheQuery { account, kind, key });
    }

    fn state_of(&self, resource: &Resource) -> State {
        match resource.deleted_until {
            None => State::Exists,
            Some(until) if self.clock.now() < until => State::BeingDeleted,
            Some(_) => State::Gone,
        }
    }
}

/// The partition of an account's rows.
pub(crate) fn account_partition(account: &AccountName) -> &[u8] {
    account.as_str().as_bytes()
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CacheKey {
    account: AccountName,
    kind: ResourceKind,
    key: Box<str>,
}

/// The same, borrowed: the fields are hashed in the same order.
#[derive(Hash)]
struct CacheQuery<'a> {
    account: &'a AccountName,
    kind: ResourceKind,
    key: &'a str,
}

impl Equivalent<CacheKey> for CacheQuery<'_> {
    fn equivalent(&self, known: &CacheKey) -> bool {
        *self.account == known.account && self.kind == known.kind && *self.key == *known.key
    }
}
