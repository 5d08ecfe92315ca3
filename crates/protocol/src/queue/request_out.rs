//! Requests of a client to the queue service.
//!
//! Message ids and pop receipts are text here: they are opaque to clients, whichever service gave them.

use http::Method;
use tavola_model::{Metadata, QueueName, ServiceError, SignedIdentifier};

use crate::request::{Request, push_encoded};
use crate::xml;

/// What List Queues is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueQuery<'a> {
    /// What names begin with.
    pub prefix: Option<&'a str>,
    /// Where the page begins, as the page before said.
    pub marker: Option<&'a str>,
    /// How many at most on this page, up to 5,000.
    pub max: Option<u32>,
    /// Each with its metadata.
    pub with_metadata: bool,
}

/// How long a message lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageLife {
    /// Until somebody deletes it.
    Forever,
    /// At most so many seconds.
    Seconds(u32),
}

/// A message as its holder knows it.
#[derive(Clone, Copy, Debug)]
pub struct HeldMessage<'a> {
    /// Its queue.
    pub queue: &'a QueueName,
    /// Its id.
    pub id: &'a str,
    /// The pop receipt of whoever put, got or updated it last.
    pub receipt: &'a str,
}

/// List Queues.
pub fn list_queues(query: &QueueQuery<'_>) -> Request {
    let max = query.max.map(|max| max.to_string());
    request(Method::GET, "/")
        .with_parameter("comp", "list")
        .with_optional("prefix", query.prefix)
        .with_optional("marker", query.marker)
        .with_optional("maxresults", max.as_deref())
        .with_optional("include", query.with_metadata.then_some("metadata"))
}

/// Create Queue. Names of metadata are sent in lower case, as all header names.
pub fn create_queue(queue: &QueueName, metadata: &Metadata) -> Result<Request, ServiceError> {
    request(Method::PUT, queue_path(queue)).with_metadata(metadata)
}

/// Delete Queue.
pub fn delete_queue(queue: &QueueName) -> Request {
    request(Method::DELETE, queue_path(queue))
}

/// Get Queue Metadata.
pub fn get_queue_metadata(queue: &QueueName) -> Request {
    request(Method::GET, queue_path(queue)).with_parameter("comp", "metadata")
}

/// Set Queue Metadata, which replaces all of it.
pub fn set_queue_metadata(queue: &QueueName, metadata: &Metadata) -> Result<Request, ServiceError> {
    request(Method::PUT, queue_path(queue)).with_parameter("comp", "metadata").with_metadata(metadata)
}

/// Get Queue ACL.
pub fn get_queue_acl(queue: &QueueName) -> Request {
    request(Method::GET, queue_path(queue)).with_parameter("comp", "acl")
}

/// Set Queue ACL, which replaces all policies.
pub fn set_queue_acl(queue: &QueueName, identifiers: &[SignedIdentifier]) -> Request {
    let body = xml::write_acl(identifiers).trim_start_matches('\u{FEFF}').to_owned();
    request(Method::PUT, queue_path(queue)).with_parameter("comp", "acl").with_body("application/xml", body)
}

/// Put Message. `None` leaves the choice to the service: visible at once, for a week.
pub fn put_message(
    queue: &QueueName,
    text: &str,
    hidden_seconds: Option<u32>,
    life: Option<MessageLife>,
) -> Result<Request, ServiceError> {
    let hidden = hidden_seconds.map(|seconds| seconds.to_string());
    let life = life.map(|life| match life {
        MessageLife::Forever => "-1".to_owned(),
        MessageLife::Seconds(seconds) => seconds.to_string(),
    });
    let request = request(Method::POST, messages_path(queue))
        .with_optional("visibilitytimeout", hidden.as_deref())
        .with_optional("messagettl", life.as_deref());
    Ok(request.with_body("application/xml", message_body(text)?))
}

/// Get Messages. `None` leaves the choice to the service: one message, hidden for 30 seconds.
pub fn get_messages(queue: &QueueName, count: Option<u32>, hidden_seconds: Option<u32>) -> Request {
    let (count, hidden) = (count.map(|n| n.to_string()), hidden_seconds.map(|n| n.to_string()));
    request(Method::GET, messages_path(queue))
        .with_optional("numofmessages", count.as_deref())
        .with_optional("visibilitytimeout", hidden.as_deref())
}

/// Peek Messages.
pub fn peek_messages(queue: &QueueName, count: Option<u32>) -> Request {
    let count = count.map(|count| count.to_string());
    request(Method::GET, messages_path(queue))
        .with_parameter("peekonly", "true")
        .with_optional("numofmessages", count.as_deref())
}

/// Update Message: for how long it is hidden from now on, and its text unless it is to stay.
pub fn update_message(
    message: &HeldMessage<'_>,
    hidden_seconds: u32,
    text: Option<&str>,
) -> Result<Request, ServiceError> {
    let request = held(Method::PUT, message).with_parameter("visibilitytimeout", &hidden_seconds.to_string());
    Ok(match text {
        Some(text) => request.with_body("application/xml", message_body(text)?),
        None => request,
    })
}

/// Delete Message.
pub fn delete_message(message: &HeldMessage<'_>) -> Request {
    held(Method::DELETE, message)
}

/// Clear Messages.
pub fn clear_messages(queue: &QueueName) -> Request {
    request(Method::DELETE, messages_path(queue))
}

fn request(method: Method, path: impl Into<String>) -> Request {
    Request::new(method, path).with_static("accept", "application/xml")
}

fn queue_path(queue: &QueueName) -> String {
    format!("/{queue}")
}

fn messages_path(queue: &QueueName) -> String {
    format!("/{queue}/messages")
}

fn held(method: Method, message: &HeldMessage<'_>) -> Request {
    let mut path = messages_path(message.queue);
    path.push('/');
    push_encoded(message.id, &mut path);
    request(method, path).with_parameter("popreceipt", message.receipt)
}

/// The body of a message. A text that XML cannot hold would be refused, so it is not sent.
fn message_body(text: &str) -> Result<String, ServiceError> {
    if text.contains(xml::is_forbidden) {
        return Err(xml::invalid());
    }
    let mut body = String::with_capacity(text.len() + 64);
    body.push_str("<QueueMessage><MessageText>");
    xml::escape(text, &mut body);
    body.push_str("</MessageText></QueueMessage>");
    Ok(body)
}
