//! Every maximum of the queue service. Limits that are ours say so.

/// Bytes of the body of a request to the queue service (ours): a message of 64 KiB is longer as XML.
pub const QUEUE_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of the text of a message
/// (<https://learn.microsoft.com/rest/api/storageservices/put-message>); the same page has the next two.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Seconds that a message can be hidden at once.
pub const MESSAGE_HIDDEN_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// Seconds that a message lives if its client does not say; before version 2017-07-29 also the most it can say.
pub const MESSAGE_LIFE_SECONDS_DEFAULT: u32 = 7 * 24 * 60 * 60;
/// Seconds that a message is hidden after a get that does not say.
pub const MESSAGE_HIDDEN_SECONDS_DEFAULT: u32 = 30;
/// Messages of one get or peek
/// (<https://learn.microsoft.com/rest/api/storageservices/get-messages>).
pub const MESSAGES_MAX: u32 = 32;
/// Queues on one page
/// (<https://learn.microsoft.com/rest/api/storageservices/list-queues1>).
pub const QUEUES_PAGE_MAX: u32 = 5000;
