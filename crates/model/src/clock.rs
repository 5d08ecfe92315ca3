//! Where the time comes from. Passed in, so that a test can hold it.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::DateTime;

/// A source of the current time. It may step back; whoever needs order makes its own.
pub trait Clock: Send + Sync + 'static {
    /// The time now, to 100 ns where the source is as fine.
    fn now(&self) -> DateTime;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        DateTime::from_unix_ticks(u64::try_from(since_epoch.as_nanos() / 100).unwrap_or(u64::MAX))
    }
}
