//! *unknown is not failed*: if the changes may or may not be kept, the error is `OutcomeUnknown`; every other
//! error means that nothing was kept.
//!
//! Each task writes its own row over and over, without trying again, and knows after each answer which contents
//! the row may have. On an engine that never fails that is always one.

use bytes::Bytes;

use super::{Client, Harness, Reopen};
use crate::{Change, Decision, EngineError, SpaceId, StoredRow};

const TASKS: u8 = 16;
const ROUNDS: u32 = 60;

pub(super) async fn check(harness: &dyn Harness) {
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(write(client.clone(), space, task))).collect();
    let mut possible = Vec::new();
    for task in tasks {
        possible.push(task.await.expect("the task finishes"));
    }
    drop(client);
    harness.reopen(Reopen::Crashed).await;
    let client = Client::of(harness);
    for (task, bodies) in (0..TASKS).zip(possible) {
        let body = client.body(space, &[task % 3], &[task]).await;
        assert!(bodies.contains(&body), "row {task} is {body:?}, which is none of {bodies:?}");
    }
}

/// Writes one row often; gives the contents that it may have in the end.
async fn write(client: Client, space: SpaceId, task: u8) -> Vec<Option<Bytes>> {
    let mut possible: Vec<Option<Bytes>> = vec![None];
    for round in 0..ROUNDS {
        let new = (round % 5 != 4).then(|| Bytes::copy_from_slice(&round.to_be_bytes()));
        let mut seen = None;
        let mut decide = |_, found: &[Option<StoredRow>]| {
            seen = Some(found[0].as_ref().map(|row| row.body.clone()));
            Decision::Apply(vec![match &new {
                Some(body) => Change::Put { index: 0, body: body.clone() },
                None => Change::Delete { index: 0 },
            }])
        };
        let outcome = client.engine.transact(space, &[task % 3], &[&[task]], &mut decide).await;
        if let Some(seen) = seen {
            assert!(possible.contains(&seen), "row {task} was {seen:?}, which is none of {possible:?}");
        }
        match outcome {
            Ok(_) => possible = vec![new],
            Err(EngineError::OutcomeUnknown { .. }) => possible.push(new),
            Err(
                EngineError::Conflict { .. } | EngineError::Unavailable { .. } | EngineError::Failed { .. },
            ) => {}
            Err(
                error @ (EngineError::SpaceMissing { .. }
                | EngineError::Full { .. }
                | EngineError::TooLarge { .. }
                | EngineError::Damaged { .. }),
            ) => panic!("unexpected error: {error}"),
        }
    }
    possible
}
