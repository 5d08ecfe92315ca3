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
        let mut after = DateTime::MIN;
        for _ in 0..ATTEMPTS_MAX {
            // The name of a snapshot is its time, which must be known before the transaction gives one.
            let known = self.record(&location).await?.ok_or(ErrorCode::BlobNotFound)?;
            let time = self.clock.now().max(next_tick(known.changed.max(known.kept_at()))).max(after);
            let (row, own) = (earlier_row(time), earlier_row(known.kept_at()));
            let is_unwritten = self.is_newest_unwritten(&location, &known).await?;
            let taken = self
                .transact(&location, &[RECORD_ROW, &row, &own], |now, rows| {
                    let mut record = existing_in(&location, &rows[0])?;
                    check_unleased(&asked.conditions, &record, now)?;
                    let is_same = !self.versions || record.kept_at() == known.kept_at();
                    if rows[1].is_some() || record.changed >= time || !is_same {
                        return Ok((Vec::new(), None));
                    }
                    let is_unwritten = is_unwritten && record.changed == known.changed;
                    let mut kept = record.fork(generation);
                    if let (true, Body::Pages { generations: now, .. }, Body::Pages { generations: then, .. }) =
                        (is_unwritten, &mut record.body, &mut kept.body)
                    {
                        // Nothing was written since the last snapshot, so the blob goes on in the same generation.
                        now.remove(0);
                        then.remove(0);
                    }
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
        }
        Err(ErrorCode::ServerBusy.into())
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
        for _ in 0..ATTEMPTS_MAX {
            let known = self.record(&location).await?.ok_or(ErrorCode::BlobNotFound)?;
            let with_snapshots = known.snapshots > 0 && delete.snapshots != DeleteSnapshots::Refuse;
            let snapshots = if with_snapshots { self.earlier(&location).await? } else { Vec::new() };
            let snapshots: Vec<(Vec<u8>, Earlier)> = snapshots
                .into_iter()
                .filter(|(_, earlier)| earlier.role == Role::Snapshot && earlier.deleted.is_none())
                .collect();
            let own = earlier_row(known.kept_at());
            let mut names = vec![RECORD_ROW, STAGE_ROW, own.as_slice()];
            names.extend(snapshots.iter().map(|(row, _)| row.as_slice()));
            let decide = |now: DateTime, rows: &[Option<StoredRow>]| {
                let record = existing_in(&location, &rows[0])?;
                check_write(&delete.conditions, Some(&record), now, |unmet| match unmet {
                    Unmet::Exists => ErrorCode::ConditionNotMet,
                    other => other.of_write(),
                })?;
                if delete.snapshots == DeleteSnapshots::Refuse && record.snapshots > 0 {
                    return Err(ErrorCode::SnapshotsPresent.into());
                }
                let named = |record: &Record| (record.changed, record.kept_at(), record.snapshots);
                if named(&record) != named(&known) {
                    return Ok((Vec::new(), None));
                }
                let deleted = keep.deleted(now);
                let mut changes = Vec::new();
                for (at, (_, snapshot)) in snapshots.iter().enumerate() {
                    changes.push(match deleted {
                        Some(_) => {
                            let kept = Earlier { deleted, ..snapshot.clone() };
                            Change::Put { index: 3 + at, body: kept.encode().into() }
                        }
                        None => Change::Delete { index: 3 + at },
                    });
                }
                if delete.snapshots == DeleteSnapshots::Only {
                    let record = Record { snapshots: 0, ..record.clone() };
                    changes.push(put_record(0, &record));
                } else {
                    changes.push(Change::Delete { index: 0 });
                    changes.extend(rows[1].is_some().then_some(Change::Delete { index: 1 }));
                    let kept = Record { lease: None, snapshots: 0, is_shared: true, ..record.clone() };
                    let kept = if keep.versions {
                        Some(Earlier { role: Role::Version, deleted: None, record: kept })
                    } else {
                        deleted.map(|_| Earlier { role: Role::Base, deleted, record: kept })
                    };
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
            if let Some(superseded) = self.transact(&location, &names, decide).await? {
                if delete.snapshots == DeleteSnapshots::Only {
                    let superseded = Superseded { record: None, had_stage: true, is_kept: true };
                    let contents = snapshots.iter().filter_map(|(_, earlier)| match &earlier.record.body {
                        Body::Data(data) => data.content(),
                        Body::Pieces { .. } | Body::Pages { .. } => None,
                    });
                    self.tidy_later(location, contents.collect(), superseded);
                } else {
                    let contents = snapshots.iter().filter_map(|(_, earlier)| match &earlier.record.body {
                        Body::Data(data) => data.content(),
                        Body::Pieces { .. } | Body::Pages { .. } => None,
                    });
                    let contents: Vec<_> = contents.collect();
                    if contents.is_empty() {
                        self.clean_up(location, superseded, &BlobTags::default());
                    } else {
                        self.tidy_later(location, contents, superseded);
                    }
                }
                // What has a version goes on as one; snapshots have none.
                let keeps = match delete.snapshots {
                    DeleteSnapshots::Only => keep.deleted_days.is_some(),
                    DeleteSnapshots::Refuse | DeleteSnapshots::Include => keep.keeps_overwritten(),
                };
                return Ok(!keeps);
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }

    /// Whether no pages were written since the last snapshot of a page blob.
    async fn is_newest_unwritten(&self, location: &BlobLocation, record: &Record) -> Result<bool, Failure> {
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
            let contents = match &removed.body {
                Body::Data(data) => data.content().into_iter().collect(),
                Body::Pieces { .. } | Body::Pages { .. } => Vec::new(),
            };
            let superseded = Superseded { record: None, had_stage: true, is_kept: false };
            self.tidy_later(location, contents, superseded);
        }
        Ok(is_permanent)
    }

    /// Brings back what was deleted of a blob.
    pub async fn undelete(&self, account: &AccountName, blob: &BlobPath) -> Result<(), Failure> {
        let location = self.location(account, blob).await?;
        for _ in 0..ATTEMPTS_MAX {
            let known = self.record(&location).await?;
            let now = self.clock.now();
            let deleted: Vec<(Vec<u8>, Earlier)> = self
                .earlier(&location)
                .await?
                .into_iter()
                .filter(|(_, earlier)| earlier.deleted.is_some_and(|deleted| deleted.until > now))
                .collect();
            if known.is_none() && deleted.is_empty() {
                return Err(ErrorCode::BlobNotFound.into());
            }
            let mut names = vec![RECORD_ROW];
            names.extend(deleted.iter().map(|(row, _)| row.as_slice()));
            let done = self
                .transact(&location, &names, |_, rows| {
                    let record = record_in(&location, &rows[0])?;
                    let changed = |record: Option<&Record>| record.map(|record| record.changed);
                    if changed(record.as_ref()) != changed(known.as_ref()) {
                        return Ok((Vec::new(), false));
                    }
                    Ok((restore(record, &deleted), true))
                })
                .await?;
            if done {
                return Ok(());
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }

    /// The earlier states of a blob, by time.
    pub async fn earlier(&self, location: &BlobLocation) -> Result<Vec<(Vec<u8>, Earlier)>, Failure> {
        let mut found = Vec::new();
        self.visit_earlier(location, |time, earlier| {
            found.push((earlier_row(time), earlier));
            ControlFlow::Continue(())
        })
        .await?;
        Ok(found)
    }
}

/// What brings deleted states back: the last state of a blob that is not there becomes it again.
fn restore(record: Option<Record>, deleted: &[(Vec<u8>, Earlier)]) -> Vec<Change> {
    let mut changes = Vec::new();
    let base = match record {
        Some(_) => None,
        None => deleted.iter().rposition(|(_, earlier)| earlier.role == Role::Base),
    };
    let mut restored = 0;
    for (at, (_, earlier)) in deleted.iter().enumerate() {
        if base == Some(at) {
            changes.push(Change::Delete { index: 1 + at });
        } else if matches!(earlier.role, Role::Snapshot | Role::Version) {
            restored += u32::from(earlier.role == Role::Snapshot);
            let kept = Earlier { deleted: None, ..earlier.clone() };
            changes.push(Change::Put { index: 1 + at, body: kept.encode().into() });
        }
    }
    let record = record.or_else(|| base.map(|at| deleted[at].1.record.clone()));
    if let Some(mut record) = record {
        record.snapshots += restored;
        changes.push(put_record(0, &record));
    }
    changes
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
