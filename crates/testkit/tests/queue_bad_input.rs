//! Bad input for queues: each malformed request with the exact answer it deserves, after which nothing has changed.
//!
//! Expected answers are those of the recordings and of the protocol notes. Where these are silent the row says `ours`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use http::Method;
use tavola_testkit::{Connection, QueueConnection, Request, TestServer};

const QUEUE: &str = "seeded";
const TEXT: &str = "kept";

/// What is wrong, the request, and the answer: a line of method and target, a metadata header, a body.
struct Case {
    name: &'static str,
    line: String,
    header: Option<(&'static str, &'static str)>,
    body: String,
    status: u16,
    code: &'static str,
}

fn case(name: &'static str, line: impl Into<String>, status: u16, code: &'static str) -> Case {
    Case { name, line: line.into(), header: None, body: String::new(), status, code }
}

impl Case {
    fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }

    fn with_body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }
}

fn message(text: &str) -> String {
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
}

fn names() -> Vec<Case> {
    let long = "q".repeat(64);
    vec![
        case("a name in upper case", "PUT /UPPER", 400, "InvalidResourceName"),
        case("a name with an underscore", "PUT /a_b", 400, "InvalidResourceName"),
        case("a name with a dot", "PUT /a.b", 400, "InvalidResourceName"),
        case("a name that begins with a dash", "PUT /-abc", 400, "InvalidResourceName"),
        case("a name that ends with a dash", "PUT /abc-", 400, "InvalidResourceName"),
        case("a name with two dashes in a row", "PUT /a--b", 400, "InvalidResourceName"),
        case("a name of another alphabet", "PUT /%E5%95%8A", 400, "InvalidResourceName"),
        case("a name of two letters", "PUT /ab", 400, "OutOfRangeInput"),
        case("a name of 64 letters", format!("PUT /{long}"), 400, "OutOfRangeInput"),
        case("a name that is not UTF-8 (ours)", "PUT /%FF%FE", 400, "InvalidUri"),
        case("a bad name before messages", "GET /UPPER/messages", 400, "InvalidResourceName"),
    ]
}

fn paths() -> Vec<Case> {
    vec![
        case("a path behind a queue (ours)", format!("GET /{QUEUE}/other"), 400, "InvalidUri"),
        case("a path behind a message (ours)", format!("GET /{QUEUE}/messages/a/b"), 400, "InvalidUri"),
        case("the service without an operation", "GET /", 400, "InvalidQueryParameterValue"),
        case("an unknown comp of the service", "GET /?comp=nothing", 400, "InvalidQueryParameterValue"),
        case("an unknown restype", "GET /?restype=x&comp=list", 400, "InvalidQueryParameterValue"),
        case(
            "statistics from the primary",
            "GET /?restype=service&comp=stats",
            400,
            "InvalidQueryParameterValue",
        ),
        case("a queue without an operation", format!("GET /{QUEUE}"), 400, "InvalidQueryParameterValue"),
        case("an unknown comp of a queue", format!("GET /{QUEUE}?comp=x"), 400, "InvalidQueryParameterValue"),
        case("POST to a queue (ours)", format!("POST /{QUEUE}"), 405, "UnsupportedHttpVerb"),
        case("PATCH of a queue (ours)", format!("PATCH /{QUEUE}"), 405, "UnsupportedHttpVerb"),
        case("PUT of messages (ours)", format!("PUT /{QUEUE}/messages"), 405, "UnsupportedHttpVerb"),
        case("GET of one message (ours)", format!("GET /{QUEUE}/messages/a"), 405, "UnsupportedHttpVerb"),
        case(
            "DELETE of metadata (ours)",
            format!("DELETE /{QUEUE}?comp=metadata"),
            405,
            "UnsupportedHttpVerb",
        ),
        case("POST to the list (ours)", "POST /?comp=list", 405, "UnsupportedHttpVerb"),
    ]
}

fn options() -> Vec<Case> {
    let get = |query: &str| format!("GET /{QUEUE}/messages?{query}");
    let put = |query: &str| format!("POST /{QUEUE}/messages?{query}");
    let out_of_range = "OutOfRangeQueryParameterValue";
    vec![
        case("no messages at all", get("numofmessages=0"), 400, out_of_range),
        case("33 messages", get("numofmessages=33"), 400, out_of_range),
        case("fewer than none", get("numofmessages=-1"), 400, out_of_range),
        case("a number of messages that is none", get("numofmessages=x"), 400, "InvalidQueryParameterValue"),
        case("33 messages to peek at", get("peekonly=true&numofmessages=33"), 400, out_of_range),
        case("perhaps a peek (ours)", get("peekonly=maybe"), 400, "InvalidQueryParameterValue"),
        case("a get that hides nothing", get("visibilitytimeout=0"), 400, out_of_range),
        case("a get that hides for too long", get("visibilitytimeout=604801"), 400, out_of_range),
        case(
            "a put that hides for too long",
            put("visibilitytimeout=604801&messagettl=-1"),
            400,
            out_of_range,
        )
        .with_body(message("a")),
        case("a life of nothing", put("messagettl=0"), 400, out_of_range).with_body(message("a")),
        case("a life of less than nothing", put("messagettl=-2"), 400, out_of_range).with_body(message("a")),
        case("a life that is no number", put("messagettl=x"), 400, "InvalidQueryParameterValue")
            .with_body(message("a")),
        case(
            "hidden as long as it lives",
            put("visibilitytimeout=9&messagettl=9"),
            400,
            "InvalidQueryParameterValue",
        )
        .with_body(message("a")),
        case("a page of no queues", "GET /?comp=list&maxresults=0", 400, out_of_range),
        case("a page of 5001 queues", "GET /?comp=list&maxresults=5001", 400, out_of_range),
        case("a marker that is none", "GET /?comp=list&marker=garbage", 400, "OutOfRangeInput"),
        case(
            "an unknown thing to include (ours)",
            "GET /?comp=list&include=x",
            400,
            "InvalidQueryParameterValue",
        ),
    ]
}

fn bodies() -> Vec<Case> {
    let put = || format!("POST /{QUEUE}/messages");
    let bad = |name, body: &str| case(name, put(), 400, "InvalidXmlDocument").with_body(body);
    let policy = |inner: &str| {
        format!("<SignedIdentifiers><SignedIdentifier>{inner}</SignedIdentifier></SignedIdentifiers>")
    };
    let acl = |name, body: String| {
        case(name, format!("PUT /{QUEUE}?comp=acl"), 400, "InvalidXmlDocument").with_body(body)
    };
    let settings = |name, body: &str| {
        case(name, "PUT /?restype=service&comp=properties", 400, "InvalidXmlDocument").with_body(body)
    };
    vec![
        bad("no body", ""),
        bad("a body that is no XML", "text"),
        bad("another document", "<Other/>"),
        bad("a message without text", "<QueueMessage/>"),
        bad("an element left open", "<QueueMessage><MessageText>"),
        bad("elements crossed", "<QueueMessage><MessageText></QueueMessage></MessageText>"),
        bad("a character that XML cannot hold", &message("\u{1}")),
        bad("a reference to such a character", &message("&#0;")),
        bad("an entity of its own", &message("&other;")),
        bad(
            "a document type",
            "<!DOCTYPE x [<!ENTITY a \"b\">]><QueueMessage><MessageText>&a;</MessageText></QueueMessage>",
        ),
        bad("a thousand elements deep", &"<QueueMessage>".repeat(1000)),
        case("a byte too many", put(), 413, "RequestBodyTooLarge").with_body(message(&"a".repeat(65_537))),
        case("9 MiB", put(), 413, "RequestBodyTooLarge").with_body("a".repeat(9 * 1024 * 1024)),
        acl(
            "letters of another service",
            policy("<Id>a</Id><AccessPolicy><Permission>rwdl</Permission></AccessPolicy>"),
        ),
        acl("an id that is too long", policy(&format!("<Id>{}</Id>", "i".repeat(65)))),
        acl("no id", policy("<Id></Id>")),
        acl("a date that is none", policy("<Id>a</Id><AccessPolicy><Start>now</Start></AccessPolicy>")),
        acl(
            "six policies",
            format!(
                "<SignedIdentifiers>{}</SignedIdentifiers>",
                "<SignedIdentifier><Id>a</Id></SignedIdentifier>".repeat(6)
            ),
        ),
        settings("settings that are none", "<Other/>"),
        settings(
            "a year and a day of retention",
            "<StorageServiceProperties><Logging><RetentionPolicy><Enabled>true</Enabled><Days>366</Days></RetentionPolicy></Logging></StorageServiceProperties>",
        ),
    ]
}

fn messages_and_metadata(id: &str) -> Vec<Case> {
    let one = |method: &str, query: &str| format!("{method} /{QUEUE}/messages/{id}?{query}");
    let missing = "MissingRequiredQueryParameter";
    let stale = "popreceipt=AgAAAAMAAAAAAAAAAAAAAAAA2gE%3D";
    let meta = |name, header, value, code| {
        case(name, format!("PUT /{QUEUE}?comp=metadata"), 400, code).with_header(header, value)
    };
    vec![
        case("a deletion without a receipt (ours)", one("DELETE", ""), 400, missing),
        case(
            "a receipt that is none",
            one("DELETE", "popreceipt=invalid"),
            400,
            "InvalidQueryParameterValue",
        ),
        case(
            "a receipt with more behind it",
            one("DELETE", "popreceipt=AgAA%3DRandom"),
            400,
            "InvalidQueryParameterValue",
        ),
        case("a stale receipt", one("DELETE", stale), 400, "PopReceiptMismatch"),
        case(
            "a receipt of another form",
            one("DELETE", "popreceipt=bkotggobrtswewdlauhh"),
            400,
            "PopReceiptMismatch",
        ),
        case("an update without a time (ours)", one("PUT", stale), 400, missing),
        case(
            "an update for too long",
            one("PUT", &format!("{stale}&visibilitytimeout=604801")),
            400,
            "OutOfRangeQueryParameterValue",
        ),
        case(
            "an update with a stale receipt",
            one("PUT", &format!("{stale}&visibilitytimeout=0")),
            400,
            "PopReceiptMismatch",
        ),
        case(
            "an unknown message",
            format!("DELETE /{QUEUE}/messages/00000000-0000-0000-0000-000000000000?{stale}"),
            404,
            "MessageNotFound",
        ),
        case(
            "an id that is none",
            format!("DELETE /{QUEUE}/messages/doesn't?{stale}"),
            404,
            "MessageNotFound",
        ),
        case(
            "a receipt that is none, in a queue that is none",
            "DELETE /missing/messages/a?popreceipt=exist",
            400,
            "InvalidQueryParameterValue",
        ),
        case("a put to no queue", "POST /missing/messages", 404, "QueueNotFound").with_body(message("a")),
        case("a get from no queue", "GET /missing/messages", 404, "QueueNotFound"),
        case("a peek into no queue", "GET /missing/messages?peekonly=true", 404, "QueueNotFound"),
        case("no queue to clear", "DELETE /missing/messages", 404, "QueueNotFound"),
        case("no queue to delete", "DELETE /missing", 404, "QueueNotFound"),
        case("metadata of no queue", "GET /missing?comp=metadata", 404, "QueueNotFound"),
        case("policies of no queue", "GET /missing?comp=acl", 404, "QueueNotFound"),
        case("a queue that is there with other metadata", format!("PUT /{QUEUE}"), 409, "QueueAlreadyExists")
            .with_header("x-ms-meta-other", "1"),
        meta("a metadata name with a dash", "x-ms-meta-a-b", "1", "InvalidMetadata"),
        meta("a metadata name that begins with a digit", "x-ms-meta-1a", "1", "InvalidMetadata"),
        meta("a metadata name that is empty", "x-ms-meta-", "1", "EmptyMetadataKey"),
        case("a version that is none", "GET /?comp=list", 400, "InvalidHeaderValue")
            .with_header("x-ms-version", "latest"),
    ]
}

#[test]
fn malformed_requests_get_their_exact_answer_and_change_nothing() {
    let server = TestServer::start().unwrap();
    let mut queue = QueueConnection::open(server.queue_endpoint(), QUEUE).unwrap();
    queue.create().unwrap();
    queue.put(TEXT).unwrap();
    let id = seen_id(&server);
    let mut failures = Vec::new();
    let mut cases = [names(), paths(), options(), bodies()].into_iter().flatten().collect::<Vec<_>>();
    cases.extend(messages_and_metadata(&id));
    for case in &cases {
        if let Err(reason) = run(&server, case) {
            failures.push(format!("{}: {reason}", case.name));
        }
    }
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert_eq!(seen_id(&server), id);
    assert_eq!(queue.count().unwrap(), 1);
    let got = queue.get(32, 1).unwrap();
    assert_eq!((got.len(), got[0].text.as_str(), got[0].dequeue_count), (1, TEXT, 1));
    let log = server.log();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}

fn run(server: &TestServer, case: &Case) -> Result<(), String> {
    let (method, target) = case.line.split_once(' ').unwrap();
    let mut request = Request {
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        target: target.to_owned(),
        headers: vec![("x-ms-version", "2021-02-12".to_owned())],
        body: case.body.clone().into_bytes(),
    };
    if let Some((name, value)) = case.header {
        request = request.with_header(name, value);
    }
    let mut connection =
        Connection::open_queue(server.queue_endpoint()).map_err(|error| error.to_string())?;
    let response = connection.send(&request).map_err(|error| error.to_string())?;
    let text = response.text();
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"))
        .map_or("", |(code, _)| code);
    if (response.status, code) != (case.status, case.code) {
        return Err(format!("expected {} {}, received {} {code}", case.status, case.code, response.status));
    }
    let named = response.header("x-ms-error-code");
    if code != "InvalidHeaderValue" && named != Some(code) {
        return Err(format!("x-ms-error-code is {named:?}"));
    }
    if !text.starts_with("\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>") {
        return Err(format!("the body is {text}"));
    }
    Ok(())
}

fn seen_id(server: &TestServer) -> String {
    let mut connection = Connection::open_queue(server.queue_endpoint()).unwrap();
    let response = connection.send(&Request::get(format!("/{QUEUE}/messages?peekonly=true"))).unwrap();
    let text = response.text();
    assert!(text.contains(&format!("<MessageText>{TEXT}</MessageText>")), "{text}");
    text.split_once("<MessageId>").unwrap().1.split_once('<').unwrap().0.to_owned()
}
