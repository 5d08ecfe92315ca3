//! Answers of the queue service to what they tell a client.

use http::StatusCode;
use tavola_model::{DateTime, SignedIdentifier};

use crate::answer_in::{Answer, AnswerError};
use crate::xml::{self, Element};

/// One page of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuesPage {
    /// The queues, by name.
    pub queues: Vec<FoundQueue>,
    /// The marker of the next page.
    pub next_marker: Option<String>,
}

/// A queue in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundQueue {
    /// Its name.
    pub name: String,
    /// Its metadata, in the case in which it was written; `None` where it was not asked for.
    pub metadata: Option<Vec<(String, String)>>,
}

/// What Create Queue did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueCreation {
    /// The queue is new.
    Created,
    /// It was there with the same metadata.
    Unchanged,
}

/// What Get Queue Metadata told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMetadata {
    /// How many messages there are, about.
    pub message_count: Option<u64>,
    /// Names in lower case, with their values, by name.
    pub metadata: Vec<(String, String)>,
}

/// A message as Peek Messages tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekedMessage {
    /// Its id.
    pub id: String,
    /// When it was put.
    pub inserted: DateTime,
    /// When it goes away by itself.
    pub expires: DateTime,
    /// How often it has been got.
    pub dequeue_count: u32,
    /// Its text.
    pub text: String,
}

/// What the holder of a message needs to update or delete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageReceipt {
    /// The pop receipt.
    pub receipt: String,
    /// When others see the message.
    pub next_visible: DateTime,
}

/// What Put Message gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutResult {
    /// The id of the message.
    pub id: String,
    /// When it was put.
    pub inserted: DateTime,
    /// When it goes away by itself.
    pub expires: DateTime,
    /// The hold of whoever put it.
    pub hold: MessageReceipt,
}

/// What List Queues gave.
pub fn queues_listed(answer: &Answer<'_>) -> Result<QueuesPage, AnswerError> {
    let root = document(answer, "EnumerationResults")?;
    let list = root.child("Queues").ok_or_else(|| answer.unreadable("the list has no queues"))?;
    let queues = list.children.iter().map(|queue| {
        let name = queue.child_text("Name").ok_or_else(|| answer.unreadable("a queue has no name"))?;
        let pairs = |element: &Element| {
            element.children.iter().map(|pair| (pair.name.clone(), pair.text.clone())).collect()
        };
        Ok(FoundQueue { name: name.to_owned(), metadata: queue.child("Metadata").map(pairs) })
    });
    let next = root.child_text("NextMarker").filter(|marker| !marker.is_empty());
    Ok(QueuesPage { queues: queues.collect::<Result<_, _>>()?, next_marker: next.map(str::to_owned) })
}

/// What Create Queue did.
pub fn queue_created(answer: &Answer<'_>) -> Result<QueueCreation, AnswerError> {
    answer.expect(&[StatusCode::CREATED, StatusCode::NO_CONTENT])?;
    Ok(if answer.status == StatusCode::CREATED { QueueCreation::Created } else { QueueCreation::Unchanged })
}

/// Whether an operation that gives nothing succeeded: Delete Queue, Set Queue Metadata, Set Queue ACL, Delete Message,
/// Clear Messages.
pub fn queue_done(answer: &Answer<'_>) -> Result<(), AnswerError> {
    answer.expect(&[StatusCode::NO_CONTENT])
}

/// What Get Queue Metadata gave.
pub fn queue_metadata_fetched(answer: &Answer<'_>) -> Result<QueueMetadata, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    let count = answer.header("x-ms-approximate-messages-count");
    let mut metadata: Vec<(String, String)> = Vec::new();
    for (name, value) in answer.headers {
        if let Some(name) = name.as_str().strip_prefix("x-ms-meta-") {
            let value = String::from_utf8_lossy(value.as_bytes());
            metadata.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    metadata.sort();
    Ok(QueueMetadata { message_count: count.and_then(|count| count.trim().parse().ok()), metadata })
}

/// What Get Queue ACL gave.
pub fn queue_acl_fetched(answer: &Answer<'_>) -> Result<Vec<SignedIdentifier>, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    xml::read_acl(answer.text()?).ok_or_else(|| answer.unreadable("the body holds no identifiers"))
}

/// What Put Message gave; `None` from a service of a version that tells nothing.
pub fn message_put(answer: &Answer<'_>) -> Result<Option<PutResult>, AnswerError> {
    answer.expect(&[StatusCode::CREATED])?;
    if answer.body.is_empty() {
        return Ok(None);
    }
    let root = document(answer, "QueueMessagesList")?;
    let [message] = root.children.as_slice() else {
        return Err(answer.unreadable("the body does not hold one message"));
    };
    let message = MessageReader { answer, message };
    Ok(Some(PutResult {
        id: message.text("MessageId")?.to_owned(),
        inserted: message.time("InsertionTime")?,
        expires: message.time("ExpirationTime")?,
        hold: message.hold()?,
    }))
}

/// What Get Messages gave.
pub fn messages_got(answer: &Answer<'_>) -> Result<Vec<(PeekedMessage, MessageReceipt)>, AnswerError> {
    let root = document(answer, "QueueMessagesList")?;
    let got = root.children.iter().map(|message| {
        let message = MessageReader { answer, message };
        Ok((message.peeked()?, message.hold()?))
    });
    got.collect()
}

/// What Peek Messages gave.
pub fn messages_peeked(answer: &Answer<'_>) -> Result<Vec<PeekedMessage>, AnswerError> {
    let root = document(answer, "QueueMessagesList")?;
    root.children.iter().map(|message| MessageReader { answer, message }.peeked()).collect()
}

/// What Update Message gave.
pub fn message_updated(answer: &Answer<'_>) -> Result<MessageReceipt, AnswerError> {
    answer.expect(&[StatusCode::NO_CONTENT])?;
    let receipt = answer.header("x-ms-popreceipt");
    let visible = answer.header("x-ms-time-next-visible").and_then(DateTime::parse_rfc1123);
    let (Some(receipt), Some(next_visible)) = (receipt, visible) else {
        return Err(answer.unreadable("the new receipt of the message is missing"));
    };
    Ok(MessageReceipt { receipt: receipt.to_owned(), next_visible })
}

fn document(answer: &Answer<'_>, root: &'static str) -> Result<Element, AnswerError> {
    answer.expect(&[StatusCode::OK, StatusCode::CREATED])?;
    let element = xml::read_answer(answer.text()?).filter(|element| element.name == root);
    element.ok_or_else(|| answer.unreadable("the body is not the document of the operation"))
}

/// One message of an answer.
struct MessageReader<'a> {
    answer: &'a Answer<'a>,
    message: &'a Element,
}

impl MessageReader<'_> {
    fn peeked(&self) -> Result<PeekedMessage, AnswerError> {
        let text = self.message.child("MessageText");
        Ok(PeekedMessage {
            id: self.text("MessageId")?.to_owned(),
            inserted: self.time("InsertionTime")?,
            expires: self.time("ExpirationTime")?,
            dequeue_count: self.text("DequeueCount")?.parse().map_err(|_| self.unreadable())?,
            text: text.ok_or_else(|| self.unreadable())?.text.clone(),
        })
    }

    fn hold(&self) -> Result<MessageReceipt, AnswerError> {
        let receipt = self.text("PopReceipt")?.to_owned();
        Ok(MessageReceipt { receipt, next_visible: self.time("TimeNextVisible")? })
    }

    fn time(&self, name: &str) -> Result<DateTime, AnswerError> {
        DateTime::parse_rfc1123(self.text(name)?).ok_or_else(|| self.unreadable())
    }

    fn text(&self, name: &str) -> Result<&str, AnswerError> {
        self.message.child_text(name).ok_or_else(|| self.unreadable())
    }

    fn unreadable(&self) -> AnswerError {
        self.answer.unreadable("a message lacks an element, or it cannot be read")
    }
}
