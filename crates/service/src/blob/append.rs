//! Append blobs: appending, sealing.
//!
//! A small block is kept in a row together with its neighbours, so a log of short lines is a few rows and not a content
//! for each. A row that grows holds later bytes than a snapshot of the blob may show; the length of the snapshot says
//! where it ends.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tavola_engine::{ByteSource, BytesSource, Change, ContentSize, StoredRow};
use tavola_model::{
    APPEND_BLOCK_BYTES_MAX, APPEND_BLOCKS_MAX, AccountName, AppendBlock, AppendConditions, BlobConditions,
    BlobKind, BlockAppended, Changed, DateTime, ErrorCode, SealBlob, ServiceError,
};

use super::Blobs;
use super::change::{BlobLocation, existing_in, put_record};
use super::conditions::{Unmet, check_write};
use super::pieces::{Data, Piece, decode_pieces, encode_pieces};
use super::put::{ATTEMPTS_MAX, settle};
use super::receive::Unnamed;
use super::record::{Body, Record};
use super::rows::{RECORD_ROW, damaged, pieces_row};
use crate::catalog::to_its_end;
use crate::failure::Failure;

/// Pieces in one row of an append blob.
const PIECES_A_ROW_MAX: usize = 250;
/// Bytes in a row to which another piece is added: every append writes its row again.
const ROW_BYTES_MAX: usize = 16 * 1024;

/// What is appended, and when.
#[derive(Clone)]
pub(crate) struct Append {
    pub append: AppendConditions,
    pub conditions: BlobConditions,
}

/// Where a block was appended.
pub(crate) struct Appended {
    pub changed: DateTime,
    pub offset: u64,
    pub block_count: u64,
}

impl Blobs {
    pub async fn append_block(
        self: &Arc<Self>,
        account: &AccountName,
        append: AppendBlock,
        upload: Option<&mut dyn ByteSource>,
    ) -> Result<BlockAppended, Failure> {
        let location = self.location(account, &append.blob).await?;
        let AppendBlock { length, sums, append, conditions, .. } = append;
        let append = Append { append, conditions };
        self.check_append(&location, &append, length.unwrap_or(0)).await?;
        let size = length.map_or(ContentSize::UpTo(APPEND_BLOCK_BYTES_MAX), ContentSize::Exactly);
        let mut empty = BytesSource::default();
        let upload = upload.unwrap_or(&mut empty);
        let (unnamed, counted) = self.receive(&location, upload, size, &sums, sums.tells_md5).await?;
        let done = self.append_data(location, append, unnamed).await?;
        Ok(BlockAppended {
            changed: Changed(done.changed),
            offset: done.offset,
            block_count: done.block_count,
            sums: counted.told(&sums),
        })
    }

    /// Refuses an append before its bytes are taken.
    pub async fn check_append(
        &self,
        location: &BlobLocation,
        append: &Append,
        length: u64,
    ) -> Result<(), Failure> {
        let record = self.record(location).await?.ok_or(ErrorCode::BlobNotFound)?;
        check(&record, append, length, self.clock.now()).map(drop)?;
        Ok(())
    }

    /// Appends bytes to a blob.
    pub async fn append_data(
        self: &Arc<Self>,
        location: BlobLocation,
        append: Append,
        unnamed: Unnamed,
    ) -> Result<Appended, Failure> {
        let blobs = self.clone();
        to_its_end(async move {
            let done = blobs.append_rows(&location, &append, &unnamed.data()).await;
            settle([unnamed], &done);
            done
        })
        .await
    }

    async fn append_rows(
        &self,
        location: &BlobLocation,
        append: &Append,
        data: &Data,
    ) -> Result<Appended, Failure> {
        for _ in 0..ATTEMPTS_MAX {
            // The rows that may be written must be named in advance: the last one and the next.
            let record = self.record(location).await?.ok_or(ErrorCode::BlobNotFound)?;
            let Body::Pieces { generation, rows, .. } = record.body else {
                return Err(ErrorCode::InvalidBlobType.into());
            };
            let last = pieces_row(generation, rows.saturating_sub(1));
            let next = pieces_row(generation, rows);
            let (known, known_rows) = (generation, rows);
            let names: Vec<&[u8]> =
                if rows == 0 { vec![RECORD_ROW, &next] } else { vec![RECORD_ROW, &next, &last] };
            let decide = |now: DateTime, found: &[Option<StoredRow>]| {
                let mut record = existing_in(location, &found[0])?;
                record.lease = check(&record, append, data.length(), now)?;
                let Body::Pieces { generation, rows, count, length } = &mut record.body else {
                    return Err(ErrorCode::InvalidBlobType.into());
                };
                if (*generation, *rows) != (known, known_rows) {
                    return Ok((Vec::new(), None));
                }
                let offset = *length;
                let in_last = match found.get(2) {
                    None => Vec::new(),
                    Some(row) => row
                        .as_ref()
                        .and_then(|row| decode_pieces(&row.body))
                        .ok_or_else(|| damaged(location.space))?,
                };
                *length += data.length();
                let change = match add(in_last, data) {
                    Some((pieces, added)) => {
                        *count += added;
                        Change::Put { index: 2, body: encode_pieces(&pieces).into() }
                    }
                    None => {
                        *count += 1;
                        *rows += 1;
                        let piece = Piece { block: None, data: data.clone() };
                        Change::Put { index: 1, body: encode_pieces(&[piece]).into() }
                    }
                };
                let BlobKind::Append { block_count, .. } = &mut record.kind else {
                    return Err(ErrorCode::InvalidBlobType.into());
                };
                *block_count += 1;
                let block_count = *block_count;
                record.changed = now;
                let changes = vec![put_record(0, &record), change];
                Ok((changes, Some(Appended { changed: now, offset, block_count })))
            };
            if let Some(appended) = self.transact(location, &names, decide).await? {
                return Ok(appended);
            }
        }
        Err(Failure::changed_meanwhile())
    }

    /// Lets nothing more be appended.
    pub async fn seal(&self, account: &AccountName, seal: SealBlob) -> Result<Changed, Failure> {
        let location = self.location(account, &seal.blob).await?;
        self.change_record(&location, &seal.conditions, |now, record| {
            let length = record.body.length();
            let BlobKind::Append { is_sealed, .. } = &mut record.kind else {
                return Err(ErrorCode::InvalidBlobType.into());
            };
            check_position(&seal.append, length, 0)?;
            *is_sealed = true;
            record.changed = now;
            Ok(Changed(now))
        })
        .await
    }
}

/// Checks an append to a blob that is there; gives its lease afterwards.
fn check(
    record: &Record,
    append: &Append,
    length: u64,
    now: DateTime,
) -> Result<Option<crate::lease::Lease>, ServiceError> {
    let lease = check_write(&append.conditions, Some(record), now, |unmet| match unmet {
        Unmet::Exists => ErrorCode::ConditionNotMet,
        other => other.of_write(),
    })?;
    let BlobKind::Append { block_count, is_sealed } = record.kind else {
        return Err(ErrorCode::InvalidBlobType.into());
    };
    if is_sealed {
        return Err(ErrorCode::BlobIsSealed.into());
    }
    record.refuse_while_copying()?;
    check_position(&append.append, record.body.length(), length)?;
    if block_count >= APPEND_BLOCKS_MAX {
        return Err(ErrorCode::BlockCountExceedsLimit.into());
    }
    Ok(lease)
}

fn check_position(append: &AppendConditions, length: u64, added: u64) -> Result<(), ErrorCode> {
    if append.position.is_some_and(|position| position != length) {
        return Err(ErrorCode::AppendPositionConditionNotMet);
    }
    if append.length_max.is_some_and(|most| length.saturating_add(added) > most) {
        return Err(ErrorCode::MaxBlobSizeConditionNotMet);
    }
    Ok(())
}

/// The pieces of the last row with another one, and by how many they are more; `None` if the row is full.
fn add(mut pieces: Vec<Piece>, data: &Data) -> Option<(Vec<Piece>, u32)> {
    let inline = |data: &Data| match data {
        Data::Inline(bytes) => bytes.len(),
        Data::Content(_) => 32,
    };
    let bytes: usize = pieces.iter().map(|piece| inline(&piece.data)).sum();
    if pieces.is_empty() || pieces.len() >= PIECES_A_ROW_MAX || bytes + inline(data) > ROW_BYTES_MAX {
        return None;
    }
    match (pieces.last_mut(), data) {
        (Some(Piece { data: Data::Inline(last), .. }), Data::Inline(added)) => {
            let mut joined = BytesMut::with_capacity(last.len() + added.len());
            joined.extend_from_slice(last);
            joined.extend_from_slice(added);
            *last = Bytes::from(joined);
            Some((pieces, 0))
        }
        _ => {
            pieces.push(Piece { block: None, data: data.clone() });
            Some((pieces, 1))
        }
    }
}
