//! Which queues an account has, and where their messages are.
//!
//! Queues are rows of the catalog beside tables. Changes run as tasks of their own, so that a client that hangs
//! up halfway leaves neither a stale memory nor a space that nobody drops.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tavola_engine::{
    Change, Decision, Engine, Position, ScanRange, ScannedRow, SpaceId, StoredRow, Transacted,
};
use tavola_model::{
    AccountName, Clock, ErrorCode, ListQueues, ListedQueue, Metadata, QUEUES_PAGE_MAX, QueueName, QueuePage,
    QueueWas, RandomSource, ServiceError, SignedIdentifier,
};

use super::live::LiveQueues;
use super::record::{QUEUE_ROW, Queue, decode_queue, queue_row};
use crate::failure::from_engine;
use crate::service::ServiceSettings;
use crate::table::{Leased, account_partition, fresh_space, to_its_end};

/// Queues remembered at most (ours); beyond it all are forgotten, which is simple and rare.
const REMEMBERED_MAX: usize = 100_000;

/// The queues of all accounts.
pub(crate) struct Queues {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn RandomSource>,
    pub(super) live: LiveQueues,
    settings: ServiceSettings,
    /// As exact as the memory of tables; see `table/cache.rs`.
    remembered: RwLock<Remembered>,
}

#[derive(Default)]
struct Remembered {
    /// Counts what was forgotten.
    generation: u64,
    by_name: HashMap<(AccountName, QueueName), Leased<Queue>>,
}

/// What has become of a queue that has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    Exists,
    /// Its messages are gone, its name is still taken.
    BeingDeleted,
    Gone,
}

impl Queues {
    pub fn new(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: ServiceSettings,
    ) -> Self {
        let (live, remembered) = (LiveQueues::default(), RwLock::default());
        Self { engine, clock, random, live, settings, remembered }
    }

    /// The queue of this name, or `QueueNotFound`.
    pub async fn find_existing(
        &self,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<Arc<Queue>, ServiceError> {
        self.find(account, name).await?.ok_or_else(|| ErrorCode::QueueNotFound.into())
    }

    /// The queue of this name, if it exists.
    pub async fn find(
        &self,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<Option<Arc<Queue>>, ServiceError> {
        let key = (account.clone(), name.clone());
        let until = self.settings.catalog_lease.map(|lease| Instant::now() + lease);
        let known = |remembered: &Remembered| remembered.by_name.get(&key)?.current();
        let (known, generation) = self.read(|remembered| (known(remembered), remembered.generation));
        if known.is_some() {
            return Ok(known);
        }
        let row = queue_row(name.as_str());
        let stored = self.engine.get(SpaceId::CATALOG, account_partition(account), &row).await;
        let Some(stored) = stored.map_err(from_engine)? else { return Ok(None) };
        let queue = Arc::new(decode_queue(&stored.body)?);
        match self.state_of(&queue) {
            QueueState::Exists => {
                self.remember(generation, key, Leased::new(&queue, until));
                Ok(Some(queue))
            }
            QueueState::BeingDeleted => Err(ErrorCode::QueueBeingDeleted.into()),
            QueueState::Gone => Ok(None),
        }
    }

    /// Makes a space, then the row that names it: a crash between leaves a space that the next start drops.
    pub async fn create(
        self: &Arc<Self>,
        account: &AccountName,
        name: &QueueName,
        metadata: Metadata,
    ) -> Result<QueueWas, ServiceError> {
        let (queues, account, name) = (self.clone(), account.clone(), name.clone());
        to_its_end(async move { queues.create_now(&account, &name, metadata).await }).await
    }

    /// Removes the row, then the space: from the first step on the queue is gone.
    pub async fn delete(
        self: &Arc<Self>,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<(), ServiceError> {
        let (queues, account, name) = (self.clone(), account.clone(), name.clone());
        to_its_end(async move { queues.delete_now(&account, &name).await }).await
    }

    /// Gives the queue a fresh space and drops the old one, whatever is in it.
    pub async fn clear(
        self: &Arc<Self>,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<(), ServiceError> {
        let (queues, account, name) = (self.clone(), account.clone(), name.clone());
        to_its_end(async move { queues.clear_now(&account, &name).await }).await
    }

    /// Replaces the metadata of a queue.
    pub async fn set_metadata(
        self: &Arc<Self>,
        account: &AccountName,
        name: &QueueName,
        metadata: Metadata,
    ) -> Result<(), ServiceError> {
        let (queues, account, name) = (self.clone(), account.clone(), name.clone());
        let change = async move {
            queues
                .change_existing(&account, &name, |queue| {
                    Some(Queue { metadata: metadata.clone(), ..queue.clone() })
                })
                .await
                .map(|_| ())
        };
        to_its_end(change).await
    }

    /// Replaces the stored access policies of a queue.
    pub async fn set_acl(
        self: &Arc<Self>,
        account: &AccountName,
        name: &QueueName,
        identifiers: Vec<SignedIdentifier>,
    ) -> Result<(), ServiceError> {
        let (queues, account, name) = (self.clone(), account.clone(), name.clone());
        let change = async move {
            queues
                .change_existing(&account, &name, |queue| {
                    Some(Queue { identifiers: identifiers.clone(), ..queue.clone() })
                })
                .await
                .map(|_| ())
        };
        to_its_end(change).await
    }

    /// One page of the queues whose name has the prefix.
    pub async fn list(&self, account: &AccountName, asked: ListQueues) -> Result<QueuePage, ServiceError> {
        let max = asked.max.unwrap_or(QUEUES_PAGE_MAX).min(QUEUES_PAGE_MAX);
        let prefix = asked.prefix.clone().unwrap_or_default();
        let first = asked.from.as_deref().unwrap_or_default().max(prefix.as_str());
        let partition = account_partition(account);
        let range = ScanRange {
            from: Position::at(partition, &queue_row(first)),
            before: Some(Position::at(partition, &[QUEUE_ROW + 1])),
        };
        let (mut queues, mut next, mut unreadable) = (Vec::new(), None, None);
        let mut visit = |row: ScannedRow<'_>| {
            let queue = match decode_queue(&row.body) {
                Ok(queue) => queue,
                Err(error) => {
                    unreadable = Some(error);
                    return ControlFlow::Break(());
                }
            };
            if !queue.name.as_str().starts_with(&prefix) {
                return ControlFlow::Break(());
            }
            if self.state_of(&queue) != QueueState::Exists {
                return ControlFlow::Continue(());
            }
            if u32::try_from(queues.len()).is_ok_and(|len| len >= max) {
                next = Some(queue.name);
                return ControlFlow::Break(());
            }
            queues.push(ListedQueue { name: queue.name, metadata: queue.metadata });
            ControlFlow::Continue(())
        };
        self.engine.scan(SpaceId::CATALOG, &range, &mut visit).await.map_err(from_engine)?;
        match unreadable {
            Some(error) => Err(error),
            None => Ok(QueuePage { asked, queues, next }),
        }
    }

    /// Forgets what is remembered of a queue; the next reader looks again.
    pub fn forget(&self, account: &AccountName, name: &QueueName) {
        let mut remembered = self.remembered.write().unwrap_or_else(PoisonError::into_inner);
        remembered.generation += 1;
        remembered.by_name.remove(&(account.clone(), name.clone()));
    }

    async fn create_now(
        &self,
        account: &AccountName,
        name: &QueueName,
        metadata: Metadata,
    ) -> Result<QueueWas, ServiceError> {
        if let Some(queue) = self.find(account, name).await? {
            return if queue.metadata == metadata {
                Ok(QueueWas::There)
            } else {
                Err(ErrorCode::QueueAlreadyExists.into())
            };
        }
        let now = self.clock.now();
        let space = fresh_space(now, self.random.as_ref());
        self.engine.create_space(space).await.map_err(from_engine)?;
        let created = Queue {
            name: name.clone(),
            space,
            created: now,
            deleted_until: None,
            metadata,
            identifiers: Vec::new(),
        };
        let kept = self
            .change(account, name, |stored| match stored {
                Some((_, QueueState::Exists)) => Err(ErrorCode::QueueAlreadyExists.into()),
                Some((_, QueueState::BeingDeleted)) => Err(ErrorCode::QueueBeingDeleted.into()),
                Some((_, QueueState::Gone)) | None => Ok(Some(created.clone())),
            })
            .await;
        self.drop_unless_named(space, &kept).await;
        // Whoever loses the race to someone who made the same queue has what it asked for.
        if kept.as_ref().is_err_and(|error| error.code == ErrorCode::QueueAlreadyExists)
            && self.find(account, name).await?.is_some_and(|queue| queue.metadata == created.metadata)
        {
            return Ok(QueueWas::There);
        }
        kept.map(|()| QueueWas::Missing)
    }

    async fn delete_now(&self, account: &AccountName, name: &QueueName) -> Result<(), ServiceError> {
        let delay = self.settings.queue_delete_delay;
        let kept_for = self.settings.name_kept_for(delay);
        let deleted_until =
            if kept_for.is_zero() { None } else { self.clock.now().plus_seconds(kept_for.as_secs()) };
        let old = self
            .change_existing(account, name, |queue| {
                deleted_until.map(|until| Queue { deleted_until: Some(until), ..queue.clone() })
            })
            .await?;
        let dropped = self.drop_space(old.space).await;
        if dropped && delay.is_zero() && !kept_for.is_zero() {
            self.free_name(account, name, old.space).await;
        }
        Ok(())
    }

    /// Removes the row of a deleted queue that nobody remembers any more. If that fails, the name is free when its time
    /// is over.
    async fn free_name(&self, account: &AccountName, name: &QueueName, space: SpaceId) {
        let freed = self.change(account, name, |stored| match stored {
            Some((queue, QueueState::BeingDeleted | QueueState::Gone)) if queue.space == space => Ok(None),
            _ => Err(ErrorCode::QueueNotFound.into()),
        });
        if let Err(error) = freed.await {
            tracing::debug!(%error, "name of a deleted queue is left to its time");
        }
    }

    async fn clear_now(&self, account: &AccountName, name: &QueueName) -> Result<(), ServiceError> {
        let space = fresh_space(self.clock.now(), self.random.as_ref());
        self.engine.create_space(space).await.map_err(from_engine)?;
        let changed =
            self.change_existing(account, name, |queue| Some(Queue { space, ..queue.clone() })).await;
        self.drop_unless_named(space, &changed).await;
        // Whoever still holds the old space is refused by the engine and looks again.
        self.drop_space(changed?.space).await;
        Ok(())
    }

    /// Replaces an existing queue by what `decide` makes of it, `None` for nothing, and gives the old one.
    async fn change_existing(
        &self,
        account: &AccountName,
        name: &QueueName,
        decide: impl Fn(&Queue) -> Option<Queue> + Send + Sync,
    ) -> Result<Queue, ServiceError> {
        let mut old = None;
        self.change(account, name, |stored| match stored {
            Some((queue, QueueState::Exists)) => {
                let decided = decide(&queue);
                old = Some(queue);
                Ok(decided)
            }
            Some((_, QueueState::BeingDeleted)) => Err(ErrorCode::QueueBeingDeleted.into()),
            Some((_, QueueState::Gone)) | None => Err(ErrorCode::QueueNotFound.into()),
        })
        .await?;
        Ok(old.expect("a change that was kept saw the queue"))
    }

    /// Replaces the row of a queue by what `decide` makes of it; `None` removes the row.
    async fn change(
        &self,
        account: &AccountName,
        name: &QueueName,
        mut decide: impl FnMut(Option<(Queue, QueueState)>) -> Result<Option<Queue>, ServiceError> + Send,
    ) -> Result<(), ServiceError> {
        let mut refusal = None;
        let mut decide_row = |_, rows: &[Option<StoredRow>]| {
            let stored = rows[0].as_ref().map(|row| decode_queue(&row.body)).transpose();
            let with_state = stored.map(|queue| {
                queue.map(|queue| {
                    let state = self.state_of(&queue);
                    (queue, state)
                })
            });
            match with_state.and_then(&mut decide) {
                Ok(Some(queue)) => {
                    Decision::Apply(vec![Change::Put { place: 0, body: queue.encode().into() }])
                }
                Ok(None) => Decision::Apply(vec![Change::Delete { place: 0 }]),
                Err(error) => {
                    refusal = Some(error);
                    Decision::Refuse
                }
            }
        };
        let row = queue_row(name.as_str());
        let partition = account_partition(account);
        let done = self.engine.transact(SpaceId::CATALOG, partition, &[&row], &mut decide_row).await;
        // Whatever came of it, the next reader looks again.
        self.forget(account, name);
        match done.map_err(from_engine)? {
            Transacted::Applied(_) => Ok(()),
            Transacted::Refused => Err(refusal.expect("a decide that refuses says why")),
        }
    }

    fn state_of(&self, queue: &Queue) -> QueueState {
        match queue.deleted_until {
            None => QueueState::Exists,
            Some(until) if self.clock.now() < until => QueueState::BeingDeleted,
            Some(_) => QueueState::Gone,
        }
    }

    /// Drops a fresh space whose row was refused. If nobody knows whether the row was kept, the space must stay:
    /// the row may name it.
    async fn drop_unless_named<T>(&self, space: SpaceId, kept: &Result<T, ServiceError>) {
        if let Err(error) = kept
            && error.code != ErrorCode::OperationTimedOut
        {
            self.drop_space(space).await;
        }
    }

    /// Drops a space that no row names, and says whether that is done. If not, the rows take up room until the next
    /// start, no more.
    async fn drop_space(&self, space: SpaceId) -> bool {
        self.live.forget(space);
        let dropped = self.engine.drop_space(space).await;
        if let Err(error) = &dropped {
            tracing::warn!(%space, %error, "space is left for the next start to drop");
        }
        dropped.is_ok()
    }

    fn read<T>(&self, read: impl FnOnce(&Remembered) -> T) -> T {
        read(&self.remembered.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn remember(&self, generation: u64, key: (AccountName, QueueName), queue: Leased<Queue>) {
        let mut remembered = self.remembered.write().unwrap_or_else(PoisonError::into_inner);
        if !self.settings.catalog_cache || remembered.generation != generation {
            return;
        }
        if remembered.by_name.len() >= REMEMBERED_MAX {
            remembered.by_name.clear();
        }
        remembered.by_name.insert(key, queue);
    }
}
