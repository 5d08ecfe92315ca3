//! The suite that every engine passes unchanged: one module per promise of the contract, and a model that takes
//! them all together.
//!
//! An engine gives a [`Harness`] and calls [`run`] from a test. Everything in here panics on a broken promise.
//! Errors that the contract allows are borne: the suite tries again, and where the outcome is unknown it looks.

mod atomic;
mod client;
pub mod content;
mod dropped;
mod durable;
mod isolated;
mod loaded;
mod model;
mod order;
mod tick;
mod unknown;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tavola_model::{Clock, DateTime};

use crate::Engine;
use client::Client;

/// A store under test.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The engine that is open now.
    fn engine(&self) -> Arc<dyn Engine>;

    /// Ends the engine and opens another on what it kept. The suite holds no engine across this call.
    async fn reopen(&self, how: Reopen);

    /// The clock that every engine of this harness reads.
    fn clock(&self) -> Arc<TestClock>;
}

/// How an engine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reopen {
    /// It is closed as it should be.
    Closed,
    /// It gets no chance to close, as far as the harness can bring that about.
    Crashed,
}

/// A clock that moves when told to, and stands still otherwise.
#[derive(Debug)]
pub struct TestClock(AtomicU64);

impl TestClock {
    /// A clock that stands at noon of some day.
    pub fn new() -> Self {
        Self(AtomicU64::new(DateTime::from_unix_ticks(17_000_000_000_000_000).ticks()))
    }

    /// Moves the clock by so many ticks, back if negative.
    pub fn step(&self, ticks: i64) {
        self.0.update(Ordering::Relaxed, Ordering::Relaxed, |now| now.saturating_add_signed(ticks));
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> DateTime {
        DateTime::from_ticks(self.0.load(Ordering::Relaxed)).unwrap_or(DateTime::MAX)
    }
}

/// Runs the whole suite for rows; that for contents is [`content::run`]. It makes its own runtime, so it is called from a plain test.
pub fn run(harness: &dyn Harness) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        order::check(harness).await;
        atomic::check(harness).await;
        isolated::check(harness).await;
        durable::check(harness).await;
        tick::check(harness).await;
        unknown::check(harness).await;
        dropped::check(harness).await;
        loaded::check(harness).await;
    });
    model::check(harness, &runtime);
}
