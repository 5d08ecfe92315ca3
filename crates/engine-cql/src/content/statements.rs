//! The statements of contents. All are plain writes and reads at QUORUM, and can be done twice.

use bytes::Bytes;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tavola_engine::{Content, ContentId, FoundContent, Owner, SpaceId};

use super::chunks::{Chunk, chunk_position};
use crate::store::{StatementError, impossible, trouble};

/// Shards of the list of a day's contents. Part of the stored form.
pub(super) const SHARDS: i16 = 8;
/// The one partition that lists days.
const DAYS: &str = "days";
/// Ticks of a day.
const DAY_TICKS: u64 = 24 * 3600 * 10_000_000;

/// Where the entry of a content is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentKey {
    pub(super) space: SpaceId,
    pub(super) id: ContentId,
}

impl ContentKey {
    pub(super) fn of(space: SpaceId, id: ContentId) -> Self {
        Self { space, id }
    }

    pub(super) fn day(&self) -> i32 {
        day_of(self.id)
    }

    fn shard(&self) -> i16 {
        let hash = xxhash_rust::xxh3::xxh3_64(&self.id.0) % SHARDS.unsigned_abs() as u64;
        i16::try_from(hash).expect("there are few shards")
    }
}

/// The day on which an id was given.
pub(super) fn day_of(id: ContentId) -> i32 {
    let (time, _) = id.0.split_first_chunk().expect("an id has sixteen bytes");
    i32::try_from(u64::from_be_bytes(*time) / DAY_TICKS).unwrap_or(i32::MAX)
}

/// An entry of the list of contents.
#[derive(Clone, Debug)]
pub(super) struct ContentEntry {
    pub(super) id: ContentId,
    pub(super) owner: Vec<u8>,
    /// Partitions of chunks that there may be.
    pub(super) segments: i32,
    /// `None` while it cannot be read.
    pub(super) length: Option<u64>,
}

impl ContentEntry {
    pub(super) fn found(self, space: SpaceId) -> FoundContent {
        let content = Content { id: self.id, length: self.length.unwrap_or(0) };
        FoundContent { content, owner: Owner { space, partition: self.owner } }
    }
}

pub(super) struct Statements {
    list_day: PreparedStatement,
    unlist_day: PreparedStatement,
    read_days: PreparedStatement,
    begin: PreparedStatement,
    finish: PreparedStatement,
    unfinish: PreparedStatement,
    forget: PreparedStatement,
    read_entry: PreparedStatement,
    read_entries: PreparedStatement,
    write_chunk: PreparedStatement,
    read_chunk: PreparedStatement,
    delete_segment: PreparedStatement,
}

impl Statements {
    pub(super) async fn prepare(session: &Session) -> Result<Self, PrepareError> {
        let prepare = async |text: &str| -> Result<PreparedStatement, PrepareError> {
            let mut statement = session.prepare(text).await?;
            statement.set_consistency(Consistency::Quorum);
            Ok(statement)
        };
        let entry = "WHERE space = ? AND day = ? AND shard = ? AND id";
        let segment = "WHERE space = ? AND id = ? AND segment = ?";
        Ok(Self {
            list_day: prepare("INSERT INTO content_day (list, space, day) VALUES (?, ?, ?)").await?,
            unlist_day: prepare("DELETE FROM content_day WHERE list = ? AND space = ? AND day = ?").await?,
            read_days: prepare(
                "SELECT space, day FROM content_day WHERE list = ? AND (space, day) >= (?, ?) LIMIT ?",
            )
            .await?,
            begin: prepare(&format!("UPDATE content SET owner = ?, segments = ? {entry} = ?")).await?,
            finish: prepare(&format!("UPDATE content SET length = ?, segments = ? {entry} = ?")).await?,
            unfinish: prepare(&format!("DELETE length FROM content {entry} = ?")).await?,
            forget: prepare(&format!("DELETE FROM content {entry} = ?")).await?,
            read_entry: prepare(&format!("SELECT id, owner, segments, length FROM content {entry} = ?"))
                .await?,
            read_entries: prepare(&format!(
                "SELECT id, owner, segments, length FROM content {entry} > ? LIMIT ?"
            ))
            .await?,
            write_chunk: prepare(
                "INSERT INTO chunk (space, id, segment, n, body, sums) VALUES (?, ?, ?, ?, ?, ?)",
            )
            .await?,
            read_chunk: prepare(&format!("SELECT body, sums FROM chunk {segment} AND n = ?")).await?,
            delete_segment: prepare(&format!("DELETE FROM chunk {segment}")).await?,
        })
    }

    /// Lists the day of a content.
    pub(super) async fn list_day(
        &self,
        session: &Session,
        space: SpaceId,
        day: i32,
    ) -> Result<(), StatementError> {
        execute(session, &self.list_day, (DAYS, &space.0, day)).await.map(|_| ())
    }

    pub(super) async fn unlist_day(
        &self,
        session: &Session,
        space: SpaceId,
        day: i32,
    ) -> Result<(), StatementError> {
        execute(session, &self.unlist_day, (DAYS, &space.0, day)).await.map(|_| ())
    }

    /// The days from one on, by space.
    pub(super) async fn read_days(
        &self,
        session: &Session,
        from: (SpaceId, i32),
        days_max: i32,
    ) -> Result<Vec<(SpaceId, i32)>, StatementError> {
        let found = execute(session, &self.read_days, (DAYS, &from.0.0, from.1, days_max)).await?;
        let found = found.into_rows_result().map_err(impossible)?;
        let mut days = Vec::new();
        for row in found.rows::<(Bytes, i32)>().map_err(impossible)? {
            let (space, day) = row.map_err(impossible)?;
            let space = space[..].try_into().map_err(impossible)?;
            days.push((SpaceId(space), day));
        }
        Ok(days)
    }

    /// Notes that a content is coming, which may have so many segments.
    pub(super) async fn begin(
        &self,
        session: &Session,
        key: &ContentKey,
        owner: &[u8],
        segments: i32,
    ) -> Result<(), StatementError> {
        let values = (owner, segments, &key.space.0, key.day(), key.shard(), &key.id.0);
        execute(session, &self.begin, values).await.map(|_| ())
    }

    /// Lets a content be read.
    pub(super) async fn finish(
        &self,
        session: &Session,
        key: &ContentKey,
        length: u64,
        segments: i32,
    ) -> Result<(), StatementError> {
        let values = (length.cast_signed(), segments, &key.space.0, key.day(), key.shard(), &key.id.0);
        execute(session, &self.finish, values).await.map(|_| ())
    }

    /// Lets a content be read no more.
    pub(super) async fn unfinish(&self, session: &Session, key: &ContentKey) -> Result<(), StatementError> {
        let values = (&key.space.0, key.day(), key.shard(), &key.id.0);
        execute(session, &self.unfinish, values).await.map(|_| ())
    }

    /// Removes the entry of a content that has no chunks.
    pub(super) async fn forget(&self, session: &Session, key: &ContentKey) -> Result<(), StatementError> {
        let values = (&key.space.0, key.day(), key.shard(), &key.id.0);
        execute(session, &self.forget, values).await.map(|_| ())
    }

    pub(super) async fn read_entry(
        &self,
        session: &Session,
        key: &ContentKey,
    ) -> Result<Option<ContentEntry>, StatementError> {
        let values = (&key.space.0, key.day(), key.shard(), &key.id.0);
        let found = execute(session, &self.read_entry, values).await?;
        Ok(entries(found)?.into_iter().next())
    }

    /// The first entries of a shard behind an id.
    pub(super) async fn read_entries(
        &self,
        session: &Session,
        (space, day): (SpaceId, i32),
        shard: i16,
        behind: ContentId,
        entries_max: i32,
    ) -> Result<Vec<ContentEntry>, StatementError> {
        let values = (&space.0, day, shard, &behind.0, entries_max);
        entries(execute(session, &self.read_entries, values).await?)
    }

    pub(super) async fn write_chunk(
        &self,
        session: &Session,
        key: &ContentKey,
        chunk: &Chunk,
    ) -> Result<(), StatementError> {
        let (segment, n) = chunk_position(chunk.number);
        let values = (&key.space.0, &key.id.0, segment, n, &chunk.body, &chunk.sums);
        execute(session, &self.write_chunk, values).await.map(|_| ())
    }

    pub(super) async fn read_chunk(
        &self,
        session: &Session,
        key: &ContentKey,
        number: u64,
    ) -> Result<Option<Chunk>, StatementError> {
        let (segment, n) = chunk_position(number);
        let found = execute(session, &self.read_chunk, (&key.space.0, &key.id.0, segment, n)).await?;
        let found = found.into_rows_result().map_err(impossible)?;
        let row = found.maybe_first_row::<(Option<Bytes>, Option<Vec<u8>>)>().map_err(impossible)?;
        Ok(row.map(|(body, sums)| Chunk {
            number,
            body: body.unwrap_or_default(),
            sums: sums.unwrap_or_default(),
        }))
    }

    pub(super) async fn delete_segment(
        &self,
        session: &Session,
        key: &ContentKey,
        segment: i32,
    ) -> Result<(), StatementError> {
        execute(session, &self.delete_segment, (&key.space.0, &key.id.0, segment)).await.map(|_| ())
    }
}

fn entries(found: scylla::response::query_result::QueryResult) -> Result<Vec<ContentEntry>, StatementError> {
    let found = found.into_rows_result().map_err(impossible)?;
    type Found = (Bytes, Option<Bytes>, Option<i32>, Option<i64>);
    let mut entries = Vec::new();
    for row in found.rows::<Found>().map_err(impossible)? {
        let (id, owner, segments, length) = row.map_err(impossible)?;
        entries.push(ContentEntry {
            id: ContentId(id[..].try_into().map_err(impossible)?),
            owner: owner.map(Vec::from).unwrap_or_default(),
            segments: segments.unwrap_or(0),
            length: length.map(i64::cast_unsigned),
        });
    }
    Ok(entries)
}

async fn execute(
    session: &Session,
    statement: &PreparedStatement,
    values: impl SerializeRow,
) -> Result<scylla::response::query_result::QueryResult, StatementError> {
    session.execute_unpaged(statement, values).await.map_err(trouble)
}
