//! Eventually consistent transactions: an intent in a queue before the first write, removed after the last look.
//!
//! Steps in several partitions, tables or services cannot be atomic. They can be certain: the work is written down as
//! one message, and a message that nobody deleted comes back. So every step runs at least once, whatever dies.

#[cfg(test)]
pub(crate) mod converge;
mod guarded;
mod settle;
mod worker;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use guarded::Guard;
pub(crate) use settle::{Derived, Intent, Rules, Target, settle};
pub use worker::{After, Settler, Worked, Worker, WorkerSettings};

use crate::entity::{Entity, Readable, Writable};
use crate::error::{Error, Result};
use crate::key::EntityKey;
use crate::queue::{Lease, PutOptions, QueueClient};
use crate::table::TableClient;

/// Bytes of an intent: it stays below a message with bytes left for escapes.
pub(crate) const INTENT_BYTES_MAX: usize = 48 * 1024;
/// How long an intent is hidden at first: after this long a worker takes over from a process that died.
const LEASE: Duration = Duration::from_secs(30);

/// A queue of intents, and its `-poison` queue.
///
/// ```no_run
/// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
/// use tavola_client::eventual::Intents;
/// let intents = Intents::new(account.queue("intents"));
/// intents.create().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Intents {
    queue: QueueClient,
    poison: QueueClient,
    lease: Duration,
}

impl Intents {
    /// In this queue. Nothing is sent.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, eventual::Intents};
    /// let intents = Intents::new(Account::development()?.queue("intents"));
    /// assert_eq!(intents.poison().name(), "intents-poison");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(queue: QueueClient) -> Self {
        let poison = queue.account().queue(&format!("{}-poison", queue.name()));
        Self { queue, poison, lease: LEASE }
    }

    /// The same queue, whose requests are counted.
    pub(crate) fn counted(&self, requests: &Arc<AtomicU64>) -> Self {
        let queue = self.queue.account().counted(requests).queue(self.queue.name());
        Self { lease: self.lease, ..Self::new(queue) }
    }

    /// With another lease: how long a call may take before a worker takes over its work. In whole seconds.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use std::time::Duration;
    /// use tavola_client::{Account, eventual::Intents};
    /// let intents = Intents::new(Account::development()?.queue("intents")).with_lease(Duration::from_secs(5));
    /// # let _ = intents;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_secs(1));
        self
    }

    /// Makes both queues; those that are there are no error.
    ///
    /// ```no_run
    /// # async fn example(intents: tavola_client::eventual::Intents) -> tavola_client::Result<()> {
    /// intents.create().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self) -> Result<()> {
        self.queue.create().await?;
        self.poison.create().await?;
        Ok(())
    }

    /// The queue.
    ///
    /// ```no_run
    /// # async fn example(intents: tavola_client::eventual::Intents) -> tavola_client::Result<()> {
    /// println!("{} to do", intents.queue().message_count().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn queue(&self) -> &QueueClient {
        &self.queue
    }

    /// Where intents go that failed too often, each with its last error.
    ///
    /// ```no_run
    /// # async fn example(intents: tavola_client::eventual::Intents) -> tavola_client::Result<()> {
    /// for message in intents.poison().peek(10).await? {
    ///     println!("{}", message.text);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn poison(&self) -> &QueueClient {
        &self.poison
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// The one call: once it returns, the transaction will run at least once, by any process with a worker. One request.
    ///
    /// ```no_run
    /// # async fn example(intents: tavola_client::eventual::Intents) -> tavola_client::Result<()> {
    /// use futures_core::future::BoxFuture;
    /// use serde::{Deserialize, Serialize};
    /// use tavola_client::eventual::{Attempt, EventualTransaction};
    /// use tavola_client::{EntityKey, Result, TableClient};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Archive {
    ///     key: EntityKey,
    /// }
    ///
    /// impl EventualTransaction for Archive {
    ///     const KIND: &'static str = "archive-employee";
    ///     type Context = TableClient;
    ///     fn run<'a>(&'a self, table: &'a TableClient, attempt: &'a Attempt<'a>) -> BoxFuture<'a, Result<()>> {
    ///         Box::pin(async move {
    ///             attempt.still_mine()?;
    ///             table.delete_if_there(&self.key, None).await.map(|_| ())
    ///         })
    ///     }
    /// }
    ///
    /// intents.submit(&Archive { key: ("Sales", "empid_000456").into() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn submit<T: EventualTransaction>(&self, transaction: &T) -> Result<()> {
        let body = serde_json::to_value(transaction).map_err(|error| Error::Step(error.to_string()))?;
        self.put(T::KIND, body, Duration::ZERO).await.map(|_| ())
    }

    /// Puts an intent of any kind, hidden for a while.
    pub(crate) async fn put(&self, kind: &str, body: Value, hidden: Duration) -> Result<Lease> {
        let text = Envelope { kind: kind.into(), body }.text()?;
        self.queue.put(&text, Some(PutOptions { hidden: Some(hidden), life: None })).await
    }

    /// Moves an entity to another table or another key's partition, by a worker that serves [`MoveEntity`]: it is in one
    /// of them or in both, never in neither. One request; the worker makes four, and three to the queue.
    ///
    /// ```no_run
    /// # async fn example(intents: tavola_client::eventual::Intents, current: tavola_client::TableClient, archive: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// intents.move_entity(&current, ("Sales", "empid_000456"), &archive).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn move_entity(
        &self,
        from: &TableClient,
        key: impl Into<EntityKey>,
        to: &TableClient,
    ) -> Result<()> {
        let moved = MoveEntity { from: from.name().to_owned(), key: key.into(), to: to.name().to_owned() };
        self.submit(&moved).await
    }
}

/// How a kind of work and its body are one message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) kind: String,
    pub(crate) body: Value,
}

impl Envelope {
    pub(crate) fn text(&self) -> Result<String> {
        let text = serde_json::to_string(self).map_err(|error| Error::Step(error.to_string()))?;
        if text.len() > INTENT_BYTES_MAX {
            return Err(Error::Limit("an intent has at most 48 KiB"));
        }
        Ok(text)
    }
}

/// Who finishes the derived writes.
///
/// ```
/// assert_eq!(tavola_client::eventual::Settle::default(), tavola_client::eventual::Settle::Wait);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settle {
    /// The call returns when all is written.
    #[default]
    Wait,
    /// The call returns when the entity is written; a task of this process does the rest.
    Behind,
    /// The call returns when the entity is written; a worker does the rest when the lease is over.
    Worker,
}

/// Work in steps, each of which may be done again. The value itself is the message.
///
/// ```
/// use futures_core::future::BoxFuture;
/// use serde::{Deserialize, Serialize};
/// use tavola_client::eventual::{Attempt, EventualTransaction};
/// use tavola_client::{DynamicEntity, Result, TableClient};
///
/// #[derive(Serialize, Deserialize)]
/// struct Book {
///     amount: i64,
/// }
///
/// impl EventualTransaction for Book {
///     const KIND: &'static str = "book";
///     type Context = TableClient;
///     fn run<'a>(&'a self, table: &'a TableClient, attempt: &'a Attempt<'a>) -> BoxFuture<'a, Result<()>> {
///         Box::pin(async move {
///             let line = DynamicEntity::new(("ledger", attempt.id())).with("Amount", self.amount);
///             table.insert_once(&line, attempt).await.map(|_| ())
///         })
///     }
/// }
/// ```
pub trait EventualTransaction: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Names the kind in the message. A worker that does not know it leaves the message to others.
    const KIND: &'static str;
    /// What the steps work with: tables, containers, anything of the application.
    type Context: Send + Sync;
    /// Runs all steps. It may be called again after any of them, by another process, so each must be one that does no
    /// harm when it is repeated; and before each write it asks [`Attempt::still_mine`].
    fn run<'a>(&'a self, context: &'a Self::Context, attempt: &'a Attempt<'a>) -> BoxFuture<'a, Result<()>>;
}

/// One delivery of a message.
///
/// ```no_run
/// # async fn example(attempt: tavola_client::eventual::Attempt<'_>) -> tavola_client::Result<()> {
/// println!("delivery {} of {}", attempt.count(), attempt.id());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    lease: &'a Lease,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(lease: &'a Lease) -> Self {
        Self { lease }
    }

    /// The same over all deliveries of the message: good as the id of a write that must be made once.
    ///
    /// ```no_run
    /// # async fn example(attempt: tavola_client::eventual::Attempt<'_>) -> tavola_client::Result<()> {
    /// println!("{}", attempt.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> &str {
        self.lease.id()
    }

    /// Which delivery it is, from 1.
    ///
    /// ```no_run
    /// # async fn example(attempt: tavola_client::eventual::Attempt<'_>) -> tavola_client::Result<()> {
    /// if attempt.count() > 1 {
    ///     println!("an earlier delivery did not end well");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn count(&self) -> u32 {
        self.lease.dequeue_count()
    }

    /// Fails when another process may have taken over. Ask before each write.
    ///
    /// ```no_run
    /// # async fn example(attempt: tavola_client::eventual::Attempt<'_>) -> tavola_client::Result<()> {
    /// attempt.still_mine()?; // and only then write
    /// # Ok(())
    /// # }
    /// ```
    pub fn still_mine(&self) -> Result<()> {
        self.lease.still_mine()
    }
}

/// A move between tables of one account, as an eventual transaction. A worker serves it with the account as context.
///
/// ```no_run
/// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
/// use std::sync::Arc;
/// use tavola_client::eventual::{Intents, MoveEntity, Worker, WorkerSettings};
/// let intents = Intents::new(account.queue("intents"));
/// let worker = Worker::new(intents, WorkerSettings::default()).with::<MoveEntity>(Arc::new(account));
/// worker.run(std::future::pending()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MoveEntity {
    /// The table it is in.
    pub from: String,
    /// Its key, which stays.
    pub key: EntityKey,
    /// The table it goes to.
    pub to: String,
}

impl EventualTransaction for MoveEntity {
    const KIND: &'static str = "tavola-move";
    type Context = crate::Account;

    fn run<'a>(&'a self, account: &'a crate::Account, attempt: &'a Attempt<'a>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (from, to) = (account.table(&self.from), account.table(&self.to));
            loop {
                let Some(entity) = from.get::<crate::DynamicEntity>(&self.key, None).await? else {
                    // An earlier attempt did it.
                    return Ok(());
                };
                attempt.still_mine()?;
                to.upsert(&entity.value, None).await?;
                attempt.still_mine()?;
                match from.delete(&entity, None).await {
                    // Changed in between: what was copied is old.
                    Err(Error::Changed) => {}
                    Ok(()) | Err(Error::NotFound) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        })
    }
}

impl TableClient {
    /// Inserts an entity once for an attempt, however often it is called: a marker with the attempt's id is written in
    /// the same transaction. Gives whether it was inserted now. One request. Markers stay until
    /// [`remove_once_markers`](Self::remove_once_markers).
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient, attempt: tavola_client::eventual::Attempt<'_>) -> tavola_client::Result<()> {
    /// let entry = tavola_client::DynamicEntity::new(("ledger", "000001")).with("Amount", 5);
    /// table.insert_once(&entry, &attempt).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert_once<E: Writable>(&self, entity: &E, attempt: &Attempt<'_>) -> Result<bool> {
        let key = entity.key()?;
        let marker = crate::DynamicEntity::new((key.partition.clone(), format!("{MARKER}{}", attempt.id())));
        attempt.still_mine()?;
        let both = self.transaction(key.partition).insert(&marker)?.insert(entity)?;
        match both.commit().await {
            Ok(_) => Ok(true),
            Err(Error::Transaction { index: 0, cause }) if matches!(*cause, Error::Taken { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the markers of [`insert_once`](Self::insert_once) that are older than `age`, in a scope of the table. An
    /// attempt that runs again after its marker is gone would insert again: `age` is longer than a message can live,
    /// which is a week unless it was put with another life. Requests: a scan of the scope, and one for each hundred
    /// markers of a partition. Can be called again after a crash.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use std::time::Duration;
    /// use tavola_client::In;
    /// let eight_days = Duration::from_secs(8 * 24 * 3600);
    /// let removed = table.remove_once_markers(In::whole_table(), eight_days, None).await?;
    /// println!("{} markers", removed.written);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove_once_markers(
        &self,
        scope: crate::In,
        age: Duration,
        options: Option<crate::BulkOptions>,
    ) -> Result<crate::BulkReport> {
        let ticks = u64::try_from(age.as_nanos() / 100).unwrap_or(u64::MAX);
        let oldest = crate::account::now().ticks().saturating_sub(ticks);
        let before = crate::DateTime::from_ticks(oldest).unwrap_or(crate::DateTime::MIN);
        let old = crate::filter!("RowKey ge {MARKER} and RowKey lt {MARKER_END} and Timestamp lt {before}");
        self.bulk_delete_found(self.query::<crate::DynamicEntity>(scope).filter_by(old), options).await
    }
}

/// What the rows of markers begin with.
const MARKER: &str = "~once_";
/// The first row after them.
const MARKER_END: &str = "~once`";

/// Whether an entity type can be read and written whole, as moves and copies need it.
pub(crate) fn reads_whole<E: Entity + Readable>() -> Result<()> {
    if E::ENCRYPTED.is_empty() {
        Ok(())
    } else {
        Err(Error::Limit("an encrypted property cannot be copied by an index"))
    }
}
