//! Put Blob.

use std::sync::Arc;

use tavola_engine::{ByteSource, BytesSource, Change, ContentSize, StoredRow};
use tavola_model::{
    AccountName, BlobConditions, BlobKind, BlobWritten, Changed, CopyShown, DateTime, ErrorCode, NewBlob,
    NewKind, PUT_BLOB_BYTES_MAX, PutBlob,
};

use super::Blobs;
use super::change::{BlobLocation, put_record, record_in};
use super::conditions::{Unmet, check_write};
use super::keep::next_tick;
use super::pieces::Data;
use super::prepare::Further;
use super::receive::Unnamed;
use super::record::{Body, Record, StoredTier};
use super::rows::{RECORD_ROW, STAGE_ROW, earlier_row};
use super::sums::md5_mismatch;
use crate::catalog::to_its_end;
use crate::execute::Overwrites;
use crate::failure::Failure;
use crate::lease::Lease;

/// How often a change starts over because somebody else was faster.
pub(crate) const ATTEMPTS_MAX: usize = 16;

/// A blob that is to replace whatever is there.
#[derive(Clone)]
pub(crate) struct Replacement {
    pub kind: BlobKind,
    pub body: Body,
    pub new: NewBlob,
    pub copy: Option<CopyShown>,
    pub conditions: BlobConditions,
    /// How a condition that is not met is answered.
    pub answer: fn(Unmet) -> ErrorCode,
    pub overwrites: Overwrites,
}

/// What a replacement has done.
pub(crate) struct Replaced {
    pub changed: DateTime,
    pub version: Option<DateTime>,
}

impl Blobs {
    pub async fn put_blob(
        self: &Arc<Self>,
        account: &AccountName,
        put: PutBlob,
        upload: Option<&mut dyn ByteSource>,
        overwrites: Overwrites,
    ) -> Result<BlobWritten, Failure> {
        let location = self.location(account, &put.blob).await?;
        let before = self.check_before(&location, &put.conditions, Unmet::of_write).await?;
        let PutBlob { kind, length, sums, mut new, conditions, .. } = put;
        let (kind, body, unnamed, sums) = match kind {
            NewKind::Block => {
                let size = length.map_or(ContentSize::UpTo(PUT_BLOB_BYTES_MAX), ContentSize::Exactly);
                let mut empty = BytesSource::default();
                let upload = upload.unwrap_or(&mut empty);
                let (unnamed, counted) = self.receive(&location, upload, size, &sums, true).await?;
                match (new.headers.content_md5, counted.md5) {
                    (Some(announced), Some(counted)) if announced != counted => {
                        return Err(md5_mismatch(announced, counted).into());
                    }
                    (_, counted) => new.headers.content_md5 = counted,
                }
                (BlobKind::Block, Body::Data(unnamed.data()), vec![unnamed], Some(counted))
            }
            NewKind::Append => {
                let body = Body::Pieces { generation: self.fresh_generation(), rows: 0, count: 0, length: 0 };
                (BlobKind::Append { block_count: 0, is_sealed: false }, body, Vec::new(), None)
            }
            NewKind::Page { length, sequence } => {
                let body = Body::Pages { generations: vec![self.fresh_generation()], length };
                (BlobKind::Page { sequence }, body, Vec::new(), None)
            }
        };
        let replacement =
            Replacement { kind, body, new, copy: None, conditions, answer: Unmet::of_write, overwrites };
        // A client that goes away leaves nothing undone of a new blob that is one row, but for blocks that somebody has
        // left uncommitted under its name: those are found by the scrubber.
        let is_one_row = before.is_none() && replacement.new.tags.is_empty() && replacement.is_inline();
        let replaced = if is_one_row {
            Box::pin(self.replace_now(location, replacement, Further::default(), unnamed)).await?
        } else {
            self.replace(location, replacement, Further::default(), unnamed).await?
        };
        Ok(BlobWritten {
            changed: Changed(replaced.changed),
            md5: sums.and_then(|sums| sums.md5),
            crc64: sums.map(|sums| sums.crc64),
            version: replaced.version,
        })
    }

    /// Refuses a write before its bytes are taken, if it would be refused afterwards too.
    pub async fn check_before(
        &self,
        location: &BlobLocation,
        conditions: &BlobConditions,
        answer: fn(Unmet) -> ErrorCode,
    ) -> Result<Option<Record>, Failure> {
        let record = self.record(location).await?;
        check_write(conditions, record.as_ref(), self.clock.now(), answer)?;
        record.as_ref().map_or(Ok(()), Record::refuse_while_copying)?;
        Ok(record)
    }

    /// Puts a blob in the location of whatever is there, which also ends its stage. Goes on if its caller does not.
    pub async fn replace(
        self: &Arc<Self>,
        location: BlobLocation,
        replacement: Replacement,
        further: Further,
        unnamed: Vec<Unnamed>,
    ) -> Result<Replaced, Failure> {
        let blobs = self.clone();
        to_its_end(async move { blobs.replace_now(location, replacement, further, unnamed).await }).await
    }

    async fn replace_now(
        self: &Arc<Self>,
        location: BlobLocation,
        replacement: Replacement,
        further: Further,
        unnamed: Vec<Unnamed>,
    ) -> Result<Replaced, Failure> {
        let tags = replacement.new.tags.clone();
        let done = match self.index_tags(&location, &tags).await {
            Ok(()) => self.replace_rows(&location, &replacement, &further, None).await,
            Err(failure) => Err(failure),
        };
        settle(unnamed, &done);
        further.settle(&done);
        self.unindex_refused(&location, &tags, &done).await;
        let (superseded, replaced) = done?.expect("there is no basis that could change");
        self.index_tags_again(&location, &tags).await;
        if let Some(superseded) = superseded {
            self.clean_up(location, superseded, &tags);
        }
        Ok(replaced)
    }

    /// Writes the rows of a replacement, with further rows that its body needs. `None` if the basis that they were made
    /// from has changed.
    pub async fn replace_rows(
        &self,
        location: &BlobLocation,
        replacement: &Replacement,
        further: &Further,
        basis: Option<&Basis>,
    ) -> Result<Option<(Option<Superseded>, Replaced)>, Failure> {
        let keep = self.keep_policy(location).await?;
        let mut kept_after = DateTime::MIN;
        for _ in 0..ATTEMPTS_MAX {
            // What is kept of the blob as it was has a row of its own, which must be named in advance. No other state is
            // overwritten: the time of a version may be ahead of the clock, so a later blob can have the same.
            let known = if keep.keeps_overwritten() { self.record(location).await? } else { None };
            let kept_at = known.as_ref().map(|known| known.kept_at().max(kept_after));
            let earlier = kept_at.map(earlier_row);
            let mut is_taken = false;
            let mut rows = vec![RECORD_ROW, STAGE_ROW];
            rows.extend(further.names());
            rows.extend(earlier.as_deref());
            let decide = |now: DateTime, rows: &[Option<StoredRow>]| {
                let old = record_in(location, &rows[0])?;
                if old.is_some() && replacement.overwrites == Overwrites::Refused {
                    return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
                }
                let lease = check_write(&replacement.conditions, old.as_ref(), now, replacement.answer)?;
                old.as_ref().map_or(Ok(()), Record::refuse_while_copying)?;
                if basis.is_some_and(|basis| !basis.is_same(old.as_ref(), rows[1].as_ref())) {
                    return Ok((Vec::new(), Attempt::Stale));
                }
                let named = |record: Option<&Record>| record.map(|record| (record.changed, record.kept_at()));
                let is_known = named(old.as_ref()) == named(known.as_ref());
                is_taken = rows.get(2 + further.count()).is_some_and(Option::is_some);
                if keep.keeps_overwritten() && (!is_known || is_taken) {
                    return Ok((Vec::new(), Attempt::Again));
                }
                let version = keep.versions.then(|| old.as_ref().map_or(now, |old| old.next_version(now)));
                let record = replacement.record(old.as_ref(), lease, now, version);
                let mut changes = vec![put_record(0, &record)];
                changes.extend(rows[1].is_some().then_some(Change::Delete { index: 1 }));
                changes.extend(further.changes(2, rows)?);
                let is_kept = keep.keeps_overwritten() && old.is_some();
                if let (Some(old), true) = (&old, is_kept) {
                    let body = keep.overwritten(old, now).encode().into();
                    changes.push(Change::Put { index: 2 + further.count(), body });
                }
                let superseded = Superseded { record: old, had_stage: rows[1].is_some(), is_kept };
                let done = (superseded.or_nothing(), Replaced { changed: now, version });
                Ok((changes, Attempt::Done(Box::new(done))))
            };
            match self.transact(location, &rows, decide).await? {
                Attempt::Done(done) => return Ok(Some(*done)),
                Attempt::Stale => return Ok(None),
                Attempt::Again if is_taken => kept_after = kept_at.map_or(DateTime::MIN, next_tick),
                Attempt::Again => {}
            }
        }
        Err(Failure::changed_meanwhile())
    }
}

enum Attempt {
    Done(Box<(Option<Superseded>, Replaced)>),
    Stale,
    Again,
}

/// What rows were made from: the blob and its stage must still be these.
pub(crate) struct Basis {
    pub changed: Option<DateTime>,
    /// The version of the row of the stage.
    pub stage: Option<DateTime>,
}

impl Basis {
    fn is_same(&self, record: Option<&Record>, stage: Option<&StoredRow>) -> bool {
        self.changed == record.map(|record| record.changed) && self.stage == stage.map(|row| row.version)
    }
}

/// What a change has put out of use.
#[derive(Clone, Debug)]
pub(crate) struct Superseded {
    pub record: Option<Record>,
    pub had_stage: bool,
    /// The record is kept as an earlier state.
    pub is_kept: bool,
}

impl Superseded {
    /// `None` if there was nothing.
    pub fn or_nothing(self) -> Option<Self> {
        (self.record.is_some() || self.had_stage).then_some(self)
    }
}

impl Replacement {
    /// Whether all of its bytes are in its row.
    fn is_inline(&self) -> bool {
        matches!(self.body, Body::Data(Data::Inline(_)))
    }

    pub fn record(
        &self,
        old: Option<&Record>,
        lease: Option<Lease>,
        now: DateTime,
        version: Option<DateTime>,
    ) -> Record {
        // Where versions are kept, each that is uploaded is created when it comes; a copy goes on with what was there
        // (recorded).
        let is_created = version.is_some() && self.copy.is_none();
        Record {
            kind: self.kind,
            changed: now,
            created: old.filter(|_| !is_created).map_or(now, |old| old.created),
            headers: self.new.headers.clone(),
            metadata: self.new.metadata.clone(),
            tags: self.new.tags.clone(),
            tier: self.new.tier.map(|tier| StoredTier { tier, changed: Some(now), rehydrate_to: None }),
            lease,
            copy: self.copy.clone().map(|copy| CopyShown { completed: copy.completed.map(|_| now), ..copy }),
            snapshots: old.map_or(0, |old| old.snapshots),
            is_shared: false,
            version,
            body: self.body.clone(),
        }
    }
}

/// Keeps bytes that a row names now, or may name; drops them if the change was refused.
pub(crate) fn settle<T>(unnamed: impl IntoIterator<Item = Unnamed>, done: &Result<T, Failure>) {
    let may_be_named = done.is_ok() || done.as_ref().is_err_and(Failure::is_unknown);
    for unnamed in unnamed {
        if may_be_named {
            unnamed.keep();
        }
    }
}
