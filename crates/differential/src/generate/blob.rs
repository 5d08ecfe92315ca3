//! Sequences about one container: blobs of every type are put, read, changed, leased, copied, listed and deleted.
//!
//! What is about the bytes of blobs is in `blob_contents.rs`.

use fastrand::Rng;
use http::Method;

use super::table::identifiers;
use super::{Call, blob_contents, percent, pick};

const CALLS_MIN: usize = 10;
const CALLS_MAX: usize = 22;

/// Ids of leases that clients propose.
const LEASES: [&str; 2] = ["0f3a4c5e-1111-4222-8333-444455556666", "0f3a4c5e-7777-4222-8333-444455556666"];
/// Blobs of a container. Their names say what they are mostly made as.
pub(super) const BLOBS: [&str; 5] = ["block", "dir/block", "append", "page", "missing"];

/// The calls of one sequence.
pub fn calls(rng: &mut Rng, number: u64) -> Vec<Call> {
    let container = format!("diff-{number}-c");
    let mut calls = vec![Call::new("Create Container", "", Method::PUT, of_container(&container, ""))];
    calls.extend(blob_contents::first_blobs(rng, &container));
    let count = rng.usize(CALLS_MIN..=CALLS_MAX);
    while calls.len() < count {
        let call = one(rng, &container);
        calls.push(call);
    }
    if percent(rng, 40) {
        calls.push(Call::new("Delete Container", "", Method::DELETE, of_container(&container, "")));
        let gone = "container that is gone";
        calls.push(Call::new("Get Container Properties", gone, Method::GET, of_container(&container, "")));
    }
    calls.into_iter().map(|call| call.header("x-ms-version", "2021-12-02")).collect()
}

fn one(rng: &mut Rng, container: &str) -> Call {
    match rng.u32(..100) {
        0..50 => blob_contents::one(rng, container),
        50..58 => properties(rng, container),
        58..66 => lease(rng, container),
        66..70 => lease_container(rng, container),
        70..76 => snapshot_or_delete(rng, container),
        76..82 => list(rng, container),
        82..87 => about_container(rng, container),
        87..92 => tags_and_tier(rng, container),
        92..96 => copy(rng, container),
        _ => odd(rng, container),
    }
}

pub(super) fn of_container(container: &str, further: &str) -> String {
    format!("/{container}?restype=container{further}")
}

/// A blob of the container, mostly one that is there.
pub(super) fn some_blob(rng: &mut Rng) -> &'static str {
    BLOBS[rng.usize(..BLOBS.len())]
}

/// A condition, which may or may not be met.
pub(super) fn with_condition(rng: &mut Rng, call: Call, blob: &str) -> Call {
    if !call.case.is_empty() || !percent(rng, 30) {
        return call;
    }
    let (case, name, value) = match rng.u32(..7) {
        0 => ("If-Match, last", "If-Match", format!("<<etag:{blob}>>")),
        1 => ("If-Match, first", "If-Match", format!("<<first-etag:{blob}>>")),
        2 => ("If-Match, any", "If-Match", "*".to_owned()),
        3 => ("If-None-Match, last", "If-None-Match", format!("<<etag:{blob}>>")),
        4 => ("If-None-Match, any", "If-None-Match", "*".to_owned()),
        5 => ("If-Unmodified-Since", "If-Unmodified-Since", "Wed, 01 Jan 2020 00:00:00 GMT".to_owned()),
        _ => ("If-Modified-Since", "If-Modified-Since", "Wed, 01 Jan 2020 00:00:00 GMT".to_owned()),
    };
    Call { case: case.to_owned(), ..call.header(name, value) }
}

fn properties(rng: &mut Rng, container: &str) -> Call {
    let blob = some_blob(rng);
    let target = format!("/{container}/{blob}");
    let call = match rng.u32(..6) {
        0 => Call::new("Set Blob Metadata", "", Method::PUT, format!("{target}?comp=metadata"))
            .header("x-ms-meta-colour", "blue"),
        1 => Call::new("Set Blob Metadata", "", Method::PUT, format!("{target}?comp=metadata")),
        2 => Call::new("Get Blob Metadata", "", Method::GET, format!("{target}?comp=metadata")),
        3 => Call::new("Set Blob Properties", "", Method::PUT, format!("{target}?comp=properties"))
            .header("x-ms-blob-content-type", "text/plain")
            .header("x-ms-blob-cache-control", "no-store"),
        _ => Call::new("Get Blob Properties", "", Method::HEAD, target),
    };
    with_condition(rng, call, blob).about(blob)
}

fn lease(rng: &mut Rng, container: &str) -> Call {
    let blob = *pick(rng, &["block", "append"]);
    let target = format!("/{container}/{blob}?comp=lease");
    lease_of(rng, "Lease Blob", target).about(blob)
}

fn lease_container(rng: &mut Rng, container: &str) -> Call {
    lease_of(rng, "Lease Container", of_container(container, "&comp=lease")).about(container)
}

fn lease_of(rng: &mut Rng, operation: &'static str, target: String) -> Call {
    let action = *pick(rng, &["acquire", "acquire", "renew", "change", "release", "break", "seize"]);
    let call = Call::new(operation, action, Method::PUT, target).header("x-ms-lease-action", action);
    let id = *pick(rng, &LEASES);
    match action {
        "acquire" => call
            .header("x-ms-proposed-lease-id", id)
            .header("x-ms-lease-duration", *pick(rng, &["-1", "60", "60", "5"])),
        "change" => call.header("x-ms-lease-id", LEASES[0]).header("x-ms-proposed-lease-id", LEASES[1]),
        "break" => call.header("x-ms-lease-break-period", "0"),
        _ => call.header("x-ms-lease-id", id),
    }
}

fn snapshot_or_delete(rng: &mut Rng, container: &str) -> Call {
    let blob = some_blob(rng);
    let target = format!("/{container}/{blob}");
    let delete = |case: &str, target: String| Call::new("Delete Blob", case, Method::DELETE, target);
    let call = match rng.u32(..8) {
        0..3 => Call::new("Snapshot Blob", "", Method::PUT, format!("{target}?comp=snapshot")),
        3 => Call::new("Get Blob", "snapshot", Method::GET, format!("{target}?snapshot=<<snapshot:{blob}>>")),
        4 => delete("snapshot", format!("{target}?snapshot=<<snapshot:{blob}>>")),
        5 => delete("with snapshots", target).header("x-ms-delete-snapshots", "include"),
        6 => delete("snapshots only", target).header("x-ms-delete-snapshots", "only"),
        _ => delete("", target),
    };
    with_condition(rng, call, blob).about(blob)
}

fn list(rng: &mut Rng, container: &str) -> Call {
    let (case, parameters) = *pick(
        rng,
        &[
            ("", ""),
            ("metadata", "&include=metadata"),
            ("snapshots", "&include=snapshots"),
            ("uncommitted", "&include=uncommittedblobs"),
            ("by hierarchy", "&delimiter=/"),
            ("prefix", "&prefix=dir/"),
            ("one result", "&maxresults=1"),
            ("0 results", "&maxresults=0"),
            ("results that are no number", "&maxresults=x"),
            ("include that is none", "&include=everything"),
        ],
    );
    Call::new("List Blobs", case, Method::GET, of_container(container, &format!("&comp=list{parameters}")))
}

fn about_container(rng: &mut Rng, container: &str) -> Call {
    let target = |further: &str| of_container(container, further);
    match rng.u32(..9) {
        0 => Call::new("Create Container", "container that is there", Method::PUT, target("")),
        1 => Call::new("Get Container Properties", "", Method::GET, target("")),
        2 => Call::new("Set Container Metadata", "", Method::PUT, target("&comp=metadata"))
            .header("x-ms-meta-colour", "red"),
        3 => Call::new("Get Container Metadata", "", Method::GET, target("&comp=metadata")),
        4 => Call::new("Get Container ACL", "", Method::GET, target("&comp=acl")),
        5 => Call::new("Set Container ACL", "", Method::PUT, target("&comp=acl"))
            .body("application/xml", identifiers(2, "rwd")),
        6 => Call::new("Set Container ACL", "six identifiers", Method::PUT, target("&comp=acl"))
            .body("application/xml", identifiers(6, "r")),
        7 => Call::new("Set Container ACL", "public", Method::PUT, target("&comp=acl"))
            .header("x-ms-blob-public-access", "blob"),
        _ => Call::new("List Containers", "", Method::GET, format!("/?comp=list&prefix={container}")),
    }
}

fn tags_and_tier(rng: &mut Rng, container: &str) -> Call {
    let blob = *pick(rng, &["block", "dir/block", "missing"]);
    let tags = format!("/{container}/{blob}?comp=tags");
    let tier = |case: &str, tier: &str| {
        Call::new("Set Blob Tier", case, Method::PUT, format!("/{container}/{blob}?comp=tier"))
            .header("x-ms-access-tier", tier)
    };
    match rng.u32(..6) {
        0 | 1 => Call::new("Set Blob Tags", "", Method::PUT, tags).body(
            "application/xml",
            "<Tags><TagSet><Tag><Key>kind</Key><Value>letter</Value></Tag></TagSet></Tags>",
        ),
        2 | 3 => Call::new("Get Blob Tags", "", Method::GET, tags),
        4 => {
            let chosen = *pick(rng, &["Hot", "Cool"]);
            tier("", chosen)
        }
        _ => tier("tier that is none", "Lukewarm"),
    }
}

fn copy(rng: &mut Rng, container: &str) -> Call {
    let source = *pick(rng, &["block", "append", "missing"]);
    let call = Call::new("Copy Blob", source, Method::PUT, format!("/{container}/copy"))
        .header("x-ms-copy-source", format!("<<base>>/{container}/{source}"));
    if percent(rng, 30) {
        return Call::new("Get Blob", "copy", Method::GET, format!("/{container}/copy")).about("copy");
    }
    call.about("copy")
}

fn odd(rng: &mut Rng, container: &str) -> Call {
    let put = |case: &str, target: String| {
        Call::new("Put Blob", case, Method::PUT, target)
            .header("x-ms-blob-type", "BlockBlob")
            .body("text/plain", "some text")
    };
    let create =
        |case: &str, name: &str| Call::new("Create Container", case, Method::PUT, of_container(name, ""));
    match rng.u32(..10) {
        0 => put("container that is not there", "/nowhere/blob".to_owned()),
        1 => Call::new("Get Blob", "container that is not there", Method::GET, "/nowhere/blob"),
        2 => Call::new(
            "List Blobs",
            "container that is not there",
            Method::GET,
            "/nowhere?restype=container&comp=list",
        ),
        3 => create("name with a capital", "Diff-x"),
        4 => create("name that is too short", "ab"),
        5 => create("name with two dashes", "diff--x"),
        6 => put("MD5 of another body", format!("/{container}/odd"))
            .header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="),
        7 => put("MD5 that is none", format!("/{container}/odd")).header("Content-MD5", "x"),
        8 => Call::new("Put Blob", "no type", Method::PUT, format!("/{container}/odd"))
            .body("text/plain", "some text"),
        _ => Call::new("Put Blob", "type that is none", Method::PUT, format!("/{container}/odd"))
            .header("x-ms-blob-type", "StickyBlob")
            .body("text/plain", "some text"),
    }
}
