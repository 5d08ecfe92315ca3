//! Contents of blobs that move with their rows: round trips between stores, cuts, damage.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tavola_engine::conformance::TestClock;
use tavola_engine::{
    BytesSource, Content, ContentId, ContentSize, ContentStore, Engine, FoundContent, MemoryContents,
    MemoryEngine, Owner, ScanRange, ScannedRow, SpaceId,
};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_model::DateTime;

use super::contents::name_of;
use super::export::export;
use super::import::import;
use super::manifest::ExportManifest;
use super::progress::{Progress, ProgressForm};

const SPACES: [SpaceId; 2] = [SpaceId([3; 16]), SpaceId([9; 16])];
const LENGTHS: [usize; 5] = [0, 1, 5000, 262_144, 900_001];

type Stores = (Arc<dyn Engine>, Arc<dyn ContentStore>);

fn memory() -> Stores {
    let clock = Arc::new(TestClock::new());
    (Arc::new(MemoryEngine::new(clock.clone())), Arc::new(MemoryContents::new(clock)))
}

fn local(folder: &Path) -> Stores {
    let engine = LocalEngine::open(LocalSettings::new(folder), Arc::new(TestClock::new())).unwrap();
    let contents = engine.contents();
    (engine, contents)
}

fn bytes_of(length: usize) -> Bytes {
    (0..length).map(|at| (at * 31 % 251).to_le_bytes()[0]).collect()
}

async fn fill((engine, contents): &Stores) {
    for space in SPACES {
        engine.create_space(space).await.unwrap();
        for length in LENGTHS {
            let owner = Owner { space, partition: format!("blob {length}").into_bytes() };
            let mut source = BytesSource::new([bytes_of(length)]);
            contents.put(&owner, ContentSize::Exactly(length as u64), &mut source).await.unwrap();
        }
    }
    // One of a space that is gone is left behind.
    let owner = Owner { space: SpaceId([4; 16]), partition: vec![] };
    contents.put(&owner, ContentSize::UpTo(9), &mut BytesSource::new([bytes_of(9)])).await.unwrap();
}

async fn all(contents: &dyn ContentStore) -> BTreeMap<Vec<u8>, (FoundContent, Vec<u8>)> {
    let mut found = Vec::new();
    let mut visit = |content: &FoundContent| {
        found.push(content.clone());
        ControlFlow::Continue(())
    };
    contents.visit(None, &mut visit).await.unwrap();
    let mut all = BTreeMap::new();
    for content in found.into_iter().filter(|content| SPACES.contains(&content.owner.space)) {
        let FoundContent { content: named, owner } = &content;
        let mut source = contents.read(owner.space, named, 0..named.length).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = source.next().await.unwrap() {
            bytes.extend_from_slice(&piece);
        }
        all.insert([&owner.space.0[..], &named.id.0].concat(), (content, bytes));
    }
    all
}

async fn export_to((engine, contents): &Stores, folder: &Path) -> anyhow::Result<ExportManifest> {
    export(&**engine, &**contents, folder, &mut Progress::new(ProgressForm::Nothing)).await
}

async fn import_from(folder: &Path, (engine, contents): &Stores) -> anyhow::Result<ExportManifest> {
    import(engine, &**contents, folder, &mut Progress::new(ProgressForm::Nothing)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_move_under_their_ids_to_a_store_of_another_kind_and_back() {
    let root = tempfile::tempdir().unwrap();
    let stores = [memory(), local(&root.path().join("data")), memory()];
    fill(&stores[0]).await;
    let before = all(&*stores[0].1).await;
    assert_eq!(before.len(), 10);
    for (number, pair) in stores.windows(2).enumerate() {
        let folder = root.path().join(format!("export-{number}"));
        let manifest = export_to(&pair[0], &folder).await.unwrap();
        assert_eq!(manifest.content_count(), 10);
        assert_eq!(ExportManifest::read(&folder).unwrap(), manifest);
        assert_eq!(import_from(&folder, &pair[1]).await.unwrap(), manifest);
        assert!(all(&*pair[1].1).await == before, "other contents arrived");
        let again = import_from(&folder, &pair[1]).await.unwrap_err().to_string();
        assert!(again.contains("not empty"), "{again}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_of_contents_goes_on_wherever_its_file_ends() {
    let root = tempfile::tempdir().unwrap();
    let stores = memory();
    fill(&stores).await;
    let whole = root.path().join("whole");
    export_to(&stores, &whole).await.unwrap();
    let file = std::fs::read(whole.join(name_of(SPACES[0]))).unwrap();
    for length in [0, 10, 32, 40, 68, 75, 5_000, 5_300, 270_000, 300_000, file.len() - 36, file.len() - 1] {
        let cut = root.path().join(format!("cut-{length}"));
        std::fs::create_dir(&cut).unwrap();
        std::fs::copy(whole.join("FORMAT"), cut.join("FORMAT")).unwrap();
        std::fs::write(cut.join(name_of(SPACES[0])), &file[..length]).unwrap();
        export_to(&stores, &cut).await.unwrap();
        assert!(std::fs::read(cut.join(name_of(SPACES[0]))).unwrap() == file, "cut at {length}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spoilt_file_of_contents_is_refused_before_the_store_is_touched() {
    let root = tempfile::tempdir().unwrap();
    let stores = memory();
    fill(&stores).await;
    let whole = root.path().join("whole");
    export_to(&stores, &whole).await.unwrap();
    let path = whole.join(name_of(SPACES[1]));
    let file = std::fs::read(&path).unwrap();
    for at in [3, 12, 28, 40, 50, 57, 100, 5_200, 280_000, file.len() - 30, file.len() - 1] {
        let mut spoilt = file.clone();
        spoilt[at] ^= 0x20;
        std::fs::write(&path, spoilt).unwrap();
        let target = memory();
        import_from(&whole, &target).await.unwrap_err();
        assert_eq!(target.0.spaces().await.unwrap(), [SpaceId::CATALOG], "byte {at}");
        assert!(all(&*target.1).await.is_empty(), "byte {at}");
    }
    for length in [0, 20, 5_200, file.len() - 1] {
        std::fs::write(&path, &file[..length]).unwrap();
        import_from(&whole, &memory()).await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_contents_goes_on_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let stores = memory();
    fill(&stores).await;
    export_to(&stores, root.path()).await.unwrap();
    // Half of an import: marked, some contents loaded, no rows.
    let target = memory();
    let path = root.path().join(name_of(SPACES[0]));
    let file = std::fs::read(&path).unwrap();
    let manifest = ExportManifest::read(root.path()).unwrap();
    super::import::begin(&*target.0, &*target.1, &manifest).await.unwrap();
    super::contents::load_space(&*target.1, SPACES[0], &path, &mut Progress::new(ProgressForm::Nothing))
        .await
        .unwrap();
    assert_eq!(all(&*target.1).await.len(), 5);
    import_from(root.path(), &target).await.unwrap();
    assert!(all(&*target.1).await == all(&*stores.1).await);
    assert!(std::fs::read(&path).unwrap() == file);
}

/// The version of the first row in the fixture.
const FIXTURE_TICK: u64 = 638_000_000_000_000_000;

fn fixture_tick(later: u64) -> DateTime {
    DateTime::from_ticks(FIXTURE_TICK + later).unwrap()
}

/// The contents of the fixture: number of the space, id, partition of the owner, bytes.
const FIXTURE_CONTENTS: [(usize, u8, &[u8], &[u8]); 3] =
    [(0, 1, b"blob\0", b"abc"), (0, 2, b"", b""), (1, 1, b"\xFF", &[7; 300])];

/// A row of the fixture: space, partition, row, version, body.
type FixtureRow = (SpaceId, &'static [u8], &'static [u8], DateTime, &'static [u8]);

fn fixture_rows() -> [FixtureRow; 3] {
    [
        (SpaceId::CATALOG, b"account", b"cbox", fixture_tick(0), b"catalog"),
        (SPACES[0], b"blob\0", b"\x0A", fixture_tick(2), b"record"),
        (SPACES[1], b"\xFF", b"\x0A", fixture_tick(1), b""),
    ]
}

fn fixture_content((space, id, partition, bytes): (usize, u8, &[u8], &'static [u8])) -> FoundContent {
    FoundContent {
        content: Content { id: ContentId([id; 16]), length: bytes.len() as u64 },
        owner: Owner { space: SPACES[space], partition: partition.to_vec() },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn format_2_is_read_as_it_was_first_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/export-2");
    let stores = memory();
    let manifest = import_from(&folder, &stores).await.unwrap();
    assert_eq!(manifest.tick, fixture_tick(5));
    let expected = FIXTURE_CONTENTS.map(|content| (fixture_content(content), content.3.to_vec()));
    let found: Vec<_> = all(&*stores.1).await.into_values().collect();
    assert_eq!(found, expected);
    let mut rows = Vec::new();
    for space in super::export::spaces_of(&*stores.0).await.unwrap() {
        let mut visit = |row: ScannedRow<'_>| {
            rows.push((space, row.partition.to_vec(), row.row.to_vec(), row.version, row.body.to_vec()));
            ControlFlow::Continue(())
        };
        stores.0.scan(space, &ScanRange::all(), &mut visit).await.unwrap();
    }
    let expected = fixture_rows().map(|(space, partition, row, version, body)| {
        (space, partition.to_vec(), row.to_vec(), version, body.to_vec())
    });
    assert_eq!(rows, expected);
    // And written again, it is the same to the byte.
    let again = tempfile::tempdir().unwrap();
    export_to(&stores, again.path()).await.unwrap();
    // The store that it was read into has given a version since, so the manifest itself is written again.
    manifest.write(again.path()).unwrap();
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "LOCK").collect::<BTreeSet<String>>()
    };
    assert_eq!(names(again.path()), names(&folder));
    for name in names(&folder) {
        let read = |folder: &Path| std::fs::read(folder.join(&name)).unwrap();
        assert!(read(again.path()) == read(&folder), "{name}");
    }
}
