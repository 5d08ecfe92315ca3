//! Every single file of a store removed, cut and changed, one at a time: the store says that it is damaged, or no row is
//! missing. And neither a check nor a refused start changes anything.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use common::{Sparse, copy_tree, files, open, put, rows, small, space};
use tavola_engine::{Engine, EngineError, SpaceId};
use tavola_engine_local::{OpenError, verify};

const SPACES: u64 = 6;

type Rows = BTreeMap<SpaceId, BTreeMap<Vec<u8>, Bytes>>;

/// A folder whose rows are in table files of several levels and in the journal, some of them deleted, some of dropped
/// spaces. It was closed, or copied while it was in use.
async fn filled(folder: &Path, is_closed: bool) -> (PathBuf, Rows) {
    let data = folder.join("data");
    let engine = open(small(&data)).unwrap();
    for number in 0..SPACES + 2 {
        engine.create_space(space(number)).await.unwrap();
    }
    for round in 0..60u8 {
        for number in 0..SPACES + 2 {
            let body = [round; 3000];
            put(&engine, space(number), &[round % 40, 1], Some(&body)).await.unwrap();
            put(&engine, space(number), &[round % 40, 2], (round % 3 > 0).then_some(&body[..]))
                .await
                .unwrap();
        }
    }
    engine.drop_space(space(SPACES)).await.unwrap();
    put(&engine, space(0), b"last", Some(b"acknowledged")).await.unwrap();
    let mut expected = Rows::new();
    for number in 0..SPACES {
        expected.insert(space(number), rows(&engine, space(number)).await.unwrap());
    }
    engine.drop_space(space(SPACES + 1)).await.unwrap();
    put(&engine, space(1), b"last", None).await.unwrap();
    if is_closed {
        drop(engine);
        return (data, expected);
    }
    engine.close().await;
    // Flushes and compaction may be under way; wait for a moment in which the copy is whole.
    let copy = folder.join("copy");
    loop {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let before = fingerprint(&data);
        let _ = fs::remove_dir_all(&copy);
        copy_tree(&data, &copy);
        if fingerprint(&data) == before {
            return (copy, expected);
        }
    }
}

fn fingerprint(folder: &Path) -> BTreeMap<PathBuf, Sparse> {
    files(folder).into_iter().map(|path| (path.clone(), Sparse::read(&path))).collect()
}

enum Finding {
    Damaged,
    AllThere,
}

/// Checks and opens a folder, and compares what it gives.
async fn examine(folder: &Path, expected: &Rows) -> Finding {
    let before = fingerprint(folder);
    let is_clean = match verify(folder) {
        Ok(report) => report.is_clean(),
        Err(
            OpenError::Damaged { .. } | OpenError::NotADataFolder { .. } | OpenError::FormatUnknown { .. },
        ) => false,
        Err(error) => panic!("{error}"),
    };
    assert!(fingerprint(folder) == before, "a check changed something");
    let engine = match open(small(folder)) {
        Ok(engine) => engine,
        Err(
            OpenError::Damaged { .. } | OpenError::NotADataFolder { .. } | OpenError::FormatUnknown { .. },
        ) => {
            assert!(!is_clean, "a check found nothing");
            assert!(fingerprint(folder) == before, "a refused start changed something");
            return Finding::Damaged;
        }
        Err(error) => panic!("{error}"),
    };
    let mut is_damaged = false;
    for (space, expected) in expected {
        match rows(&engine, *space).await {
            Ok(rows) => assert!(rows == *expected, "rows of {space} are missing"),
            Err(EngineError::Damaged { .. }) => is_damaged = true,
            Err(error) => panic!("{error}"),
        }
        for (row, body) in expected {
            match engine.get(*space, b"p", row).await {
                Ok(found) => {
                    assert!(found.is_some_and(|found| found.body == *body), "a row of {space} is missing")
                }
                Err(EngineError::Damaged { .. }) => is_damaged = true,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(!is_damaged || !is_clean, "a check found nothing");
    if is_damaged { Finding::Damaged } else { Finding::AllThere }
}

/// Does something to one file after the other, each in a fresh copy. Gives how often there was damage, and how often
/// everything was there.
async fn try_all(is_closed: bool, harms: &[fn(&[u8]) -> Harm]) -> (u32, u32) {
    let folder = tempfile::tempdir().unwrap();
    let (data, expected) = filled(folder.path(), is_closed).await;
    let (mut damaged, mut all_there) = (0, 0);
    for path in files(&data) {
        let name = path.strip_prefix(&data).unwrap();
        let bytes = Sparse::read(&path).content();
        for (number, harm) in harms.iter().enumerate() {
            let image = folder.path().join("image");
            copy_tree(&data, &image);
            match harm(&bytes) {
                Harm::Remove => fs::remove_file(image.join(name)).unwrap(),
                Harm::Cut(length) => {
                    let file = fs::File::options().write(true).open(image.join(name)).unwrap();
                    file.set_len(length as u64).unwrap();
                }
                Harm::Flip(at) if at < bytes.len() => {
                    let file = fs::File::options().write(true).open(image.join(name)).unwrap();
                    file.write_all_at(&[bytes[at] ^ 0x04], at as u64).unwrap();
                }
                Harm::Flip(_) => {}
            }
            // Shown if the test fails.
            println!("{}, harm {number}", name.display());
            match examine(&image, &expected).await {
                Finding::Damaged => damaged += 1,
                Finding::AllThere => all_there += 1,
            }
            fs::remove_dir_all(&image).unwrap();
        }
    }
    (damaged, all_there)
}

/// What is done to a file of which these are the bytes, without zeros at their end.
enum Harm {
    Remove,
    Cut(usize),
    Flip(usize),
}

#[tokio::test]
async fn a_removed_file_is_damage_or_no_row_is_missing() {
    for is_closed in [true, false] {
        let (damaged, all_there) = try_all(is_closed, &[|_| Harm::Remove]).await;
        // LOCK, and what a crash left of old versions: the slower the machine, the more of these.
        assert!(damaged > 12, "damaged={damaged}, all there={all_there}");
    }
}

#[tokio::test]
async fn a_cut_file_is_damage_or_no_row_is_missing() {
    let harms: [fn(&[u8]) -> Harm; 3] = [
        |_| Harm::Cut(0),
        |content| Harm::Cut(content.len() / 2),
        |content| Harm::Cut(content.len().saturating_sub(1)),
    ];
    let (damaged, all_there) = try_all(false, &harms).await;
    assert!(damaged > 36, "damaged={damaged}, all there={all_there}");
}

#[tokio::test]
async fn a_changed_file_is_damage_or_no_row_is_missing() {
    let harms: [fn(&[u8]) -> Harm; 7] = [
        |_| Harm::Flip(0),
        |_| Harm::Flip(9),
        |content| Harm::Flip(content.len() / 5),
        |content| Harm::Flip(content.len() / 2),
        |content| Harm::Flip(content.len() * 4 / 5),
        // In the last record of a journal, before the mark.
        |content| Harm::Flip(content.len().saturating_sub(45)),
        |content| Harm::Flip(content.len().saturating_sub(1)),
    ];
    let (damaged, all_there) = try_all(false, &harms).await;
    assert!(damaged > 80, "damaged={damaged}, all there={all_there}");
}
