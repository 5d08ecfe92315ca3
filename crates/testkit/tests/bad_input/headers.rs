//! Heads of requests: versions, media types, verbs, framing.

use crate::case::{Case, ENTITY, Send, altered, case, get, post, put, verb};

const NEW: &str = r#"{"PartitionKey":"x","RowKey":"x"}"#;
const VERSION: &str = "The value for one of the HTTP headers is not in the correct format.";
const MEDIA: &str = "None of the provided media types are supported";

pub fn cases() -> Vec<Case> {
    [versions(), media_types(), tunnelled(), framing(), preflights()].into_iter().flatten().collect()
}

fn versions() -> Vec<Case> {
    let version = |name, version: &str| {
        case(name, get("/Tables").with_header("x-ms-version", version))
            .refused(400, "InvalidHeaderValue")
            .saying(VERSION)
    };
    vec![
        version("a version that is that of a client", "12.0.0b1"),
        version("a version before the first", "2008-10-27"),
        version("a version with a month that is none", "2019-13-01"),
        version("a version with a day that is none", "2019-02-30"),
        version("a version of words", "latest"),
        version("a version with a time", "2019-02-02T00:00:00Z"),
        case(
            "a bad version of settings",
            put("/?restype=service&comp=properties", "").with_header("x-ms-version", "x"),
        )
        .refused(400, "InvalidHeaderValue"),
        case(
            "a bad version without credentials",
            Send::Anonymous(get("/Tables").with_header("x-ms-version", "x")),
        )
        .refused(400, "InvalidHeaderValue"),
        // Documented: JSON came with 2013-08-15.
        case(
            "JSON wanted at a version before JSON",
            get("/Tables").with_header("x-ms-version", "2012-02-12"),
        )
        .refused(415, "JsonFormatNotSupported"),
    ]
}

fn media_types() -> Vec<Case> {
    let insert = |media: &str| post("/Seeded", NEW).with_header("Content-Type", media);
    vec![
        case("an answer wanted as a page", get("/Tables").with_header("Accept", "text/html"))
            .refused(415, "MediaTypeNotSupported")
            .saying(MEDIA),
        case("an answer wanted as an image of any kind", get("/Seeded()").with_header("Accept", "image/*"))
            .refused(415, "MediaTypeNotSupported"),
        case(
            "an answer wanted in words that are no media type",
            get("/Seeded()").with_header("Accept", "json"),
        )
        .refused(415, "MediaTypeNotSupported"),
        case("an answer wanted as a page by option", get("/Seeded()?$format=text/html"))
            .refused(415, "MediaTypeNotSupported"),
        case("an answer wanted in an unknown short form", get("/Seeded()?$format=verbose"))
            .refused(415, "MediaTypeNotSupported"),
        case("a body of plain text", insert("text/plain"))
            .refused(415, "MediaTypeNotSupported")
            .saying(MEDIA),
        case("a body of a form", insert("application/x-www-form-urlencoded"))
            .refused(415, "MediaTypeNotSupported"),
        case("a body of parts where an entity is wanted", insert("multipart/mixed; boundary=b"))
            .refused(415, "MediaTypeNotSupported"),
        case(
            "a new table as plain text",
            post("/Tables", r#"{"TableName":"Fresh"}"#).with_header("Content-Type", "text/plain"),
        )
        .refused(415, "MediaTypeNotSupported"),
        case("an update of plain text", put(ENTITY, "{}").with_header("Content-Type", "text/plain"))
            .refused(415, "MediaTypeNotSupported"),
        case("JSON that is called Atom", insert("application/atom+xml")).refused(400, "InvalidInput"),
        case("Atom that is called JSON", post("/Seeded", "<entry/>")).refused(400, "InvalidInput"),
    ]
}

fn tunnelled() -> Vec<Case> {
    let post_as = |method: &str| post(ENTITY, "{}").with_header("X-HTTP-Method", method);
    let mut twice = post_as("MERGE");
    twice.headers.push(("X-HTTP-Method", "MERGE".into()));
    vec![
        case("a verb in a header of a GET", get(ENTITY).with_header("X-HTTP-Method", "MERGE"))
            .refused(400, "XMethodNotUsingPost"),
        case("a verb in a header of a PUT", put(ENTITY, "{}").with_header("X-HTTP-Method", "PUT"))
            .refused(400, "XMethodNotUsingPost"),
        case("an unknown verb in a header", post_as("ERASE")).refused(400, "XMethodIncorrectValue"),
        case("a verb in a header that cannot be tunnelled", post_as("GET"))
            .refused(400, "XMethodIncorrectValue"),
        case("an empty verb in a header", post_as("")).refused(400, "XMethodIncorrectValue"),
        case("a verb in two headers", twice).refused(400, "XMethodIncorrectCount"),
        case("an unknown verb", verb("BREW", "/Tables")).refused(400, "InvalidHttpVerb"),
        case("a verb of another protocol", verb("PROPFIND", "/Tables")).refused(400, "InvalidHttpVerb"),
    ]
}

/// Not recorded: these never reach a service. Our HTTP library refuses them with a bare status and ends the
/// connection; the cases hold it to that.
fn framing() -> Vec<Case> {
    let raw = |head: &str| Send::Raw(format!("{head}\r\n\r\n").into_bytes());
    let host = "Host: 127.0.0.1";
    let line = "POST /devstoreaccount1/Seeded HTTP/1.1";
    let many: String = (0..120).map(|number| format!("x-h{number}: v\r\n")).collect();
    vec![
        case("a length that is no number", raw(&format!("{line}\r\n{host}\r\nContent-Length: abc")))
            .unread(400),
        case("a length below zero", raw(&format!("{line}\r\n{host}\r\nContent-Length: -1"))).unread(400),
        case(
            "two lengths that differ",
            raw(&format!("{line}\r\n{host}\r\nContent-Length: 1\r\nContent-Length: 2")),
        )
        .unread(400),
        case(
            "a length beyond all numbers",
            raw(&format!("{line}\r\n{host}\r\nContent-Length: 99999999999999999999999")),
        )
        .unread(400),
        case("a coding that is not known", raw(&format!("{line}\r\n{host}\r\nTransfer-Encoding: gzip")))
            .unread(400),
        case("a header without a colon", raw(&format!("{line}\r\n{host}\r\nnonsense"))).unread(400),
        case("a header name with a space", raw(&format!("{line}\r\n{host}\r\nx ms: v"))).unread(400),
        case("a header value with a NUL", raw(&format!("{line}\r\n{host}\r\nx: a\0b"))).unread(400),
        case("a verb with brackets", raw(&format!("G[]T / HTTP/1.1\r\n{host}"))).unread(400),
        case("a request line of one word", raw("hello")).unread(400),
        case("a protocol of the future", raw(&format!("GET / HTTP/9.9\r\n{host}"))).unread(400),
        case("a path with a space", raw(&format!("GET /devstoreaccount1/Seeded x HTTP/1.1\r\n{host}")))
            .unread(400),
        case("120 headers", raw(&format!("GET / HTTP/1.1\r\n{host}\r\n{many}"))).unread(431),
        case(
            "a header of 128 KiB",
            raw(&format!("GET / HTTP/1.1\r\n{host}\r\nx: {}", "v".repeat(128 * 1024))),
        )
        .unread(431),
        case("a path of 128 KiB", raw(&format!("GET /{} HTTP/1.1\r\n{host}", "p".repeat(128 * 1024))))
            .unread(431),
        case("no host and no account", raw("GET / HTTP/1.1\r\nConnection: close"))
            .refused(400, "HostInformationNotPresent"),
        case(
            "a request that ends within its head",
            Send::CutShort(b"GET /devstoreaccount1/Tables HT".to_vec()),
        )
        .closed(),
        case("a connection without a request", Send::CutShort(Vec::new())).closed(),
        case(
            "a body in chunks that are none",
            altered(post("/Seeded", NEW), "content-length: 33", "transfer-encoding: chunked"),
        )
        .refused(400, "InvalidInput"),
        case("a body announced as larger than anything may be", oversized())
            .refused(413, "RequestBodyTooLarge"),
    ]
}

fn oversized() -> Send {
    altered(post("/Seeded", NEW), "content-length: 33", "content-length: 9000000")
}

fn preflights() -> Vec<Case> {
    let ask = || Send::Anonymous(verb("OPTIONS", "/Seeded"));
    let with = |headers: &[(&'static str, &str)]| {
        let request = headers
            .iter()
            .fold(verb("OPTIONS", "/Seeded"), |request, (name, value)| request.with_header(name, *value));
        Send::Anonymous(request)
    };
    let known = ("Origin", "http://known.example");
    let method = "Access-Control-Request-Method";
    vec![
        case("a preflight that asks nothing", ask()).refused(400, "MissingRequiredHeader"),
        case("a preflight without a method", with(&[known])).refused(400, "MissingRequiredHeader"),
        case("a preflight without an origin", with(&[(method, "GET")])).refused(400, "MissingRequiredHeader"),
        case(
            "a preflight from an unknown origin",
            with(&[("Origin", "http://other.example"), (method, "GET")]),
        )
        .refused(403, "CorsPreflightFailure"),
        case("a preflight for another method", with(&[known, (method, "PUT")]))
            .refused(403, "CorsPreflightFailure"),
        case(
            "a preflight for a header that is not allowed",
            with(&[known, (method, "GET"), ("Access-Control-Request-Headers", "x-other")]),
        )
        .refused(403, "CorsPreflightFailure"),
    ]
}
