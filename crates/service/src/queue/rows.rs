//! The rows of a queue's space, all in one partition.
//!
//! | row | holds |
//! |---|---|
//! | `s` | the [`State`]: how many messages there are, and where the first can be |
//! | `o` + time + id | a message in its position: the time from which it is visible, and its [`MessageHeader`] |
//! | `b` + id | the text of a message |
//!
//! A get moves the message from its position to a later one, a delete removes it, so on a log-structured store the
//! positions before the first message are full of tombstones. No reader starts there: it starts at the head.
//!
//! Invariant: the head of the state is not behind the position of any message. Whoever positions a message lowers it
//! if need be, in the same transaction. Whoever has finished from the head onward and seen the first message may
//! raise it, up to the lowest position that was taken since the scan before it counted: that bound covers every
//! message placed after the scan. Once there are no messages the head is at the end of time.

use bytes::Bytes;
use tavola_engine::{Position, ScanRange, SpaceId};
use tavola_model::{DateTime, Guid, Message, MessageId};

use crate::failure::Failure;

/// The one partition.
pub(super) const PARTITION: &[u8] = b"q";
/// The row of the state.
pub(super) const STATE_ROW: &[u8] = b"s";

const POSITION_ROW: u8 = b'o';
const TEXT_ROW: u8 = b'b';
const VERSION: u8 = 1;

/// Where a message stands: by the time from which it is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QueuePosition {
    pub visible: DateTime,
    pub id: MessageId,
}

impl QueuePosition {
    pub fn row(self) -> [u8; 25] {
        let mut row = [POSITION_ROW; 25];
        row[1..9].copy_from_slice(&self.visible.ticks().to_be_bytes());
        row[9..].copy_from_slice(&self.id.0.0);
        row
    }

    pub fn of_row(row: &[u8]) -> Option<Self> {
        let row: &[u8; 25] = row.try_into().ok()?;
        let (kind, rest) = row.split_first()?;
        let (time, id) = rest.split_first_chunk::<8>()?;
        let visible = DateTime::from_ticks(u64::from_be_bytes(*time))?;
        (*kind == POSITION_ROW).then_some(Self { visible, id: MessageId(Guid(id.try_into().ok()?)) })
    }

    /// Behind every position.
    pub const END: &'static [u8] = &[POSITION_ROW + 1];

    /// All positions from the head to the last that is visible now.
    pub fn visible_range(head: DateTime, now: DateTime) -> ScanRange {
        let bound = |ticks: u64| {
            let mut row = vec![POSITION_ROW];
            row.extend_from_slice(&ticks.to_be_bytes());
            Position::at(PARTITION, &row)
        };
        ScanRange { from: bound(head.ticks()), before: Some(bound(now.ticks() + 1)) }
    }
}

pub(super) fn text_row(id: MessageId) -> [u8; 17] {
    let mut row = [TEXT_ROW; 17];
    row[1..].copy_from_slice(&id.0.0);
    row
}

pub(super) fn encode_text(text: &str) -> Bytes {
    let mut out = Vec::with_capacity(1 + text.len());
    out.push(VERSION);
    out.extend_from_slice(text.as_bytes());
    out.into()
}

pub(super) fn decode_text(space: SpaceId, body: &[u8]) -> Result<String, Failure> {
    let text = match body.split_first() {
        Some((&VERSION, text)) => String::from_utf8(text.to_vec()).ok(),
        _ => None,
    };
    text.ok_or_else(|| Failure::damaged(space, "the text of a message"))
}

/// What a message takes along from position to position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageHeader {
    pub inserted: DateTime,
    pub expires: DateTime,
    /// Gets so far.
    pub dequeue_count: u32,
    /// Gets and updates so far; a receipt holds for one count only.
    pub changes: u32,
}

impl MessageHeader {
    pub fn has_expired(&self, now: DateTime) -> bool {
        self.expires <= now
    }

    pub fn message(&self, id: MessageId, text: String) -> Message {
        let Self { inserted, expires, dequeue_count, .. } = *self;
        Message { id, inserted, expires, dequeue_count, text }
    }

    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(25);
        out.push(VERSION);
        out.extend_from_slice(&self.inserted.ticks().to_le_bytes());
        out.extend_from_slice(&self.expires.ticks().to_le_bytes());
        out.extend_from_slice(&self.dequeue_count.to_le_bytes());
        out.extend_from_slice(&self.changes.to_le_bytes());
        out.into()
    }

    pub fn decode(space: SpaceId, body: &[u8]) -> Result<Self, Failure> {
        Self::read(body).ok_or_else(|| Failure::damaged(space, "the position of a message"))
    }

    fn read(body: &[u8]) -> Option<Self> {
        let body: &[u8; 25] = body.try_into().ok()?;
        let (times, counts) = body[1..].split_at(16);
        let header = Self {
            inserted: time(&times[..8])?,
            expires: time(&times[8..])?,
            dequeue_count: u32::from_le_bytes(counts[..4].try_into().ok()?),
            changes: u32::from_le_bytes(counts[4..].try_into().ok()?),
        };
        (body[0] == VERSION).then_some(header)
    }
}

/// What is known of all messages of a queue together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Messages that exist, hidden ones and expired ones that nobody has removed yet included.
    pub count: u64,
    /// No message stands before this time.
    pub head: DateTime,
    /// The lowest position taken since a scan last counted.
    lowest: DateTime,
    /// How many scans have counted. Two that began at the same number saw the same past: only one can count.
    scans: u64,
    /// The latest time by which this queue was changed, so that its time goes on after a restart.
    pub time: DateTime,
}

impl State {
    /// The state of a queue to which nothing was ever put, which has no row.
    pub const NEW: State =
        State { count: 0, head: DateTime::MAX, lowest: DateTime::MAX, scans: 0, time: DateTime::MIN };

    /// The time above which the queue must go on. An empty queue keeps none: there is nothing that could be hidden for
    /// too long, so a clock that ran ahead leaves no mark on a queue that was emptied.
    pub fn time_to_keep(&self) -> DateTime {
        if self.count == 0 { DateTime::MIN } else { self.time }
    }

    /// A new message stands here.
    pub fn added(&mut self, position: QueuePosition) {
        self.time = self.time_to_keep();
        self.count += 1;
        self.placed(position);
    }

    /// A message stands here now.
    pub fn placed(&mut self, position: QueuePosition) {
        self.head = self.head.min(position.visible);
        self.lowest = self.lowest.min(position.visible);
    }

    /// A message is gone.
    pub fn removed(&mut self) {
        assert!(self.count > 0, "only a message that was counted can be removed");
        self.count -= 1;
        if self.count == 0 {
            self.head = DateTime::MAX;
            self.lowest = DateTime::MAX;
            self.scans += 1;
        }
    }

    /// Where a scan that begins now begins.
    pub fn scan_start(&self) -> ScanStart {
        ScanStart { head: self.head, scans: self.scans }
    }

    /// Raises the head after a scan that saw no message before `first`. A scan that is out of date changes nothing.
    ///
    /// A position taken before the scan holds the head down as well, as nothing tells it from one taken after. It does
    /// so only once: the scan counts even if the head stays, so the next one is held down by later positions only.
    pub fn raise(&mut self, start: ScanStart, first: DateTime) {
        if self.scans == start.scans {
            self.head = self.head.max(first.min(self.lowest));
            self.lowest = DateTime::MAX;
            self.scans += 1;
        }
    }

    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(41);
        out.push(VERSION);
        for number in [self.count, self.head.ticks(), self.lowest.ticks(), self.scans, self.time.ticks()] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.into()
    }

    /// From the body of its row, if it has one.
    pub fn decode(space: SpaceId, body: Option<&Bytes>) -> Result<Self, Failure> {
        match body {
            None => Ok(Self::NEW),
            Some(body) => Self::read(body).ok_or_else(|| Failure::damaged(space, "the state of a queue")),
        }
    }

    fn read(body: &[u8]) -> Option<Self> {
        let body: &[u8; 41] = body.try_into().ok()?;
        let number = |position: usize| -> Option<u64> {
            Some(u64::from_le_bytes(body[1 + position * 8..9 + position * 8].try_into().ok()?))
        };
        let state = Self {
            count: number(0)?,
            head: DateTime::from_ticks(number(1)?)?,
            lowest: DateTime::from_ticks(number(2)?)?,
            scans: number(3)?,
            time: DateTime::from_ticks(number(4)?)?,
        };
        (body[0] == VERSION).then_some(state)
    }
}

/// A scan at the visible messages, from the head of a state onward.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanStart {
    pub head: DateTime,
    scans: u64,
}

fn time(bytes: &[u8]) -> Option<DateTime> {
    DateTime::from_ticks(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fixture::{bytes, hex};

    fn at(ticks: u64) -> DateTime {
        DateTime::from_ticks(ticks).unwrap()
    }

    fn position(ticks: u64) -> QueuePosition {
        QueuePosition { visible: at(ticks), id: MessageId(Guid([9; 16])) }
    }

    #[test]
    fn rows_read_back_as_they_were_written() {
        let space = SpaceId::CATALOG;
        assert_eq!(QueuePosition::of_row(&position(77).row()), Some(position(77)));
        let header = MessageHeader { inserted: at(1), expires: DateTime::MAX, dequeue_count: 3, changes: 4 };
        assert_eq!(MessageHeader::decode(space, &header.encode()).unwrap(), header);
        let state = State { count: 1, head: at(2), lowest: at(3), scans: 4, time: at(5) };
        assert_eq!(State::decode(space, Some(&state.encode())).unwrap(), state);
        assert_eq!(decode_text(space, &encode_text("é")).unwrap(), "é");
    }

    const STATE_FIXTURE: &str =
        "0101000000000000000200000000000000030000000000000004000000000000000500000000000000";
    const HEADER_FIXTURE: &str = "010100000000000000ff3f37f47528ca2b0300000004000000";
    const TEXT_FIXTURE: &str = "01c3a9";
    const POSITION_FIXTURE: &str = "6f000000000000004d09090909090909090909090909090909";
    const TEXT_ROW_FIXTURE: &str = "6209090909090909090909090909090909";

    #[test]
    fn rows_keep_their_layout() {
        let space = SpaceId::CATALOG;
        assert_eq!((PARTITION, STATE_ROW), (&b"q"[..], &b"s"[..]));
        let state = State { count: 1, head: at(2), lowest: at(3), scans: 4, time: at(5) };
        assert_eq!(hex(&state.encode()), STATE_FIXTURE);
        assert_eq!(State::decode(space, Some(&bytes(STATE_FIXTURE).into())).unwrap(), state);
        let header = MessageHeader { inserted: at(1), expires: DateTime::MAX, dequeue_count: 3, changes: 4 };
        assert_eq!(hex(&header.encode()), HEADER_FIXTURE);
        assert_eq!(MessageHeader::decode(space, &bytes(HEADER_FIXTURE)).unwrap(), header);
        assert_eq!(hex(&encode_text("é")), TEXT_FIXTURE);
        assert_eq!(decode_text(space, &bytes(TEXT_FIXTURE)).unwrap(), "é");
        assert_eq!(hex(&position(77).row()), POSITION_FIXTURE);
        assert_eq!(QueuePosition::of_row(&bytes(POSITION_FIXTURE)), Some(position(77)));
        assert_eq!(hex(&text_row(position(77).id)), TEXT_ROW_FIXTURE);
    }

    #[test]
    fn cut_or_unknown_rows_are_refused() {
        let space = SpaceId::CATALOG;
        let header = MessageHeader { inserted: at(1), expires: at(2), dequeue_count: 3, changes: 4 }.encode();
        let state = State::NEW.encode();
        for len in 0..25 {
            assert!(MessageHeader::decode(space, &header[..len]).is_err());
            assert!(State::decode(space, Some(&state.slice(..len))).is_err());
            assert_eq!(QueuePosition::of_row(&position(1).row()[..len]), None);
        }
        assert!(decode_text(space, &[]).is_err());
        assert!(decode_text(space, &[VERSION, 0xFF]).is_err());
        assert!(decode_text(space, b"\x02text").is_err());
    }

    #[test]
    fn the_head_follows_the_first_message_and_yields_to_an_earlier_one() {
        let mut state = State::NEW;
        state.added(position(50));
        assert_eq!(state.head, at(50));
        state.added(position(40));
        assert_eq!(state.head, at(40));
        state.raise(state.scan_start(), at(45));
        assert_eq!(state.head, at(40), "a message was placed at 40 since the last scan");
        state.raise(state.scan_start(), at(45));
        assert_eq!(state.head, at(45), "no message was placed since the last scan");
    }

    #[test]
    fn the_head_stays_close_behind_consumers_while_producers_go_on() {
        let mut state = State::NEW;
        for time in 1..=100 {
            state.added(position(time));
        }
        for time in 1..=90 {
            let start = state.scan_start();
            state.added(position(100 + time));
            state.raise(start, at(time));
            state.placed(position(100_000 + time));
            assert!(state.head.ticks() + 2 > time, "head {} behind {time}", state.head);
        }
    }

    #[test]
    fn a_message_placed_after_the_scan_holds_the_head_down() {
        let mut state = State { count: 1, head: at(10), lowest: DateTime::MAX, scans: 0, time: at(0) };
        let start = state.scan_start();
        state.added(position(30));
        state.raise(start, at(60));
        assert_eq!(state.head, at(30));
    }

    #[test]
    fn of_two_scans_of_the_same_past_one_counts() {
        let mut state = State { count: 1, head: at(10), lowest: DateTime::MAX, scans: 0, time: at(0) };
        let (early, late) = (state.scan_start(), state.scan_start());
        state.added(position(30));
        state.raise(early, at(60));
        state.raise(late, at(60));
        assert_eq!(state.head, at(30));
    }

    #[test]
    fn the_head_of_an_empty_queue_is_at_the_end_of_time() {
        let mut state = State::NEW;
        state.added(position(50));
        let start = state.scan_start();
        state.removed();
        assert_eq!((state.head, state.count), (DateTime::MAX, 0));
        state.added(position(20));
        state.raise(start, at(60));
        assert_eq!(state.head, at(20));
    }
}
