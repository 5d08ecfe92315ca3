//! Creating, changing and deleting resources.
//!
//! Callers run a change as a task of its own ([`to_its_end`]), so that a client that hangs up halfway leaves neither a
//! stale cache nor a space that nobody drops.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tavola_engine::{Change, Decision, EngineError, SpaceId, StoredRow, Transacted};
use tavola_model::{AccountName, DateTime, Metadata, RandomSource};

use super::{Catalog, ContainerState, Resource, ResourceKind, State, account_partition};
use crate::failure::Failure;

/// What was there when a resource was created.
pub(crate) enum Created {
    /// Nothing; now the resource is.
    New,
    /// The resource, unchanged.
    Existed(Arc<Resource>),
}

/// What becomes of the row of a resource.
enum Row {
    Is(Resource),
    Removed,
    Unchanged,
}

impl Catalog {
    /// Makes a space, then the row that names it: a crash between leaves a space that is reclaimed later.
    pub async fn create(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
        name: &str,
        metadata: Metadata,
    ) -> Result<Created, Failure> {
        self.create_with(account, kind, key, name, metadata, |_| None).await
    }

    /// The same for a container: `state` gives what only containers have, from the version of the write.
    pub async fn create_with(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
        name: &str,
        metadata: Metadata,
        state: impl Fn(DateTime) -> Option<ContainerState> + Send + Sync,
    ) -> Result<Created, Failure> {
        if let Some(existing) = self.find(account, kind, key).await? {
            return Ok(Created::Existed(existing));
        }
        let space = self.create_space().await?;
        let created = Resource {
            name: name.into(),
            space,
            created: self.clock.now(),
            deleted_until: None,
            metadata,
            identifiers: Vec::new(),
            container: None,
        };
        let mut existing = None;
        let kept = self
            .change(account, kind, key, |now, stored| match stored {
                Some((resource, State::Exists)) => {
                    existing = Some(resource);
                    Ok(Row::Unchanged)
                }
                Some((_, State::BeingDeleted)) => Err(kind.being_deleted().into()),
                Some((_, State::Gone)) | None => {
                    existing = None;
                    Ok(Row::Is(Resource { container: state(now), ..created.clone() }))
                }
            })
            .await;
        let is_named = kept.is_ok() && existing.is_none();
        self.drop_unless_named(kind, space, is_named, &kept).await;
        kept?;
        // Somebody else may have made it since it was not found above.
        Ok(existing.map_or(Created::New, |existing| Created::Existed(Arc::new(existing))))
    }

    /// Replaces an existing resource by what `decide` makes of it.
    pub async fn update(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
        decide: impl Fn(Resource) -> Resource + Send + Sync,
    ) -> Result<(), Failure> {
        self.change_existing(account, kind, key, |_, resource| Ok(decide(resource))).await.map(drop)
    }

    /// Replaces an existing resource by what `decide` makes of it and of the version of the write, or does not if it
    /// refuses.
    pub async fn try_update(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
        decide: impl FnMut(DateTime, Resource) -> Result<Resource, Failure> + Send,
    ) -> Result<(), Failure> {
        self.change_existing(account, kind, key, decide).await.map(drop)
    }

    /// Removes the row, then the space: from the first step on the resource is gone. For `delay` its name is held
    /// back. Gives the space, now dropped; `None` if there is no such resource.
    pub async fn delete(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
        delay: Duration,
    ) -> Result<Option<SpaceId>, Failure> {
        self.delete_if(account, kind, key, delay, |_, _| Ok(())).await
    }

    /// The same, unless `check` refuses.
    pub async fn delete_if(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
        delay: Duration,
        check: impl Fn(DateTime, &Resource) -> Result<(), Failure> + Send + Sync,
    ) -> Result<Option<SpaceId>, Failure> {
        let kept_for = self.settings.name_kept_for(delay);
        let deleted_until =
            if kept_for.is_zero() { None } else { self.clock.now().plus_seconds(kept_for.as_secs()) };
        let mut space = None;
        self.change(account, kind, key, |now, stored| match stored {
            Some((resource, State::Exists)) => {
                check(now, &resource)?;
                space = Some(resource.space);
                let marked = deleted_until.map(|until| Resource { deleted_until: Some(until), ..resource });
                Ok(marked.map_or(Row::Removed, Row::Is))
            }
            Some((_, State::BeingDeleted)) => Err(kind.being_deleted().into()),
            Some((_, State::Gone)) | None => {
                space = None;
                Ok(Row::Unchanged)
            }
        })
        .await?;
        let Some(space) = space else { return Ok(None) };
        let dropped = self.drop_space(kind, space).await;
        if dropped && delay.is_zero() && !kept_for.is_zero() {
            self.free_name(account, kind, key, space).await;
        }
        Ok(Some(space))
    }

    /// Gives the resource a fresh space and drops the old one, whatever is in it. Gives the old one.
    pub async fn replace_space(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
    ) -> Result<SpaceId, Failure> {
        let space = self.create_space().await?;
        let changed =
            self.change_existing(account, kind, key, |_, resource| Ok(Resource { space, ..resource })).await;
        self.drop_unless_named(kind, space, changed.is_ok(), &changed).await;
        // Whoever still holds the old space is refused by the engine and asks the catalog again.
        let old = changed?.space;
        self.drop_space(kind, old).await;
        Ok(old)
    }

    /// Removes the row of a deleted resource that nobody remembers any more. If that fails, the name is free when its
    /// time is over.
    async fn free_name(&self, account: &AccountName, kind: ResourceKind, key: &str, space: SpaceId) {
        let freed = self.change(account, kind, key, |_, stored| match stored {
            Some((resource, State::BeingDeleted | State::Gone)) if resource.space == space => {
                Ok(Row::Removed)
            }
            _ => Err(kind.not_found().into()),
        });
        if let Err(error) = freed.await {
            tracing::debug!(%error, "cannot release the name of a deleted resource; it stays reserved until its delay ends");
        }
    }

    /// Replaces an existing resource by what `decide` makes of it, and gives the old one.
    async fn change_existing(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
        mut decide: impl FnMut(DateTime, Resource) -> Result<Resource, Failure> + Send,
    ) -> Result<Resource, Failure> {
        let mut old = None;
        self.change(account, kind, key, |now, stored| match stored {
            Some((resource, State::Exists)) => {
                old = Some(resource.clone());
                Ok(Row::Is(decide(now, resource)?))
            }
            Some((_, State::BeingDeleted)) => Err(kind.being_deleted().into()),
            Some((_, State::Gone)) | None => Err(kind.not_found().into()),
        })
        .await?;
        Ok(old.expect("a change that was kept saw the resource"))
    }

    /// Makes of the row of a resource what `decide` says.
    async fn change(
        &self,
        account: &AccountName,
        kind: ResourceKind,
        key: &str,
        mut decide: impl FnMut(DateTime, Option<(Resource, State)>) -> Result<Row, Failure> + Send,
    ) -> Result<(), Failure> {
        let mut refusal = None;
        let mut decide_row = |now: DateTime, rows: &[Option<StoredRow>]| {
            let stored = rows[0].as_ref().map(|row| Resource::decode(&row.body)).transpose();
            let with_state = stored.map(|resource| {
                resource.map(|resource| {
                    let state = self.state_of(&resource);
                    (resource, state)
                })
            });
            match with_state.map_err(Failure::from).and_then(|stored| decide(now, stored)) {
                Ok(Row::Is(resource)) => {
                    Decision::Apply(vec![Change::Put { index: 0, body: resource.encode().into() }])
                }
                Ok(Row::Removed) => Decision::Apply(vec![Change::Delete { index: 0 }]),
                Ok(Row::Unchanged) => Decision::Apply(Vec::new()),
                Err(error) => {
                    refusal = Some(error);
                    Decision::Refuse
                }
            }
        };
        let partition = account_partition(account);
        let done =
            self.engine.transact(SpaceId::CATALOG, partition, &[&kind.row(key)], &mut decide_row).await;
        // Whatever came of it, the next reader asks the store.
        self.forget(account, kind, key);
        match done? {
            Transacted::Applied(_) => Ok(()),
            Transacted::Refused => Err(refusal.expect("a decide that refuses says why")),
        }
    }

    async fn create_space(&self) -> Result<SpaceId, Failure> {
        let space = fresh_space(self.clock.now(), self.random.as_ref());
        self.engine.create_space(space).await?;
        Ok(space)
    }

    /// Drops a fresh space that no row names. If nobody knows whether the row was kept, the space must stay: the row
    /// may name it. If it does not, the space is reclaimed when it is old enough.
    async fn drop_unless_named<T>(
        &self,
        kind: ResourceKind,
        space: SpaceId,
        is_named: bool,
        kept: &Result<T, Failure>,
    ) {
        let may_be_named = is_named || kept.as_ref().is_err_and(Failure::is_unknown);
        if !may_be_named {
            self.drop_space(kind, space).await;
        }
    }

    /// Drops a space that no row names, and says whether that is done. If not, its rows take up disk space until it is
    /// reclaimed, no more.
    pub(super) async fn drop_space(&self, kind: ResourceKind, space: SpaceId) -> bool {
        let dropped = self.engine.drop_space(space).await;
        if let Err(error) = &dropped {
            tracing::warn!(%space, %error, "cannot drop a space, it will be reclaimed later");
        }
        if kind == ResourceKind::Container {
            self.drop_contents(space);
        }
        dropped.is_ok()
    }

    /// Drops the contents of a space that no row names, behind the answer. What stays is found by the scrubber: the space
    /// that owns it is gone.
    pub(super) fn drop_contents(&self, space: SpaceId) {
        let Some(contents) = self.contents.get().cloned() else { return };
        tokio::spawn(async move {
            if let Err(error) = contents.drop_space(space).await {
                tracing::debug!(%space, %error, "cannot drop the contents of a container; the scrubber will");
            }
        });
    }
}

/// An id no space has had: the time, then random bits.
fn fresh_space(now: DateTime, random: &dyn RandomSource) -> SpaceId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&now.ticks().to_be_bytes());
    id[8..].copy_from_slice(&random.bytes());
    SpaceId(id)
}

/// Runs a change as a task of its own, so that it ends even if nobody waits for it any more.
pub(crate) async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::spawn(change).await {
        Ok(done) => done,
        // It panicked, or the server is stopping: nobody knows how far it came.
        Err(stopped) => Err(EngineError::OutcomeUnknown { cause: stopped.into() }.into()),
    }
}
