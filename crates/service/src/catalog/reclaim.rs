//! Dropping spaces that nothing names: what a crash between the two steps of a creation or a deletion leaves behind.

use std::collections::HashSet;
use std::ops::ControlFlow;

use tavola_engine::{ScanRange, ScannedRow, SpaceId};

use super::resource::Undecodable;
use super::{Catalog, KEPT_ROW, Resource, ResourceKind};
use crate::failure::Failure;
use crate::properties::PROPERTIES_ROW;

/// How long a resource may take to be made, in ticks: an hour, which is far more.
const YOUNG_TICKS: u64 = 3600 * 10_000_000;

/// Whether every row of the catalog could be read.
enum Named {
    All(HashSet<SpaceId>),
    /// A newer server shares the store, and its rows may name any space.
    Unknown,
}

impl Catalog {
    /// Drops every space that no resource names. A row that this version does not know may name one, so then nothing
    /// is dropped at all. On a shared store a young space may be that of a resource that is being made.
    pub async fn reclaim_spaces(&self) -> Result<(), Failure> {
        self.drop_expired().await?;
        let named = match self.named_spaces().await? {
            Named::All(named) => named,
            Named::Unknown => {
                tracing::warn!("the catalog has rows of a newer server version; no space is reclaimed");
                return Ok(());
            }
        };
        for space in self.engine.spaces().await? {
            let may_be_new = self.settings.catalog_lease.is_some() && self.is_young(space);
            if !named.contains(&space) && !may_be_new {
                tracing::info!(%space, "dropping a space that no catalog row names");
                self.engine.drop_space(space).await?;
                self.drop_contents(space);
            }
        }
        Ok(())
    }

    async fn named_spaces(&self) -> Result<Named, Failure> {
        let mut named = HashSet::from([SpaceId::CATALOG]);
        let (mut has_unknown, mut damage) = (false, None);
        let mut visit = |row: ScannedRow<'_>| {
            let letter = row.row.first().copied();
            if letter == Some(PROPERTIES_ROW) {
                return ControlFlow::Continue(());
            }
            let is_kept = letter == Some(KEPT_ROW);
            if !is_kept && !ResourceKind::ALL.iter().any(|kind| letter == Some(kind.row_letter())) {
                has_unknown = true;
                return ControlFlow::Break(());
            }
            match Resource::decode(&row.body) {
                Ok(resource) => {
                    let is_named = is_kept || resource.deleted_until.is_none();
                    named.extend(is_named.then_some(resource.space));
                    ControlFlow::Continue(())
                }
                Err(Undecodable::Newer) => {
                    has_unknown = true;
                    ControlFlow::Break(())
                }
                Err(Undecodable::Damaged) => {
                    damage = Some(Undecodable::Damaged);
                    ControlFlow::Break(())
                }
            }
        };
        self.engine.scan(SpaceId::CATALOG, &ScanRange::all(), &mut visit).await?;
        match damage {
            Some(damage) => Err(damage.into()),
            None if has_unknown => Ok(Named::Unknown),
            None => Ok(Named::All(named)),
        }
    }

    /// The spaces of all containers that exist, of all accounts.
    pub async fn container_spaces(&self) -> Result<Vec<SpaceId>, Failure> {
        let mut spaces = Vec::new();
        let mut visit = |row: ScannedRow<'_>| {
            if row.row.first() == Some(&ResourceKind::Container.row_letter())
                && let Ok(container) = Resource::decode(&row.body)
                && container.deleted_until.is_none()
            {
                spaces.push(container.space);
            }
            ControlFlow::Continue(())
        };
        self.engine.scan(SpaceId::CATALOG, &ScanRange::all(), &mut visit).await?;
        Ok(spaces)
    }

    /// Whether a space was made in the last hour, as its id tells: it begins with the time.
    fn is_young(&self, space: SpaceId) -> bool {
        let made = space.0.first_chunk().map_or(0, |time| u64::from_be_bytes(*time));
        made.saturating_add(YOUNG_TICKS) > self.clock.now().ticks()
    }
}
