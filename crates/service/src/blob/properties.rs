//! Changing what is known of a blob: headers, metadata, tags, tier, lease.

use std::sync::Arc;

use tavola_engine::{Change, StoredRow};
use tavola_model::{
    AccessTier, AccountName, BlobConditions, BlobKind, BlobMoment, BlobTags, BlobTarget, BlobType, Changed,
    CopyStatus, DateTime, ErrorCode, LeaseBlob, LeaseDone, LeaseId, SequenceAction, SetBlobHeaders,
    SetBlobMetadata, SetBlobTags, SetBlobTier,
};

use super::Blobs;
use super::change::{BlobLocation, existing_in, put_record};
use super::conditions::{Unmet, check_write};
use super::keep::next_tick;
use super::put::ATTEMPTS_MAX;
use super::record::{Body, Record, StoredTier};
use super::rows::{Earlier, RECORD_ROW, Role, damaged, earlier_row};
use super::sums::Sums;
use crate::catalog::to_its_end;
use crate::failure::Failure;
use crate::lease::{Lease, Leased};

impl Blobs {
    pub async fn set_headers(
        self: &Arc<Self>,
        account: &AccountName,
        set: SetBlobHeaders,
    ) -> Result<(Changed, Option<u64>), Failure> {
        let location = self.location(account, &set.blob).await?;
        match set.length {
            None => {
                self.change_record(&location, &set.conditions, |now, record| apply(&set, now, record)).await
            }
            Some(length) => {
                let blobs = self.clone();
                to_its_end(async move { blobs.resize(&location, &set, length).await }).await
            }
        }
    }

    /// Sets headers and the length of a page blob. What lies behind the length is not seen, so a blob becomes shorter by
    /// its record alone. Before it grows, what lies behind its end is cleared.
    async fn resize(
        self: &Arc<Self>,
        location: &BlobLocation,
        set: &SetBlobHeaders,
        length: u64,
    ) -> Result<(Changed, Option<u64>), Failure> {
        for _ in 0..ATTEMPTS_MAX {
            let known = self.check_before(location, &set.conditions, Unmet::of_write).await?;
            let known = known.ok_or(ErrorCode::BlobNotFound)?;
            if known.kind.blob_type() != BlobType::Page {
                return Err(ErrorCode::InvalidBlobType.into());
            }
            let cleared =
                if length > known.body.length() { self.clear_behind(location).await? } else { None };
            // Writes in between are within the length, and change nothing behind it.
            let cleared = cleared.map(|cleared| cleared.body);
            let change = |now, record: &mut Record| {
                record.refuse_while_copying()?;
                let is_cleared = cleared.as_ref().is_some_and(|body| record.body == *body);
                if length > record.body.length() && !is_cleared {
                    return Err(Failure::changed_meanwhile());
                }
                Ok((apply(set, now, record)?, length < known.body.length()))
            };
            match self.change_record(location, &set.conditions, change).await {
                // Its length or its generations have changed since it was cleared behind its end.
                Err(failure) if failure.is_conflict() => {}
                Err(failure) => return Err(failure),
                Ok((done, is_shorter)) => {
                    if is_shorter {
                        self.clear_behind_later(location);
                    }
                    return Ok(done);
                }
            }
        }
        Err(Failure::changed_meanwhile())
    }

    pub async fn set_metadata(
        &self,
        account: &AccountName,
        set: SetBlobMetadata,
    ) -> Result<(Changed, Option<DateTime>), Failure> {
        let location = self.location(account, &set.blob).await?;
        self.change_version(&location, &set.conditions, |now, record| {
            record.metadata = set.metadata.clone();
            record.changed = now;
            Ok((Changed(now), record.version))
        })
        .await
    }

    /// Sets the tags. They are no part of what the ETag stands for.
    pub async fn set_tags(self: &Arc<Self>, account: &AccountName, set: SetBlobTags) -> Result<(), Failure> {
        Sums::of(&set.text, set.sums.md5.is_some()).check(&set.sums)?;
        let location = self.location(account, &set.target.path).await?;
        let blobs = self.clone();
        to_its_end(async move {
            let is_current = blobs.is_current(&location, &set.target).await?;
            let done = blobs.replace_tags(&location, &set, is_current).await;
            if is_current {
                blobs.unindex_refused(&location, &set.tags, &done).await;
            }
            let old = done?;
            if is_current {
                blobs.index_tags_again(&location, &set.tags).await;
                if let Err(error) = blobs.unindex_tags(&location, &old, &set.tags).await {
                    tracing::debug!(%error, "cannot remove index entries of old tags; Find Blobs by Tags skips them");
                }
            }
            Ok(())
        })
        .await
    }

    /// Sets the tags of a state; gives those that it had. Only the current state is in the index, and it is there before
    /// it has the tags, but not if it cannot have them.
    async fn replace_tags(
        &self,
        location: &BlobLocation,
        set: &SetBlobTags,
        is_current: bool,
    ) -> Result<BlobTags, Failure> {
        if is_current {
            let record = self.record(location).await?.ok_or(ErrorCode::BlobNotFound)?;
            check_write(&set.conditions, Some(&record), self.clock.now(), of_change)?;
            self.index_tags(location, &set.tags).await?;
        }
        self.change_state(location, &set.target, &set.conditions, |_, record| {
            Ok(std::mem::replace(&mut record.tags, set.tags.clone()))
        })
        .await
    }

    /// Whether a state is the blob as it is now.
    async fn is_current(&self, location: &BlobLocation, target: &BlobTarget) -> Result<bool, Failure> {
        match target.moment {
            BlobMoment::Current => Ok(true),
            BlobMoment::Snapshot(_) => Ok(false),
            BlobMoment::Version(time) => {
                let current = self.record(location).await?.and_then(|record| record.version);
                Ok(current == Some(time))
            }
        }
    }

    /// Sets the tier; whether that is done already.
    pub async fn set_tier(&self, account: &AccountName, set: SetBlobTier) -> Result<bool, Failure> {
        let location = self.location(account, &set.target.path).await?;
        let conditions = BlobConditions { lease: None, ..set.conditions.clone() };
        self.change_state(&location, &set.target, &conditions, |now, record| {
            // A tier can be set whoever holds the lease, but a wrong id is still refused.
            Lease::admit_read(record.lease.as_ref(), set.conditions.lease, Leased::Blob, now)
                .map_err(|code| Leased::Blob.refusal(code))?;
            check_tier(record.kind.blob_type(), set.tier)?;
            let from = record.tier(now).map(|tier| tier.tier);
            let is_leaving_archive = from == Some(AccessTier::Archive) && set.tier != AccessTier::Archive;
            record.tier = Some(if is_leaving_archive {
                let rehydrate_to = Some((set.tier, set.rehydrate));
                StoredTier { tier: AccessTier::Archive, changed: Some(now), rehydrate_to }
            } else {
                StoredTier { tier: set.tier, changed: Some(now), rehydrate_to: None }
            });
            Ok(!is_leaving_archive)
        })
        .await
    }

    pub async fn lease_blob(
        &self,
        account: &AccountName,
        lease: LeaseBlob,
    ) -> Result<(Changed, LeaseDone), Failure> {
        let location = self.location(account, &lease.blob).await?;
        let fresh = self.fresh_lease();
        self.transact(&location, &[RECORD_ROW], |now, rows| {
            let mut record = existing_in(&location, &rows[0])?;
            let conditions = BlobConditions { lease: None, ..lease.conditions.clone() };
            let free = Record { lease: None, ..record.clone() };
            check_write(&conditions, Some(&free), now, of_change)?;
            let (after, done) = Lease::apply(record.lease.as_ref(), lease.action, fresh, now)
                .map_err(|code| Leased::Blob.refusal(code))?;
            record.lease = after;
            Ok((vec![put_record(0, &record)], (Changed(record.changed), done)))
        })
        .await
    }

    /// An id for a lease whose client proposes none.
    pub fn fresh_lease(&self) -> LeaseId {
        LeaseId(self.fresh_guid())
    }

    pub fn fresh_guid(&self) -> tavola_model::Guid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.random.bytes());
        bytes[8..].copy_from_slice(&self.random.bytes());
        // A random guid, as RFC 9562 marks them.
        bytes[6] = bytes[6] & 0x0F | 0x40;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        tavola_model::Guid(bytes)
    }

    /// Changes the record of a blob that is there, if the conditions of a write are met.
    pub async fn change_record<T: Send>(
        &self,
        location: &BlobLocation,
        conditions: &BlobConditions,
        mut change: impl FnMut(DateTime, &mut Record) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        self.transact(location, &[RECORD_ROW], |now, rows| {
            let mut record = existing_in(location, &rows[0])?;
            record.lease = check_write(conditions, Some(&record), now, of_change)?;
            let value = change(now, &mut record)?;
            Ok((vec![put_record(0, &record)], value))
        })
        .await
    }

    /// The same for a change that makes a new version, where versions are kept.
    async fn change_version<T: Send>(
        &self,
        location: &BlobLocation,
        conditions: &BlobConditions,
        mut change: impl FnMut(DateTime, &mut Record) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        if !self.versions {
            return self.change_record(location, conditions, change).await;
        }
        let generation = self.fresh_generation();
        let mut kept_after = DateTime::MIN;
        for _ in 0..ATTEMPTS_MAX {
            // The old version has a row of its own, which must be named in advance.
            let record = self.record(location).await?.ok_or(ErrorCode::BlobNotFound)?;
            let (known, known_changed) = (record.kept_at(), record.changed);
            let is_unwritten = self.is_newest_unwritten(location, &record).await?;
            let kept_at = known.max(kept_after);
            let mut is_taken = false;
            let done = self
                .transact(location, &[RECORD_ROW, &earlier_row(kept_at)], |now, rows| {
                    let mut record = existing_in(location, &rows[0])?;
                    record.lease = check_write(conditions, Some(&record), now, of_change)?;
                    record.refuse_while_copying()?;
                    is_taken = rows[1].is_some();
                    if record.kept_at() != known || is_taken {
                        return Ok((Vec::new(), None));
                    }
                    let is_unwritten = is_unwritten && record.changed == known_changed;
                    let kept = record.fork(generation, is_unwritten);
                    record.version = Some(record.next_version(now));
                    let value = change(now, &mut record)?;
                    let earlier = Earlier { role: Role::Version, deleted: None, record: kept };
                    let body = earlier.encode().into();
                    Ok((vec![put_record(0, &record), Change::Put { index: 1, body }], Some(value)))
                })
                .await?;
            if let Some(value) = done {
                return Ok(value);
            }
            if is_taken {
                kept_after = next_tick(kept_at);
            }
        }
        Err(Failure::changed_meanwhile())
    }

    /// The same for a state of a blob that may be a snapshot or a version, which have no lease.
    async fn change_state<T: Send>(
        &self,
        location: &BlobLocation,
        target: &BlobTarget,
        conditions: &BlobConditions,
        mut change: impl FnMut(DateTime, &mut Record) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let (time, role) = match target.moment {
            BlobMoment::Current => return self.change_record(location, conditions, change).await,
            BlobMoment::Version(_) if self.is_current(location, target).await? => {
                return self.change_record(location, conditions, change).await;
            }
            BlobMoment::Snapshot(time) => (time, Role::Snapshot),
            BlobMoment::Version(time) => (time, Role::Version),
        };
        self.transact(location, &[&earlier_row(time)], |now, rows: &[Option<StoredRow>]| {
            let row = rows[0].as_ref().ok_or(ErrorCode::BlobNotFound)?;
            let mut earlier = Earlier::decode(&row.body).ok_or_else(|| damaged(location.space))?;
            if earlier.role != role || earlier.deleted.is_some() {
                return Err(ErrorCode::BlobNotFound.into());
            }
            check_write(conditions, Some(&earlier.record), now, Unmet::of_write)?;
            let value = change(now, &mut earlier.record)?;
            Ok((vec![Change::Put { index: 0, body: earlier.encode().into() }], value))
        })
        .await
    }
}

/// The answer to a change of a blob that must be there.
fn of_change(unmet: Unmet) -> ErrorCode {
    match unmet {
        Unmet::Exists => ErrorCode::ConditionNotMet,
        other => other.of_write(),
    }
}

fn apply(
    set: &SetBlobHeaders,
    now: DateTime,
    record: &mut Record,
) -> Result<(Changed, Option<u64>), Failure> {
    if let Some(headers) = &set.headers {
        record.headers = headers.clone();
    }
    resize(record, set)?;
    // Properties tell of a copy as long as nobody has written to its target since.
    record.copy = record.copy.take().filter(|copy| copy.status == CopyStatus::Pending);
    record.changed = now;
    let sequence = match record.kind {
        BlobKind::Page { sequence } => Some(sequence),
        BlobKind::Block | BlobKind::Append { .. } => None,
    };
    Ok((Changed(now), sequence))
}

/// What only page blobs have.
fn resize(record: &mut Record, set: &SetBlobHeaders) -> Result<(), ErrorCode> {
    if set.length.is_none() && set.sequence.is_none() {
        return Ok(());
    }
    let BlobKind::Page { sequence } = &mut record.kind else { return Err(ErrorCode::InvalidBlobType) };
    match set.sequence {
        None => {}
        Some(SequenceAction::Max(number)) => *sequence = (*sequence).max(number),
        Some(SequenceAction::Update(number)) => *sequence = number,
        Some(SequenceAction::Increment) => {
            *sequence = sequence
                .checked_add(1)
                .filter(|number| i64::try_from(*number).is_ok())
                .ok_or(ErrorCode::SequenceNumberIncrementTooLarge)?;
        }
    }
    if let (Some(new_length), Body::Pages { length, .. }) = (set.length, &mut record.body) {
        *length = new_length;
    }
    Ok(())
}

/// Whether blobs of a type can have a tier.
pub(crate) fn check_tier(kind: BlobType, tier: AccessTier) -> Result<(), ErrorCode> {
    match kind {
        BlobType::Block if !tier.is_premium() => Ok(()),
        BlobType::Page if tier.is_premium() => Ok(()),
        BlobType::Block | BlobType::Page => Err(ErrorCode::InvalidBlobTier),
        BlobType::Append => Err(ErrorCode::AccessTierNotSupportedForBlobType),
    }
}
