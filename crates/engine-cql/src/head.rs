//! The head of a partition: what every write of the partition is conditioned on, and changes.
//!
//! Invariant: ticks of a head only go up, and a head with a tick was written by exactly one attempt. So an attempt
//! that was conditioned on a tick that the head has left behind, and is not among the attempts right after that
//! tick, was not kept and never will be.

use bytes::Bytes;

/// Attempts that a head remembers at most.
const RECENT_MAX: usize = 64;
/// Attempts older than this are forgotten, in ticks: a minute. Nobody waits that long for an outcome.
const RECENT_TICKS_MAX: u64 = 60 * 10_000_000;
const ENTRY_LEN: usize = 16;

/// What is known of a partition as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionHead {
    /// The version of the last write; `None` if there was none.
    pub tick: Option<u64>,
    /// The last attempts that were kept, the latest last.
    pub recent: Vec<Attempt>,
    /// Whether the directory names the partition.
    pub listing: Listing,
}

/// One conditional batch, however often it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The tick that it gives the head.
    pub tick: u64,
    /// Chance, because two servers may choose the same tick.
    pub id: u64,
}

/// Whether the directory names a partition, and by which entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Listing {
    /// No entry counts; the partition has no rows.
    #[default]
    Unlisted,
    /// The entry of this generation counts. A generation is the tick of the write that listed the partition.
    Listed(u64),
}

/// What became of an attempt, as far as a head tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Kept,
    /// It was not kept and never will be: the head has moved on without it.
    Lost,
    /// It is not kept yet. Nothing else is either, so it can be sent again.
    Open,
    /// Too much was written since.
    Unknown,
}

impl PartitionHead {
    /// The head after an attempt.
    pub fn after(&self, attempt: Attempt, listing: Listing) -> Self {
        assert!(self.tick < Some(attempt.tick), "ticks of a partition only go up");
        let oldest = attempt.tick.saturating_sub(RECENT_TICKS_MAX);
        let kept = self.recent.iter().copied().filter(|past| past.tick >= oldest);
        let mut recent: Vec<Attempt> = kept.collect();
        // The tick right before stays in any case: it tells what the next one was conditioned on.
        if recent.is_empty() {
            recent.extend(self.recent.last().copied());
        }
        recent.push(attempt);
        let surplus = recent.len().saturating_sub(RECENT_MAX);
        recent.drain(..surplus);
        Self { tick: Some(attempt.tick), recent, listing }
    }

    /// What became of an attempt that was conditioned on `before`.
    pub fn outcome_of(&self, attempt: Attempt, before: Option<u64>) -> AttemptOutcome {
        if self.recent.contains(&attempt) {
            return AttemptOutcome::Kept;
        }
        if self.tick == before {
            return AttemptOutcome::Open;
        }
        // The list has no gaps, so if it reaches back to the condition, what followed that is in it.
        let reaches_back = match before {
            Some(before) => self.recent.first().is_some_and(|first| first.tick <= before),
            None => self.recent.len() < RECENT_MAX && self.reaches_to_the_start(attempt),
        };
        if reaches_back { AttemptOutcome::Lost } else { AttemptOutcome::Unknown }
    }

    /// Whether nothing that followed the very first write can have been forgotten: none is old enough.
    fn reaches_to_the_start(&self, attempt: Attempt) -> bool {
        self.tick.is_some_and(|tick| tick < attempt.tick.saturating_add(RECENT_TICKS_MAX / 2))
    }

    pub fn encode_recent(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.recent.len() * ENTRY_LEN);
        for attempt in &self.recent {
            out.extend_from_slice(&attempt.tick.to_be_bytes());
            out.extend_from_slice(&attempt.id.to_be_bytes());
        }
        out.into()
    }

    pub fn decode_recent(bytes: &[u8]) -> Option<Vec<Attempt>> {
        let (entries, rest) = bytes.as_chunks::<ENTRY_LEN>();
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
        let attempts = entries
            .iter()
            .map(|entry| Some(Attempt { tick: number(&entry[..8])?, id: number(&entry[8..])? }));
        rest.is_empty().then(|| attempts.collect::<Option<Vec<_>>>())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(tick: u64) -> Attempt {
        Attempt { tick, id: tick * 7 }
    }

    fn head_after(ticks: impl IntoIterator<Item = u64>) -> PartitionHead {
        ticks
            .into_iter()
            .fold(PartitionHead::default(), |head, tick| head.after(attempt(tick), Listing::Listed(1)))
    }

    #[test]
    fn a_head_knows_its_last_attempts_and_those_that_lost_against_them() {
        let head = head_after([10, 20, 30]);
        assert_eq!(head.outcome_of(attempt(20), Some(10)), AttemptOutcome::Kept);
        assert_eq!(head.outcome_of(attempt(25), Some(20)), AttemptOutcome::Lost);
        assert_eq!(head.outcome_of(attempt(40), Some(30)), AttemptOutcome::Open);
        assert_eq!(head.outcome_of(Attempt { tick: 20, id: 1 }, Some(10)), AttemptOutcome::Lost);
        assert_eq!(head.outcome_of(attempt(15), None), AttemptOutcome::Lost);
        assert_eq!(PartitionHead::default().outcome_of(attempt(15), None), AttemptOutcome::Open);
    }

    #[test]
    fn a_head_that_has_moved_far_on_does_not_guess() {
        let head = head_after(1..200);
        assert_eq!(head.recent.len(), RECENT_MAX);
        assert_eq!(head.outcome_of(attempt(100), Some(99)), AttemptOutcome::Unknown);
        assert_eq!(head.outcome_of(Attempt { tick: 150, id: 0 }, Some(149)), AttemptOutcome::Lost);
        assert_eq!(head.outcome_of(attempt(1), None), AttemptOutcome::Unknown);
    }

    #[test]
    fn old_attempts_are_forgotten_but_for_the_last() {
        let late = 10 * RECENT_TICKS_MAX;
        let head = head_after([1, 2, late]);
        assert_eq!(head.recent, [attempt(2), attempt(late)]);
        assert_eq!(head.outcome_of(attempt(3), Some(2)), AttemptOutcome::Lost);
        assert_eq!(head.outcome_of(attempt(3), None), AttemptOutcome::Unknown);
    }

    #[test]
    fn recent_attempts_read_back_as_they_were_written() {
        let head = head_after([10, 20, 30]);
        assert_eq!(PartitionHead::decode_recent(&head.encode_recent()), Some(head.recent));
        assert_eq!(PartitionHead::decode_recent(&[0; 17]), None);
        assert_eq!(PartitionHead::decode_recent(&[]), Some(vec![]));
    }

    const RECENT_FIXTURE: [u8; 32] = [
        0x08, 0xDA, 0xA1, 0x9E, 0xA6, 0xB3, 0x00, 0x01, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,
        0x08, //
        0x08, 0xDA, 0xA1, 0x9E, 0xA6, 0xB3, 0x00, 0x02, 0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0xFA, 0xF9, 0xF8,
    ];

    #[test]
    fn recent_attempts_keep_their_layout() {
        let recent = vec![
            Attempt { tick: 638_000_000_000_000_001, id: 0x0102_0304_0506_0708 },
            Attempt { tick: 638_000_000_000_000_002, id: 0xFFFE_FDFC_FBFA_F9F8 },
        ];
        let head = PartitionHead { recent: recent.clone(), ..PartitionHead::default() };
        assert_eq!(head.encode_recent(), &RECENT_FIXTURE[..]);
        assert_eq!(PartitionHead::decode_recent(&RECENT_FIXTURE), Some(recent));
    }
}
