//! One server in a sequence: fills the placeholders of a call from its own earlier answers, sends, and remembers.

use std::collections::HashMap;
use std::io;

use tavola_testkit::{Connection, Request, Response};

use crate::answer::{Answer, Origins, body_fields, normalise};
use crate::call::{Call, Service};

/// Stands for an ETag, id or receipt that no answer has told yet.
const NO_ETAG: &str = r#"W/"datetime'2019-01-01T00%3A00%3A00.0000000Z'""#;
const NO_ID: &str = "00000000-0000-0000-0000-000000000001";
const NO_SNAPSHOT: &str = "2019-01-01T00:00:00.0000000Z";
const NO_RECEIPT: &str = "AgAAAAMAAAAAAAAAOrrCKtDj1gE=";

/// A server, as one sequence sees it.
pub struct Peer {
    endpoint: String,
    service: Service,
    connection: Option<Connection>,
    memory: Memory,
    origins: Origins,
}

/// What a server told.
#[derive(Debug, Default)]
struct Memory {
    /// ETags of an entity, oldest first.
    etags: HashMap<String, Vec<String>>,
    /// Ids and receipts of a message, oldest first.
    messages: HashMap<String, Message>,
    next: Option<(String, String)>,
    /// The last snapshot of a blob.
    snapshots: HashMap<String, String>,
}

#[derive(Debug, Default)]
struct Message {
    id: String,
    receipts: Vec<String>,
}

/// A call as it was sent, and what came back.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub answer: Answer,
    /// For a report: the request with its placeholders filled.
    pub sent: String,
    /// For a report: the response as it came.
    pub received: String,
}

impl Peer {
    /// The server at `http://host:port/account`.
    pub fn new(endpoint: &str, service: Service) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            service,
            connection: None,
            memory: Memory::default(),
            origins: Origins::default(),
        }
    }

    /// Sends a call.
    pub fn send(&mut self, call: &Call) -> Exchange {
        self.origins.advance();
        let request = self.fill(call);
        let sent = shown_request(&request);
        match self.exchange(&request) {
            Ok(response) => {
                self.memory.learn(call, &response);
                let answer = normalise(&response, host_of(&self.endpoint), &mut self.origins);
                Exchange { answer, sent, received: shown_response(&response) }
            }
            Err(error) => {
                self.connection = None;
                Exchange {
                    answer: Answer::none(&error.kind().to_string()),
                    sent,
                    received: error.to_string(),
                }
            }
        }
    }

    fn exchange(&mut self, request: &Request) -> io::Result<Response> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match self.service {
                Service::Table => Connection::open(&self.endpoint)?,
                Service::Queue => Connection::open_queue(&self.endpoint)?,
                Service::Blob => Connection::open_blob(&self.endpoint)?,
            },
        };
        let response = connection.send(request)?;
        let closes = response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        self.connection = (!closes).then_some(connection);
        Ok(response)
    }

    fn fill(&self, call: &Call) -> Request {
        let fill = |text: &str, position: Position| {
            fill_placeholders(text, |name| self.memory.tell(name, position, &self.endpoint))
        };
        Request {
            method: call.method.clone(),
            target: fill(&call.target, Position::Target),
            headers: call.headers.iter().map(|(name, value)| (*name, fill(value, Position::Text))).collect(),
            body: fill(&call.body, Position::Text).into_bytes(),
        }
    }
}

fn host_of(endpoint: &str) -> &str {
    let rest = endpoint.strip_prefix("http://").unwrap_or(endpoint);
    rest.split('/').next().unwrap_or_default()
}

/// Where a placeholder stands: in a target its value is encoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Target,
    Text,
}

/// Replaces `<<name>>` by what `tell` says.
fn fill_placeholders(text: &str, tell: impl Fn(&str) -> String) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<<") {
        let Some((name, after)) = after.split_once(">>") else { break };
        filled.push_str(before);
        filled.push_str(&tell(name));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

impl Memory {
    fn tell(&self, name: &str, position: Position, endpoint: &str) -> String {
        let (kind, subject) = name.split_once(':').unwrap_or((name, ""));
        let message = self.messages.get(subject);
        let or = |known: Option<&String>, otherwise: &str| known.cloned().unwrap_or(otherwise.to_owned());
        let value = match kind {
            "base" => return endpoint.to_owned(),
            "etag" => or(self.etags.get(subject).and_then(|etags| etags.last()), NO_ETAG),
            "first-etag" => or(self.etags.get(subject).and_then(|etags| etags.first()), NO_ETAG),
            "id" => or(message.map(|message| &message.id), NO_ID),
            "receipt" => or(message.and_then(|message| message.receipts.last()), NO_RECEIPT),
            "first-receipt" => or(message.and_then(|message| message.receipts.first()), NO_RECEIPT),
            "snapshot" => or(self.snapshots.get(subject), NO_SNAPSHOT),
            "next-partition" => or(self.next.as_ref().map(|(partition, _)| partition), ""),
            "next-row" => or(self.next.as_ref().map(|(_, row)| row), ""),
            _ => unreachable!("the generator writes no other placeholder"),
        };
        match position {
            Position::Target => {
                value.replace('%', "%25").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
            }
            Position::Text => value,
        }
    }

    fn learn(&mut self, call: &Call, response: &Response) {
        if let Some(etag) = response.header("etag").filter(|_| !call.subject.is_empty()) {
            self.etags.entry(call.subject.clone()).or_default().push(etag.to_owned());
        }
        let next = |name: &str| response.header(&format!("x-ms-continuation-{name}")).map(str::to_owned);
        if let (Some(partition), Some(row)) = (next("NextPartitionKey"), next("NextRowKey")) {
            self.next = Some((partition, row));
        }
        if let Some(snapshot) = response.header("x-ms-snapshot").filter(|_| call.operation == "Snapshot Blob")
        {
            self.snapshots.insert(call.subject.clone(), snapshot.to_owned());
        }
        if let Some(receipt) = response.header("x-ms-popreceipt") {
            self.messages.entry(call.subject.clone()).or_default().receipts.push(receipt.to_owned());
        }
        if response.status < 300 && ["Put Message", "Get Messages"].contains(&call.operation) {
            self.learn_messages(call, response);
        }
    }

    /// A list of messages tells ids and receipts; the text of each begins with its name.
    fn learn_messages(&mut self, call: &Call, response: &Response) {
        let mut found: HashMap<String, HashMap<String, String>> = HashMap::new();
        for (path, value) in body_fields(response) {
            if let Some((item, name)) = path.rsplit_once('.') {
                found.entry(item.to_owned()).or_default().insert(name.to_owned(), value);
            }
        }
        for message in found.into_values() {
            let (Some(id), Some(receipt)) = (message.get("MessageId"), message.get("PopReceipt")) else {
                continue;
            };
            let text = message.get("MessageText").map_or(call.subject.as_str(), |text| text.as_str());
            let subject = text.split(' ').next().unwrap_or_default().to_owned();
            let known = self.messages.entry(subject).or_default();
            known.id = id.clone();
            known.receipts.push(receipt.clone());
        }
    }
}

const SHOWN_BYTES_MAX: usize = 2_000;

fn shown_request(request: &Request) -> String {
    let mut text = format!("{} {}\n", request.method, request.target);
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text.push_str(&cut(&String::from_utf8_lossy(&request.body)));
    text
}

fn shown_response(response: &Response) -> String {
    let mut text = format!("{}\n", response.status);
    for (name, value) in &response.headers {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text.push_str(&cut(&response.text()));
    text
}

fn cut(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_BYTES_MAX).collect();
    if cut.len() < text.len() { format!("{cut}… ({} bytes)", text.len()) } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_other_text_is_left_alone() {
        let filled = fill_placeholders("a <<x>> b <<y:1>> << c", |name| format!("[{name}]"));
        assert_eq!(filled, "a [x] b [y:1] << c");
    }

    #[test]
    fn what_no_answer_told_is_something_that_exists_nowhere() {
        let memory = Memory::default();
        assert_eq!(memory.tell("etag:p|r", Position::Text, ""), NO_ETAG);
        assert_eq!(memory.tell("receipt:m1", Position::Target, ""), "AgAAAAMAAAAAAAAAOrrCKtDj1gE%3D");
        assert_eq!(memory.tell("base", Position::Text, "http://h/a"), "http://h/a");
    }
}
