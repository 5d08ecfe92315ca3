//! Power cuts at every sync of contents: what a durable row names is whole.
//!
//! The disk under test keeps of an extent only what was there when its last sync began. At each cut the rows are copied as
//! they are, and the extents as this disk has them, some with parts of what came later: a power cut may keep any of that.
//! Then the copy is opened, and every row in it must name a content that is whole.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tavola_engine::conformance::TestClock;
use tavola_engine::{
    BytesSource, Change, Content, ContentId, ContentSize, ContentStore, Decision, Engine, Owner, ScanRange,
    SpaceId,
};

use super::extent::{Extent, HEADER_BYTES, path_of};
use super::index::Region;
use super::store::ContentDisk;
use crate::{LocalEngine, LocalSettings, verify};

const SPACE: SpaceId = SpaceId([5; 16]);
const SECTOR: usize = 512;
/// Longer than any test: what was freed can be written to again however slow the machine is.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Parts of a file that hold something.
type Parts = Vec<(u64, Vec<u8>)>;

/// What is durable of each extent, and what may be.
#[derive(Default)]
struct SimulatedDisk {
    durable: Mutex<HashMap<u64, Parts>>,
    syncs: AtomicU64,
}

impl SimulatedDisk {
    fn sync(&self, extent: &Extent) {
        let parts = parts_of(extent);
        self.durable.lock().unwrap().insert(extent.number, parts);
        self.syncs.fetch_add(1, Ordering::SeqCst);
    }
}

fn parts_of(extent: &Extent) -> Parts {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some((start, end)) = extent.next_data(at).unwrap() {
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        extent.file.read_exact_at(&mut bytes, start).unwrap();
        parts.push((start, bytes));
        at = end;
    }
    parts
}

/// Copies a data folder as a power cut would leave it.
fn cut(data: &Path, image: &Path, disk: &SimulatedDisk, chance: &mut Chance) {
    // Rows first: an extent that is synced meanwhile has more than they need.
    copy_rows(data, image);
    let durable = disk.durable.lock().unwrap();
    let folder = data.join("store/content");
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name();
        let Some(number) = name.to_str().and_then(super::extent::number_of) else { continue };
        let Ok(extent) = Extent::open(&folder, number) else { continue };
        let copy = fs::File::create(path_of(&image.join("store/content"), number)).unwrap();
        copy.set_len(extent.file.metadata().unwrap().len()).unwrap();
        // The header was synced with the name.
        let mut header = vec![0; usize::try_from(HEADER_BYTES).unwrap()];
        extent.file.read_exact_at(&mut header, 0).unwrap();
        copy.write_all_at(&header, 0).unwrap();
        for (at, bytes) in durable.get(&number).into_iter().flatten() {
            copy.write_all_at(bytes, *at).unwrap();
        }
        if chance.below(2) == 0 {
            for (at, bytes) in parts_of(&extent) {
                for (place, sector) in bytes.chunks(SECTOR).enumerate() {
                    if chance.below(2) == 0 {
                        copy.write_all_at(sector, at + (place * SECTOR) as u64).unwrap();
                    }
                }
            }
        }
    }
}

fn copy_rows(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_rows(&entry.path(), &target);
        } else if !from.ends_with("content") {
            // A copy of the journal would be as long as all the rest: its holes are kept.
            let extent = Extent { number: 0, file: fs::File::open(entry.path()).unwrap() };
            let copy = fs::File::create(target).unwrap();
            parts_of(&extent).iter().for_each(|(at, bytes)| copy.write_all_at(bytes, *at).unwrap());
            copy.set_len(extent.file.metadata().unwrap().len()).unwrap();
        }
    }
}

/// Every row names a content that is whole, and every acknowledged row is there.
async fn check(image: &Path, acknowledged: &BTreeMap<u64, Content>) -> usize {
    let report = verify(image).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let engine = LocalEngine::open(LocalSettings::new(image), Arc::new(TestClock::new())).unwrap();
    let mut named = BTreeMap::new();
    let mut visit = |row: tavola_engine::ScannedRow<'_>| {
        let (id, length) = row.body.split_first_chunk().unwrap();
        let content = Content { id: ContentId(*id), length: u64::from_be_bytes(length.try_into().unwrap()) };
        named.insert(u64::from_be_bytes(row.row.try_into().unwrap()), content);
        ControlFlow::Continue(())
    };
    engine.scan(SPACE, &ScanRange::all(), &mut visit).await.unwrap();
    for (number, content) in acknowledged {
        assert_eq!(named.get(number), Some(content), "an acknowledged row is gone");
    }
    for (number, content) in &named {
        let mut source = engine.contents().read(SPACE, content, 0..content.length).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = source.next().await.unwrap() {
            bytes.extend_from_slice(&piece);
        }
        assert!(bytes == bytes_of(*number), "content {number} is not whole");
    }
    named.len()
}

/// The bytes of a content, by its number: mostly small, some of many pieces.
fn bytes_of(number: u64) -> Vec<u8> {
    let mut chance = Chance(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let length = match number % 7 {
        0 => 1_500_000 + chance.below(2_000_000),
        1 => chance.below(600_000),
        _ => chance.below(20_000),
    };
    (0..length.div_ceil(8))
        .flat_map(|_| chance.draw().to_le_bytes())
        .take(usize::try_from(length).unwrap())
        .collect()
}

async fn put(engine: &LocalEngine, number: u64) -> Content {
    let bytes = Bytes::from(bytes_of(number));
    let size = match number % 3 {
        0 => ContentSize::UpTo(bytes.len() as u64 + 9_000_000),
        _ => ContentSize::Exactly(bytes.len() as u64),
    };
    let owner = Owner { space: SPACE, partition: b"p".to_vec() };
    engine.contents().put(&owner, size, &mut BytesSource::new([bytes])).await.unwrap()
}

async fn set_row(engine: &LocalEngine, number: u64, content: Option<&Content>) {
    let body =
        content.map(|content| Bytes::from([&content.id.0[..], &content.length.to_be_bytes()].concat()));
    let mut decide = |_, _: &[_]| {
        Decision::Apply(vec![match &body {
            Some(body) => Change::Put { index: 0, body: body.clone() },
            None => Change::Delete { index: 0 },
        }])
    };
    engine.transact(SPACE, b"p", &[&number.to_be_bytes()], &mut decide).await.unwrap();
}

/// A folder on the simulated disk; `at_sync` is called when a sync is over and nobody has been told.
fn open(
    data: &Path,
    disk: &Arc<SimulatedDisk>,
    at_sync: impl Fn() + Send + Sync + 'static,
) -> Arc<LocalEngine> {
    let disk = disk.clone();
    let sync = move |extent: &Extent| {
        disk.sync(extent);
        at_sync();
        Ok::<(), io::Error>(())
    };
    let settings = LocalSettings { memtable_bytes: 64 << 10, ..LocalSettings::new(data) };
    let content_disk = ContentDisk { sync: Arc::new(sync), freed_after: NEVER, ..ContentDisk::default() };
    LocalEngine::open_on(settings, Arc::new(TestClock::new()), content_disk).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_at_any_step_leaves_the_old_content_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let (data, image) = (folder.path().join("data"), folder.path().join("image"));
    let disk = Arc::new(SimulatedDisk::default());
    let mut chance = Chance(77);
    let engine = open(&data, &disk, || {});
    engine.create_space(SPACE).await.unwrap();
    let mut acknowledged: BTreeMap<u64, Content> = BTreeMap::new();
    let (mut cuts, mut seen) = (0, 0);
    for number in 0..24u64 {
        // One that is overwritten, now and then: first the row, then the content goes.
        let dropped = acknowledged.first_key_value().filter(|_| number % 3 == 2).map(|(old, _)| *old);
        for step in 0..4 {
            match step {
                0 => drop(put(&engine, number + 1000).await),
                1 => {
                    let content = put(&engine, number).await;
                    set_row(&engine, number, Some(&content)).await;
                    acknowledged.insert(number, content);
                }
                2 => {
                    let Some(old) = dropped else { continue };
                    set_row(&engine, old, None).await;
                }
                _ => {
                    let Some(old) = dropped else { continue };
                    let content = acknowledged.remove(&old).unwrap();
                    engine.contents().drop_contents(SPACE, &[content.id]).await.unwrap();
                }
            }
            let there: BTreeMap<u64, Content> = acknowledged
                .iter()
                .filter(|(number, _)| step != 2 || Some(**number) != dropped)
                .map(|(number, content)| (*number, *content))
                .collect();
            cut(&data, &image, &disk, &mut chance);
            seen += check(&image, &there).await;
            cuts += 1;
            fs::remove_dir_all(&image).unwrap();
        }
    }
    assert!(cuts > 50 && seen > 200, "{cuts} cuts, {seen} contents");
}

/// What a power cut leaves, and what had been acknowledged by then.
type Image = (PathBuf, BTreeMap<u64, Content>);

/// A folder of which an image is made at every sync.
struct CutFolder {
    folder: tempfile::TempDir,
    acknowledged: Arc<Mutex<BTreeMap<u64, Content>>>,
    images: Arc<Mutex<Vec<Image>>>,
}

impl CutFolder {
    fn open() -> (Self, Arc<LocalEngine>) {
        let folder = tempfile::tempdir().unwrap();
        let (acknowledged, images) =
            (Arc::<Mutex<BTreeMap<_, _>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let disk = Arc::new(SimulatedDisk::default());
        let data = folder.path().join("data");
        let at_sync = {
            let (data, disk, root) = (data.clone(), disk.clone(), folder.path().to_owned());
            let (acknowledged, images) = (acknowledged.clone(), images.clone());
            move || {
                // Before the copy: what was acknowledged by then must be in it.
                let there = acknowledged.lock().unwrap().clone();
                let mut images = images.lock().unwrap();
                let image: PathBuf = root.join(format!("image-{}", images.len()));
                cut(&data, &image, &disk, &mut Chance(images.len() as u64 + 1));
                images.push((image, there));
            }
        };
        let engine = open(&data, &disk, at_sync);
        (Self { folder, acknowledged, images }, engine)
    }

    /// Checks every image. Gives their number and that of the contents in them.
    async fn check(self) -> (usize, usize) {
        let images = std::mem::take(&mut *self.images.lock().unwrap());
        let mut seen = 0;
        for (image, there) in &images {
            seen += check(image, there).await;
            fs::remove_dir_all(image).unwrap();
        }
        drop(self.folder);
        (images.len(), seen)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_at_every_sync_keeps_what_rows_name() {
    let (folder, engine) = CutFolder::open();
    engine.create_space(SPACE).await.unwrap();
    let writers: Vec<_> = (0..6u64)
        .map(|writer| {
            let (engine, acknowledged) = (engine.clone(), folder.acknowledged.clone());
            tokio::spawn(async move {
                for round in 0..5 {
                    let number = writer + round * 6;
                    let content = put(&engine, number).await;
                    set_row(&engine, number, Some(&content)).await;
                    acknowledged.lock().unwrap().insert(number, content);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    drop(engine);
    let (images, seen) = folder.check().await;
    assert!(images >= 8 && seen > 0, "{images} syncs, {seen} contents");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_while_a_dropped_content_is_written_over_keeps_what_rows_name() {
    let (folder, engine) = CutFolder::open();
    engine.create_space(SPACE).await.unwrap();
    let parts = engine.contents().parts().put.clone();
    let mut reused = 0;
    let mut free_regions = Vec::new();
    for number in (0..10).map(|round| round * 7) {
        let content = put(&engine, number).await;
        let row = parts.index.get(SPACE, content.id).unwrap().unwrap();
        let is_reused = |region: &Region| free_regions.contains(&(region.extent, region.offset));
        reused += row.regions.iter().filter(|region| is_reused(region)).count();
        set_row(&engine, number, Some(&content)).await;
        folder.acknowledged.lock().unwrap().insert(number, content);
        // The one before goes, and the next one is written over it.
        let Some(old) = number.checked_sub(7) else { continue };
        let Some(dropped) = folder.acknowledged.lock().unwrap().remove(&old) else { continue };
        let row = parts.index.get(SPACE, dropped.id).unwrap().unwrap();
        free_regions = row.regions.iter().map(|region| (region.extent, region.offset)).collect();
        set_row(&engine, old, None).await;
        engine.contents().drop_contents(SPACE, &[dropped.id]).await.unwrap();
        while parts.extents.free.oldest().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert!(reused > 0, "nothing was written over");
    drop((engine, parts));
    let (images, seen) = folder.check().await;
    assert!(images >= 10 && seen >= 10, "{images} syncs, {seen} contents");
}

/// Chance that is the same in every run.
struct Chance(u64);

impl Chance {
    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }
}
