//! What a caller can do about an engine failure.

use crate::SpaceId;

/// The reason underneath, for the log.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why an engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The space was never made or has been dropped. Nothing was kept.
    #[error("space does not exist (space={space})")]
    SpaceMissing {
        /// Which.
        space: SpaceId,
    },
    /// Other writers got there first too often. Nothing was kept; try again.
    #[error("row changed since it was read (attempts={attempts})")]
    Conflict {
        /// How often it was tried.
        attempts: u32,
    },
    /// No answer in time, or the store failed midway. The write may or may not have been kept.
    #[error("outcome of the write is unknown")]
    OutcomeUnknown {
        /// What happened.
        #[source]
        cause: Cause,
    },
    /// The store takes no writes now (an earlier sync failed, it is closing, or too much is waiting). Nothing
    /// was kept.
    #[error("store takes no writes: {reason}")]
    Unavailable {
        /// Why.
        reason: &'static str,
    },
    /// Too little disk space to write safely. Nothing was kept; reads and deletes of spaces go on.
    #[error("disk is nearly full (free_bytes={free_bytes})")]
    Full {
        /// What is left.
        free_bytes: u64,
    },
    /// The changes of one transaction are more than the store keeps together. Nothing was kept; the same will never be.
    #[error("transaction is too large (bytes={bytes}, bytes_max={bytes_max})")]
    TooLarge {
        /// Bytes that it would write.
        bytes: usize,
        /// What the store takes.
        bytes_max: usize,
    },
    /// Stored bytes cannot be trusted. Never retried.
    #[error("stored row is damaged (space={space}, what={what})")]
    Damaged {
        /// In which space.
        space: SpaceId,
        /// What is wrong.
        what: &'static str,
    },
    /// The store could not be read. Nothing was kept.
    #[error("store failed")]
    Failed {
        /// What happened.
        #[source]
        cause: Cause,
    },
}
