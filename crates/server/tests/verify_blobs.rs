//! `tavola verify` on a folder with blobs of every kind: a content that is missing, cut or changed is found, whichever
//! row names it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{fail, succeed, tavola, text};
use http::Method;
use tavola_engine::{ContentStore, FoundContent};
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_system::SystemClock;
use tavola_testkit::{Connection, DataFolder, Request, ServerOptions, TestServer};

/// Contents of the folder: of a block blob, its snapshot's other body, two committed blocks and one that is not, a block
/// of an append blob, pages.
const CONTENTS: usize = 7;

fn put(target: &str, body: Vec<u8>) -> Request {
    let request = Request { method: Method::PUT, target: target.to_owned(), headers: Vec::new(), body };
    request.with_header("x-ms-version", "2021-12-02")
}

/// Makes a folder in which each kind of row names a content.
fn fill_with_blobs(data: &Path) {
    let options = ServerOptions {
        binary: Some(PathBuf::from(env!("CARGO_BIN_EXE_tavola"))),
        data: DataFolder::At(data.to_owned()),
        ..ServerOptions::default()
    };
    let server = TestServer::start_with(&options).unwrap();
    let mut connection = Connection::open_blob(server.blob_endpoint()).unwrap();
    let mut send = |request: Request| {
        let response = connection.send(&request).unwrap();
        assert_eq!(response.status, 201, "{}: {}", request.target, response.text());
    };
    let bytes =
        |seed: u8, length: usize| (0..=250).cycle().take(length).map(|at: u8| at ^ seed).collect::<Vec<u8>>();
    let blob =
        |target: &str, kind: &str, body: Vec<u8>| put(target, body).with_header("x-ms-blob-type", kind);
    send(put("/box?restype=container", Vec::new()));
    send(blob("/box/block", "BlockBlob", bytes(1, 10_000)));
    send(put("/box/block?comp=snapshot", Vec::new()));
    send(blob("/box/block", "BlockBlob", bytes(2, 20_000)));
    for (id, seed) in [("AAAA", 3), ("AAAB", 4)] {
        send(put(&format!("/box/blocks?comp=block&blockid={id}"), bytes(seed, 30_000)));
    }
    let list = "<BlockList><Latest>AAAA</Latest><Latest>AAAB</Latest></BlockList>";
    send(put("/box/blocks?comp=blocklist", list.into()));
    send(put("/box/blocks?comp=block&blockid=AAAC", bytes(5, 30_000)));
    send(blob("/box/log", "AppendBlob", Vec::new()));
    send(put("/box/log?comp=appendblock", bytes(6, 40_000)));
    send(blob("/box/disk", "PageBlob", Vec::new()).with_header("x-ms-blob-content-length", "65536"));
    let pages = put("/box/disk?comp=page", bytes(7, 8192)).with_header("x-ms-page-write", "update");
    send(pages.with_header("x-ms-range", "bytes=0-8191"));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.metadata().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The contents of a folder. Drops the one with this number, if it is told.
fn contents(data: &Path, dropped: Option<usize>) -> Vec<FoundContent> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let engine = LocalEngine::open(LocalSettings::new(data), Arc::new(SystemClock)).unwrap();
        let mut found = Vec::new();
        let mut visit = |content: &FoundContent| {
            found.push(content.clone());
            ControlFlow::Continue(())
        };
        engine.contents().visit(None, &mut visit).await.unwrap();
        if let Some(dropped) = dropped {
            let FoundContent { content, owner } = &found[dropped];
            engine.contents().drop_contents(owner.space, &[content.id]).await.unwrap();
        }
        engine.close().await;
        found
    })
}

fn verify(data: &Path) -> std::process::Command {
    tavola(["verify", "--data", text(data)])
}

/// The extent that takes the most disk space, and where its data lies.
fn extent(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("store/content")).unwrap().map(|entry| entry.unwrap().path());
    files.max_by_key(|path| std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path).unwrap())).unwrap()
}

#[test]
fn a_content_that_is_missing_cut_or_changed_is_found_whichever_row_names_it() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    fill_with_blobs(&data);
    let said = succeed(verify(&data));
    assert!(said.contains(&format!("{CONTENTS} contents of blobs")), "{said}");
    assert!(said.contains(&format!("named {CONTENTS} times")), "{said}");

    for number in 0..CONTENTS {
        let harmed = root.path().join(format!("missing-{number}"));
        copy(&data, &harmed);
        let content = contents(&harmed, Some(number))[number].content;
        let said = fail(verify(&harmed));
        assert!(said.contains("1 problems"), "content {number}: {said}");
        let shown = common::run(verify(&harmed)).stdout;
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains(&format!("content {} is missing", content.id)), "{shown}");
    }

    let flipped = root.path().join("flipped");
    copy(&data, &flipped);
    let file = fs::File::options().read(true).write(true).open(extent(&flipped)).unwrap();
    // Extents have a header of a block, and regions begin behind it.
    let mut byte = [0];
    file.read_exact_at(&mut byte, 4096 + 100).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 4096 + 100).unwrap();
    let said = fail(verify(&flipped));
    assert!(said.contains("1 problems"), "{said}");

    let cut = root.path().join("cut");
    copy(&data, &cut);
    fs::File::options().write(true).open(extent(&cut)).unwrap().set_len(4096 + 1000).unwrap();
    fail(verify(&cut));
}
