//! Batches: boundaries, parts, and what goes together.

use tavola_testkit::Request;

use crate::case::{BAD_SYNTAX, Case, INVALID, case, post};

pub fn cases() -> Vec<Case> {
    [framing(), parts(), together()].into_iter().flatten().collect()
}

fn batch(content_type: &str, body: impl Into<Vec<u8>>) -> Request {
    post("/$batch", body).with_header("Content-Type", content_type)
}

fn mixed(body: impl Into<Vec<u8>>) -> Request {
    batch("multipart/mixed; boundary=batch_1", body)
}

const PART_HEAD: &str = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";

/// A change set of these requests, in a batch.
fn change_set(requests: &[String]) -> Request {
    let parts: String =
        requests.iter().map(|request| format!("--set_1\r\n{PART_HEAD}{request}\r\n")).collect();
    mixed(format!(
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=set_1\r\n\r\n{parts}--set_1--\r\n--batch_1--\r\n"
    ))
}

fn operation(line: &str, headers: &str, body: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n{headers}\r\n{body}"
    )
}

fn insert(partition: &str, row: &str) -> String {
    operation(
        "POST /devstoreaccount1/Seeded",
        "",
        &format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#),
    )
}

fn framing() -> Vec<Case> {
    let set_text = format!("--set_1\r\n{PART_HEAD}{}\r\n--set_1--\r\n", insert("x", "x"));
    let part = format!("--batch_1\r\nContent-Type: multipart/mixed; boundary=set_1\r\n\r\n{set_text}");
    let two_sets = mixed(format!("{part}{part}--batch_1--\r\n"));
    let bare_set = mixed(set_text);
    let set = |head: &str| mixed(format!("--batch_1\r\n{head}\r\n\r\n--set_1--\r\n--batch_1--\r\n"));
    vec![
        case("a batch of JSON", batch("application/json", "{}")).refused(415, "MediaTypeNotSupported"),
        case("a batch of parts that are not mixed", batch("multipart/form-data; boundary=b", ""))
            .refused(415, "MediaTypeNotSupported"),
        case("a batch without a boundary", batch("multipart/mixed", "--b--")).refused(400, "InvalidInput"),
        case("a batch with an empty boundary", batch("multipart/mixed; boundary=", "--b--"))
            .refused(400, "InvalidInput"),
        case("a batch of nothing", mixed("")).finds_no_parts(),
        case("a batch that only ends", mixed("--batch_1--\r\n")).finds_no_parts(),
        case("a batch with another boundary", mixed("--other\r\n\r\n--other--\r\n")).finds_no_parts(),
        case("a change set in place of a batch", bare_set).finds_no_parts(),
        // Recorded: such a batch is accepted and its change set has no parts.
        case("a change set of nothing", change_set(&[])).finds_no_parts(),
        case("a change set without a boundary", set("Content-Type: multipart/mixed"))
            .refused(400, "InvalidInput"),
        case("a part without a colon in its head", set("Content-Type")).refused(400, "InvalidInput"),
        case(
            "a part that is empty",
            mixed("--batch_1\r\nContent-Type: application/http\r\n\r\n\r\n--batch_1--"),
        )
        .refused(400, "InvalidInput"),
        case("two change sets", two_sets).refused(400, "InvalidInput"),
        case("a batch of more than 4 MiB", mixed(vec![b'-'; 4 * 1024 * 1024 + 1]))
            .refused(413, "RequestBodyTooLarge"),
        case("a batch of line ends", mixed(vec![b'\n'; 1024 * 1024])).finds_no_parts(),
        case("a batch of boundaries", mixed("--batch_1\r\n".repeat(100_000))).refused(400, "InvalidInput"),
        case(
            "a batch of bytes that are no text",
            mixed(b"--batch_1\r\n\xFF\xFE: x\r\n\r\n--batch_1--".to_vec()),
        )
        .refused(400, "InvalidInput"),
    ]
}

fn parts() -> Vec<Case> {
    let one = |name, request: String| case(name, change_set(&[request]));
    let line = |line: &str| operation(line, "", r#"{"PartitionKey":"x","RowKey":"x"}"#);
    let alone = |request: &str| mixed(format!("--batch_1\r\n{PART_HEAD}{request}\r\n--batch_1--\r\n"));
    let query = |target: &str| {
        alone(&format!("GET /devstoreaccount1/{target} HTTP/1.1\r\nAccept: application/json\r\n\r\n"))
    };
    vec![
        one("an operation without a protocol", "POST /devstoreaccount1/Seeded\r\n\r\n{}".into())
            .refused(400, "InvalidInput"),
        one("an operation without a path", "POST HTTP/1.1\r\n\r\n{}".into()).refused(400, "InvalidInput"),
        one("an operation that is no request", "hello".into()).refused(400, "InvalidInput"),
        one(
            "an operation with a header without a colon",
            "POST /devstoreaccount1/Seeded HTTP/1.1\r\nnonsense\r\n\r\n{}".into(),
        )
        .refused(400, "InvalidInput"),
        one("an operation with a bad verb", "P[]ST /devstoreaccount1/Seeded HTTP/1.1\r\n\r\n{}".into())
            .refused(400, "InvalidInput"),
        one("an unknown verb in a change set", line("BREW /devstoreaccount1/Seeded"))
            .part_refused(400, "InvalidHttpVerb"),
        one("the service itself in a change set", line("POST /devstoreaccount1/"))
            .part_refused(405, "MethodNotAllowed")
            .saying("0:The requested method is not allowed on the specified resource."),
        one("a change set in a change set", line("POST /devstoreaccount1/$batch"))
            .part_refused(405, "MethodNotAllowed"),
        one(
            "a query in a change set",
            operation("GET /devstoreaccount1/Seeded(PartitionKey='p',RowKey='1')", "", ""),
        )
        .part_refused(405, "MethodNotAllowed"),
        one(
            "a new table in a change set",
            operation("POST /devstoreaccount1/Tables", "", r#"{"TableName":"Fresh"}"#),
        )
        .part_refused(405, "MethodNotAllowed"),
        one("another account in a change set", line("POST http://127.0.0.1/otheraccount/Seeded"))
            .part_refused(400, "InvalidInput"),
        one("a missing table in a change set", line("POST /devstoreaccount1/Missing"))
            .part_refused(404, "TableNotFound")
            .saying("0:The table specified does not exist."),
        one("a table of two letters in a change set", line("POST /devstoreaccount1/aa"))
            .part_refused(400, "OutOfRangeInput")
            .saying("0:The specified resource name length is not within the permissible limits."),
        one("a table with a dash in a change set", line("POST /devstoreaccount1/my-table"))
            .part_refused(400, "InvalidResourceName")
            .saying("0:The specifed resource name contains invalid characters."),
        one(
            "a predicate that does not close in a change set",
            line("PUT /devstoreaccount1/Seeded(PartitionKey='x'"),
        )
        .part_refused(400, "InvalidInput")
        .saying(format!("0:{BAD_SYNTAX}")),
        one(
            "a body that cannot be read in a change set",
            operation("POST /devstoreaccount1/Seeded", "", "{"),
        )
        .part_refused(400, "InvalidInput")
        .saying("0:An error occurred while processing this request."),
        one(
            "an empty etag in a change set",
            operation("DELETE /devstoreaccount1/Seeded(PartitionKey='p',RowKey='1')", "If-Match: \r\n", ""),
        )
        .part_refused(400, "InvalidInput")
        .saying(format!("0:{INVALID}")),
        one(
            "a delete without an etag in a change set",
            operation("DELETE /devstoreaccount1/Seeded(PartitionKey='p',RowKey='1')", "", ""),
        )
        .part_refused(400, "MissingRequiredHeader"),
        one("an entity that exists in a change set", insert("p", "1"))
            .part_refused(409, "EntityAlreadyExists")
            .saying("The specified entity already exists."),
        case("a write outside a change set", alone(&insert("x", "x"))).part_refused(400, "InvalidInput"),
        case("a query of a missing table in a batch", query("Missing()")).part_refused(404, "TableNotFound"),
        case("a bad filter in a batch", query("Seeded()?$filter=aaa%20bbb%20ccc"))
            .part_refused(400, "InvalidInput"),
    ]
}

fn together() -> Vec<Case> {
    let many: Vec<String> = (0..101).map(|row| insert("x", &row.to_string())).collect();
    let delete = |row: &str| {
        operation(
            &format!("DELETE /devstoreaccount1/Seeded(PartitionKey='p',RowKey='{row}')"),
            "If-Match: *\r\n",
            "",
        )
    };
    let other_table = operation("POST /devstoreaccount1/Other", "", r#"{"PartitionKey":"x","RowKey":"y"}"#);
    let bad_name =
        operation("POST /devstoreaccount1/Seeded", "", r#"{"PartitionKey":"x","RowKey":"y","a-b":1}"#);
    let set = |name, requests: &[String]| case(name, change_set(requests));
    let twice = "2:The batch request contains multiple changes with same row key. An entity can appear only once \
                 in a batch request.";
    vec![
        set("101 operations", &many)
            .part_refused(400, "InvalidInput")
            .saying("99:The batch request operation exceeds the maximum 100 changes per change set."),
        set("two partitions", &[insert("x", "1"), insert("y", "1")])
            .part_refused(400, "CommandsInBatchActOnDifferentPartitions")
            .saying("1:All commands in a batch must operate on same entity group."),
        set("two tables", &[insert("x", "x"), other_table])
            .part_refused(400, "CommandsInBatchActOnDifferentPartitions"),
        set("one entity twice", &[insert("x", "1"), insert("x", "2"), insert("x", "1")])
            .part_refused(400, "InvalidDuplicateRow")
            .saying(twice),
        set("a last operation that fails", &[delete("1"), delete("2"), insert("p", "3"), delete("missing")])
            .part_refused(404, "ResourceNotFound")
            .saying("3:The specified resource does not exist."),
        set("a first operation that fails", &[insert("p", "1"), insert("p", "new")])
            .part_refused(409, "EntityAlreadyExists")
            .saying("0:The specified entity already exists."),
        set("a bad property name among good operations", &[insert("x", "x"), bad_name])
            .part_refused(400, "PropertyNameInvalid"),
        set(
            "a broken body among good operations",
            &[insert("x", "x"), operation("POST /devstoreaccount1/Seeded", "", "[")],
        )
        .part_refused(400, "InvalidInput")
        .saying("1:An error occurred while processing this request."),
    ]
}
