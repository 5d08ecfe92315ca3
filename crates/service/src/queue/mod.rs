//! The Queue service: queues and their messages.
//!
//! A queue is a row of the catalog and a space of its own with one partition, so that every change of a message
//! is one transaction. `rows.rs` says what is in that space and why no reader ever has to pass what was deleted.

mod clock;
mod execute;
mod get;
mod inspect;
mod live;
mod messages;
mod queues;
mod rows;
mod tidy;

use std::sync::Arc;
use std::time::Duration;

use tavola_engine::Engine;
use tavola_model::{Clock, RandomSource};

use crate::catalog::Catalog;
pub use inspect::InspectedMessage;
use live::LiveQueues;

/// The queues of all accounts.
pub(crate) struct Queues {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    catalog: Arc<Catalog>,
    live: LiveQueues,
    /// For how long after its deletion the name of a queue is held back.
    delete_delay: Duration,
}

impl Queues {
    pub fn new(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        catalog: Arc<Catalog>,
        delete_delay: Duration,
    ) -> Self {
        Self { engine, clock, random, catalog, live: LiveQueues::default(), delete_delay }
    }
}
