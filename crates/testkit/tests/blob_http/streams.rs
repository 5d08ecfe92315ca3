//! Contents on their way: large ones, ranges of them, and clients that go away.

use http::Method;
use tavola_testkit::Connection;

use crate::bench::{Bench, bytes, get, put, put_blob, request};

const MIB: usize = 1024 * 1024;

#[test]
fn a_large_blob_comes_back_whole_and_in_ranges() {
    let mut bench = Bench::start();
    let body = bytes(7, 20 * MIB + 13);
    let written = bench.expect(201, put_blob("/box/large", body.clone()));
    assert!(written.header("Content-MD5").is_some() && written.header("x-ms-content-crc64").is_some());
    let found = bench.expect(200, get("/box/large"));
    assert!(found.body == body, "the content differs");
    assert_eq!(found.header("Content-MD5"), written.header("Content-MD5"));
    let range = get("/box/large").with_header("x-ms-range", "bytes=5000000-9000000");
    let part = bench.expect(206, range.with_header("x-ms-range-get-content-md5", "true"));
    assert!(part.body == body[5_000_000..=9_000_000], "the range differs");
    let head = bench.expect(200, request(Method::HEAD, "/box/large"));
    assert_eq!(head.header("Content-Length"), Some(body.len().to_string().as_str()));
}

#[test]
fn blocks_that_come_in_parallel_are_one_blob() {
    let mut bench = Bench::start();
    let body = bytes(9, 12 * MIB);
    let endpoint = bench.server.blob_endpoint().to_owned();
    std::thread::scope(|scope| {
        for (number, block) in body.chunks(MIB).enumerate() {
            let endpoint = &endpoint;
            scope.spawn(move || {
                let mut connection = Connection::open_blob(endpoint).unwrap();
                let id = format!("{:02}AA", number);
                let target = format!("/box/parallel?comp=block&blockid={id}");
                let response = connection.send(&put(&target, block)).unwrap();
                assert_eq!(response.status, 201, "{}", response.text());
            });
        }
    });
    let ids: String = (0..12).map(|number| format!("<Latest>{number:02}AA</Latest>")).collect();
    bench.expect(201, put("/box/parallel?comp=blocklist", format!("<BlockList>{ids}</BlockList>")));
    let found = bench.expect(200, get("/box/parallel"));
    assert!(found.body == body, "the content differs");
}

/// As azcopy and the clients of the service do it: start the copy, then ask until it has ended.
#[test]
fn a_large_blob_is_copied_behind_the_answer() {
    let mut bench = Bench::start();
    let body = bytes(5, 65 * MIB);
    bench.expect(201, put_blob("/box/large", body.clone()));
    let source = format!("{}/box/large", bench.server.blob_endpoint());
    let started = bench.expect(202, put("/box/copy", "").with_header("x-ms-copy-source", source));
    assert_eq!(started.header("x-ms-copy-status"), Some("pending"));
    let id = started.header("x-ms-copy-id").unwrap().to_owned();
    let ended = loop {
        let shown = bench.expect(200, request(Method::HEAD, "/box/copy"));
        assert_eq!(shown.header("x-ms-copy-id"), Some(id.as_str()));
        match shown.header("x-ms-copy-status") {
            Some("pending") => std::thread::sleep(std::time::Duration::from_millis(20)),
            _ => break shown,
        }
    };
    let length = body.len();
    assert_eq!(ended.header("x-ms-copy-status"), Some("success"), "{ended:?}");
    assert_eq!(ended.header("x-ms-copy-progress"), Some(format!("{length}/{length}").as_str()));
    assert!(bench.expect(200, get("/box/copy")).body == body, "the copy differs");
    let abort = put(&format!("/box/copy?comp=copy&copyid={id}"), "").with_header("x-ms-copy-action", "abort");
    assert_eq!(bench.refused(409, abort), "NoPendingCopyOperation");
}

#[test]
fn clients_that_go_away_change_nothing_and_keep_nobody_from_writing() {
    let mut bench = Bench::start();
    bench.expect(201, put_blob("/box/cut", "old"));
    let body = bytes(3, MIB);
    for number in 0..100 {
        let connection = Connection::open_blob(bench.server.blob_endpoint()).unwrap();
        let whole = connection.signed(&put_blob("/box/cut", body.clone())).unwrap();
        // From the first byte of the body to the last but one.
        let cut = whole.len() - 1 - (number * 7919) % (body.len() - 1);
        connection.send_and_leave(&whole[..cut]).unwrap();
    }
    assert_eq!(bench.expect(200, get("/box/cut")).text(), "old");
    let fresh = bytes(4, 3 * MIB);
    bench.expect(201, put_blob("/box/cut", fresh.clone()));
    assert!(bench.expect(200, get("/box/cut")).body == fresh, "the content differs");
}

#[test]
fn a_refused_upload_is_refused_before_its_bytes_are_sent() {
    let mut bench = Bench::start();
    let mut asking = put_blob("/missing/blob", bytes(1, MIB)).with_header("Expect", "100-continue");
    let bytes = bench.connection.signed(&asking).unwrap();
    let head = bytes.len() - asking.body.len();
    let refused = bench.connection.send_raw(&bytes[..head], &Method::PUT).unwrap();
    assert_eq!(refused.status, 404, "{}", refused.text());
    asking.target = "/box/blob".to_owned();
    asking.headers.retain(|(name, _)| *name != "Expect");
    let mut connection = Connection::open_blob(bench.server.blob_endpoint()).unwrap();
    assert_eq!(connection.send(&asking).unwrap().status, 201);
}
