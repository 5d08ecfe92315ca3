//! Where the bytes of blobs live: the second storage contract, beside [`Engine`](crate::Engine).
//!
//! A content is a string of bytes of any length that is written once, read in ranges and dropped. Rows name contents by
//! [`Content`]; a store of contents does not look into rows. Its promises, each with a module of the same name in
//! `conformance/content/`:
//!
//! 1. *whole*: a read gives the bytes that were put, or an error; never other bytes, and never fewer without an error.
//! 2. *durable*: a content survives whatever the row survives that names it. Once a `transact` that began after `put`
//!    gave `Ok` is acknowledged, the content survives a crash and a power loss as that row does.
//! 3. *constant*: a content never changes. Its id is never given again.
//! 4. *unnamed is unseen*: only its space and id lead to a content. One that is not there, or no longer, is `Missing`.
//! 5. *dropped*: to drop twice is to drop once. A read that is under way ends with all its bytes or with an error. The
//!    disk space of a dropped content comes back.
//! 6. *bounded*: a call holds at most four pieces of its source and buffers of a fixed size, whatever the size of the
//!    content, and takes no piece from its source before it has memory for it.
//! 7. *cancelled*: a put that is let go, or whose source fails, keeps nothing that `visit` does not show.
//! 8. *findable*: `visit` shows every durable content with its owner, space by space, the oldest of a space first.
//! 9. *unknown is not failed*: if a content may or may not be kept, the error is `OutcomeUnknown`; every other error of a
//!    write means that nothing was kept, and of a drop that it may be tried again.
//! 10. *loaded*: what a `load` brings is kept under the id that it has, as durably as by a put; loading the same again
//!     changes nothing.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tavola_model::{Clock, DateTime};

use crate::{ByteSource, Cause, EngineError, ScannedRow, SourceError, SpaceId, TickClock};

/// A store of contents that keeps the promises above.
#[async_trait]
pub trait ContentStore: Send + Sync + 'static {
    /// Keeps the bytes of a source as a new content. The space need not exist as a space of rows: a content without a
    /// row that names it is found by `visit`.
    async fn put(
        &self,
        owner: &Owner,
        size: ContentSize,
        source: &mut dyn ByteSource,
    ) -> Result<Content, ContentError>;

    /// Keeps the bytes of a source as a content that another store gave its id: how contents move here. One that is
    /// there already under this id is replaced; nobody may be reading it.
    async fn load(
        &self,
        owner: &Owner,
        content: &Content,
        source: &mut dyn ByteSource,
    ) -> Result<(), ContentError>;

    /// The bytes of a range, which must lie within the content. Its first piece has been read and checked when this
    /// returns, so damage at the beginning is an error of this call and not of the source.
    async fn read(
        &self,
        space: SpaceId,
        content: &Content,
        range: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, ContentError>;

    /// A new content with the same bytes. Contents are never shared, so that each is dropped with its owner. Adds to
    /// `copied` what has been copied, while it goes on.
    async fn copy(
        &self,
        space: SpaceId,
        content: &Content,
        owner: &Owner,
        copied: &AtomicU64,
    ) -> Result<Content, ContentError> {
        let source = self.read(space, content, 0..content.length).await?;
        let mut source = CountedSource { source, copied };
        self.put(owner, ContentSize::Exactly(content.length), &mut source).await
    }

    /// Drops contents of a space, durably. One that is not there is passed over.
    async fn drop_contents(&self, space: SpaceId, contents: &[ContentId]) -> Result<(), ContentError>;

    /// Drops every content of a space that is durable now. A put that ends later may leave one; `visit` shows it.
    async fn drop_space(&self, space: SpaceId) -> Result<(), ContentError>;

    /// Shows contents from behind a cursor on, until the visitor breaks or there are no more. Gives where to go on, or
    /// `None` at the end. A content of which it cannot be told whose it is ends the visit with `Damaged`, which names it:
    /// a visit from behind it shows the others.
    async fn visit(
        &self,
        from: Option<ContentCursor>,
        visit: &mut VisitContent<'_>,
    ) -> Result<Option<ContentCursor>, ContentError>;
}

/// A source that counts what is taken from it.
struct CountedSource<'a> {
    source: Box<dyn ByteSource>,
    copied: &'a AtomicU64,
}

#[async_trait]
impl ByteSource for CountedSource<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        let piece = self.source.next().await?;
        self.copied.fetch_add(piece.as_ref().map_or(0, |piece| piece.len() as u64), Ordering::Relaxed);
        Ok(piece)
    }
}

/// Takes one content of a visit and says whether to go on.
pub type VisitContent<'a> = dyn FnMut(&FoundContent) -> ControlFlow<()> + Send + 'a;

/// What a row keeps of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// Its name, together with its space.
    pub id: ContentId,
    /// Its length in bytes.
    pub length: u64,
}

/// Names a content within its space: eight bytes of time, big-endian, then eight that tell apart those who give ids. So
/// ids sort by age.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(pub [u8; 16]);

impl ContentId {
    /// Before every id.
    pub const MIN: ContentId = ContentId([0; 16]);
    /// Behind every id.
    pub const MAX: ContentId = ContentId([0xFF; 16]);

    /// When its put began.
    pub fn born(self) -> DateTime {
        let (time, _) = self.0.split_first_chunk().expect("an id has sixteen bytes");
        DateTime::from_ticks(u64::from_be_bytes(*time)).unwrap_or(DateTime::MAX)
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentId({self})")
    }
}

/// Gives ids that no other store gives.
pub struct ContentIds {
    ticks: TickClock,
    store: [u8; 8],
}

impl ContentIds {
    /// Ids of a store. `store` must be another number in every process that gives ids at the same time.
    pub fn new(clock: Arc<dyn Clock>, store: u64) -> Self {
        Self { ticks: TickClock::starting_above(DateTime::MIN, clock), store: store.to_be_bytes() }
    }

    /// An id above every one given before.
    pub fn next(&self) -> ContentId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.ticks.next().ticks().to_be_bytes());
        id[8..].copy_from_slice(&self.store);
        ContentId(id)
    }

    /// Lets every later id be younger than this moment.
    pub fn raise(&self, tick: DateTime) {
        self.ticks.raise(tick);
    }
}

/// Whose a content is: the partition whose rows may name it. It tells whoever finds a content where to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The space of the rows, and of the content.
    pub space: SpaceId,
    /// Partition bytes; at most [`Owner::PARTITION_BYTES_MAX`].
    pub partition: Vec<u8>,
}

impl Owner {
    /// A blob name of 1,024 characters takes at most three bytes for each.
    pub const PARTITION_BYTES_MAX: usize = 4096;
}

/// How much a source will give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentSize {
    /// So many bytes; a source that gives fewer or more fails the put.
    Exactly(u64),
    /// At most so many bytes; a source that gives more fails the put.
    UpTo(u64),
}

impl ContentSize {
    /// The most it can be.
    pub fn bytes_max(self) -> u64 {
        match self {
            Self::Exactly(bytes) | Self::UpTo(bytes) => bytes,
        }
    }

    /// `Ok` if a source that ended after so many bytes gave what was announced.
    pub fn check(self, found: u64) -> Result<(), ContentError> {
        match self {
            Self::Exactly(bytes) if found == bytes => Ok(()),
            Self::UpTo(bytes_max) if found <= bytes_max => Ok(()),
            Self::Exactly(announced) | Self::UpTo(announced) => Err(ContentError::Size { announced, found }),
        }
    }
}

/// A content that a visit shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundContent {
    /// Its id and length.
    pub content: Content,
    /// Whose it is.
    pub owner: Owner,
}

impl FoundContent {
    /// Where a visit goes on behind it.
    pub fn cursor(&self) -> ContentCursor {
        ContentCursor { space: self.owner.space, id: self.content.id }
    }
}

/// A place between contents: behind this one. It need not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentCursor {
    /// The space.
    pub space: SpaceId,
    /// The content within it.
    pub id: ContentId,
}

impl ContentCursor {
    /// Before the contents of a space.
    pub fn space_start(space: SpaceId) -> Self {
        Self { space, id: ContentId::MIN }
    }
}

/// Knows which contents rows name. A store does not look into rows; the Blob service does.
pub trait NamedContents {
    /// Learns from a row of the catalog space. All of them are shown before any other row.
    fn learn(&mut self, row: &ScannedRow<'_>);

    /// Shows the contents that a row of a space names. Most spaces are no containers, and most rows name none.
    fn visit(&self, space: SpaceId, row: &ScannedRow<'_>, visit: &mut dyn FnMut(&Content));
}

/// Why a store of contents did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// There is no such content, or no longer.
    #[error("content does not exist (space={space}, content={id})")]
    Missing {
        /// In which space.
        space: SpaceId,
        /// Which.
        id: ContentId,
    },
    /// The source of a put failed. Nothing was kept.
    #[error("the source of a content failed")]
    Source(#[source] SourceError),
    /// The source of a put gave another number of bytes than announced. Nothing was kept.
    #[error("the content has another length (announced={announced}, found={found})")]
    Size {
        /// What was announced, or the most that was allowed.
        announced: u64,
        /// What came until it was noticed.
        found: u64,
    },
    /// No answer in time, or the store failed midway. The content may or may not be kept, or dropped.
    #[error("outcome of the write is unknown")]
    OutcomeUnknown {
        /// What happened.
        #[source]
        cause: Cause,
    },
    /// The store takes no writes now. Nothing was kept.
    #[error("store takes no writes: {reason}")]
    Unavailable {
        /// Why.
        reason: &'static str,
    },
    /// Too little disk space for what was announced. Nothing was kept.
    #[error("disk is nearly full (free_bytes={free_bytes})")]
    Full {
        /// What is left.
        free_bytes: u64,
    },
    /// Stored bytes cannot be trusted. Never retried.
    #[error("stored content is damaged (space={space}, content={id}, what={what})")]
    Damaged {
        /// In which space.
        space: SpaceId,
        /// Which.
        id: ContentId,
        /// What is wrong.
        what: &'static str,
    },
    /// The store could not be read or written. Nothing was kept.
    #[error("store failed")]
    Failed {
        /// What happened.
        #[source]
        cause: Cause,
    },
}

impl ContentError {
    /// The same failure of rows, for stores whose contents have rows of their own; `id` is the content in question.
    pub fn of_rows(error: EngineError, id: ContentId) -> Self {
        match error {
            EngineError::SpaceMissing { space } => Self::Missing { space, id },
            EngineError::OutcomeUnknown { cause } => Self::OutcomeUnknown { cause },
            EngineError::Unavailable { reason } => Self::Unavailable { reason },
            EngineError::Full { free_bytes } => Self::Full { free_bytes },
            EngineError::Damaged { space, what } => Self::Damaged { space, id, what },
            EngineError::Failed { cause } => Self::Failed { cause },
            error @ (EngineError::Conflict { .. } | EngineError::TooLarge { .. }) => {
                Self::Failed { cause: error.into() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::TestClock;

    #[test]
    fn ids_sort_by_age_also_when_the_clock_stands_still() {
        let clock = Arc::new(TestClock::new());
        let ids = ContentIds::new(clock.clone(), 7);
        let [first, second] = [ids.next(), ids.next()];
        clock.step(-5);
        let third = ids.next();
        assert!(first < second && second < third, "{first} {second} {third}");
        assert_eq!(second.born().ticks() - first.born().ticks(), 1);
        assert_eq!(first.0[8..], 7u64.to_be_bytes());
    }

    #[test]
    fn a_size_is_exact_or_a_bound() {
        let check = |size: ContentSize, found| size.check(found).is_ok();
        assert_eq!([4, 5, 6].map(|found| check(ContentSize::Exactly(5), found)), [false, true, false]);
        assert_eq!([4, 5, 6].map(|found| check(ContentSize::UpTo(5), found)), [true, true, false]);
    }
}
