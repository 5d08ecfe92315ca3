//! The suite that every store of contents passes unchanged: one module per promise of [`ContentStore`].
//!
//! A store gives a [`ContentHarness`] and calls [`run`] from a test. Everything in here panics on a broken promise.
//! Errors that the contract allows are borne: the suite tries again, and where the outcome is unknown it looks.

mod bounded;
mod cancelled;
mod client;
mod constant;
mod dropped;
mod durable;
mod findable;
mod loaded;
mod unknown;
mod unnamed;
mod whole;

use std::sync::Arc;

use async_trait::async_trait;

use super::Reopen;
use crate::{ContentStore, Engine};

/// A store of contents under test, and the engine whose rows name them.
#[async_trait]
pub trait ContentHarness: Send + Sync {
    /// The store that is open now.
    fn contents(&self) -> Arc<dyn ContentStore>;

    /// The engine beside it.
    fn engine(&self) -> Arc<dyn Engine>;

    /// Ends both and opens them again on what they kept. The suite holds neither across this call.
    async fn reopen(&self, how: Reopen);

    /// Bytes that contents take now, if the store can tell. What is dropped may be counted for a while.
    async fn used_bytes(&self) -> Option<u64>;
}

/// Runs the whole suite. It makes its own runtime, so it is called from a plain test.
pub fn run(harness: &dyn ContentHarness) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        whole::check(harness).await;
        durable::check(harness).await;
        constant::check(harness).await;
        unnamed::check(harness).await;
        dropped::check(harness).await;
        bounded::check(harness).await;
        cancelled::check(harness).await;
        findable::check(harness).await;
        unknown::check(harness).await;
        loaded::check(harness).await;
    });
}
