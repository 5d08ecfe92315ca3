//! A queue as a worker sees it, over one signed connection.

use std::io;

use http::Method;

use crate::{Connection, Request, Response};

/// A message that was got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GotMessage {
    /// Its id.
    pub id: String,
    /// Needed to delete or update it.
    pub receipt: String,
    /// How often it has been got.
    pub dequeue_count: u32,
    /// Its text, as escaped in XML.
    pub text: String,
}

/// A connection to one queue. An answer other than success is an error of kind `Other` with status and body.
pub struct QueueConnection {
    connection: Connection,
    queue: String,
}

impl QueueConnection {
    /// Connects to a queue, which need not exist yet.
    pub fn open(endpoint: &str, queue: &str) -> io::Result<Self> {
        Ok(Self { connection: Connection::open_queue(endpoint)?, queue: queue.to_owned() })
    }

    /// Creates the queue.
    pub fn create(&mut self) -> io::Result<()> {
        self.send(Method::PUT, "", "").map(|_| ())
    }

    /// Puts a message that needs no escaping.
    pub fn put(&mut self, text: &str) -> io::Result<()> {
        let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        self.send(Method::POST, "/messages", &body).map(|_| ())
    }

    /// Gets messages and hides them from others.
    pub fn get(&mut self, count: u32, hidden_seconds: u32) -> io::Result<Vec<GotMessage>> {
        let target = format!("/messages?numofmessages={count}&visibilitytimeout={hidden_seconds}");
        let text = self.send(Method::GET, &target, "")?.text();
        text.split("<QueueMessage>").skip(1).map(parse_message).collect()
    }

    /// Deletes a message that was got.
    pub fn delete(&mut self, message: &GotMessage) -> io::Result<()> {
        let target = format!("/messages/{}?popreceipt={}", message.id, encode(&message.receipt));
        self.send(Method::DELETE, &target, "").map(|_| ())
    }

    /// Hides a message that was got for so long from now on.
    pub fn hide(&mut self, message: &GotMessage, hidden_seconds: u32) -> io::Result<()> {
        let receipt = encode(&message.receipt);
        let target =
            format!("/messages/{}?popreceipt={receipt}&visibilitytimeout={hidden_seconds}", message.id);
        self.send(Method::PUT, &target, "").map(|_| ())
    }

    /// How many messages the queue says it has.
    pub fn count(&mut self) -> io::Result<u64> {
        let response = self.send(Method::GET, "?comp=metadata", "")?;
        let count = response.header("x-ms-approximate-messages-count").and_then(|count| count.parse().ok());
        count.ok_or_else(|| io::Error::other("answer has no count"))
    }

    fn send(&mut self, method: Method, target: &str, body: &str) -> io::Result<Response> {
        let request = Request {
            method,
            target: format!("/{}{target}", self.queue),
            headers: vec![("x-ms-version", "2021-02-12".to_owned())],
            body: body.as_bytes().to_vec(),
        };
        let response = self.connection.send(&request)?;
        if response.status >= 300 {
            let Request { method, target, .. } = request;
            let text = format!("{method} {target} answered {}: {}", response.status, response.text());
            return Err(io::Error::other(text));
        }
        Ok(response)
    }
}

fn parse_message(xml: &str) -> io::Result<GotMessage> {
    let field = |name: &str| {
        let (_, rest) = xml.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text.to_owned())
    };
    let message = || {
        Some(GotMessage {
            id: field("MessageId")?,
            receipt: field("PopReceipt")?,
            dequeue_count: field("DequeueCount")?.parse().ok()?,
            text: field("MessageText")?,
        })
    };
    message().ok_or_else(|| io::Error::other(format!("message is unreadable: {xml}")))
}

fn encode(receipt: &str) -> String {
    receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}
