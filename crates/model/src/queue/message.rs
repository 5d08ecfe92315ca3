//! Messages and pop receipts.
//!
//! A pop receipt says when its message becomes visible again and how often it has changed hands, so it holds for
//! one hand only.

use std::fmt;

use crate::{DateTime, Guid};

/// Names a message for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub Guid);

impl MessageId {
    /// Reads an id; text of another form names no message.
    pub fn parse(text: &str) -> Option<Self> {
        Guid::parse(text).map(Self)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Shows that its holder was the last to get or update a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PopReceipt {
    /// When the message becomes visible.
    pub next_visible: DateTime,
    /// How often the message had been got or updated, so that no two receipts of a message are alike.
    pub changes: u32,
}

/// What the receipts of the service begin with.
const RECEIPT_FIRST: u32 = 2;
const RECEIPT_SECOND: u32 = 3;

impl PopReceipt {
    /// Its bytes, in the layout of the service; ours puts the number of changes where the service has zeros.
    pub fn to_bytes(self) -> [u8; 20] {
        let since_1601 = self.next_visible.ticks().saturating_sub(DateTime::STORABLE_MIN.ticks());
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&RECEIPT_FIRST.to_le_bytes());
        bytes[4..8].copy_from_slice(&RECEIPT_SECOND.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.changes.to_le_bytes());
        bytes[12..].copy_from_slice(&since_1601.to_le_bytes());
        bytes
    }

    /// Reads the bytes of a receipt; others can only be stale.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 20] = bytes.try_into().ok()?;
        let number = |from: usize| {
            u32::from_le_bytes([bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]])
        };
        if number(0) != RECEIPT_FIRST || number(4) != RECEIPT_SECOND {
            return None;
        }
        let since_1601 = u64::from(number(12)) | u64::from(number(16)) << 32;
        let ticks = since_1601.checked_add(DateTime::STORABLE_MIN.ticks())?;
        Some(Self { next_visible: DateTime::from_ticks(ticks)?, changes: number(8) })
    }
}

/// A message as readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// When it was put.
    pub inserted: DateTime,
    /// When it goes away by itself; `DateTime::MAX` for never.
    pub expires: DateTime,
    /// How often it has been got.
    pub dequeue_count: u32,
    /// Its text.
    pub text: String,
}

/// What whoever puts, gets or updates a message holds of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHold {
    /// Needed to update or delete it.
    pub receipt: PopReceipt,
    /// When others see it.
    pub next_visible: DateTime,
}

impl MessageHold {
    /// The hold that this receipt gives.
    pub fn of(receipt: PopReceipt) -> Self {
        Self { receipt, next_visible: receipt.next_visible }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_read_back_and_other_bytes_are_no_receipt() {
        let next_visible = DateTime::parse("2026-01-01T00:00:00.0000001Z").unwrap();
        let receipt = PopReceipt { next_visible, changes: 7 };
        let bytes = receipt.to_bytes();
        assert_eq!(PopReceipt::from_bytes(&bytes), Some(receipt));
        assert_eq!(PopReceipt::from_bytes(&bytes[..19]), None);
        for index in [0, 4, 19] {
            let mut spoilt = bytes;
            spoilt[index] ^= 0x80;
            assert_eq!(PopReceipt::from_bytes(&spoilt), None, "{index}");
        }
    }
}
