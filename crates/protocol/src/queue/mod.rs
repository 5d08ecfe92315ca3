//! The wire format of the queue service: XML bodies with a byte order mark, errors with their details.
//!
//! The steps have the names they have for tables: `route`, `decode` and `encode` of a server, `request_out` and
//! `answer_in` of a client.

mod answer_in;
mod decode;
mod encode;
mod options;
mod request_out;
mod route;
mod write;

pub use answer_in::{
    FoundQueue, MessageReceipt, PeekedMessage, PutResult, QueueCreation, QueueMetadata, QueuesPage,
    message_put, message_updated, messages_got, messages_peeked, queue_acl_fetched, queue_created,
    queue_done, queue_metadata_fetched, queues_listed,
};
pub use decode::{QueueRequest, decode};
pub(crate) use encode::{SERVER, encode_error, encode_outcome, sender_of};
pub use options::write_pop_receipt;
pub use request_out::{
    HeldMessage, MessageLife, QueueQuery, clear_messages, create_queue, delete_message, delete_queue,
    get_messages, get_queue_acl, get_queue_metadata, list_queues, peek_messages, put_message, set_queue_acl,
    set_queue_metadata, update_message,
};
pub use route::{QueueRoute, route};
