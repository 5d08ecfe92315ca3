//! Contents of blobs on the cluster: rows of a mebibyte, written without conditions.
//!
//! Ids are never given twice and a content never changes, so there is nothing for paxos to decide; what is conditional is
//! the row that names a content. Four tables' worth of rules:
//!
//! - `content_day` lists on which days a space got contents, and `content` lists the contents of a day. Both are written
//!   before the first chunk, so whatever takes disk space is found.
//! - An entry of `content` without a length is a put that is under way, or one that was cut off. Nobody can read it. It is
//!   shown to visitors once it is older than any put may be.
//! - A content is there from the moment that its entry has a length, which is written last. A drop takes the length away
//!   first, then the chunks, then the entry.
//! - Every piece of 256 KiB has a sum of its own, seeded with the content's name and its key, which travels with it. So a
//!   bad replica, a piece of another content and exchanged pieces are noticed.

mod chunks;
mod put;
mod read;
mod statements;
mod visit;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tavola_engine::{
    ByteSource, Cause, Content, ContentCursor, ContentError, ContentId, ContentIds, ContentSize,
    ContentStore, Owner, SpaceId, VisitContent,
};
use tokio::sync::OnceCell;

use crate::commit::Patience;
use crate::engine::{Core, CqlEngine};
use crate::store::StatementError;
use statements::{ContentEntry, ContentKey, Statements};

/// Contents of blobs on the cluster. [`CqlEngine::contents`] gives it.
pub struct CqlContents {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    ids: ContentIds,
    /// Prepared when the first content is asked for: a cluster that was made by an earlier version lacks the tables.
    statements: OnceCell<Statements>,
    /// Days that are listed, as far as this server knows.
    listed_days: Mutex<HashSet<(SpaceId, i32)>>,
}

impl CqlContents {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let server = getrandom::u64().unwrap_or_else(|_| core.clock.now().ticks());
        let ids = ContentIds::new(core.clock.clone(), server);
        let inner =
            Inner { core: core.clone(), ids, statements: OnceCell::new(), listed_days: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }
}

impl CqlEngine {
    /// The contents of blobs that are stored beside the rows.
    pub fn contents(&self) -> Arc<CqlContents> {
        self.contents.clone()
    }
}

impl Inner {
    async fn statements(&self) -> Result<&Statements, ContentError> {
        let prepared =
            self.statements.get_or_try_init(|| Statements::prepare(&self.core.store.session)).await;
        prepared.map_err(|cause| ContentError::Failed {
            cause: format!("the tables for blobs are not there: run `tavola cluster init` again ({cause})")
                .into(),
        })
    }

    /// The entry of a content that can be read.
    async fn entry(&self, key: &ContentKey) -> Result<Option<ContentEntry>, ContentError> {
        let statements = self.statements().await?;
        let session = &self.core.store.session;
        let read = self.core.patiently(&mut Patience::new(), || statements.read_entry(session, key)).await;
        read.map_err(read_failed)
    }
}

#[async_trait]
impl ContentStore for CqlContents {
    async fn put(
        &self,
        owner: &Owner,
        size: ContentSize,
        source: &mut dyn ByteSource,
    ) -> Result<Content, ContentError> {
        put::put(&self.inner, self.inner.ids.next(), owner, size, source).await
    }

    async fn load(
        &self,
        owner: &Owner,
        content: &Content,
        source: &mut dyn ByteSource,
    ) -> Result<(), ContentError> {
        put::put(&self.inner, content.id, owner, ContentSize::Exactly(content.length), source).await?;
        Ok(())
    }

    async fn read(
        &self,
        space: SpaceId,
        content: &Content,
        range: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, ContentError> {
        read::read(&self.inner, space, content, range).await
    }

    async fn drop_contents(&self, space: SpaceId, contents: &[ContentId]) -> Result<(), ContentError> {
        for id in contents {
            put::drop_content(&self.inner, &ContentKey::of(space, *id)).await?;
        }
        Ok(())
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), ContentError> {
        visit::drop_space(self, space).await
    }

    async fn visit(
        &self,
        from: Option<ContentCursor>,
        visit: &mut VisitContent<'_>,
    ) -> Result<Option<ContentCursor>, ContentError> {
        visit::visit(&self.inner, from, visit).await
    }
}

/// The answer for a read that failed, or a write of which nothing can be seen.
fn read_failed(trouble: StatementError) -> ContentError {
    match trouble {
        StatementError::Impossible(cause) => ContentError::Failed { cause },
        StatementError::NotDone(cause) | StatementError::Unclear(cause) => {
            tracing::warn!(%cause, "the cluster does not answer");
            ContentError::Unavailable { reason: "the cluster does not answer" }
        }
    }
}

/// The answer for a write after which a content may be there, or gone.
fn write_failed(trouble: StatementError) -> ContentError {
    match trouble {
        StatementError::NotDone(_) => read_failed(trouble),
        StatementError::Unclear(cause) | StatementError::Impossible(cause) => unknown(cause),
    }
}

fn unknown(cause: Cause) -> ContentError {
    ContentError::OutcomeUnknown { cause }
}
