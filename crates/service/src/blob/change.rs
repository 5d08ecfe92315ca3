//! Reading and changing the rows of a blob.

use std::ops::ControlFlow;

use bytes::Bytes;
use tavola_engine::{
    Change, Decision, Engine, Position, ScanRange, ScannedRow, SpaceId, StoredRow, Transacted,
};
use tavola_model::{AccountName, BlobMoment, BlobPath, BlobTarget, DateTime, ErrorCode, ServiceError};

use super::Blobs;
use super::prepare::decode_note;
use super::record::Record;
use super::rows::{EARLIER, Earlier, NOTE, RECORD_ROW, Role, damaged, earlier_row, partition, split_row};
use crate::catalog::ResourceKind;
use crate::failure::Failure;

/// Where the rows of a blob are.
#[derive(Clone, Debug)]
pub(crate) struct BlobLocation {
    pub account: AccountName,
    pub path: BlobPath,
    pub space: SpaceId,
    pub partition: Vec<u8>,
}

impl Blobs {
    /// Where a blob is, or would be. Its container must exist.
    pub async fn location(&self, account: &AccountName, blob: &BlobPath) -> Result<BlobLocation, Failure> {
        let found = self.find_location(account, blob).await?;
        found.ok_or_else(|| ResourceKind::Container.not_found().into())
    }

    /// The same; `None` if there is no such container.
    pub async fn find_location(
        &self,
        account: &AccountName,
        blob: &BlobPath,
    ) -> Result<Option<BlobLocation>, Failure> {
        let found = self.catalog.find(account, ResourceKind::Container, blob.container.as_str()).await?;
        Ok(found.map(|container| BlobLocation {
            account: account.clone(),
            path: blob.clone(),
            space: container.space,
            partition: partition(&blob.name),
        }))
    }

    /// The record of a blob, if there is one.
    pub async fn record(&self, location: &BlobLocation) -> Result<Option<Record>, Failure> {
        let row = self.engine.get(location.space, &location.partition, RECORD_ROW).await?;
        row.map(|row| decode_record(location, &row)).transpose()
    }

    /// The same, with the version of its row: as long as that is the same, no snapshot was taken, deleted or brought back.
    pub async fn record_row(&self, location: &BlobLocation) -> Result<Option<(Record, DateTime)>, Failure> {
        let row = self.engine.get(location.space, &location.partition, RECORD_ROW).await?;
        row.map(|row| Ok((decode_record(location, &row)?, row.version))).transpose()
    }

    /// The state of a blob that a request means. Snapshots and versions have no lease.
    pub async fn state(&self, location: &BlobLocation, target: &BlobTarget) -> Result<Record, Failure> {
        self.find_state(location, target).await?.ok_or_else(|| ErrorCode::BlobNotFound.into())
    }

    /// The same; `None` if there is no such state.
    pub async fn find_state(
        &self,
        location: &BlobLocation,
        target: &BlobTarget,
    ) -> Result<Option<Record>, Failure> {
        let (time, role) = match target.moment {
            BlobMoment::Current => return self.record(location).await,
            BlobMoment::Snapshot(time) => (time, Role::Snapshot),
            BlobMoment::Version(time) => {
                if let Some(record) = self.record(location).await?
                    && record.version == Some(time)
                {
                    return Ok(Some(record));
                }
                (time, Role::Version)
            }
        };
        let row = self.engine.get(location.space, &location.partition, &earlier_row(time)).await?;
        let Some(row) = row else { return Ok(None) };
        let earlier = Earlier::decode(&row.body).ok_or_else(|| damaged(location.space))?;
        match earlier.deleted {
            _ if earlier.role != role => Ok(None),
            None => Ok(Some(earlier.record)),
            Some(deleted) if role == Role::Version && deleted.until > self.clock.now() => {
                Err(ServiceError::deleted_version().into())
            }
            Some(_) => Ok(None),
        }
    }

    /// Changes rows of a blob as `decide` says, all together.
    pub async fn transact<T: Send>(
        &self,
        location: &BlobLocation,
        rows: &[&[u8]],
        mut decide: impl FnMut(DateTime, &[Option<StoredRow>]) -> Result<(Vec<Change>, T), Failure> + Send,
    ) -> Result<T, Failure> {
        let mut decided = None;
        let mut decide_rows = |now: DateTime, rows: &[Option<StoredRow>]| match decide(now, rows) {
            Ok((changes, value)) => {
                decided = Some(Ok(value));
                Decision::Apply(changes)
            }
            Err(refusal) => {
                decided = Some(Err(refusal));
                Decision::Refuse
            }
        };
        let done = self.engine.transact(location.space, &location.partition, rows, &mut decide_rows).await?;
        let decided = decided.expect("a transaction has asked its decide");
        assert_eq!(decided.is_ok(), matches!(done, Transacted::Applied(_)), "a refusal changes nothing");
        decided
    }

    /// Visits the rows of a blob whose key begins like this, in order, as of one moment, from one of them on and until the
    /// visitor breaks or finds one that does not say what it should (`None`). A row is not kept beyond its visit.
    pub async fn visit_rows(
        &self,
        location: &BlobLocation,
        prefix: &[u8],
        from: &[u8],
        each: impl FnMut(&[u8], Bytes) -> Option<ControlFlow<()>> + Send,
    ) -> Result<(), Failure> {
        scan_rows(self.engine.as_ref(), location, prefix, from, each).await
    }

    /// Visits the earlier states of a blob, by time.
    pub async fn visit_earlier(
        &self,
        location: &BlobLocation,
        mut each: impl FnMut(DateTime, Earlier) -> ControlFlow<()> + Send,
    ) -> Result<(), Failure> {
        self.visit_earlier_from(location, DateTime::MIN, &mut each).await
    }

    /// The same, from a time on.
    pub async fn visit_earlier_from(
        &self,
        location: &BlobLocation,
        from: DateTime,
        mut each: impl FnMut(DateTime, Earlier) -> ControlFlow<()> + Send,
    ) -> Result<(), Failure> {
        self.visit_rows(location, &[EARLIER], &earlier_row(from), |row, body| {
            let time = split_row(row).and_then(|(_, time, _)| DateTime::from_ticks(time))?;
            Some(each(time, Earlier::decode(&body)?))
        })
        .await
    }

    /// Visits the notes on generations that are being written: which, and since when no more rows were added.
    pub async fn visit_notes(
        &self,
        location: &BlobLocation,
        mut each: impl FnMut(u64, DateTime) + Send,
    ) -> Result<(), Failure> {
        self.visit_rows(location, &[NOTE], &[NOTE], |row, body| {
            each(split_row(row)?.1, decode_note(&body)?);
            Some(ControlFlow::Continue(()))
        })
        .await
    }

    /// Removes those of these rows that are there.
    pub async fn remove_rows(&self, location: &BlobLocation, rows: &[&[u8]]) -> Result<(), Failure> {
        self.transact(location, rows, |_, found| {
            let there = found.iter().enumerate().filter(|(_, row)| row.is_some());
            Ok((there.map(|(index, _)| Change::Delete { index }).collect(), ()))
        })
        .await
    }

    /// A number that no rows of the blob have had.
    pub fn fresh_generation(&self) -> u64 {
        u64::from_be_bytes(self.random.bytes())
    }
}

/// What `visit_rows` does, for whoever has only the engine.
pub(crate) async fn scan_rows(
    engine: &dyn Engine,
    location: &BlobLocation,
    prefix: &[u8],
    from: &[u8],
    mut each: impl FnMut(&[u8], Bytes) -> Option<ControlFlow<()>> + Send,
) -> Result<(), Failure> {
    let range = ScanRange {
        from: Position::at(&location.partition, from),
        before: Some(Position::partition_end(&location.partition)),
    };
    let mut is_damaged = false;
    let mut visit = |row: ScannedRow<'_>| {
        if !row.row.starts_with(prefix) {
            return ControlFlow::Break(());
        }
        each(row.row, row.body).unwrap_or_else(|| {
            is_damaged = true;
            ControlFlow::Break(())
        })
    };
    engine.scan(location.space, &range, &mut visit).await?;
    if is_damaged { Err(damaged(location.space)) } else { Ok(()) }
}

/// The record in a row that was asked for, if there is one.
pub(crate) fn record_in(location: &BlobLocation, row: &Option<StoredRow>) -> Result<Option<Record>, Failure> {
    row.as_ref().map(|row| decode_record(location, row)).transpose()
}

/// The record in a row that was asked for, or that there is no such blob.
pub(crate) fn existing_in(location: &BlobLocation, row: &Option<StoredRow>) -> Result<Record, Failure> {
    record_in(location, row)?.ok_or_else(|| ServiceError::from(ErrorCode::BlobNotFound).into())
}

fn decode_record(location: &BlobLocation, row: &StoredRow) -> Result<Record, Failure> {
    Record::decode_shared(&row.body).ok_or_else(|| damaged(location.space))
}

/// Writes a record to the first of the rows that were asked for.
pub(crate) fn put_record(index: usize, record: &Record) -> Change {
    Change::Put { index, body: record.encode().into() }
}
