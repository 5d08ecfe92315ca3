//! Copies: Copy Blob, and content that is read from another blob of this server.
//!
//! Bytes are copied, never shared, so each blob is dropped on its own. What is large is copied behind the answer
//! (`pending.rs`). Whoever executes a copy has already found that
//! the caller may read the source.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tavola_engine::{ContentSize, Owner};
use tavola_model::{
    AccessTier, AccountName, AppendBlockFromUrl, BlobConditions, BlobCopied, BlobKind, BlobMoment, BlobType,
    BlobWritten, BlockAppended, BlockWritten, Changed, CopyBlob, CopyId, CopyShown, CopySource, CopyStatus,
    DateTime, ErrorCode, FromUrl, NewBlob, PutBlobFromUrl, PutBlockFromUrl, SYNC_COPY_BYTES_MAX,
    ServiceError, TransferSums,
};

use super::Blobs;
use super::append::Append;
use super::change::BlobLocation;
use super::conditions::{Unmet, check_source};
use super::get::resolve_range;
use super::pending::PendingCopy;
use super::piece_rows::{PieceRows, removed};
use super::pieces::{Data, Piece, encode_pieces};
use super::prepare::{Further, Preparation};
use super::put::Replacement;
use super::receive::Unnamed;
use super::record::{Body, Record, StoredTier};
use super::rows::pieces_row;
use super::sums::Sums;
use crate::catalog::to_its_end;
use crate::execute::Overwrites;
use crate::failure::Failure;
use crate::lease::{Lease, Leased};

/// How often a source is read because it was replaced while it was read.
const ATTEMPTS_MAX: usize = 4;

/// What the service says of a source that is too large to be copied within the request.
const SYNC_COPY_TOO_LARGE: &str = "The source request body for copy source is too large and exceeds the maximum \
                                   permissible limit (256MB).";

/// What Copy Blob has made of its source.
struct MadeCopy {
    /// The source.
    record: Record,
    kind: BlobKind,
    copied: CopiedBody,
    told: Option<BlockWritten>,
    /// The copy that is to go on behind the answer, and that is noted.
    pending: Option<PendingCopy>,
}

/// A body that was copied and is not named yet.
pub(crate) struct CopiedBody {
    pub body: Body,
    pub further: Further,
    pub unnamed: Vec<Unnamed>,
}

impl Blobs {
    pub async fn copy_blob(
        self: &Arc<Self>,
        account: &AccountName,
        copy: CopyBlob,
        overwrites: Overwrites,
    ) -> Result<BlobCopied, Failure> {
        let location = self.location(account, &copy.blob).await?;
        let answer = if copy.is_sync { Unmet::of_write } else { Unmet::of_copy_target };
        // A source that is not there is told before a condition on the target that is not met, a lease is not.
        let lease = BlobConditions { lease: copy.conditions.lease, ..BlobConditions::default() };
        self.check_before(&location, &lease, answer).await?;
        let id = self.fresh_guid();
        let made = again_if_replaced(|| self.make_copy(account, &copy, &location, answer, id)).await?;
        let MadeCopy { record, kind, copied, told, pending } = made;
        let total = record.body.length();
        let status = if pending.is_some() { CopyStatus::Pending } else { CopyStatus::Success };
        let shown = CopyShown {
            id,
            source: copy.source.shown.clone(),
            status,
            status_description: None,
            copied: if pending.is_some() { 0 } else { total },
            total,
            completed: pending.is_none().then(|| self.clock.now()),
        };
        let replacement = Replacement {
            kind: sealed(kind, copy.seals),
            body: copied.body.clone(),
            new: NewBlob {
                headers: record.headers.clone(),
                metadata: if copy.metadata.is_empty() {
                    record.metadata.clone()
                } else {
                    copy.metadata.clone()
                },
                tags: if copy.copies_tags { record.tags.clone() } else { copy.tags.clone() },
                tier: copy.tier,
            },
            copy: Some(shown),
            conditions: copy.conditions.clone(),
            answer,
            overwrites,
        };
        let blobs = self.clone();
        // A client that goes away leaves no target that waits for bytes which nobody copies.
        let replaced = to_its_end(async move {
            let CopiedBody { further, unnamed, .. } = copied;
            let replaced = blobs.replace(location.clone(), replacement, further, unnamed).await?;
            if let Some(pending) = pending {
                blobs.start_copy(location, pending);
            }
            Ok(replaced)
        })
        .await?;
        Ok(BlobCopied {
            changed: Changed(replaced.changed),
            id,
            status,
            md5: told.and_then(|told| told.md5),
            crc64: told.and_then(|told| told.crc64),
            is_sync: copy.is_sync,
            version: replaced.version,
        })
    }

    /// Copies the source of Copy Blob as it is now, or notes that it is to be copied.
    async fn make_copy(
        self: &Arc<Self>,
        account: &AccountName,
        copy: &CopyBlob,
        location: &BlobLocation,
        answer: fn(Unmet) -> ErrorCode,
        id: CopyId,
    ) -> Result<MadeCopy, Failure> {
        let (source_place, record) = self.copy_source(account, copy).await?;
        copy.tier.map_or(Ok(()), |tier| tier.check_new(record.kind.blob_type()))?;
        let target = self.check_before(location, &copy.conditions, answer).await?;
        let blob_type = if copy.is_sync { BlobType::Block } else { record.kind.blob_type() };
        if target.is_some_and(|target| target.kind.blob_type() != blob_type) {
            return Err(ErrorCode::InvalidBlobType.into());
        }
        let total = record.body.length();
        let is_pending = !copy.is_sync && total > self.copy_bytes_max;
        let pending =
            copy.source.target.as_ref().filter(|_| is_pending).map(|(account, source)| PendingCopy {
                id,
                target: location.partition.clone(),
                account: account.clone(),
                source: source.clone(),
                changed: record.changed,
            });
        let (kind, copied, told) = if let Some(pending) = &pending {
            self.note_copy(location, pending).await?;
            let body = self.empty_body(&record);
            (record.kind, CopiedBody { body, further: Further::default(), unnamed: Vec::new() }, None)
        } else if copy.is_sync {
            let announced = TransferSums { md5: copy.source_md5, ..TransferSums::default() };
            let source = (&source_place, moment_of(&copy.source), &record);
            let (unnamed, sums) = self.copy_bytes(source, 0..total, location, &announced).await?;
            let body = Body::Data(unnamed.data());
            let told = Some(sums.told(&announced));
            let further = Further::default();
            (BlobKind::Block, CopiedBody { body, further, unnamed: vec![unnamed] }, told)
        } else {
            (record.kind, self.copy_body(&source_place, &record, location, &AtomicU64::new(0)).await?, None)
        };
        Ok(MadeCopy { record, kind, copied, told, pending })
    }

    pub async fn put_blob_from_url(
        self: &Arc<Self>,
        account: &AccountName,
        put: PutBlobFromUrl,
        overwrites: Overwrites,
    ) -> Result<BlobWritten, Failure> {
        let location = self.location(account, &put.blob).await?;
        // A wrong sum of the source is told before a condition that is not met (recorded), a lease is not.
        let lease = BlobConditions { lease: put.conditions.lease, ..BlobConditions::default() };
        self.check_before(&location, &lease, Unmet::of_write).await?;
        let (unnamed, sums, record) = self.read_url(&put.source, &location).await?;
        let told = sums.told(&put.source.sums);
        let PutBlobFromUrl { mut new, copies_headers, copies_tags, conditions, .. } = put;
        if copies_headers {
            let given = std::mem::replace(&mut new.headers, record.headers.clone());
            let headers = &mut new.headers;
            let texts = [
                (given.content_type, &mut headers.content_type),
                (given.content_encoding, &mut headers.content_encoding),
                (given.content_language, &mut headers.content_language),
                (given.cache_control, &mut headers.cache_control),
                (given.content_disposition, &mut headers.content_disposition),
            ];
            for (given, kept) in texts {
                *kept = given.or(kept.take());
            }
            if new.metadata.is_empty() {
                new.metadata = record.metadata.clone();
            }
        }
        new.headers.content_md5 = sums.md5;
        if copies_tags {
            new.tags = record.tags.clone();
        }
        let replacement = Replacement {
            kind: BlobKind::Block,
            body: Body::Data(unnamed.data()),
            new,
            copy: None,
            conditions,
            answer: Unmet::of_write,
            overwrites,
        };
        let replaced = self.replace(location, replacement, Further::default(), vec![unnamed]).await?;
        Ok(BlobWritten {
            changed: Changed(replaced.changed),
            md5: told.md5,
            crc64: told.crc64,
            version: replaced.version,
        })
    }

    pub async fn put_block_from_url(
        self: &Arc<Self>,
        account: &AccountName,
        put: PutBlockFromUrl,
    ) -> Result<BlockWritten, Failure> {
        let location = self.location(account, &put.blob).await?;
        self.check_block(&location, put.lease).await?;
        let (unnamed, sums, _) = self.read_url(&put.source, &location).await?;
        self.stage_block(location, put.id, put.lease, unnamed).await?;
        Ok(sums.told(&put.source.sums))
    }

    pub async fn append_block_from_url(
        self: &Arc<Self>,
        account: &AccountName,
        append: AppendBlockFromUrl,
    ) -> Result<BlockAppended, Failure> {
        let location = self.location(account, &append.blob).await?;
        let AppendBlockFromUrl { source, append, conditions, .. } = append;
        let append = Append { append, conditions };
        self.check_append(&location, &append, 0).await?;
        let (unnamed, sums, _) = self.read_url(&source, &location).await?;
        let done = self.append_data(location, append, unnamed).await?;
        Ok(BlockAppended {
            changed: Changed(done.changed),
            offset: done.offset,
            block_count: done.block_count,
            sums: sums.told(&source.sums),
        })
    }

    /// The source of Copy Blob, if its conditions are met.
    async fn copy_source(
        &self,
        account: &AccountName,
        copy: &CopyBlob,
    ) -> Result<(BlobLocation, Record), Failure> {
        let found = self.find_source(&copy.source).await?;
        let (location, record) = found.map_err(|missing| match copy.is_sync {
            true => missing.of_copied_url(),
            false => missing.of_copy(),
        })?;
        check_source(&copy.source_conditions, &record).map_err(|unmet| match copy.is_sync {
            true => unmet.of_copied_url(),
            false => ErrorCode::SourceConditionNotMet,
        })?;
        let now = self.clock.now();
        Lease::admit_read(record.lease.as_ref(), copy.source_lease, Leased::Blob, now)?;
        if record.is_archived(now) {
            let is_own = location.account == *account;
            check_archived(copy, &record, is_own, now)?;
        }
        record.refuse_while_copying()?;
        if copy.is_sync && record.body.length() > SYNC_COPY_BYTES_MAX {
            return Err(ServiceError::with_message(ErrorCode::CopySourceConflict, SYNC_COPY_TOO_LARGE).into());
        }
        Ok((location, record))
    }

    /// Keeps the bytes that an address names.
    async fn read_url(
        &self,
        from: &FromUrl,
        owner: &BlobLocation,
    ) -> Result<(Unnamed, Sums, Record), Failure> {
        again_if_replaced(|| self.try_read_url(from, owner)).await
    }

    async fn try_read_url(
        &self,
        from: &FromUrl,
        owner: &BlobLocation,
    ) -> Result<(Unnamed, Sums, Record), Failure> {
        let found = self.find_source(&from.source).await?;
        let (location, record) = found.map_err(MissingSource::of_copied_url)?;
        check_source(&from.conditions, &record).map_err(Unmet::of_copied_url)?;
        if record.is_archived(self.clock.now()) {
            return Err(ErrorCode::BlobArchived.into());
        }
        let length = record.body.length();
        let range = match from.range {
            None => 0..length,
            Some(range) => {
                let range = resolve_range(range, length)?;
                range.first..range.first + range.length
            }
        };
        if range.end - range.start > from.bytes_max {
            let refusal = ServiceError::new(ErrorCode::RequestBodyTooLarge);
            return Err(refusal.with_detail("MaxLimit", from.bytes_max.to_string()).into());
        }
        let source = (&location, moment_of(&from.source), &record);
        let (unnamed, sums) = self.copy_bytes(source, range, owner, &from.sums).await?;
        Ok((unnamed, sums, record))
    }

    async fn find_source(
        &self,
        source: &CopySource,
    ) -> Result<Result<(BlobLocation, Record), MissingSource>, Failure> {
        let Some((account, target)) = &source.target else {
            return Err(ErrorCode::CannotVerifyCopySource.into());
        };
        let Some(location) = self.find_location(account, &target.path).await? else {
            return Ok(Err(MissingSource::Container));
        };
        let record = self.find_state(&location, target).await?;
        Ok(record.map(|record| (location, record)).ok_or(MissingSource::Blob))
    }

    /// Keeps bytes of a state of a blob once more, for another one.
    async fn copy_bytes(
        &self,
        (from, moment, record): (&BlobLocation, BlobMoment, &Record),
        range: std::ops::Range<u64>,
        to: &BlobLocation,
        announced: &TransferSums,
    ) -> Result<(Unnamed, Sums), Failure> {
        let size = ContentSize::Exactly(range.end - range.start);
        let mut source = self.open(from, moment, &record.body, range).await?;
        let received = self.receive(to, source.as_mut(), size, announced, true).await;
        received.map_err(Failure::of_stored_source)
    }

    /// Copies a body as it is, with its blocks or pages. `so_far` says how far it is, meanwhile.
    pub async fn copy_body(
        self: &Arc<Self>,
        from: &BlobLocation,
        record: &Record,
        to: &BlobLocation,
        so_far: &AtomicU64,
    ) -> Result<CopiedBody, Failure> {
        match &record.body {
            Body::Data(data) => {
                let unnamed = self.copy_data(from, data, to, so_far).await?;
                let body = Body::Data(unnamed.data());
                Ok(CopiedBody { body, further: Further::default(), unnamed: vec![unnamed] })
            }
            Body::Pieces { generation, count, length, .. } => {
                let source = PieceRows { generation: *generation, next: 0, left: *count };
                let (rows, number) = self.copy_pieces(from, source, *length, to, so_far).await?;
                let body = Body::Pieces {
                    generation: rows.generation,
                    rows: number,
                    count: *count,
                    length: *length,
                };
                let (further, unnamed) = rows.finish();
                Ok(CopiedBody { body, further, unnamed })
            }
            Body::Pages { length, .. } => {
                let rows = self.copy_pages(from, record, to, so_far).await?;
                let body = Body::Pages { generations: vec![rows.generation], length: *length };
                let (further, unnamed) = rows.finish();
                Ok(CopiedBody { body, further, unnamed })
            }
        }
    }

    /// Copies the rows of pieces one by one; gives how many they are.
    async fn copy_pieces(
        self: &Arc<Self>,
        from: &BlobLocation,
        mut source: PieceRows,
        length: u64,
        to: &BlobLocation,
        so_far: &AtomicU64,
    ) -> Result<(Preparation, u32), Failure> {
        let (mut rows, mut number, mut left) = (Preparation::new(self, to), 0, length);
        while source.left > 0 {
            let mut found = None;
            source
                .visit(self.engine.as_ref(), from, |pieces| {
                    found = Some(pieces);
                    ControlFlow::Break(())
                })
                .await?;
            let (mut pieces, mut unnamed) = (Vec::new(), Vec::new());
            for Piece { block, data } in found.ok_or_else(|| removed(from))? {
                // The last piece of a snapshot may have grown since.
                let data = match data {
                    Data::Inline(bytes) => {
                        let end = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                        Data::Inline(bytes.slice(..end))
                    }
                    content @ Data::Content(_) => content,
                };
                left = left.saturating_sub(data.length());
                let copied = self.copy_data(from, &data, to, so_far).await?;
                pieces.push(Piece { block, data: copied.data() });
                unnamed.push(copied);
                if rows.is_due() {
                    let (row, body) = (pieces_row(rows.generation, number), encode_pieces(&pieces));
                    rows.add(row, body.into(), unnamed.drain(..)).await?;
                }
            }
            rows.add(pieces_row(rows.generation, number), encode_pieces(&pieces).into(), unnamed).await?;
            number += 1;
        }
        Ok((rows, number))
    }

    pub async fn copy_data(
        &self,
        from: &BlobLocation,
        data: &Data,
        to: &BlobLocation,
        so_far: &AtomicU64,
    ) -> Result<Unnamed, Failure> {
        let copied = match data {
            Data::Inline(bytes) => {
                so_far.fetch_add(data.length(), Ordering::Relaxed);
                Data::Inline(bytes.clone())
            }
            Data::Content(content) => {
                let owner = Owner { space: to.space, partition: to.partition.clone() };
                let copied = self.contents.copy(from.space, content, &owner, so_far).await;
                Data::Content(copied.map_err(|error| Failure::from(error).of_stored_source())?)
            }
        };
        Ok(self.unnamed(to, copied))
    }
}

/// Reads a source again, from its record on, if it was replaced while it was read. Its record tells if it is gone.
pub(crate) async fn again_if_replaced<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut done = attempt().await;
    for _ in 1..ATTEMPTS_MAX {
        if !done.as_ref().is_err_and(Failure::is_content_missing) {
            break;
        }
        done = attempt().await;
    }
    done
}

/// Which state of its blob a source is.
fn moment_of(source: &CopySource) -> BlobMoment {
    source.target.as_ref().map_or(BlobMoment::Current, |(_, target)| target.moment)
}

/// What is not there of the source of a copy.
#[derive(Clone, Copy, Debug)]
enum MissingSource {
    Container,
    Blob,
}

impl MissingSource {
    /// The answer to Copy Blob.
    fn of_copy(self) -> ServiceError {
        match self {
            Self::Container => ErrorCode::ContainerNotFound.into(),
            Self::Blob => ErrorCode::BlobNotFound.into(),
        }
    }

    /// The answer to a copy that reads its source within the request, as if by a request of its own.
    fn of_copied_url(self) -> ServiceError {
        ServiceError::with_message(
            ErrorCode::CannotVerifyCopySource,
            "The specified resource does not exist.",
        )
    }
}

/// Refuses a copy of an archived blob, unless it goes to another tier of the same account and leaves its source alone.
/// Nothing has to be fetched from an archive here, so the copy can be read when it is made.
fn check_archived(copy: &CopyBlob, source: &Record, is_own: bool, now: DateTime) -> Result<(), ErrorCode> {
    let is_online = copy.tier.is_some_and(|tier| tier != AccessTier::Archive);
    if copy.is_sync || !is_online || !is_own {
        return Err(ErrorCode::BlobArchived);
    }
    match source.tier(now) {
        Some(StoredTier { rehydrate_to: Some(_), .. }) => Err(ErrorCode::BlobBeingRehydrated),
        _ => Ok(()),
    }
}

fn sealed(kind: BlobKind, seals: Option<bool>) -> BlobKind {
    match kind {
        BlobKind::Append { block_count, is_sealed } => {
            BlobKind::Append { block_count, is_sealed: seals.unwrap_or(is_sealed) }
        }
        other => other,
    }
}
