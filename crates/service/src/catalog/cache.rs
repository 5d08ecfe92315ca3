//! What the catalog says, kept in memory.
//!
//! Exact as long as this process is the only writer: whoever changes a row forgets it here once the change is
//! kept, and a reader remembers what it read only if nothing was forgotten since before it read. Where others write
//! too, what was read is relied on for the time of a lease that began before it was read.
//!
//! Invariant: what is remembered is what the store holds, or a change of it has not been answered yet; on a shared
//! store, or the change is younger than the lease.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quick_cache::Equivalent;
use quick_cache::sync::Cache as Evicting;

/// A cache of records, with as many entries at most as it was made for; those least used go first.
pub(crate) struct Cache<K, V> {
    enabled: bool,
    lease: Option<Duration>,
    entries: Evicting<K, CachedEntry<V>>,
    /// Counts what was forgotten. Held while an entry is added or removed; readers do without.
    generation: Mutex<u64>,
}

/// What was read, and until when it may be relied on; `None` for as long as nobody forgets it.
struct CachedEntry<V> {
    value: Arc<V>,
    until: Option<Instant>,
}

impl<V> Clone for CachedEntry<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), until: self.until }
    }
}

/// Shows that its holder began to read the store at a certain time.
#[derive(Clone, Copy)]
pub(crate) struct ReadTicket {
    generation: u64,
    until: Option<Instant>,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// A cache for so many entries; one that is not enabled remembers nothing.
    pub fn new(entries_max: usize, enabled: bool, lease: Option<Duration>) -> Self {
        Self { enabled, lease, entries: Evicting::new(entries_max), generation: Mutex::new(0) }
    }

    /// Taken before the store is read.
    pub fn ticket(&self) -> ReadTicket {
        let until = self.lease.map(|lease| Instant::now() + lease);
        ReadTicket { generation: *self.lock(), until }
    }

    /// What is remembered.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<Arc<V>> {
        let entry = self.entries.get(key)?;
        entry.until.is_none_or(|until| Instant::now() < until).then_some(entry.value)
    }

    /// Remembers what was read, unless something was forgotten since.
    pub fn remember(&self, ticket: ReadTicket, key: K, value: &Arc<V>) {
        let generation = self.lock();
        if self.enabled && *generation == ticket.generation {
            self.entries.insert(key, CachedEntry { value: value.clone(), until: ticket.until });
        }
    }

    /// Forgets an entry; the next reader asks the store.
    pub fn forget<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) {
        let mut generation = self.lock();
        *generation += 1;
        self.entries.remove(key);
    }

    /// The count is whole at any time, so the one behind a poisoned lock is good.
    fn lock(&self) -> std::sync::MutexGuard<'_, u64> {
        self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(enabled: bool, lease: Option<Duration>) -> Cache<String, &'static str> {
        Cache::new(100, enabled, lease)
    }

    #[test]
    fn what_was_read_before_a_change_is_not_remembered_after_it() {
        let cache = cache(true, None);
        let early = cache.ticket();
        cache.forget("people");
        cache.remember(early, "people".into(), &Arc::new("old"));
        assert!(cache.get("people").is_none());
        cache.remember(cache.ticket(), "people".into(), &Arc::new("new"));
        assert_eq!(cache.get("people").as_deref(), Some(&"new"));
        cache.forget("people");
        assert!(cache.get("people").is_none());
    }

    #[test]
    fn what_is_remembered_on_a_shared_store_is_forgotten_with_its_lease() {
        for (lease, is_kept) in [(Duration::ZERO, false), (Duration::from_secs(3600), true)] {
            let cache = cache(true, Some(lease));
            cache.remember(cache.ticket(), "people".into(), &Arc::new("one"));
            assert_eq!(cache.get("people").is_some(), is_kept);
        }
    }

    #[test]
    fn a_cache_that_is_off_remembers_nothing() {
        let cache = cache(false, None);
        cache.remember(cache.ticket(), "people".into(), &Arc::new("one"));
        assert!(cache.get("people").is_none());
    }

    #[test]
    fn a_full_cache_forgets_what_is_least_used_and_never_grows() {
        let cache = Cache::<u32, u32>::new(100, true, None);
        for number in 0..10_000 {
            cache.remember(cache.ticket(), number, &Arc::new(number));
        }
        let kept = (0..10_000).filter(|number| cache.get(number).is_some()).count();
        assert!((1..=100).contains(&kept), "{kept}");
    }
}
