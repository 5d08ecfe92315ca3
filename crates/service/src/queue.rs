//! The Queue service: queues and their messages.
//!
//! A queue is a row of the catalog and a space of its own with one partition, so that every change of a message
//! is one transaction. `rows.rs` says what is in that space and why no reader ever has to pass what was deleted.

mod catalog;
mod clock;
mod execute;
mod get;
mod live;
mod messages;
mod record;
mod rows;
mod tidy;

pub(crate) use catalog::Queues;
pub(crate) use record::{QUEUE_ROW, decode_queue};
