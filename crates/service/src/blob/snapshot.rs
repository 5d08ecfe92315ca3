//! Snapshots: taken, deleted, had back; and deleting and undeleting the blob itself.

use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::{Change, StoredRow};
use tavola_model::{
    AccountName, BlobConditions, BlobMoment, BlobPath, BlobTags, Changed, DateTime, DeleteBlob,
    DeleteSnapshots, ErrorCode, ServiceError, SnapshotBlob,
};

use super::Blobs;
use super::change::{BlobLocation, existing_in, put_record, record_in};
use super::conditions::{Unmet, check_write};
use super::keep::next_tick;
use super::pages::scan_cells;
use super::put::{ATTEMPTS_MAX, Superseded};
use super::record::{Body, Record};
use super::rows::{Earlier, RECORD_ROW, Role, STAGE_ROW, damaged, earlier_row};
use crate::catalog::to_its_end;
use crate::failure::Failure;
use crate::lease::{Lease, Leased};

/// The version that a snapshot makes of its blob has its time and a millisecond (recorded).
const VERSION_AFTER_TICKS: u64 = 10_000;
/// Snapshots that one transaction deletes or brings back. A blob that has more loses or gets them back in steps: after a
/// crash some of them are as before, and the request can be sent again.
const STATES_A_STEP_MAX: usize = 250;

/// A snapshot that was taken.
pub(crate) struct Taken {
    pub changed: Changed,
    pub snapshot: DateTime,
    pub version: Option<DateTime>,
}

impl Blobs {
    pub async fn take_snapshot(&self, account: &AccountName, asked: SnapshotBlob) -> Result<Taken, Failure> {
        let location = self.location(account, &asked.blob).await?;
        let generation = self.fresh_generation();
        let (mut after, mut kept_after) = (DateTime::MIN, DateTime::MIN);
        for _ in 0..ATTEMPTS_MAX {
            // The name of a snapshot is its time, which must be known before the transaction gives one.
            let known = self.record(&location).await?.ok_or(ErrorCode::BlobNotFound)?;
            let kept_at = known.kept_at().max(kept_after);
            let time = self.clock.now().max(next_tick(known.changed.max(kept_at))).max(after);
            let (row, own) = (earlier_row(time), earlier_row(kept_at));
            let mut is_taken = false;
            let is_unwritten = self.is_newest_unwritten(&location, &known).await?;
            let taken = self
                .transact(&location, &[RECORD_ROW, &row, &own], |now, rows| {
                    let mut record = existing_in(&location, &rows[0])?;
                    check_unleased(&asked.conditions, &record, now)?;
                    record.refuse_while_copying()?;
                    let is_same = !self.versions || record.kept_at() == known.kept_at();
                    is_taken = self.versions && rows[2].is_some();
                    if rows[1].is_some() || record.changed >= time || !is_same || is_taken {
                        return Ok((Vec::new(), None));
                    }
                    let is_unwritten = is_unwritten && record.changed == known.changed;
                    let kept = record.fork(generation, is_unwritten);
                    let mut snapshot = Record { version: None, ..kept.clone() };
                    if !asked.metadata.is_empty() {
                        snapshot.metadata = asked.metadata.clone();
                        snapshot.changed = time;
                    }
                    let changed = Changed(snapshot.changed);
                    record.snapshots += 1;
                    let mut changes = Vec::new();
                    if self.versions {
                        let earlier = Earlier { role: Role::Version, deleted: None, record: kept };
                        changes.push(Change::Put { index: 2, body: earlier.encode().into() });
                        record.version = DateTime::from_ticks(time.ticks() + VERSION_AFTER_TICKS);
                    }
                    let earlier = Earlier { role: Role::Snapshot, deleted: None, record: snapshot };
                    changes.push(put_record(0, &record));
                    changes.push(Change::Put { index: 1, body: earlier.encode().into() });
                    Ok((changes, Some(Taken { changed, snapshot: time, version: record.version })))
                })
                .await?;
            if let Some(taken) = taken {
                return Ok(taken);
            }
            after = next_tick(time);
            if is_taken {
                kept_after = next_tick(kept_at);
            }
        }
        Err(Failure::changed_meanwhile())
    }

    /// Deletes a blob, its snapshots, or one of its states; whether it is gone for good.
    pub async fn delete_blob(
        self: &Arc<Self>,
        account: &AccountName,
        delete: DeleteBlob,
    ) -> Result<bool, Failure> {
        let location = self.location(account, &delete.target.path).await?;
        let blobs = self.clone();
        to_its_end(async move {
            match delete.target.moment {
                BlobMoment::Current => blobs.delete_current(location, &delete).await,
                BlobMoment::Snapshot(time) => {
                    blobs.delete_earlier(location, &delete, time, Role::Snapshot).await
                }
                BlobMoment::Version(time) => {
                    let current = blobs.record(&location).await?.and_then(|record| record.version);
                    if current == Some(time) {
                        return Err(ErrorCode::OperationNotAllowedOnRootBlob.into());
                    }
                    blobs.delete_earlier(location, &delete, time, Role::Version).await
                }
            }
        })
        .await
    }

    async fn delete_current(
        self: &Arc<Self>,
        location: BlobLocation,
        delete: &DeleteBlob,
    ) -> Result<bool, Failure> {
        let keep = self.keep_policy(&location).await?;
        let (mut attempts, mut from, mut contents) = (0, DateTime::MIN, Vec::new());
        let mut kept_after = DateTime::MIN;
        while attempts < ATTEMPTS_MAX {
            let (known, version) = self.record_row(&location).await?.ok_or(ErrorCode::BlobNotFound)?;
            // Where versions are kept, snapshots can come back before their blob does, and nobody has counted them.
            let has_snapshots = known.snapshots > 0 && delete.snapshots != DeleteSnapshots::Refuse;
            let (snapshots, has_more) = if has_snapshots || keep.versions {
                self.snapshots_from(&location, from).await?
            } else {
                (Vec::new(), false)
            };
            if from > DateTime::MIN && !has_more && snapshots.len() < known.snapshots as usize {
                // Some came back behind our back.
                (attempts, from) = (attempts + 1, DateTime::MIN);
                continue;
            }
            let rows: Vec<Vec<u8>> = snapshots.iter().map(|(time, _)| earlier_row(*time)).collect();
            let kept_at = known.kept_at().max(kept_after);
            let own = earlier_row(kept_at);
            let mut names = vec![RECORD_ROW, STAGE_ROW, own.as_slice()];
            names.extend(rows.iter().map(Vec::as_slice));
            let mut is_taken = false;
            let decide = |now: DateTime, rows: &[Option<StoredRow>]| {
                is_taken = false;
                let record = existing_in(&location, &rows[0])?;
                check_write(&delete.conditions, Some(&record), now, |unmet| match unmet {
                    Unmet::Exists => ErrorCode::ConditionNotMet,
                    other => other.of_write(),
                })?;
                let is_known = rows[0].as_ref().is_some_and(|row| row.version == version);
                let has_any = record.snapshots > 0 || is_known && !snapshots.is_empty();
                if delete.snapshots == DeleteSnapshots::Refuse && has_any {
                    return Err(ErrorCode::SnapshotsPresent.into());
                }
                if !is_known {
                    return Ok((Vec::new(), None));
                }
                let deleted = keep.deleted(now);
                let mut changes = Vec::new();
                for (index, row) in rows.iter().enumerate().skip(3) {
                    // Its tags or its tier may have changed since it was read.
                    let Some(row) = row else { return Ok((Vec::new(), None)) };
                    let snapshot = Earlier::decode(&row.body).ok_or_else(|| damaged(location.space))?;
                    changes.push(match deleted {
                        Some(_) => {
                            let kept = Earlier { deleted, ..snapshot };
                            Change::Put { index, body: kept.encode().into() }
                        }
                        None => Change::Delete { index },
                    });
                }
                if has_more {
                    let gone = u32::try_from(snapshots.len()).unwrap_or(u32::MAX);
                    let left = record.snapshots.saturating_sub(gone).max(1);
                    changes.push(put_record(0, &Record { snapshots: left, ..record.clone() }));
                } else if delete.snapshots == DeleteSnapshots::Only {
                    let record = Record { snapshots: 0, ..record.clone() };
                    changes.push(put_record(0, &record));
                } else {
                    changes.push(Change::Delete { index: 0 });
                    changes.extend(rows[1].is_some().then_some(Change::Delete { index: 1 }));
                    let mut kept = Record { lease: None, snapshots: 0, is_shared: true, ..record.clone() };
                    kept.give_up_copy(now);
                    let kept = if keep.versions {
                        Some(Earlier { role: Role::Version, deleted: None, record: kept })
                    } else {
                        deleted.map(|_| Earlier { role: Role::Base, deleted, record: kept })
                    };
                    is_taken = kept.is_some() && rows[2].is_some();
                    if is_taken {
                        return Ok((Vec::new(), None));
                    }
                    if let Some(kept) = kept {
                        changes.push(Change::Put { index: 2, body: kept.encode().into() });
                    }
                }
                let superseded = Superseded {
                    had_stage: rows[1].is_some() || !snapshots.is_empty(),
                    is_kept: keep.keeps_overwritten(),
                    record: Some(record),
                };
                Ok((changes, Some(superseded)))
            };
            let Some(superseded) = self.transact(&location, &names, decide).await? else {
                attempts += 1;
                if is_taken {
                    kept_after = next_tick(kept_at);
                }
                continue;
            };
            contents.extend(snapshots.iter().filter_map(|(_, earlier)| earlier.record.body.content()));
            if let (true, Some((last, _))) = (has_more, snapshots.last()) {
                from = next_tick(*last);
                continue;
            }
            if delete.snapshots == DeleteSnapshots::Only {
                let superseded = Superseded { record: None, had_stage: true, is_kept: true };
                self.tidy_later(location, contents, superseded);
            } else if contents.is_empty() {
                self.clean_up(location, superseded, &BlobTags::default());
            } else {
                self.tidy_later(location, contents, superseded);
            }
            // What has a version goes on as one; snapshots have none.
            let keeps = match delete.snapshots {
                DeleteSnapshots::Only => keep.deleted_days.is_some(),
                DeleteSnapshots::Refuse | DeleteSnapshots::Include => keep.keeps_overwritten(),
            };
            return Ok(!keeps);
        }
        Err(Failure::changed_meanwhile())
    }

    /// The first snapshots of a blob from a time on, and whether there are more.
    async fn snapshots_from(
        &self,
        location: &BlobLocation,
        from: DateTime,
    ) -> Result<(Vec<(DateTime, Earlier)>, bool), Failure> {
        let (mut found, mut has_more) = (Vec::new(), false);
        self.visit_earlier_from(location, from, |time, earlier| {
            if earlier.role != Role::Snapshot || earlier.deleted.is_some() {
                return ControlFlow::Continue(());
            }
            if found.len() >= STATES_A_STEP_MAX {
                has_more = true;
                return ControlFlow::Break(());
            }
            found.push((time, earlier));
            ControlFlow::Continue(())
        })
        .await?;
        Ok((found, has_more))
    }

    /// Whether no pages were written since the last snapshot of a page blob.
    pub(super) async fn is_newest_unwritten(
        &self,
        location: &BlobLocation,
        record: &Record,
    ) -> Result<bool, Failure> {
        let (Body::Pages { .. }, [newest, _, ..]) = (&record.body, record.body.generations()) else {
            return Ok(false);
        };
        let mut is_unwritten = true;
        scan_cells(self.engine.as_ref(), location, *newest, 0..u64::MAX, |_, _| {
            is_unwritten = false;
            ControlFlow::Break(Ok(()))
        })
        .await?;
        Ok(is_unwritten)
    }

    async fn delete_earlier(
        self: &Arc<Self>,
        location: BlobLocation,
        delete: &DeleteBlob,
        time: DateTime,
        role: Role,
    ) -> Result<bool, Failure> {
        let keep = self.keep_policy(&location).await?;
        let allows_permanent = {
            let found = self.properties.get(&location.account, tavola_model::StorageService::Blob).await?;
            found.properties.blob.delete_retention.allows_permanent
        };
        if delete.is_permanent && !allows_permanent {
            return Err(ErrorCode::PermanentDeleteIsOff.into());
        }
        let row = earlier_row(time);
        let (removed, is_permanent) = self
            .transact(&location, &[RECORD_ROW, &row], |now, rows| {
                let found = rows[1].as_ref().ok_or(ErrorCode::BlobNotFound)?;
                let earlier = Earlier::decode(&found.body).ok_or_else(|| damaged(location.space))?;
                if earlier.role != role || earlier.deleted.is_some() != delete.is_permanent {
                    return Err(ErrorCode::BlobNotFound.into());
                }
                check_write(&delete.conditions, Some(&earlier.record), now, Unmet::of_write)?;
                let deleted = keep.deleted(now).filter(|_| !delete.is_permanent);
                let mut changes = vec![match deleted {
                    Some(_) => {
                        let kept = Earlier { deleted, ..earlier.clone() };
                        Change::Put { index: 1, body: kept.encode().into() }
                    }
                    None => Change::Delete { index: 1 },
                }];
                if role == Role::Snapshot
                    && earlier.deleted.is_none()
                    && let Some(mut record) = record_in(&location, &rows[0])?
                {
                    record.snapshots = record.snapshots.saturating_sub(1);
                    changes.push(put_record(0, &record));
                }
                Ok((changes, (earlier.record, deleted.is_none())))
            })
            .await?;
        if is_permanent {
            let contents = removed.body.content().into_iter().collect();
            let superseded = Superseded { record: None, had_stage: true, is_kept: false };
            self.tidy_later(location, contents, superseded);
        }
        Ok(is_permanent)
    }

    /// Brings back what was deleted of a blob.
    pub async fn undelete(self: &Arc<Self>, account: &AccountName, blob: &BlobPath) -> Result<(), Failure> {
        let location = self.location(account, blob).await?;
        let blobs = self.clone();
        to_its_end(async move { blobs.restore_states(location).await }).await
    }

    async fn restore_states(&self, location: BlobLocation) -> Result<(), Failure> {
        let (mut attempts, mut from) = (0, DateTime::MIN);
        while attempts < ATTEMPTS_MAX {
            let known = self.record(&location).await?;
            let found = self.deleted_from(&location, known.is_none(), from).await?;
            if known.is_none() && !found.is_any {
                return Err(ErrorCode::BlobNotFound.into());
            }
            let base = found.base.map(earlier_row);
            let rows: Vec<Vec<u8>> = found.states.iter().map(|time| earlier_row(*time)).collect();
            let mut names = vec![RECORD_ROW];
            names.extend(rows.iter().map(Vec::as_slice));
            names.extend(base.as_deref());
            let done = self
                .transact(&location, &names, |_, rows| {
                    let record = record_in(&location, &rows[0])?;
                    let changed = |record: Option<&Record>| record.map(|record| record.changed);
                    if changed(record.as_ref()) != changed(known.as_ref()) {
                        return Ok((Vec::new(), false));
                    }
                    let (mut changes, count) = restored(&location, &rows[1..=found.states.len()])?;
                    let mut record = record;
                    if base.is_some() {
                        let at = 1 + found.states.len();
                        // It may have come back and gone again since it was read.
                        let Some(row) = &rows[at] else { return Ok((Vec::new(), false)) };
                        let base = Earlier::decode(&row.body).ok_or_else(|| damaged(location.space))?;
                        changes.push(Change::Delete { index: at });
                        record = record.or(Some(base.record));
                    }
                    if let Some(mut record) = record {
                        record.snapshots = record.snapshots.saturating_add(count);
                        changes.push(put_record(0, &record));
                    }
                    Ok((changes, true))
                })
                .await?;
            match (done, found.states.last()) {
                (true, Some(last)) if found.has_more => from = next_tick(*last),
                (true, _) => return Ok(()),
                (false, _) => attempts += 1,
            }
        }
        Err(Failure::changed_meanwhile())
    }

    /// What was deleted of a blob and can be had back: the last state of the blob itself if it is wanted, and the first
    /// snapshots and versions from a time on.
    async fn deleted_from(
        &self,
        location: &BlobLocation,
        wants_base: bool,
        from: DateTime,
    ) -> Result<DeletedStates, Failure> {
        let now = self.clock.now();
        let mut found = DeletedStates::default();
        let start = if wants_base { DateTime::MIN } else { from };
        self.visit_earlier_from(location, start, |time, earlier| {
            if earlier.deleted.is_none_or(|deleted| deleted.until <= now) {
                return ControlFlow::Continue(());
            }
            found.is_any = true;
            match earlier.role {
                Role::Base if wants_base => found.base = Some(time),
                Role::Snapshot | Role::Version if time < from => {}
                Role::Snapshot | Role::Version if found.states.len() < STATES_A_STEP_MAX => {
                    found.states.push(time);
                }
                Role::Snapshot | Role::Version => {
                    found.has_more = true;
                    if !wants_base {
                        return ControlFlow::Break(());
                    }
                }
                Role::Base => {}
            }
            ControlFlow::Continue(())
        })
        .await?;
        Ok(found)
    }
}

/// Deleted states that can be had back.
#[derive(Default)]
struct DeletedStates {
    /// There are some, of any kind.
    is_any: bool,
    base: Option<DateTime>,
    /// Snapshots and versions.
    states: Vec<DateTime>,
    has_more: bool,
}

/// What brings deleted states back, and how many of them are snapshots; one that is gone by now stays gone. The first of
/// them is the second row.
fn restored(location: &BlobLocation, rows: &[Option<StoredRow>]) -> Result<(Vec<Change>, u32), Failure> {
    let mut changes = Vec::new();
    let mut snapshots = 0;
    for (at, row) in rows.iter().enumerate() {
        let Some(row) = row else { continue };
        let earlier = Earlier::decode(&row.body).ok_or_else(|| damaged(location.space))?;
        if earlier.deleted.is_some() {
            snapshots += u32::from(earlier.role == Role::Snapshot);
            let kept = Earlier { deleted: None, ..earlier };
            changes.push(Change::Put { index: 1 + at, body: kept.encode().into() });
        }
    }
    Ok((changes, snapshots))
}

/// Checks the conditions of a request that needs no lease, but must not name a wrong one.
fn check_unleased(conditions: &BlobConditions, record: &Record, now: DateTime) -> Result<(), ServiceError> {
    Lease::admit_read(record.lease.as_ref(), conditions.lease, Leased::Blob, now)?;
    let free = Record { lease: None, ..record.clone() };
    let conditions = BlobConditions { lease: None, ..conditions.clone() };
    check_write(&conditions, Some(&free), now, |unmet| match unmet {
        Unmet::Exists => ErrorCode::ConditionNotMet,
        other => other.of_write(),
    })?;
    Ok(())
}
