//! Which partitions are written to again and again.
//!
//! A write that goes to another server costs a hop, and only brings something where several writers meet. So the first
//! write to a partition is executed where it arrives, and those that follow within some seconds go to its owner: one
//! that fills thousands of partitions with a row each pays nothing.
//!
//! It is a table of a fixed size with one partition a slot. Two partitions that share a slot drive each other out,
//! and are then taken for new ones.

use std::sync::atomic::{AtomicU64, Ordering};

use super::owner::PartitionHash;

/// Partitions that are remembered at most. A power of two.
const SLOTS: usize = 8192;
/// How long a write is remembered.
const REMEMBERED_MS: u32 = 10_000;

/// The partitions that were written to here of late.
#[derive(Debug)]
pub(crate) struct Recent {
    /// What tells a partition from others that share its slot, and when it was last written to, by half each.
    slots: Box<[AtomicU64]>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Recent {
    /// Notes a write, and tells whether the partition was written to shortly before. Milliseconds may wrap.
    pub fn note(&self, hash: PartitionHash, now_ms: u32) -> bool {
        let (tag, index) = hash.halves();
        let slot = &self.slots[usize::try_from(index).unwrap_or_default() % SLOTS];
        let before = slot.swap(u64::from(tag) << 32 | u64::from(now_ms), Ordering::Relaxed);
        let written_ms = u32::try_from(before & u64::from(u32::MAX)).unwrap_or_default();
        before >> 32 == u64::from(tag) && now_ms.wrapping_sub(written_ms) < REMEMBERED_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(tag: u32, index: u32) -> PartitionHash {
        PartitionHash::from_halves(tag, index)
    }

    #[test]
    fn a_partition_is_remembered_from_one_write_to_the_next_for_a_while() {
        let recent = Recent::default();
        let hot = hash(7, 1);
        for (now_ms, is_again) in
            [(5, false), (6, true), (6, true), (6 + REMEMBERED_MS - 1, true), (6 + 3 * REMEMBERED_MS, false)]
        {
            assert_eq!(recent.note(hot, now_ms), is_again, "{now_ms}");
        }
        recent.note(hot, u32::MAX - 1);
        assert!(recent.note(hot, 3), "the count of milliseconds starts again");
    }

    #[test]
    fn partitions_are_told_apart_and_drive_out_only_those_that_share_their_slot() {
        let recent = Recent::default();
        let (hot, other, same) = (hash(7, 1), hash(7, 2), hash(8, 1));
        assert!(!recent.note(hot, 1));
        assert!(!recent.note(other, 1));
        assert!(recent.note(hot, 1));
        assert!(!recent.note(same, 1));
        assert!(!recent.note(hot, 1));
        assert!(recent.note(other, 1));
    }
}
