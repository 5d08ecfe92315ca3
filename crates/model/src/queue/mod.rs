//! The nouns of the queue service.

mod command;
mod limits;
mod message;
mod name;
mod outcome;

pub use command::{
    GetMessages, ListQueues, MessageRef, PeekMessages, PutMessage, QueueCommand, UpdateMessage,
};
pub use limits::*;
pub use message::{Message, MessageHold, MessageId, PopReceipt};
pub use name::QueueName;
pub use outcome::{ListedQueue, QueueOutcome, QueuePage, QueueWas};
