//! The store of contents of the embedded engine.

use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use tavola_engine::{
    ByteSource, Content, ContentCursor, ContentError, ContentId, ContentIds, ContentSize, ContentStore,
    EngineError, Owner, SpaceId, TickClock, VisitContent,
};
use tavola_model::Clock;

use super::extent::{self, Extent};
use super::extents::{Extents, folder_in};
use super::index::{Index, IndexRow, names_of, outcome_of};
use super::put::{self, PutParts};
use super::read;
use super::readers::Readers;
use super::sweep::{Hold, Punching, SweepList, Sweeper};
use super::sync;
use crate::commit::Shared;
use crate::engine::ScanState;
use crate::folder::{create_folder, sync_folder};
use crate::settings::{CONTENTS_DROPPED_AT_ONCE, FREE_TIME_MAX, SCAN_ROWS_AT_ONCE};

/// Contents of blobs, in extent files of a data folder. [`LocalEngine::contents`](crate::LocalEngine::contents) gives it;
/// it takes no more writes once its engine is closed.
pub struct LocalContents {
    parts: ContentParts,
    ids: ContentIds,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the parts of the store share.
#[derive(Clone)]
pub(crate) struct ContentParts {
    pub(crate) put: PutParts,
    pub(crate) sweeps: Arc<SweepList>,
    /// Extents of former runs have numbers below this.
    pub(crate) first_of_run: u64,
}

/// What the disk can do.
pub(crate) struct ContentDisk {
    /// Makes what was written to an extent durable.
    pub(crate) sync: Arc<SyncExtent>,
    /// Whether files can have holes made into them; `None` to find out.
    pub(crate) punching: Option<Punching>,
    /// How long a region waits to be written to again before its disk space is freed.
    pub(crate) freed_after: Duration,
}

/// Makes what was written to an extent durable.
pub(crate) type SyncExtent = dyn Fn(&Extent) -> io::Result<()> + Send + Sync;

impl Default for ContentDisk {
    fn default() -> Self {
        Self { sync: Arc::new(|extent| extent.file.sync_data()), punching: None, freed_after: FREE_TIME_MAX }
    }
}

/// What contents take on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentUsage {
    /// Extent files.
    pub extents: u64,
    /// Bytes on the disk.
    pub bytes: u64,
}

impl LocalContents {
    pub(crate) fn open(
        shared: &Shared,
        ticks: &Arc<TickClock>,
        clock: Arc<dyn Clock>,
        disk: ContentDisk,
    ) -> io::Result<Arc<Self>> {
        let folder = folder_in(&shared.store.folder.store_path());
        if !folder.exists() {
            create_folder(&folder)?;
            sync_folder(&shared.store.folder.store_path())?;
        }
        let punching = match disk.punching {
            Some(punching) => punching,
            None => probe_punching(&folder)?,
        };
        let sweeps = Arc::<SweepList>::default();
        let index = Index { shared: shared.clone(), ticks: ticks.clone(), making: Arc::default() };
        let extents = Arc::new(Extents::new(folder, shared.queue.clone(), ticks.clone(), sweeps.clone()));
        let put = PutParts {
            index,
            extents,
            readers: Arc::new(Readers::new(sweeps.clone())),
            disk: shared.disk.clone(),
            small: Arc::default(),
            large: Arc::default(),
        };
        let mut salt = [0; 8];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        let ids = ContentIds::new(clock, u64::from_ne_bytes(salt));
        ids.raise(shared.store.last_tick());
        let first_of_run = ticks.next().ticks();
        let parts = ContentParts { put: put.clone(), sweeps: sweeps.clone(), first_of_run };
        let store = Self { parts, ids, threads: Mutex::default() };
        for (name, queue) in [("tavola-sync-small", &put.small), ("tavola-sync-large", &put.large)] {
            let (queue, shared, sync) = (queue.clone(), shared.clone(), disk.sync.clone());
            store.spawn(name, move || sync::run(&queue, &shared, &*sync))?;
        }
        let sweeper = Sweeper::new(&store.parts, punching, disk.freed_after);
        // What former runs left empty. A look at the first start after a crash costs little, and nothing else would come.
        shared.store.catalog.extents().keys().for_each(|extent| sweeps.look_at(*extent));
        store.spawn("tavola-sweep", move || sweeper.run())?;
        Ok(Arc::new(store))
    }

    /// What contents take on the disk. Reads the folder.
    pub fn usage(&self) -> io::Result<ContentUsage> {
        let mut usage = ContentUsage::default();
        for entry in std::fs::read_dir(&self.parts.put.extents.folder)? {
            match entry?.metadata() {
                Ok(data) => {
                    usage.extents += 1;
                    usage.bytes += data.blocks() * 512;
                }
                // Removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(usage)
    }

    /// Keeps the disk space of everything that is dropped until the hold is gone.
    pub(crate) fn hold(&self) -> Hold {
        self.parts.sweeps.hold()
    }

    pub(crate) fn parts(&self) -> &ContentParts {
        &self.parts
    }

    /// A second sweeper, beside the one that has a thread.
    #[cfg(test)]
    pub(crate) fn sweeper_for_test(&self) -> Sweeper {
        Sweeper::new(&self.parts, Punching::Works, FREE_TIME_MAX)
    }

    /// Prepares for the moment when no more writes are taken.
    pub(crate) fn stop_removing(&self) {
        self.parts.sweeps.stop_removing();
    }

    /// Ends the threads, once no more writes are taken.
    pub(crate) fn close(&self) {
        self.parts.put.extents.seal();
        self.parts.put.small.close();
        self.parts.put.large.close();
        self.parts.sweeps.close();
        let threads: Vec<_> = self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        for thread in threads {
            // A thread that panicked has said so itself.
            drop(thread.join());
        }
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Removes contents from the index, durably, and frees their disk space.
    async fn remove(&self, space: SpaceId, ids: &[ContentId]) -> Result<(), ContentError> {
        let first = ids.first().copied().unwrap_or(ContentId::MIN);
        let of_rows = |error: EngineError| ContentError::of_rows(error, first);
        let changed = self.parts.put.index.queue_remove(space, ids).map_err(of_rows)?;
        if let Some(committed) = changed.committed {
            outcome_of(committed).await.map_err(of_rows)?;
        }
        for (id, row) in changed.found {
            self.parts.put.readers.give_back(ContentCursor { space, id }, row.regions);
        }
        Ok(())
    }
}

#[async_trait]
impl ContentStore for LocalContents {
    async fn put(
        &self,
        owner: &Owner,
        size: ContentSize,
        source: &mut dyn ByteSource,
    ) -> Result<Content, ContentError> {
        assert!(owner.partition.len() <= Owner::PARTITION_BYTES_MAX, "the owner's name is not too long");
        // Nobody waits for the row: whatever names the content is queued behind it.
        let (content, _, _) = put::put(&self.parts.put, self.ids.next(), owner, size, source).await?;
        Ok(content)
    }

    async fn load(
        &self,
        owner: &Owner,
        content: &Content,
        source: &mut dyn ByteSource,
    ) -> Result<(), ContentError> {
        assert!(owner.partition.len() <= Owner::PARTITION_BYTES_MAX, "the owner's name is not too long");
        let Content { id, length } = *content;
        let loaded = put::put(&self.parts.put, id, owner, ContentSize::Exactly(length), source).await?;
        let (_, committed, replaced) = loaded;
        outcome_of(committed).await.map_err(|error| ContentError::of_rows(error, id))?;
        if let Some(replaced) = replaced {
            self.parts.put.readers.give_back(ContentCursor { space: owner.space, id }, replaced.regions);
        }
        Ok(())
    }

    async fn read(
        &self,
        space: SpaceId,
        content: &Content,
        range: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, ContentError> {
        let PutParts { index, extents, readers, .. } = &self.parts.put;
        read::read(index, extents, readers, space, content, range).await
    }

    async fn drop_contents(&self, space: SpaceId, contents: &[ContentId]) -> Result<(), ContentError> {
        for some in contents.chunks(CONTENTS_DROPPED_AT_ONCE) {
            self.remove(space, some).await?;
        }
        Ok(())
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), ContentError> {
        loop {
            let mut some = Vec::new();
            let mut visit = |found: &tavola_engine::FoundContent| {
                if found.owner.space != space || some.len() >= CONTENTS_DROPPED_AT_ONCE {
                    return ControlFlow::Break(());
                }
                some.push(found.content.id);
                ControlFlow::Continue(())
            };
            self.visit(Some(ContentCursor::space_start(space)), &mut visit).await?;
            if some.is_empty() {
                return Ok(());
            }
            self.remove(space, &some).await?;
        }
    }

    async fn visit(
        &self,
        from: Option<ContentCursor>,
        visit: &mut VisitContent<'_>,
    ) -> Result<Option<ContentCursor>, ContentError> {
        // Damage of the index is not that of one content, behind which a visit could go on.
        let of_rows = |error: EngineError| match error {
            EngineError::Damaged { .. } => ContentError::Failed { cause: error.into() },
            error => ContentError::of_rows(error, ContentId::MIN),
        };
        let index = &self.parts.put.index;
        // Rows that are queued count as kept. A store that takes no more writes shows what is durable.
        match index.barrier().await {
            Ok(()) | Err(EngineError::Unavailable { .. }) => {}
            Err(error) => return Err(of_rows(error)),
        }
        let Some(mut rows) = index.scan(from.map(|place| (place.space, place.id))).map_err(of_rows)? else {
            return Ok(None);
        };
        let (mut last, mut damaged) = (None, None);
        let mut take = |row: tavola_engine::ScannedRow<'_>| {
            let Some((space, id)) = names_of(row.partition, row.row) else {
                let error = EngineError::Damaged { space: super::INDEX_SPACE, what: "a row is malformed" };
                damaged = Some(of_rows(error));
                return ControlFlow::Break(());
            };
            let Some(row) = IndexRow::decode(&row.body) else {
                damaged =
                    Some(ContentError::Damaged { space, id, what: "its row of the index is malformed" });
                return ControlFlow::Break(());
            };
            let found = row.found(space, id);
            let flow = visit(&found);
            last = flow.is_break().then(|| found.cursor());
            flow
        };
        while rows.visit(SCAN_ROWS_AT_ONCE, &mut take).map_err(of_rows)? == ScanState::More {
            tokio::task::yield_now().await;
        }
        match damaged {
            Some(error) => Err(error),
            None => Ok(last),
        }
    }
}

impl Drop for LocalContents {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether the file system makes holes.
fn probe_punching(folder: &std::path::Path) -> io::Result<Punching> {
    const PROBE: &str = "probe.new";
    let path = folder.join(PROBE);
    let file = crate::folder::create_file(&path)?;
    file.set_len(2 * extent::HEADER_BYTES)?;
    let probe = Extent { number: 0, file };
    let punched = probe.punch(extent::HEADER_BYTES, extent::HEADER_BYTES);
    std::fs::remove_file(path)?;
    match punched {
        Ok(()) => Ok(Punching::Works),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            tracing::info!(
                "the file system cannot punch holes; the store frees disk space by moving contents"
            );
            Ok(Punching::Missing)
        }
        Err(error) => Err(error),
    }
}
