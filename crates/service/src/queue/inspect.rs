//! Every message of a queue as it stands, hidden ones too, for the owner who looks at the queue.
//!
//! The service has no such operation: a peek shows visible messages only. This reads, changes nothing, counts as no
//! get, and removes nothing that has expired.

use std::ops::ControlFlow;

use tavola_engine::{Position, ScanRange, ScannedRow, SpaceId};
use tavola_model::{AccountName, DateTime, Message, MessageHold, PopReceipt, QueueName};

use super::Queues;
use super::live::read_state;
use super::rows::{MessageHeader, PARTITION, QueuePosition, decode_text, text_row};
use crate::failure::Failure;

/// A message and where it stands.
#[derive(Clone, Debug)]
pub struct InspectedMessage {
    /// The message.
    pub message: Message,
    /// Since when, or from when on, it is visible.
    pub visible: DateTime,
    /// What whoever holds it now would show to update or delete it.
    pub hold: MessageHold,
}

impl Queues {
    /// The first messages of a queue in the order in which they become visible, without those that have expired.
    pub async fn inspect(
        &self,
        account: &AccountName,
        queue: &QueueName,
        count_max: usize,
    ) -> Result<Vec<InspectedMessage>, Failure> {
        self.on_space(account, queue, |space| self.inspect_space(space, count_max)).await
    }

    async fn inspect_space(
        &self,
        space: SpaceId,
        count_max: usize,
    ) -> Result<Vec<InspectedMessage>, Failure> {
        let head = read_state(self.engine.as_ref(), space).await?.scan_start().head;
        let now = self.clock.now();
        let mut found = Vec::new();
        let mut unreadable = None;
        let mut visit = |row: ScannedRow<'_>| {
            let position = QueuePosition::of_row(row.row);
            let position = position.ok_or_else(|| Failure::damaged(space, "the key of a position"));
            match (MessageHeader::decode(space, &row.body), position) {
                (Ok(header), Ok(position)) if !header.has_expired(now) => found.push((position, header)),
                (Ok(_), Ok(_)) => {}
                (Err(error), _) | (_, Err(error)) => {
                    unreadable = Some(error);
                    return ControlFlow::Break(());
                }
            }
            if found.len() < count_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let range = ScanRange {
            from: QueuePosition::visible_range(head, now).from,
            before: Some(Position::at(PARTITION, QueuePosition::END)),
        };
        self.engine.scan(space, &range, &mut visit).await?;
        if let Some(error) = unreadable {
            return Err(error);
        }
        let mut messages = Vec::with_capacity(found.len());
        for (position, header) in found {
            let text = self.engine.get(space, PARTITION, &text_row(position.id)).await?;
            // Whoever deleted it meanwhile came first.
            let Some(text) = text else { continue };
            let receipt = PopReceipt { next_visible: position.visible, changes: header.changes };
            messages.push(InspectedMessage {
                message: header.message(position.id, decode_text(space, &text.body)?),
                visible: position.visible,
                hold: MessageHold::of(receipt),
            });
        }
        Ok(messages)
    }
}
