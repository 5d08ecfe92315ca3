//! The sequences of calls of popular tools.

use http::Method;

use crate::bench::{Bench, delete, get, lease, put, put_blob, request};

const ID: &str = "0f3a4c5e-1111-4222-8333-444455556666";
const OTHER: &str = "0f3a4c5e-7777-4222-8333-444455556666";

/// Terraform keeps its state in a blob and locks it with an infinite lease.
#[test]
fn terraform_locks_its_state_writes_it_and_lets_it_go() {
    let mut bench = Bench::start();
    let state = "/box/prod.tfstate";
    assert_eq!(bench.refused(404, get(state)), "BlobNotFound");
    bench.expect(201, put_blob(state, ""));
    let acquire = lease(&format!("{state}?comp=lease"), "acquire")
        .with_header("x-ms-lease-duration", "-1")
        .with_header("x-ms-proposed-lease-id", ID);
    let acquired = bench.expect(201, acquire.clone());
    assert_eq!(acquired.header("x-ms-lease-id"), Some(ID));
    let second = acquire.with_header("x-ms-proposed-lease-id", OTHER);
    assert_eq!(bench.refused(409, second), "LeaseAlreadyPresent");
    let lock = put(&format!("{state}?comp=metadata"), "")
        .with_header("x-ms-meta-terraformlockid", "bG9jaw==")
        .with_header("x-ms-lease-id", ID);
    bench.expect(200, lock);
    assert_eq!(bench.refused(412, put_blob(state, "{}")), "LeaseIdMissing");
    bench.expect(201, put(&format!("{state}?comp=snapshot"), ""));
    bench.expect(201, put_blob(state, "{\"serial\":1}").with_header("x-ms-lease-id", ID));
    let release = lease(&format!("{state}?comp=lease"), "release").with_header("x-ms-lease-id", ID);
    bench.expect(200, release);
    let found = bench.expect(200, get(state));
    assert_eq!(found.text(), "{\"serial\":1}");
    assert_eq!(found.header("x-ms-lease-state"), Some("available"));
    assert_eq!(bench.refused(409, delete(state)), "SnapshotsPresent");
    bench.expect(202, delete(state).with_header("x-ms-delete-snapshots", "include"));
}

/// Orleans writes grains under ETags and makes the container when it is missing.
#[test]
fn orleans_writes_under_etags_and_makes_what_is_missing() {
    let mut bench = Bench::start();
    assert_eq!(bench.refused(404, put_blob("/grains/a", "1")), "ContainerNotFound");
    bench.expect(201, put("/grains?restype=container", ""));
    let first = bench.expect(201, put_blob("/grains/a", "1").with_header("If-None-Match", "*"));
    let again = put_blob("/grains/a", "2").with_header("If-None-Match", "*");
    assert_eq!(bench.refused(409, again), "BlobAlreadyExists");
    let etag = first.header("ETag").unwrap().to_owned();
    bench.expect(201, put_blob("/grains/a", "2").with_header("If-Match", etag.clone()));
    let stale = put_blob("/grains/a", "3").with_header("If-Match", etag.clone());
    assert_eq!(bench.refused(412, stale), "ConditionNotMet");
    assert_eq!(bench.refused(412, delete("/grains/a").with_header("If-Match", etag)), "ConditionNotMet");
    let etag = bench.expect(200, get("/grains/a")).header("ETag").unwrap().to_owned();
    bench.expect(202, delete("/grains/a").with_header("If-Match", etag));
}

/// Durable Task and the Functions host share work by leases on blobs of a container that they lease too.
#[test]
fn workers_share_partitions_by_leases() {
    let mut bench = Bench::start();
    let container = "/box?restype=container&comp=lease";
    let acquire = |target: &str, id: &str| {
        lease(target, "acquire")
            .with_header("x-ms-lease-duration", "30")
            .with_header("x-ms-proposed-lease-id", id)
    };
    bench.expect(201, acquire(container, ID));
    assert_eq!(bench.refused(412, delete("/box?restype=container")), "LeaseIdMissing");
    for name in ["hub-0", "hub-1"] {
        let blob = put_blob(&format!("/box/{name}"), "").with_header("If-None-Match", "*");
        bench.expect(201, blob.with_header("x-ms-meta-owner", name));
    }
    let partition = "/box/hub-0?comp=lease";
    bench.expect(201, acquire(partition, ID));
    assert_eq!(bench.refused(409, acquire(partition, OTHER)), "LeaseAlreadyPresent");
    bench.expect(200, lease(partition, "renew").with_header("x-ms-lease-id", ID));
    let change = lease(partition, "change").with_header("x-ms-lease-id", ID);
    bench.expect(200, change.with_header("x-ms-proposed-lease-id", OTHER));
    let lost = lease(partition, "renew").with_header("x-ms-lease-id", ID);
    assert_eq!(bench.refused(409, lost), "LeaseIdMismatchWithLeaseOperation");
    let listed =
        bench.expect(200, get("/box?restype=container&comp=list&prefix=hub-&include=metadata")).text();
    assert!(listed.contains("<Name>hub-0</Name>") && listed.contains("<owner>hub-1</owner>"), "{listed}");
    assert!(listed.contains("<LeaseState>leased</LeaseState>"), "{listed}");
    bench.expect(202, lease(partition, "break").with_header("x-ms-lease-break-period", "0"));
    bench.expect(202, delete("/box/hub-0"));
}

/// object_store and Storage Explorer delete by batches; azcopy and rclone copy by address.
#[test]
fn blobs_are_copied_by_address_and_deleted_by_batch() {
    let mut bench = Bench::start();
    let endpoint = bench.server.blob_endpoint().to_owned();
    for name in ["a", "b"] {
        bench.expect(201, put_blob(&format!("/box/{name}"), name).with_header("x-ms-tags", "kind=letter"));
    }
    let copy = put("/box/copy", "").with_header("x-ms-copy-source", format!("{endpoint}/box/a"));
    let copied = bench.expect(202, copy.clone());
    assert_eq!(copied.header("x-ms-copy-status"), Some("success"));
    assert_eq!(bench.expect(200, get("/box/copy")).text(), "a");
    let sync = copy.clone().with_header("x-ms-requires-sync", "true");
    assert_eq!(bench.refused(401, sync.clone()), "CannotVerifyCopySource", "the source has no credentials");
    bench.expect(
        200,
        put("/box?restype=container&comp=acl", "").with_header("x-ms-blob-public-access", "blob"),
    );
    bench.expect(202, sync);
    let foreign = put("/box/copy", "").with_header("x-ms-copy-source", "http://other.example/account/box/a");
    assert_eq!(bench.refused(404, foreign), "CannotVerifyCopySource", "no request leaves the server");

    let part = |number: usize, name: &str| {
        let inner = request(Method::DELETE, &format!("/box/{name}"));
        let signed = String::from_utf8(bench.connection.signed(&inner).unwrap()).unwrap();
        format!(
            "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: {number}\r\n\r\n{signed}\r\n"
        )
    };
    let parts = [part(0, "a"), part(1, "missing"), part(2, "b")].concat();
    let mut batch = request(Method::POST, "/?comp=batch");
    batch.body = format!("{parts}--batch_1--\r\n").into_bytes();
    let answer = bench.expect(202, batch.with_header("Content-Type", "multipart/mixed; boundary=batch_1"));
    let text = answer.text();
    assert_eq!(text.matches("HTTP/1.1 202").count(), 2, "{text}");
    assert_eq!(text.matches("HTTP/1.1 404").count(), 1, "{text}");
    assert_eq!(bench.refused(404, get("/box/b")), "BlobNotFound");
    let found = bench.expect(200, get("/?comp=blobs&where=kind%3D%27letter%27")).text();
    assert!(!found.contains("<Name>"), "what is deleted is not found: {found}");
}

/// An account says what version requests mean that name none.
#[test]
fn a_request_without_a_version_is_taken_for_one_of_the_default_version() {
    let mut bench = Bench::start();
    bench.expect(201, put_blob("/box/blob", "text"));
    let unversioned = |bench: &mut Bench| {
        let mut request = get("/box/blob");
        request.headers.retain(|(name, _)| *name != "x-ms-version");
        let found = bench.expect(200, request);
        found.header("x-ms-version").map(str::to_owned)
    };
    assert_eq!(unversioned(&mut bench).as_deref(), Some("2019-02-02"));
    let properties = "<StorageServiceProperties><DefaultServiceVersion>2015-07-08</DefaultServiceVersion></StorageServiceProperties>";
    bench.expect(202, put("/?restype=service&comp=properties", properties));
    assert_eq!(unversioned(&mut bench).as_deref(), Some("2015-07-08"));
    let named = bench.expect(200, get("/box/blob"));
    assert_eq!(named.header("x-ms-version"), Some("2021-12-02"), "what a request names counts");
}

/// Anybody may read what is public, and nothing else.
#[test]
fn what_is_public_is_read_without_credentials() {
    let mut bench = Bench::start();
    bench.expect(201, put_blob("/box/page.html", "hello").with_header("x-ms-blob-content-type", "text/html"));
    let mut anonymous = |target: &str| {
        let path = format!("/devstoreaccount1{target}");
        let bytes = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: 2021-12-02\r\n\r\n");
        bench.connection.send_raw(bytes.as_bytes(), &Method::GET).unwrap()
    };
    assert_eq!(anonymous("/box/page.html").status, 401);
    bench.expect(
        200,
        put("/box?restype=container&comp=acl", "").with_header("x-ms-blob-public-access", "blob"),
    );
    let mut anonymous = |target: &str| {
        let path = format!("/devstoreaccount1{target}");
        let bytes = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: 2021-12-02\r\n\r\n");
        bench.connection.send_raw(bytes.as_bytes(), &Method::GET).unwrap()
    };
    let page = anonymous("/box/page.html");
    assert_eq!((page.status, page.header("Content-Type")), (200, Some("text/html")));
    assert_eq!(page.text(), "hello");
    assert_eq!(anonymous("/box?restype=container&comp=list").status, 401);
}
