//! Writing and dropping a content.

use std::sync::Arc;

use tavola_engine::{ByteSource, Content, ContentError, ContentId, ContentSize, Owner, Pieces};

use super::chunks::{gather, segments};
use super::statements::ContentKey;
use super::{Inner, read_failed, write_failed};
use crate::commit::Patience;

/// Writes the chunks of a source, then lets them be read. While a chunk is written the next one is gathered.
pub(super) async fn put(
    inner: &Arc<Inner>,
    id: ContentId,
    owner: &Owner,
    size: ContentSize,
    source: &mut dyn ByteSource,
) -> Result<Content, ContentError> {
    assert!(owner.partition.len() <= Owner::PARTITION_BYTES_MAX, "the owner's name is not too long");
    let key = ContentKey::of(owner.space, id);
    begin(inner, &key, owner, size).await?;
    // From here on there may be something to remove.
    let cleanup =
        Cleanup { inner: inner.clone(), key, segments: segments(size.bytes_max()), is_wanted: true };
    let written = write(inner, &key, size, source).await;
    let length = match written {
        Ok(length) => length,
        Err(error) => {
            cleanup.run().await;
            return Err(error);
        }
    };
    let (statements, session) = (inner.statements().await?, &inner.core.store.session);
    let finish = || statements.finish(session, &key, length, segments(length));
    let finished = inner.core.patiently(&mut Patience::new(), finish).await;
    // It may be there now, and somebody may be told so.
    cleanup.forget();
    finished.map_err(write_failed)?;
    Ok(Content { id, length })
}

async fn begin(
    inner: &Inner,
    key: &ContentKey,
    owner: &Owner,
    size: ContentSize,
) -> Result<(), ContentError> {
    let (statements, session) = (inner.statements().await?, &inner.core.store.session);
    let patience = &mut Patience::new();
    let day = (key.space, key.day());
    if !lock(&inner.listed_days).contains(&day) {
        let list = || statements.list_day(session, day.0, day.1);
        inner.core.patiently(patience, list).await.map_err(read_failed)?;
        let mut listed = lock(&inner.listed_days);
        // What is forgotten is listed again, which changes nothing.
        if listed.len() >= LISTED_DAYS_MAX {
            listed.clear();
        }
        listed.insert(day);
    }
    let segments = segments(size.bytes_max());
    let begin = || statements.begin(session, key, &owner.partition, segments);
    inner.core.patiently(patience, begin).await.map_err(read_failed)
}

/// Days that a server remembers to be listed.
const LISTED_DAYS_MAX: usize = 100_000;

async fn write(
    inner: &Inner,
    key: &ContentKey,
    size: ContentSize,
    source: &mut dyn ByteSource,
) -> Result<u64, ContentError> {
    let (statements, session) = (inner.statements().await?, &inner.core.store.session);
    let mut pieces = Pieces::new(source, size);
    let mut next = gather(key.space, key.id, 0, &mut pieces).await?;
    while let Some(chunk) = next {
        let mut patience = Patience::new();
        let writing = inner.core.patiently(&mut patience, || statements.write_chunk(session, key, &chunk));
        let gathering = gather(key.space, key.id, chunk.number + 1, &mut pieces);
        let (written, gathered) = tokio::join!(writing, gathering);
        written.map_err(read_failed)?;
        next = gathered?;
    }
    Ok(pieces.taken())
}

/// Drops a content: first nobody can read it, then its chunks go, then its entry.
pub(super) async fn drop_content(inner: &Inner, key: &ContentKey) -> Result<(), ContentError> {
    let Some(entry) = inner.entry(key).await? else { return Ok(()) };
    let (statements, session) = (inner.statements().await?, &inner.core.store.session);
    let unfinish = || statements.unfinish(session, key);
    inner.core.patiently(&mut Patience::new(), unfinish).await.map_err(write_failed)?;
    remove(inner, key, entry.segments).await
}

/// Removes the chunks and the entry of a content that nobody can read.
async fn remove(inner: &Inner, key: &ContentKey, segments: i32) -> Result<(), ContentError> {
    let (statements, session) = (inner.statements().await?, &inner.core.store.session);
    for segment in 0..segments {
        let delete = || statements.delete_segment(session, key, segment);
        inner.core.patiently(&mut Patience::new(), delete).await.map_err(write_failed)?;
    }
    let forget = || statements.forget(session, key);
    inner.core.patiently(&mut Patience::new(), forget).await.map_err(write_failed)
}

/// What a put that does not end well leaves. If the put is let go, it is removed in the background; if that fails too, the
/// entry is shown to visitors when it is old enough.
struct Cleanup {
    inner: Arc<Inner>,
    key: ContentKey,
    segments: i32,
    is_wanted: bool,
}

impl Cleanup {
    async fn run(mut self) {
        self.is_wanted = false;
        if let Err(error) = remove(&self.inner, &self.key, self.segments).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(content = %self.key.id, error, "cannot remove the chunks of an unfinished upload; the scrubber will");
        }
    }

    fn forget(mut self) {
        self.is_wanted = false;
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if !self.is_wanted {
            return;
        }
        let (inner, key, segments) = (self.inner.clone(), self.key, self.segments);
        let cleanup = Self { inner, key, segments, is_wanted: false };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(cleanup.run());
        }
    }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
