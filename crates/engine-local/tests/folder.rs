//! The data folder: who may open it, how it is copied, and how damage is noticed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tavola_engine::{Change, Decision, Engine, EngineError, Position, ScanRange, SpaceId};
use tavola_engine_local::{BackupError, LocalEngine, LocalSettings, OpenError, verify};
use tavola_system::SystemClock;

const SPACE: SpaceId = SpaceId([5; 16]);

fn open(folder: &Path) -> Result<Arc<LocalEngine>, OpenError> {
    LocalEngine::open(LocalSettings::new(folder), Arc::new(SystemClock))
}

async fn put(engine: &LocalEngine, row: &[u8], body: &[u8]) -> Result<(), EngineError> {
    let body = Bytes::copy_from_slice(body);
    let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
    engine.transact(SPACE, b"p", &[row], &mut decide).await.map(|_| ())
}

async fn rows(engine: &LocalEngine) -> Vec<(Vec<u8>, u64, Bytes)> {
    let mut rows = Vec::new();
    let mut visit = |row: tavola_engine::ScannedRow<'_>| {
        rows.push((row.row.to_vec(), row.version.ticks(), row.body));
        std::ops::ControlFlow::Continue(())
    };
    engine.scan(SPACE, &ScanRange::all(), &mut visit).await.unwrap();
    rows
}

/// A folder with a hundred rows that no engine uses.
async fn filled_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.create_space(SPACE).await.unwrap();
    for number in 0..100u8 {
        put(&engine, &[number], &[number; 500]).await.unwrap();
    }
    folder
}

fn journal_path(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder.join("store")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "journal")).min().unwrap()
}

#[tokio::test]
async fn a_folder_in_use_is_refused_by_name() {
    let folder = filled_folder().await;
    let engine = open(folder.path()).unwrap();
    let error = open(folder.path()).err().unwrap();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains(folder.path().file_name().unwrap().to_str().unwrap()));
    assert!(matches!(verify(folder.path()), Err(OpenError::Locked { .. })));
    drop(engine);
    open(folder.path()).unwrap();
}

#[tokio::test]
async fn an_unknown_format_is_refused() {
    let folder = filled_folder().await;
    fs::write(folder.path().join("FORMAT"), "tavola data folder, format 4\n").unwrap();
    let error = open(folder.path()).err().unwrap();
    assert!(
        matches!(&error, OpenError::FormatUnknown { found, .. } if found.ends_with("format 4")),
        "{error}"
    );
    fs::write(folder.path().join("FORMAT"), "tavola data folder, format 1\n").unwrap();
    for error in [open(folder.path()).err().unwrap(), verify(folder.path()).err().unwrap()] {
        assert!(matches!(&error, OpenError::FormatRetired { .. }), "{error}");
        assert!(error.to_string().contains("export its data with the version that wrote it"), "{error}");
    }
}

#[tokio::test]
async fn a_folder_of_something_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("letter.txt"), "dear").unwrap();
    assert!(matches!(open(folder.path()), Err(OpenError::NotADataFolder { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(matches!(verify(&folder.path().join("none")), Err(OpenError::NotADataFolder { .. })));
    assert!(!folder.path().join("none").exists());
}

/// A start that was cut short before the store had its name, with and without the format file.
#[tokio::test]
async fn a_store_that_was_never_finished_is_made_anew() {
    for has_format in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("store.new/meta")).unwrap();
        fs::write(folder.path().join("store.new/1.journal"), "").unwrap();
        if has_format {
            fs::write(folder.path().join("FORMAT"), "tavola data folder, format 2\n").unwrap();
        }
        open(folder.path()).unwrap();
        assert!(!folder.path().join("store.new").exists());
    }
}

#[tokio::test]
async fn a_lost_store_is_damage_and_stays_lost() {
    let folder = filled_folder().await;
    fs::remove_dir_all(folder.path().join("store")).unwrap();
    assert!(matches!(open(folder.path()), Err(OpenError::Damaged { .. })));
    assert!(matches!(verify(folder.path()), Err(OpenError::Damaged { .. })));
    assert!(!folder.path().join("store").exists());
}

#[tokio::test]
async fn only_the_owner_may_read_a_data_folder() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    drop(open(&folder).unwrap());
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
            0o700,
            "{}",
            folder.display()
        );
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()) {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            let path = entry.path();
            let is_ours = path.extension().is_some()
                || ["LOCK", "FORMAT", "manifest"].iter().any(|name| path.ends_with(name));
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if is_ours {
                assert_eq!(mode, 0o600, "{}", path.display());
            }
        }
    }
}

#[tokio::test]
async fn a_closed_engine_takes_no_writes_but_reads() {
    let folder = filled_folder().await;
    let engine = open(folder.path()).unwrap();
    engine.close().await;
    engine.close().await;
    assert!(matches!(put(&engine, b"x", b"").await, Err(EngineError::Unavailable { .. })));
    assert!(matches!(engine.drop_space(SPACE).await, Err(EngineError::Unavailable { .. })));
    assert_eq!(rows(&engine).await.len(), 100);
}

#[tokio::test]
async fn writes_are_refused_below_the_disk_reserve_and_reads_deletes_and_drops_go_on() {
    let folder = filled_folder().await;
    let settings = LocalSettings { disk_reserve_bytes: u64::MAX, ..LocalSettings::new(folder.path()) };
    let engine = LocalEngine::open(settings, Arc::new(SystemClock)).unwrap();
    assert!(matches!(put(&engine, b"x", b"").await, Err(EngineError::Full { .. })));
    assert!(matches!(engine.create_space(SpaceId([6; 16])).await, Err(EngineError::Full { .. })));
    assert_eq!(rows(&engine).await.len(), 100);
    let delete = |found: &[Option<_>], body: Option<Bytes>| {
        assert!(found[0].is_some());
        let put = body.map(|body| Change::Put { index: 1, body });
        Decision::Apply([Change::Delete { index: 0 }].into_iter().chain(put).collect())
    };
    let (small, large) = (Bytes::from(vec![1; 400]), Bytes::from(vec![1; 1000]));
    let transact = async |row: u8, body: Option<Bytes>| {
        let mut decide = |_, found: &[_]| delete(found, body.clone());
        engine.transact(SPACE, b"p", &[&[row], b"note"], &mut decide).await
    };
    transact(1, None).await.unwrap();
    transact(2, Some(small)).await.unwrap();
    assert!(matches!(transact(3, Some(large)).await, Err(EngineError::Full { .. })));
    assert_eq!(rows(&engine).await.len(), 99);
    engine.drop_space(SPACE).await.unwrap();
    assert!(matches!(engine.get(SPACE, b"p", b"x").await, Err(EngineError::SpaceMissing { .. })));
}

#[tokio::test]
async fn a_key_too_long_for_the_store_is_never_there() {
    let folder = filled_folder().await;
    let engine = open(folder.path()).unwrap();
    assert!(matches!(put(&engine, &[b'k'; 70_000], b"").await, Err(EngineError::Failed { .. })));
    assert!(engine.get(SPACE, b"p", &[b'k'; 70_000]).await.unwrap().is_none());
    put(&engine, &[b'k'; 65_000], b"").await.unwrap();
    for (from, before, expected) in [
        (Position::at(b"p", &[b'k'; 70_000]), None, 0),
        (Position::at(b"p", &[b'j'; 70_000]), None, 1),
        (Position::first(), Some(Position::at(b"p", &[b'k'; 70_000])), 101),
        (Position::first(), Some(Position::at(&[0; 70_000], b"")), 0),
    ] {
        let mut count = 0;
        let mut visit = |_: tavola_engine::ScannedRow<'_>| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        };
        engine.scan(SPACE, &ScanRange { from, before }, &mut visit).await.unwrap();
        assert_eq!(count, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_a_data_folder_of_one_moment() {
    let folder = filled_folder().await;
    let target = tempfile::tempdir().unwrap();
    let target = target.path().join("backup");
    let engine = open(folder.path()).unwrap();
    let before = rows(&engine).await;
    // Pairs of rows are always equal; a copy that is not of one moment would show two that differ.
    let writer = tokio::spawn({
        let engine = engine.clone();
        async move {
            for number in 0u32..2000 {
                let body = Bytes::copy_from_slice(&number.to_be_bytes());
                let put = |place| Change::Put { index: place, body: body.clone() };
                let mut decide = |_, _: &[_]| Decision::Apply(vec![put(0), put(1)]);
                engine.transact(SPACE, b"pair", &[b"a", b"z"], &mut decide).await.unwrap();
            }
        }
    });
    let report = engine.backup(&target).await.unwrap();
    writer.await.unwrap();
    assert!(matches!(engine.backup(&target).await, Err(BackupError::Destination(_))));
    assert!(report.rows == 100 || report.rows == 102, "{report:?}");

    let verified = verify(&target).unwrap();
    assert!(verified.is_clean(), "{verified:?}");
    assert_eq!(verified.rows, report.rows);
    let copy = open(&target).unwrap();
    let copied = rows(&copy).await;
    assert_eq!(copied[..100], before[..]);
    if let [a, z] = &copied[100..] {
        assert_eq!((a.1, &a.2), (z.1, &z.2));
    }
    put(&copy, b"later", b"body").await.unwrap();
    let newest = rows(&copy).await.iter().find(|row| row.0 == b"later").unwrap().1;
    assert!(copied.iter().all(|row| row.1 < newest));
}

#[tokio::test]
async fn an_intact_folder_verifies_clean() {
    let folder = filled_folder().await;
    let report = verify(folder.path()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.spaces, report.rows), (2, 100));
}

#[tokio::test]
async fn a_journal_spoilt_in_the_middle_is_refused() {
    let folder = filled_folder().await;
    let path = journal_path(folder.path());
    let mut journal = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    journal.seek(SeekFrom::Start(4096 + 3000)).unwrap();
    journal.read_exact(&mut byte).unwrap();
    journal.seek(SeekFrom::Start(4096 + 3000)).unwrap();
    journal.write_all(&[byte[0] ^ 1]).unwrap();
    assert!(matches!(open(folder.path()), Err(OpenError::Damaged { .. })));
    assert!(matches!(verify(folder.path()), Err(OpenError::Damaged { .. })));
}

/// The files of a space vanish under the engine, so what is in memory can no longer be written out.
#[tokio::test]
async fn after_the_store_has_failed_writes_are_refused_and_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(small_memtables(folder.path()), Arc::new(SystemClock)).unwrap();
    engine.create_space(SPACE).await.unwrap();
    put(&engine, b"first", b"body").await.unwrap();
    for tree in 1..=4 {
        fs::remove_dir_all(folder.path().join(format!("store/rows-{tree}/tables"))).unwrap();
    }
    let mut written = 0u32;
    let error = loop {
        match put(&engine, &written.to_be_bytes(), &[7; 100_000]).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the store never fails");
    };
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error}");
    assert!(matches!(put(&engine, b"x", b"").await, Err(EngineError::Unavailable { .. })));
    assert!(matches!(engine.create_space(SpaceId([6; 16])).await, Err(EngineError::Unavailable { .. })));
    assert_eq!(engine.get(SPACE, b"p", b"first").await.unwrap().unwrap().body, "body");
    for number in 0..written {
        assert!(engine.get(SPACE, b"p", &number.to_be_bytes()).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_spoilt_table_file_is_damage_to_reads_scans_and_verify() {
    let folder = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(small_memtables(folder.path()), Arc::new(SystemClock)).unwrap();
    engine.create_space(SPACE).await.unwrap();
    for number in 0..40u32 {
        put(&engine, &number.to_be_bytes(), &[7; 100_000]).await.unwrap();
    }
    // A backup has no rows in journals.
    let backup = folder.path().join("backup");
    engine.backup(&backup).await.unwrap();
    let table = largest_table(&backup.join("store")).unwrap();
    let file = fs::File::options().write(true).open(table).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0x55; 8], 50_000).unwrap();

    let report = verify(&backup).unwrap();
    assert!(!report.is_clean());
    let engine = open(&backup).unwrap();
    let scanned = engine.scan(SPACE, &ScanRange::all(), &mut |_| std::ops::ControlFlow::Continue(())).await;
    assert!(matches!(scanned, Err(EngineError::Damaged { .. })), "{scanned:?}");
    let mut damaged = 0;
    for number in 0..40u32 {
        match engine.get(SPACE, b"p", &number.to_be_bytes()).await {
            Ok(row) => assert!(row.is_some()),
            Err(EngineError::Damaged { .. }) => damaged += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(damaged > 0);
}

fn small_memtables(folder: &Path) -> LocalSettings {
    LocalSettings { memory_bytes: 32 << 20, memtable_bytes: 1 << 20, ..LocalSettings::new(folder) }
}

fn largest_table(store: &Path) -> Option<PathBuf> {
    let tables = (1..=4).map(|tree| store.join(format!("rows-{tree}/tables")));
    let files = tables.flat_map(|tables| fs::read_dir(tables).unwrap()).map(|entry| entry.unwrap().path());
    files.filter(|path| fs::metadata(path).is_ok_and(|data| data.len() > 500_000)).max()
}

/// The store below this one once forgot a space that got the number of a dropped one after a restart.
#[tokio::test]
async fn a_space_made_after_drops_and_a_restart_survives_the_next_restart() {
    let folder = tempfile::tempdir().unwrap();
    for round in 1..6u8 {
        let engine = open(folder.path()).unwrap();
        for number in 100..105 {
            engine.create_space(SpaceId([number; 16])).await.unwrap();
            engine.drop_space(SpaceId([number; 16])).await.unwrap();
        }
        drop(engine);
        let engine = open(folder.path()).unwrap();
        engine.create_space(SpaceId([round; 16])).await.unwrap();
        drop(engine);
        let spaces = open(folder.path()).unwrap().spaces().await.unwrap();
        for made in 1..=round {
            assert!(spaces.contains(&SpaceId([made; 16])), "space {made} is gone in round {round}");
        }
    }
}

/// As large as a transaction of the Table service can get: a little merged into each of a hundred large entities.
#[tokio::test]
async fn a_transaction_larger_than_a_journal_is_kept_and_a_yet_larger_one_refused() {
    let folder = filled_folder().await;
    let engine = open(folder.path()).unwrap();
    let names: Vec<[u8; 1]> = (0..100).map(|name| [name]).collect();
    let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let write = async |body: Bytes| {
        let mut decide = |_, found: &[_]| {
            Decision::Apply((0..found.len()).map(|index| Change::Put { index, body: body.clone() }).collect())
        };
        engine.transact(SPACE, b"large", &names, &mut decide).await
    };
    write(Bytes::from(vec![8; 1 << 20])).await.unwrap();
    let refused = write(Bytes::from(vec![9; 3 << 20])).await;
    assert!(matches!(refused, Err(EngineError::TooLarge { .. })), "{refused:?}");
    put(&engine, b"after", b"it").await.unwrap();
    drop(engine);
    let engine = open(folder.path()).unwrap();
    assert_eq!(engine.get(SPACE, b"large", &[99]).await.unwrap().unwrap().body.len(), 1 << 20);
    assert!(engine.get(SPACE, b"p", b"after").await.unwrap().is_some());
    assert_eq!(rows(&engine).await.len(), 201);
}
