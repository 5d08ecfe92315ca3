//! Sends a case and takes the answer apart.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tavola_auth::{Account, Scheme, SignedRequest, sign_request};
use tavola_model::{Query, StorageService};
use tavola_testkit::{Connection, Request, Response};

use crate::case::Send;

/// What came back.
pub enum Answer {
    /// A response.
    Response(Response),
    /// Nothing; the server hung up.
    Closed,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(response) => write!(f, "{} {}", response.status, response.text()),
            Self::Closed => f.write_str("no answer"),
        }
    }
}

/// How a request is signed, where it is not the usual way.
pub struct Signer {
    /// The scheme.
    pub scheme: Scheme,
    /// Headers that carry the date; may be none.
    pub dates: Vec<(&'static str, String)>,
    /// Who signs.
    pub account: Account,
}

/// Sends a request over a connection of its own.
pub fn send(endpoint: &str, send: &Send) -> io::Result<Answer> {
    let mut connection = Connection::open(endpoint)?;
    let (method, bytes) = match send {
        Send::Signed(request) => (request.method.clone(), connection.signed(request)?),
        Send::Altered(request, from, to) => {
            (request.method.clone(), alter(&connection.signed(request)?, from, to))
        }
        Send::Anonymous(request) => {
            (request.method.clone(), without_line(&connection.signed(request)?, "authorization: "))
        }
        Send::AuthorizedBy(request, authorization) => {
            let signed = connection.signed(request)?;
            (request.method.clone(), alter_line(&signed, "authorization: ", authorization))
        }
        Send::SignedWith(request, signer) => (request.method.clone(), signer.sign(endpoint, request)),
        Send::Raw(bytes) => return send_raw(endpoint, bytes, Then::Listen),
        Send::CutShort(bytes) => return send_raw(endpoint, bytes, Then::Close),
    };
    match connection.send_raw(&bytes, &method) {
        Ok(response) => Ok(Answer::Response(response)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Answer::Closed),
        Err(error) => Err(error),
    }
}

impl Signer {
    /// The bytes of a request signed this way.
    fn sign(&self, endpoint: &str, request: &Request) -> Vec<u8> {
        let (host, account) = endpoint.trim_start_matches("http://").split_once('/').unwrap();
        let target = format!("/{account}{}", request.target);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut headers = HeaderMap::new();
        for (name, value) in self.dates.iter().chain(&request.headers) {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        // A request without a date cannot be signed; its signature is then that of nothing.
        let query = Query::parse(query).unwrap_or_default();
        let signed = SignedRequest { method: &request.method, path, query: &query, headers: &headers };
        let authorization = sign_request(&self.account, StorageService::Table, self.scheme, &signed)
            .unwrap_or_else(|_| format!("{} {}:AAAA", self.scheme.as_str(), self.account.name()));
        let mut head = format!("{} {target} HTTP/1.1\r\nhost: {host}\r\n", request.method);
        for (name, value) in self.dates.iter().chain(&request.headers) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("authorization: {authorization}\r\n\r\n"));
        head.into_bytes()
    }
}

fn alter(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    assert!(head.contains(from), "the head has no {from:?}: {head}");
    [head.replace(from, to).as_bytes(), &bytes[end..]].concat()
}

/// The same with another value in the header line that begins so.
fn alter_line(bytes: &[u8], start: &str, value: &str) -> Vec<u8> {
    let (from, end) = find_line(bytes, start);
    [&bytes[..from], start.as_bytes(), value.as_bytes(), &bytes[end..]].concat()
}

fn without_line(bytes: &[u8], start: &str) -> Vec<u8> {
    let (from, end) = find_line(bytes, start);
    [&bytes[..from], &bytes[end + 2..]].concat()
}

/// Where the header line that begins so begins, and where its line end is.
fn find_line(bytes: &[u8], start: &str) -> (usize, usize) {
    let from = bytes.windows(start.len()).position(|window| window == start.as_bytes()).unwrap();
    (from, from + bytes[from..].windows(2).position(|window| window == b"\r\n").unwrap())
}

/// What a client does when it has sent all it has.
#[derive(PartialEq, Eq)]
enum Then {
    Listen,
    Close,
}

/// Sends these bytes and takes whatever comes until the server closes its side.
fn send_raw(endpoint: &str, bytes: &[u8], then: Then) -> io::Result<Answer> {
    let rest = endpoint.trim_start_matches("http://");
    let (host, _) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    // The server may refuse what it has seen so far and hang up before it has all.
    let _ = stream.write_all(bytes);
    if then == Then::Close {
        stream.shutdown(Shutdown::Write)?;
    }
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(length)) = head.parse(&received) else { return Ok(Answer::Closed) };
    let headers = head
        .headers
        .iter()
        .map(|header| (header.name.to_owned(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    let status = head.code.unwrap_or_default();
    Ok(Answer::Response(Response { status, headers, body: received[length..].to_vec() }))
}

/// What an error body says, in any of its forms.
pub struct ErrorText {
    pub code: String,
    pub message: String,
    pub request_id: String,
}

/// Reads an error body.
pub fn error(body: &str) -> Option<ErrorText> {
    let (code, text) = match serde_json::from_str::<serde_json::Value>(body) {
        Ok(json) => {
            let error = json.get("odata.error")?;
            let text = error.get("message")?.get("value")?.as_str()?.to_owned();
            (error.get("code")?.as_str()?.to_owned(), text)
        }
        Err(_) => {
            let code = between(body, "code>", "<")?.to_owned();
            let text = between(body, "xml:lang=\"en-US\">", "</")?;
            (
                code,
                text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"),
            )
        }
    };
    let (message, rest) = text.split_once("\nRequestId:")?;
    let (request_id, _) = rest.split_once("\nTime:")?;
    Some(ErrorText { code, message: message.to_owned(), request_id: request_id.to_owned() })
}

/// Status and body of each part of a batch.
pub fn parts(text: &str) -> Vec<(u16, String)> {
    let part = |piece: &str| {
        let status = piece.get(..3)?.parse().ok()?;
        let (_, body) = piece.split_once("\r\n\r\n")?;
        let body = body.split("\r\n--").next().unwrap_or(body);
        Some((status, body.trim().to_owned()))
    };
    text.split("\r\nHTTP/1.1 ").skip(1).filter_map(part).collect()
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}
