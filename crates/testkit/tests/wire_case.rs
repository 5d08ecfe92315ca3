//! Header names on the wire, in the case in which the real service writes them.
//!
//! The bytes are looked at as they leave the socket, because every HTTP library folds names on the way in. The
//! expected sets are those of the recordings (protocol notes, "Common headers"); `Transfer-Encoding` is left
//! out, since a body whose length is known is sent with its length.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use http::Method;
use tavola_testkit::{Connection, Request, Response, TestServer};

/// What every answer of the OData layer has.
const COMMON: [&str; 5] = ["Cache-Control", "Date", "Server", "X-Content-Type-Options", "x-ms-request-id"];

struct Wire {
    _server: TestServer,
    connection: Connection,
}

impl Wire {
    /// A server with one table of two entities.
    fn start() -> Self {
        let server = TestServer::start().unwrap();
        let connection = Connection::open(server.table_endpoint()).unwrap();
        let mut wire = Self { _server: server, connection };
        wire.send(&post("/Tables", r#"{"TableName":"Wire"}"#));
        wire.send(&post("/Wire", r#"{"PartitionKey":"p","RowKey":"1"}"#));
        wire.send(&post("/Wire", r#"{"PartitionKey":"p","RowKey":"2"}"#));
        wire
    }

    fn send(&mut self, request: &Request) -> Response {
        self.connection.send(request).unwrap()
    }

    /// The names of the answer, which must be the common ones and these.
    fn check(&mut self, request: &Request, status: u16, more: &[&str]) {
        let response = self.send(request);
        let mut expected: Vec<&str> = COMMON.iter().chain(more).copied().chain(["x-ms-version"]).collect();
        expected.sort_unstable();
        assert_eq!((response.status, names(&response)), (status, expected), "{}", request.target);
    }
}

/// The names as they were sent, without those that only we send.
fn names(response: &Response) -> Vec<&str> {
    let mut names: Vec<&str> = response.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.retain(|name| *name != "x-tavola-plan" && *name != "Content-Length");
    names.sort_unstable();
    names
}

fn post(target: &str, body: &str) -> Request {
    Request::new(Method::POST, target).with_json(body.as_bytes().to_vec())
}

#[test]
fn names_of_the_odata_layer_keep_their_case() {
    let mut wire = Wire::start();
    let quiet = |request: Request| request.with_header("Prefer", "return-no-content");
    let entity = "/Wire(PartitionKey='p',RowKey='1')";
    wire.check(&Request::get(entity), 200, &["Content-Type", "ETag"]);
    wire.check(&post("/Tables", r#"{"TableName":"Loud"}"#), 201, &["Content-Type", "Location"]);
    wire.check(
        &quiet(post("/Tables", r#"{"TableName":"Quiet"}"#)),
        204,
        &["DataServiceId", "Location", "Preference-Applied"],
    );
    wire.check(
        &quiet(post("/Wire", r#"{"PartitionKey":"p","RowKey":"3"}"#)),
        204,
        &["DataServiceId", "ETag", "Location", "Preference-Applied"],
    );
    wire.check(
        &Request::get("/Wire()?$top=1"),
        200,
        &["Content-Type", "x-ms-continuation-NextPartitionKey", "x-ms-continuation-NextRowKey"],
    );
    wire.check(&Request::get("/Tables?$top=1"), 200, &["Content-Type", "x-ms-continuation-NextTableName"]);
    wire.check(
        &Request::get("/Tables").with_header("x-ms-client-request-id", "ours"),
        200,
        &["Content-Type", "x-ms-client-request-id"],
    );
    wire.check(&Request::get("/Wire(PartitionKey='p',RowKey='missing')"), 404, &["Content-Type"]);
}

#[test]
fn names_of_the_front_end_keep_their_case() {
    let mut wire = Wire::start();
    let settings = Request::get("/?restype=service&comp=properties").with_header("Accept", "application/xml");
    let response = wire.send(&settings);
    assert_eq!(names(&response), ["Content-Type", "Date", "Server", "x-ms-request-id", "x-ms-version"]);
    let challenged = Request::get("/Tables").with_header("x-ms-version", "2020-12-06");
    let signed = String::from_utf8(wire.connection.signed(&challenged).unwrap()).unwrap();
    let anonymous: String =
        signed.split_inclusive("\r\n").filter(|line| !line.starts_with("authorization: ")).collect();
    let response = wire.connection.send_raw(anonymous.as_bytes(), &Method::GET).unwrap();
    assert_eq!(response.status, 401);
    assert_eq!(
        names(&response),
        [
            "Content-Type",
            "Date",
            "Server",
            "WWW-Authenticate",
            "x-ms-error-code",
            "x-ms-request-id",
            "x-ms-version"
        ]
    );
}
