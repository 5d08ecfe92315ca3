//! The part of the memory budget that an answer reserves while it is put together.

use std::sync::Arc;

use crate::service::AnswerBudget;

/// Bytes of an answer that are not counted: small answers reserve nothing.
const FREE_BYTES: usize = 8 * 1024;
/// Memory is reserved in steps of this size.
const STEP_BYTES: usize = 64 * 1024;

/// The memory that an answer reserves as it grows.
pub(crate) struct AnswerReservation {
    budget: Option<Arc<dyn AnswerBudget>>,
    bytes_reserved: usize,
    bytes: usize,
}

impl AnswerReservation {
    /// Reserves nothing yet; an answer without a budget is not counted.
    pub fn new(budget: Option<Arc<dyn AnswerBudget>>) -> Self {
        Self { budget, bytes_reserved: FREE_BYTES, bytes: 0 }
    }

    /// Takes so many bytes more; false if the budget has not as many left.
    pub fn take(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let Some(budget) = self.budget.as_ref().filter(|_| self.bytes > self.bytes_reserved) else {
            return true;
        };
        let wanted = self.bytes.next_multiple_of(STEP_BYTES);
        let is_taken = budget.take(wanted - self.bytes_reserved);
        if is_taken {
            self.bytes_reserved = wanted;
        }
        is_taken
    }
}
