//! Calls about the bytes of blobs: put, read in ranges, staged and committed, appended, written as pages.

use fastrand::Rng;
use http::Method;

use super::blob::{some_blob, with_condition};
use super::{Call, percent, pick};

const TEXTS: [&str; 4] = ["", "plain", "a text of some length", "ünï ☃"];
/// Four pages.
const PAGE_BLOB_BYTES: &str = "2048";

/// What most sequences begin with: a blob of each type.
pub fn first_blobs(rng: &mut Rng, container: &str) -> Vec<Call> {
    let mut calls = vec![put(rng, container, "block")];
    if percent(rng, 60) {
        calls.push(put(rng, container, "dir/block"));
    }
    if percent(rng, 60) {
        calls.push(create(container, "append", "AppendBlob"));
    }
    if percent(rng, 60) {
        calls.push(create(container, "page", "PageBlob"));
    }
    calls
}

/// One call about bytes.
pub fn one(rng: &mut Rng, container: &str) -> Call {
    match rng.u32(..100) {
        0..18 => {
            let blob = *pick(rng, &["block", "dir/block"]);
            let call = put(rng, container, blob);
            with_condition(rng, call, blob)
        }
        18..46 => get(rng, container),
        46..64 => blocks(rng, container),
        64..80 => append(rng, container),
        _ => pages(rng, container),
    }
}

fn put(rng: &mut Rng, container: &str, blob: &str) -> Call {
    let call = Call::new("Put Blob", "", Method::PUT, format!("/{container}/{blob}"))
        .header("x-ms-blob-type", "BlockBlob")
        .body("application/octet-stream", *pick(rng, &TEXTS));
    let call = if percent(rng, 30) { call.header("x-ms-meta-size", "7") } else { call };
    call.about(blob)
}

fn create(container: &str, blob: &str, kind: &str) -> Call {
    let case = if kind == "PageBlob" { "page blob" } else { "append blob" };
    let call = Call::new("Put Blob", case, Method::PUT, format!("/{container}/{blob}"))
        .header("x-ms-blob-type", kind);
    let call =
        if kind == "PageBlob" { call.header("x-ms-blob-content-length", PAGE_BLOB_BYTES) } else { call };
    call.about(blob)
}

fn get(rng: &mut Rng, container: &str) -> Call {
    let blob = some_blob(rng);
    let call = |case: &str| Call::new("Get Blob", case, Method::GET, format!("/{container}/{blob}"));
    if percent(rng, 40) {
        // A range without a first byte, such as `bytes=-3`, ends the emulator's process.
        let (case, range) = *pick(
            rng,
            &[
                ("range", "bytes=0-1"),
                ("range to the end", "bytes=2-"),
                ("range behind the end", "bytes=5000-6000"),
            ],
        );
        return call(case).header("x-ms-range", range).about(blob);
    }
    with_condition(rng, call(""), blob).about(blob)
}

fn blocks(rng: &mut Rng, container: &str) -> Call {
    let blob = *pick(rng, &["block", "staged", "append"]);
    let case = if blob == "append" { "append blob" } else { "" };
    let target = format!("/{container}/{blob}");
    match rng.u32(..10) {
        0..4 => {
            let id = *pick(rng, &["AAAA", "AAAB", "AAAC"]);
            Call::new("Put Block", case, Method::PUT, format!("{target}?comp=block&blockid={id}"))
                .body("application/octet-stream", format!("block {id} "))
                .about(blob)
        }
        4 => Call::new("Put Block", "id that is none", Method::PUT, format!("{target}?comp=block&blockid=!"))
            .body("application/octet-stream", "text")
            .about(blob),
        5..8 => {
            let list = *pick(
                rng,
                &[
                    "<Latest>AAAA</Latest>",
                    "<Latest>AAAA</Latest><Latest>AAAB</Latest>",
                    "<Uncommitted>AAAC</Uncommitted>",
                    "<Committed>AAAA</Committed>",
                ],
            );
            let body = format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{list}</BlockList>");
            let call = Call::new("Put Block List", case, Method::PUT, format!("{target}?comp=blocklist"))
                .body("application/xml", body);
            with_condition(rng, call, blob).about(blob)
        }
        _ => {
            let kind = *pick(rng, &["committed", "uncommitted", "all"]);
            let target = format!("{target}?comp=blocklist&blocklisttype={kind}");
            Call::new("Get Block List", case, Method::GET, target).about(blob)
        }
    }
}

fn append(rng: &mut Rng, container: &str) -> Call {
    let blob = *pick(rng, &["append", "append", "append", "block", "missing"]);
    let case = if blob == "block" { "block blob" } else { "" };
    let call = Call::new("Append Block", case, Method::PUT, format!("/{container}/{blob}?comp=appendblock"))
        .body("application/octet-stream", "appended ");
    let call = match rng.u32(..8) {
        0 => Call { case: format!("{case} at 0"), ..call.header("x-ms-blob-condition-appendpos", "0") },
        1 => Call { case: format!("{case} up to 20"), ..call.header("x-ms-blob-condition-maxsize", "20") },
        _ => with_condition(rng, call, blob),
    };
    call.about(blob)
}

fn pages(rng: &mut Rng, container: &str) -> Call {
    let target = format!("/{container}/page");
    let (case, range) = *pick(
        rng,
        &[
            ("", "bytes=0-511"),
            ("", "bytes=512-1023"),
            ("two", "bytes=512-1535"),
            ("behind the end", "bytes=2048-2559"),
            ("not aligned", "bytes=1-512"),
        ],
    );
    let write = |action: &str| {
        Call::new("Put Page", format!("{action} {case}"), Method::PUT, format!("{target}?comp=page"))
            .header("x-ms-page-write", action)
            .header("x-ms-range", range)
            .about("page")
    };
    match rng.u32(..10) {
        0..4 => {
            let length = if case == "two" { 1024 } else { 512 };
            write("update").body("application/octet-stream", "p".repeat(length))
        }
        4..6 => write("clear"),
        6..9 => {
            Call::new("Get Page Ranges", "", Method::GET, format!("{target}?comp=pagelist")).about("page")
        }
        _ => Call::new("Set Blob Properties", "resize", Method::PUT, format!("{target}?comp=properties"))
            .header("x-ms-blob-content-length", *pick(rng, &["1024", "4096"]))
            .about("page"),
    }
}
