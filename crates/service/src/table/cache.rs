//! What the catalog says, kept in memory.
//!
//! Exact as long as this process is the only writer: whoever changes a row forgets it here once the change is
//! kept, and a reader remembers what it read only if nothing was forgotten since before it read. Where others write
//! too, what was read is relied on for the time of a lease that began before it was read.
//!
//! Invariant: what is remembered is what the store holds, or a change of it has not been answered yet; on a shared
//! store, or the change is younger than the lease.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tavola_model::{AccountName, CorsRule, ServiceProperties, StorageService};

use super::record::Table;

/// Tables remembered at most (ours); beyond it everything is forgotten, which is simple and rare.
const CACHED_TABLES_MAX: usize = 100_000;

/// The settings of one of an account's services, with the rules apart because every browser request asks for
/// them.
#[derive(Debug)]
pub(crate) struct CachedSettings {
    pub settings: ServiceProperties,
    pub cors_rules: Arc<Vec<CorsRule>>,
}

impl CachedSettings {
    pub fn new(settings: ServiceProperties) -> Self {
        let cors_rules = Arc::new(settings.cors.clone());
        Self { settings, cors_rules }
    }
}

/// The memory of the catalog; remembers nothing if it is switched off.
pub(crate) struct Cache {
    enabled: bool,
    lease: Option<Duration>,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    /// Counts what was forgotten.
    generation: u64,
    accounts: HashMap<AccountName, Account>,
    tables: usize,
}

#[derive(Default)]
struct Account {
    by_folded_name: HashMap<Box<str>, Leased<Table>>,
    /// By the place of the service.
    settings: [Option<Leased<CachedSettings>>; 3],
}

/// What was read, and until when it may be relied on; `None` for as long as nobody forgets it.
pub(crate) struct Leased<T> {
    value: Arc<T>,
    until: Option<Instant>,
}

impl<T> Leased<T> {
    pub fn new(value: &Arc<T>, until: Option<Instant>) -> Self {
        Self { value: value.clone(), until }
    }

    pub fn current(&self) -> Option<Arc<T>> {
        self.until.is_none_or(|until| Instant::now() < until).then(|| self.value.clone())
    }
}

fn place(service: StorageService) -> usize {
    match service {
        StorageService::Blob => 0,
        StorageService::Queue => 1,
        StorageService::Table => 2,
    }
}

/// Shows that its holder began to read the store at a certain time.
#[derive(Clone, Copy)]
pub(crate) struct ReadTicket {
    generation: u64,
    until: Option<Instant>,
}

impl Cache {
    pub fn new(enabled: bool, lease: Option<Duration>) -> Self {
        Self { enabled, lease, state: RwLock::default() }
    }

    /// Taken before the store is read.
    pub fn ticket(&self) -> ReadTicket {
        let until = self.lease.map(|lease| Instant::now() + lease);
        ReadTicket { generation: self.read(|state| state.generation), until }
    }

    pub fn table(&self, account: &AccountName, folded_name: &str) -> Option<Arc<Table>> {
        self.read(|state| state.accounts.get(account)?.by_folded_name.get(folded_name)?.current())
    }

    pub fn settings(&self, account: &AccountName, service: StorageService) -> Option<Arc<CachedSettings>> {
        self.read(|state| state.accounts.get(account)?.settings[place(service)].as_ref()?.current())
    }

    pub fn remember_table(&self, ticket: ReadTicket, account: &AccountName, table: &Arc<Table>) {
        self.write(|state| {
            if !self.enabled || state.generation != ticket.generation {
                return;
            }
            if state.tables >= CACHED_TABLES_MAX {
                state.accounts.clear();
                state.tables = 0;
            }
            let names = &mut state.accounts.entry(account.clone()).or_default().by_folded_name;
            if names.insert(table.name.folded().into(), Leased::new(table, ticket.until)).is_none() {
                state.tables += 1;
            }
        });
    }

    pub fn remember_settings(
        &self,
        ticket: ReadTicket,
        account: &AccountName,
        service: StorageService,
        settings: &Arc<CachedSettings>,
    ) {
        self.write(|state| {
            if self.enabled && state.generation == ticket.generation {
                let known = state.accounts.entry(account.clone()).or_default();
                known.settings[place(service)] = Some(Leased::new(settings, ticket.until));
            }
        });
    }

    pub fn forget_table(&self, account: &AccountName, folded_name: &str) {
        self.write(|state| {
            state.generation += 1;
            let names = state.accounts.get_mut(account).map(|account| &mut account.by_folded_name);
            if names.is_some_and(|names| names.remove(folded_name).is_some()) {
                state.tables -= 1;
            }
        });
    }

    pub fn forget_settings(&self, account: &AccountName, service: StorageService) {
        self.write(|state| {
            state.generation += 1;
            if let Some(account) = state.accounts.get_mut(account) {
                account.settings[place(service)] = None;
            }
        });
    }

    /// No code under the lock can panic halfway through a change, so a poisoned lock is still good.
    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, write: impl FnOnce(&mut State) -> T) -> T {
        write(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_engine::SpaceId;
    use tavola_model::{DateTime, TableName};

    fn table(name: &str) -> Arc<Table> {
        Arc::new(Table {
            name: TableName::parse(name).unwrap(),
            space: SpaceId([1; 16]),
            created: DateTime::MIN,
            deleted_until: None,
            identifiers: Vec::new(),
        })
    }

    #[test]
    fn what_was_read_before_a_change_is_not_remembered_after_it() {
        let (cache, account) = (Cache::new(true, None), AccountName::parse("acct").unwrap());
        let early = cache.ticket();
        cache.forget_table(&account, "people");
        cache.remember_table(early, &account, &table("People"));
        assert!(cache.table(&account, "people").is_none());
        cache.remember_table(cache.ticket(), &account, &table("People"));
        assert_eq!(cache.table(&account, "people").unwrap().name.as_str(), "People");
        cache.forget_table(&account, "people");
        assert!(cache.table(&account, "people").is_none());
    }

    #[test]
    fn what_is_remembered_on_a_shared_store_is_forgotten_with_its_lease() {
        let account = AccountName::parse("acct").unwrap();
        for (lease, is_kept) in [(Duration::ZERO, false), (Duration::from_secs(3600), true)] {
            let cache = Cache::new(true, Some(lease));
            cache.remember_table(cache.ticket(), &account, &table("People"));
            assert_eq!(cache.table(&account, "people").is_some(), is_kept);
        }
    }

    #[test]
    fn a_cache_that_is_off_remembers_nothing() {
        let (cache, account) = (Cache::new(false, None), AccountName::parse("acct").unwrap());
        cache.remember_table(cache.ticket(), &account, &table("People"));
        assert!(cache.table(&account, "people").is_none());
    }
}
