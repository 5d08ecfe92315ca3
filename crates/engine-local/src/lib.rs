//! The embedded engine: the storage contract on one machine's disk.
//!
//! A write goes down this list once: `engine` orders it within its partition and lets `decide` choose the
//! changes; `overlay` shows them to the next writer of the partition; `queue` holds them; `commit` makes all that
//! are waiting durable with one sync and answers them. Reads see only what is durable. `merge` keeps the number of files
//! small that a read has to look into.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use tavola_engine::{Engine, SpaceId};
//! use tavola_engine_local::{LocalEngine, LocalSettings};
//! use tavola_system::SystemClock;
//!
//! let engine = LocalEngine::open(LocalSettings::new("data"), Arc::new(SystemClock))?;
//! let row = engine.get(SpaceId::CATALOG, b"partition", b"row").await?;
//! # Ok(())
//! # }
//! ```

mod backup;
mod commit;
mod disk;
mod engine;
mod folder;
mod journal;
mod merge;
mod overlay;
mod queue;
mod row;
mod settings;
mod store;
mod verify;

pub use backup::{BackupError, BackupReport};
pub use engine::LocalEngine;
pub use folder::OpenError;
pub use settings::LocalSettings;
pub use verify::{VerifyReport, verify};
