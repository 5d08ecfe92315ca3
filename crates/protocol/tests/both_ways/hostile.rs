//! No answer makes a reader panic, whatever its status, headers and body.

use http::{HeaderMap, StatusCode};
use proptest::prelude::*;
use tavola_protocol::{Answer, account, blob, queue, table};

fn read_all(answer: &Answer<'_>) {
    let _ = table::tables_queried(answer);
    let _ = table::table_fetched(answer);
    let _ = table::table_acl_fetched(answer);
    let _ = table::entity_fetched(answer).map(|entity| entity.to_stored());
    let _ = table::entities_queried(answer);
    let _ = table::entity_written(answer).map(|written| written.timestamp());
    let _ = table::entity_inserted(answer);
    let _ = table::entities_transacted(answer, 2);
    let _ = queue::queues_listed(answer);
    let _ = queue::queue_metadata_fetched(answer);
    let _ = queue::message_put(answer);
    let _ = queue::messages_got(answer);
    let _ = queue::messages_peeked(answer);
    let _ = queue::message_updated(answer);
    let _ = blob::blobs_listed(answer);
    let _ = blob::containers_listed(answer);
    let _ = blob::blob_fetched(answer);
    let _ = blob::block_list_fetched(answer);
    let _ = blob::block_appended(answer);
    let _ = blob::lease_held(answer);
    let _ = blob::copy_started(answer);
    let _ = blob::container_fetched(answer);
    let _ = account::service_properties_fetched(answer);
    let _ = account::service_stats_fetched(answer);
    let _ = answer.refusal();
}

/// Pieces of which real answers are made, in no order.
const PIECES: [&str; 28] = [
    "{",
    "}",
    "\"value\":[",
    "]",
    "\"odata.error\":{\"code\":",
    "\"a@odata.type\":\"Edm.Int64\",",
    "\"a\":\"\\ud800\"",
    "null,",
    "<feed>",
    "<entry m:etag=\"&quot;\">",
    "</entry>",
    "<m:properties>",
    "</m:properties>",
    "<d:a m:type=\"Edm.Double\">",
    "&#x0;",
    "&unknown;",
    "<![CDATA[",
    "--b\r\n",
    "--b--",
    "Content-Type: multipart/mixed; boundary=c\r\n\r\n",
    "--c\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "<QueueMessagesList><QueueMessage>",
    "<EnumerationResults><Blobs><Blob><Name Encoded=\"true\">%FF%2",
    "</Name><Properties><BlobType>PageBlob</BlobType><Content-Length>",
    "</Content-Length></Properties></Blob></Blobs></EnumerationResults>",
    "<BlockList><CommittedBlocks><Block><Name>MQ==</Name><Size>",
    "\u{FEFF}",
];

proptest! {
    #[test]
    fn any_bytes(
        status in prop::sample::select(vec![200u16, 201, 202, 204, 304, 400, 404, 500]),
        body in prop::collection::vec(any::<u8>(), 0..200),
        etag in "[ -~]{0,40}",
    ) {
        check(status, &body, &etag);
    }

    #[test]
    fn any_pieces(
        status in prop::sample::select(vec![200u16, 201, 202, 409]),
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..20),
        etag in "W/\"datetime'[0-9:%A-Z.-]{0,30}'\"",
    ) {
        check(status, pieces.concat().as_bytes(), &etag);
    }
}

fn check(status: u16, body: &[u8], etag: &str) {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "multipart/mixed; boundary=b".parse().unwrap());
    for name in [
        "etag",
        "date",
        "x-ms-popreceipt",
        "x-ms-time-next-visible",
        "x-ms-approximate-messages-count",
        "content-range",
        "x-ms-content-crc64",
    ] {
        headers.insert(name, etag.parse().unwrap());
    }
    read_all(&Answer { status: StatusCode::from_u16(status).unwrap(), headers: &headers, body });
}

#[test]
fn deep_and_wide_documents_cost_no_stack() {
    let deep = |open: &str| open.repeat(100_000);
    for body in
        [deep("{\"a\":"), deep("["), deep("<a>"), deep("<feed>"), deep("--b\r\n"), deep("\"value\":[")]
    {
        check(200, body.as_bytes(), "x");
        check(202, body.as_bytes(), "x");
        check(500, body.as_bytes(), "x");
    }
}
