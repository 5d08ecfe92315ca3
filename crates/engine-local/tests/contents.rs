//! Contents of the embedded engine beyond the contract: damage, checks, backups, full disks, freed space.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use common::{bytes_of, copy_tree, files, open, put, put_content, read_content, small, space};
use tavola_engine::{
    BytesSource, Content, ContentError, ContentId, ContentSize, ContentStore, Engine, NamedContents, Owner,
    ScannedRow, SpaceId,
};
use tavola_engine_local::{LocalEngine, LocalSettings, OpenError, verify, verify_naming};

const LENGTHS: [usize; 5] = [1, 5000, 262_144, 700_000, 3_000_000];

fn owner(number: u64) -> Owner {
    Owner { space: space(number), partition: b"blob".to_vec() }
}

/// The extent files of a data folder.
fn extents(data: &Path) -> Vec<PathBuf> {
    files(&data.join("store").join("content"))
}

/// A folder with a content of each length, the number of each being its seed, and a row for each that names it.
async fn filled(data: &Path) -> Vec<Content> {
    let engine = open(small(data)).unwrap();
    engine.create_space(space(1)).await.unwrap();
    let mut contents = Vec::new();
    for (seed, length) in (0..).zip(LENGTHS) {
        let content = put_content(&engine, &owner(1), seed, length).await;
        let row = [&content.id.0[..], &content.length.to_be_bytes()].concat();
        put(&engine, space(1), &seed.to_be_bytes(), Some(&row)).await.unwrap();
        contents.push(content);
    }
    contents
}

/// Whether every content is as it was put. Damage is found by the reader, and nothing else goes wrong.
async fn all_are_whole(engine: &LocalEngine, contents: &[Content]) -> bool {
    let mut is_whole = true;
    for (seed, content) in (0..).zip(contents) {
        match read_content(engine, space(1), content).await {
            Ok(bytes) => assert!(bytes == bytes_of(seed, bytes.len()), "a read gave other bytes"),
            Err(ContentError::Damaged { .. }) => is_whole = false,
            Err(error) => panic!("{error}"),
        }
    }
    is_whole
}

/// Lets the kernel forget what it has of the extents, so that they are read from the disk.
fn forget(data: &Path) {
    for extent in extents(data) {
        let file = fs::File::open(extent).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

/// Rows that name contents as [`filled`] writes them.
struct Named;

impl NamedContents for Named {
    fn learn(&mut self, _: &ScannedRow<'_>) {}

    fn visit(&self, named_in: SpaceId, row: &ScannedRow<'_>, visit: &mut dyn FnMut(&Content)) {
        if named_in == space(1) {
            let (id, length) = row.body.split_first_chunk().unwrap();
            visit(&Content { id: ContentId(*id), length: u64::from_be_bytes(length.try_into().unwrap()) });
        }
    }
}

#[tokio::test]
async fn contents_are_checked_from_the_rows_to_every_piece() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let contents = filled(&data).await;
    let report = verify_naming(&data, &mut Named).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let expected = (LENGTHS.len() as u64, LENGTHS.iter().sum::<usize>() as u64);
    assert_eq!((report.contents, report.content_bytes), expected);
    assert_eq!((report.contents_named, report.rows, report.spaces), (5, 5, 2));
    // One that no row names is no problem; one that a row names and is not there is.
    let engine = open(small(&data)).unwrap();
    put_content(&engine, &owner(1), 77, 10).await;
    put(&engine, space(2), b"x", None).await.unwrap_err();
    engine.contents().drop_contents(space(1), &[contents[2].id]).await.unwrap();
    drop(engine);
    let report = verify_naming(&data, &mut Named).unwrap();
    assert_eq!((report.problem_count, report.contents), (1, 5));
    assert_eq!(report.problems[0].what, format!("content {} is missing", contents[2].id));
    assert!(verify(&data).unwrap().is_clean());
}

#[tokio::test]
async fn every_changed_byte_of_an_extent_is_noticed_or_belongs_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, image) = (folder.path().join("data"), folder.path().join("image"));
    let contents = filled(&data).await;
    let mut noticed = 0;
    for extent in extents(&data) {
        let name = extent.strip_prefix(&data).unwrap();
        for at in [0, 9, 17, 25, 40, 4096, 4100, 4105, 8192, 12_000, 300_000, 1_000_000, 3_600_000, 3_604_800]
        {
            copy_tree(&data, &image);
            let file = fs::File::options().read(true).write(true).open(image.join(name)).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
            let is_clean = match verify(&image) {
                Ok(report) => report.is_clean(),
                Err(OpenError::Damaged { .. }) => false,
                Err(error) => panic!("{error}"),
            };
            let is_whole = match open(small(&image)) {
                Ok(engine) => {
                    forget(&image);
                    let from_disk = all_are_whole(&engine, &contents).await;
                    let from_memory = all_are_whole(&engine, &contents).await;
                    assert_eq!(from_disk, from_memory, "{}, byte {at}", name.display());
                    from_disk
                }
                Err(OpenError::Damaged { .. }) => false,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(is_clean, is_whole, "{}, byte {at}", name.display());
            noticed += u32::from(!is_clean);
            fs::remove_dir_all(&image).unwrap();
        }
    }
    assert!(noticed >= 14, "{noticed} changes were noticed");
}

#[tokio::test]
async fn a_missing_or_cut_extent_is_damage_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (data, image) = (folder.path().join("data"), folder.path().join("image"));
    filled(&data).await;
    let names: Vec<_> =
        extents(&data).iter().map(|path| path.strip_prefix(&data).unwrap().to_owned()).collect();
    assert_eq!(names.len(), 2, "one extent of each kind");
    for name in names {
        for length in [None, Some(0), Some(100), Some(4096), Some((256 << 20) - 1)] {
            copy_tree(&data, &image);
            match length {
                None => fs::remove_file(image.join(&name)).unwrap(),
                Some(length) => {
                    fs::File::options().write(true).open(image.join(&name)).unwrap().set_len(length).unwrap()
                }
            }
            let before: Vec<_> = files(&image);
            assert!(matches!(verify(&image), Err(OpenError::Damaged { .. })), "{length:?}");
            assert!(matches!(open(small(&image)), Err(OpenError::Damaged { .. })), "{length:?}");
            assert_eq!(files(&image), before);
            fs::remove_dir_all(&image).unwrap();
        }
    }
}

#[tokio::test]
async fn a_backup_has_the_contents_of_its_moment() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let contents = filled(&data).await;
    let engine = open(small(&data)).unwrap();
    // Dropped contents are left out, and what is dropped while the backup runs is in it.
    let gone = put_content(&engine, &owner(1), 99, 2_000_000).await;
    engine.contents().drop_contents(space(1), &[gone.id]).await.unwrap();
    let dropping = async {
        tokio::task::yield_now().await;
        engine.contents().drop_contents(space(1), &[contents[4].id]).await.unwrap();
    };
    let (report, ()) = tokio::join!(engine.backup(&copy), dropping);
    let report = report.unwrap();
    assert_eq!((report.contents, report.rows), (5, 5));
    let report = verify_naming(&copy, &mut Named).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.contents, report.contents_named), (5, 5));
    let restored = open(small(&copy)).unwrap();
    assert!(all_are_whole(&restored, &contents).await);
    assert!(matches!(read_content(&restored, space(1), &gone).await, Err(ContentError::Missing { .. })));
    // Both go on, each on its own.
    let more = put_content(&restored, &owner(1), 5, 123_456).await;
    assert_eq!(read_content(&restored, space(1), &more).await.unwrap(), bytes_of(5, 123_456));
    assert!(matches!(read_content(&engine, space(1), &contents[4]).await, Err(ContentError::Missing { .. })));
}

#[tokio::test]
async fn an_upload_that_does_not_fit_the_disk_is_refused_before_its_first_byte() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(small(folder.path())).unwrap();
    let mut source = BytesSource::new([Bytes::from_static(b"never asked for")]);
    let size = ContentSize::Exactly(1 << 60);
    let refused = engine.contents().put(&owner(1), size, &mut source).await;
    assert!(matches!(refused, Err(ContentError::Full { .. })), "{refused:?}");
    drop(engine);
    // A disk below its reserve takes no content at all.
    let full = LocalSettings { disk_reserve_bytes: u64::MAX, ..small(folder.path()) };
    let engine = open(full).unwrap();
    let refused = engine.contents().put(&owner(1), ContentSize::Exactly(15), &mut source).await;
    assert!(matches!(refused, Err(ContentError::Full { .. })), "{refused:?}");
}

#[tokio::test]
async fn an_extent_in_which_nothing_is_left_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(small(folder.path())).unwrap();
    // Each is over half an extent, so each has one of its own.
    let length = 140 << 20;
    let pieces = vec![bytes_of(1, 1 << 20); 140];
    let mut contents = Vec::new();
    for _ in 0..2 {
        let mut source = BytesSource::new(pieces.clone());
        let size = ContentSize::Exactly(length);
        contents.push(engine.contents().put(&owner(1), size, &mut source).await.unwrap());
    }
    let small_one = put_content(&engine, &owner(1), 3, 100).await;
    assert_eq!(extents(folder.path()).len(), 3);
    engine.contents().drop_contents(space(1), &[contents[0].id]).await.unwrap();
    while extents(folder.path()).len() > 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(read_content(&engine, space(1), &contents[1]).await.unwrap().ends_with(&pieces[0]));
    // The extent of small contents is open still, and goes with the next start.
    engine.contents().drop_space(space(1)).await.unwrap();
    assert!(matches!(read_content(&engine, space(1), &small_one).await, Err(ContentError::Missing { .. })));
    drop(engine);
    let engine = open(small(folder.path())).unwrap();
    while !extents(folder.path()).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(engine.contents().usage().unwrap().bytes, 0);
    drop(engine);
    assert!(verify(folder.path()).unwrap().is_clean());
}

#[tokio::test]
async fn the_index_of_contents_is_no_space_of_the_services() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(small(folder.path())).unwrap();
    let before = engine.spaces().await.unwrap();
    put_content(&engine, &owner(1), 1, 10).await;
    assert_eq!(engine.spaces().await.unwrap(), before);
    let format = fs::read_to_string(folder.path().join("FORMAT")).unwrap();
    assert_eq!(format, "tavola data folder, format 3\n");
}
