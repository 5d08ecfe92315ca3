//! Where the time comes from. Passed in, so that a test can hold it.

use std::time::Duration;

use crate::DateTime;

/// A source of the current time. It may step back; whoever needs order makes its own.
pub trait Clock: Send + Sync + 'static {
    /// The time now, to 100 ns where the source is as fine.
    fn now(&self) -> DateTime;

    /// Time since some moment in the past, which never steps: the difference of two readings is the time that has
    /// passed between them. A clock without one gives the time of day, and its steps cannot be told from time passing.
    fn monotonic(&self) -> Duration {
        let ticks = self.now().ticks();
        Duration::new(ticks / 10_000_000, u32::try_from(ticks % 10_000_000 * 100).unwrap_or(0))
    }
}
