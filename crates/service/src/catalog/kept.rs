//! Containers that are deleted and can be restored for a time.
//!
//! A deleted container has a row of its own, `d | name | 00 | time of the deletion, 8 bytes big-endian`, with the record
//! that it had and until when it is kept. The row names its space, so nothing of it is reclaimed before that row is
//! gone. Deleting and restoring move the record between the two rows in one transaction. One name can have been deleted
//! several times, so the time of the deletion is its version.

use std::ops::ControlFlow;
use std::time::Duration;

use tavola_engine::{Change, Decision, Position, ScanRange, ScannedRow, SpaceId, StoredRow, Transacted};
use tavola_model::{AccountName, DateTime, ErrorCode};

use super::resource::Undecodable;
use super::{Catalog, ContainerState, Resource, ResourceKind, State, account_partition};
use crate::failure::Failure;

/// The first byte of the row key of a deleted container.
pub(crate) const KEPT_ROW: u8 = b'd';
const KIND: ResourceKind = ResourceKind::Container;
/// How often a version is looked for that no other deletion of the name has.
const VERSIONS_TRIED_MAX: u64 = 16;

/// A container that can be restored.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub resource: Resource,
    /// When it was deleted: its version.
    pub at: DateTime,
}

impl Kept {
    /// Until when it can be restored.
    pub fn until(&self) -> DateTime {
        self.resource.deleted_until.unwrap_or(DateTime::MIN)
    }
}

impl Catalog {
    /// Deletes a container and keeps it for a time, unless `check` refuses. For `delay` its name is held back.
    pub async fn delete_kept(
        &self,
        account: &AccountName,
        key: &str,
        keep_for: Duration,
        delay: Duration,
        check: impl Fn(DateTime, &Resource) -> Result<(), Failure> + Send + Sync,
    ) -> Result<(), Failure> {
        let now = self.clock.now();
        let held_back = self.settings.name_kept_for(delay);
        let held_until = if held_back.is_zero() { None } else { now.plus_seconds(held_back.as_secs()) };
        for later in 0..VERSIONS_TRIED_MAX {
            let at = DateTime::from_ticks(now.ticks() + later).unwrap_or(now);
            let kept_until = at.plus_seconds(keep_for.as_secs()).unwrap_or(DateTime::MAX);
            let is_done = self
                .move_between(account, key, at, |now, stored, kept| {
                    let found = match stored {
                        Some((resource, State::Exists)) => resource,
                        Some((_, State::BeingDeleted)) => return Err(KIND.being_deleted().into()),
                        Some((_, State::Gone)) | None => return Err(KIND.not_found().into()),
                    };
                    check(now, &found)?;
                    if kept.is_some() {
                        return Ok(None);
                    }
                    let held =
                        held_until.map(|until| Resource { deleted_until: Some(until), ..found.clone() });
                    let state = found.container()?.clone();
                    let container = Some(ContainerState { lease: None, ..state });
                    let kept = Resource { deleted_until: Some(kept_until), container, ..found };
                    Ok(Some([put_or_delete(0, held.as_ref()), put_or_delete(1, Some(&kept))]))
                })
                .await?;
            if is_done {
                return Ok(());
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }

    /// Gives a deleted container its name back.
    pub async fn restore(&self, account: &AccountName, key: &str, at: DateTime) -> Result<(), Failure> {
        self.move_between(account, key, at, |now, stored, kept| {
            match stored {
                Some((_, State::Exists)) => return Err(ErrorCode::ContainerAlreadyExists.into()),
                Some((_, State::BeingDeleted)) => return Err(KIND.being_deleted().into()),
                Some((_, State::Gone)) | None => {}
            }
            let kept = kept.filter(|kept| kept.deleted_until.is_some_and(|until| now < until));
            let kept = kept.ok_or(KIND.not_found())?;
            let restored = Resource { deleted_until: None, ..kept };
            Ok(Some([put_or_delete(0, Some(&restored)), put_or_delete(1, None)]))
        })
        .await
        .map(|_| ())
    }

    /// Changes the row of a container and that of one of its deletions together. Gives whether `decide` wanted a change.
    async fn move_between(
        &self,
        account: &AccountName,
        key: &str,
        at: DateTime,
        decide: impl Fn(
            DateTime,
            Option<(Resource, State)>,
            Option<Resource>,
        ) -> Result<Option<[Change; 2]>, Failure>
        + Send
        + Sync,
    ) -> Result<bool, Failure> {
        let (mut refusal, mut is_done) = (None, false);
        let mut decide_rows = |now: DateTime, rows: &[Option<StoredRow>]| {
            let decode = |row: &Option<StoredRow>| {
                row.as_ref().map(|row| Resource::decode(&row.body)).transpose().map_err(Failure::from)
            };
            let decided = decode(&rows[0]).and_then(|stored| {
                let stored = stored.map(|resource| {
                    let state = self.state_of(&resource);
                    (resource, state)
                });
                decide(now, stored, decode(&rows[1])?)
            });
            match decided {
                Ok(changes) => {
                    is_done = changes.is_some();
                    // A row that is not there is not deleted.
                    let is_needed = |change: &Change| match change {
                        Change::Put { .. } => true,
                        Change::Delete { index } => rows[*index].is_some(),
                    };
                    Decision::Apply(changes.into_iter().flatten().filter(is_needed).collect())
                }
                Err(error) => {
                    refusal = Some(error);
                    Decision::Refuse
                }
            }
        };
        let rows = [KIND.row(key), kept_row(key, at)];
        let rows: [&[u8]; 2] = [&rows[0], &rows[1]];
        let done =
            self.engine.transact(SpaceId::CATALOG, account_partition(account), &rows, &mut decide_rows).await;
        self.forget(account, KIND, key);
        match done? {
            Transacted::Applied(_) => Ok(is_done),
            Transacted::Refused => Err(refusal.expect("a decide that refuses says why")),
        }
    }

    /// Visits the deleted containers of an account that can be restored, by name and then by age, from a name onward.
    pub async fn list_kept(
        &self,
        account: &AccountName,
        from: &str,
        visit: &mut (dyn FnMut(Kept) -> ControlFlow<()> + Send),
    ) -> Result<(), Failure> {
        let partition = account_partition(account);
        let mut first = vec![KEPT_ROW];
        first.extend_from_slice(from.as_bytes());
        let range = ScanRange {
            from: Position::at(partition, &first),
            before: Some(Position::at(partition, &[KEPT_ROW + 1])),
        };
        let now = self.clock.now();
        let mut damage = None;
        let mut visit_row = |row: ScannedRow<'_>| match decode_kept(&row) {
            Ok(kept) if now < kept.until() => visit(kept),
            Ok(_) => ControlFlow::Continue(()),
            Err(Undecodable::Newer) => {
                tracing::warn!("a list leaves out a deleted container of a newer version of the server");
                ControlFlow::Continue(())
            }
            Err(Undecodable::Damaged) => {
                damage = Some(Undecodable::Damaged);
                ControlFlow::Break(())
            }
        };
        self.engine.scan(SpaceId::CATALOG, &range, &mut visit_row).await?;
        damage.map_or(Ok(()), |damage| Err(damage.into()))
    }

    /// Drops the deleted containers whose time is over.
    pub async fn drop_expired(&self) -> Result<(), Failure> {
        let now = self.clock.now();
        let mut expired = Vec::new();
        let mut visit = |row: ScannedRow<'_>| {
            if row.row.first() == Some(&KEPT_ROW)
                && let Ok(kept) = decode_kept(&row)
                && kept.until() <= now
            {
                expired.push((row.partition.to_vec(), row.row.to_vec(), kept.resource.space));
            }
            ControlFlow::Continue(())
        };
        self.engine.scan(SpaceId::CATALOG, &ScanRange::all(), &mut visit).await?;
        for (partition, row, space) in expired {
            let mut is_gone = false;
            let mut remove = |_: DateTime, rows: &[Option<StoredRow>]| {
                // Another server may have been first, or it was restored a moment ago.
                is_gone = rows[0].is_some();
                let change = is_gone.then_some(Change::Delete { index: 0 });
                Decision::Apply(change.into_iter().collect())
            };
            self.engine.transact(SpaceId::CATALOG, &partition, &[&row], &mut remove).await?;
            if is_gone {
                self.drop_space(KIND, space).await;
            }
        }
        Ok(())
    }
}

fn put_or_delete(index: usize, resource: Option<&Resource>) -> Change {
    match resource {
        Some(resource) => Change::Put { index, body: resource.encode().into() },
        None => Change::Delete { index },
    }
}

fn kept_row(key: &str, at: DateTime) -> Vec<u8> {
    let mut row = vec![KEPT_ROW];
    row.extend_from_slice(key.as_bytes());
    row.push(0);
    row.extend_from_slice(&at.ticks().to_be_bytes());
    row
}

fn decode_kept(row: &ScannedRow<'_>) -> Result<Kept, Undecodable> {
    let resource = Resource::decode(&row.body)?;
    let at = row.row.last_chunk().and_then(|ticks| DateTime::from_ticks(u64::from_be_bytes(*ticks)));
    Ok(Kept { resource, at: at.ok_or(Undecodable::Damaged)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fixture::{bytes, hex};

    const ROW_FIXTURE: &str = "64626f780008d7142001ec8001";

    #[test]
    fn the_row_key_of_a_deleted_container_keeps_its_layout() {
        let at = DateTime::from_ticks(637_000_000_000_000_001).unwrap();
        assert_eq!(hex(&kept_row("box", at)), ROW_FIXTURE);
        let resource = Resource {
            name: "box".into(),
            space: SpaceId([7; 16]),
            created: at,
            deleted_until: Some(DateTime::MAX),
            metadata: Default::default(),
            identifiers: Vec::new(),
            container: None,
        };
        let row = ScannedRow {
            partition: b"account",
            row: &bytes(ROW_FIXTURE),
            version: at,
            body: resource.encode().into(),
        };
        let kept = decode_kept(&row).unwrap();
        assert_eq!((kept.at, kept.until(), kept.resource), (at, DateTime::MAX, resource));
    }
}
