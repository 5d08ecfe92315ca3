//! A clock that moves only when told, forward or back.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tavola_model::{Clock, DateTime};

/// Time that stands still until it is moved.
pub struct HeldClock(AtomicU64);

impl HeldClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(DateTime::parse("2026-01-01").unwrap().ticks())))
    }

    pub fn pass_seconds(&self, seconds: u64) {
        self.pass_ms(seconds * 1000);
    }

    pub fn pass_ms(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds * 10_000, Ordering::Relaxed);
    }

    pub fn step_back_seconds(&self, seconds: u64) {
        self.0.fetch_sub(seconds * 10_000_000, Ordering::Relaxed);
    }
}

impl Clock for HeldClock {
    fn now(&self) -> DateTime {
        DateTime::from_ticks(self.0.load(Ordering::Relaxed)).unwrap()
    }
}
