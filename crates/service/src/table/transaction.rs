//! Entity group transactions: up to a hundred writes to one partition, all or none.

use std::collections::HashSet;

use tavola_engine::{Decision, Engine, SpaceId, StoredRow, Transacted};
use tavola_model::{DateTime, EntityWrite, ErrorCode, KeyBytes, ServiceError, WriteOutcome};

use super::entities::{decide, outcome};
use crate::failure::Failure;

/// Applies all writes, or none and says which one failed.
pub(crate) async fn transact_entities(
    engine: &dyn Engine,
    space: SpaceId,
    writes: Vec<EntityWrite>,
) -> Result<Vec<WriteOutcome>, Failure> {
    check_group(&writes)?;
    let Some(first) = writes.first() else { return Ok(Vec::new()) };
    let partition = first.key.partition.to_bytes();
    let row_keys: Vec<KeyBytes> = writes.iter().map(|write| write.key.row.to_bytes()).collect();
    let row_keys: Vec<&[u8]> = row_keys.iter().map(KeyBytes::as_slice).collect();
    let mut refusal = None;
    let mut decide_all = |_: DateTime, rows: &[Option<StoredRow>]| {
        let mut changes = Vec::with_capacity(writes.len());
        for (index, (write, stored)) in writes.iter().zip(rows).enumerate() {
            match decide(space, write, stored.as_ref()) {
                Ok(decision) => changes.push(decision.into_change(index)),
                Err(error) => {
                    refusal = Some(error.at_operation(index));
                    return Decision::Refuse;
                }
            }
        }
        Decision::Apply(changes)
    };
    let done = engine.transact(space, partition.as_slice(), &row_keys, &mut decide_all).await;
    match done? {
        Transacted::Applied(version) => Ok(writes.into_iter().map(|write| outcome(write, version)).collect()),
        Transacted::Refused => Err(refusal.expect("a decide that refuses says why")),
    }
}

/// One partition, each entity once; the first operation that breaks a rule is named.
fn check_group(writes: &[EntityWrite]) -> Result<(), Failure> {
    let mut seen = HashSet::with_capacity(writes.len());
    for (index, write) in writes.iter().enumerate() {
        if write.key.partition != writes[0].key.partition {
            let code = ErrorCode::CommandsInBatchActOnDifferentPartitions;
            return Err(ServiceError::new(code).at_operation(index).into());
        }
        if !seen.insert(write.key.row.as_str()) {
            return Err(ServiceError::new(ErrorCode::InvalidDuplicateRow).at_operation(index).into());
        }
    }
    Ok(())
}
