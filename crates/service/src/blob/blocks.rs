//! Blocks: put, committed as a list, listed.
//!
//! A block that is not committed belongs to the stage. Committing moves references, never bytes, and begins a new
//! generation of the stage: one small transaction however many blocks there are. The old generation is invisible from
//! that moment on.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use tavola_engine::{ByteSource, BytesSource, Change, ContentSize, Owner};
use tavola_model::{
    AccountName, BLOCK_BYTES_MAX, BlobConditions, BlobKind, BlobType, BlobWritten, BlockId, BlockList,
    BlockListType, BlockSource, BlockWritten, Changed, DateTime, ErrorCode, GetBlockList, LeaseId,
    ListedBlock, PutBlock, PutBlockList, UNCOMMITTED_BLOCKS_MAX,
};

use super::Blobs;
use super::block_list::resolve;
use super::change::{BlobLocation, record_in};
use super::conditions::{Unmet, check_read, check_write};
use super::pieces::{Data, Piece, encode_pieces};
use super::prepare::Further;
use super::put::{ATTEMPTS_MAX, Basis, Replaced, Replacement, Superseded, settle};
use super::receive::Unnamed;
use super::record::{Body, Record};
use super::reservation::AnswerReservation;
use super::rows::{
    RECORD_ROW, STAGE_ROW, STAGED, Stage, damaged, decode_data, encode_data, generation_prefix, pieces_row,
    split_row, staged_row,
};
use super::sums::Sums;
use crate::catalog::to_its_end;
use crate::execute::Overwrites;
use crate::failure::Failure;
use crate::service::AnswerBudget;

/// What a listed block takes, in memory and in the answer.
const BLOCK_BYTES: usize = 256;
/// Pieces in one row.
const PIECES_A_ROW_MAX: usize = 1000;
/// Uncommitted blocks of a blob whose bytes stay in their rows, if they are few; later ones are contents. A client that
/// puts many small blocks has all of them committed by one transaction.
const INLINE_BLOCKS_MAX: u64 = 256;
/// Bytes of a committed blob that stay in the rows of its pieces.
const INLINE_A_BLOB_MAX: u64 = 1024 * 1024;

/// What a block list makes of a blob.
struct CommitPlan {
    replacement: Replacement,
    further: Further,
    unnamed: Vec<Unnamed>,
    basis: Basis,
}

impl Blobs {
    pub async fn put_block(
        self: &Arc<Self>,
        account: &AccountName,
        put: PutBlock,
        upload: Option<&mut dyn ByteSource>,
    ) -> Result<BlockWritten, Failure> {
        let location = self.location(account, &put.blob).await?;
        self.check_block(&location, put.lease).await?;
        let size = put.length.map_or(ContentSize::UpTo(BLOCK_BYTES_MAX), ContentSize::Exactly);
        let mut empty = BytesSource::default();
        let upload = upload.unwrap_or(&mut empty);
        let (unnamed, sums) = self.receive(&location, upload, size, &put.sums, put.sums.tells_md5).await?;
        self.stage_block(location, put.id, put.lease, unnamed).await?;
        Ok(sums.told(&put.sums))
    }

    /// Refuses a block before its bytes are taken.
    pub async fn check_block(&self, location: &BlobLocation, lease: Option<LeaseId>) -> Result<(), Failure> {
        let conditions = BlobConditions { lease, ..BlobConditions::default() };
        let record = self.check_before(location, &conditions, Unmet::of_write).await?;
        Ok(must_be_block(record.as_ref())?)
    }

    /// Makes bytes an uncommitted block.
    pub async fn stage_block(
        self: &Arc<Self>,
        location: BlobLocation,
        id: BlockId,
        lease: Option<LeaseId>,
        unnamed: Unnamed,
    ) -> Result<(), Failure> {
        let blobs = self.clone();
        to_its_end(async move {
            let known = blobs.stage(&location).await?.map(|(stage, _)| stage);
            let is_crowded = known.is_some_and(|stage| stage.count >= INLINE_BLOCKS_MAX);
            let unnamed = match unnamed.data() {
                Data::Inline(bytes) if is_crowded && !bytes.is_empty() => {
                    blobs.as_content(&location, &bytes).await?
                }
                _ => unnamed,
            };
            let done = blobs.stage_data(&location, &id, lease, known, unnamed.data()).await;
            settle([unnamed], &done);
            if let Some(overwritten) = done?.as_ref().and_then(Data::content)
                && let Err(error) = blobs.drop_contents(location.space, &[overwritten]).await
            {
                tracing::debug!(%error, "cannot drop an overwritten block; the scrubber will");
            }
            Ok(())
        })
        .await
    }

    /// Adds to the stage, which may still be as it was known. Gives the block of that id that was there before.
    async fn stage_data(
        &self,
        location: &BlobLocation,
        id: &BlockId,
        lease: Option<LeaseId>,
        mut known: Option<Stage>,
        data: Data,
    ) -> Result<Option<Data>, Failure> {
        let conditions = BlobConditions { lease, ..BlobConditions::default() };
        for _ in 0..ATTEMPTS_MAX {
            let generation = known.map_or_else(|| self.fresh_generation(), |stage| stage.generation);
            let staged = staged_row(generation, id);
            let done = self
                .transact(location, &[RECORD_ROW, STAGE_ROW, &staged], |now, rows| {
                    let record = record_in(location, &rows[0])?;
                    must_be_block(record.as_ref())?;
                    check_write(&conditions, record.as_ref(), now, Unmet::of_write)?;
                    let id_length = u8::try_from(id.as_bytes().len()).expect("an id is short");
                    let stage = match &rows[1] {
                        // The stage was committed or dropped since. Its generation is dead: its rows may be part of a blob
                        // now, or be removed at any time.
                        None if known.is_some() => return Ok((Vec::new(), None)),
                        None => Stage { generation, count: 0, id_length, put: now },
                        Some(row) => Stage::decode(&row.body).ok_or_else(|| damaged(location.space))?,
                    };
                    if stage.generation != generation {
                        return Ok((Vec::new(), None));
                    }
                    if stage.id_length != id_length {
                        return Err(ErrorCode::InvalidBlobOrBlock.into());
                    }
                    let old = rows[2]
                        .as_ref()
                        .map(|row| decode_data(&row.body))
                        .map(|data| data.ok_or_else(|| damaged(location.space)));
                    let old = old.transpose()?;
                    let count = stage.count + u64::from(old.is_none());
                    if count > UNCOMMITTED_BLOCKS_MAX {
                        return Err(ErrorCode::BlockCountExceedsLimit.into());
                    }
                    let stage = Stage { count, put: now, ..stage };
                    let changes = vec![
                        Change::Put { index: 1, body: stage.encode().into() },
                        Change::Put { index: 2, body: encode_data(&data).into() },
                    ];
                    Ok((changes, Some(old)))
                })
                .await?;
            if let Some(old) = done {
                return Ok(old);
            }
            known = self.stage(location).await?.map(|(stage, _)| stage);
        }
        Err(Failure::changed_meanwhile())
    }

    pub async fn put_block_list(
        self: &Arc<Self>,
        account: &AccountName,
        put: PutBlockList,
        overwrites: Overwrites,
    ) -> Result<BlobWritten, Failure> {
        let location = self.location(account, &put.blob).await?;
        let sums = Sums::of(&put.text, put.sums.md5.is_some() || put.sums.tells_md5);
        sums.check(&put.sums)?;
        let blobs = self.clone();
        to_its_end(async move {
            let done = blobs.commit_blocks(&location, &put, overwrites).await;
            blobs.unindex_refused(&location, &put.new.tags, &done).await;
            let (superseded, replaced) = done?;
            blobs.index_tags_again(&location, &put.new.tags).await;
            if let Some(superseded) = superseded {
                blobs.clean_up(location, superseded, &put.new.tags);
            }
            let BlockWritten { md5, crc64 } = sums.told(&put.sums);
            let (changed, version) = (Changed(replaced.changed), replaced.version);
            Ok(BlobWritten { changed, md5, crc64, version })
        })
        .await
    }

    /// Makes the blob that a block list says. Its tags are in the index before it, but not before it can be made.
    async fn commit_blocks(
        &self,
        location: &BlobLocation,
        put: &PutBlockList,
        overwrites: Overwrites,
    ) -> Result<(Option<Superseded>, Replaced), Failure> {
        let mut is_indexed = false;
        for _ in 0..ATTEMPTS_MAX {
            let plan = self.plan_commit(location, put, overwrites).await?;
            let CommitPlan { replacement, further, unnamed, basis } = plan;
            if !is_indexed {
                self.index_tags(location, &put.new.tags).await?;
                is_indexed = true;
            }
            let done = self.replace_rows(location, &replacement, &further, Some(&basis)).await;
            if matches!(done, Ok(None)) {
                continue;
            }
            settle(unnamed, &done);
            if let Some(done) = done? {
                return Ok(done);
            }
        }
        Err(Failure::changed_meanwhile())
    }

    /// What a block list makes of a blob as it is now.
    async fn plan_commit(
        &self,
        location: &BlobLocation,
        put: &PutBlockList,
        overwrites: Overwrites,
    ) -> Result<CommitPlan, Failure> {
        let record = self.check_before(location, &put.conditions, Unmet::of_write).await?;
        must_be_block(record.as_ref())?;
        let wanted: HashSet<&BlockId> = put.blocks.iter().map(|(_, id)| id).collect();
        let (mut staged, mut committed) = (HashMap::new(), HashMap::new());
        let stage = self
            .visit_staged(location, |id, data| {
                if wanted.contains(&id) {
                    staged.insert(id, data);
                }
            })
            .await?;
        let uses_committed = put.blocks.iter().any(|(block, _)| *block != BlockSource::Uncommitted);
        if let Some(record) = record.as_ref().filter(|_| uses_committed) {
            self.visit_pieces(location, &record.body, |piece| {
                if let Some(id) = piece.block.filter(|id| wanted.contains(id)) {
                    committed.insert(id, piece.data);
                }
            })
            .await?;
        }
        let mut pieces = resolve(&put.blocks, &committed, &staged)?;
        let unnamed = self.move_inline(location, &mut pieces).await?;
        let (body, further) = self.plan_pieces(&pieces);
        let replacement = Replacement {
            kind: BlobKind::Block,
            body,
            new: put.new.clone(),
            copy: None,
            conditions: put.conditions.clone(),
            answer: Unmet::of_write,
            overwrites,
        };
        let basis = Basis { changed: record.map(|record| record.changed), stage };
        Ok(CommitPlan { replacement, further: further.into(), unnamed, basis })
    }

    /// Makes contents of bytes that would be in the rows, if they are too many for one transaction. Blocks with the same
    /// bytes become one.
    async fn move_inline(
        &self,
        location: &BlobLocation,
        pieces: &mut [Piece],
    ) -> Result<Vec<Unnamed>, Failure> {
        let inline = |piece: &Piece| if piece.data.content().is_some() { 0 } else { piece.data.length() };
        if pieces.iter().map(inline).sum::<u64>() <= INLINE_A_BLOB_MAX {
            return Ok(Vec::new());
        }
        let (mut moved, mut unnamed): (HashMap<Bytes, Data>, _) = (HashMap::new(), Vec::new());
        for piece in pieces {
            let Data::Inline(bytes) = &piece.data else { continue };
            let data = match moved.get(bytes) {
                Some(data) => data.clone(),
                None => {
                    let content = self.as_content(location, bytes).await?;
                    moved.insert(bytes.clone(), content.data());
                    unnamed.push(content);
                    unnamed[unnamed.len() - 1].data()
                }
            };
            piece.data = data;
        }
        Ok(unnamed)
    }

    /// Keeps bytes as a content however few they are.
    async fn as_content(&self, location: &BlobLocation, bytes: &Bytes) -> Result<Unnamed, Failure> {
        let owner = Owner { space: location.space, partition: location.partition.clone() };
        let size = ContentSize::Exactly(bytes.len() as u64);
        let content = self.contents.put(&owner, size, &mut BytesSource::new([bytes.clone()])).await?;
        Ok(self.unnamed(location, Data::Content(content)))
    }

    /// A body of these pieces, and the rows it needs.
    fn plan_pieces(&self, pieces: &[Piece]) -> (Body, Vec<(Vec<u8>, Bytes)>) {
        let generation = self.fresh_generation();
        let number = |count: usize| u32::try_from(count).expect("a list of blocks is bounded");
        let further: Vec<(Vec<u8>, Bytes)> = pieces
            .chunks(PIECES_A_ROW_MAX)
            .enumerate()
            .map(|(at, pieces)| (pieces_row(generation, number(at)), encode_pieces(pieces).into()))
            .collect();
        let length = pieces.iter().map(|piece| piece.data.length()).sum();
        let body =
            Body::Pieces { generation, rows: number(further.len()), count: number(pieces.len()), length };
        (body, further)
    }

    pub async fn get_block_list(
        &self,
        account: &AccountName,
        get: GetBlockList,
        budget: Option<Arc<dyn AnswerBudget>>,
    ) -> Result<BlockList, Failure> {
        let location = self.location(account, &get.target.path).await?;
        // A blob that has only uncommitted blocks is none yet.
        let state = self.find_state(&location, &get.target).await?;
        if let Some(record) = &state {
            check_read(&get.conditions, record, self.clock.now())?;
        }
        must_be_block(state.as_ref())?;
        let (mut reservation, mut is_short) = (AnswerReservation::new(budget), false);
        let mut uncommitted: Vec<ListedBlock> = Vec::new();
        let stage = match get.target.moment {
            tavola_model::BlobMoment::Current => {
                let list = |id, data: Data| {
                    is_short |= !reservation.take(BLOCK_BYTES);
                    if !is_short {
                        uncommitted.push(ListedBlock { id, length: data.length() });
                    }
                };
                self.visit_staged(&location, list).await?
            }
            _ => None,
        };
        if state.is_none() && stage.is_none() {
            return Err(ErrorCode::BlobNotFound.into());
        }
        let mut committed: Vec<ListedBlock> = Vec::new();
        if let Some(record) = &state {
            let list = |piece: Piece| {
                is_short |= !reservation.take(BLOCK_BYTES);
                if let Some(id) = piece.block.filter(|_| !is_short) {
                    committed.push(ListedBlock { id, length: piece.data.length() });
                }
            };
            self.visit_pieces(&location, &record.body, list).await?;
        }
        if is_short {
            return Err(ErrorCode::ServerBusy.into());
        }
        uncommitted.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(BlockList {
            blob: state.map(|record| (Changed(record.changed), record.body.length())),
            committed: (get.which != BlockListType::Uncommitted).then_some(committed),
            uncommitted: (get.which != BlockListType::Committed).then_some(uncommitted),
        })
    }

    /// Visits the uncommitted blocks that count; gives the version of the row that says which do. What a block holds is not
    /// kept beyond its visit.
    async fn visit_staged(
        &self,
        location: &BlobLocation,
        mut each: impl FnMut(BlockId, Data) + Send,
    ) -> Result<Option<DateTime>, Failure> {
        let Some((stage, version)) = self.stage(location).await? else { return Ok(None) };
        let prefix = generation_prefix(STAGED, stage.generation);
        self.visit_rows(location, &prefix, &prefix, |row, body| {
            let (_, _, id) = split_row(row)?;
            each(BlockId::from_bytes(id)?, decode_data(&body)?);
            Some(ControlFlow::Continue(()))
        })
        .await?;
        Ok(Some(version))
    }

    async fn stage(&self, location: &BlobLocation) -> Result<Option<(Stage, DateTime)>, Failure> {
        let Some(row) = self.engine.get(location.space, &location.partition, STAGE_ROW).await? else {
            return Ok(None);
        };
        let stage = Stage::decode(&row.body).ok_or_else(|| damaged(location.space))?;
        Ok(Some((stage, row.version)))
    }
}

fn must_be_block(record: Option<&Record>) -> Result<(), ErrorCode> {
    match record.map(|record| record.kind.blob_type()) {
        None | Some(BlobType::Block) => Ok(()),
        Some(BlobType::Append | BlobType::Page) => Err(ErrorCode::InvalidBlobType),
    }
}
