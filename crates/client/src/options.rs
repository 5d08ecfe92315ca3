//! The options that calls take last. `None` stands for the defaults.

use std::time::Duration;

/// Options of a point read.
///
/// ```
/// use tavola_client::GetOptions;
/// let options = GetOptions { select: vec!["Age".into()], ..GetOptions::default() };
/// assert_eq!(options.deadline, None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// For all tries together; the account's setting if `None`.
    pub deadline: Option<Duration>,
    /// Names of the properties to read; all if there are none.
    pub select: Vec<String>,
}

/// Options of a write.
///
/// ```
/// use tavola_client::{Resolve, WriteOptions};
/// let exact = WriteOptions { resolve: Resolve::ByStamp, ..WriteOptions::default() };
/// assert_ne!(exact.resolve, Resolve::default());
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// For all tries together; the account's setting if `None`.
    pub deadline: Option<Duration>,
    /// How a lost answer is resolved.
    pub resolve: Resolve,
}

/// What to do when a write was sent and its answer was lost.
///
/// ```
/// use tavola_client::{Resolve, WriteOptions};
/// let exact = WriteOptions { resolve: Resolve::ByStamp, ..WriteOptions::default() };
/// # let _ = exact;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolve {
    /// Read back; the same content, written since the first try, counts as ours. Two writers of identical bytes cannot
    /// be told apart: do not use it for locks.
    #[default]
    ByContent,
    /// Read back; only our stamp counts as ours. Costs one Guid property, `WriteStamp`.
    ByStamp,
    /// Do not read back: an answer that was lost and a repeat that was refused give
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown).
    Never,
}
