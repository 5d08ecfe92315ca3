//! What is left of overwritten and deleted blobs and containers, where the settings ask for it.

use std::time::{Duration, Instant};

use crate::bench::{Bench, delete, get, put, put_blob};

/// A guard against a hang: on a shared store a name stays taken for half a minute.
const RESTORED_IN: Duration = Duration::from_secs(300);

#[test]
fn versions_are_listed_and_read_after_an_overwrite_and_a_delete() {
    let mut bench = Bench::start_with(&["--blob-versions", "on"]);
    let first = bench.expect(201, put_blob("/box/a", "one"));
    let version = first.header("x-ms-version-id").unwrap().to_owned();
    bench.expect(201, put_blob("/box/a", "two"));
    assert_eq!(bench.expect(200, get("/box/a")).text(), "two");
    bench.expect(202, delete("/box/a"));
    assert_eq!(bench.refused(404, get("/box/a")), "BlobNotFound");
    assert_eq!(bench.expect(200, get(&format!("/box/a?versionid={version}"))).text(), "one");
    let listed = bench.expect(200, get("/box?restype=container&comp=list&include=versions")).text();
    assert_eq!(listed.matches("<VersionId>").count(), 2, "{listed}");
    bench.expect(202, delete(&format!("/box/a?versionid={version}")));
    assert_eq!(bench.refused(404, get(&format!("/box/a?versionid={version}"))), "BlobNotFound");
}

#[test]
fn a_deleted_container_is_listed_and_restored_with_its_blobs() {
    let mut bench = Bench::start_with(&["--container-delete-retention-days", "1"]);
    bench.expect(201, put_blob("/box/a", "one"));
    bench.expect(202, delete("/box?restype=container"));
    // Where servers share a store, the name stays taken until none of them remembers the container.
    let gone = bench.send(&get("/box/a"));
    let code = gone.header("x-ms-error-code").unwrap_or_default();
    assert!(
        matches!((gone.status, code), (404, "ContainerNotFound") | (409, "ContainerBeingDeleted")),
        "{code}"
    );
    let listed = bench.expect(200, get("/?comp=list&include=deleted")).text();
    let version = listed.split_once("<Version>").and_then(|(_, rest)| rest.split_once("</Version>"));
    let (version, _) = version.unwrap_or_else(|| panic!("no version: {listed}"));
    let restore = put("/box?restype=container&comp=undelete", "")
        .with_header("x-ms-deleted-container-name", "box")
        .with_header("x-ms-deleted-container-version", version);
    let deadline = Instant::now() + RESTORED_IN;
    while bench.send(&restore).header("x-ms-error-code") == Some("ContainerBeingDeleted") {
        assert!(Instant::now() < deadline, "the name does not become free");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(bench.expect(200, get("/box/a")).text(), "one");
}
