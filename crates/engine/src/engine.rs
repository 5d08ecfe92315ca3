//! The contract itself. Its promises, each with a module of the same name in the conformance suite:
//!
//! 1. *order*: a scan gives rows by partition bytes, then row bytes, each exactly once.
//! 2. *atomic*: the changes of one `transact` are kept all together or not at all.
//! 3. *isolated*: `transact`s on one partition happen one after the other, reads see their results as soon as
//!    they are acknowledged, and what a scan gives of one partition is one snapshot of it.
//! 4. *durable*: `Ok` means the changes survive a crash and a power loss, as far as the configuration promises,
//!    and nothing that was ever shown to a reader is lost later.
//! 5. *tick*: versions are unique and strictly increase within a partition, across restarts and clocks that
//!    step back.
//! 6. *unknown is not failed*: if the changes may or may not be kept, the error is `OutcomeUnknown`; every other
//!    error means that nothing was kept.
//! 7. *dropped is gone*: no row of a dropped space is ever seen again, and no write to it succeeds.
//! 8. *loaded*: what one `load` brings is kept all together, as durably as any write, under the versions it came with;
//!    loading the same again changes nothing; a row that was written since is never replaced, but one that was deleted
//!    since comes back; and every version given later in the partition is above its tick.

use std::ops::ControlFlow;

use async_trait::async_trait;
use bytes::Bytes;
use tavola_model::DateTime;

use crate::{EngineError, ScanRange, SpaceId};

/// A store that keeps the promises above.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Makes an empty space, durably. Ids are chosen by the caller, fresh each time. Making a space that exists
    /// changes nothing.
    async fn create_space(&self, space: SpaceId) -> Result<(), EngineError>;

    /// Drops a space, durably and in time that does not depend on its size. Its rows are reclaimed behind it.
    /// Dropping a space that does not exist changes nothing.
    async fn drop_space(&self, space: SpaceId) -> Result<(), EngineError>;

    /// All spaces that exist.
    async fn spaces(&self) -> Result<Vec<SpaceId>, EngineError>;

    /// Reads the `rows` of a partition, asks `decide`, and keeps the changes it gives.
    ///
    /// `decide` gets a version for this write, above every version of the partition so far, and the rows in
    /// the order asked for. It must be pure: an optimistic engine may run it more than once, and only the last
    /// run counts. It may change only rows that were asked for.
    async fn transact(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError>;

    /// Keeps rows of a partition, at least one, with the versions that they have: how a space moves here from another
    /// store, before anybody uses it.
    ///
    /// `tick` is the last one of the store that the rows come from, so no row has a version above it. A row that is
    /// there already is replaced. If one of those was written since, that is, has a version above `tick`, the load
    /// fails (`Failed`) and keeps nothing.
    async fn load(
        &self,
        space: SpaceId,
        partition: &[u8],
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<(), EngineError>;

    /// One row, or `None`.
    async fn get(
        &self,
        space: SpaceId,
        partition: &[u8],
        row: &[u8],
    ) -> Result<Option<StoredRow>, EngineError>;

    /// Visits the rows of a range in order until the visitor breaks. A scan that finds its rows without waiting gives
    /// way (returns `Pending` and wakes its task) every few hundred of them, so that others are not kept waiting.
    async fn scan(&self, space: SpaceId, range: &ScanRange, visit: &mut Visit<'_>)
    -> Result<(), EngineError>;
}

/// Chooses the changes from the version of this write and the rows that were asked for.
///
/// An alias, because `async_trait` would otherwise tie the borrowed arguments to the call as a whole.
pub type Decide<'a> = dyn FnMut(DateTime, &[Option<StoredRow>]) -> Decision + Send + 'a;

/// Takes one row of a scan and says whether to go on.
pub type Visit<'a> = dyn FnMut(ScannedRow<'_>) -> ControlFlow<()> + Send + 'a;

/// A row as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    /// The tick of the write that made it.
    pub version: DateTime,
    /// Its content.
    pub body: Bytes,
}

/// A row that was written to another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedRow {
    /// Row bytes.
    pub row: Bytes,
    /// Its version and content there.
    pub stored: StoredRow,
}

/// A row on its way through a scan.
#[derive(Clone, Debug)]
pub struct ScannedRow<'a> {
    /// Partition bytes.
    pub partition: &'a [u8],
    /// Row bytes.
    pub row: &'a [u8],
    /// The tick of the write that made it.
    pub version: DateTime,
    /// Its content.
    pub body: Bytes,
}

/// What a `decide` wants done.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Keep these changes; an empty list is a success that writes nothing.
    Apply(Vec<Change>),
    /// Change nothing. Why is between the caller and its `decide`.
    Refuse,
}

/// A change of one of the rows that were read.
#[derive(Clone, Debug)]
pub enum Change {
    /// Writes the row, with the tick of this transaction as its version.
    Put {
        /// Which of the rows asked for, by its index in the list.
        index: usize,
        /// Its new content.
        body: Bytes,
    },
    /// Deletes the row.
    Delete {
        /// Which of the rows asked for, by its index in the list.
        index: usize,
    },
}

/// How a `transact` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transacted {
    /// The changes are durable, under this version.
    Applied(DateTime),
    /// `decide` refused; nothing was changed.
    Refused,
}
