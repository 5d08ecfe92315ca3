//! Putting, peeking at, updating and deleting messages: each a transaction on the rows it names.

use tavola_engine::{Change, Decision, SpaceId, StoredRow, Transacted};
use tavola_model::{
    DateTime, ErrorCode, Guid, Message, MessageHold, MessageId, MessageRef, PopReceipt, PutMessage,
    UpdateMessage,
};

use super::Queues;
use super::live::{WhenFull, read_state, scan_visible};
use super::rows::{
    MessageHeader, PARTITION, QueuePosition, STATE_ROW, State, decode_text, encode_text, text_row,
};
use crate::failure::Failure;

impl Queues {
    /// Messages in a queue, hidden ones included.
    pub async fn count_messages(&self, space: SpaceId) -> Result<u64, Failure> {
        Ok(read_state(self.engine.as_ref(), space).await?.count)
    }

    pub async fn put_message(
        &self,
        space: SpaceId,
        put: &PutMessage,
    ) -> Result<(Message, MessageHold), Failure> {
        let live = self.live.find(self.engine.as_ref(), self.clock.as_ref(), space).await?;
        let now = live.clock.now(self.clock.as_ref());
        let position = QueuePosition { visible: later(now, put.hidden_seconds), id: self.fresh_id(now) };
        let expires = put.life_seconds.map_or(DateTime::MAX, |seconds| later(now, seconds));
        let header = MessageHeader { inserted: now, expires, dequeue_count: 0, changes: 0 };
        let (position_row, text_row) = (position.row(), text_row(position.id));
        let mut decide = |rows: &[Option<StoredRow>]| {
            let mut state = state_of(space, rows)?;
            state.added(position);
            Ok(vec![
                put_state(state, now),
                Change::Put { index: 1, body: header.encode() },
                Change::Put { index: 2, body: encode_text(&put.text) },
            ])
        };
        self.transact(space, &[STATE_ROW, &position_row, &text_row], &mut decide).await?;
        let receipt = PopReceipt { next_visible: position.visible, changes: header.changes };
        Ok((header.message(position.id, put.text.clone()), MessageHold::of(receipt)))
    }

    /// The first messages that are visible. What has expired at the front is removed on the way.
    pub async fn peek_messages(&self, space: SpaceId, count: u32) -> Result<Vec<Message>, Failure> {
        let live = self.live.find(self.engine.as_ref(), self.clock.as_ref(), space).await?;
        let now = live.clock.now(self.clock.as_ref());
        let max = usize::try_from(count).unwrap_or(usize::MAX);
        let seen = scan_visible(self.engine.as_ref(), space, now, max, WhenFull::GoOn).await?;
        let mut messages = Vec::with_capacity(seen.positions.len());
        for (position, header) in &seen.positions {
            let text = self.engine.get(space, PARTITION, &text_row(position.id)).await?;
            // Whoever deleted it meanwhile came first.
            let Some(text) = text else { continue };
            messages.push(header.message(position.id, decode_text(space, &text.body)?));
        }
        self.tidy_after(space, now, &seen.expired, seen.finished).await;
        Ok(messages)
    }

    pub async fn update_message(
        &self,
        space: SpaceId,
        update: &UpdateMessage,
    ) -> Result<MessageHold, Failure> {
        let (old, changes) = self.held_position(space, &update.message).await?;
        let live = self.live.find(self.engine.as_ref(), self.clock.as_ref(), space).await?;
        let now = live.clock.now(self.clock.as_ref());
        let new =
            QueuePosition { visible: later_than(old.visible, later(now, update.hidden_seconds)), id: old.id };
        let (old_row, new_row, text_row) = (old.row(), new.row(), text_row(old.id));
        let mut decide = |rows: &[Option<StoredRow>]| {
            let header = held_header(space, rows[1].as_ref(), rows[3].as_ref(), changes, now)?;
            let mut state = state_of(space, rows)?;
            state.placed(new);
            let moved = MessageHeader { changes: header.changes.wrapping_add(1), ..header };
            let mut applied = vec![
                put_state(state, now),
                Change::Delete { index: 1 },
                Change::Put { index: 2, body: moved.encode() },
            ];
            if let Some(text) = &update.text {
                applied.push(Change::Put { index: 3, body: encode_text(text) });
            }
            Ok(applied)
        };
        self.transact(space, &[STATE_ROW, &old_row, &new_row, &text_row], &mut decide).await?;
        let receipt = PopReceipt { next_visible: new.visible, changes: changes.wrapping_add(1) };
        Ok(MessageHold::of(receipt))
    }

    pub async fn delete_message(&self, space: SpaceId, message: &MessageRef) -> Result<(), Failure> {
        let (position, changes) = self.held_position(space, message).await?;
        let live = self.live.find(self.engine.as_ref(), self.clock.as_ref(), space).await?;
        let now = live.clock.now(self.clock.as_ref());
        let (position_row, text_row) = (position.row(), text_row(position.id));
        let mut decide = |rows: &[Option<StoredRow>]| {
            held_header(space, rows[1].as_ref(), rows[2].as_ref(), changes, now)?;
            let mut state = state_of(space, rows)?;
            state.removed();
            Ok(vec![put_state(state, now), Change::Delete { index: 1 }, Change::Delete { index: 2 }])
        };
        self.transact(space, &[STATE_ROW, &position_row, &text_row], &mut decide).await
    }

    /// Where the message of a receipt stands if the receipt holds: the receipt says it, so nothing is searched.
    async fn held_position(
        &self,
        space: SpaceId,
        message: &MessageRef,
    ) -> Result<(QueuePosition, u32), Failure> {
        let id = message.id.ok_or(ErrorCode::MessageNotFound)?;
        match message.receipt {
            Some(PopReceipt { next_visible, changes }) => {
                Ok((QueuePosition { visible: next_visible, id }, changes))
            }
            None => {
                let text = self.engine.get(space, PARTITION, &text_row(id)).await;
                Err(not_held(text?.as_ref()))
            }
        }
    }

    /// Makes the changes that `decide` gives for the rows, or gives its refusal.
    pub(super) async fn transact(
        &self,
        space: SpaceId,
        rows: &[&[u8]],
        decide: &mut DecideRows<'_>,
    ) -> Result<(), Failure> {
        let mut refusal = None;
        let mut decide_rows = |_: DateTime, rows: &[Option<StoredRow>]| match decide(rows) {
            Ok(changes) => Decision::Apply(changes),
            Err(error) => {
                refusal = Some(error);
                Decision::Refuse
            }
        };
        let done = self.engine.transact(space, PARTITION, rows, &mut decide_rows).await;
        match done? {
            Transacted::Applied(_) => Ok(()),
            Transacted::Refused => Err(refusal.expect("a decide that refuses says why")),
        }
    }

    /// An id that begins with the time, then chance (a guid of version 7): texts then lie in the store in the order
    /// in which messages are put, which is mostly the order in which they are got.
    fn fresh_id(&self, now: DateTime) -> MessageId {
        let unix_ticks = now.ticks().saturating_sub(DateTime::from_unix_ticks(0).ticks());
        let (milliseconds, rest) = (unix_ticks / 10_000, unix_ticks % 10_000);
        let time = milliseconds << 16 | 0x7000 | rest >> 2;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&time.to_be_bytes());
        bytes[8..].copy_from_slice(&self.random.bytes());
        bytes[8] = bytes[8] & 0x3F | 0x80;
        MessageId(Guid(bytes))
    }
}

/// Chooses the changes of the rows of a transaction, or refuses.
pub(super) type DecideRows<'a> = dyn FnMut(&[Option<StoredRow>]) -> Result<Vec<Change>, Failure> + Send + 'a;

/// The state, which is the first row of every transaction.
pub(super) fn state_of(space: SpaceId, rows: &[Option<StoredRow>]) -> Result<State, Failure> {
    State::decode(space, rows[0].as_ref().map(|row| &row.body))
}

/// Keeps the state, as of this time.
pub(super) fn put_state(mut state: State, now: DateTime) -> Change {
    state.time = state.time.max(now);
    Change::Put { index: 0, body: state.encode() }
}

/// The time so many seconds later; no message waits beyond the end of time.
pub(super) fn later(now: DateTime, seconds: u32) -> DateTime {
    now.plus_seconds(u64::from(seconds)).unwrap_or(DateTime::MAX)
}

/// `time`, or right behind it if it is `old`: a message that is moved does not stay where it is.
fn later_than(old: DateTime, time: DateTime) -> DateTime {
    if time == old { DateTime::from_ticks(time.ticks() + 1).unwrap_or(time) } else { time }
}

/// The header of a message for whoever has the receipt of its latest change.
fn held_header(
    space: SpaceId,
    position: Option<&StoredRow>,
    text: Option<&StoredRow>,
    changes: u32,
    now: DateTime,
) -> Result<MessageHeader, Failure> {
    let Some(position) = position else { return Err(not_held(text)) };
    let header = MessageHeader::decode(space, &position.body)?;
    if header.has_expired(now) {
        return Err(ErrorCode::MessageNotFound.into());
    }
    if header.changes != changes {
        return Err(ErrorCode::PopReceiptMismatch.into());
    }
    Ok(header)
}

/// Why a message is not where its receipt says: it has a newer receipt, or it is gone.
fn not_held(text: Option<&StoredRow>) -> Failure {
    let code = if text.is_some() { ErrorCode::PopReceiptMismatch } else { ErrorCode::MessageNotFound };
    code.into()
}
