//! Trying again, and committing a batch whose outcome may be unclear.
//!
//! A batch is conditioned on the tick that was read and changes it, so it can be kept only once however often it is
//! sent. After a failure the head tells what became of it, see [`PartitionHead::outcome_of`]; while nothing has, it is sent
//! again. Only if the cluster cannot be asked, or has written much since, is the outcome unknown.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tavola_engine::{Cause, StoredRow};

use crate::engine::Core;
use crate::head::{Attempt, AttemptOutcome, PartitionHead};
use crate::settings::{BACKOFF_MAX, BACKOFF_MIN, CALL_TIME_MAX};
use crate::store::{Applied, HeadLife, Partition, RowWrite, StatementError};

/// How long something is tried, and how long it waits between two tries.
pub(crate) struct Patience {
    until: Instant,
    next: Duration,
}

impl Patience {
    pub fn new() -> Self {
        Self { until: Instant::now() + CALL_TIME_MAX, next: BACKOFF_MIN }
    }

    /// Waits a while; false if there is no time for another try. The wait is by chance, so that two servers that met
    /// do not meet again.
    pub async fn wait(&mut self) -> bool {
        let chance = getrandom::u32().unwrap_or(0) % 1000;
        let wait = self.next / 2 + self.next * chance / 1000;
        if Instant::now() + wait >= self.until {
            return false;
        }
        tokio::time::sleep(wait).await;
        self.next = (self.next * 2).min(BACKOFF_MAX);
        true
    }
}

/// A batch ready to be sent.
pub(crate) struct Commit<'a> {
    pub partition: &'a Partition,
    /// The head that was read.
    pub before: &'a PartitionHead,
    /// The head that is written.
    pub after: &'a PartitionHead,
    pub attempt: Attempt,
    pub life: HeadLife,
    pub changes: &'a [RowWrite<'a>],
}

/// How a commit ended.
#[derive(Debug)]
pub(crate) enum Committed {
    Kept,
    /// Another server was first; nothing was kept and never will be.
    Lost,
    /// Nothing was kept.
    NotDone(Cause),
    Unknown(Cause),
}

impl Core {
    /// Sends a batch until it is known what became of it, or patience ends.
    pub async fn commit(&self, commit: &Commit<'_>, patience: &mut Patience) -> Committed {
        let Commit { partition, before, after, life, changes, .. } = commit;
        let mut is_unclear = false;
        loop {
            self.counters.commits.add(1);
            let cause = match self.store.write(partition, before.tick, after, *life, changes).await {
                Ok(Applied::Yes) => return Committed::Kept,
                Ok(Applied::No) if !is_unclear => return Committed::Lost,
                Ok(Applied::No) => "the condition did not hold after an unclear try".into(),
                Err(StatementError::Impossible(cause)) if !is_unclear => return Committed::NotDone(cause),
                Err(StatementError::NotDone(cause)) => cause,
                Err(StatementError::Unclear(cause) | StatementError::Impossible(cause)) => {
                    is_unclear = true;
                    cause
                }
            };
            if is_unclear {
                match self.read_rows(partition, &[], patience).await {
                    Ok((head, _)) => match head.outcome_of(commit.attempt, before.tick) {
                        AttemptOutcome::Kept => return Committed::Kept,
                        AttemptOutcome::Lost => return Committed::Lost,
                        AttemptOutcome::Unknown => return Committed::Unknown(cause),
                        AttemptOutcome::Open => {}
                    },
                    Err(trouble) => return Committed::Unknown(trouble.into_cause()),
                }
            }
            self.counters.retries.add(1);
            if !patience.wait().await {
                return if is_unclear { Committed::Unknown(cause) } else { Committed::NotDone(cause) };
            }
        }
    }

    /// The head and rows of a partition, tried until patience ends.
    pub async fn read_rows(
        &self,
        partition: &Partition,
        keys: &[Bytes],
        patience: &mut Patience,
    ) -> Result<(PartitionHead, Vec<(Bytes, StoredRow)>), StatementError> {
        self.patiently(patience, || self.store.read_rows(partition, keys)).await
    }

    /// Does what can be done twice until it succeeds, cannot succeed, or patience ends.
    pub async fn patiently<T, F: Future<Output = Result<T, StatementError>> + Send>(
        &self,
        patience: &mut Patience,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<T, StatementError> {
        loop {
            match work().await {
                Err(trouble @ (StatementError::NotDone(_) | StatementError::Unclear(_))) => {
                    self.counters.retries.add(1);
                    if !patience.wait().await {
                        return Err(trouble);
                    }
                }
                done => return done,
            }
        }
    }
}
