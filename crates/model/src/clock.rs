//! Where the time comes from. Passed in, so that a test can hold it.

use crate::DateTime;

/// A source of the current time. It may step back; whoever needs order makes its own.
pub trait Clock: Send + Sync + 'static {
    /// The time now, to 100 ns where the source is as fine.
    fn now(&self) -> DateTime;
}
