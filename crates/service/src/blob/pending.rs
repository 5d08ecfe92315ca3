//! Copies that go on behind their answer, because there is much to copy.
//!
//! From the request on the target is there, empty, and says that its copy is pending; nothing else may write to it. When
//! all bytes are copied, one transaction gives them to the target, unless the copy was aborted or the target is gone. An
//! entry beside the tags of the container says what is copied from where, so that copies that nobody makes any more go on:
//! at the next start of a server, and every few minutes those whose target has not been told of progress meanwhile. Two
//! servers that make the same copy do no harm: the first one gives its bytes, the other one drops them. The entry is
//! written before the target and removed after the copy has ended.
//!
//! A copy that cannot succeed fails, and its target says why. What may pass, it waits for.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tavola_engine::{Change, ContentError, EngineError, Position, ScanRange, ScannedRow, SpaceId, StoredRow};
use tavola_model::{
    AbortCopy, AccountName, BlobConditions, BlobKind, BlobMoment, BlobName, BlobPath, BlobTarget,
    ContainerName, CopyId, CopyShown, CopyStatus, DateTime, ErrorCode, Guid, StorageService,
};
use tokio::task::AbortHandle;

use super::Blobs;
use super::change::{BlobLocation, existing_in, put_record, record_in};
use super::conditions::{Unmet, check_write};
use super::copy::{CopiedBody, again_if_replaced};
use super::pieces::Data;
use super::put::settle;
use super::record::{Body, Record};
use super::rows::RECORD_ROW;
use super::scrubber::location_of;
use crate::catalog::ResourceKind;
use crate::codec::{Reader, put_bytes, put_text, put_time};
use crate::failure::Failure;

/// The partition of a container that lists its pending copies. Tags have names, so no entry of theirs is here.
const PARTITION: &[u8] = &[0, 0];
const VERSION: u8 = 1;
/// How often the record of a target is told how far its copy is.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// How long a target is told of no progress before somebody else makes its copy.
pub(crate) const COPY_IDLE: Duration = Duration::from_secs(5 * 60);

/// A copy that is pending: what its entry keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingCopy {
    pub id: CopyId,
    /// The partition of the blob that is to have the bytes.
    pub target: Vec<u8>,
    /// The account of the source.
    pub account: AccountName,
    pub source: BlobTarget,
    /// The ETag of the source: another one is not what was asked for.
    pub changed: DateTime,
}

/// A copy that an entry tells of.
struct NotedCopy {
    /// Its target.
    location: BlobLocation,
    /// When it was noted.
    at: DateTime,
    pending: PendingCopy,
}

/// The copies that this process is making.
#[derive(Default)]
pub(crate) struct RunningCopies(Mutex<HashMap<CopyId, AbortHandle>>);

impl RunningCopies {
    fn lock(&self) -> MutexGuard<'_, HashMap<CopyId, AbortHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blobs {
    /// Writes down that a blob is to be copied, before its record says so.
    pub async fn note_copy(&self, location: &BlobLocation, pending: &PendingCopy) -> Result<(), Failure> {
        let body: Bytes = pending.encode().into();
        self.transact(&entries_of(location), &[&pending.id.0], |_, _| {
            Ok((vec![Change::Put { index: 0, body: body.clone() }], ()))
        })
        .await
    }

    /// Makes a copy that was noted, behind the answer.
    pub fn start_copy(self: &Arc<Self>, location: BlobLocation, pending: PendingCopy) {
        let (blobs, id) = (self.clone(), pending.id);
        // Held until the copy is listed, so that it cannot end before.
        let mut running = self.running_copies.lock();
        let task = tokio::spawn(async move {
            if let Err(error) = blobs.run_copy(&location, &pending).await {
                tracing::warn!(%error, "cannot finish a copy of a blob now; the server tries again in some minutes");
            }
            blobs.running_copies.lock().remove(&id);
        });
        running.insert(id, task.abort_handle());
    }

    /// Goes on with the copies that are noted, that this process is not making and whose targets have not changed for so
    /// long. A container whose entries cannot be read keeps no other from going on.
    pub async fn resume_copies(self: &Arc<Self>, idle: Duration) -> Result<(), Failure> {
        for space in self.catalog.spaces(ResourceKind::Container).await? {
            let noted = match self.noted_copies(space).await {
                Ok(noted) => noted,
                Err(failure) => {
                    tracing::warn!(%space, %failure, "the pending copies of a container cannot be read");
                    continue;
                }
            };
            for noted in noted {
                let is_running = self.running_copies.lock().contains_key(&noted.pending.id);
                if !is_running && self.is_due(&noted, idle).await {
                    self.start_copy(noted.location, noted.pending);
                }
            }
        }
        Ok(())
    }

    /// Whether nobody makes a copy: whoever does tells its target of the progress. The entry of a copy that its target does
    /// not wait for is to be removed, unless it is so young that the target may come yet. A target that cannot be read is
    /// left to the next time.
    async fn is_due(&self, noted: &NotedCopy, idle: Duration) -> bool {
        let now = self.clock.now();
        match self.record_row(&noted.location).await {
            Ok(Some((record, changed))) if record.is_copying(noted.pending.id) => {
                now.seconds_between(changed) >= idle.as_secs()
            }
            Ok(_) => now.seconds_between(noted.at) >= COPY_IDLE.as_secs(),
            Err(_) => false,
        }
    }

    /// The noted copies of a container. An entry that cannot be read, because it is damaged or
    /// of a newer server, is left alone.
    async fn noted_copies(&self, space: SpaceId) -> Result<Vec<NotedCopy>, Failure> {
        let range = ScanRange {
            from: Position::partition_start(PARTITION),
            before: Some(Position::partition_end(PARTITION)),
        };
        let mut noted = Vec::new();
        let mut visit = |row: ScannedRow<'_>| {
            let found = PendingCopy::decode(&row.body).and_then(|pending| {
                let location = location_of(space, pending.target.clone()).ok()?;
                Some(NotedCopy { location, at: row.version, pending })
            });
            if found.is_none() {
                tracing::warn!(%space, "an entry of a pending copy cannot be read; its copy does not go on");
            }
            noted.extend(found);
            ControlFlow::Continue(())
        };
        match self.engine.scan(space, &range, &mut visit).await.map_err(Failure::from) {
            // Deleted meanwhile.
            Err(failure) if failure.is_space_missing() => Ok(Vec::new()),
            scanned => scanned.map(|()| noted),
        }
    }

    async fn run_copy(
        self: &Arc<Self>,
        location: &BlobLocation,
        pending: &PendingCopy,
    ) -> Result<(), Failure> {
        let is_pending = |record: Option<&Record>| record.is_some_and(|record| record.is_copying(pending.id));
        if is_pending(self.record(location).await?.as_ref()) {
            match self.copy_noted(location, pending).await {
                Ok(()) => {}
                Err(failure) if may_pass(&failure) => return Err(failure),
                Err(failure) => {
                    if !matches!(failure, Failure::Refused(_)) {
                        tracing::warn!(%failure, "a copy of a blob has failed");
                    }
                    let code = failure.answer(StorageService::Blob).code;
                    let description = format!("{}: {}", code.as_str(), code.message());
                    self.end_copy(location, pending.id, CopyStatus::Failed, Some(description)).await?;
                }
            }
        }
        self.forget_copy(location, pending.id).await
    }

    /// Copies the bytes and gives them to the target, if it still waits for them.
    async fn copy_noted(
        self: &Arc<Self>,
        location: &BlobLocation,
        pending: &PendingCopy,
    ) -> Result<(), Failure> {
        let copied = again_if_replaced(|| self.copy_telling(location, pending)).await?;
        let mut rows: Vec<&[u8]> = vec![RECORD_ROW];
        rows.extend(copied.further.names());
        let decide = |now: DateTime, rows: &[Option<StoredRow>]| {
            let Some(mut record) =
                record_in(location, &rows[0])?.filter(|record| record.is_copying(pending.id))
            else {
                return Err(ErrorCode::NoPendingCopyOperation.into());
            };
            record.body = copied.body.clone();
            record.changed = now;
            record.end_copy(CopyStatus::Success, None, now);
            let mut changes = vec![put_record(0, &record)];
            changes.extend(copied.further.changes(1, rows)?);
            Ok((changes, ()))
        };
        let done = self.transact(location, &rows, decide).await;
        settle(copied.unnamed, &done);
        copied.further.settle(&done);
        done
    }

    /// Copies the source, if it is still the same, and says in the record of the target now and then how far it is.
    async fn copy_telling(
        self: &Arc<Self>,
        location: &BlobLocation,
        pending: &PendingCopy,
    ) -> Result<CopiedBody, Failure> {
        let source_place = self.location(&pending.account, &pending.source.path).await?;
        let source = self.state(&source_place, &pending.source).await?;
        if source.changed != pending.changed {
            return Err(ErrorCode::SourceConditionNotMet.into());
        }
        let copied = AtomicU64::new(0);
        let mut copying = pin!(self.copy_body(&source_place, &source, location, &copied));
        let mut told = 0;
        loop {
            tokio::select! {
                done = &mut copying => return done,
                () = tokio::time::sleep(PROGRESS_EVERY) => {}
            }
            let so_far = copied.load(Ordering::Relaxed).min(source.body.length());
            if so_far > told {
                told = so_far;
                if let Err(error) = self.tell_progress(location, pending.id, so_far).await {
                    tracing::debug!(%error, "cannot record the progress of a copy");
                }
            }
        }
    }

    /// Says in the record how far a copy is, which is no part of what the ETag stands for.
    async fn tell_progress(&self, location: &BlobLocation, id: CopyId, so_far: u64) -> Result<(), Failure> {
        self.transact(location, &[RECORD_ROW], |_, rows| {
            let record = record_in(location, &rows[0])?.filter(|record| record.is_copying(id));
            let changes = record.map(|mut record| {
                record.copy = record.copy.map(|copy| CopyShown { copied: so_far, ..copy });
                put_record(0, &record)
            });
            Ok((changes.into_iter().collect(), ()))
        })
        .await
    }

    pub async fn abort_copy(&self, account: &AccountName, abort: AbortCopy) -> Result<(), Failure> {
        let location = self.location(account, &abort.blob).await?;
        let conditions = BlobConditions { lease: abort.lease, ..BlobConditions::default() };
        self.transact(&location, &[RECORD_ROW], |now, rows| {
            let mut record = existing_in(&location, &rows[0])?;
            record.lease = check_write(&conditions, Some(&record), now, Unmet::of_write)?;
            match record.pending_copy() {
                None => return Err(ErrorCode::NoPendingCopyOperation.into()),
                Some(id) if id != abort.copy => return Err(ErrorCode::CopyIdMismatch.into()),
                Some(_) => {}
            }
            record.changed = now;
            record.end_copy(CopyStatus::Aborted, None, now);
            Ok((vec![put_record(0, &record)], ()))
        })
        .await?;
        // What another server has copied so far it drops when it has finished.
        if let Some(task) = self.running_copies.lock().remove(&abort.copy) {
            task.abort();
        }
        self.forget_copy(&location, abort.copy).await
    }

    /// Says of a target how its copy has ended.
    async fn end_copy(
        &self,
        location: &BlobLocation,
        id: CopyId,
        status: CopyStatus,
        description: Option<String>,
    ) -> Result<(), Failure> {
        self.transact(location, &[RECORD_ROW], |now, rows| {
            let record = record_in(location, &rows[0])?.filter(|record| record.is_copying(id));
            let changes = record.map(|mut record| {
                record.changed = now;
                record.end_copy(status, description.clone(), now);
                put_record(0, &record)
            });
            Ok((changes.into_iter().collect(), ()))
        })
        .await
    }

    /// Removes the entry of a copy that has ended.
    async fn forget_copy(&self, location: &BlobLocation, id: CopyId) -> Result<(), Failure> {
        self.transact(&entries_of(location), &[&id.0], |_, rows| {
            let is_there = rows[0].is_some();
            Ok((is_there.then_some(Change::Delete { index: 0 }).into_iter().collect(), ()))
        })
        .await
    }

    /// The body of a target that waits for its bytes.
    pub fn empty_body(&self, source: &Record) -> Body {
        match source.kind {
            BlobKind::Block => Body::Data(Data::Inline(Bytes::new())),
            BlobKind::Append { .. } => {
                Body::Pieces { generation: self.fresh_generation(), rows: 0, count: 0, length: 0 }
            }
            BlobKind::Page { .. } => {
                Body::Pages { generations: vec![self.fresh_generation()], length: source.body.length() }
            }
        }
    }
}

impl Record {
    /// The copy that this blob is the target of, while it is under way.
    pub fn pending_copy(&self) -> Option<CopyId> {
        let copy = self.copy.as_ref().filter(|copy| copy.status == CopyStatus::Pending)?;
        Some(copy.id)
    }

    fn is_copying(&self, id: CopyId) -> bool {
        self.pending_copy() == Some(id)
    }

    /// Refuses a write to the bytes of a blob that waits for others.
    pub fn refuse_while_copying(&self) -> Result<(), ErrorCode> {
        self.pending_copy().map_or(Ok(()), |_| Err(ErrorCode::PendingCopyOperation))
    }

    /// Ends the copy of a target that is deleted: what is had back of it later waits for nobody.
    pub fn give_up_copy(&mut self, now: DateTime) {
        if self.pending_copy().is_some() {
            self.end_copy(CopyStatus::Aborted, None, now);
        }
    }

    fn end_copy(&mut self, status: CopyStatus, description: Option<String>, now: DateTime) {
        if let Some(copy) = self.copy.take() {
            let copied = if status == CopyStatus::Success { copy.total } else { copy.copied };
            let ended =
                CopyShown { status, status_description: description, copied, completed: Some(now), ..copy };
            self.copy = Some(ended);
        }
    }
}

/// Whether a copy that has failed may succeed later. Of a write whose outcome is unknown, the target will tell.
fn may_pass(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(_) => false,
        Failure::Store(error) => match error {
            EngineError::Conflict { .. }
            | EngineError::OutcomeUnknown { .. }
            | EngineError::Unavailable { .. } => true,
            EngineError::SpaceMissing { .. }
            | EngineError::TooLarge { .. }
            | EngineError::Full { .. }
            | EngineError::Damaged { .. }
            | EngineError::Failed { .. } => false,
        },
        Failure::Content(error) => match error {
            ContentError::OutcomeUnknown { .. } | ContentError::Unavailable { .. } => true,
            ContentError::Missing { .. }
            | ContentError::Source(_)
            | ContentError::Size { .. }
            | ContentError::Full { .. }
            | ContentError::Damaged { .. }
            | ContentError::Failed { .. } => false,
        },
    }
}

/// Where the entries of pending copies are, of the container of a blob.
fn entries_of(location: &BlobLocation) -> BlobLocation {
    BlobLocation { partition: PARTITION.to_vec(), ..location.clone() }
}

impl PendingCopy {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.id.0);
        put_bytes(&mut out, &self.target);
        put_text(&mut out, self.account.as_str());
        put_text(&mut out, self.source.path.container.as_str());
        put_text(&mut out, self.source.path.name.as_str());
        let (kind, time) = match self.source.moment {
            BlobMoment::Current => (0, DateTime::MIN),
            BlobMoment::Snapshot(time) => (1, time),
            BlobMoment::Version(time) => (2, time),
        };
        out.push(kind);
        put_time(&mut out, time);
        put_time(&mut out, self.changed);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::of_version(bytes, VERSION)?;
        let id = Guid(reader.array()?);
        let target = reader.bytes()?.to_vec();
        let account = AccountName::parse(&reader.text()?)?;
        let path = BlobPath {
            container: ContainerName::parse(&reader.text()?).ok()?,
            name: BlobName::parse(&reader.text()?).ok()?,
        };
        let (kind, time) = (reader.byte()?, reader.time()?);
        let moment = match kind {
            0 => BlobMoment::Current,
            1 => BlobMoment::Snapshot(time),
            2 => BlobMoment::Version(time),
            _ => return None,
        };
        let changed = reader.time()?;
        reader.is_done().then_some(Self { id, target, account, source: BlobTarget { path, moment }, changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fixture::{bytes, hex};

    const TIME: &str = "0100b3a69ea1da08";
    /// All but the moment of the source and its ETag.
    const HEAD: &str = "010707070707070707070707070707070701000000631000000064657673746f72656163636f756e743103000000626f\
        7803000000612f62";

    #[test]
    fn an_entry_keeps_its_layout_and_a_cut_one_is_refused() {
        assert_eq!(PARTITION, [0, 0]);
        let time = DateTime::from_ticks(638_000_000_000_000_001).unwrap();
        let moments = [
            (BlobMoment::Current, "000000000000000000".to_owned()),
            (BlobMoment::Snapshot(time), format!("01{TIME}")),
            (BlobMoment::Version(time), format!("02{TIME}")),
        ];
        for (moment, stored) in moments {
            let path = BlobPath {
                container: ContainerName::parse("box").unwrap(),
                name: BlobName::parse("a/b").unwrap(),
            };
            let source = BlobTarget { path, moment };
            let account = AccountName::parse("devstoreaccount1").unwrap();
            let pending =
                PendingCopy { id: Guid([7; 16]), target: b"c".to_vec(), account, source, changed: time };
            let fixture = format!("{HEAD}{stored}{TIME}");
            assert_eq!(hex(&pending.encode()), fixture);
            let stored = bytes(&fixture);
            assert_eq!(PendingCopy::decode(&stored), Some(pending));
            for length in 0..stored.len() {
                assert_eq!(PendingCopy::decode(&stored[..length]), None, "{length}");
            }
        }
    }
}
