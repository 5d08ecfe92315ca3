//! Answers of the queue service as XML.

use tavola_model::{Message, MessageHold, QueuePage};

use super::options::write_pop_receipt;
use crate::xml::{PROLOGUE, escape_attribute, push, push_markup};

/// The body that answers Put Message.
pub fn message_put(message: &Message, hold: &MessageHold) -> String {
    messages(std::slice::from_ref(message), |message, out| {
        push_times(message, out);
        push_hold(hold, out);
    })
}

/// Where Get Messages puts the dequeue count: it moved with version 2016-05-31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountPosition {
    BeforeReceipt,
    BeforeText,
}

/// The body that answers Get Messages.
pub fn messages_got(got: &[(Message, MessageHold)], count_position: CountPosition) -> String {
    messages(got, |(message, hold), out| {
        push_times(message, out);
        match count_position {
            CountPosition::BeforeReceipt => {
                push_count(message, out);
                push_hold(hold, out);
            }
            CountPosition::BeforeText => {
                push_hold(hold, out);
                push_count(message, out);
            }
        }
        push_text(message, out);
    })
}

/// The body that answers Peek Messages.
pub fn messages_peeked(peeked: &[Message]) -> String {
    messages(peeked, |message, out| {
        push_times(message, out);
        push_count(message, out);
        push_text(message, out);
    })
}

/// The body that answers List Queues.
pub fn queues(page: &QueuePage, base: &str, account: &str) -> String {
    let mut out = PROLOGUE.to_owned();
    out.push_str("<EnumerationResults ServiceEndpoint=\"");
    escape_attribute(base, &mut out);
    out.push_str("\">");
    for (name, text) in [("Prefix", &page.asked.prefix), ("Marker", &page.asked.marker)] {
        if let Some(text) = text {
            push(name, text, &mut out);
        }
    }
    if let Some(max) = page.asked.max {
        push("MaxResults", &max.to_string(), &mut out);
    }
    if page.queues.is_empty() {
        out.push_str("<Queues />");
    } else {
        out.push_str("<Queues>");
        for queue in &page.queues {
            out.push_str("<Queue>");
            push("Name", queue.name.as_str(), &mut out);
            if page.asked.with_metadata {
                let mut pairs = String::new();
                queue.metadata.iter().for_each(|(name, value)| push(name, value, &mut pairs));
                push_markup("Metadata", &pairs, &mut out);
            }
            out.push_str("</Queue>");
        }
        out.push_str("</Queues>");
    }
    let next = page.next.as_ref().map(|name| format!("/{account}/{name}")).unwrap_or_default();
    push("NextMarker", &next, &mut out);
    out.push_str("</EnumerationResults>");
    out
}

fn messages<T>(items: &[T], push_item: impl Fn(&T, &mut String)) -> String {
    let mut out = PROLOGUE.to_owned();
    if items.is_empty() {
        out.push_str("<QueueMessagesList />");
        return out;
    }
    out.push_str("<QueueMessagesList>");
    for item in items {
        out.push_str("<QueueMessage>");
        push_item(item, &mut out);
        out.push_str("</QueueMessage>");
    }
    out.push_str("</QueueMessagesList>");
    out
}

fn push_times(message: &Message, out: &mut String) {
    push("MessageId", &message.id.to_string(), out);
    push("InsertionTime", &message.inserted.to_rfc1123(), out);
    push("ExpirationTime", &message.expires.to_rfc1123(), out);
}

fn push_hold(hold: &MessageHold, out: &mut String) {
    push("PopReceipt", &write_pop_receipt(hold.receipt), out);
    push("TimeNextVisible", &hold.next_visible.to_rfc1123(), out);
}

fn push_count(message: &Message, out: &mut String) {
    push("DequeueCount", &message.dequeue_count.to_string(), out);
}

fn push_text(message: &Message, out: &mut String) {
    push("MessageText", &message.text, out);
}
