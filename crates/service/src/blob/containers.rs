//! Containers: created, changed, leased, listed, deleted.

use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::SpaceId;
use tavola_model::{
    AccountName, BLOBS_PAGE_MAX, Changed, ContainerConditions, ContainerName, ContainerPage,
    ContainerProperties, CreateContainer, DateTime, DeleteContainer, DeletedContainer, ErrorCode,
    GetContainer, LeaseContainer, LeaseDone, ListContainers, Metadata, RestoreContainer, SetContainerAcl,
    SetContainerMetadata,
};

use super::Blobs;
use super::conditions::{check_container, check_version};
use super::list::days_between;
use super::reservation::AnswerReservation;
use crate::catalog::{ContainerState, Created, Kept, Resource, ResourceKind, to_its_end};
use crate::failure::Failure;
use crate::lease::{Lease, Leased};
use crate::service::AnswerBudget;

/// Containers that the service itself writes to. A list has them only if it is asked to.
const SYSTEM_CONTAINERS: [&str; 2] = ["$logs", "$blobchangefeed"];

impl Blobs {
    /// The container of this name, or `ContainerNotFound`.
    pub async fn container(
        &self,
        account: &AccountName,
        name: &ContainerName,
    ) -> Result<Arc<Resource>, Failure> {
        self.catalog.find_existing(account, ResourceKind::Container, name.as_str()).await
    }

    pub async fn create_container(
        &self,
        account: &AccountName,
        create: CreateContainer,
    ) -> Result<Changed, Failure> {
        let (catalog, account) = (self.catalog.clone(), account.clone());
        to_its_end(async move {
            let CreateContainer { container, metadata, public_access } = create;
            let name = container.as_str();
            let state = |now| Some(ContainerState { changed: now, access: public_access, lease: None });
            match catalog.create_with(&account, ResourceKind::Container, name, name, metadata, state).await? {
                Created::New => {}
                Created::Existed(_) => return Err(ErrorCode::ContainerAlreadyExists.into()),
            }
            let made = catalog.find_existing(&account, ResourceKind::Container, name).await?;
            Ok(Changed(made.container()?.changed))
        })
        .await
    }

    pub async fn delete_container(
        self: &Arc<Self>,
        account: &AccountName,
        delete: DeleteContainer,
    ) -> Result<(), Failure> {
        let (blobs, account) = (self.clone(), account.clone());
        to_its_end(async move {
            let DeleteContainer { container, conditions } = delete;
            let check = |now: DateTime, resource: &Resource| {
                let state = resource.container()?;
                Lease::admit_write(state.lease.as_ref(), conditions.lease, Leased::Container, now)
                    .map_err(|code| Leased::Container.refusal(code))?;
                Ok(check_container(&conditions, state, true, now)?)
            };
            let kind = ResourceKind::Container;
            let name = container.as_str();
            if !blobs.delete_retention.is_zero() {
                let (keep_for, delay) = (blobs.delete_retention, blobs.delete_delay);
                return blobs.catalog.delete_kept(&account, name, keep_for, delay, check).await;
            }
            match blobs.catalog.delete_if(&account, kind, name, blobs.delete_delay, check).await? {
                Some(_) => Ok(()),
                None => Err(ErrorCode::ContainerNotFound.into()),
            }
        })
        .await
    }

    /// Gives a deleted container its name back. The service restores it under no other name.
    pub async fn restore_container(
        &self,
        account: &AccountName,
        restore: RestoreContainer,
    ) -> Result<(), Failure> {
        let (catalog, account) = (self.catalog.clone(), account.clone());
        to_its_end(async move {
            let RestoreContainer { container, deleted_name, deleted_version } = restore;
            let version = parse_version(&deleted_version).filter(|_| deleted_name == container.as_str());
            let version = version.ok_or(ErrorCode::ContainerNotFound)?;
            catalog.restore(&account, container.as_str(), version).await
        })
        .await
    }

    pub async fn get_container(
        &self,
        account: &AccountName,
        get: &GetContainer,
    ) -> Result<(Arc<Resource>, ContainerProperties), Failure> {
        let found = self.container(account, &get.container).await?;
        let now = self.clock.now();
        let state = found.container()?;
        let conditions = ContainerConditions { lease: get.lease, ..ContainerConditions::default() };
        check_container(&conditions, state, false, now)?;
        let properties = show(&found, now)?;
        Ok((found, properties))
    }

    pub async fn set_container_metadata(
        &self,
        account: &AccountName,
        set: SetContainerMetadata,
    ) -> Result<Changed, Failure> {
        let SetContainerMetadata { container, metadata, conditions } = set;
        self.change_container(account, container, move |now, found| {
            let state = checked(found, &conditions, now)?;
            let state = ContainerState { changed: now, ..state };
            Ok((
                Resource { metadata: metadata.clone(), container: Some(state), ..found.clone() },
                Changed(now),
            ))
        })
        .await
    }

    pub async fn set_container_acl(
        &self,
        account: &AccountName,
        set: SetContainerAcl,
    ) -> Result<Changed, Failure> {
        let SetContainerAcl { container, identifiers, public_access, conditions } = set;
        self.change_container(account, container, move |now, found| {
            let state = checked(found, &conditions, now)?;
            let state = ContainerState { changed: now, access: public_access, ..state };
            let identifiers = identifiers.clone();
            Ok((Resource { identifiers, container: Some(state), ..found.clone() }, Changed(now)))
        })
        .await
    }

    pub async fn lease_container(
        &self,
        account: &AccountName,
        asked: LeaseContainer,
    ) -> Result<(Changed, LeaseDone), Failure> {
        let LeaseContainer { container, action, conditions } = asked;
        let fresh = self.fresh_lease();
        self.change_container(account, container, move |now, found| {
            let state = found.container()?;
            check_version(&conditions, Some(state.changed)).map_err(|_| ErrorCode::ConditionNotMet)?;
            let (lease, done) = Lease::apply(state.lease.as_ref(), action, fresh, now)
                .map_err(|code| Leased::Container.refusal(code))?;
            let changed = Changed(state.changed);
            let state = ContainerState { lease, ..state.clone() };
            Ok((Resource { container: Some(state), ..found.clone() }, (changed, done)))
        })
        .await
    }

    /// One page of the containers whose name has the prefix.
    pub async fn list_containers(
        &self,
        account: &AccountName,
        asked: ListContainers,
        budget: Option<Arc<dyn AnswerBudget>>,
    ) -> Result<ContainerPage, Failure> {
        let mut reservation = AnswerReservation::new(budget);
        let max = asked.max.unwrap_or(BLOBS_PAGE_MAX).min(BLOBS_PAGE_MAX) as usize;
        let prefix = asked.prefix.clone().unwrap_or_default();
        let from = asked.from.as_deref().unwrap_or_default().max(prefix.as_str()).to_owned();
        let (mut containers, mut next, mut failure) = (Vec::new(), None, None);
        let now = self.clock.now();
        let mut visit = |found: Resource| {
            if !found.name.starts_with(&prefix) {
                return ControlFlow::Break(());
            }
            if SYSTEM_CONTAINERS.contains(&&*found.name) && !asked.with_system {
                return ControlFlow::Continue(());
            }
            let shown = ContainerName::parse(&found.name)
                .map_err(|_| Failure::damaged(SpaceId::CATALOG, "the name of a container"))
                .and_then(|name| Ok((name, show(&found, now)?)));
            match shown {
                Ok((name, _)) if containers.len() >= max => next = Some(name),
                Ok((name, properties)) if !reservation.take(container_bytes(&name, &properties)) => {
                    match containers.is_empty() {
                        true => failure = Some(ErrorCode::ServerBusy.into()),
                        false => next = Some(name),
                    }
                }
                Ok(shown) => {
                    containers.push(shown);
                    return ControlFlow::Continue(());
                }
                Err(error) => failure = Some(error),
            }
            ControlFlow::Break(())
        };
        self.catalog.list(account, ResourceKind::Container, &from, &mut visit).await?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        if asked.with_deleted {
            let deleted = self.deleted_containers(account, &from, &prefix, max, &mut reservation).await?;
            (containers, next) = merge(containers, deleted, next, max);
        }
        Ok(ContainerPage { asked, containers, next })
    }

    /// The deleted containers whose name has the prefix, of at least so many names if there are as many.
    async fn deleted_containers(
        &self,
        account: &AccountName,
        from: &str,
        prefix: &str,
        names_max: usize,
        reservation: &mut AnswerReservation,
    ) -> Result<Vec<(ContainerName, ContainerProperties)>, Failure> {
        let now = self.clock.now();
        let mut found: Vec<Kept> = Vec::new();
        let (mut names, mut is_short) = (0, false);
        let mut visit = |kept: Kept| {
            names += usize::from(found.last().is_none_or(|last| last.resource.name != kept.resource.name));
            if !kept.resource.name.starts_with(prefix) || names > names_max + 1 {
                return ControlFlow::Break(());
            }
            is_short = !reservation.take(CONTAINER_BYTES + metadata_bytes(&kept.resource.metadata));
            if is_short {
                return ControlFlow::Break(());
            }
            found.push(kept);
            ControlFlow::Continue(())
        };
        self.catalog.list_kept(account, from, &mut visit).await?;
        if is_short {
            return Err(ErrorCode::ServerBusy.into());
        }
        let shown = found.into_iter().map(|kept| {
            let name = ContainerName::parse(&kept.resource.name)
                .map_err(|_| Failure::damaged(SpaceId::CATALOG, "the name of a container"))?;
            let days_left = days_between(now, kept.until());
            let deleted = DeletedContainer { version: version_text(kept.at), at: kept.at, days_left };
            Ok((name, ContainerProperties { deleted: Some(deleted), ..show(&kept.resource, now)? }))
        });
        shown.collect()
    }

    async fn change_container<T: Send + 'static>(
        &self,
        account: &AccountName,
        name: ContainerName,
        mut change: impl FnMut(DateTime, &Resource) -> Result<(Resource, T), Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (catalog, account) = (self.catalog.clone(), account.clone());
        to_its_end(async move {
            let mut value = None;
            catalog
                .try_update(&account, ResourceKind::Container, name.as_str(), |now, found| {
                    let (changed, told) = change(now, &found)?;
                    value = Some(told);
                    Ok(changed)
                })
                .await?;
            Ok(value.expect("a change that was kept has been decided"))
        })
        .await
    }
}

/// What a container takes on a page beside its texts.
const CONTAINER_BYTES: usize = 1024;

fn container_bytes(name: &ContainerName, properties: &ContainerProperties) -> usize {
    CONTAINER_BYTES + name.as_str().len() + metadata_bytes(&properties.metadata)
}

fn metadata_bytes(metadata: &Metadata) -> usize {
    metadata.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// One page of containers that are there and that are deleted, by name. A marker tells a name only, so those of one name
/// are never split: a page can have more than `max` if its last name was deleted more than once.
fn merge(
    containers: Vec<(ContainerName, ContainerProperties)>,
    deleted: Vec<(ContainerName, ContainerProperties)>,
    next: Option<ContainerName>,
    max: usize,
) -> (Vec<(ContainerName, ContainerProperties)>, Option<ContainerName>) {
    let mut all: Vec<_> = deleted.into_iter().chain(containers).collect();
    all.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
    // What follows a container that did not fit is on the next page too.
    if let Some(next) = &next {
        all.retain(|(name, _)| name.as_str() < next.as_str());
    }
    let mut end = max.min(all.len());
    while 0 < end && end < all.len() && all[end].0 == all[end - 1].0 {
        end += 1;
    }
    let next = all.get(end).map(|(name, _)| name.clone()).or(next);
    all.truncate(end);
    (all, next)
}

/// The version of a deleted container: when it was deleted, as the service writes times in 16 digits.
fn version_text(at: DateTime) -> String {
    format!("{:016X}", at.ticks().saturating_sub(FILE_TIME_EPOCH_TICKS))
}

fn parse_version(text: &str) -> Option<DateTime> {
    let ticks = u64::from_str_radix(text, 16).ok()?;
    DateTime::from_ticks(ticks.checked_add(FILE_TIME_EPOCH_TICKS)?)
}

/// Ticks from the year 1 to the year 1601, from which the service counts in versions.
const FILE_TIME_EPOCH_TICKS: u64 = 504_911_232_000_000_000;

fn checked(
    found: &Resource,
    conditions: &ContainerConditions,
    now: DateTime,
) -> Result<ContainerState, Failure> {
    let state = found.container()?;
    check_container(conditions, state, true, now)?;
    Ok(state.clone())
}

fn show(found: &Resource, now: DateTime) -> Result<ContainerProperties, Failure> {
    let state = found.container()?;
    Ok(ContainerProperties {
        changed: Changed(state.changed),
        lease: Lease::show(state.lease.as_ref(), now),
        public_access: state.access,
        metadata: found.metadata.clone(),
        deleted: None,
    })
}
