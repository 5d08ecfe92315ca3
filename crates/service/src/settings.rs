//! What an operator can choose of the service, and what follows from it.

use std::time::Duration;

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
    /// For how long after its deletion the name of a container answers `ContainerBeingDeleted`.
    pub container_delete_delay: Duration,
    /// For how long a deleted container can be restored; zero drops it at once.
    pub container_delete_retention: Duration,
    /// Keep a version of every blob that is overwritten or deleted.
    pub blob_versions: bool,
    /// End a page of entities where a partition ends.
    pub pages_end_with_partitions: bool,
    /// Bytes that Copy Blob copies before it answers; what is larger is copied behind the answer.
    pub copy_bytes_max: u64,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            catalog_cache: true,
            catalog_lease: None,
            table_delete_delay: Duration::ZERO,
            queue_delete_delay: Duration::ZERO,
            container_delete_delay: Duration::ZERO,
            container_delete_retention: Duration::ZERO,
            blob_versions: false,
            pages_end_with_partitions: false,
            copy_bytes_max: 64 * 1024 * 1024,
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
