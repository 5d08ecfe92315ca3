//! Removing what has expired, and raising the head past what is gone.

use tavola_engine::{Change, SpaceId, StoredRow};
use tavola_model::DateTime;

use super::Queues;
use super::live::{EXPIRED_MAX, FinishedScan, WhenFull, scan_visible};
use super::messages::{put_state, state_of};
use super::rows::{MessageHeader, QueuePosition, STATE_ROW, text_row};
use crate::catalog::ResourceKind;
use crate::failure::Failure;

/// How far a scan may be ahead of the head before that is worth a write of its own: one second.
const RAISE_TICKS_MIN: u64 = 10_000_000;
/// Living messages that a sweep goes past, so that one that never expires shields few behind it (ours).
const SWEEP_LIVING_MAX: usize = 64;
/// Transactions that one sweep spends on a queue (ours).
const SWEEP_ROUNDS_MAX: usize = 256;

impl Queues {
    /// Removes expired messages that a scan has met, and raises the head if the scan went far. Whoever finished has
    /// its answer already, so a failure is left to the next scan.
    pub(super) async fn tidy_after(
        &self,
        space: SpaceId,
        now: DateTime,
        expired: &[QueuePosition],
        finished: FinishedScan,
    ) {
        if let Err(error) = self.tidy(space, now, expired, finished).await {
            tracing::debug!(%space, %error, "cannot remove expired messages of a queue; the next scan will");
        }
    }

    async fn tidy(
        &self,
        space: SpaceId,
        now: DateTime,
        expired: &[QueuePosition],
        finished: FinishedScan,
    ) -> Result<(), Failure> {
        let gap = finished.first.ticks().saturating_sub(finished.start.head.ticks());
        if expired.is_empty() && gap < RAISE_TICKS_MIN {
            return Ok(());
        }
        let keys: Vec<([u8; 25], [u8; 17])> =
            expired.iter().map(|position| (position.row(), text_row(position.id))).collect();
        let mut rows: Vec<&[u8]> = vec![STATE_ROW];
        for (position, text) in &keys {
            rows.extend([position.as_slice(), text.as_slice()]);
        }
        let mut decide = |rows: &[Option<StoredRow>]| {
            let before = state_of(space, rows)?;
            let mut state = before;
            state.raise(finished.start, finished.first);
            let mut changes = Vec::new();
            for index in 0..expired.len() {
                let first = 1 + index * 2;
                let Some(position) = &rows[first] else { continue };
                if MessageHeader::decode(space, &position.body)?.has_expired(now) {
                    state.removed();
                    changes.extend([Change::Delete { index: first }, Change::Delete { index: first + 1 }]);
                }
            }
            if state != before {
                changes.push(put_state(state, now));
            }
            Ok(changes)
        };
        self.transact(space, &rows, &mut decide).await
    }

    /// Removes expired messages at the front of every queue, a bounded number of each.
    pub async fn sweep(&self) -> Result<(), Failure> {
        let mut failure = None;
        for space in self.catalog.spaces(ResourceKind::Queue).await? {
            // A queue that is deleted or cleared under the sweep needs none; one that fails keeps no other from it.
            if let Err(error) = self.sweep_space(space).await
                && !error.is_space_missing()
            {
                failure = Some(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn sweep_space(&self, space: SpaceId) -> Result<(), Failure> {
        let live = self.live.find(self.engine.as_ref(), self.clock.as_ref(), space).await?;
        for _ in 0..SWEEP_ROUNDS_MAX {
            let now = live.clock.now(self.clock.as_ref());
            let seen =
                scan_visible(self.engine.as_ref(), space, now, SWEEP_LIVING_MAX, WhenFull::Stop).await?;
            self.tidy(space, now, &seen.expired, seen.finished).await?;
            if seen.expired.len() < EXPIRED_MAX {
                break;
            }
        }
        Ok(())
    }
}
