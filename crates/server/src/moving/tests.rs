//! Round trips of generated stores, damage, and failures on the way. The program itself is killed in `tests/moving.rs`.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use tavola_engine::conformance::TestClock;
use tavola_engine::{
    Change, Decision, Engine, FaultEngine, FaultSettings, LoadedRow, MemoryContents, MemoryEngine, ScanRange,
    ScannedRow, SpaceId, StoredRow, Transacted,
};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_model::{Clock as _, DateTime};
use tokio::runtime::Runtime;

use super::export::export;
use super::import::import;
use super::manifest::ExportManifest;
use super::progress::{Progress, ProgressForm};

/// Transactions that fill a store.
type Filling = Vec<(u8, Vec<u8>, Vec<(Vec<u8>, Option<Vec<u8>>)>)>;

fn filling() -> impl Strategy<Value = Filling> {
    // Few letters, zero among them, so that keys are prefixes of one another and meet again.
    let key = || prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 0xFF]), 0..4);
    let row = (key(), prop::option::weighted(0.8, prop::collection::vec(any::<u8>(), 0..40)));
    prop::collection::vec((0..4u8, key(), prop::collection::vec(row, 1..6)), 0..30)
}

fn space_of(number: u8) -> SpaceId {
    SpaceId([number; 16])
}

async fn fill(engine: &dyn Engine, filling: &Filling) {
    for (number, partition, rows) in filling {
        engine.create_space(space_of(*number)).await.unwrap();
        let mut seen = BTreeSet::new();
        let rows: Vec<_> = rows.iter().filter(|(row, _)| seen.insert(row)).collect();
        let names: Vec<&[u8]> = rows.iter().map(|(row, _)| &row[..]).collect();
        let change = |(index, (_, body)): (usize, &&(Vec<u8>, Option<Vec<u8>>))| match body {
            Some(body) => Change::Put { index, body: Bytes::copy_from_slice(body) },
            None => Change::Delete { index },
        };
        let changes: Vec<Change> = rows.iter().enumerate().map(change).collect();
        let mut decide = |_, _: &[_]| Decision::Apply(changes.clone());
        engine.transact(space_of(*number), partition, &names, &mut decide).await.unwrap();
    }
}

/// A store of a few thousand rows, more than one chunk of them.
async fn fill_much(engine: &dyn Engine, clock: &TestClock) {
    let filling = vec![(0, b"account".to_vec(), vec![(b"table".to_vec(), Some(vec![1]))])];
    fill(engine, &filling).await;
    engine.create_space(space_of(1)).await.unwrap();
    for partition in 0..30u8 {
        let tick = clock.now();
        let rows: Vec<LoadedRow> = (0..100u8)
            .map(|row| LoadedRow {
                row: Bytes::copy_from_slice(&[row]),
                stored: StoredRow { version: tick, body: vec![row; 900].into() },
            })
            .collect();
        engine.load(space_of(1), &[partition], tick, &rows).await.unwrap();
        clock.step(5);
    }
}

type Contents = Vec<(SpaceId, Vec<u8>, Vec<u8>, DateTime, Bytes)>;

async fn contents(engine: &dyn Engine) -> Contents {
    let mut contents = Contents::new();
    for space in super::export::spaces_of(engine).await.unwrap() {
        let mut visit = |row: ScannedRow<'_>| {
            contents.push((space, row.partition.to_vec(), row.row.to_vec(), row.version, row.body));
            std::ops::ControlFlow::Continue(())
        };
        engine.scan(space, &ScanRange::all(), &mut visit).await.unwrap();
    }
    contents
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(work)
}

fn memory() -> (Arc<dyn Engine>, Arc<TestClock>) {
    let clock = Arc::new(TestClock::new());
    (Arc::new(MemoryEngine::new(clock.clone())), clock)
}

/// A store of contents without any.
fn no_contents() -> MemoryContents {
    MemoryContents::new(Arc::new(TestClock::new()))
}

async fn export_to(engine: &Arc<dyn Engine>, folder: &Path) -> anyhow::Result<ExportManifest> {
    export(&**engine, &no_contents(), folder, &mut Progress::new(ProgressForm::Nothing)).await
}

async fn import_from(folder: &Path, engine: &Arc<dyn Engine>) -> anyhow::Result<ExportManifest> {
    import(engine, &no_contents(), folder, &mut Progress::new(ProgressForm::Nothing)).await
}

/// Moves a store and compares all of it, and that what is written then comes after what was written before.
async fn check_round_trip(from: Arc<dyn Engine>, to: Arc<dyn Engine>, filling: &Filling) {
    let folder = tempfile::tempdir().unwrap();
    fill(&*from, filling).await;
    let manifest = export_to(&from, folder.path()).await.unwrap();
    assert_eq!(import_from(folder.path(), &to).await.unwrap(), manifest);
    assert_eq!(contents(&*to).await, contents(&*from).await);
    let mut spaces = [from.spaces().await.unwrap(), to.spaces().await.unwrap()];
    spaces.iter_mut().for_each(|spaces| spaces.sort());
    assert_eq!(spaces[0], spaces[1]);
    let mut last = DateTime::MIN;
    let mut read_tick = |tick, _: &[_]| {
        last = tick;
        Decision::Refuse
    };
    let outcome = to.transact(SpaceId::CATALOG, b"", &[], &mut read_tick).await.unwrap();
    assert_eq!(outcome, Transacted::Refused);
    assert!(filling.is_empty() || last > manifest.tick, "versions have gone back");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_store_moves_as_it_is(filling in filling()) {
        block_on(check_round_trip(memory().0, memory().0, &filling));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_data_folder_moves_as_it_is(filling in filling()) {
        block_on(async {
            let root = tempfile::tempdir().unwrap();
            let open = |name: &str, seconds_ahead: i64| {
                let clock = Arc::new(TestClock::new());
                clock.step(seconds_ahead * 10_000_000);
                LocalEngine::open(LocalSettings::new(root.path().join(name)), clock).unwrap()
            };
            // The clock of the new one is behind.
            check_round_trip(open("old", 1000), open("new", 0), &filling).await;
        });
    }
}

/// The version of the first row in the fixture.
const FIXTURE_TICK: u64 = 638_000_000_000_000_000;

#[test]
fn format_1_is_read_as_it_was_first_written() {
    block_on(async {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/export-1");
        let (engine, _) = memory();
        let manifest = import_from(&folder, &engine).await.unwrap();
        let at = |ticks| DateTime::from_ticks(ticks).unwrap();
        let row = |space, partition: &[u8], row: &[u8], ticks, body: &'static [u8]| {
            (space_of(space), partition.to_vec(), row.to_vec(), at(ticks), Bytes::from_static(body))
        };
        assert_eq!(manifest.tick, at(FIXTURE_TICK + 5));
        assert_eq!(
            contents(&*engine).await,
            [
                row(0, b"account", b"table", FIXTURE_TICK, b"catalog"),
                row(1, b"", b"", FIXTURE_TICK + 3, b""),
                row(1, b"p\0", b"r", FIXTURE_TICK + 1, b"body"),
                row(1, b"p\0", b"r\xFF", FIXTURE_TICK + 2, &[0; 300]),
            ]
        );
        // And written again, it is the same to the byte.
        let again = tempfile::tempdir().unwrap();
        export_to(&engine, again.path()).await.unwrap();
        // The store that it was read into has given a version since, so the manifest itself is written again.
        manifest.write(again.path()).unwrap();
        let spaces = manifest.spaces.keys().map(|space| super::file::name_of(*space));
        for name in spaces.chain(["FORMAT".to_owned(), "manifest.json".to_owned()]) {
            let read = |folder: &Path| std::fs::read(folder.join(&name)).unwrap();
            assert!(read(again.path()) == read(&folder), "{name}");
        }
    });
}

#[test]
fn an_export_goes_on_wherever_its_files_end() {
    block_on(async {
        let (engine, clock) = memory();
        fill_much(&*engine, &clock).await;
        let root = tempfile::tempdir().unwrap();
        let whole = root.path().join("whole");
        export_to(&engine, &whole).await.unwrap();
        let name = super::file::name_of(space_of(1));
        let file = std::fs::read(whole.join(&name)).unwrap();
        assert!(file.len() > 2_500_000, "there are several chunks");
        for length in
            [0, 1, 31, 32, 33, 1000, 1_048_000, 1_060_000, 2_200_000, file.len() - 41, file.len() - 1]
        {
            let cut = root.path().join(format!("cut-{length}"));
            std::fs::create_dir(&cut).unwrap();
            for entry in ["FORMAT", &super::file::name_of(SpaceId::CATALOG)] {
                std::fs::copy(whole.join(entry), cut.join(entry)).unwrap();
            }
            std::fs::write(cut.join(&name), &file[..length]).unwrap();
            export_to(&engine, &cut).await.unwrap();
            assert!(std::fs::read(cut.join(&name)).unwrap() == file, "cut at {length}");
        }
    });
}

#[test]
fn an_export_of_a_store_that_has_changed_meanwhile_is_refused() {
    block_on(async {
        let (engine, clock) = memory();
        fill_much(&*engine, &clock).await;
        let root = tempfile::tempdir().unwrap();
        export_to(&engine, root.path()).await.unwrap();
        std::fs::remove_file(root.path().join("manifest.json")).unwrap();
        fill(&*engine, &vec![(1, vec![3], vec![(vec![4], Some(b"changed".to_vec()))])]).await;
        let said = export_to(&engine, root.path()).await.unwrap_err().to_string();
        assert!(said.contains("has changed since this export began"), "{said}");
        engine.drop_space(space_of(1)).await.unwrap();
        let said = export_to(&engine, root.path()).await.unwrap_err().to_string();
        assert!(said.contains("has changed since this export began"), "{said}");
    });
}

#[test]
fn folders_that_are_something_else_are_refused() {
    block_on(async {
        let (engine, _) = memory();
        let root = tempfile::tempdir().unwrap();
        let said = import_from(root.path(), &engine).await.unwrap_err().to_string();
        assert!(said.contains("no export, or one that is not finished"), "{said}");
        std::fs::write(root.path().join("diary.txt"), "mine").unwrap();
        let said = export_to(&engine, root.path()).await.unwrap_err().to_string();
        assert!(said.contains("neither empty nor an export"), "{said}");
        let out = root.path().join("out");
        export_to(&engine, &out).await.unwrap();
        let said = export_to(&engine, &out).await.unwrap_err().to_string();
        assert!(said.contains("holds a finished export"), "{said}");
    });
}

/// Imports a folder that is damaged; the store must be untouched.
async fn check_refused(folder: &Path, what: &str) {
    let (engine, _) = memory();
    let said = format!("{:#}", import_from(folder, &engine).await.expect_err(what));
    assert!(said.contains(".rows") || said.contains("manifest.json"), "{what}: {said}");
    assert_eq!(engine.spaces().await.unwrap(), [SpaceId::CATALOG], "{what}");
}

#[test]
fn a_damaged_cut_or_missing_file_is_refused_before_the_store_is_touched() {
    block_on(async {
        let (engine, clock) = memory();
        fill_much(&*engine, &clock).await;
        let root = tempfile::tempdir().unwrap();
        export_to(&engine, root.path()).await.unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        for name in [super::file::name_of(space_of(1)), "manifest.json".to_owned()] {
            let path = root.path().join(name);
            let whole = std::fs::read(&path).unwrap();
            // The last byte of the manifest is a line end, which means nothing.
            let len = whole.len() - 1;
            for offset in [0, 8, 24, 32, 40, len - 1].into_iter().chain((0..20).map(|_| random.usize(..len)))
            {
                let mut damaged = whole.clone();
                damaged[offset] ^= 1 << (offset % 7);
                std::fs::write(&path, &damaged).unwrap();
                let is_blank = |bytes: &[u8]| bytes[offset].is_ascii_whitespace();
                if !(is_blank(&whole) && is_blank(&damaged)) {
                    check_refused(root.path(), &format!("bit of byte {offset} in {}", path.display())).await;
                }
            }
            for length in [0, 10, 32, len / 2, len] {
                std::fs::write(&path, &whole[..length.min(len - 1)]).unwrap();
                check_refused(root.path(), &format!("{length} bytes of {}", path.display())).await;
            }
            std::fs::remove_file(&path).unwrap();
            check_refused(root.path(), "missing").await;
            std::fs::write(&path, &whole).unwrap();
        }
        // The file of another export, whole in itself.
        let other = tempfile::tempdir().unwrap();
        fill(&*engine, &vec![(1, vec![3], vec![(vec![4], Some(b"changed".to_vec()))])]).await;
        export_to(&engine, other.path()).await.unwrap();
        let name = super::file::name_of(space_of(1));
        std::fs::copy(other.path().join(&name), root.path().join(&name)).unwrap();
        check_refused(root.path(), "another export").await;
    });
}

#[test]
fn two_imports_of_one_folder_at_once_are_refused() {
    block_on(async {
        let (engine, clock) = memory();
        fill_much(&*engine, &clock).await;
        let root = tempfile::tempdir().unwrap();
        export_to(&engine, root.path()).await.unwrap();
        let lock = ExportManifest::lock(root.path()).unwrap();
        let (target, _) = memory();
        let said = import_from(root.path(), &target).await.unwrap_err().to_string();
        assert!(said.contains("another import of"), "{said}");
        drop(lock);
        import_from(root.path(), &target).await.unwrap();
    });
}

/// A store with an import that has begun and not ended. How far a failing one comes is by chance, so it is tried on
/// fresh stores until one stays between.
async fn unfinished_import(folder: &Path) -> Arc<dyn Engine> {
    for seed in 0..1000 {
        let (target, _) = memory();
        let settings = FaultSettings { refused: 300, ..FaultSettings::with_seed(seed) };
        let faulty: Arc<dyn Engine> = Arc::new(FaultEngine::new(target.clone(), settings));
        let imported = import_from(folder, &faulty).await;
        if imported.is_err() && target.spaces().await.unwrap().contains(&super::IMPORTING) {
            return target;
        }
    }
    panic!("no import failed halfway");
}

#[test]
fn what_somebody_else_has_written_meanwhile_is_noticed() {
    block_on(async {
        let (engine, clock) = memory();
        fill_much(&*engine, &clock).await;
        let root = tempfile::tempdir().unwrap();
        export_to(&engine, root.path()).await.unwrap();
        // In a partition that the export does not have: what it has is loaded over whatever is there.
        let row = || vec![(vec![77], vec![(vec![7], Some(b"foreign".to_vec()))])];
        for number in [0, 1, 9] {
            let target = unfinished_import(root.path()).await;
            let filling = row().into_iter().map(|(partition, rows)| (number, partition, rows)).collect();
            fill(&*target, &filling).await;
            let said = import_from(root.path(), &target).await.unwrap_err().to_string();
            assert!(said.contains("somebody else has written") || said.contains("not empty"), "{said}");
        }
    });
}

#[test]
fn an_import_through_failures_comes_to_the_same_however_often_it_is_begun() {
    block_on(async {
        let (engine, clock) = memory();
        fill_much(&*engine, &clock).await;
        let root = tempfile::tempdir().unwrap();
        export_to(&engine, root.path()).await.unwrap();
        let mut failures = 0;
        for seed in 0..6 {
            let (target, _) = memory();
            // Most runs end early; a bounded number of them is enough.
            for run in 0..1000 {
                let settings = FaultSettings { delayed: 0, ..FaultSettings::with_seed(seed * 1000 + run) };
                let faulty: Arc<dyn Engine> = Arc::new(FaultEngine::new(target.clone(), settings));
                match import_from(root.path(), &faulty).await {
                    Ok(_) => break,
                    Err(error) => {
                        failures += 1;
                        // Its last step was done, but its answer lost.
                        if error.to_string().contains("the store is not empty") {
                            break;
                        }
                    }
                }
            }
            assert_eq!(contents(&*target).await, contents(&*engine).await, "seed {seed}");
        }
        assert!(failures > 6, "faults have happened");
    });
}
