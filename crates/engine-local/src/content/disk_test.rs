//! Contents on disks that fail, that make no holes, and on what a crash left.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tavola_engine::conformance::TestClock;
use tavola_engine::{
    ByteSource, BytesSource, Change, Content, ContentCursor, ContentError, ContentSize, ContentStore,
    Decision, Engine, EngineError, FoundContent, Owner, SourceError, SpaceId, StoredRow,
};
use tavola_model::DateTime;

use super::extent::Extent;
use super::index::{INDEX_SPACE, Index, IndexRow, Region};
use super::store::ContentDisk;
use super::sweep::Punching;
use crate::{LocalEngine, LocalSettings, verify};

const SPACE: SpaceId = SpaceId([5; 16]);

fn owner() -> Owner {
    Owner { space: SPACE, partition: b"p".to_vec() }
}

async fn put(engine: &LocalEngine, byte: u8, length: usize) -> Result<Content, ContentError> {
    let mut source = BytesSource::new([Bytes::from(vec![byte; length])]);
    engine.contents().put(&owner(), ContentSize::Exactly(length as u64), &mut source).await
}

async fn check_bytes(engine: &LocalEngine, content: &Content, byte: u8) {
    let mut source = engine.contents().read(SPACE, content, 0..content.length).await.unwrap();
    let mut length = 0;
    while let Some(piece) = source.next().await.unwrap() {
        assert!(piece.iter().all(|found| *found == byte));
        length += piece.len() as u64;
    }
    assert_eq!(length, content.length);
}

fn open(folder: &std::path::Path, disk: ContentDisk) -> Arc<LocalEngine> {
    LocalEngine::open_on(LocalSettings::new(folder), Arc::new(TestClock::new()), disk).unwrap()
}

fn index_of(engine: &LocalEngine) -> Index {
    engine.contents().parts().put.index.clone()
}

#[tokio::test]
async fn a_failed_sync_of_contents_stops_all_writes_until_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let sync = {
        let fails = fails.clone();
        move |extent: &Extent| {
            if fails.load(Ordering::SeqCst) {
                Err(io::Error::other("sync failed"))
            } else {
                extent.file.sync_data()
            }
        }
    };
    let engine = open(folder.path(), ContentDisk { sync: Arc::new(sync), ..ContentDisk::default() });
    engine.create_space(SPACE).await.unwrap();
    let kept = put(&engine, 1, 5000).await.unwrap();
    // A content is kept for certain with the row that names it: nobody waits for its row of the index.
    let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: Bytes::new() }]);
    engine.transact(SPACE, b"p", &[b"named"], &mut decide).await.unwrap();
    fails.store(true, Ordering::SeqCst);
    let unsynced = put(&engine, 2, 5000).await;
    assert!(matches!(unsynced, Err(ContentError::Unavailable { .. })), "{unsynced:?}");
    fails.store(false, Ordering::SeqCst);
    for length in [10, 3_000_000] {
        let refused = put(&engine, 3, length).await;
        assert!(matches!(refused, Err(ContentError::Unavailable { .. })), "{refused:?}");
    }
    let refused = engine.transact(SPACE, b"p", &[b"r"], &mut decide).await;
    assert!(matches!(refused, Err(EngineError::Unavailable { .. })), "{refused:?}");
    // Reads go on.
    check_bytes(&engine, &kept, 1).await;
    drop(engine);
    let engine = open(folder.path(), ContentDisk::default());
    check_bytes(&engine, &kept, 1).await;
    check_bytes(&engine, &put(&engine, 4, 100).await.unwrap(), 4).await;
}

/// Gives pieces of one byte value and counts the bytes it gave.
struct Counted {
    given: Arc<AtomicUsize>,
    total: usize,
}

#[async_trait]
impl ByteSource for Counted {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        const PIECE: usize = 256 * 1024;
        if self.given.load(Ordering::SeqCst) == self.total {
            return Ok(None);
        }
        self.given.fetch_add(PIECE, Ordering::SeqCst);
        Ok(Some(Bytes::from(vec![7; PIECE])))
    }
}

#[tokio::test]
async fn a_large_put_waits_while_too_much_of_it_is_not_synced() {
    let folder = tempfile::tempdir().unwrap();
    let may_sync = Arc::new(AtomicBool::new(false));
    let sync = {
        let may_sync = may_sync.clone();
        move |extent: &Extent| {
            while !may_sync.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            extent.file.sync_data()
        }
    };
    let engine = open(folder.path(), ContentDisk { sync: Arc::new(sync), ..ContentDisk::default() });
    let total = 16 << 20;
    let given = Arc::<AtomicUsize>::default();
    let putting = {
        let (engine, mut source) = (engine.clone(), Counted { given: given.clone(), total });
        tokio::spawn(async move {
            engine.contents().put(&owner(), ContentSize::Exactly(total as u64), &mut source).await
        })
    };
    let has_permits = || engine.contents().parts().put.large.has_permits();
    while has_permits() && given.load(Ordering::SeqCst) < total {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // What waits for a permit has been taken from the source.
    let most = crate::settings::UNSYNCED_BYTES_MAX as usize + (1 << 20);
    assert!(given.load(Ordering::SeqCst) <= most, "{given:?} bytes");
    may_sync.store(true, Ordering::SeqCst);
    check_bytes(&engine, &putting.await.unwrap().unwrap(), 7).await;
    while !has_permits() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn region_of(engine: &LocalEngine, content: &Content) -> Region {
    index_of(engine).get(SPACE, content.id).unwrap().unwrap().regions[0]
}

/// A store whose freed disk space can be written to again however slow the machine is.
fn open_keeping(folder: &std::path::Path) -> Arc<LocalEngine> {
    open(folder, ContentDisk { freed_after: Duration::from_secs(24 * 60 * 60), ..ContentDisk::default() })
}

async fn wait_for_free_regions(engine: &LocalEngine) {
    while engine.contents().parts().put.extents.free.oldest().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn bytes_on_disk(folder: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(folder.join("store/content")).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
}

#[tokio::test]
async fn a_large_content_goes_where_one_was_dropped_and_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open_keeping(folder.path());
    let old = put(&engine, 1, 6_000_000).await.unwrap();
    let old_region = region_of(&engine, &old);
    let mut reader = engine.contents().read(SPACE, &old, 0..old.length).await.unwrap();
    engine.contents().drop_contents(SPACE, &[old.id]).await.unwrap();
    let beside = put(&engine, 2, 2_000_000).await.unwrap();
    assert!(region_of(&engine, &beside).offset >= old_region.offset + old_region.length);
    let mut read_bytes = 0;
    while let Some(piece) = reader.next().await.unwrap() {
        assert!(piece.iter().all(|found| *found == 1));
        read_bytes += piece.len() as u64;
    }
    assert_eq!(read_bytes, old.length);
    drop(reader);
    wait_for_free_regions(&engine).await;
    // Two fit into the place of one, also if the first does not know how long it becomes.
    let mut source = BytesSource::new([Bytes::from(vec![3; 2_000_000])]);
    let first = engine.contents().put(&owner(), ContentSize::UpTo(3_000_000), &mut source).await.unwrap();
    let second = put(&engine, 4, 2_000_000).await.unwrap();
    for content in [&first, &second] {
        let region = region_of(&engine, content);
        let is_inside = region.offset + region.length <= old_region.offset + old_region.length;
        assert!(region.extent == old_region.extent && is_inside, "{region:?} is not in {old_region:?}");
    }
    for (content, byte) in [(&beside, 2), (&first, 3), (&second, 4)] {
        check_bytes(&engine, content, byte).await;
    }
    drop(engine);
    // What nobody wrote to again was freed at the end.
    let (live, used) = (6_000_000, bytes_on_disk(folder.path()));
    assert!((live..live + (256 << 10)).contains(&used), "{used} bytes");
    assert!(verify(folder.path()).unwrap().is_clean());
}

#[tokio::test]
async fn what_nobody_writes_to_again_is_freed_after_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let disk = ContentDisk { freed_after: Duration::from_millis(1), ..ContentDisk::default() };
    let engine = open(folder.path(), disk);
    let content = put(&engine, 1, 6_000_000).await.unwrap();
    engine.contents().drop_contents(SPACE, &[content.id]).await.unwrap();
    while engine.contents().usage().unwrap().bytes > 64 << 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn without_holes_disk_space_comes_back_by_moving_what_lives() {
    let folder = tempfile::tempdir().unwrap();
    let disk = ContentDisk { punching: Some(Punching::Missing), ..ContentDisk::default() };
    let engine = open(folder.path(), disk);
    // More than an extent's worth of contents, of which every eighth stays.
    let length = 16 << 20;
    let mut kept = Vec::new();
    let mut dropped = Vec::new();
    for number in 0..17u8 {
        let content = put(&engine, number, length).await.unwrap();
        if number % 8 == 0 { kept.push((content, number)) } else { dropped.push(content.id) }
    }
    let extents = |engine: &LocalEngine| engine.contents().usage().unwrap().extents;
    assert_eq!(extents(&engine), 2);
    let first = index_of(&engine).get(SPACE, kept[0].0.id).unwrap().unwrap();
    engine.contents().drop_contents(SPACE, &dropped).await.unwrap();
    while extents(&engine) > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let moved: IndexRow = index_of(&engine).get(SPACE, kept[0].0.id).unwrap().unwrap();
    assert!(moved.regions != first.regions && moved.sum == first.sum, "{moved:?}");
    for (content, number) in &kept {
        check_bytes(&engine, content, *number).await;
    }
    drop(engine);
    let report = verify(folder.path()).unwrap();
    assert!(report.is_clean() && report.contents == 3, "{report:?}");
}

#[tokio::test]
async fn what_a_crash_left_without_an_index_row_is_given_back_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), ContentDisk::default());
    let mut kept = Vec::new();
    for number in 0..6u8 {
        let content = put(&engine, number, 300_000).await.unwrap();
        // As after a crash between the sync and the commit of the index row.
        let parts = engine.contents().parts().put.clone();
        let reserved = parts.extents.reserve(super::extents::ExtentKind::Small, 200_000).unwrap();
        std::os::unix::fs::FileExt::write_all_at(
            &reserved.extent.extent.file,
            &[9; 200_000],
            reserved.region.offset,
        )
        .unwrap();
        reserved.keep();
        kept.push((content, number));
    }
    let used = engine.contents().usage().unwrap().bytes;
    // Neither in the run that wrote it, nor before a day has passed.
    let mut sweeper = engine.contents().sweeper_for_test();
    sweeper.sweep_leftovers(Duration::ZERO).unwrap();
    assert_eq!(engine.contents().usage().unwrap().bytes, used);
    drop((engine, sweeper));
    let engine = open(folder.path(), ContentDisk::default());
    let mut sweeper = engine.contents().sweeper_for_test();
    sweeper.sweep_leftovers(crate::settings::LEFTOVERS_AGE_MIN).unwrap();
    assert_eq!(engine.contents().usage().unwrap().bytes, used);
    sweeper.sweep_leftovers(Duration::ZERO).unwrap();
    let left = engine.contents().usage().unwrap().bytes;
    assert!(left + 6 * 200_000 <= used && left >= 6 * 300_000, "{used} bytes became {left}");
    for (content, number) in &kept {
        check_bytes(&engine, content, *number).await;
    }
}

#[tokio::test]
async fn a_store_that_takes_no_more_writes_removes_no_extent_and_its_next_start_does() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), ContentDisk::default());
    let content = put(&engine, 1, 3_000_000).await.unwrap();
    let row = index_of(&engine).get(SPACE, content.id).unwrap().unwrap();
    // The thread of the store leaves its disk space alone until the store is closed, in an extent that nobody writes to.
    let hold = engine.contents().hold();
    engine.contents().parts().put.extents.seal();
    let mut sweeper = engine.contents().sweeper_for_test();
    engine.contents().drop_contents(SPACE, &[content.id]).await.unwrap();
    engine.close().await;
    let extents = row.regions.iter().map(|region| region.extent).collect();
    sweeper.sweep(row.regions, extents).unwrap();
    drop((hold, engine, sweeper));
    let engine = open(folder.path(), ContentDisk::default());
    while engine.contents().usage().unwrap().extents > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_malformed_row_of_the_index_is_named_and_a_visit_goes_on_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), ContentDisk::default());
    let mut contents = Vec::new();
    for byte in 1..=3 {
        contents.push(put(&engine, byte, 10_000).await.unwrap());
    }
    let mut spoil = |_: DateTime, _: &[Option<StoredRow>]| {
        Decision::Apply(vec![Change::Put { index: 0, body: Bytes::from_static(b"?") }])
    };
    let row: &[u8] = &contents[1].id.0;
    engine.transact(INDEX_SPACE, &SPACE.0, &[row], &mut spoil).await.unwrap();
    let mut found = Vec::new();
    let mut visit = |content: &FoundContent| {
        found.push(content.content);
        ControlFlow::Continue(())
    };
    let visited = engine.contents().visit(None, &mut visit).await;
    let Err(ContentError::Damaged { space, id, .. }) = visited else { panic!("{visited:?}") };
    assert_eq!((space, id), (SPACE, contents[1].id));
    engine.contents().visit(Some(ContentCursor { space, id }), &mut visit).await.unwrap();
    assert_eq!(found, [contents[0], contents[2]]);
    check_bytes(&engine, &contents[2], 3).await;
}
