//! The times at which the server was recording.
//!
//! A time counts as recorded if a request came shortly before or after it, or if the server said that it was up
//! ([`super::HeatMap::note_alive`]). In any other time the server was down or paused, and nothing is known of it.

use std::collections::VecDeque;
use std::ops::Range;

/// Seconds without a sign of life that are still taken as recorded.
const QUIET_MAX: i64 = 5 * 60;
/// Seconds that are remembered, as long as the oldest columns are kept.
const KEPT: i64 = 7 * 24 * 3600;

/// Stretches of Unix seconds in which the server was recording, the oldest first.
#[derive(Default)]
pub(super) struct Recorded {
    stretches: VecDeque<Range<i64>>,
}

impl Recorded {
    /// The server was recording at this time.
    pub fn add(&mut self, at: i64) {
        match self.stretches.back_mut() {
            // Records come nearly in order; one that is late changes nothing.
            Some(last) if at < last.end => {}
            Some(last) if at <= last.end + QUIET_MAX => last.end = at + 1,
            _ => self.stretches.push_back(at..at + 1),
        }
        while self.stretches.front().is_some_and(|first| first.end < at - KEPT) {
            self.stretches.pop_front();
        }
    }

    /// Whether the server was recording for some of this time.
    pub fn overlaps(&self, from: i64, to: i64) -> bool {
        // The next sign of life may still come.
        let quiet = self.stretches.back().is_some_and(|last| last.start < to && last.end + QUIET_MAX > from);
        quiet || self.stretches.iter().any(|stretch| stretch.start < to && stretch.end > from)
    }
}
