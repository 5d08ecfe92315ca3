//! Contents of blobs as objects of a bucket, through the `object_store` crate.
//!
//! A content is one object, written once under a name that is never given again. Its name begins with its space and the
//! hour of its birth, so that contents are found in order whatever order a bucket lists in (`visit.rs`). Its bytes carry
//! a sum for every piece and end with the owner of the content (`object.rs`), because a list tells neither. Rows name
//! contents; nothing but rows decides which of them is wanted.
//!
//! An object is there whole or not at all. A large one is sent in parts, and what a put that was cut off has sent of it is
//! dropped in the background. If a server dies before that, the parts stay unseen in the bucket until its own rule for
//! incomplete uploads removes them.
//!
//! ```
//! # use std::sync::Arc;
//! # use tavola_bucket::BucketContents;
//! # use tavola_engine::conformance::TestClock;
//! let store = Arc::new(object_store::memory::InMemory::new());
//! let contents = BucketContents::new(store, object_store::path::Path::default(), Arc::new(TestClock::new()));
//! ```

mod object;
mod open;
mod put;
mod read;
mod visit;

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::ObjectStore;
use object_store::path::Path;
use tavola_engine::{
    ByteSource, Content, ContentCursor, ContentError, ContentId, ContentIds, ContentSize, ContentStore,
    Owner, SpaceId, VisitContent,
};
use tavola_model::Clock;

pub use open::{BucketUrl, OpenBucketError};

/// Contents of blobs in a bucket.
pub struct BucketContents {
    store: Arc<dyn ObjectStore>,
    /// What the names of all objects begin with.
    root: Path,
    ids: ContentIds,
}

impl BucketContents {
    /// The contents below this path of a bucket.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, clock: Arc<dyn Clock>) -> Self {
        let server = getrandom::u64().unwrap_or_else(|_| clock.now().ticks());
        Self { store, root, ids: ContentIds::new(clock, server) }
    }

    /// Whether the bucket can be listed: what a server asks before it relies on it.
    pub async fn check(&self) -> Result<(), ContentError> {
        self.store.list_with_delimiter(Some(&self.root)).await.map(|_| ()).map_err(read_failed)
    }
}

#[async_trait]
impl ContentStore for BucketContents {
    async fn put(
        &self,
        owner: &Owner,
        size: ContentSize,
        source: &mut dyn ByteSource,
    ) -> Result<Content, ContentError> {
        put::put(self, self.ids.next(), owner, size, source).await
    }

    async fn load(
        &self,
        owner: &Owner,
        content: &Content,
        source: &mut dyn ByteSource,
    ) -> Result<(), ContentError> {
        put::put(self, content.id, owner, ContentSize::Exactly(content.length), source).await?;
        Ok(())
    }

    async fn read(
        &self,
        space: SpaceId,
        content: &Content,
        range: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, ContentError> {
        read::read(self, space, content, range).await
    }

    async fn drop_contents(&self, space: SpaceId, contents: &[ContentId]) -> Result<(), ContentError> {
        let paths = contents.iter().map(|id| object::path_of(&self.root, space, *id)).collect();
        put::delete(self, paths).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), ContentError> {
        visit::drop_space(self, space).await
    }

    async fn visit(
        &self,
        from: Option<ContentCursor>,
        visit: &mut VisitContent<'_>,
    ) -> Result<Option<ContentCursor>, ContentError> {
        visit::visit(self, from, visit).await
    }
}

/// The answer for a read that failed, or a write that did nothing.
fn read_failed(error: object_store::Error) -> ContentError {
    match error {
        error @ object_store::Error::Generic { .. } => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the bucket does not answer");
            ContentError::Unavailable { reason: "the bucket does not answer" }
        }
        error => ContentError::Failed { cause: error.into() },
    }
}

/// The answer for a write that failed: what the bucket refused it has not kept, and of everything else nobody knows.
fn write_failed(error: object_store::Error) -> ContentError {
    use object_store::Error;
    let is_refused = matches!(
        error,
        Error::NotFound { .. }
            | Error::InvalidPath { .. }
            | Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
    );
    if is_refused {
        ContentError::Failed { cause: error.into() }
    } else {
        ContentError::OutcomeUnknown { cause: error.into() }
    }
}
