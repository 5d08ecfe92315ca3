//! A service whose store of contents can be told to fail, and to wait for ever.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::{
    ByteSource, Content, ContentCursor, ContentError, ContentId, ContentSize, ContentStore, Engine,
    FoundContent, MemoryContents, MemoryEngine, Owner, SourceError, SpaceId, VisitContent,
};
use tavola_model::{BlobCommand, BlobOutcome, ErrorCode};
use tavola_service::{Service, ServiceSettings};
use tavola_system::SystemRandom;

use crate::bench::{HeldClock, bytes, clock, create_container, execute, put, retain_deleted};
use crate::watched::{Event, happen};

/// A service whose store of contents can be told to fail.
pub struct Stores {
    pub engine: Arc<dyn Engine>,
    pub service: Service,
    pub contents: Arc<TroubledContents>,
    pub clock: Arc<HeldClock>,
    pub runtime: tokio::runtime::Runtime,
    settings: ServiceSettings,
}

impl Stores {
    pub fn new() -> Self {
        Self::with(ServiceSettings::default())
    }

    pub fn with(settings: ServiceSettings) -> Self {
        let settings = ServiceSettings { copy_bytes_max: 100_000, ..settings };
        let clock = clock();
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new(clock.clone()));
        let contents = Arc::new(TroubledContents {
            inner: MemoryContents::new(clock.clone()),
            is_damaged: AtomicBool::new(false),
            malformed: Mutex::new(None),
            breaks_off: AtomicBool::new(false),
            before_read: Mutex::new(None),
            copy_failure: Mutex::new(None),
            is_held: AtomicBool::new(false),
            copies_left: AtomicUsize::new(usize::MAX),
            copy_seconds: AtomicU64::new(0),
            clock: clock.clone(),
        });
        let service = service_on(&engine, &contents, &clock, &settings);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stores = Self { engine, service, contents, clock, runtime, settings };
        stores.runtime.block_on(execute(&stores.service, create_container(), Bytes::new())).unwrap();
        stores
    }

    /// Ends the server and starts another one on the same stores.
    pub fn restart(&mut self) {
        self.service = service_on(&self.engine, &self.contents, &self.clock, &self.settings);
        // What the last one was doing ends with its runtime.
        self.runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    }

    /// Another server on the same stores, beside this one.
    pub fn other_server(&self) -> Service {
        service_on(&self.engine, &self.contents, &self.clock, &self.settings)
    }

    pub fn run(&self, command: BlobCommand) -> Result<(BlobOutcome, Bytes), ErrorCode> {
        self.runtime.block_on(execute(&self.service, command, Bytes::new()))
    }

    pub fn put(&self, name: &str, length: usize) {
        let body = bytes(3, length);
        self.runtime.block_on(execute(&self.service, put(name, &body), body)).unwrap();
    }

    pub fn retain_deleted(&self, days: u32) {
        self.runtime.block_on(retain_deleted(&self.service, Some(days)));
    }

    /// Lets what is done behind answers come to its end.
    pub fn settle(&self) {
        self.runtime.block_on(async {
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
        });
    }
}

fn service_on(
    engine: &Arc<dyn Engine>,
    contents: &Arc<TroubledContents>,
    clock: &Arc<HeldClock>,
    settings: &ServiceSettings,
) -> Service {
    Service::new(engine.clone(), clock.clone(), Arc::new(SystemRandom), settings.clone())
        .with_contents(contents.clone() as Arc<dyn ContentStore>)
}

/// Why a copy of a content fails.
pub type CopyFailure = fn(&Content) -> ContentError;

/// Contents that are damaged, or that are never copied or dropped with their space, when told so.
pub struct TroubledContents {
    pub inner: MemoryContents,
    pub is_damaged: AtomicBool,
    /// The content of which it cannot be told whose it is.
    pub malformed: Mutex<Option<ContentCursor>>,
    /// A read finds damage behind its first piece.
    pub breaks_off: AtomicBool,
    /// What somebody else does just before the next read or copy.
    pub before_read: Event,
    /// What a copy fails with.
    pub copy_failure: Mutex<Option<CopyFailure>>,
    pub is_held: AtomicBool,
    /// Copies that are still made; the next one waits until there are more.
    pub copies_left: AtomicUsize,
    /// How long a copy takes.
    pub copy_seconds: AtomicU64,
    clock: Arc<HeldClock>,
}

#[async_trait]
impl ContentStore for TroubledContents {
    async fn put(
        &self,
        owner: &Owner,
        size: ContentSize,
        source: &mut dyn ByteSource,
    ) -> Result<Content, ContentError> {
        self.inner.put(owner, size, source).await
    }

    async fn load(
        &self,
        owner: &Owner,
        content: &Content,
        source: &mut dyn ByteSource,
    ) -> Result<(), ContentError> {
        self.inner.load(owner, content, source).await
    }

    async fn read(
        &self,
        space: SpaceId,
        content: &Content,
        range: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, ContentError> {
        if self.is_damaged.load(Ordering::SeqCst) {
            return Err(ContentError::Damaged { space, id: content.id, what: "a piece has another sum" });
        }
        happen(&self.before_read).await;
        let source = self.inner.read(space, content, range).await?;
        if !self.breaks_off.load(Ordering::SeqCst) {
            return Ok(source);
        }
        let damage = ContentError::Damaged { space, id: content.id, what: "a piece has another sum" };
        Ok(Box::new(BrokenOff { source, damage: Some(damage), is_begun: false }))
    }

    /// While it is held, a copy stops before its last byte.
    async fn copy(
        &self,
        space: SpaceId,
        content: &Content,
        owner: &Owner,
        copied: &AtomicU64,
    ) -> Result<Content, ContentError> {
        if self.is_held.load(Ordering::SeqCst) {
            copied.fetch_add(content.length - 1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        happen(&self.before_read).await;
        let failure = *self.copy_failure.lock().unwrap();
        if let Some(failure) = failure {
            return Err(failure(content));
        }
        let one_less = |left: usize| left.checked_sub(1);
        while self.copies_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            tokio::task::yield_now().await;
        }
        let copied = self.inner.copy(space, content, owner, copied).await;
        self.clock.pass_seconds(self.copy_seconds.load(Ordering::SeqCst));
        copied
    }

    async fn drop_contents(&self, space: SpaceId, contents: &[ContentId]) -> Result<(), ContentError> {
        self.inner.drop_contents(space, contents).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), ContentError> {
        if self.is_held.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.inner.drop_space(space).await
    }

    async fn visit(
        &self,
        from: Option<ContentCursor>,
        visit: &mut VisitContent<'_>,
    ) -> Result<Option<ContentCursor>, ContentError> {
        let malformed = *self.malformed.lock().unwrap();
        let mut is_met = false;
        let mut each = |found: &FoundContent| {
            is_met = malformed == Some(found.cursor());
            if is_met { ControlFlow::Break(()) } else { visit(found) }
        };
        let next = self.inner.visit(from, &mut each).await?;
        match malformed.filter(|_| is_met) {
            Some(ContentCursor { space, id }) => {
                Err(ContentError::Damaged { space, id, what: "its owner cannot be read" })
            }
            None => Ok(next),
        }
    }
}

/// A read that finds damage behind its first piece.
struct BrokenOff {
    source: Box<dyn ByteSource>,
    damage: Option<ContentError>,
    is_begun: bool,
}

#[async_trait]
impl ByteSource for BrokenOff {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        match self.damage.take_if(|_| self.is_begun) {
            Some(damage) => Err(SourceError::Broken(damage.into())),
            None => {
                self.is_begun = true;
                self.source.next().await
            }
        }
    }
}
