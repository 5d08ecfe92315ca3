//! Dropping spaces that nothing names: what a crash between the two steps of a creation or a deletion leaves behind, a
//! row whose outcome is unknown, or a drop that failed.
//!
//! The row of a resource is written after its space is made, so a space without a name may be that of a resource that
//! is being made. Only before a server that is alone on its store serves is there no such space.

use std::collections::HashSet;
use std::ops::ControlFlow;

use tavola_engine::{ScanRange, ScannedRow, SpaceId};

use super::resource::Undecodable;
use super::{Catalog, KEPT_ROW, Resource, ResourceKind};
use crate::failure::Failure;
use crate::properties::PROPERTIES_ROW;

/// How long a resource may take to be made, in ticks: an hour, which is far more.
const YOUNG_TICKS: u64 = 3600 * 10_000_000;

/// When spaces are reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReclaimTime {
    /// Before this process serves.
    Start,
    /// While it serves.
    Serving,
}

/// The spaces that resources name, if every row of the catalog could be read.
enum NamedSpaces {
    All(HashSet<SpaceId>),
    /// A newer server shares the store, and its rows may name any space.
    Unknown,
}

impl Catalog {
    /// Drops every space that no resource names. A row that this version does not know may name one, so then nothing
    /// is dropped at all.
    pub async fn reclaim_spaces(&self, when: ReclaimTime) -> Result<(), Failure> {
        self.drop_expired().await?;
        let named = match self.named_spaces().await? {
            NamedSpaces::All(named) => named,
            NamedSpaces::Unknown => {
                tracing::warn!("the catalog has rows of a newer server version; no space is reclaimed");
                return Ok(());
            }
        };
        let others_make_spaces = match when {
            ReclaimTime::Start => self.settings.catalog_lease.is_some(),
            ReclaimTime::Serving => true,
        };
        for space in self.engine.spaces().await? {
            let may_be_new = others_make_spaces && self.is_young(space);
            if !named.contains(&space) && !may_be_new {
                tracing::info!(%space, "dropping a space that no catalog row names");
                self.engine.drop_space(space).await?;
                self.drop_contents(space);
            }
        }
        Ok(())
    }

    async fn named_spaces(&self) -> Result<NamedSpaces, Failure> {
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
            None if has_unknown => Ok(NamedSpaces::Unknown),
            None => Ok(NamedSpaces::All(named)),
        }
    }

    /// Whether a space was made in the last hour, as its id tells: it begins with the time.
    fn is_young(&self, space: SpaceId) -> bool {
        let made = space.0.first_chunk().map_or(0, |time| u64::from_be_bytes(*time));
        made.saturating_add(YOUNG_TICKS) > self.clock.now().ticks()
    }
}
