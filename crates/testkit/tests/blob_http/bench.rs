//! A server, a connection to its blobs, and short ways to ask.

use http::Method;
use tavola_testkit::{Connection, Request, Response, ServerOptions, TestServer, store_arguments};

pub struct Bench {
    pub server: TestServer,
    pub connection: Connection,
}

impl Bench {
    /// A server with a container `box`; on the cluster of this run, if it has one.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with further settings.
    pub fn start_with(settings: &[&str]) -> Self {
        let mut arguments = store_arguments().unwrap();
        arguments.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let server =
            TestServer::start_with(&ServerOptions { arguments, ..ServerOptions::default() }).unwrap();
        let connection = Connection::open_blob(server.blob_endpoint()).unwrap();
        let mut bench = Self { server, connection };
        bench.expect(201, put("/box?restype=container", ""));
        bench
    }

    pub fn send(&mut self, request: &Request) -> Response {
        self.connection.send(request).unwrap()
    }

    /// The answer, which has this status.
    pub fn expect(&mut self, status: u16, request: Request) -> Response {
        let response = self.send(&request);
        let (method, target) = (&request.method, &request.target);
        assert_eq!(response.status, status, "{method} {target}: {}", response.text());
        response
    }

    /// The code of a refusal of this status.
    pub fn refused(&mut self, status: u16, request: Request) -> String {
        let response = self.expect(status, request);
        response.header("x-ms-error-code").unwrap_or_default().to_owned()
    }
}

pub fn request(method: Method, target: &str) -> Request {
    Request { method, target: target.to_owned(), headers: Vec::new(), body: Vec::new() }
        .with_header("x-ms-version", "2021-12-02")
}

pub fn get(target: &str) -> Request {
    request(Method::GET, target)
}

pub fn delete(target: &str) -> Request {
    request(Method::DELETE, target)
}

pub fn put(target: &str, body: impl Into<Vec<u8>>) -> Request {
    let mut request = request(Method::PUT, target);
    request.body = body.into();
    request
}

pub fn put_blob(target: &str, body: impl Into<Vec<u8>>) -> Request {
    put(target, body).with_header("x-ms-blob-type", "BlockBlob")
}

pub fn lease(target: &str, action: &str) -> Request {
    put(target, "").with_header("x-ms-lease-action", action)
}

/// Bytes that differ from place to place.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}
