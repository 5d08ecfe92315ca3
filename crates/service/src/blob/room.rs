//! Memory for an answer while it is put together.

use std::sync::Arc;

use crate::service::AnswerBudget;

/// Bytes of an answer that need no room: small answers are not counted.
const FREE_BYTES: usize = 8 * 1024;
/// Room is taken in steps of this size.
const ROOM_STEP_BYTES: usize = 64 * 1024;

/// The memory that an answer takes as it grows.
pub(crate) struct PageRoom {
    room: Option<Arc<dyn AnswerBudget>>,
    bytes_taken: usize,
    bytes: usize,
}

impl PageRoom {
    /// Room for an answer; whoever gives none is not counted.
    pub fn new(room: Option<Arc<dyn AnswerBudget>>) -> Self {
        Self { room, bytes_taken: FREE_BYTES, bytes: 0 }
    }

    /// Takes so many bytes more; false if there is no room for them.
    pub fn take(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let Some(room) = self.room.as_ref().filter(|_| self.bytes > self.bytes_taken) else { return true };
        let wanted = self.bytes.next_multiple_of(ROOM_STEP_BYTES);
        let is_taken = room.take(wanted - self.bytes_taken);
        if is_taken {
            self.bytes_taken = wanted;
        }
        is_taken
    }
}
