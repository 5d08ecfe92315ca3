//! Many writes over many partitions: packed into transactions and sent in parallel.
//!
//! Each transaction is atomic, the whole is not, and its report says so: what was refused is named by its index in the
//! input, everything else is written. Within one partition transactions go one after the other, in the order of the
//! input, because overlapping ones only delay each other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_core::Stream;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tavola_model::TRANSACTION_OPERATIONS_MAX;

use crate::dynamic::DynamicEntity;
use crate::entities::{pack, stamped};
use crate::entity::Writable;
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::query::Query;
use crate::scope::In;
use crate::table::TableClient;
use crate::write::{Change, Condition, Write};

/// Packed bytes after which a transaction is full: their text must stay below 4 MiB.
const TRANSACTION_BYTES: usize = 1536 * 1024;
/// Transactions of small entities that may wait, for each one on its way: so that input that goes round many partitions
/// still fills them.
const WAITING_MAX: usize = 16;

/// How far long work has come.
///
/// ```
/// let progress = tavola_client::Progress { entities: 100, requests: 1 };
/// assert_eq!(progress.entities / progress.requests, 100);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Entities that are done.
    pub entities: u64,
    /// Requests that were made.
    pub requests: u64,
}

/// Is told now and then how far long work has come.
///
/// ```
/// use std::sync::Arc;
/// use tavola_client::ProgressCallback;
/// let progress: ProgressCallback = Arc::new(|progress| println!("{} so far", progress.entities));
/// # let _ = progress;
/// ```
pub type ProgressCallback = Arc<dyn Fn(Progress) + Send + Sync>;

/// Tells how far long work has come: what is done, and the requests that were counted for it.
pub(crate) struct Watch {
    progress: Option<ProgressCallback>,
    entities: u64,
    pub(crate) requests: Arc<AtomicU64>,
}

impl Watch {
    pub(crate) fn new(progress: Option<ProgressCallback>) -> Self {
        Self { progress, entities: 0, requests: Arc::default() }
    }

    /// One more is done.
    pub(crate) fn tell(&mut self) {
        self.entities += 1;
        if let Some(progress) = &self.progress {
            progress(Progress { entities: self.entities, requests: self.requests.load(Ordering::Relaxed) });
        }
    }
}

/// How bulk work is done.
///
/// ```
/// use tavola_client::BulkOptions;
/// let options = BulkOptions { concurrency: 4, ..BulkOptions::default() };
/// assert!(options.progress.is_none());
/// ```
#[derive(Clone)]
pub struct BulkOptions {
    /// Transactions on their way at once.
    pub concurrency: usize,
    /// Is told after each transaction.
    pub progress: Option<ProgressCallback>,
    /// Options of each write.
    pub write: Option<WriteOptions>,
}

impl Default for BulkOptions {
    fn default() -> Self {
        Self { concurrency: 16, progress: None, write: None }
    }
}

/// What bulk work did. It was not one transaction.
///
/// ```no_run
/// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
/// let report = table.bulk_delete(tavola_client::In::partition("Sales"), None).await?;
/// for (index, error) in &report.refused {
///     println!("{index}: {error}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct BulkReport {
    /// Entities that were written or deleted.
    pub written: u64,
    /// Requests that were made, retries apart.
    pub requests: u64,
    /// Which of the input was refused, by its index from zero, and why; everything else is written.
    pub refused: Vec<(u64, Error)>,
}

/// What is done with each entity of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Insert,
    Upsert,
    UpsertMerge,
}

impl TableClient {
    /// Writes entities of any partitions, replacing those that are there: transactions of up to 100, in parallel. Not
    /// atomic as a whole.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// let entities = (0..10_000).map(|n| DynamicEntity::new((format!("{:02}", n % 64), format!("{n:06}"))).with("N", n));
    /// let report = table.bulk_upsert(futures_util::stream::iter(entities), None).await?;
    /// assert!(report.refused.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bulk_upsert<E: Writable>(
        &self,
        entities: impl Stream<Item = E> + Send,
        options: Option<BulkOptions>,
    ) -> Result<BulkReport> {
        self.bulk(entities, Verb::Upsert, options).await
    }

    /// The same by merging into those that are there.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::DynamicEntity;
    /// let prices = vec![DynamicEntity::new(("shoes", "0001")).with("Price", 5)];
    /// table.bulk_upsert_merge(futures_util::stream::iter(prices), None).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bulk_upsert_merge<E: Writable>(
        &self,
        entities: impl Stream<Item = E> + Send,
        options: Option<BulkOptions>,
    ) -> Result<BulkReport> {
        self.bulk(entities, Verb::UpsertMerge, options).await
    }

    /// Writes new entities of any partitions. Those whose key is in use are refused in the report; each costs up to one
    /// more request.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::{DynamicEntity, Error};
    /// let entities = vec![DynamicEntity::new(("Sales", "000001")), DynamicEntity::new(("Sales", "000001"))];
    /// let report = table.bulk_insert(futures_util::stream::iter(entities), None).await?;
    /// assert!(matches!(report.refused[..], [(1, Error::Taken { .. })]));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bulk_insert<E: Writable>(
        &self,
        entities: impl Stream<Item = E> + Send,
        options: Option<BulkOptions>,
    ) -> Result<BulkReport> {
        self.bulk(entities, Verb::Insert, options).await
    }

    async fn bulk<E: Writable>(
        &self,
        entities: impl Stream<Item = E> + Send,
        verb: Verb,
        options: Option<BulkOptions>,
    ) -> Result<BulkReport> {
        let mut options = options.unwrap_or_default();
        options.write = stamped::<E>(options.write);
        let mut entities = pin!(entities);
        let mut run = Run::new(self, &options);
        let mut index = 0;
        while let Some(entity) = entities.next().await {
            match bulk_write(&entity, verb) {
                Ok(write) => run.add(index, write).await?,
                Err(error) => run.report.refused.push((index, error)),
            }
            index += 1;
        }
        run.finish().await
    }

    /// Removes every entity of a scope, whatever its version: reads keys only, then transactions of 100 deletes in
    /// parallel. Can be called again after a crash. To empty a whole table, dropping it is one request.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::In;
    /// let report = table.bulk_delete(In::partition("Sales").rows("a".."b"), None).await?;
    /// println!("{}", report.written);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bulk_delete(&self, scope: In, options: Option<BulkOptions>) -> Result<BulkReport> {
        self.bulk_delete_found(self.query::<DynamicEntity>(scope), options).await
    }

    /// Removes every entity that a query finds.
    pub(crate) async fn bulk_delete_found(
        &self,
        query: Query<DynamicEntity>,
        options: Option<BulkOptions>,
    ) -> Result<BulkReport> {
        let options = options.unwrap_or_default();
        let keys = query.select_names(["PartitionKey", "RowKey"]);
        let mut keys = pin!(keys.stream());
        let mut run = Run::new(self, &options);
        let mut index = 0;
        while let Some(entity) = keys.next().await {
            let write = Write::new(entity?.key.checked()?, Change::Delete(Condition::Any));
            run.add(index, write).await?;
            index += 1;
        }
        let mut report = run.finish().await?;
        // What another removed in between is gone, as was wanted.
        let before = report.refused.len();
        report.refused.retain(|(_, error)| !matches!(error, Error::NotFound));
        report.written += u64::try_from(before - report.refused.len()).unwrap_or(0);
        Ok(report)
    }
}

fn bulk_write<E: Writable>(entity: &E, verb: Verb) -> Result<Write> {
    let (key, properties) = (entity.key()?.checked()?, pack(entity)?);
    Ok(Write::new(
        key,
        match verb {
            Verb::Insert => Change::Insert(properties),
            Verb::Upsert => Change::InsertOrReplace(properties),
            Verb::UpsertMerge => Change::InsertOrMerge(properties),
        },
    ))
}

/// What waits for one partition.
#[derive(Default)]
struct Waiting {
    /// Each with its index in the input.
    writes: VecDeque<(u64, Write)>,
    /// A transaction of this partition is on its way.
    busy: bool,
}

/// What one transaction, or what became of it, did.
struct Sent {
    partition: Box<str>,
    written: u64,
    requests: u64,
    refused: Vec<(u64, Error)>,
    fatal: Option<Error>,
}

struct Run<'a> {
    table: &'a TableClient,
    options: &'a BulkOptions,
    waiting: HashMap<Box<str>, Waiting>,
    /// Writes that wait, and their packed bytes.
    count: usize,
    bytes: usize,
    sending: FuturesUnordered<futures_core::future::BoxFuture<'a, Sent>>,
    /// A transaction was begun and not polled yet.
    has_begun: bool,
    report: BulkReport,
}

impl<'a> Run<'a> {
    fn new(table: &'a TableClient, options: &'a BulkOptions) -> Self {
        Self {
            table,
            options,
            waiting: HashMap::new(),
            count: 0,
            bytes: 0,
            sending: FuturesUnordered::new(),
            has_begun: false,
            report: BulkReport::default(),
        }
    }

    /// Adds a write, and sends where a transaction is full or too much waits.
    async fn add(&mut self, index: u64, write: Write) -> Result<()> {
        let partition = write.key.partition.as_str();
        if !self.waiting.contains_key(partition) {
            self.waiting.insert(partition.into(), Waiting::default());
        }
        let waiting = self.waiting.get_mut(partition).expect("it was put there");
        self.count += 1;
        self.bytes += write.change.packed_bytes();
        // The name is needed again when its last write is added.
        let full = (waiting.writes.len() + 1 >= TRANSACTION_OPERATIONS_MAX && !waiting.busy)
            .then(|| Box::<str>::from(partition));
        waiting.writes.push_back((index, write));
        let concurrency = self.options.concurrency.max(1);
        if let Some(partition) = full {
            // This one was packed while as many as may be are on their way.
            while self.sending.len() >= concurrency {
                self.take_one().await?;
            }
            self.begin(&partition);
            self.let_leave().await?;
        }
        // As many bytes may wait as are on their way at most.
        while self.count >= concurrency * WAITING_MAX * TRANSACTION_OPERATIONS_MAX
            || self.bytes >= concurrency * TRANSACTION_BYTES
        {
            self.begin_largest();
            if !self.sending.is_empty() {
                self.take_one().await?;
            }
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<BulkReport> {
        loop {
            while self.sending.len() < self.options.concurrency.max(1) && self.begin_largest() {
                self.let_leave().await?;
            }
            if self.sending.is_empty() {
                self.report.refused.sort_by_key(|(index, _)| *index);
                return Ok(self.report);
            }
            self.take_one().await?;
        }
    }

    fn begin_largest(&mut self) -> bool {
        let idle = self.waiting.iter().filter(|(_, waiting)| !waiting.busy && !waiting.writes.is_empty());
        let largest =
            idle.max_by_key(|(_, waiting)| waiting.writes.len()).map(|(partition, _)| partition.clone());
        largest.is_some_and(|partition| {
            self.begin(&partition);
            true
        })
    }

    /// Sends the next transaction of a partition: as many of its writes as fit, each entity once.
    fn begin(&mut self, partition: &str) {
        let Some(waiting) = self.waiting.get_mut(partition) else { return };
        let (mut rows, mut bytes) = (HashSet::new(), 0);
        for (_, write) in waiting.writes.iter().take(TRANSACTION_OPERATIONS_MAX) {
            let size = write.change.packed_bytes();
            let is_full = bytes + size > TRANSACTION_BYTES && bytes > 0;
            if is_full || !rows.insert(&write.key.row) {
                break;
            }
            bytes += size;
        }
        let count = rows.len();
        let (indexes, writes): (Vec<u64>, Vec<Write>) = waiting.writes.drain(..count).unzip();
        waiting.busy = true;
        self.has_begun = true;
        self.count -= count;
        self.bytes -= bytes;
        let (table, options, partition) = (self.table, self.options, partition.into());
        self.sending.push(Box::pin(send(table, options.write.as_ref(), partition, indexes, writes)));
    }

    /// Lets what was begun leave before more is packed, so that the service works meanwhile. Without this, answers that
    /// came together would all be taken, and all their successors packed, before the first of these is sent.
    async fn let_leave(&mut self) -> Result<()> {
        while std::mem::take(&mut self.has_begun) {
            // Whatever is ready is polled, the new ones last.
            while let Some(Some(sent)) = self.sending.next().now_or_never() {
                self.took(sent)?;
                tokio::task::yield_now().await;
            }
            // The connection has its turn.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn take_one(&mut self) -> Result<()> {
        let Some(sent) = self.sending.next().await else { return Ok(()) };
        self.took(sent)?;
        self.let_leave().await
    }

    fn took(&mut self, sent: Sent) -> Result<()> {
        self.report.written += sent.written;
        self.report.requests += sent.requests;
        self.report.refused.extend(sent.refused);
        if let Some(progress) = &self.options.progress {
            progress(Progress { entities: self.report.written, requests: self.report.requests });
        }
        if let Some(error) = sent.fatal {
            return Err(error);
        }
        let again = self.waiting.get_mut(&sent.partition).is_some_and(|waiting| {
            waiting.busy = false;
            waiting.writes.len() >= TRANSACTION_OPERATIONS_MAX
        });
        if again {
            self.begin(&sent.partition);
        } else if self.waiting.get(&sent.partition).is_some_and(|waiting| waiting.writes.is_empty()) {
            self.waiting.remove(&sent.partition);
        }
        Ok(())
    }
}

/// Sends a transaction; where one write is refused, the rest again, and after a few refusals one by one.
async fn send(
    table: &TableClient,
    options: Option<&WriteOptions>,
    partition: Box<str>,
    mut indexes: Vec<u64>,
    mut writes: Vec<Write>,
) -> Sent {
    const REFUSALS_MAX: usize = 3;
    let mut sent = Sent { partition, written: 0, requests: 0, refused: Vec::new(), fatal: None };
    while !writes.is_empty() && sent.refused.len() < REFUSALS_MAX {
        sent.requests += 1;
        match table.apply_all(&writes, options).await {
            Ok(_) => {
                sent.written += u64::try_from(writes.len()).unwrap_or(0);
                return sent;
            }
            Err(Error::Transaction { index, cause }) if index < writes.len() => {
                writes.remove(index);
                sent.refused.push((indexes.remove(index), *cause));
            }
            Err(Error::Invalid(_)) if writes.len() > 1 => break,
            Err(error) => {
                sent.fatal = Some(error);
                return sent;
            }
        }
    }
    for (index, write) in indexes.into_iter().zip(writes) {
        sent.requests += 1;
        match table.apply(write, options).await {
            Ok(_) => sent.written += 1,
            Err(error @ (Error::Taken { .. } | Error::NotFound | Error::Changed | Error::Invalid(_))) => {
                sent.refused.push((index, error));
            }
            Err(error) => {
                sent.fatal = Some(error);
                return sent;
            }
        }
    }
    sent
}
