//! Ids of requests and batch boundaries: unique and unlike each other, but no secrets, so no system call for each.

use std::sync::atomic::{AtomicU64, Ordering};

use tavola_model::{Guid, RandomSource};

/// A source of ids that starts somewhere else in every process.
#[derive(Debug)]
pub struct Ids {
    counter: AtomicU64,
}

impl Ids {
    /// Starts at a random count.
    pub fn new(random: &dyn RandomSource) -> Self {
        Self { counter: AtomicU64::new(u64::from_le_bytes(random.bytes())) }
    }

    /// The next id.
    pub fn next(&self) -> Guid {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&mix(count).to_le_bytes());
        bytes[8..].copy_from_slice(&mix(!count).to_le_bytes());
        Guid(bytes)
    }

    /// The next id in the form the service gives to requests: it ends in six zeros.
    pub fn next_request(&self) -> Guid {
        let Guid(mut bytes) = self.next();
        bytes[13..].fill(0);
        Guid(bytes)
    }
}

/// The finalizer of SplitMix64: one to one, and every bit of the result depends on every bit given.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl RandomSource for Fixed {
        fn bytes(&self) -> [u8; 8] {
            [7; 8]
        }
    }

    #[test]
    fn ids_differ_and_those_of_requests_end_in_zeros() {
        let ids = Ids::new(&Fixed);
        let mut seen: Vec<String> = (0..1000).map(|_| ids.next_request().to_string()).collect();
        assert!(seen.iter().all(|id| id.ends_with("000000") && id.len() == 36));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 1000);
    }
}
