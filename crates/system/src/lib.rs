//! The machine's clock and its source of randomness: the real ones behind the traits of `model`.
//!
//! Everything else takes a [`Clock`] and a [`RandomSource`] as arguments, so that a simulated run replays from its
//! seed. Only programs and tests name the types here.

use std::time::{SystemTime, UNIX_EPOCH};

use tavola_model::{Clock, DateTime, RandomSource};

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        DateTime::from_unix_ticks(u64::try_from(since_epoch.as_nanos() / 100).unwrap_or(u64::MAX))
    }
}

/// The source of randomness of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl RandomSource for SystemRandom {
    fn bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the system has a source of random bytes");
        bytes
    }
}
