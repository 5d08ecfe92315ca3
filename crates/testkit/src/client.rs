//! A signed HTTP client for tests: one connection, kept alive, that sends exactly what it is told.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tavola_auth::{Account, Scheme, SignedRequest, sign_request};
use tavola_model::{Clock, Query, StorageService};
use tavola_system::SystemClock;

const TIMEOUT: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 64;

/// A request below the account, such as `/Tables`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The verb.
    pub method: Method,
    /// Path and query below the account, encoded.
    pub target: String,
    /// Headers beside Host, date, Content-Length and Authorization.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request for JSON without metadata, at the version most clients ask for.
    pub fn new(method: Method, target: impl Into<String>) -> Self {
        let headers = vec![
            ("x-ms-version", "2019-02-02".to_owned()),
            ("Accept", "application/json;odata=nometadata".to_owned()),
            ("DataServiceVersion", "3.0".to_owned()),
        ];
        Self { method, target: target.into(), headers, body: Vec::new() }
    }

    /// A GET.
    pub fn get(target: impl Into<String>) -> Self {
        Self::new(Method::GET, target)
    }

    /// The same with a header put in place.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name, value.into()));
        self
    }

    /// The same with a JSON body.
    #[must_use]
    pub fn with_json(self, body: impl Into<Vec<u8>>) -> Self {
        self.with_body("application/json", body)
    }

    /// The same with a body.
    #[must_use]
    pub fn with_body(self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut request = self.with_header("Content-Type", content_type);
        request.body = body.into();
        request
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The headers as they were written.
    pub headers: Vec<(String, String)>,
    /// The body, without chunks.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection to one endpoint.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Received and not yet used.
    buffer: Vec<u8>,
    host: String,
    base: String,
    account: Account,
    service: StorageService,
}

impl Connection {
    /// Connects to `http://host:port/account` as the development account.
    pub fn open(endpoint: &str) -> io::Result<Self> {
        Self::open_as(endpoint, Account::development())
    }

    /// Connects to a queue endpoint as the development account.
    pub fn open_queue(endpoint: &str) -> io::Result<Self> {
        let connection = Self::open(endpoint)?;
        Ok(Self { service: StorageService::Queue, ..connection })
    }

    /// Connects to a blob endpoint as the development account.
    pub fn open_blob(endpoint: &str) -> io::Result<Self> {
        let connection = Self::open(endpoint)?;
        Ok(Self { service: StorageService::Blob, ..connection })
    }

    /// Connects with the key of an account.
    pub fn open_as(endpoint: &str, account: Account) -> io::Result<Self> {
        let rest = endpoint.strip_prefix("http://").ok_or_else(|| invalid("endpoint is not http"))?;
        let (host, base) = match rest.split_once('/') {
            Some((host, base)) => (host.to_owned(), format!("/{}", base.trim_end_matches('/'))),
            None => (rest.to_owned(), String::new()),
        };
        let stream = TcpStream::connect(&host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, buffer: Vec::new(), host, base, account, service: StorageService::Table })
    }

    /// Signs, sends and waits for the answer.
    pub fn send(&mut self, request: &Request) -> io::Result<Response> {
        let bytes = self.signed(request)?;
        self.send_raw(&bytes, &request.method)
    }

    /// Sends these bytes as they are and waits for the answer to one request of this method.
    pub fn send_raw(&mut self, bytes: &[u8], method: &Method) -> io::Result<Response> {
        self.stream.write_all(bytes)?;
        self.receive(method)
    }

    /// Sends these bytes as they are, waits for nothing and closes the connection.
    pub fn send_and_leave(mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The bytes of a signed request.
    pub fn signed(&self, request: &Request) -> io::Result<Vec<u8>> {
        let mut headers = HeaderMap::new();
        let mut put = |name: &str, value: &str| -> io::Result<()> {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(invalid)?;
            headers.append(name, HeaderValue::from_str(value).map_err(invalid)?);
            Ok(())
        };
        put("host", &self.host)?;
        put("x-ms-date", &SystemClock.now().to_rfc1123())?;
        for (name, value) in &request.headers {
            put(name, value)?;
        }
        if !request.body.is_empty() || request.method != Method::GET {
            put("content-length", &request.body.len().to_string())?;
        }
        let target = format!("{}{}", self.base, request.target);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        // A query that is not UTF-8 has no text to sign; tests send it to see it refused.
        let query = Query::parse(query).unwrap_or_default();
        let signed = SignedRequest { method: &request.method, path, query: &query, headers: &headers };
        let scheme = match self.service {
            // The emulator takes nothing else for blobs.
            StorageService::Blob => Scheme::SharedKey,
            StorageService::Table | StorageService::Queue => Scheme::SharedKeyLite,
        };
        let authorization = sign_request(&self.account, self.service, scheme, &signed).map_err(invalid)?;
        let mut bytes = format!("{} {target} HTTP/1.1\r\n", request.method).into_bytes();
        for (name, value) in &headers {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(format!("authorization: {authorization}\r\n\r\n").as_bytes());
        bytes.extend_from_slice(&request.body);
        Ok(bytes)
    }

    fn receive(&mut self, method: &Method) -> io::Result<Response> {
        let (status, headers) = self.receive_head()?;
        let mut response = Response { status, headers, body: Vec::new() };
        let has_no_body = method == Method::HEAD || status == 204 || status == 304;
        if has_no_body {
            return Ok(response);
        }
        if response.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            response.body = self.receive_chunks()?;
        } else {
            let length = response.header("content-length").unwrap_or("0").parse().map_err(invalid)?;
            response.body = self.take(length)?;
        }
        Ok(response)
    }

    fn receive_head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut head = httparse::Response::new(&mut headers);
            if let httparse::Status::Complete(length) = head.parse(&self.buffer).map_err(invalid)? {
                let status = head.code.ok_or_else(|| invalid("response has no status"))?;
                let headers = head
                    .headers
                    .iter()
                    .map(|header| {
                        (header.name.to_owned(), String::from_utf8_lossy(header.value).into_owned())
                    })
                    .collect();
                self.buffer.drain(..length);
                return Ok((status, headers));
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(invalid("response head is too large"));
            }
            self.fill()?;
        }
    }

    fn receive_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.take_line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(invalid)?;
            if size == 0 {
                while !self.take_line()?.is_empty() {}
                return Ok(body);
            }
            body.extend_from_slice(&self.take(size)?);
            self.take_line()?;
        }
    }

    fn take_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Ok(line);
            }
            self.fill()?;
        }
    }

    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            self.fill()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut chunk = [0u8; 16 * 1024];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.buffer.extend_from_slice(&chunk[..count]);
                Ok(())
            }
        }
    }
}

fn invalid(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}
