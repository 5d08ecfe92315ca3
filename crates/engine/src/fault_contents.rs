//! A store of contents that fails on purpose.
//!
//! It wraps another store and, by chance from a seed, does to a call what a network, a client or a crash could do: refuses
//! it, delays it, breaks the source of a put midway, loses the answer of a put or a drop, fails a read midway. It never
//! lies: an error that promises that nothing was kept keeps nothing, and no byte that it gives is another.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::fault::Chance;
use crate::{
    ByteSource, Content, ContentCursor, ContentError, ContentId, ContentSize, ContentStore, FoundContent,
    Owner, PIECE_BYTES_MAX, SourceError, SpaceId, VisitContent,
};

/// How often a call fails, in thousandths. The same seed gives the same faults to the same sequence of calls.
#[derive(Clone, Copy, Debug)]
pub struct ContentFaultSettings {
    /// Where chance begins.
    pub seed: u64,
    /// Calls that are refused before they reach the store.
    pub refused: u16,
    /// Puts whose source breaks somewhere.
    pub broken_source: u16,
    /// Puts and drops whose request is lost; whoever asked cannot know.
    pub lost_request: u16,
    /// Puts and drops whose answer is lost; whoever asked cannot know.
    pub lost_answer: u16,
    /// Reads that fail, at once or midway, and visits that do.
    pub failed_read: u16,
    /// Calls, and pieces of sources, that are delayed by up to a millisecond.
    pub delayed: u16,
}

impl ContentFaultSettings {
    /// A few percent of everything.
    pub fn with_seed(seed: u64) -> Self {
        Self {
            seed,
            refused: 30,
            broken_source: 50,
            lost_request: 30,
            lost_answer: 30,
            failed_read: 50,
            delayed: 50,
        }
    }
}

/// The wrapper.
pub struct FaultContents {
    inner: Arc<dyn ContentStore>,
    settings: ContentFaultSettings,
    chance: Arc<Chance>,
}

impl FaultContents {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn ContentStore>, settings: ContentFaultSettings) -> Self {
        Self { inner, settings, chance: Arc::new(Chance::new(settings.seed)) }
    }

    async fn delay(&self) {
        delay(&self.chance, self.settings.delayed).await;
    }

    /// What happens on the way to the store.
    async fn before_write(&self) -> Result<(), ContentError> {
        self.delay().await;
        if self.chance.happens(self.settings.refused) {
            return Err(ContentError::Unavailable { reason: "injected fault" });
        }
        if self.chance.happens(self.settings.lost_request) {
            return Err(unknown());
        }
        Ok(())
    }

    /// What happens on the way back.
    async fn after_write<T>(&self, outcome: Result<T, ContentError>) -> Result<T, ContentError> {
        self.delay().await;
        match outcome {
            Ok(_) if self.chance.happens(self.settings.lost_answer) => Err(unknown()),
            outcome => outcome,
        }
    }

    /// The same source, which may break on the way.
    fn faulty<'a>(&self, source: &'a mut dyn ByteSource, size: ContentSize) -> FaultySource<'a> {
        let pieces = size.bytes_max() / PIECE_BYTES_MAX as u64 + 1;
        let breaks = self.chance.happens(self.settings.broken_source);
        FaultySource {
            source: Inner::Borrowed(source),
            pieces_left: breaks.then(|| self.chance.draw() % pieces),
            delayed: self.settings.delayed,
            chance: self.chance.clone(),
        }
    }
}

#[async_trait]
impl ContentStore for FaultContents {
    async fn put(
        &self,
        owner: &Owner,
        size: ContentSize,
        source: &mut dyn ByteSource,
    ) -> Result<Content, ContentError> {
        self.before_write().await?;
        let outcome = self.inner.put(owner, size, &mut self.faulty(source, size)).await;
        self.after_write(outcome).await
    }

    async fn load(
        &self,
        owner: &Owner,
        content: &Content,
        source: &mut dyn ByteSource,
    ) -> Result<(), ContentError> {
        self.before_write().await?;
        let size = ContentSize::Exactly(content.length);
        let outcome = self.inner.load(owner, content, &mut self.faulty(source, size)).await;
        self.after_write(outcome).await
    }

    async fn read(
        &self,
        space: SpaceId,
        content: &Content,
        range: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, ContentError> {
        self.delay().await;
        let fails = self.chance.happens(self.settings.failed_read);
        let pieces = (range.end - range.start) / PIECE_BYTES_MAX as u64 + 1;
        let pieces_left = fails.then(|| self.chance.draw() % (pieces + 1));
        if pieces_left == Some(0) {
            return Err(failed());
        }
        let source = self.inner.read(space, content, range).await?;
        Ok(Box::new(FaultySource {
            source: Inner::Owned(source),
            pieces_left: pieces_left.map(|pieces| pieces - 1),
            delayed: self.settings.delayed,
            chance: self.chance.clone(),
        }))
    }

    async fn copy(
        &self,
        space: SpaceId,
        content: &Content,
        owner: &Owner,
        copied: &AtomicU64,
    ) -> Result<Content, ContentError> {
        self.before_write().await?;
        let outcome = self.inner.copy(space, content, owner, copied).await;
        self.after_write(outcome).await
    }

    async fn drop_contents(&self, space: SpaceId, contents: &[ContentId]) -> Result<(), ContentError> {
        self.before_write().await?;
        let outcome = self.inner.drop_contents(space, contents).await;
        self.after_write(outcome).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), ContentError> {
        self.before_write().await?;
        let outcome = self.inner.drop_space(space).await;
        self.after_write(outcome).await
    }

    async fn visit(
        &self,
        from: Option<ContentCursor>,
        visit: &mut VisitContent<'_>,
    ) -> Result<Option<ContentCursor>, ContentError> {
        self.delay().await;
        if !self.chance.happens(self.settings.failed_read) {
            return self.inner.visit(from, visit).await;
        }
        let mut left = self.chance.draw() % 4;
        let mut is_stopped = false;
        let mut visit_some = |found: &FoundContent| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            let flow = visit(found);
            is_stopped = flow.is_break();
            flow
        };
        let next = self.inner.visit(from, &mut visit_some).await?;
        if is_stopped { Ok(next) } else { Err(failed()) }
    }
}

/// A run that fails says how to have it again.
impl Drop for FaultContents {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("faults of contents were drawn with seed {}", self.settings.seed);
        }
    }
}

/// A source that breaks after some pieces, if it breaks.
struct FaultySource<'a> {
    source: Inner<'a>,
    pieces_left: Option<u64>,
    delayed: u16,
    chance: Arc<Chance>,
}

enum Inner<'a> {
    Borrowed(&'a mut dyn ByteSource),
    Owned(Box<dyn ByteSource>),
}

#[async_trait]
impl ByteSource for FaultySource<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        delay(&self.chance, self.delayed).await;
        if self.pieces_left == Some(0) {
            return Err(SourceError::Broken("injected fault".into()));
        }
        self.pieces_left = self.pieces_left.map(|pieces| pieces - 1);
        match &mut self.source {
            Inner::Borrowed(source) => source.next().await,
            Inner::Owned(source) => source.next().await,
        }
    }
}

async fn delay(chance: &Chance, thousandths: u16) {
    if chance.happens(thousandths) {
        tokio::time::sleep(Duration::from_micros(chance.draw() % 1000)).await;
    }
}

fn unknown() -> ContentError {
    ContentError::OutcomeUnknown { cause: "injected fault".into() }
}

fn failed() -> ContentError {
    ContentError::Failed { cause: "injected fault".into() }
}
