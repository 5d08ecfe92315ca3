//! The statements, and what their failures mean.
//!
//! Reads of rows are at SERIAL: they settle a write that was left halfway before they look, so what is read is never
//! half of a batch and never goes back. Writes of rows are conditional batches only; nothing else may ever write to a
//! partition that lives. The directory is read and written at QUORUM.

use bytes::Bytes;
use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use tavola_engine::{Cause, StoredRow};
use tavola_model::DateTime;

use crate::engine::ConnectError;
use crate::head::{Listing, PartitionHead};

/// The key of a head. Keys of rows begin with [`ROW_PREFIX`], so it comes before them.
pub(crate) const HEAD_KEY: &[u8] = &[0];
/// What keys of rows begin with.
pub(crate) const ROW_PREFIX: u8 = 1;
/// Seconds that the head of a partition without rows is kept: a week. Until then its ticks cannot go back even if a
/// clock does.
const EMPTY_HEAD_SECONDS: i32 = 7 * 24 * 60 * 60;

/// Names a space in the tables. Fresh each time a space is made, so a space made again shares nothing with the old.
pub(crate) type StoredSpace = [u8; 16];

/// A partition in the tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Partition {
    pub space: StoredSpace,
    pub bytes: Bytes,
}

/// A row as it becomes; `None` if it is deleted.
pub(crate) type RowWrite<'a> = (&'a Bytes, Option<&'a StoredRow>);

/// Why a statement gave no result.
#[derive(Debug)]
pub(crate) enum StatementError {
    /// The cluster did not take it. It may be tried again.
    NotDone(Cause),
    /// It may have been done. What can be done twice may be tried again.
    Unclear(Cause),
    /// It will never be done.
    Impossible(Cause),
}

impl StatementError {
    pub fn into_cause(self) -> Cause {
        match self {
            StatementError::NotDone(cause)
            | StatementError::Unclear(cause)
            | StatementError::Impossible(cause) => cause,
        }
    }
}

/// Whether a conditional batch was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Yes,
    No,
}

/// Where a head lives after it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadLife {
    Lasting,
    /// For a partition without rows.
    Expiring,
}

/// One page of a partition.
pub(crate) struct Page {
    /// The tick of the partition; `None` if the page is empty.
    pub tick: Option<u64>,
    pub rows: Vec<(Bytes, StoredRow)>,
}

/// The cluster, with its statements prepared.
pub(crate) struct ClusterStore {
    pub session: Session,
    read_rows: PreparedStatement,
    read_row: PreparedStatement,
    read_page: PreparedStatement,
    set_head: PreparedStatement,
    set_head_expiring: PreparedStatement,
    put_row: PreparedStatement,
    delete_row: PreparedStatement,
    delete_partition: PreparedStatement,
    list: PreparedStatement,
    unlist: PreparedStatement,
    read_directory: PreparedStatement,
    delete_directory: PreparedStatement,
}

type Values<'a> = Box<dyn SerializeRow + Send + Sync + 'a>;

impl ClusterStore {
    pub async fn prepare(session: Session) -> Result<Self, ConnectError> {
        let prepare = async |text: &str, consistency| -> Result<PreparedStatement, ConnectError> {
            let mut statement = session.prepare(text).await.map_err(ConnectError::failed)?;
            statement.set_consistency(consistency);
            Ok(statement)
        };
        let (serial, quorum) = (Consistency::Serial, Consistency::Quorum);
        let of_row = "WHERE space = ? AND part = ? AND key";
        Ok(Self {
            read_rows: prepare(
                &format!("SELECT key, tick, recent, listed, version, body FROM row {of_row} IN ?"),
                serial,
            )
            .await?,
            read_row: prepare(&format!("SELECT version, body FROM row {of_row} = ?"), serial).await?,
            read_page: prepare(
                &format!("SELECT key, tick, version, body FROM row {of_row} >= ? AND key < ? LIMIT ?"),
                serial,
            )
            .await?,
            set_head: prepare(
                &format!("UPDATE row SET tick = ?, recent = ?, listed = ? {of_row} = ? IF tick = ?"),
                quorum,
            )
            .await?,
            set_head_expiring: prepare(
                &format!(
                    "UPDATE row USING TTL {EMPTY_HEAD_SECONDS} SET tick = ?, recent = ?, listed = ? {of_row} = ? IF tick = ?"
                ),
                quorum,
            )
            .await?,
            put_row: prepare(&format!("UPDATE row SET version = ?, body = ? {of_row} = ?"), quorum).await?,
            delete_row: prepare(&format!("DELETE FROM row {of_row} = ?"), quorum).await?,
            delete_partition: prepare("DELETE FROM row WHERE space = ? AND part = ?", quorum).await?,
            list: prepare(
                "INSERT INTO directory (space, shard, part, generation) VALUES (?, ?, ?, ?)",
                quorum,
            )
            .await?,
            unlist: prepare(
                "DELETE FROM directory WHERE space = ? AND shard = ? AND part = ? AND generation = ?",
                quorum,
            )
            .await?,
            read_directory: prepare(
                "SELECT part, generation FROM directory WHERE space = ? AND shard = ? AND part >= ? LIMIT ?",
                quorum,
            )
            .await?,
            delete_directory: prepare("DELETE FROM directory WHERE space = ? AND shard = ?", quorum).await?,
            session,
        })
    }

    /// The head of a partition and those of the rows that exist, as of one moment.
    pub async fn read_rows(
        &self,
        partition: &Partition,
        keys: &[Bytes],
    ) -> Result<(PartitionHead, Vec<(Bytes, StoredRow)>), StatementError> {
        let mut all: Vec<&[u8]> = keys.iter().map(|key| key.as_ref()).collect();
        all.push(HEAD_KEY);
        let found = self.execute(&self.read_rows, (&partition.space, partition.bytes.as_ref(), all)).await?;
        let found = found.into_rows_result().map_err(impossible)?;
        let (mut head, mut rows) = (PartitionHead::default(), Vec::new());
        type Found = (Bytes, Option<i64>, Option<Bytes>, Option<i64>, Option<i64>, Option<Bytes>);
        for row in found.rows::<Found>().map_err(impossible)? {
            let (key, tick, recent, listed, version, body) = row.map_err(impossible)?;
            if key == HEAD_KEY {
                let recent = PartitionHead::decode_recent(recent.as_deref().unwrap_or_default());
                let recent = recent
                    .ok_or_else(|| StatementError::Impossible("the head of a partition is damaged".into()))?;
                let listing =
                    listed.map_or(Listing::Unlisted, |listed| Listing::Listed(listed.cast_unsigned()));
                head = PartitionHead { tick: tick.map(i64::cast_unsigned), recent, listing };
            } else {
                rows.push((key, stored_row(version, body)?));
            }
        }
        Ok((head, rows))
    }

    /// One row.
    pub async fn read_row(
        &self,
        partition: &Partition,
        key: &[u8],
    ) -> Result<Option<StoredRow>, StatementError> {
        let values = (&partition.space, partition.bytes.as_ref(), key);
        let found = self.execute(&self.read_row, values).await?.into_rows_result().map_err(impossible)?;
        let row = found.maybe_first_row::<(Option<i64>, Option<Bytes>)>().map_err(impossible)?;
        row.map(|(version, body)| stored_row(version, body)).transpose()
    }

    /// The first rows between two keys, as of one moment.
    pub async fn read_page(
        &self,
        partition: &Partition,
        from: &[u8],
        before: &[u8],
        rows_max: i32,
    ) -> Result<Page, StatementError> {
        let values = (&partition.space, partition.bytes.as_ref(), from, before, rows_max);
        let found = self.execute(&self.read_page, values).await?.into_rows_result().map_err(impossible)?;
        let mut page = Page { tick: None, rows: Vec::with_capacity(found.rows_num()) };
        for row in found.rows::<(Bytes, Option<i64>, Option<i64>, Option<Bytes>)>().map_err(impossible)? {
            let (key, tick, version, body) = row.map_err(impossible)?;
            page.tick = tick.map(i64::cast_unsigned);
            page.rows.push((key, stored_row(version, body)?));
        }
        Ok(page)
    }

    /// Changes rows and the head together, if the head still has the tick `before`.
    pub async fn write(
        &self,
        partition: &Partition,
        before: Option<u64>,
        head: &PartitionHead,
        life: HeadLife,
        changes: &[RowWrite<'_>],
    ) -> Result<Applied, StatementError> {
        let (space, part) = (&partition.space, partition.bytes.as_ref());
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(Consistency::Quorum);
        batch.set_serial_consistency(Some(SerialConsistency::Serial));
        let mut values: Vec<Values<'_>> = Vec::with_capacity(changes.len() + 1);
        let listed = match head.listing {
            Listing::Unlisted => None,
            Listing::Listed(generation) => Some(generation.cast_signed()),
        };
        let tick = head.tick.map(u64::cast_signed);
        let before = before.map(u64::cast_signed);
        batch.append_statement(match life {
            HeadLife::Lasting => self.set_head.clone(),
            HeadLife::Expiring => self.set_head_expiring.clone(),
        });
        values.push(Box::new((tick, head.encode_recent(), listed, space, part, HEAD_KEY, before)));
        for (key, row) in changes {
            match row {
                Some(row) => {
                    let version = row.version.ticks().cast_signed();
                    batch.append_statement(self.put_row.clone());
                    values.push(Box::new((version, &row.body, space, part, key.as_ref())));
                }
                None => {
                    batch.append_statement(self.delete_row.clone());
                    values.push(Box::new((space, part, key.as_ref())));
                }
            }
        }
        let answer = self.session.batch(&batch, values).await.map_err(trouble)?;
        // The batch was executed, so an answer that cannot be read leaves it open whether it was kept.
        let answer = answer.into_rows_result().map_err(unclear)?;
        // Cassandra gives more columns where the condition fails; the first one is `[applied]` in any case.
        let row = answer.maybe_first_row::<scylla::value::Row>().map_err(unclear)?;
        let applied = row.and_then(|row| row.columns.into_iter().next().flatten());
        match applied.and_then(|value| value.as_boolean()) {
            Some(true) => Ok(Applied::Yes),
            Some(false) => Ok(Applied::No),
            None => {
                Err(StatementError::Unclear("the cluster did not say whether the write was applied".into()))
            }
        }
    }

    /// Removes all of a partition of a space that is gone. Never of one that lives: the write has no condition.
    pub async fn delete_partition(&self, partition: &Partition) -> Result<(), StatementError> {
        let values = (&partition.space, partition.bytes.as_ref());
        self.execute(&self.delete_partition, values).await.map(|_| ())
    }

    /// Adds an entry to the directory.
    pub async fn list(
        &self,
        partition: &Partition,
        shard: i16,
        generation: u64,
    ) -> Result<(), StatementError> {
        let values = (&partition.space, shard, partition.bytes.as_ref(), generation.cast_signed());
        self.execute(&self.list, values).await.map(|_| ())
    }

    /// Removes an entry from the directory.
    pub async fn unlist(
        &self,
        partition: &Partition,
        shard: i16,
        generation: u64,
    ) -> Result<(), StatementError> {
        let values = (&partition.space, shard, partition.bytes.as_ref(), generation.cast_signed());
        self.execute(&self.unlist, values).await.map(|_| ())
    }

    /// The first entries of a shard of the directory from a partition on.
    pub async fn read_directory(
        &self,
        space: &StoredSpace,
        shard: i16,
        from: &[u8],
        entries_max: i32,
    ) -> Result<Vec<(Bytes, u64)>, StatementError> {
        let found = self.execute(&self.read_directory, (space, shard, from, entries_max)).await?;
        let found = found.into_rows_result().map_err(impossible)?;
        let entries = found.rows::<(Bytes, i64)>().map_err(impossible)?;
        entries
            .map(|entry| {
                entry.map(|(part, generation)| (part, generation.cast_unsigned())).map_err(impossible)
            })
            .collect()
    }

    /// Removes a shard of the directory of a space that is gone.
    pub async fn delete_directory(&self, space: &StoredSpace, shard: i16) -> Result<(), StatementError> {
        self.execute(&self.delete_directory, (space, shard)).await.map(|_| ())
    }

    async fn execute(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<scylla::response::query_result::QueryResult, StatementError> {
        self.session.execute_unpaged(statement, values).await.map_err(trouble)
    }
}

/// The key of a row in the tables.
pub(crate) fn stored_key(row: &[u8]) -> Bytes {
    let mut key = Vec::with_capacity(row.len() + 1);
    key.push(ROW_PREFIX);
    key.extend_from_slice(row);
    key.into()
}

fn stored_row(version: Option<i64>, body: Option<Bytes>) -> Result<StoredRow, StatementError> {
    let version = version.and_then(|version| DateTime::from_ticks(version.cast_unsigned()));
    match (version, body) {
        (Some(version), Some(body)) => Ok(StoredRow { version, body }),
        _ => Err(StatementError::Impossible("a stored row has no version or no body".into())),
    }
}

pub(crate) fn impossible(error: impl std::error::Error + Send + Sync + 'static) -> StatementError {
    StatementError::Impossible(error.into())
}

fn unclear(error: impl std::error::Error + Send + Sync + 'static) -> StatementError {
    StatementError::Unclear(error.into())
}

/// What a failure says about the statement. Whatever is not plain is unclear.
pub(crate) fn trouble(error: ExecutionError) -> StatementError {
    let kind = match &error {
        ExecutionError::BadQuery(_) => StatementError::Impossible,
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => StatementError::NotDone,
        ExecutionError::LastAttemptError(attempt) => match attempt {
            RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => {
                StatementError::Impossible
            }
            RequestAttemptError::UnableToAllocStreamId => StatementError::NotDone,
            RequestAttemptError::DbError(error, _) => match error {
                DbError::SyntaxError
                | DbError::Invalid
                | DbError::Unauthorized
                | DbError::AuthenticationError
                | DbError::ConfigError => StatementError::Impossible,
                DbError::Unavailable { .. } | DbError::IsBootstrapping => StatementError::NotDone,
                _ => StatementError::Unclear,
            },
            _ => StatementError::Unclear,
        },
        _ => StatementError::Unclear,
    };
    kind(error.into())
}
