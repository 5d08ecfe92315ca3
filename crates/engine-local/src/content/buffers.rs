//! Memory for pieces of contents on their way out, of all reads together.
//!
//! What was sent last is used first: it is still in the processor's cache.

use std::sync::{Arc, Mutex, PoisonError};

use tavola_engine::PIECE_BYTES_MAX;

/// Buffers that wait for the next piece.
const BUFFERS_KEPT: usize = 8;

/// Memory of pieces that have been sent, for the next ones.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

/// A piece whose memory goes back when it has been sent.
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    home: Arc<Buffers>,
}

impl Buffers {
    /// A buffer for a whole piece, with anything in it.
    pub(crate) fn take(self: &Arc<Self>) -> Buffer {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Buffer { bytes: bytes.unwrap_or_else(|| vec![0; PIECE_BYTES_MAX]), home: self.clone() }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut buffers = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < BUFFERS_KEPT {
            buffers.push(bytes);
        }
    }
}
