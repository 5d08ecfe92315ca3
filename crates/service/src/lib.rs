//! What each command means.
//!
//! A [`Service`] takes commands that `auth` has permitted and turns them into rows and back, on any engine.
//! Every write is one `transact` whose `decide` is a pure function here, so preconditions, limits, merging and
//! the failing index of a transaction are the same whatever the engine.
//!
//! ```
//! # use std::sync::Arc;
//! # use tavola_system::{SystemClock, SystemRandom};
//! # use tavola_engine::MemoryEngine;
//! use tavola_service::{Service, ServiceSettings};
//! let clock = Arc::new(SystemClock);
//! let service = Service::new(Arc::new(MemoryEngine::new(clock.clone())), clock, Arc::new(SystemRandom), ServiceSettings::default());
//! ```

mod blob;
mod catalog;
mod codec;
pub mod cors;
mod execute;
mod failure;
mod lease;
mod long_reads;
mod low_priority;
mod properties;
mod queue;
mod service;
mod settings;
mod table;

pub use blob::{BlobContents, ScrubPace, ScrubReport};
pub use queue::InspectedMessage;
pub use service::{AnswerBudget, Executed, Service};
pub use settings::ServiceSettings;
pub use table::{Plan, plan};
pub use tavola_engine::{ByteSource, PIECE_BYTES_MAX, SourceError};
