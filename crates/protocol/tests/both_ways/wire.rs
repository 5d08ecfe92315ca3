//! The server's half of an exchange, without a socket.

use http::{HeaderMap, HeaderName, StatusCode};
use tavola_model::{Address, Command, DateTime, Guid, Outcome, Query, ServiceError, StorageService};
use tavola_protocol::blob::{self, BlobRequest};
use tavola_protocol::queue::{self, QueueRequest};
use tavola_protocol::table::{self, TableRequest};
use tavola_protocol::{Answer, Form, Reply, Request, Response};

pub const REQUEST_ID: &str = "0f370be3-f003-0062-50b6-3d99b9000000";
pub const IDS: [Guid; 2] = [Guid([1; 16]), Guid([2; 16])];
pub const BASE: &str = "http://127.0.0.1/acct/";

/// A request that the server has read, with what it needs to answer.
pub struct Asked {
    pub service: StorageService,
    pub command: Result<Command, ServiceError>,
    pub reply: Reply,
    pub form: Form,
}

/// Routes and decodes a request as the server does.
pub fn ask(service: StorageService, request: &Request) -> Asked {
    // The account may be asked for on its secondary: only there are statistics.
    let secondary = if request.query.contains("comp=stats") { "-secondary" } else { "" };
    let target = request.target(&format!("/acct{secondary}"));
    let (path, raw) = target.split_once('?').unwrap_or((&target, ""));
    assert!(path.bytes().chain(raw.bytes()).all(|byte| byte.is_ascii_graphic()), "{target}");
    let address = Address::parse("127.0.0.1", path).unwrap();
    let query = Query::parse(raw).unwrap();
    let mut reply =
        Reply::of(&request.method, &request.headers, Some(&address), REQUEST_ID.to_owned(), false);
    reply.check_version().unwrap();
    reply.base = BASE.to_owned();
    let mut form = Form::of(&request.headers, &query, &reply.version);
    let command = match service {
        StorageService::Table => {
            let read = TableRequest {
                address: &address,
                query: &query,
                headers: &request.headers,
                body: &request.body,
            };
            table::route(&request.method, &address, &query, &request.headers)
                .map_err(|unroutable| form.refuse(unroutable))
                .and_then(|route| table::decode(route, &read, &mut form))
        }
        StorageService::Queue => {
            let read = QueueRequest {
                version: &reply.version,
                query: &query,
                headers: &request.headers,
                metadata_names: &[],
                body: &request.body,
            };
            queue::route(&request.method, &address, &query).and_then(|route| queue::decode(route, &read))
        }
        StorageService::Blob => {
            let mut headers = request.headers.clone();
            headers.insert(http::header::CONTENT_LENGTH, request.body.len().into());
            let read = BlobRequest {
                version: &reply.version,
                query: &query,
                headers: &headers,
                metadata_names: &[],
                body: &request.body,
            };
            blob::route(&request.method, &address, &query, &headers)
                .and_then(|route| blob::decode(route, &read))
        }
    };
    Asked { service, command, reply, form }
}

impl Asked {
    /// What the server sends for an outcome.
    pub fn answer(&self, result: Result<Outcome, ServiceError>) -> Received {
        let now = DateTime::parse("2020-06-08T17:04:52.3842926Z").unwrap();
        Received::of(&tavola_protocol::encode(self.service, &self.reply, &self.form, &result, None, now, IDS))
    }
}

/// An answer as a transport keeps it.
pub struct Received {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Received {
    fn of(response: &Response) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in &response.headers {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.clone());
        }
        for (name, value) in &response.metadata {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        if let Some(length) = response.content_length {
            headers.insert(http::header::CONTENT_LENGTH, length.into());
        }
        Self { status: response.status, headers, body: response.body.to_vec() }
    }

    pub fn read(&self) -> Answer<'_> {
        Answer { status: self.status, headers: &self.headers, body: &self.body }
    }
}
