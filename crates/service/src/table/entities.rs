//! What a change makes of one entity.
//!
//! `decide` is the whole of the service's rules for a single entity: it looks at what is stored and gives what
//! is to be stored, or refuses. It is pure, because an engine may ask it again.

use bytes::Bytes;
use tavola_engine::{Change, Decision, Engine, SpaceId, StoredRow, Transacted};
use tavola_model::{
    DateTime, ENTITY_BYTES_MAX, ENTITY_PROPERTIES_MAX, EntityChange, EntityKey, EntityWrite, ErrorCode, Etag,
    EtagCondition, Properties, StoredEntity, WriteOutcome,
};

use crate::failure::Failure;

/// Reads one entity.
pub(crate) async fn fetch_entity(
    engine: &dyn Engine,
    space: SpaceId,
    key: &EntityKey,
) -> Result<StoredEntity, Failure> {
    let (partition, row) = (key.partition.as_bytes(), key.row.as_bytes());
    let stored = engine.get(space, &partition, &row).await?;
    let stored = stored.ok_or(ErrorCode::ResourceNotFound)?;
    let properties = decode_properties(space, &stored.body)?;
    Ok(StoredEntity { key: key.clone(), timestamp: stored.version, properties })
}

/// Writes one entity.
pub(crate) async fn write_entity(
    engine: &dyn Engine,
    space: SpaceId,
    write: EntityWrite,
) -> Result<WriteOutcome, Failure> {
    let mut refusal = None;
    let done = {
        let (partition, row) = (write.key.partition.as_bytes(), write.key.row.as_bytes());
        let mut decide_row =
            |_: DateTime, rows: &[Option<StoredRow>]| match decide(space, &write, rows[0].as_ref()) {
                Ok(decision) => Decision::Apply(vec![decision.into_change(0)]),
                Err(error) => {
                    refusal = Some(error);
                    Decision::Refuse
                }
            };
        engine.transact(space, &partition, &[&row], &mut decide_row).await
    };
    match done? {
        Transacted::Applied(version) => Ok(outcome(write, version)),
        Transacted::Refused => Err(refusal.expect("a decide that refuses says why")),
    }
}

/// What becomes of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntityDecision {
    Put(Properties),
    Delete,
}

impl EntityDecision {
    /// The change of the row at this index.
    pub fn into_change(self, index: usize) -> Change {
        match self {
            EntityDecision::Put(properties) => Change::Put { index, body: properties.as_bytes().clone() },
            EntityDecision::Delete => Change::Delete { index },
        }
    }
}

/// What a write makes of the stored row, or why it is refused. An inserted entity keeps the order of its
/// properties; any update leaves them sorted by name, as on the real service.
pub(super) fn decide(
    space: SpaceId,
    write: &EntityWrite,
    stored: Option<&StoredRow>,
) -> Result<EntityDecision, Failure> {
    let merge_into = |row: &StoredRow, changes: &Properties| {
        Ok::<_, Failure>(decode_properties(space, &row.body)?.merged(changes))
    };
    let properties = match &write.change {
        EntityChange::Insert(properties) => match stored {
            None => properties.clone(),
            Some(_) => return Err(ErrorCode::EntityAlreadyExists.into()),
        },
        EntityChange::InsertOrReplace(properties) => properties.sorted(),
        EntityChange::InsertOrMerge(changes) => match stored {
            None => changes.sorted(),
            Some(row) => merge_into(row, changes)?,
        },
        EntityChange::Update(properties, condition) => {
            existing(stored, *condition)?;
            properties.sorted()
        }
        EntityChange::Merge(changes, condition) => merge_into(existing(stored, *condition)?, changes)?,
        EntityChange::Delete(condition) => {
            existing(stored, *condition)?;
            return Ok(EntityDecision::Delete);
        }
    };
    if properties.len() > ENTITY_PROPERTIES_MAX {
        return Err(ErrorCode::TooManyProperties.into());
    }
    if properties.entity_exceeds(&write.key, ENTITY_BYTES_MAX) {
        return Err(ErrorCode::EntityTooLarge.into());
    }
    Ok(EntityDecision::Put(properties))
}

/// What a write that was kept under this version gives.
pub(super) fn outcome(write: EntityWrite, version: DateTime) -> WriteOutcome {
    let EntityWrite { key, change } = write;
    match change {
        EntityChange::Insert(properties) => {
            WriteOutcome::Inserted(StoredEntity { key, timestamp: version, properties })
        }
        EntityChange::InsertOrReplace(_)
        | EntityChange::InsertOrMerge(_)
        | EntityChange::Update(..)
        | EntityChange::Merge(..) => WriteOutcome::Updated { key, etag: Etag(version) },
        EntityChange::Delete(_) => WriteOutcome::Deleted,
    }
}

/// The properties in the body of a row.
pub(super) fn decode_properties(space: SpaceId, body: &Bytes) -> Result<Properties, Failure> {
    Properties::from_bytes(body.clone()).ok_or_else(|| Failure::damaged(space, "the properties of an entity"))
}

fn existing(stored: Option<&StoredRow>, condition: EtagCondition) -> Result<&StoredRow, Failure> {
    let row = stored.ok_or(ErrorCode::ResourceNotFound)?;
    if !condition.admits(row.version) {
        return Err(ErrorCode::UpdateConditionNotSatisfied.into());
    }
    Ok(row)
}
