//! Get Messages: claim, then hide in one transaction.

use std::sync::Arc;

use tavola_engine::{Change, SpaceId, StoredRow};
use tavola_model::{DateTime, GetMessages, Message, MessageHold, PopReceipt};

use super::Queues;
use super::live::{Claim, LiveQueue};
use super::messages::{later, put_state, state_of};
use super::rows::{MessageHeader, QueuePosition, STATE_ROW, decode_text, text_row};
use crate::failure::Failure;

/// How often a get scans again because messages it had claimed were gone (ours).
const ROUNDS_MAX: usize = 8;

/// Rows of a claimed message in the transaction, behind the state: its position, its next position, its text.
const ROWS_EACH: usize = 3;

/// Whether another scan may find more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    Some,
}

impl Queues {
    /// Hides the first visible messages from everyone else, and gives them.
    pub async fn get_messages(
        &self,
        space: SpaceId,
        get: &GetMessages,
    ) -> Result<Vec<(Message, MessageHold)>, Failure> {
        let live = self.live.find(self.engine.as_ref(), self.clock.as_ref(), space).await?;
        let count = usize::try_from(get.count).unwrap_or(usize::MAX);
        let mut got = Vec::new();
        for _ in 0..ROUNDS_MAX {
            match self.get_some(&live, space, count - got.len(), get.hidden_seconds).await {
                Ok((taken, rest)) => {
                    got.extend(taken);
                    if got.len() == count || rest == Rest::None {
                        break;
                    }
                }
                // What is hidden already must reach its consumer.
                Err(_) if !got.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(got)
    }

    /// Claims and hides up to `wanted` messages, and says whether there may be more.
    async fn get_some(
        &self,
        live: &Arc<LiveQueue>,
        space: SpaceId,
        wanted: usize,
        hidden_seconds: u32,
    ) -> Result<(Vec<(Message, MessageHold)>, Rest), Failure> {
        let mut claim = live.claim(self.engine.as_ref(), self.clock.as_ref(), space, wanted).await?;
        let now = live.clock.now(self.clock.as_ref());
        let (claimed, finished) = (claim.positions.len(), claim.finished);
        let expired = std::mem::take(&mut claim.expired);
        let taken =
            if claimed > 0 { self.hide(space, &claim, hidden_seconds, now).await? } else { Vec::new() };
        drop(claim);
        if taken.len() < claimed {
            live.forget_waiting();
        }
        if let Some(finished) = finished.filter(|_| claimed == 0 || !expired.is_empty()) {
            self.tidy_after(space, now, &expired, finished).await;
        }
        let was_all = claimed < wanted && taken.len() == claimed && expired.is_empty();
        Ok((taken, if was_all { Rest::None } else { Rest::Some }))
    }

    /// Moves the claimed messages that are still there to the time from which others see them again.
    async fn hide(
        &self,
        space: SpaceId,
        claim: &Claim,
        hidden_seconds: u32,
        now: DateTime,
    ) -> Result<Vec<(Message, MessageHold)>, Failure> {
        let visible = later(now, hidden_seconds);
        // A tick apart, so that messages that come back come back in their order.
        let next_of = |position: &QueuePosition, index: u64| {
            let visible = DateTime::from_ticks(visible.ticks() + index).unwrap_or(visible);
            QueuePosition { visible, id: position.id }
        };
        let moves: Vec<(QueuePosition, QueuePosition)> = claim
            .positions
            .iter()
            .zip(0..)
            .map(|(position, index)| (*position, next_of(position, index)))
            .collect();
        let keys: Vec<([u8; 25], [u8; 25], [u8; 17])> =
            moves.iter().map(|(old, new)| (old.row(), new.row(), text_row(old.id))).collect();
        let mut rows: Vec<&[u8]> = vec![STATE_ROW];
        for (old, new, text) in &keys {
            rows.extend([old.as_slice(), new.as_slice(), text.as_slice()]);
        }
        let mut taken = Vec::new();
        let mut decide = |rows: &[Option<StoredRow>]| {
            taken.clear();
            let mut state = state_of(space, rows)?;
            let mut changes = Vec::with_capacity(1 + moves.len() * 2);
            if let Some(finished) = claim.finished {
                state.raise(finished.start, finished.first);
            }
            for (index, (old, new)) in moves.iter().enumerate() {
                let first = 1 + index * ROWS_EACH;
                // Whoever deleted, updated or got it meanwhile came first.
                let (Some(position), Some(text)) = (&rows[first], &rows[first + 2]) else { continue };
                let header = MessageHeader::decode(space, &position.body)?;
                if header.has_expired(now) {
                    continue;
                }
                let header = MessageHeader {
                    dequeue_count: header.dequeue_count.saturating_add(1),
                    changes: header.changes.wrapping_add(1),
                    ..header
                };
                state.placed(*new);
                changes.push(Change::Delete { index: first });
                changes.push(Change::Put { index: first + 1, body: header.encode() });
                let receipt = PopReceipt { next_visible: new.visible, changes: header.changes };
                let text = decode_text(space, &text.body)?;
                taken.push((header.message(old.id, text), MessageHold::of(receipt)));
            }
            if !taken.is_empty() {
                changes.push(put_state(state, now));
            }
            Ok(changes)
        };
        self.transact(space, &rows, &mut decide).await?;
        Ok(taken)
    }
}
